"""Epochs: every session of a person is of one, and all of them end when another begins."""

from __future__ import annotations

import secrets
from typing import Final

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger

_KEYS: Final = "epoch:"


async def epoch_of(ledger: Ledger, person: str) -> str:
    """Return what a session of this person must have been begun under, "" for the first epoch."""
    record = await ledger.raw(_KEYS + person)
    return record[1] if record is not None else ""


async def begin_epoch(ledger: Ledger, change: Change, person: str) -> Change:
    """Add to a change that all sessions of a person end with it.

    Committing it raises `Conflict` where another epoch has begun meanwhile.
    """
    record = await ledger.raw(_KEYS + person)
    was = record[0] if record is not None else 0
    return change.put_raw(_KEYS + person, secrets.token_hex(8), was=was)
