"""Cleans up after expired records: their index entries, and dead letters without an expiry."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from signoff.broker.ledger.change import DEAD, DEAD_LETTERS_KEPT, Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.timers.poison import STUCK
from signoff.core.base.errors import LedgerError

log = structlog.get_logger(__name__)

CYCLE: Final = 3600.0
_BATCH: Final = 500

EXPIRING: Final = {
    "quarantine": "quarantine:",
    "logins:": "login:",
    DEAD: f"{DEAD}:",
    STUCK: f"{STUCK}:",
}
"""The prefixes of indexes of expiring records, and of the keys of these records."""


class Leftovers:
    """Removes what expired records leave behind."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def run_forever(self) -> None:
        """Clean up every hour until cancelled; retry if the ledger is unavailable."""
        while True:
            try:
                await self.once()
            except LedgerError as error:
                log.warning("leftovers.ledger_unavailable", error=str(error))
            await asyncio.sleep(CYCLE)

    async def once(self) -> int:
        """Clean up once, and return how many index entries were deleted.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        count = 0
        for start, records in EXPIRING.items():
            for index in await self._ledger.store.keys(start, "zset"):
                count += await self._drop(index, records)
        prefix = self._ledger.store.prefix
        # Records of earlier releases are not in the index, or have no expiry.
        for index in (DEAD, STUCK):
            known = {*await self._ledger.store.members(index)}
            for key in await self._ledger.store.keys(f"{index}:", "string"):
                name = key.removeprefix(f"{index}:")
                async with self._ledger.store.translated_client() as client:
                    if name not in known:
                        await client.zadd(prefix + index, {name: 0})
                    if await client.ttl(prefix + key) == -1:
                        await client.expire(prefix + key, DEAD_LETTERS_KEPT)
        return count

    async def _drop(self, index: str, records: str) -> int:
        members, count = await self._ledger.store.members(index), 0
        for start in range(0, len(members), _BATCH):
            page = members[start : start + _BATCH]
            there = await self._ledger.store.read([records + one for one in page])
            over = [one for one, record in zip(page, there, strict=True) if record is None]
            # The commit fails if the record exists again.
            await self._ledger.commit_all(
                [Change().put_raw(records + one, "", drop=[(index, one, 0)]) for one in over]
            )
            count += len(over)
        return count
