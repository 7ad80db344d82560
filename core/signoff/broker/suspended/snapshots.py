"""Suspended code, kept while its approval waits."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from datetime import timedelta

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.base.errors import Conflict

_KEYS = "snapshot:"
_SHARED = "sandbox:"
_KEPT = timedelta(days=400)
"""A run that nobody resumes any more leaves its last snapshot behind for so long."""


async def keep(ledger: Ledger, sealed: str) -> str:
    """Keep a sealed snapshot, and return its name: a function of it, so that twice is once.

    Its first line is kept separately. Each further one is kept under its own name: many snapshots
    have the same, so there is one for each version of the sandbox, and it outlives them.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    own, *shared = sealed.split("\n")
    names = [_name(one) for one in shared]
    async with ledger.store.translated_client() as client:
        there = [await client.expire(ledger.store.prefix + _SHARED + one, _KEPT) for one in names]
    for name, text, kept in zip(names, shared, there, strict=True):
        if not kept:
            with suppress(Conflict):
                await ledger.commit(Change().put_raw(_SHARED + name, text, ttl=_KEPT))
    name = _name(sealed)
    with suppress(Conflict):
        text = "\n".join([own, *names])
        await ledger.commit(Change().put_raw(_KEYS + name, text, ttl=_KEPT))
    return name


async def fetch(ledger: Ledger, name: str) -> str:
    """Return a snapshot, "" where it is not there.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    [record] = await ledger.store.read([_KEYS + name])
    if record is None:
        return ""
    own, *names = record[1].split("\n")
    shared = await ledger.store.read([_SHARED + one for one in names])
    return "\n".join([own, *(one[1] for one in shared if one is not None)])


async def drop(ledger: Ledger, name: str) -> None:
    """Forget a snapshot whose code has gone on, and has stopped again or come to its end.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    with suppress(Conflict):
        await ledger.commit(Change().put_raw(_KEYS + name, "", was=1))


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
