"""Schedules: the people on call at a moment, from a rotation or an iCalendar file."""

import functools
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Final, Self
from zoneinfo import ZoneInfo

from pydantic import ConfigDict, Field, model_validator

from signoff.core.base.durations import Duration
from signoff.core.base.model import Value
from signoff.core.directory.hours import TimeZone, moment_of, zone
from signoff.core.directory.queues import Name

if TYPE_CHECKING:
    from icalendar import Event
    from recurring_ical_events import CalendarQuery

_DAY: Final = timedelta(days=1)
_TOUCH: Final = timedelta(microseconds=1)
_HOUR: Final = timedelta(hours=1)
_YEARS: Final = range(1970, 9000)
_WITHOUT_OFFSET: Final = "{} by the clocks of `time_zone`: write it without an offset"
_NEAR: Final = 3
"""How many turns the clocks of a zone skip at once, at most."""


class Override(Value):
    """A time in which another person takes the shift of the person on call.

    Attributes:
        start: When it begins, in the schedule's local time: ``2026-11-27T18:00:00``.
        end: When it ends.
        person: The id or address of the person who takes it. They act as a delegate: for the person
            on call, and with the lower limits of both.
    """

    model_config = ConfigDict(
        validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
    )

    start: datetime = Field(alias="from")
    end: datetime = Field(alias="to")
    person: str = Field(min_length=1)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.start.tzinfo is not None or self.end.tzinfo is not None:
            raise ValueError(_WITHOUT_OFFSET.format("`from` and `to` are"))
        if not (self.start.year in _YEARS and self.end.year in _YEARS):
            raise ValueError(f"it is too far from now: {self.start} to {self.end}")
        if self.end <= self.start:
            raise ValueError(f"it ends at {self.end}, and begins at {self.start}")
        return self


class Schedule(Value):
    """Who is on call: a rotation, or a calendar.

    Attributes:
        name: The schedule's name in policies: ``schedule:on-call``.
        time_zone: The time zone of `start`. Handovers keep this local time when the clocks change.
        people: The ids of the people in the rotation, in order.
        start: When the first person's turn starts, in local time: ``2026-01-05T09:00:00``. Before
            that nobody is on call.
        every: The length of a turn: days, weeks, or part of a day (``12h``).
        ics: Instead of a rotation: an iCalendar file (RFC 5545), relative to the settings file. The
            attendees of an event are on call, or the people whose ids or addresses its summary
            names.
        calendar: Instead of `ics`: the content of such a file.
        overrides: Parts of a rotation that another person takes; the last one of several applies:
            ``[{ from = 2026-11-27T18:00:00, to = 2026-11-27T22:00:00, person = "anna" }]``.
    """

    name: Name
    time_zone: TimeZone = "UTC"
    people: tuple[str, ...] = ()
    start: datetime | None = None
    every: Duration = timedelta(weeks=1)
    ics: str = ""
    calendar: str = Field(default="", max_length=1_000_000, repr=False)
    overrides: tuple[Override, ...] = ()

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.ics or self.calendar:
            if self.people or self.start is not None:
                raise ValueError("it has people of its own, and a calendar: take one of them out")
            if self.overrides:
                raise ValueError("it is a calendar: change the events there in place of overrides")
            return self
        if not self.people or self.start is None:
            raise ValueError("it has neither `people` and `start`, nor `ics`: nobody is on call")
        if self.start.tzinfo is not None:
            raise ValueError(_WITHOUT_OFFSET.format("`start` is"))
        whole = self.every % _DAY if self.every >= _DAY else _DAY % self.every
        if whole or self.every < _HOUR:
            raise ValueError("turns are whole days, or as many hours as divide a day: 12h, 1d, 1w")
        return self

    def on_call(self, moment: datetime) -> tuple[str, ...]:
        """Return the people on call: ids of a rotation, or ids and addresses of a calendar.

        Raises:
            ValueError: The calendar cannot be read.
        """
        if self.start is None:
            return _attending(self.calendar, moment.astimezone(zone(self.time_zone)))
        turn = self._turn(self.start, moment)
        return (self.people[turn % len(self.people)],) if turn >= 0 else ()

    def taken_by(self, moment: datetime) -> str:
        """Return the id or address of the person who takes the shift of this moment, or ""."""
        place = zone(self.time_zone)
        for one in reversed(self.overrides):
            if _moment(one.start, place) <= moment < _moment(one.end, place):
                return one.person
        return ""

    def next_handover(self, after: datetime, until: datetime) -> datetime | None:
        """Return the first moment (UTC) after one at which others may be on call.

        None if there is none up to `until`.

        Raises:
            ValueError: The calendar cannot be read.
        """
        place = zone(self.time_zone)
        if self.start is None:
            moments = _boundaries(self.calendar, after.astimezone(place), until.astimezone(place))
        else:
            first = max(self._turn(self.start, after) - _NEAR, 0)
            # Where the clocks skip more than a turn, several handovers fall together.
            turns = range(first, first + 3 * _NEAR)
            if len({*self.people}) == 1 and after >= _moment(self.start, place):
                turns = range(0)
            shown = (self.start + self.every * one for one in turns)
            edges = (edge for one in self.overrides for edge in (one.start, one.end))
            moments = (_moment(one, place) for one in (*shown, *edges))
        return min((one for one in moments if after < one <= until), default=None)

    def _turn(self, start: datetime, moment: datetime) -> int:
        """Return the number of handovers since the first turn began, -1 before the first turn."""
        place = zone(self.time_zone)
        first = start - _midnight(start)
        step = min(self.every, _DAY)
        # In local time, every day has the same number of handovers, even if the clocks change.
        today = moment.astimezone(place).date() - _DAY
        in_a_day = _DAY // step
        passed = sum(
            moment_of(today, first + step * place_, place) <= moment
            for place_ in range(2 * in_a_day)
        )
        steps = (today - start.date()).days * in_a_day + passed - 1
        return steps * step // self.every


