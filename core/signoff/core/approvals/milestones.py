"""Notifications for people who do not decide: the requester and the people to inform.

These messages cannot be used to decide. Approvers read the same information on their cards.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from signoff.core.approvals.approval import Approval, State
from signoff.core.directory.notifications import USUALLY, NotifyOn
from signoff.core.directory.people import Directory, Person, identity_key
from signoff.core.policies.policy import Terms


class Milestone(StrEnum):
    """The changes of an approval about which people are notified."""

    OPENED = "opened"
    """The first approvers are asked."""
    PASSED = "passed"
    """A phase has approved, and the next phase is asked."""
    ESCALATED = "escalated"
    """Other people are asked, because nobody decided in time or nobody was reached."""
    OVERDUE = "overdue"
    """Nobody decided in time, and it stays open."""
    ENDED = "ended"
    """It was approved, rejected or withdrawn, or has timed out."""
    RAN = "ran"
    """The approved call is done."""
    FAILED = "failed"
    """The approved call could not be carried out."""


_TOPICS: Final[Mapping[Milestone, NotifyOn]] = {
    Milestone.OPENED: NotifyOn.WAITING,
    Milestone.PASSED: NotifyOn.WAITING,
    Milestone.ESCALATED: NotifyOn.ESCALATED,
    Milestone.OVERDUE: NotifyOn.ESCALATED,
    Milestone.ENDED: NotifyOn.DECIDED,
    Milestone.RAN: NotifyOn.DONE,
    Milestone.FAILED: NotifyOn.DONE,
}
_INFORMS: Final = frozenset(
    {Milestone.OPENED, Milestone.ESCALATED, Milestone.OVERDUE, Milestone.ENDED}
)
_PASSING: Final = frozenset(Milestone) - {Milestone.ENDED, Milestone.RAN, Milestone.FAILED}
"""The milestones that are outdated once the approval has gone on."""

_MAIL: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,189}")


class Recipient(NamedTuple):
    """A person who is notified.

    Attributes:
        person: The id; for a requester who is not in the directory, the user id, which is a mail
            address.
        is_requester: Whether the person is the requester.
        is_known: Whether the person is in the directory.
        by: The channels that the person or the policy has chosen; empty for the usual one.
        until_done: Whether the person is also notified when the call is done.
    """

    person: str
    is_requester: bool = False
    is_known: bool = True
    by: tuple[str, ...] = ()
    until_done: bool = False


def milestone_of(was: Approval, after: Approval) -> Milestone | None:
    """Return the milestone of a move, None if people who do not decide are not notified.

    Calls that are decided without asking anybody have no milestones.
    """
    if after.since is None or was.state is not State.PENDING:
        return None
    if after.state is not State.PENDING:
        return Milestone.ENDED
    if was.since is None:
        return Milestone.OPENED
    if after.level_key != was.level_key:
        passed = len(after.given) > len(was.given)
        return Milestone.PASSED if passed else Milestone.ESCALATED
    if was.deadline is not None and after.deadline is None:
        return Milestone.OVERDUE
    return None


def is_over(approval: Approval, milestone: Milestone, level_key: str) -> bool:
    """Say whether a milestone is outdated, because the approval has gone on."""
    gone = approval.state is not State.PENDING or approval.level_key != level_key
    return milestone in _PASSING and gone


def recipients(
    approval: Approval,
    milestone: Milestone,
    directory: Directory,
    *,
    domains: Collection[str] = (),
) -> tuple[Recipient, ...]:
    """Return the people to notify of a milestone, each once.

    People with a card are left out, because the card shows it. So is the person who decided. The
    result of the call is only announced after an approval.

    Args:
        approval: The approval after the milestone.
        milestone: The milestone.
        directory: The people.
        domains: The mail domains of requesters who are notified although they are not in the
            directory.
    """
    if approval.since is None:
        return ()
    if milestone in {Milestone.RAN, Milestone.FAILED} and approval.state is not State.APPROVED:
        return ()
    found: dict[str, Recipient] = {}
    told = (
        *_requester(approval, milestone, directory, domains),
        *_informed(approval, milestone, directory),
    )
    for one in told:
        found.setdefault(directory.one_id(one.person), one)
    return tuple(found.values())


def topics_of(terms: Terms | None, person: Person | None) -> tuple[NotifyOn, ...]:
    """Return the topics about which a requester is notified.

    Args:
        terms: The terms of the approval.
        person: The requester, None if they are not in the directory.
    """
    if person is not None and person.notify_requester is not None:
        return person.notify_requester
    return terms.notify_requester if terms is not None else USUALLY


def _requester(
    approval: Approval, milestone: Milestone, directory: Directory, domains: Collection[str]
) -> Iterator[Recipient]:
    user = approval.origin.user
    person = directory.find(user)
    topics = topics_of(approval.terms, person)
    if person is None and (directory.record(user) or not _is_address_at(user, domains)):
        return
    name = person.id if person is not None else user
    informed = milestone in _INFORMS and any(
        directory.is_one(one, name) for one in approval.informed
    )
    if not informed and _TOPICS[milestone] not in topics:
        return
    if not _knows(approval, milestone, name, directory):
        yield Recipient(
            name,
            is_requester=True,
            is_known=person is not None,
            by=_reached_by(approval, person),
            until_done=NotifyOn.DONE in topics and approval.state is State.APPROVED,
        )


def _informed(
    approval: Approval, milestone: Milestone, directory: Directory
) -> Iterator[Recipient]:
    if milestone not in _INFORMS:
        return
    for one in approval.informed:
        person = directory.get(one)
        if person is not None and not _knows(approval, milestone, one, directory):
            yield Recipient(one, by=_reached_by(approval, person))


def _knows(approval: Approval, milestone: Milestone, person: str, directory: Directory) -> bool:
    """Say whether a person has a card that shows the milestone, or has decided it."""
    decision = approval.decision
    if milestone is Milestone.ENDED and decision is not None and decision.by:
        asked = {decision.by}
    else:
        asked = set()
    # People with a seat get a card when it is their turn. A decision may come before their turn.
    seats = approval.seats_here if approval.state is State.PENDING else ()
    if any(not one.person and not one.problem for one in approval.asked):
        seats = approval.seats
    asked |= {one.person for one in seats}
    asked |= {one.person for one in approval.asked if one.person and not one.problem}
    return any(directory.is_one(one, person) for one in asked)


def _reached_by(approval: Approval, person: Person | None) -> tuple[str, ...]:
    if person is not None and person.notify_by:
        return person.notify_by
    return approval.terms.notify_by if approval.terms is not None else ()


def _is_address_at(user: str, domains: Collection[str]) -> bool:
    """Say whether a user id is a plain mail address at one of some domains."""
    domain = identity_key(user).rpartition("@")[2]
    return _MAIL.fullmatch(user) is not None and domain in {one.lower() for one in domains}
