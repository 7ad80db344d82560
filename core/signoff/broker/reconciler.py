"""The clockwork: deadlines that have come, and bells that nobody heard.

Any number of processes may run it and none is special: what is due is claimed under a lease, and
every step is a compare-and-set.
"""

from __future__ import annotations

import asyncio

import structlog

from signoff.broker.desk import Desk
from signoff.core.errors import LedgerError, LedgerUnavailable

log = structlog.get_logger(__name__)


class Reconciler:
    """Works through the due index and rings where work waits.

    Args:
        desk: Ends what is due.
        cycle: Seconds between two looks.
    """

    def __init__(self, desk: Desk, *, cycle: float = 0.5) -> None:
        self._desk = desk
        self._cycle = cycle

    async def run_forever(self) -> None:
        """Look again and again until cancelled; a ledger that is away is waited for."""
        while True:
            try:
                await self.once()
            except LedgerError as error:
                log.warning("reconciler.ledger_unavailable", error=str(error))
            await asyncio.sleep(self._cycle)

    async def once(self) -> int:
        """Do what is due now, ring where work waits, and return how many were due."""
        ledger, count = self._desk.ledger, 0
        while due := await ledger.due():
            for approval_id in due:
                await self._one(approval_id)
            count += len(due)
        await ledger.ring_overdue()
        return count

    async def _one(self, approval_id: str) -> None:
        try:
            approval = await self._desk.time_out(approval_id)
        except LedgerUnavailable:
            raise
        except Exception as error:
            # One approval that cannot be ended does not keep the others from it.
            log.exception("reconciler.failed", approval=approval_id, error=str(error))
            return
        if approval is not None:
            log.info("approval.timed_out", approval=approval_id, state=approval.state.value)
