"""Queues notifications on people's devices about delivered cards and reminders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from signoff.broker.ledger.change import Change, Item
from signoff.broker.work import BundleKind, SendBundle, SendCard, SendPush, SendReminder
from signoff.channels.pipeline.outbox import work_of
from signoff.core.approvals.approval import Approval

Subscribed = Callable[[Collection[str]], Awaitable[frozenset[str]]]
"""Returns which of these people want notifications on a device."""


async def nobody(people: Collection[str]) -> frozenset[str]:
    """Return that none of these people want notifications."""
    del people
    return frozenset()


def recipients(approval: Approval, person: str) -> Sequence[str]:
    """Return the ids of the people whom a card or a reminder to a person asks.

    A card in a Slack channel (person "") asks all approvers.
    """
    return (person,) if person else sorted(approval.approvers)


def notify(change: Change, item: Item, people: Collection[str]) -> Change:
    """Add notifications about a delivery to a change, and return it."""
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
