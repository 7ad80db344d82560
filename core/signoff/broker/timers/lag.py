"""Measures how late the timers are, which shows whether enough processes run them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import to_ms
from signoff.broker.timers.due_approvals import LEASE
from signoff.core.approvals.approval import State
from signoff.core.base.durations import format_duration

BOUND: Final = timedelta(minutes=1)
"""A longer delay is worth a warning: the timers check at least every five seconds."""

_LOOK = 50


@dataclass(frozen=True, slots=True)
class Lag:
    """How late the timers are.

    Attributes:
        late: How long ago the oldest due change should have been made; zero if nothing is due.
        approval: The id of its approval, "" if nothing is due.
    """

    late: timedelta = timedelta()
    approval: str = ""

    @property
    def problem(self) -> str:
        """The problem in words, "" up to `BOUND`."""
        if self.late <= BOUND:
            return ""
        seconds = timedelta(seconds=round(self.late.total_seconds()))
        return (
            f"The timers are late: approval {self.approval} has been due for "
            f"{format_duration(seconds)}. Reminders, escalations and deadlines are delayed. Check "
            "that enough `signoff channels` processes are running."
        )


async def lag(ledger: Ledger) -> Lag:
    """Return how late the timers are, by the ledger's clock.

    Claimed approvals are included: the process that claimed one may have died, or the change may
    fail again and again. Unreadable records are logged and left out.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    now = await ledger.now()
    # A claim moves the score of an approval by the lease.
    until = to_ms(now + timedelta(seconds=LEASE))
    ids = await ledger.store.below("waiting", until, limit=_LOOK)
    found = Lag()
    for approval in await ledger.readable(ids):
        due = approval.next_due
        if approval.state is State.PENDING and due is not None and now - due > found.late:
            found = Lag(now - due, approval.id)
    return found
