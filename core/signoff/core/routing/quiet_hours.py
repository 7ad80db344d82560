"""Quiet hours: until when a message waits for its recipient's working hours.

These are pure functions. The stages that deliver call them for each attempt, so that changes in the
meantime count: decisions, claims, deadlines, and the hours and absences of the person.
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
"""The working time that a held card leaves for an answer; see `least_left` for short levels."""

AWAKE: Final = timedelta(hours=1)
"""After an action on a request, a person's messages about it are not held for so long."""

_MORNING: Final = range(4, 12)


def quiet_until(person: Person, now: datetime) -> datetime | None:
    """Return until when a person has quiet hours (UTC), None if they have none now."""
    if not person.quiet_hours or not person.hours:
        return None
    start = next_start(person, now)
    return start if start is not None and start > now else None


def held_until(
    approval: Approval, people: Sequence[Person], *, now: datetime, answers: bool = True
) -> datetime | None:
    """Return until when a message about an approval waits (UTC), None if it is sent now.

    It waits until the first of these people works again. A message that needs an answer waits only
    if the person then has enough working time before the deadline: an hour, or a quarter of the
    level's time if that is less. So no card is held beyond its deadline.

    Args:
        approval: The approval.
        people: The readers; several if they all see the same message.
        now: The present (UTC).
        answers: Whether it needs an answer.
    """
    if is_urgent(approval) or not people:
        return None
    found = [_held_for(approval, one, now, answers=answers) for one in people]
    moments = [one for one in found if one is not None]
    return min(moments) if len(moments) == len(found) else None


class WaitReason(NamedTuple):
    """The reason why a card waits.

    Attributes:
        person: The person for whose working hours it waits.
        until: When these begin (UTC).
        now: The present (UTC).
    """

    person: Person
    until: datetime
    now: datetime

    def __str__(self) -> str:
        """Return it in words: "Mara Lind's morning, 08:00 Europe/Berlin"."""
        return waits_for(self.person, self.until, self.now)


def card_held(
    approval: Approval, asked: Asked, directory: Directory, now: datetime
) -> WaitReason | None:
    """Return why an undelivered card waits, None if it does not wait or is delivered."""
    if approval.state is not State.PENDING or asked.receipt or asked.problem:
        return None
    may = asked.is_for(approval.approvers, approval.level_key)
    ids = (asked.person,) if asked.person else approval.ballot.awaited
    people = [one for name in ids if (one := directory.get(name)) is not None]
    until = held_until(approval, people, now=now) if may else None
    if until is None:
        return None
    first = min(people, key=lambda one: quiet_until(one, now) or until)
    return WaitReason(first, until, now)


def card_waits_for(approval: Approval, asked: Asked, directory: Directory, now: datetime) -> str:
    """Say what a card waits for, "" if it does not wait; see `WaitReason`."""
    held = card_held(approval, asked, directory, now)
    return str(held) if held is not None else ""


def is_urgent(approval: Approval) -> bool:
    """Say whether messages of the present level are sent outside of working hours too."""
    return approval.terms is not None and approval.terms.asking(approval.level).urgent


def least_left(approval: Approval) -> timedelta:
    """Return how much working time a person must have for an answer after a held card arrives."""
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
    """Yield the times at which a person acted on an approval, or requested it."""
    if person.owns(approval.origin.user):
        yield approval.opened_at
    decisions = (*(one.decision for one in approval.votes), *approval.steps, approval.decision)
    yield from (one.at for one in decisions if one is not None and one.by == person.id)
    done = (*approval.comments, *approval.extensions, *approval.handovers, approval.claimed)
    yield from (one.at for one in done if one is not None and one.by == person.id)
