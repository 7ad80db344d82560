"""The reconciler: makes due changes, and repeats doorbells that no worker answered.

Any number of processes may run it, and all are equal: due approvals are claimed under a lease, and
every step is a compare-and-set.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Final

import structlog

from signoff.broker.directory.roster import Roster
from signoff.broker.effects import Cards
from signoff.broker.ledger.search_index import SearchIndex
from signoff.broker.timers.departures import Departures
from signoff.broker.timers.due_approvals import HEARS, LEASE, DueApprovals
from signoff.broker.timers.lag import lag
from signoff.broker.timers.packer import EVERY, Packer
from signoff.broker.timers.ticks import tick, until_tick
from signoff.core.base.errors import LedgerError

log = structlog.get_logger(__name__)

REST: Final = 5.0
"""Seconds after which an idle process checks for work of others whose ring was lost."""

_WARN = 30.0
_LOOK = 5.0
_EXTEND = 30.0


class Reconciler:
    """Makes due changes, rings for waiting work, extends the search index, and packs old records.

    It checks the ledger when something becomes due, shortly after this process did something, and
    otherwise every `REST` seconds. That is enough, because a gateway or a command rings a bell when
    it adds work, and the process that receives the ring then checks.

    Args:
        roster: The people and the rotations.
        cards: Makes cards, in a process with channels; see `DueChanges`.
        cycle: Seconds between checks while this process works.
        lease: Seconds after which other processes take over the claims of a process that died.
        hears: See `DueApprovals`.
        pack_after: See `Packer`; None packs nothing.
    """

    def __init__(
        self,
        roster: Roster,
        *,
        cards: Cards | None = None,
        cycle: float = 0.5,
        lease: float = LEASE,
        hears: timedelta | None = HEARS,
        pack_after: timedelta | None = None,
    ) -> None:
        self._ledger = roster.ledger
        self._due = DueApprovals(roster, cards=cards, lease=lease, hears=hears)
        self._departures = Departures(roster)
        self._searches = SearchIndex(self._ledger)
        self._cycle = cycle
        self._packer = Packer(self._ledger, pack_after) if pack_after is not None else None
        self._is_due = asyncio.Event()

    async def run_forever(self) -> None:
        """Run until cancelled; retry if the ledger is unavailable."""
        async with asyncio.TaskGroup() as group:
            # Separate tasks, so that bells are rung even while many approvals are due.
            group.create_task(self._repeat(self._due_again, self._is_due.wait))
            group.create_task(self._watch())
            for work, every in (
                (self._warn, _WARN),
                (self._departures.once, _LOOK),
                (self._searches.extend, _EXTEND),
            ):
                group.create_task(self._repeat(work, partial(tick, every)))
            if self._packer is not None:
                group.create_task(self._repeat(self._packer.again, partial(tick, EVERY)))

    async def once(self) -> int:
        """Make the due changes, ring for waiting work, and return how many approvals were due."""
        count = await self._due.once()
        await self._ledger.look()
        return count

    async def _watch(self) -> None:
        """Check the ledger whenever there may be something to do."""
        while True:
            wait = self._cycle
            # Cleared before the check, so that later activity of this process causes another one.
            self._ledger.active.clear()
            with _logged():
                found = await self._ledger.look()
                self._due.awake()
                if found.due:
                    self._is_due.set()
                else:
                    wait = found.wait
            await self._until_active(wait)

    async def _until_active(self, wait: float) -> None:
        """Sleep for a time, until the next tick, or until shortly after this process was active."""
        # Without jitter, processes that wait for the same moment would always check in one order.
        wait += random.uniform(0, self._cycle / 5)  # noqa: S311 -- jitter
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(wait, until_tick(REST))):
                await self._ledger.active.wait()
                await asyncio.sleep(self._cycle)

    async def _due_again(self) -> None:
        self._is_due.clear()
        await self._due.once()

    async def _warn(self) -> None:
        found = await lag(self._ledger)
        if found.problem:
            late = round(found.late.total_seconds())
            log.warning("timers.late", seconds=late, approval=found.approval)

    async def _repeat(
        self, work: Callable[[], Awaitable[object]], pause: Callable[[], Awaitable[object]]
    ) -> None:
        while True:
            with _logged():
                await work()
            await pause()


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    """Log that the ledger is unavailable; the caller retries."""
    try:
        yield
    except LedgerError as error:
        log.warning("reconciler.ledger_unavailable", error=str(error))
