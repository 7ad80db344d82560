"""Schedules: the people on call at a moment, from a rotation or an iCalendar file."""

import functools
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, Final, Self

from pydantic import Field, model_validator

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
    """

    name: Name
    time_zone: TimeZone = "UTC"
    people: tuple[str, ...] = ()
    start: datetime | None = None
    every: Duration = timedelta(weeks=1)
    ics: str = ""
    calendar: str = Field(default="", max_length=1_000_000, repr=False)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.ics or self.calendar:
            if self.people or self.start is not None:
                raise ValueError("it has people of its own, and a calendar: take one of them out")
            return self
        if not self.people or self.start is None:
            raise ValueError("it has neither `people` and `start`, nor `ics`: nobody is on call")
        if self.start.tzinfo is not None:
            raise ValueError("`start` is by the clocks of `time_zone`: write it without an offset")
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

    def _turn(self, start: datetime, moment: datetime) -> int:
        """Return the number of handovers since the first turn began, -1 before the first turn."""
        place = zone(self.time_zone)
        first = start - datetime.combine(start.date(), time())
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


def _attending(text: str, moment: datetime) -> tuple[str, ...]:
    try:
        events = read_calendar(text).between(moment, moment + _TOUCH)
    except (ValueError, KeyError, OverflowError, TypeError) as error:
        raise ValueError(f"its events cannot be read: {error}") from error
    found: dict[str, None] = {}
    for event in events:
        if str(event.get("STATUS", "")).upper() != "CANCELLED":
            found.update(dict.fromkeys(_named(event)))
    return tuple(found)


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
