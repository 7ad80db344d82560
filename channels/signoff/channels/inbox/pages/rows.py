"""Turns an approval into a line of a list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import groupby
from typing import Final, NamedTuple

from signoff.broker.backlog import names_for, names_of
from signoff.channels.inbox.settings import page_of
from signoff.channels.words.messages import moment
from signoff.channels.words.next_steps import next_change
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.deliveries import is_stranded
from signoff.core.approvals.events import What
from signoff.core.base.durations import roughly
from signoff.core.cards.card import Card, card, one_line, unbroken
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import QUEUE, Rotations

_LONGEST: Final = 240
_LIKE_ROWS: Final = re.compile(r", [^,]*: ")
"""A value that would look like several arguments in one line."""
_MOST_NAMES: Final = 3
_SOON: Final = timedelta(hours=1)
_TODAY: Final = timedelta(hours=8)


_OTHERS_DECIDE: Final = frozenset({What.ESCALATED, What.ABSENT, What.UNROUTABLE})


class Look(NamedTuple):
    """How an ended approval looks: the class of its chip and banner, and an icon."""

    kind: str
    icon: str


OVERDUE: Final = "Overdue"
QUIET: Final = Look("quiet", "○")
OUTCOMES: Final = {
    State.APPROVED: Look("yes", "✓"),
    State.REJECTED: Look("no", "✕"),
    State.TIMED_OUT: Look("late", "!"),
}
"""How ended approvals look; others are `QUIET`."""


@dataclass(frozen=True, slots=True)
class When:
    """A time: for machines, for people, and relative to the present."""

    iso: str
    text: str
    about: str = ""

    @classmethod
    def of(cls, at: datetime | None, now: datetime, zone: tzinfo) -> When | None:
        """Return a time as it is shown in a time zone; None stays None."""
        if at is None:
            return None
        about = f"{roughly(now - at)} ago" if at <= now else f"in {roughly(at - now)}"
        if timedelta() <= now - at < timedelta(minutes=1):
            about = "just now"
        return cls(at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), moment(at, zone), about)


@dataclass(frozen=True, slots=True)
class Chip:
    """A highlighted word or two.

    Attributes:
        text: The words.
        kind: Their style: ``late``, ``yes``, ``no``, ``quiet``, or "" for the default.
    """

    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ListRow:
    """One line of a list.

    Attributes:
        id: The id of the approval.
        path: The path of its page.
        title: Its title.
        what: The arguments, shortened.
        requester: The requester.
        since: When it was opened.
        due: When the present level ends; None for an ended approval, and without a deadline.
        urgency: The style of the deadline: ``late``, ``soon``, ``today`` or "".
        day: The heading of the day on which it is due.
        ended: When it ended; None for a pending approval.
        waits_on: The people whose answers are awaited, or that there are none.
        level: The name and the progress of the level.
        next: Who decides next if nobody answers, and when; "" if nobody does, or it is not shown.
        chips: The highlighted words.
        batchable: Whether the person may approve it together with others.
        at_once: The digest if it can be approved from the list, because the line shows the whole
            call; else "".
    """

    id: str
    path: str
    title: str
    what: str
    requester: str
    since: When | None
    due: When | None
    urgency: str
    day: str
    ended: When | None
    waits_on: str
    level: str
    next: str
    chips: tuple[Chip, ...]
    batchable: bool
    at_once: str


def list_row(
    approval: Approval,
    person: Person,
    directory: Directory,
    now: datetime,
    *,
    rotations: Rotations | None = None,
) -> ListRow:
    """Return the line of an approval for a person.

    Args:
        approval: The approval.
        person: The reader.
        directory: The people.
        now: The present (UTC).
        rotations: When the members of queues were last asked, to show who decides next; None shows
            nothing of that.
    """
    shape, pending = card(approval, directory), approval.state is State.PENDING
    parts = (shape.level, shape.progress) if pending else ()
    decision, zone = approval.decision, directory.zone_of(person.id)
    what = ", ".join(f"{row.name}: {unbroken(row.value)}" for row in shape.rows)
    batchable = approval.batchable and may_answer(approval, person, directory, now)
    awaited = approval.ballot.awaited if pending else ()
    others = names((one for one in awaited if one != person.id), directory)
    mine = person.id in awaited
    waits_on = f"{'Also asked:' if mine else 'Waiting for'} {others}" if others else ""
    if not awaited and is_stranded(approval):
        waits_on = "Nobody can be asked"
    due = approval.deadline if pending else None
    overdue = due is None and approval.terms is not None
    return ListRow(
        id=approval.id,
        path=page_of(approval.id),
        title=shape.line,
        what=_shortened(what),
        requester=shape.requester,
        since=When.of(approval.opened_at, now, zone),
        due=When.of(due, now, zone),
        urgency=_urgency(due, now),
        day=(OVERDUE if overdue else _day(due, now, zone)) if pending else "",
        ended=When.of(decision.at, now, zone) if decision is not None else None,
        waits_on=waits_on,
        level=" · ".join(filter(None, parts)),
        next=_next(approval, directory, now, zone, rotations) if rotations is not None else "",
        chips=tuple(_chips(approval, shape, person, directory, now)),
        batchable=batchable,
        at_once=approval.digest if batchable and _is_whole(shape, what) else "",
    )


def _next(
    approval: Approval, directory: Directory, now: datetime, zone: tzinfo, rotations: Rotations
) -> str:
    """Return who decides next and when if nobody answers, "" if nobody does."""
    change = next_change(approval, directory, now=now, rotations=rotations)
    if change is None or change[0].what not in _OTHERS_DECIDE:
        return ""
    return f"{change[1]}, {moment(change[0].at, zone)}"


def _is_whole(shape: Card, what: str) -> bool:
    """Return whether a line shows everything that an approver has to read, unchanged."""
    values = [row.value for row in shape.rows]
    more = shape.warnings or shape.hint or shape.hides or shape.comments or len(what) > _LONGEST
    return not more and all(unbroken(one) == one and not _LIKE_ROWS.search(one) for one in values)


def by_day(lines: Sequence[ListRow]) -> list[tuple[str, list[ListRow]]]:
    """Group lines by the day on which they are due; the lines are sorted by it."""
    return [(day, list(group)) for day, group in groupby(lines, key=lambda one: one.day)]


def _urgency(due: datetime | None, now: datetime) -> str:
    if due is None:
        return ""
    left = due - now
    if left <= timedelta():
        return "late"
    if left < _SOON:
        return "soon"
    return "today" if left < _TODAY else ""


def _day(due: datetime | None, now: datetime, zone: tzinfo) -> str:
    """Return the heading of a due date, in the time zone of the reader."""
    if due is None:
        return "No deadline"
    if due <= now:
        return OVERDUE
    day, today = due.astimezone(zone).date(), now.astimezone(zone).date()
    near = {today: "Due today", today + timedelta(days=1): "Due tomorrow"}
    return near.get(day, f"Due {day:%a} {day.day} {day:%b %Y}")


def may_answer(approval: Approval, person: Person, directory: Directory, now: datetime) -> bool:
    """Return whether the answer of a person is awaited now."""
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
    """Return the names of people; of many only the first ones, and the number of the others."""
    found = [one_line(directory.shown(id_)) for id_ in people]
    more = len(found) - _MOST_NAMES
    return ", ".join(found[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def queues_seen(person: Person, directory: Directory) -> list[str]:
    """Return the queues that a person may see: their own, or all."""
    found = names_of(directory) if person.sees_all else names_for(directory, person.id)
    return [one for one in found if one.startswith(QUEUE)]


def _chips(
    approval: Approval, shape: Card, person: Person, directory: Directory, now: datetime
) -> Iterable[Chip]:
    if approval.state is not State.PENDING:
        text, look = one_line(approval.outcome(directory)), OUTCOMES.get(approval.state, QUIET)
        yield Chip(f"{look.icon} {text[:1].upper()}{text[1:]}", look.kind)
    if approval.frozen_by(directory.freezes):
        yield Chip("Frozen", "late")
    if approval.state is not State.PENDING:
        return
    if shape.warnings:
        yield Chip("Look closely", "late")
    if shape.escalated:
        yield Chip("Escalated")
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
    if approval.terms is not None and approval.deadline is None:
        yield Chip(OVERDUE, "late")


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1].rstrip()}…"
