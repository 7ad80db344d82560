"""On-call rotations and calendars, including the days when the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from signoff.core.directory.schedules import Schedule, read_calendar

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ABC = ("ann", "ben", "cho")
START = datetime(2026, 1, 5, 9, 0)  # noqa: DTZ001 -- a Monday in local time
BERLIN = ZoneInfo("Europe/Berlin")


def rotation(every: str = "1w", zone: str = "Europe/Berlin", **parts: Any) -> Schedule:
    """Return a rotation of three people."""
    usual = {"name": "on-call", "people": ABC, "start": START, "time_zone": zone, "every": every}
    return Schedule(**(usual | parts))


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]
)
def test_rotation_hands_over_at_the_same_local_time_all_year(zone: str) -> None:
    """In every week of two years, one person hands over to the next at nine."""
    place = ZoneInfo(zone)
    for week in range(104):
        at = (START + week * 7 * DAY).replace(tzinfo=place)
        schedule = rotation(zone=zone)
        assert schedule.on_call(at) == (ABC[week % 3],)
        before = (at.astimezone(UTC) - timedelta(minutes=1)).astimezone(place)
        assert schedule.on_call(before) == ((ABC[(week - 1) % 3],) if week else ())


def test_half_day_shifts_keep_their_local_times() -> None:
    """Day and night shifts change at nine in the morning and evening, also in summer."""
    schedule = rotation("12h", people=("day", "night"))
    for day in range(400):
        noon = (START + day * DAY + 3 * HOUR).replace(tzinfo=BERLIN)
        late = (START + day * DAY + 12 * HOUR).replace(tzinfo=BERLIN)
        early = (START + day * DAY + 23 * HOUR).replace(tzinfo=BERLIN)
        assert [schedule.on_call(one) for one in (noon, late, early)] == [
            ("day",), ("night",), ("night",)
        ]  # fmt: skip


def test_handover_in_a_skipped_or_repeated_hour_happens_once() -> None:
    """A handover in Berlin's repeated or skipped hour happens once, and no shift is lost."""
    schedule = rotation("1d", start=datetime(2026, 3, 28, 2, 30))  # noqa: DTZ001
    moment = datetime(2026, 3, 28, 2, tzinfo=UTC)
    seen: list[tuple[str, str]] = []
    for _ in range(60 * 24 * 2):
        (who,) = schedule.on_call(moment)
        if not seen or seen[-1][1] != who:
            seen.append((moment.astimezone(BERLIN).strftime("%d %H:%M"), who))
        moment += timedelta(minutes=1)
    assert seen == [("28 03:00", "ann"), ("29 03:30", "ben"), ("30 02:30", "cho")]


@given(
    every=st.sampled_from(["1h", "6h", "8h", "12h", "1d", "2d", "1w"]),
    minutes=st.integers(0, 600 * 1440),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
)
def test_one_person_is_on_call_at_every_moment(every: str, minutes: int, zone: str) -> None:
    """From the start, exactly one person is on call; an hour later it is the same or the next."""
    schedule = rotation(every, zone)
    moment = START.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) + timedelta(minutes=minutes)
    (one,), (later,) = schedule.on_call(moment), schedule.on_call(moment + timedelta(minutes=59))
    steps = (ABC.index(later) - ABC.index(one)) % 3
    # When the clocks skip an hour, two handovers of an hourly rotation fall together.
    assert steps <= (2 if every == "1h" else 1)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"people": ()}, "neither"),
        ({"start": None}, "neither"),
        ({"ics": "a.ics"}, "take one of them out"),
        ({"start": START.replace(tzinfo=UTC)}, "without an offset"),
        ({"every": "36h"}, "whole days"),
        ({"every": "7h"}, "divide a day"),
        ({"every": "30m"}, "divide a day"),
        ({"name": "a b"}, "pattern"),
        ({"overrides": [{"from": START, "to": START, "person": "ann"}]}, "begins at"),
        ({"overrides": [{"from": START, "to": START.replace(tzinfo=UTC), "person": "ann"}]}, "off"),
        (
            {"overrides": [{"from": START, "to": START.replace(year=9999), "person": "ann"}]},
            "too far",
        ),
        ({"overrides": [{"from": START, "to": START + DAY, "person": ""}]}, "at least 1"),
    ],
)
def test_bad_schedules_are_refused(parts: dict[str, Any], message: str) -> None:
    """A schedule that does not determine the person on call is refused."""
    with pytest.raises(ValidationError, match=message):
        rotation(**parts)


def test_a_calendar_takes_no_overrides() -> None:
    """They belong into the calendar."""
    part = {"from": START, "to": START + DAY, "person": "ann"}
    with pytest.raises(ValidationError, match="change the events there"):
        Schedule(name="ics", calendar=CALENDAR, overrides=[part])


