"""Messages to those who do not decide: to the requester, and to people who are informed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from signoff.broker.ledger.change import Change
from signoff.broker.work import AnnounceMilestone, CloseCard, DeliveryWork, SendStatus
from signoff.channels.pipeline.targets import EMAIL, address_of, channels_of
from signoff.core.approvals.approval import Approval, Asked, Handoff, State
from signoff.core.approvals.milestones import Milestone, is_over, recipients
from signoff.core.directory.people import Directory

_UNDER_WAY = frozenset({Handoff.RECORDED, Handoff.STARTED, Handoff.FINISHED})


@dataclass(frozen=True, slots=True)
class Notifications:
    """How people are told who do not decide.

    Attributes:
        wait_for_result: How long the news of a decision waits for the result of the call, so that
            one message tells both.
        requester_domains: The domains of mail addresses at which requesters are told who are not in
            the directory.
    """

    wait_for_result: timedelta = timedelta()
    requester_domains: tuple[str, ...] = ()


def announce_to(
    change: Change,
    work: AnnounceMilestone,
    approval: Approval,
    directory: Directory,
    *,
    enabled: Collection[str],
    domains: Collection[str],
) -> Change:
    """Add to a change that those who do not decide are told of a milestone.

    Args:
        change: Added to.
        work: What has happened.
        approval: As it stands now.
        directory: The people.
        enabled: The channels that are set up.
        domains: See `Notifications.requester_domains`.
    """
    if is_over(approval, work.milestone, work.level_key):
        return change
    for one in recipients(approval, work.milestone, directory, domains=domains):
        person = directory.get(one.person) if one.is_known else None
        channels = channels_of(person, one.by, enabled) if person is not None else (EMAIL,)
        for channel in channels:
            change.send(
                SendStatus(
                    channel=channel,
                    approval=approval.id,
                    person=one.person,
                    milestone=work.milestone,
                    level_key=work.level_key,
                    requests=one.is_requester,
                    address="" if one.is_known else one.person,
                    until_done=one.until_done,
                    mailed=EMAIL in channels,
                    remarks=work.remarks if one.is_known else "",
                    problem=work.problem if one.is_known else "",
                )
            )
    return change


def addressee(work: SendStatus, directory: Directory) -> Asked | None:
    """Return to whom a status goes; None where they are in the directory no more."""
    person = directory.get(work.person)
    address = address_of(person, work.channel) if person is not None else work.address
    return Asked(person=work.person, channel=work.channel, address=address) if address else None


def by_mail_instead(change: Change, work: SendStatus) -> Change:
    """Add to a change that somebody whom another channel refuses is told by mail."""
    if work.channel == EMAIL or work.mailed:
        return change
    return change.send(work.model_copy(update={"channel": EMAIL, "failed": 0}))


def is_reported(work: DeliveryWork, approval: Approval) -> bool:
    """Say whether one message reports both the decision and the result of the call."""
    return approval.reported and _is_told_twice(work, approval)


def waits_for_result(
    work: DeliveryWork, approval: Approval, notifications: Notifications, *, now: datetime
) -> timedelta:
    """Return for how long the news of a decision still waits for the result of the call.

    Args:
        work: What is to be delivered.
        approval: As it stands.
        notifications: How long that may be.
        now: The present.
    """
    decision = approval.decision
    if decision is None or approval.reported or approval.handoff not in _UNDER_WAY:
        return timedelta()
    if not _is_told_twice(work, approval):
        return timedelta()
    return max(decision.at + notifications.wait_for_result - now, timedelta())


def _is_told_twice(work: DeliveryWork, approval: Approval) -> bool:
    """Say whether the person would get two messages: the decision, and the result of the call.

    Other channels than mail put the first of them in the place of the card.
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
