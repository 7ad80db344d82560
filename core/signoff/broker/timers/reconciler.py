"""The reconciler: does what has become due, and rings doorbells again that nobody answered.

Any number of processes may run it and none is special: what is due is claimed under a lease, and
every step is a compare-and-set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from signoff.broker.directory.roster import Roster
from signoff.broker.effects import Cards
from signoff.broker.ledger.search_index import SearchIndex
from signoff.broker.timers.departures import Departures
from signoff.broker.timers.due_approvals import LEASE, DueApprovals
from signoff.broker.timers.lag import lag
from signoff.core.base.errors import LedgerError

log = structlog.get_logger(__name__)

_WARN = 30.0
_LOOK = 5.0
_EXTEND = 30.0


class Reconciler:
    """Works through the due index, rings where work waits and adds to the index of searches.

    Args:
        roster: The people and the rotations.
        cards: Makes cards, where the channels are at hand; see `Due`.
        cycle: Seconds between two looks.
        lease: Seconds after which others take up what a process that died had claimed.
    """

    def __init__(
        self,
        roster: Roster,
        *,
        cards: Cards | None = None,
        cycle: float = 0.5,
        lease: float = LEASE,
    ) -> None:
        self._ledger = roster.ledger
        self._due = DueApprovals(roster, cards=cards, lease=lease)
        self._departures = Departures(roster)
        self._searches = SearchIndex(self._ledger)
        self._cycle = cycle

    async def run_forever(self) -> None:
        """Look again and again until cancelled; a ledger that is away is waited for."""
        async with asyncio.TaskGroup() as group:
            # Apart: while very much is due, the bells of the other stages are rung all the same.
            group.create_task(self._again_and_again(self._due.once))
            group.create_task(self._again_and_again(self._ledger.ring_overdue))
            group.create_task(self._again_and_again(self._warn, cycle=_WARN))
            group.create_task(self._again_and_again(self._departures.once, cycle=_LOOK))
            group.create_task(self._again_and_again(self._searches.extend, cycle=_EXTEND))

    async def once(self) -> int:
        """Do what is due now, ring where work waits, and return how many were due."""
        count = await self._due.once()
        await self._ledger.ring_overdue()
        return count

    async def _warn(self) -> None:
        found = await lag(self._ledger)
        if found.problem:
            late = round(found.late.total_seconds())
            log.warning("timers.late", seconds=late, approval=found.approval)

    async def _again_and_again(
        self, look: Callable[[], Awaitable[object]], *, cycle: float | None = None
    ) -> None:
        while True:
            try:
                await look()
            except LedgerError as error:
                log.warning("reconciler.ledger_unavailable", error=str(error))
            await asyncio.sleep(self._cycle if cycle is None else cycle)
