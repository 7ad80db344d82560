"""Working time: the hours of people in their time zones, without holidays and absences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from signoff.core.base.durations import Span
from signoff.core.directory.hours import free_days, moment_of, window, zone
from signoff.core.directory.people import Person

LONGEST: Final = timedelta(days=731)
"""Working time ends after this at the latest, however little anybody works: all has an end."""

_DAY: Final = timedelta(days=1)

Stretch = tuple[datetime, datetime]
"""From a moment until just before another one, in UTC."""


def works(person: Person, moment: datetime) -> bool:
    """Say whether somebody works at a moment; without hours nobody ever does."""
    day = moment.astimezone(zone(person.time_zone)).date()
    return any(
        start <= moment < end for one in (day - _DAY, day) for start, end in _stretches(person, one)
    )


def next_start(person: Person, moment: datetime) -> datetime | None:
    """Return when somebody works next (UTC), now where they do; None for not within `LONGEST`."""
    moment = moment.astimezone(UTC)
    for start, end in _together([person], moment, moment + LONGEST):
        if end > moment:
            return max(start, moment)
    return None


def has_worked(person: Person, start: datetime, end: datetime, *, least: timedelta) -> bool:
    """Say whether somebody works for so long between two moments."""
    start, end = start.astimezone(UTC), min(end.astimezone(UTC), start.astimezone(UTC) + LONGEST)
    done, worked = start, timedelta()
    for begins, ends in _together([person], start, end):
        if (until := min(ends, end)) > (begin := max(begins, done)):
            worked += until - begin
            done = until
        if worked >= least:
            return True
    return worked >= least


def after(moment: datetime, span: Span, people: Iterable[Person]) -> datetime:
    """Return the moment at which a span of time has gone by (UTC).

    Business time is working time of these people: it runs while at least one of them works, and a
    working day is over when it is over for the first of them. Where none of them has hours it is
    clock time. It is never later than `LONGEST` from the moment on.
    """
    moment = moment.astimezone(UTC)
    workers = [person for person in people if person.hours] if span.business else []
    if not workers:
        return moment + span.by_the_clock
    last = moment + LONGEST
    if span.days:
        moment = min(_days_after(moment, span.days, one, last) for one in workers)
    if not span.length:
        return moment
    rest, done = span.length, moment
    for start, end in _together(workers, moment, last):
        begin = max(start, done)
        if end <= begin:
            continue
        if end - begin >= rest:
            return min(begin + rest, last)
        rest -= end - begin
        done = end
    return last


def _days_after(moment: datetime, days: int, person: Person, last: datetime) -> datetime:
    """Return the same time of the day so many working days of somebody later, `last` at the latest.

    They begin when the person next works. Where the last of them is over before that time of the
    day, it is the end of it, and where it begins later, its beginning.
    """
    place = zone(person.time_zone)
    day, since, left = moment.astimezone(place).date() - _DAY, None, days
    while True:
        stretches = sorted(_stretches(person, day))
        if since is None:
            coming = next((one for one in stretches if moment < one[1]), None)
            if coming is not None:
                begin = max(moment, coming[0]).astimezone(place)
                since = begin.replace(tzinfo=None) - datetime.combine(day, time())
        elif stretches:
            left -= 1
            if not left:
                at = moment_of(day, since, place)
                end = max(one[1] for one in stretches)
                return min(max(at, stretches[0][0]), end, last)
        day += _DAY
        if datetime.combine(day, time(), UTC) > last + 2 * _DAY:
            return last


def _together(people: Sequence[Person], moment: datetime, last: datetime) -> Iterator[Stretch]:
    """Yield when any of them works, by their beginnings; they may overlap."""
    # A day of a person begins up to 14 hours before or 12 after that of UTC, and hours may reach
    # into the next day: what begins later than all of this day's is only yielded with that day's.
    day, ahead = moment.date() - 2 * _DAY, list[Stretch]()
    while True:
        edge = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(hours=15)
        for start, end in sorted(one for one in ahead if one[0] < edge):
            if start >= last:
                return
            yield start, end
        if edge >= last:
            return
        ahead = [one for one in ahead if one[0] >= edge]
        ahead += [one for person in people for one in _stretches(person, day)]
        day += _DAY


def _stretches(person: Person, day: date) -> list[Stretch]:
    """Return when somebody works, of what begins on one day of theirs."""
    if person.holidays and day in free_days(person.holidays, day.year):
        return []
    if any(absence.covers(day) for absence in person.away):
        return []
    place = zone(person.time_zone)
    found = []
    for text in person.hours:
        hours = window(text)
        if day.weekday() in hours.days:
            start, end = (moment_of(day, one, place) for one in (hours.start, hours.end))
            if start < end:
                found.append((start, end))
    return found
