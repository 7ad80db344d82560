"""Quiet hours: until when a message waits for its recipient's working hours.

Pure: the stages that deliver ask this each time they have a message at hand, so that whatever has
changed meanwhile counts: a decision, a claim, a deadline, or hours and absences of the person.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from signoff.core.approvals.approval import Approval, Asked, State
from signoff.core.directory.hours import zone
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.working_time import has_worked, next_start

LEAST: Final = timedelta(hours=1)
"""Working time that people have left for an answer, where the level has four times as much."""

AWAKE: Final = timedelta(hours=1)
"""Who has done something about a request so long ago is told the rest of it at once."""

_MORNING: Final = range(4, 12)


def quiet_until(person: Person, now: datetime) -> datetime | None:
    """Return until when somebody has quiet hours (UTC); None where they have none now."""
    if not person.quiet_hours or not person.hours:
        return None
    start = next_start(person, now)
    return start if start is not None and start > now else None


def held_until(
    approval: Approval, people: Sequence[Person], *, now: datetime, answers: bool = True
) -> datetime | None:
    """Return until when a message about an approval waits (UTC); None where it goes out now.

    It waits for the first of these people to work again. A message that wants an answer waits only
    if enough of the person's working time is left then before the deadline: an hour, or a quarter
    of the level's time where that is less. So no card is held beyond its deadline.

    Args:
        approval: What it is about.
        people: Who reads it; several where all of them see the same message.
        now: The present (UTC).
        answers: Whether it wants an answer.
    """
    if is_urgent(approval) or not people:
        return None
    found = [_held_for(approval, one, now, answers=answers) for one in people]
    moments = [one for one in found if one is not None]
    return min(moments) if len(moments) == len(found) else None


class Hold(NamedTuple):
    """What a card waits for.

    Attributes:
        person: Whose working hours.
        until: When they begin (UTC).
        now: The present (UTC).
    """

    person: Person
    until: datetime
    now: datetime

    def __str__(self) -> str:
        """Say it in words: "Mara Lind's morning, 08:00 Europe/Berlin"."""
        return waits_for(self.person, self.until, self.now)


def card_held(approval: Approval, asked: Asked, directory: Directory, now: datetime) -> Hold | None:
    """Return what a card waits for that is not delivered yet; None where it does not wait."""
    if approval.state is not State.PENDING or asked.receipt or asked.problem:
        return None
    may = asked.is_for(approval.approvers, approval.level_key)
    ids = (asked.person,) if asked.person else approval.ballot.awaited
    people = [one for name in ids if (one := directory.get(name)) is not None]
    until = held_until(approval, people, now=now) if may else None
    if until is None:
        return None
    first = min(people, key=lambda one: quiet_until(one, now) or until)
    return Hold(first, until, now)


def card_waits_for(approval: Approval, asked: Asked, directory: Directory, now: datetime) -> str:
    """Say what a card waits for, "" where it does not wait; see `Hold`."""
    held = card_held(approval, asked, directory, now)
    return str(held) if held is not None else ""


def is_urgent(approval: Approval) -> bool:
    """Say whether the present level of an approval does not wait for anybody's hours."""
    return approval.terms is not None and approval.terms.asking(approval.level).urgent


def least_left(approval: Approval) -> timedelta:
    """Return how much time there has to be for an answer once a card arrives that has waited."""
    if approval.deadline is None:
        return timedelta()
    return min(LEAST, (approval.deadline - (approval.since or approval.opened_at)) / 4)


def waits_for(person: Person, until: datetime, now: datetime) -> str:
    """Say what a message waits for: "Mara Lind's morning, 08:00 Europe/Berlin"."""
    place = zone(person.time_zone)
    at, today = until.astimezone(place), now.astimezone(place)
    soon = at - today < timedelta(days=1)
    part = "morning" if at.hour in _MORNING else "working hours"
    day = "" if soon else f"{at:%a %d %b} "
    return f"{person.shown}'s {part}, {day}{at:%H:%M} {person.time_zone}"


def _held_for(
    approval: Approval, person: Person, now: datetime, *, answers: bool
) -> datetime | None:
    start = quiet_until(person, now)
    if start is None or any(now - AWAKE <= at <= now for at in _acts(approval, person)):
        return None
    if not answers or approval.state is not State.PENDING or approval.deadline is None:
        return start
    enough = has_worked(person, start, approval.deadline, least=least_left(approval))
    return start if start < approval.deadline and enough else None


def _acts(approval: Approval, person: Person) -> Iterator[datetime]:
    """Yield when somebody has done something about an approval, or has asked for it."""
    if person.owns(approval.origin.user):
        yield approval.opened_at
    decisions = (*(one.decision for one in approval.votes), *approval.steps, approval.decision)
    yield from (one.at for one in decisions if one is not None and one.by == person.id)
    done = (*approval.comments, *approval.extensions, *approval.handovers, approval.claimed)
    yield from (one.at for one in done if one is not None and one.by == person.id)
