"""Suspended code, kept while its approval waits."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from datetime import timedelta

from signoff.broker.change import Change
from signoff.broker.ledger import Ledger
from signoff.core.errors import Conflict

_KEYS = "snapshot:"
_KEPT = timedelta(days=400)
"""A run that nobody resumes any more leaves its last snapshot behind for so long."""


async def keep(ledger: Ledger, sealed: str) -> str:
    """Keep a sealed snapshot, and return its name: a function of it, so that twice is once.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    name = hashlib.sha256(sealed.encode()).hexdigest()
    with suppress(Conflict):
        await ledger.commit(Change().put_raw(_KEYS + name, sealed, ttl=_KEPT))
    return name


async def fetch(ledger: Ledger, name: str) -> str:
    """Return a snapshot, "" where it is not there.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    [record] = await ledger.store.read([_KEYS + name])
    return "" if record is None else record[1]


async def drop(ledger: Ledger, name: str) -> None:
    """Forget a snapshot whose code has gone on, and has stopped again or come to its end.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    with suppress(Conflict):
        await ledger.commit(Change().put_raw(_KEYS + name, "", was=1))