def _midnight(moment: datetime) -> datetime:
    return datetime.combine(moment.date(), time())


def _moment(shown: datetime, place: ZoneInfo) -> datetime:
    """Return the moment (UTC) of a local time; see `moment_of`."""
    return moment_of(shown.date(), shown - _midnight(shown), place)


@functools.lru_cache(maxsize=64)
def read_calendar(text: str) -> "CalendarQuery":
    """Read an iCalendar file.

    Raises:
        ValueError: The text is not an iCalendar file.
    """
    import icalendar  # noqa: PLC0415 -- slow to import, and often not needed
    import recurring_ical_events  # noqa: PLC0415 -- the same

    try:
        return recurring_ical_events.of(icalendar.Calendar.from_ical(text), skip_bad_series=True)
    except (ValueError, KeyError, IndexError, AttributeError, TypeError) as error:
        raise ValueError(f"it is no iCalendar file: {error}") from error


def _boundaries(text: str, after: datetime, until: datetime) -> Iterator[datetime]:
    """Yield the starts and ends (UTC) of the first events of a calendar that are not over."""
    begin, length = after, _DAY
    while begin < until:
        found = list(_between(text, begin, min(begin + length, until)))
        yield from found
        if any(one > after for one in found):
            return
        begin, length = begin + length, 4 * length


def _between(text: str, after: datetime, until: datetime) -> Iterator[datetime]:
    for event in _events(text, after, until):
        for one in (event.start, event.end):
            at = one if isinstance(one, datetime) else datetime.combine(one, time())
            yield at.replace(tzinfo=at.tzinfo or after.tzinfo).astimezone(UTC)


def _attending(text: str, moment: datetime) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for event in _events(text, moment, moment + _TOUCH):
        if str(event.get("STATUS", "")).upper() != "CANCELLED":
            found.update(dict.fromkeys(_named(event)))
    return tuple(found)


def _events(text: str, start: datetime, end: datetime) -> "list[Event]":
    try:
        return list(read_calendar(text).between(start, end))
    except (ValueError, KeyError, OverflowError, TypeError) as error:
        raise ValueError(f"its events cannot be read: {error}") from error


def _named(event: "Event") -> list[str]:
    listed = event.get("ATTENDEE", [])
    attendees = [
        str(one)
        for one in (listed if isinstance(listed, list) else [listed])
        if str(one.params.get("PARTSTAT", "")).upper() != "DECLINED"
    ]
    if attendees:
        return [one[7:] if one.lower().startswith("mailto:") else one for one in attendees]
    return [part.strip() for part in str(event.get("SUMMARY", "")).split(",") if part.strip()]
