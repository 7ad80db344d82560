"""Journals of the calls that code makes while it runs.

The code runs in stretches, from one suspension to the next. A journal is stored until the end of
its stretch is in the session.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.base.errors import Conflict

_KEYS: Final = "journal:"
_KEPT: Final = timedelta(days=400)
"""How long the journal of a stretch that is never resumed is stored; as for snapshots."""

_BATCH: Final = 32


@dataclass(slots=True)
class Journal:
    """The entries of one stretch, each in its own record, in the order in which they began.

    Attributes:
        ledger: The ledger.
        name: The name from `name_of`, by which another worker finds the entries.
        fence: Adds the condition to a change that the session's lease is still held.
    """

    ledger: Ledger
    name: str
    fence: Callable[[Change], Change]
    _versions: list[int] = field(default_factory=list)
    _adding: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def read(self) -> list[dict[str, Any]]:
        """Return the entries.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        found: list[tuple[int, str]] = []
        while True:
            keys = [self._key(len(found) + place) for place in range(_BATCH)]
            batch = await self.ledger.store.read(keys)
            there = [one for one in batch if one is not None]
            found += there
            if len(there) < _BATCH:
                break
        self._versions = [version for version, _ in found]
        return [json.loads(text) for _, text in found]

    async def add(self, entry: Mapping[str, Any]) -> int:
        """Append an entry, and return its place.

        Raises:
            Conflict, LeaseLost: See `Ledger.commit`. The entry was not written.
            LedgerUnavailable: Redis cannot be reached. The entry may have been written.
        """
        # One at a time, even for parallel calls: a gap would shift the entries after it.
        async with self._adding:
            place = len(self._versions)
            await self.ledger.commit(self._entry(place, 0, entry))
            self._versions.append(1)
            return place

    async def change(self, place: int, entry: Mapping[str, Any]) -> None:
        """Replace an entry, for example with the result of the call.

        Raises:
            Conflict, LeaseLost: See `Ledger.commit`. The entry is unchanged.
            LedgerUnavailable: See `Ledger.insist`. The entry may have been replaced.
        """
        change = self._entry(place, self._versions[place], entry)
        await self.ledger.insist(partial(self.ledger.commit, change))
        self._versions[place] += 1

    async def drop(self) -> None:
        """Delete all entries.

        Raises:
            LeaseLost, LedgerUnavailable: See `Ledger.commit`. The entries then expire.
        """
        change = Change()
        for place, version in enumerate(self._versions):
            change.put_raw(self._key(place), "", was=version)
        if self._versions:
            with suppress(Conflict):
                await self.ledger.commit(self.fence(change))
        self._versions = []

    def _entry(self, place: int, was: int, entry: Mapping[str, Any]) -> Change:
        text = json.dumps(entry)
        return self.fence(Change().put_raw(self._key(place), text, was=was, ttl=_KEPT))

    def _key(self, place: int) -> str:
        return f"{_KEYS}{self.name}:{place}"


def name_of(*stretch: str) -> str:
    """Return the name of a stretch's journal, given the texts that identify the stretch."""
    return hashlib.sha256(json.dumps(stretch).encode()).hexdigest()
