"""How late the timers are: the first sign that too few processes run them."""

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
"""What is later than this is worth a warning: they look every half second."""

_LOOK = 50


@dataclass(frozen=True, slots=True)
class Lag:
    """How late the oldest thing is that is due.

    Attributes:
        late: How long ago it should have been done; zero where nothing waits to be done.
        approval: The approval that it is about, "" where there is none.
    """

    late: timedelta = timedelta()
    approval: str = ""

    @property
    def problem(self) -> str:
        """What is wrong, in words; "" up to `BOUND`."""
        if self.late <= BOUND:
            return ""
        seconds = timedelta(seconds=round(self.late.total_seconds()))
        return (
            f"What should have happened to approval {self.approval} {format_duration(seconds)} ago "
            "has not happened: reminders, escalations and deadlines wait. Is `signoff channels` "
            "running, and are there enough of it?"
        )


async def lag(ledger: Ledger) -> Lag:
    """Return how late the oldest thing is that is due, by the ledger's clock.

    What has been claimed and not done is looked at too: a process may have died with it, or it
    fails again and again. Unreadable records are logged and left out.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    now = await ledger.now()
    # A claim moves what it takes by its lease.
    until = to_ms(now + timedelta(seconds=LEASE))
    ids = await ledger.store.below("waiting", until, limit=_LOOK)
    found = Lag()
    for approval in await ledger.readable(ids):
        due = approval.next_due
        if approval.state is State.PENDING and due is not None and now - due > found.late:
            found = Lag(now - due, approval.id)
    return found
