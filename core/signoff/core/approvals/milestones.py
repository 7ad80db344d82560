"""Who is told how an approval stands without deciding it: the requester, and people to be informed.

What they are told carries nothing that decides. Approvers read the same on their cards.
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
    """What people are told about."""

    OPENED = "opened"
    """People are asked."""
    PASSED = "passed"
    """A phase has approved, and the next one is asked."""
    ESCALATED = "escalated"
    """Others are asked, because nobody decided in time or nobody was reached."""
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
"""What is not true any more once the approval has gone on."""

_MAIL: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,189}")


class Recipient(NamedTuple):
    """Somebody who is told.

    Attributes:
        person: The id; for a requester who is not in the directory their user id, an address.
        is_requester: Whether they have asked for it.
        is_known: Whether they are in the directory.
        by: The channels that they or the policy want; empty for the usual one.
        until_done: Whether they are told, too, when the call is done.
    """

    person: str
    is_requester: bool = False
    is_known: bool = True
    by: tuple[str, ...] = ()
    until_done: bool = False


def milestone_of(was: Approval, after: Approval) -> Milestone | None:
    """Return what a move of an approval means to those who do not decide; None for nothing.

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
    if was.deadline is not None and after.deadline is None and after.stays_open:
        return Milestone.OVERDUE
    return None


def is_over(approval: Approval, milestone: Milestone, level_key: str) -> bool:
    """Say whether something has happened since, so that a milestone is no news any more.

    Args:
        approval: As it stands.
        milestone: What people were to be told about.
        level_key: The level at which that was; see `Approval.level_key`.
    """
    gone = approval.state is not State.PENDING or approval.level_key != level_key
    return milestone in _PASSING and gone


def recipients(
    approval: Approval,
    milestone: Milestone,
    directory: Directory,
    *,
    domains: Collection[str] = (),
) -> tuple[Recipient, ...]:
    """Return who is told about a milestone, everybody once.

    People with a card read it there, and the person who caused it knows. After a rejection the
    requester is not told of an end besides.

    Args:
        approval: As it stands after it.
        milestone: What has happened.
        directory: The people.
        domains: Where requesters have their addresses who are not in the directory and are told
            all the same.
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
    """Return about what somebody is told of what they have asked for.

    Args:
        terms: Those of the approval.
        person: Who has asked for it, None if they are not in the directory.
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
    informed = milestone in _INFORMS and _is_informed(approval, name, directory)
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
    """Say whether somebody reads it on a card of their own, or has done it."""
    decision = approval.decision
    if milestone is Milestone.ENDED and decision is not None and decision.by:
        asked = {decision.by}
    else:
        asked = set()
    # People with a seat get a card when it is their turn. It may end before, without one.
    seats = approval.seats_here if approval.state is State.PENDING else ()
    if any(not one.person and not one.problem for one in approval.asked):
        seats = approval.seats
    asked |= {one.person for one in seats}
    asked |= {one.person for one in approval.asked if one.person and not one.problem}
    return any(directory.is_one(one, person) for one in asked)


def _is_informed(approval: Approval, person: str, directory: Directory) -> bool:
    return any(directory.is_one(one, person) for one in approval.informed)


def _reached_by(approval: Approval, person: Person | None) -> tuple[str, ...]:
    if person is not None and person.notify_by:
        return person.notify_by
    return approval.terms.notify_by if approval.terms is not None else ()


def _is_address_at(user: str, domains: Collection[str]) -> bool:
    """Say whether a user id is a plain mail address at one of some domains."""
    domain = identity_key(user).rpartition("@")[2]
    return _MAIL.fullmatch(user) is not None and domain in {one.lower() for one in domains}
