"""Messages to people who do not decide: the requester, and people who are informed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from signoff.broker.ledger.change import Change
from signoff.broker.work import CloseCard, DeliveryWork, SendStatus
from signoff.core.approvals.approval import Approval, Asked, Handoff, State
from signoff.core.approvals.milestones import Milestone
from signoff.core.directory.people import Directory
from signoff.core.routing.targets import EMAIL, address_of

_UNDER_WAY = frozenset({Handoff.RECORDED, Handoff.STARTED, Handoff.FINISHED})


@dataclass(frozen=True, slots=True)
class Notifications:
    """The settings for messages to people who do not decide.

    Attributes:
        wait_for_result: How long a message about a decision waits for the result of the call, so
            that one message reports both.
        requester_domains: The mail domains of requesters who get messages without being in the
            directory.
    """

    wait_for_result: timedelta = timedelta()
    requester_domains: tuple[str, ...] = ()


def addressee(work: SendStatus, directory: Directory) -> Asked | None:
    """Return the recipient of a status; None if they are not in the directory any more."""
    person = directory.get(work.person)
    address = address_of(person, work.channel) if person is not None else work.address
    return Asked(person=work.person, channel=work.channel, address=address) if address else None


def fall_back_to_mail(change: Change, work: SendStatus) -> Change:
    """Send a status by mail, because another channel refused it, unless it was mailed already."""
    if work.channel == EMAIL or work.mailed:
        return change
    return change.send(work.model_copy(update={"channel": EMAIL, "failed": 0}))


def is_reported(work: DeliveryWork, approval: Approval) -> bool:
    """Return whether another message reports this decision, together with the call's result."""
    return approval.reported and _is_told_twice(work, approval)


def waits_for_result(
    work: DeliveryWork, approval: Approval, notifications: Notifications, *, now: datetime
) -> timedelta:
    """Return how long a message about a decision still waits for the result of the call."""
    decision = approval.decision
    if decision is None or approval.reported or approval.handoff not in _UNDER_WAY:
        return timedelta()
    if not _is_told_twice(work, approval):
        return timedelta()
    return max(decision.at + notifications.wait_for_result - now, timedelta())


def _is_told_twice(work: DeliveryWork, approval: Approval) -> bool:
    """Return whether the person would get two messages: the decision, and the call's result.

    In other channels than mail, the first message replaces the card.
    """
    decision = approval.decision
    if decision is None or approval.state not in {State.APPROVED, State.REJECTED}:
        return False
    match work:
        case CloseCard(channel=channel, person=person):
            return channel == EMAIL and person == decision.by
        case SendStatus(milestone=Milestone.ENDED, until_done=until_done):
            return until_done
    return False
