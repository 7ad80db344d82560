"""Moments as people say them: ``Friday 17:30``, ``tomorrow 09:00``, ``2026-11-20T17:30+01:00``.

`moment_text` is the one way in which they are written for people.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SPOKEN: Final = re.compile(
    r"(?:(?P<day>[a-z]+|\d{4}-\d{2}-\d{2})(?:\s*,)?)?\s*(?:(?:at\s+)?(?P<time>\d{1,2}:\d{2}(?::\d{2})?))?"
)
_EXAMPLES: Final = "write it like Friday 17:30, tomorrow 09:00, 17:30 or 2026-11-20T17:30+01:00"
_RELATIVE: Final = frozenset({"now", "today", "tomorrow", *_DAYS, *(one[:3] for one in _DAYS)})


def read_moment(text: str, zone: tzinfo, *, now: datetime | None = None) -> datetime:
    """Return the moment (UTC) that somebody names.

    The name of a day of the week means its next one, and a time without a day the next such time;
    a day without a time begins at midnight. ISO 8601 with an offset needs no zone.

    Args:
        text: What was said.
        zone: Where clocks show these times.
        now: The present, from which days of the week are counted; without one they are refused.

    Raises:
        ValueError: It is no moment, or one that the clocks of the zone skip.
    """
    if now is None:
        if is_relative(text):
            raise ValueError(f"{text!r} is another moment every week: write it with its date")
        now = datetime(1970, 1, 1, tzinfo=UTC)  # nothing is counted from it
    spoken = " ".join(text.lower().split())
    if spoken == "now":
        return now.astimezone(UTC)
    found = _SPOKEN.fullmatch(spoken)
    if found is None or not spoken:
        return _iso(text, zone)
    clock = _clock(found["time"], text)
    if found["day"] is None:
        here = now.astimezone(zone)
        return _next(here.date(), timedelta(days=1), clock, zone, now)
    return _on(found["day"], clock, zone, now=now, text=text)


def moment_text(at: datetime, zone: tzinfo) -> str:
    """Write a moment as clocks of a zone show it, and name the zone: ``Tue 3 Mar 2026, 15:05 CET``.

    Where a zone has no name for its time, the difference to UTC stands there: ``UTC+04``.
    """
    here = in_its_zone(at, zone)
    return f"{here:%a} {here.day} {here:%b %Y, %H:%M} {zone_name(here)}"


def in_its_zone(at: datetime, zone: tzinfo) -> datetime:
    """Return a moment with the clock of a zone; at the ends of the calendar, with that of UTC."""
    try:
        return at.astimezone(zone)
    except OverflowError:
        return at.astimezone(UTC)


def zone_name(here: datetime) -> str:
    """Return what the time of a moment is called: ``CET``, ``UTC+04``."""
    name = here.tzname() or ""
    return name if name[:1].isalpha() else f"UTC{name}"


def is_relative(text: str) -> bool:
    """Say whether what this means depends on the day on which it is read."""
    words = re.findall(r"[a-z]+", text.lower())
    return any(one in _RELATIVE for one in words) or bool(re.fullmatch(r"\s*[\d:]+\s*", text))


def _on(day: str, clock: time, zone: tzinfo, *, now: datetime, text: str) -> datetime:
    today = now.astimezone(zone).date()
    if day in {"today", "tomorrow"}:
        return in_zone(datetime.combine(today + timedelta(days=day == "tomorrow"), clock), zone)
    if day[0].isdigit():
        try:
            return in_zone(datetime.combine(date.fromisoformat(day), clock), zone)
        except ValueError as error:
            raise ValueError(f"{text!r} is no moment: {error}") from error
    number = next((at for at, name in enumerate(_DAYS) if day in {name, name[:3]}), None)
    if number is None:
        raise ValueError(f"{text!r} is no moment: {_EXAMPLES}")
    first = today + timedelta(days=(number - today.weekday()) % 7)
    return _next(first, timedelta(weeks=1), clock, zone, now)


def _next(first: date, step: timedelta, clock: time, zone: tzinfo, now: datetime) -> datetime:
    moment = in_zone(datetime.combine(first, clock), zone)
    return moment if moment >= now else in_zone(datetime.combine(first + step, clock), zone)


def _clock(text: str | None, whole: str) -> time:
    try:
        hours, _, rest = (text or "0:00").partition(":")
        return time.fromisoformat(f"{int(hours):02}:{rest}")
    except ValueError as error:
        raise ValueError(f"{whole!r} is no moment: there is no {text} on a clock") from error


def _iso(text: str, zone: tzinfo) -> datetime:
    try:
        read = datetime.fromisoformat(text.strip().replace("z", "Z"))
    except ValueError as error:
        raise ValueError(f"{text!r} is no moment: {_EXAMPLES}") from error
    return read.astimezone(UTC) if read.tzinfo is not None else in_zone(read, zone)


def in_zone(shown: datetime, zone: tzinfo) -> datetime:
    """Return the moment (UTC) at which clocks show this; where they show it twice, the first.

    Raises:
        ValueError: They skip it.
    """
    try:
        moment = shown.replace(tzinfo=zone, fold=0).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{shown} is beyond all calendars") from error
    if moment.astimezone(zone).replace(tzinfo=None) != shown:
        raise ValueError(
            f"there is no {shown:%H:%M} on {shown:%Y-%m-%d} in {zone}: the clocks skip it"
        )
    return moment
