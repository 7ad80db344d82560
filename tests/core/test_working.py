"""Working time, compared with a minute-by-minute walk along the local clock."""

from __future__ import annotations

import functools
import itertools
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from signoff.core.base.durations import Span
from signoff.core.directory.hours import Absence, window
from signoff.core.directory.people import Person
from signoff.core.directory.working_time import LONGEST, works
from signoff.core.directory.working_time import after as after_span

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
CHANGES = {
    "Europe/Berlin": (date(2026, 3, 29), date(2026, 10, 25)),
    "America/New_York": (date(2026, 3, 8), date(2026, 11, 1)),
    "Australia/Lord_Howe": (date(2026, 4, 5), date(2026, 10, 4)),  # by 30 minutes
    "Asia/Kathmandu": (date(2028, 2, 29), date(2026, 10, 25)),  # never, and 5:45 ahead
    "Pacific/Chatham": (date(2026, 4, 5), date(2026, 9, 27)),  # 12:45 and 13:45 ahead
    "Africa/Cairo": (date(2026, 4, 24), date(2026, 10, 30)),  # at midnight
    "Antarctica/Troll": (date(2026, 3, 29), date(2026, 10, 25)),  # by two hours
    "UTC": (date(2026, 3, 29), date(2026, 10, 25)),
}
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)


def worker(*hours: str, zone: str = "UTC", **parts: object) -> Person:
    """Return a person with these hours."""
    return Person(id="mara", email="m@example.com", time_zone=zone, hours=hours, **parts)


def after(moment: datetime, length: timedelta, people: list[Person]) -> datetime:
    """Return the end of this much business time."""
    return after_span(moment, Span(length, business=True), people)


@functools.cache
def walls(zone: str, around: date) -> dict[datetime, datetime]:
    """Return the local time at each minute (UTC) of the days around a date."""
    begin = datetime(around.year, around.month, around.day, tzinfo=UTC) - 5 * DAY
    place = ZoneInfo(zone)
    minutes = (begin + number * MINUTE for number in range(12 * 1440))
    return {one: one.astimezone(place).replace(tzinfo=None) for one in minutes}


@functools.cache
def firsts(zone: str, around: date) -> dict[datetime, datetime]:
    """Return the first minute at which the clock shows each time."""
    found: dict[datetime, datetime] = {}
    for minute, wall in walls(zone, around).items():
        found.setdefault(wall, minute)
    return found


def shown(wall: datetime, zone: str, around: date) -> datetime:
    """Return when the clock shows a time; a skipped time counts on from the last one before."""
    seen = firsts(zone, around)
    if wall in seen:
        return seen[wall]
    before = wall
    while before not in seen:
        before -= MINUTE
    return seen[before] + (wall - before)


