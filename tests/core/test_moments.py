"""Points in time as people write them, in their time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.core.base.moments import in_zone, is_relative, read_moment

BERLIN = ZoneInfo("Europe/Berlin")
WEDNESDAY = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Friday 17:30", "2026-11-20T17:30"),
        ("fri, 17:30", "2026-11-20T17:30"),
        ("friday at 9:05", "2026-11-20T09:05"),
        ("Wednesday 14:00", "2026-11-18T14:00"),
        ("Wednesday 12:00", "2026-11-25T12:00"),
        ("monday", "2026-11-23T00:00"),
        ("today 08:00", "2026-11-18T08:00"),
        ("Tomorrow 09:00", "2026-11-19T09:00"),
        ("14:00", "2026-11-18T14:00"),
        ("12:59", "2026-11-19T12:59"),
        ("2026-03-29", "2026-03-29T00:00"),
        ("2026-03-29 3:00", "2026-03-29T03:00"),
        ("2026-07-01T17:30", "2026-07-01T17:30"),
        ("2026-07-01T17:30Z", "2026-07-01T19:30"),
        ("2026-07-01 17:30-05:00", "2026-07-02T00:30"),
        ("now", "2026-11-18T13:00"),
    ],
)
def test_moment_accepts_weekdays_dates_and_times(text: str, shown: str) -> None:
    """A weekday is the next one; ISO dates are read as written; times use the zone."""
    moment = read_moment(text, BERLIN, now=WEDNESDAY)
    assert moment.tzinfo is UTC
    assert moment.astimezone(BERLIN).strftime("%Y-%m-%dT%H:%M") == shown


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Fryday 17:30", "write it like Friday 17:30"),
        ("25:00", "25:00 is not a time of day"),
        ("2026-02-30 10:00", "is not a moment"),
        ("", "write it like"),
        ("2026-03-29 02:30", "the clocks skip it"),
        ("next week", "write it like"),
        ("0001-01-01 00:00", "beyond the end of the calendar"),
    ],
)
def test_invalid_moment_is_refused_with_the_correct_form(text: str, why: str) -> None:
    """The error says what was wrong and how to write it."""
    with pytest.raises(ValueError, match=why):
        read_moment(text, BERLIN, now=WEDNESDAY)


def test_an_hour_that_clocks_show_twice_is_the_first() -> None:
    """On the day when the clocks go back, 02:30 is the one in summer time."""
    moment = read_moment("2026-10-25 02:30", BERLIN, now=WEDNESDAY)
    assert moment == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "relative"),
    [("Friday 17:30", True), ("17:30", True), ("now", True), ("2026-11-20T17:30Z", False)],
)
def test_moment_that_depends_on_today_is_refused(text: str, relative: bool) -> None:
    """A test case that runs for years must mean the same day each time."""
    assert is_relative(text) is relative


@given(st.integers(0, 15 * 365 * 86400), st.sampled_from(range(7)))
def test_a_weekday_is_within_a_week(seconds: int, day: int) -> None:
    """It is never in the past, and at most a week away (plus an hour if the clocks change)."""
    names = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
    present = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    moment = read_moment(f"{names[day]} 12:00", BERLIN, now=present)
    assert moment >= present
    assert (moment - present).total_seconds() <= 7 * 86400 + 3600
    assert moment.astimezone(BERLIN).weekday() == day


def test_shown_moment_reads_back_as_itself() -> None:
    """A moment that is shown in the zone reads back as the same moment."""
    shown = datetime.fromisoformat("2026-05-04T03:02:01")
    assert in_zone(shown, BERLIN).astimezone(BERLIN).replace(tzinfo=None) == shown
