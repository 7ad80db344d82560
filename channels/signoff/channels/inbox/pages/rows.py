"""An approval as one line of a list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from signoff.broker.backlog import names_for, names_of
from signoff.channels.inbox.settings import page_of
from signoff.channels.words.messages import moment
from signoff.core.approvals.approval import Approval, State
from signoff.core.base.durations import roughly
from signoff.core.cards.card import card, one_line, unbroken
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import QUEUE

_LONGEST: Final = 140
_MOST_NAMES: Final = 3
_SOON: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class When:
    """A moment, for machines, for people, and as seen from now."""

    iso: str
    text: str
    about: str = ""

    @classmethod
    def of(cls, at: datetime | None, now: datetime, zone: tzinfo) -> When | None:
        """Return a moment as it is shown to somebody in a time zone; None stays None."""
        if at is None:
            return None
        about = f"{roughly(now - at)} ago" if at <= now else f"in {roughly(at - now)}"
        if timedelta() <= now - at < timedelta(minutes=1):
            about = "just now"
        return cls(at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), moment(at, zone), about)


@dataclass(frozen=True, slots=True)
class Chip:
    """A word or two that stand out.

    Attributes:
        text: The words.
        kind: How they look: ``late``, ``yes``, ``no``, ``quiet``, or "" for what wants attention.
    """

    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a list.

    Attributes:
        id: Of the approval.
        path: Of its page.
        title: What it is about.
        what: The arguments, as far as they fit.
        requester: Who asked.
        since: When it was opened.
        due: When the present level ends; None where it stays open, or has ended.
        ended: When it ended; None where it waits.
        waits_on: Whose answer it waits for.
        level: What the level is called, and how many of how many have approved.
        chips: What stands out.
        batchable: Whether the person may approve it together with others.
    """

    id: str
    path: str
    title: str
    what: str
    requester: str
    since: When | None
    due: When | None
    ended: When | None
    waits_on: str
    level: str
    chips: tuple[Chip, ...]
    batchable: bool


def line(approval: Approval, person: Person, directory: Directory, now: datetime) -> Line:
    """Return an approval as a line of a list that a person looks at."""
    shape, pending = card(approval, directory), approval.state is State.PENDING
    parts = (shape.level, shape.progress) if pending else ()
    decision, zone = approval.decision, directory.zone_of(person.id)
    return Line(
        id=approval.id,
        path=page_of(approval.id),
        title=shape.line,
        what=_shortened(", ".join(f"{row.name}: {unbroken(row.value)}" for row in shape.rows)),
        requester=shape.requester,
        since=When.of(approval.opened_at, now, zone),
        due=When.of(approval.deadline, now, zone) if pending else None,
        ended=When.of(decision.at, now, zone) if decision is not None else None,
        waits_on=names(approval.ballot.awaited, directory) if pending else "",
        level=" · ".join(filter(None, parts)),
        chips=tuple(_chips(approval, person, directory, now)),
        batchable=approval.batchable and may_answer(approval, person, directory, now),
    )


def may_answer(approval: Approval, person: Person, directory: Directory, now: datetime) -> bool:
    """Say whether an answer of a person is waited for, as far as one can say in advance."""
    claim = approval.claim_at(now)
    return (
        approval.state is State.PENDING
        and person.id in approval.ballot.awaited
        and person.id in approval.approvers
        and not approval.is_requester(person, directory)
        and (claim is None or claim.by == person.id)
        and (approval.stays_open or not approval.is_late(now))
    )


def names(people: Iterable[str], directory: Directory) -> str:
    """Name people, the first of them where there are many."""
    found = [one_line(directory.shown(id_)) for id_ in people]
    more = len(found) - _MOST_NAMES
    return ", ".join(found[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def queues_seen(person: Person, directory: Directory) -> list[str]:
    """Return the queues that a person may look into: their own, or all."""
    found = names_of(directory) if person.sees_all else names_for(directory, person.id)
    return [one for one in found if one.startswith(QUEUE)]


def _chips(
    approval: Approval, person: Person, directory: Directory, now: datetime
) -> Iterable[Chip]:
    if approval.state is not State.PENDING:
        kinds = {State.APPROVED: "yes", State.REJECTED: "no", State.TIMED_OUT: "late"}
        text = one_line(approval.outcome(directory))
        yield Chip(text[:1].upper() + text[1:], kinds.get(approval.state, "quiet"))
        return
    if approval.step_of(person.id) is not None:
        yield Chip("Confirm your approval")
    elif approval.in_two_steps:
        yield Chip("Needs two steps")
    claim = approval.claim_at(now)
    if claim is not None:
        who = "you" if claim.by == person.id else names([claim.by], directory)
        yield Chip(f"Claimed by {who}", "quiet")
    if approval.open_question is not None:
        mine = approval.is_requester(person, directory)
        yield Chip("Question for you" if mine else "Waiting for the requester")
    if approval.terms is not None and (approval.deadline is None or approval.is_late(now)):
        yield Chip("Overdue", "late")
    elif approval.deadline is not None and approval.deadline - now < _SOON:
        yield Chip("Due within the hour", "late")


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1].rstrip()}…"
