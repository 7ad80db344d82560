"""What is told on people's devices as well, once a card or a reminder has been delivered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from signoff.broker.ledger.change import Change, Item
from signoff.broker.work import (
    BundleKind,
    DeliveryWork,
    SendBundle,
    SendCard,
    SendPush,
    SendReminder,
)
from signoff.channels.pipeline.outbox import work_of
from signoff.core.approvals.approval import Approval

Subscribed = Callable[[Collection[str]], Awaitable[frozenset[str]]]
"""Returns who of some people wants to be notified on a device."""


class Pushes:
    """Adds notifications to the commits of deliveries.

    Args:
        subscribed: Finds out who is notified; None where nobody is.
    """

    def __init__(self, subscribed: Subscribed | None) -> None:
        self._subscribed = subscribed

    async def wanted(self, people: Collection[str]) -> frozenset[str]:
        """Return which of some people are notified.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        if self._subscribed is None or not people:
            return frozenset()
        return await self._subscribed(people)


def recipients(work: DeliveryWork, approval: Approval, person: str) -> Sequence[str]:
    """Return whom a card or a reminder asks: its person, or in a Slack channel all who may answer.

    Args:
        work: What is delivered.
        approval: What it is about.
        person: The id of the person who gets it, "" for a place.
    """
    if not isinstance(work, SendCard | SendReminder):
        return ()
    return (person,) if person else sorted(approval.approvers)


def notify(change: Change, item: Item, people: Collection[str]) -> Change:
    """Add to a change that people are notified of what is delivered with it.

    Args:
        change: Added to.
        item: The delivery.
        people: Their ids.
    """
    about: tuple[str, ...]
    match work_of(item):
        case SendCard() | SendReminder() as work:
            again, about = isinstance(work, SendReminder), (work.approval,)
        case SendBundle() as work if work.purpose is not BundleKind.ANSWER:
            again = work.purpose is BundleKind.REMINDERS
            about = tuple(one.approval for one in work.listed)
        case _:
            return change
    for person in sorted(people):
        change.send(SendPush(person=person, approvals=about, cause=item.id, again=again))
    return change
