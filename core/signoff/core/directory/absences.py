"""Absences that people set at run time, and their effect on the directory."""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Self

from signoff.core.base.model import Value
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person

_DAY = timedelta(days=1)


class Presence(Value):
    """The absences of a person that were set at run time, and their last return.

    Attributes:
        away: The absences, in the order in which they were set.
        back: The day on which the person reported to be back. It ends absences in the directory
            that began by then.
    """

    away: tuple[Absence, ...] = ()
    back: date | None = None

    def leave(self, absence: Absence) -> Self:
        """Return it with a further absence, which overrides earlier ones on its days."""
        return self.model_copy(update={"away": (*_until(self.away, absence), absence)})

    def returned(self, day: date) -> Self:
        """Return it with the return of the person on a day, which ends absences begun by then."""
        return self.model_copy(update={"away": _ended(self.away, day), "back": day})

    def without_past(self, day: date) -> Self:
        """Return it without absences that ended before this day."""
        left = tuple(one for one in self.away if one.end >= day)
        return self.model_copy(update={"away": left})

    def with_second_factor(self) -> Self:
        """Return it with only the absences that were set with a second factor."""
        return self.model_copy(
            update={"away": tuple(one for one in self.away if one.second_factor)}
        )


Absences = Mapping[str, Presence]
"""The presence of people, by their ids."""


def with_absences(directory: Directory, absences: Absences) -> Directory:
    """Return the directory with the absences that people have set; unknown ids are ignored."""
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
    """Return all absences of a person: those of the directory, then those set at run time."""
    written = person.away if presence.back is None else _ended(person.away, presence.back)
    return (*written, *presence.away)


def _ended(away: tuple[Absence, ...], day: date) -> tuple[Absence, ...]:
    """Return absences, of which those that began by a day end before it."""
    return tuple(
        one if one.start > day else one.model_copy(update={"end": min(one.end, day - _DAY)})
        for one in away
        if one.start > day or one.start < day
    )


def _until(away: tuple[Absence, ...], absence: Absence) -> tuple[Absence, ...]:
    """Return the absences that a new one does not replace.

    It replaces absences that it covers completely. Without a second factor, it does not replace an
    absence that was set with one.
    """
    return tuple(
        one
        for one in away
        if not (absence.start <= one.start and one.end <= absence.end)
        or (one.second_factor and not absence.second_factor)
    )


def circle(directory: Directory, person_id: str, absence: Absence) -> tuple[str, ...]:
    """Return a circle of delegates on a day of an absence, empty if there is none.

    Args:
        directory: The people, with the absences of the others.
        person_id: The id of the absent person.
        absence: The absence, with the delegate.
    """
    # The delegates change only when an absence begins, and on the day after its end.
    others = [one for person in directory for one in person.away]
    days = {absence.start, *(one.start for one in others)}
    days |= {one.end + _DAY for one in others if one.end < absence.end}
    ways = (_way(directory, person_id, absence, day) for day in sorted(days) if absence.covers(day))
    return next(filter(None, ways), ())


def _way(directory: Directory, person_id: str, absence: Absence, day: date) -> tuple[str, ...]:
    """Return the delegates on a day if they form a circle, otherwise nothing."""
    way, here = [person_id], absence
    while (following := directory.find(here.delegate)) is not None:
        way.append(following.id)
        if following.id in way[:-1]:
            return tuple(way)
        away = following.absence_on(day)
        if away is None:
            break
        here = away
    return ()
