"""Epochs: every session belongs to one, and a new epoch ends all sessions of a person."""

from __future__ import annotations

import secrets
from typing import Final

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger

_KEYS: Final = "epoch:"


async def epoch_of(ledger: Ledger, person: str) -> str:
    """Return the current epoch of a person, "" for the first one."""
    record = await ledger.raw(_KEYS + person)
    return record[1] if record is not None else ""


async def begin_epoch(ledger: Ledger, change: Change, person: str) -> Change:
    """Add a new epoch to a change, which ends all sessions of a person.

    The commit raises `Conflict` if another epoch has begun meanwhile.
    """
    record = await ledger.raw(_KEYS + person)
    was = record[0] if record is not None else 0
    return change.put_raw(_KEYS + person, secrets.token_hex(8), was=was)
