"""Reads moments as people write them: ``Friday 17:30``, ``2026-11-20T17:30+01:00``.

`moment_text` writes them for people.
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
    """Return the moment (UTC) that a text means.

    A day of the week means the next such day, and a time without a day means the next such time. A
    day without a time means midnight. ISO 8601 with an offset needs no zone.

    Args:
        text: The text.
        zone: The time zone of the text.
        now: The present, from which relative days are counted; without it they are refused.

    Raises:
        ValueError: The text is not a moment, or the clocks of the zone skip it.
    """
    if now is None:
        if is_relative(text):
            raise ValueError(f"{text!r} depends on the present day: write it with its date")
        now = datetime(1970, 1, 1, tzinfo=UTC)  # only relative moments need it
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
    """Return a moment in local time with the name of its zone: ``Tue 3 Mar 2026, 15:05 CET``.

    If the zone has no abbreviation, the difference to UTC replaces it: ``UTC+04``.
    """
    here = in_its_zone(at, zone)
    return f"{here:%a {here.day} %b %Y, %H:%M} {zone_name(here)}"


def in_its_zone(at: datetime, zone: tzinfo) -> datetime:
    """Return a moment in a time zone; at the ends of the calendar, in UTC."""
    try:
        return at.astimezone(zone)
    except OverflowError:
        return at.astimezone(UTC)


def zone_name(here: datetime) -> str:
    """Return the abbreviation of a moment's time zone: ``CET``, ``UTC+04``."""
    name = here.tzname() or ""
    return name if name[:1].isalpha() else f"UTC{name}"


def is_relative(text: str) -> bool:
    """Say whether the meaning of a text depends on the present day."""
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
            raise ValueError(f"{text!r} is not a moment: {error}") from error
    number = next((at for at, name in enumerate(_DAYS) if day in {name, name[:3]}), None)
    if number is None:
        raise ValueError(f"{text!r} is not a moment: {_EXAMPLES}")
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
        raise ValueError(f"{whole!r} is not a moment: {text} is not a time of day") from error


def _iso(text: str, zone: tzinfo) -> datetime:
    try:
        read = datetime.fromisoformat(text.strip().replace("z", "Z"))
    except ValueError as error:
        raise ValueError(f"{text!r} is not a moment: {_EXAMPLES}") from error
    return read.astimezone(UTC) if read.tzinfo is not None else in_zone(read, zone)


def in_zone(shown: datetime, zone: tzinfo) -> datetime:
    """Return the moment (UTC) of a local time; if the clocks show it twice, the first moment.

    Raises:
        ValueError: The clocks skip this local time.
    """
    try:
        moment = shown.replace(tzinfo=zone, fold=0).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{shown} is beyond the end of the calendar") from error
    if moment.astimezone(zone).replace(tzinfo=None) != shown:
        raise ValueError(
            f"there is no {shown:%H:%M} on {shown:%Y-%m-%d} in {zone}: the clocks skip it"
        )
    return moment
