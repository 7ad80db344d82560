"""Absences that people have set since the settings were written, and the directory with them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

from signoff.core.base.model import Value
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person

_DAY = timedelta(days=1)


class Presence(Value):
    """What is known of a person's coming and going beside the directory.

    Attributes:
        away: Absences that were set, in the order in which they were.
        back: The day on which the person said to be back: it ends the directory's absences that
            began by then.
    """

    away: tuple[Absence, ...] = ()
    back: date | None = None

    def leave(self, absence: Absence) -> Presence:
        """Return it with one absence more; it rules over all earlier ones on its days."""
        return self.model_copy(update={"away": (*_until(self.away, absence), absence)})

    def returned(self, day: date) -> Presence:
        """Return it with the person here from this day on, as far as absences have begun by it."""
        return self.model_copy(update={"away": _ended(self.away, day), "back": day})

    def without_past(self, day: date) -> Presence:
        """Return it without what has ended before this day."""
        left = tuple(one for one in self.away if one.end >= day)
        return self.model_copy(update={"away": left})

    def with_second_factor(self) -> Presence:
        """Return it with those absences alone that were reported with a second factor."""
        return self.model_copy(
            update={"away": tuple(one for one in self.away if one.second_factor)}
        )


Absences = Mapping[str, Presence]
"""What is known beside the directory, by the ids of people."""


def with_absences(directory: Directory, absences: Absences) -> Directory:
    """Return the directory with what people have set; ids that it does not know are left out."""
    changed, proven = [], []
    for one, presence in absences.items():
        person = directory.get(one)
        if person is not None:
            changed.append(_with(person, presence))
            proven.append(_with(person, presence.with_second_factor()))
    return directory.changed(changed, proven=proven) if changed else directory


def _with(person: Person, presence: Presence) -> Person:
    return person.model_copy(update={"away": away_of(person, presence)})


def away_of(person: Person, presence: Presence) -> tuple[Absence, ...]:
    """Return all absences of a person, those that were set behind those of the directory."""
    written = person.away if presence.back is None else _ended(person.away, presence.back)
    return (*written, *presence.away)


def _ended(away: tuple[Absence, ...], day: date) -> tuple[Absence, ...]:
    """Return absences without the days from one on, of those that had begun by then."""
    return tuple(
        one if one.start > day else one.model_copy(update={"end": min(one.end, day - _DAY)})
        for one in away
        if one.start > day or one.start < day
    )


def _until(away: tuple[Absence, ...], absence: Absence) -> tuple[Absence, ...]:
    """Return the absences that are not wholly inside another one that counts for as much."""
    return tuple(
        one
        for one in away
        if not (absence.start <= one.start and one.end <= absence.end)
        or (one.second_factor and not absence.second_factor)
    )


def circle(directory: Directory, person_id: str, absence: Absence) -> tuple[str, ...]:
    """Return a way of delegates that leads back to itself on some day of an absence, or nothing.

    Args:
        directory: Its absences are those of the others.
        person_id: Who is away.
        absence: When, and who stands in.
    """
    return _circle(directory, (person_id,), absence)


def _circle(directory: Directory, way: tuple[str, ...], absence: Absence) -> tuple[str, ...]:
    following = directory.find(absence.delegate)
    if following is None:
        return ()
    if following.id in way:
        return (*way, following.id)
    for at, one in enumerate(following.away):
        start, end = max(one.start, absence.start), min(one.end, absence.end)
        # Of several the last one rules; only days of its own count.
        if start > end or any(
            later.start <= start and end <= later.end for later in following.away[at + 1 :]
        ):
            continue
        shared = one.model_copy(update={"start": start, "end": end})
        if found := _circle(directory, (*way, following.id), shared):
            return found
    return ()