@pytest.mark.parametrize(
    ("moment", "taker"),
    [
        # On 29 March, Berlin skips 02:00 to 03:00; on 25 October, it shows that hour twice.
        ("2026-03-29T00:29+00:00", ""),
        ("2026-03-29T00:30+00:00", "ben"),
        ("2026-03-29T01:29+00:00", "ben"),  # 03:29: 02:30 is half an hour after 02:00
        ("2026-03-29T01:30+00:00", ""),
        ("2026-10-25T00:29+00:00", "cho"),
        ("2026-10-25T00:30+00:00", "cho"),  # 02:30 for the first time; the later entry applies
        ("2026-10-25T02:59+00:00", "cho"),
        ("2026-10-25T03:00+00:00", ""),
    ],
)
def test_overrides_follow_the_local_clock(moment: str, taker: str) -> None:
    """Skipped and repeated times are read as those of handovers; the last override applies."""
    night, day = datetime(2026, 3, 29), datetime(2026, 10, 25)  # noqa: DTZ001 -- local times
    half, two, four = timedelta(minutes=30), 2 * HOUR, 4 * HOUR
    schedule = rotation(
        overrides=[
            {"from": night + HOUR + half, "to": night + two + half, "person": "ben"},
            {"from": day, "to": day + two + half, "person": "ben"},
            {"from": day + HOUR, "to": day + four, "person": "cho"},
        ]
    )
    assert schedule.taken_by(datetime.fromisoformat(moment)) == taker


CALENDAR = """\
BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//test//EN
BEGIN:VEVENT
UID:weekly@example.com
DTSTAMP:20260101T000000Z
DTSTART;TZID=Europe/Berlin:20260105T090000
DTEND;TZID=Europe/Berlin:20260105T170000
RRULE:FREQ=WEEKLY;BYDAY=MO,TU
EXDATE;TZID=Europe/Berlin:20260330T090000
SUMMARY:On call
ATTENDEE;CN=Ann:mailto:ann@example.com
ATTENDEE;PARTSTAT=DECLINED:mailto:ben@example.com
END:VEVENT
BEGIN:VEVENT
UID:weekly@example.com
DTSTAMP:20260101T000000Z
RECURRENCE-ID;TZID=Europe/Berlin:20260331T090000
DTSTART;TZID=Europe/Berlin:20260331T120000
DTEND;TZID=Europe/Berlin:20260331T130000
SUMMARY:cho, ben
END:VEVENT
BEGIN:VEVENT
UID:floating@example.com
DTSTAMP:20260101T000000Z
DTSTART;VALUE=DATE:20260401
SUMMARY:ben
END:VEVENT
BEGIN:VEVENT
UID:off@example.com
DTSTAMP:20260101T000000Z
DTSTART:20260402T000000Z
DTEND:20260403T000000Z
STATUS:CANCELLED
SUMMARY:ben
END:VEVENT
END:VCALENDAR
"""


@pytest.mark.parametrize(
    ("moment", "who"),
    [
        ("2026-03-23T08:00+00:00", ("ann@example.com",)),  # winter: 09:00 is 08:00 UTC
        ("2026-03-23T07:59+00:00", ()),
        ("2026-03-30T08:00+00:00", ()),  # removed
        ("2026-03-31T08:00+00:00", ()),  # moved
        ("2026-03-31T10:00+00:00", ("cho", "ben")),
        ("2026-04-06T07:00+00:00", ("ann@example.com",)),  # summer: 09:00 is 07:00 UTC
        ("2026-04-06T15:00+00:00", ()),
        ("2026-03-31T22:00+00:00", ("ben",)),  # a whole day, in local time
        ("2026-04-01T22:00+00:00", ()),
        ("2026-04-02T12:00+00:00", ()),  # cancelled
    ],
)
def test_calendar_attendees_and_summary_names_are_on_call(
    moment: str, who: tuple[str, ...]
) -> None:
    """Attendees who did not decline, or names in the summary; recurrences and exceptions count."""
    schedule = Schedule(name="ics", time_zone="Europe/Berlin", calendar=CALENDAR)
    assert schedule.on_call(datetime.fromisoformat(moment)) == who


@pytest.mark.parametrize("text", ["x", "BEGIN:VCALENDAR", "BEGIN:VEVENT\nEND:VEVENT\n", "\0", "[]"])
def test_invalid_calendar_is_refused_with_one_error(text: str) -> None:
    """Any error of the library becomes one error."""
    with pytest.raises(ValueError, match=r"no iCalendar|cannot be read"):
        read_calendar(text)
