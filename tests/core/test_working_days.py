"""A business day is one working day, whatever its hours."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from signoff.core.base.durations import Span, SpanText, parse_span
from signoff.core.directory.people import Person
from signoff.core.directory.working_time import LONGEST, after, works

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
TUESDAY = datetime(2026, 3, 3, tzinfo=UTC)
SPAN = TypeAdapter(SpanText)


def worker(*hours: str, zone: str = "UTC", **parts: object) -> Person:
    """Return a person with these hours."""
    return Person(id="mara", email="m@example.com", time_zone=zone, hours=hours, **parts)


def at(text: str) -> datetime:
    """Return a moment of March 2026: "03 15:00" is a Tuesday."""
    return datetime.strptime(f"2026-03-{text}", "%Y-%m-%d %H:%M").replace(tzinfo=UTC)


OFFICE = worker("Mon-Fri 09:00-17:00")
SHORT_FRIDAY = worker("Mon-Thu 09:00-17:00", "Fri 09:00-13:00")
LATE_FRIDAY = worker("Mon-Thu 09:00-17:00", "Fri 12:00-20:00")
NIGHTS = worker("Mon-Sun 22:00-06:00")


@pytest.mark.parametrize(
    ("person", "asked", "span", "until"),
    [
        (OFFICE, "03 15:00", "1d", "04 15:00"),
        (OFFICE, "03 15:00", "2d", "05 15:00"),
        (OFFICE, "06 15:00", "1d", "09 15:00"),  # over the weekend
        (OFFICE, "07 11:00", "1d", "10 09:00"),  # on Saturday: Monday is the day
        (OFFICE, "03 17:00", "1d", "05 09:00"),  # at the end of a day
        (OFFICE, "03 08:00", "1d", "04 09:00"),
        (OFFICE, "03 15:00", "1d 4h", "05 11:00"),
        (OFFICE, "03 15:00", "5d", "10 15:00"),
        (OFFICE, "03 15:00", "24h", "06 15:00"),  # a ServiceNow day
        (SHORT_FRIDAY, "05 15:00", "1d", "06 13:00"),
        (LATE_FRIDAY, "05 10:00", "1d", "06 12:00"),
        (NIGHTS, "03 23:00", "1d", "04 23:00"),
        (NIGHTS, "03 02:00", "1d", "04 02:00"),
    ],
)
def test_span_in_working_days_ends_at_the_same_time_of_day(
    person: Person, asked: str, span: str, until: str
) -> None:
    """Weekends do not count; the last day ends with its hours or begins with them."""
    assert after(at(asked), parse_span(f"{span} business"), [person]) == at(until)


def test_holidays_and_absences_do_not_count_as_working_days() -> None:
    """Holidays and absences are not working days; of two people, the first one back counts."""
    away = worker("Mon-Fri 09:00-17:00", away=[{"from": date(2026, 3, 4), "to": date(2026, 3, 5)}])
    good_friday = worker("Mon-Fri 09:00-17:00", holidays="DE")
    day = parse_span("1d business")
    assert after(at("03 15:00"), day, [away]) == at("06 15:00")
    assert after(at("03 15:00"), day, [away, OFFICE]) == at("04 15:00")
    thursday = datetime(2026, 4, 2, 15, tzinfo=UTC)
    assert after(thursday, day, [good_friday]) == datetime(2026, 4, 7, 15, tzinfo=UTC)


def test_span_in_working_days_keeps_local_time_across_clock_changes() -> None:
    """In Berlin, Friday 15:00 plus one day is Monday 15:00, an hour less in between."""
    berlin = ZoneInfo("Europe/Berlin")
    person = worker("Mon-Fri 09:00-17:00", zone="Europe/Berlin")
    friday = datetime(2026, 3, 27, 15, tzinfo=berlin)
    until = after(friday, parse_span("1d business"), [person])
    assert until == datetime(2026, 3, 30, 15, tzinfo=berlin)
    assert until - friday.astimezone(UTC) == 3 * DAY - HOUR


def test_days_without_hours_are_clock_days_and_end_after_two_years() -> None:
    """Without hours the clock counts; for an endless absence, it ends after two years."""
    gone = worker("Mon-Fri 09:00-17:00", away=[{"from": date(2020, 1, 1), "to": date(2040, 1, 1)}])
    assert after(TUESDAY, parse_span("2d4h business"), [worker()]) == TUESDAY + 2 * DAY + 4 * HOUR
    assert after(TUESDAY, parse_span("1d business"), [gone]) == TUESDAY + LONGEST


@given(
    hours=st.sampled_from([OFFICE, SHORT_FRIDAY, LATE_FRIDAY, NIGHTS]),
    begin=st.integers(0, 14 * 1440),
    more=st.integers(0, 1440),
    days=st.integers(1, 20),
    length=st.integers(0, 600),
)
def test_later_start_or_longer_span_never_ends_earlier(
    *, hours: Person, begin: int, more: int, days: int, length: int
) -> None:
    """A later start never ends earlier, and a longer span never ends earlier."""
    asked, later = TUESDAY + begin * MINUTE, TUESDAY + (begin + more) * MINUTE
    span = Span(length * MINUTE, business=True, days=days)
    until = after(asked, span, [hours])
    assert asked < until <= after(later, span, [hours])
    assert until <= after(asked, Span(length * MINUTE, business=True, days=days + 1), [hours])
    assert until <= after(asked, Span((length + 1) * MINUTE, business=True, days=days), [hours])
    # It ends while the person works, or at the end of their hours.
    assert works(hours, until) or works(hours, until - MINUTE)


@given(days=st.integers(0, 100), seconds=st.integers(1, 10**6), business=st.booleans())
def test_span_of_working_time_reads_back_as_written(
    *, days: int, seconds: int, business: bool
) -> None:
    """A record keeps a span as it is: 30 hours of work do not become a day and six hours."""
    span = Span(timedelta(seconds=seconds), business=business, days=days if business else 0)
    assert SPAN.validate_python(SPAN.dump_python(span)) == span


@pytest.mark.parametrize("text", ["1w business", "business", "0d business", "366d business"])
def test_invalid_span_of_working_time_is_refused(text: str) -> None:
    """Weeks, empty spans and spans of more than a year are refused."""
    with pytest.raises(ValueError, match=r"business|duration|between|too long"):
        parse_span(text)
