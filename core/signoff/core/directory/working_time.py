"""Working time: the hours of people in their time zones, without holidays and absences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import accumulate
from typing import Final

from signoff.core.base.durations import Span
from signoff.core.directory.hours import free_days, moment_of, window, zone
from signoff.core.directory.people import Person

LONGEST: Final = timedelta(days=731)
"""The longest span of working time: it ends after this even if nobody works."""

_DAY: Final = timedelta(days=1)

Stretch = tuple[datetime, datetime]
"""The start (inclusive) and end (exclusive) of a period, in UTC."""


def works(person: Person, moment: datetime) -> bool:
    """Say whether a person works at a moment; a person without hours never works."""
    day = moment.astimezone(zone(person.time_zone)).date()
    return any(
        start <= moment < end for one in (day - _DAY, day) for start, end in _stretches(person, one)
    )


def next_start(person: Person, moment: datetime) -> datetime | None:
    """Return when a person works next (UTC), which may be now; None if not within `LONGEST`."""
    moment = moment.astimezone(UTC)
    for start, end in _together([person], moment, moment + LONGEST):
        if end > moment:
            return max(start, moment)
    return None


def has_worked(person: Person, start: datetime, end: datetime, *, least: timedelta) -> bool:
    """Say whether a person works for at least so long between two moments."""
    worked = accumulate(_worked([person], start, end), initial=timedelta())
    return any(so_far >= least for so_far in worked)


def between(
    start: datetime, end: datetime, people: Iterable[Person], *, business: bool
) -> timedelta:
    """Return the time between two moments: the inverse of `after`.

    Only the working time of these people counts, if `business`.
    """
    workers = [person for person in people if person.hours] if business else []
    if not workers:
        return max(end - start, timedelta())
    return sum(_worked(workers, start, end), timedelta())


def after(moment: datetime, span: Span, people: Iterable[Person]) -> datetime:
    """Return the moment at which a span of time has passed (UTC).

    Business time is the working time of these people: it passes while at least one of them works,
    and a working day ends when it ends for the first of them. If none of them has hours, it is
    clock time. The result is at most `LONGEST` after the moment.
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


def _worked(people: Sequence[Person], start: datetime, end: datetime) -> Iterator[timedelta]:
    """Yield the lengths of time between two moments in which any of them works."""
    start = done = start.astimezone(UTC)
    end = min(end.astimezone(UTC), start + LONGEST)
    for begins, ends in _together(people, start, end):
        if (until := min(ends, end)) > (begin := max(begins, done)):
            yield until - begin
            done = until


def _days_after(moment: datetime, days: int, person: Person, last: datetime) -> datetime:
    """Return the same time of day so many working days of a person later, `last` at the latest.

    The days are counted from when the person works next. If the last working day ends before that
    time of day, the result is its end; if it begins after it, the result is its beginning.
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
    """Yield the periods in which any of them works, ordered by start; they may overlap."""
    # A person's day begins up to 14 hours before or 12 hours after the UTC day, and hours may reach
    # into the next day. So a period is only yielded when no later day can have an earlier one.
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
    """Return the working periods of a person that begin on a day in their time zone."""
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