@functools.cache
def worked(text: str, zone: str, around: date, free: frozenset[date]) -> frozenset[datetime]:
    """Return the minutes of these working hours, except on free days."""
    hours, found = window(text), set[datetime]()
    for number in range(-4, 6):
        day = around + number * DAY
        if day in free or day.weekday() not in hours.days:
            continue
        midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 -- local time
        begin, end = (shown(midnight + one, zone, around) for one in (hours.start, hours.end))
        found.update(begin + number * MINUTE for number in range((end - begin) // MINUTE))
    return frozenset(found)


TIMES = ("00:00", "01:45", "02:00", "02:15", "02:30", "03:00", "09:00", "17:30")
times = st.sampled_from(TIMES)
spans = st.builds("Mon-Sun {}-{}".format, times, times)
places = st.tuples(st.sampled_from(sorted(CHANGES)), st.integers(0, 1))


@given(
    place=places,
    elsewhere=st.sampled_from(sorted(CHANGES)),
    hours=st.lists(spans, min_size=1, max_size=2),
    other=st.lists(spans, max_size=1),
    begin=st.integers(-1440, 1440),
    length=st.integers(1, 1500),
    free=st.integers(-1, 1),
)
def test_working_time_follows_local_time_across_clock_changes(
    *,
    place: tuple[str, int],
    elsewhere: str,
    hours: list[str],
    other: list[str],
    begin: int,
    length: int,
    free: int,
) -> None:
    """This holds when the clocks change, for two people in two zones, one with a day off."""
    zone, which = place
    around = CHANGES[zone][which]
    moment = datetime(around.year, around.month, around.day, tzinfo=UTC) + begin * MINUTE
    off = around + free * DAY
    people = [
        worker(*hours, zone=zone, away=[{"from": off, "to": off}]),
        worker(*other, zone=elsewhere),
    ]
    minutes = set[datetime]()
    for text in hours:
        minutes |= worked(text, zone, around, frozenset({off}))
    for text in other:
        minutes |= worked(text, elsewhere, around, frozenset())
    counted = sorted(one for one in minutes if one >= moment)
    if len(counted) >= length:
        assert after(moment, length * MINUTE, people) == counted[length - 1] + MINUTE
    assert any(works(one, moment) for one in people) == (moment in minutes)


@pytest.mark.parametrize("zone", sorted(CHANGES))
def test_every_start_is_right_on_the_days_of_the_change(zone: str) -> None:
    """If a part of the span is skipped or repeated, the rest ends at the same minute."""
    for around, start, end in itertools.product(CHANGES[zone], TIMES, ("02:20", "09:00")):
        text = f"Mon-Sun {start}-{end}"
        moment = datetime(around.year, around.month, around.day, tzinfo=UTC) - 16 * HOUR
        counted = sorted(one for one in worked(text, zone, around, frozenset()) if one >= moment)
        for length in (60, 600, 1200):
            found = after(moment, length * MINUTE, [worker(text, zone=zone)])
            if length <= len(counted):
                assert found == counted[length - 1] + MINUTE


@pytest.mark.parametrize(
    ("zone", "day", "end"),
    [
        # 00:00 to 06:00 lasts five hours, and then seven; in one zone half an hour less or more.
        ("Europe/Berlin", date(2026, 3, 29), "2026-03-29T04:00+00:00"),
        ("Europe/Berlin", date(2026, 10, 25), "2026-10-25T05:00+00:00"),
        ("America/New_York", date(2026, 3, 8), "2026-03-08T10:00+00:00"),
        ("America/New_York", date(2026, 11, 1), "2026-11-01T11:00+00:00"),
        ("Australia/Lord_Howe", date(2026, 10, 4), "2026-10-03T19:00+00:00"),
        ("Australia/Lord_Howe", date(2026, 4, 5), "2026-04-04T19:30+00:00"),
    ],
)
def test_a_shift_is_as_long_as_the_night(zone: str, day: date, end: str) -> None:
    """In a night when the clocks change, the shift ends at its local time."""
    mara = worker("Mon-Sun 00:00-06:00", zone=zone)
    moment = datetime.fromisoformat(end) - MINUTE
    assert works(mara, moment)
    assert not works(mara, moment + MINUTE)
    assert moment.astimezone(ZoneInfo(zone)).strftime("%H:%M") == "05:59"
    assert moment.astimezone(ZoneInfo(zone)).date() == day


def test_working_time_continues_on_the_next_working_day() -> None:
    """Four hours on a Friday at half past three end on Monday at half past eleven."""
    friday = datetime(2026, 3, 6, 15, 30, tzinfo=UTC)
    mara = worker("Mon-Fri 09:00-17:00")
    assert after(friday, 4 * HOUR, [mara]) == datetime(2026, 3, 9, 11, 30, tzinfo=UTC)


def test_holidays_and_absences_do_not_count() -> None:
    """The span skips Good Friday and Easter Monday, and then an absence of a week."""
    thursday = datetime(2026, 4, 2, 15, 0, tzinfo=UTC)
    away = [{"from": "2026-04-07", "to": "2026-04-10"}]
    mara = worker("Mon-Fri 09:00-17:00", holidays="DE-BY")
    assert after(thursday, 3 * HOUR, [mara]) == datetime(2026, 4, 7, 10, tzinfo=UTC)
    mara = worker("Mon-Fri 09:00-17:00", holidays="DE-BY", away=away)
    assert after(thursday, 3 * HOUR, [mara]) == datetime(2026, 4, 13, 10, tzinfo=UTC)


def test_working_time_runs_while_at_least_one_person_works() -> None:
    """Hours in two zones add up; an hour in which both work counts once."""
    berlin = worker("Mon-Fri 09:00-17:00", zone="Europe/Berlin")  # 08:00 to 16:00 UTC
    york = worker("Mon-Fri 09:00-17:00", zone="America/New_York")  # 14:00 to 22:00 UTC
    assert after(MONDAY, 14 * HOUR, [berlin, york]) == MONDAY + 22 * HOUR
    assert after(MONDAY, 15 * HOUR, [york, berlin]) == MONDAY + DAY + 9 * HOUR


def test_span_without_working_hours_is_clock_time() -> None:
    """Without people or hours it is clock time; a person without hours adds no working time."""
    idle, mara = worker(), worker("Mon-Fri 09:00-17:00")
    assert after(MONDAY, HOUR, []) == after(MONDAY, HOUR, [idle]) == MONDAY + HOUR
    assert after(MONDAY, HOUR, [idle, mara]) == MONDAY + 10 * HOUR
    assert not works(idle, MONDAY)
    assert after_span(MONDAY, Span(HOUR), [mara]) == MONDAY + HOUR


def test_working_time_always_ends() -> None:
    """A person who never returns, or works an hour a week, does not delay the end forever."""
    gone = worker("Mon-Fri 09:00-17:00", away=[{"from": "2000-01-01", "to": "9999-12-31"}])
    assert after(MONDAY, HOUR, [gone]) == MONDAY + LONGEST
    assert after(MONDAY, 365 * DAY, [worker("Mon 09:00-10:00")]) == MONDAY + LONGEST


@pytest.mark.parametrize(
    ("text", "days", "start", "end"),
    [
        ("Mon-Fri 09:00-17:00", {0, 1, 2, 3, 4}, 9, 17),
        ("mon , wed - THU 00:00 - 24:00", {0, 2, 3}, 0, 24),
        ("Sat-Mon 22:00-06:00", {5, 6, 0}, 22, 30),
        ("Sun 08:00-08:00", {6}, 8, 32),
    ],
)
def test_hours_are_read(text: str, days: set[int], start: int, end: int) -> None:
    """Days are ranges and lists; an end before or at the start is on the next day."""
    assert window(text) == window(text)
    read = window(text)
    assert (set(read.days), read.start, read.end) == (days, start * HOUR, end * HOUR)


@pytest.mark.parametrize(
    "text",
    [
        *("", "Mon", "09:00-17:00", "Mon-Fri 9-17", "Mon 09:60-10:00", "Mon 25:00-26:00"),
        *("Mon 24:00-10:00", "Xyz 09:00-10:00", "Mon-Fry 09:00-10:00", "Mon 09:00-24:30"),
    ],
)
def test_bad_hours_are_refused(text: str) -> None:
    """The error says how to write hours."""
    with pytest.raises(ValidationError, match=r"Mon-Fri 09:00-17:00|24:00"):
        worker(text)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"time_zone": "Europe/Berln"}, "write it like Europe/Berlin"),
        ({"time_zone": "../../etc/passwd"}, "there is no time zone"),
        ({"time_zone": ""}, "there is no time zone"),
        ({"time_zone": "Europe"}, "there is no time zone"),
        ({"holidays": "XX"}, "write it like DE or DE-BY"),
        ({"holidays": "DE-XX"}, "parts of DE: BB, BE"),
        ({"away": [{"from": "2026-02-02", "to": "2026-02-01"}]}, "before it begins"),
    ],
)
def test_unknown_name_is_refused_with_a_suggestion(parts: dict[str, object], message: str) -> None:
    """The error suggests a correct value."""
    with pytest.raises(ValidationError, match=message):
        Person(id="mara", email="m@example.com", **parts)


def test_an_absence_is_in_days_of_the_person() -> None:
    """Beyond the date line, an absence begins when the local day begins."""
    mara = worker(zone="Pacific/Auckland", away=[{"from": "2026-03-03", "to": "2026-03-03"}])
    assert mara.absence(MONDAY + 10 * HOUR) is None
    assert mara.absence(MONDAY + 11 * HOUR) == mara.away[0]
    assert mara.absence(MONDAY + 35 * HOUR) is None


def test_absence_is_written_with_from_and_to() -> None:
    """`from` and `to` stay, although they cannot be names in Python."""
    one = Absence(start=date(2026, 3, 3), end=date(2026, 3, 4), delegate="tom")
    assert one.model_dump(mode="json") == {
        "from": "2026-03-03",
        "to": "2026-03-04",
        "delegate": "tom",
        "second_factor": False,
    }
    assert Absence.model_validate_json(one.model_dump_json()) == one
