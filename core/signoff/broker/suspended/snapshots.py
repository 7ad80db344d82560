"""Snapshots of suspended code, stored while its approval is pending."""

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
"""How long the last snapshot of a run that is never resumed is stored."""


async def keep(ledger: Ledger, sealed: str) -> str:
    """Store a sealed snapshot, and return its name, which is its hash.

    Each line after the first is stored under its own name, because many snapshots have it in
    common: there is one for each version of the sandbox. `drop` does not delete these lines.

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
    """Return a snapshot, "" if it or one of its shared lines is missing.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    [record] = await ledger.store.read([_KEYS + name])
    if record is None:
        return ""
    own, *names = record[1].split("\n")
    shared = [
        one[1]
        for one in await ledger.store.read([_SHARED + one for one in names])
        if one is not None
    ]
    return "\n".join([own, *shared]) if len(shared) == len(names) else ""


async def drop(ledger: Ledger, name: str) -> None:
    """Delete a snapshot whose code has been resumed, and has stopped again or ended.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    with suppress(Conflict):
        await ledger.commit(Change().put_raw(_KEYS + name, "", was=1))


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
