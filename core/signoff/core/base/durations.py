"""Lengths of time as people write them: "90s", "4h", "1h30m", "4h business", "2d business"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Annotated, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_PART = re.compile(r"([0-9]{1,9})(ms|[wdhms])")
_SUM = re.compile(rf"(?:{_PART.pattern})+")
_SHORTEST: Final = timedelta(milliseconds=1)
LONGEST: Final = timedelta(days=365)
"""The longest allowed duration."""

_DAY: Final = timedelta(days=1)
_BUSINESS: Final = "business"


def parse_duration(text: object) -> object:
    """Read ``"90s"``, ``"30m"``, ``"4h"``, ``"2d"``, ``"1w"`` or a sum of them, ``"1h30m"``.

    Any other type than a string is returned unchanged (seconds, or a timedelta).

    Raises:
        ValueError: The text is not a duration, or is longer than a year.
    """
    return _parse(text) if isinstance(text, str) else text


@lru_cache(maxsize=1024)  # records contain the same few durations
def _parse(text: str) -> timedelta:
    plain = text.replace(" ", "")
    if not _SUM.fullmatch(plain):
        raise ValueError(f"{text!r} is not a duration: write it like 30m, 4h, 2d or 1h30m")
    # The check comes before the multiplication, because a timedelta overflows at 999,999,999 days.
    parts = [(int(count), _UNITS[unit]) for count, unit in _PART.findall(plain)]
    if any(count > LONGEST / unit for count, unit in parts):
        raise ValueError(f"{text!r} is too long: the longest duration is a year, 365d")
    return sum((count * unit for count, unit in parts), timedelta())


@lru_cache(maxsize=1024)
def format_duration(duration: timedelta) -> str:
    """Return a duration as text that `parse_duration` reads; zero and less is ``0s``."""
    rest, parts = max(duration, timedelta()), []
    for unit, size in _UNITS.items():
        if unit == "w":
            continue  # days are easier to read: 7d, 14d
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def coarse(duration: timedelta) -> str:
    """Return a duration in its two largest units; a negative one is ``overdue``."""
    if duration < timedelta(0):
        return "overdue"
    seconds = int(duration.total_seconds())
    kept = seconds - seconds % (3600 if seconds >= 86400 else 60 if seconds >= 3600 else 1)
    return format_duration(timedelta(seconds=kept))


def roughly(duration: timedelta) -> str:
    """Return a duration in its largest unit, rounded: ``5 min``, ``3 h``, ``12 days``."""
    seconds = max(round(duration.total_seconds()), 0)
    for unit, size, most in (("s", 1, 60), ("min", 60, 60), ("h", 3600, 48)):
        count = (seconds + size // 2) // size
        if count < most:
            return f"{count} {unit}"
    return f"{(seconds + 43200) // 86400} days"


def _whole_ms(duration: timedelta) -> timedelta:
    return duration - duration % timedelta(milliseconds=1)


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    Field(ge=_SHORTEST, le=LONGEST),
    # Text has no smaller units, and a stored snapshot must equal the original.
    AfterValidator(_whole_ms),
    PlainSerializer(format_duration, return_type=str),
]


@dataclass(frozen=True, slots=True)
class Span:
    """A length of clock time or of working time.

    A working day is a day on which people work, not 24 hours of work: a person who is asked on
    Tuesday at 15:00 has until Wednesday at 15:00.

    Attributes:
        length: The length; for working time, the part after the `days`.
        business: Whether only the working time of the approvers counts.
        days: The working days; 0 for clock time, in which a day is 24 hours.
    """

    length: timedelta
    business: bool = False
    days: int = 0

    def __str__(self) -> str:
        """Return text that `parse_span` reads: ``4h``, ``4h business``, ``2d4h business``."""
        if not self.business:
            return format_duration(self.length)
        hours, rest = divmod(self.length, timedelta(hours=1))
        parts = [f"{self.days}d" if self.days else "", f"{hours}h" if hours else ""]
        parts.append(format_duration(rest) if rest else "")
        return f"{''.join(parts) or '0s'} {_BUSINESS}"

    @property
    def by_the_clock(self) -> timedelta:
        """The length in clock time, which applies if nobody has working hours."""
        return self.days * _DAY + self.length


def parse_span(value: object) -> Span:
    """Read a duration, as `parse_duration` does, optionally followed by ``business``.

    Raises:
        ValueError: It is not a duration, or not between a millisecond and a year.
    """
    if isinstance(value, Span):
        return value
    if isinstance(value, str) and value.strip().endswith(_BUSINESS):
        span = _business(value.strip().removesuffix(_BUSINESS))
    else:
        read = parse_duration(value)
        if isinstance(read, int | float) and not isinstance(read, bool):
            read = timedelta(seconds=read)
        if not isinstance(read, timedelta):
            raise ValueError(f"{value!r} is not a duration: write it like 30m, 4h business, 2d")
        span = Span(_whole_ms(read))
    if not _SHORTEST <= span.by_the_clock <= LONGEST:
        raise ValueError(f"{value!r} is not between 1ms and a year, 365d")
    return span


def parse_length(text: str) -> timedelta:
    """Read a length of clock time.

    Raises:
        ValueError: It is not a duration, or is working time.
    """
    span = parse_span(text)
    if span.business:
        raise ValueError("this is clock time: leave out `business`")
    return span.length


def _business(text: str) -> Span:
    whole = parse_duration(text)
    parts = _PART.findall(text.replace(" ", ""))
    if any(unit == "w" for _, unit in parts):
        raise ValueError(
            f"{text.strip()!r}: a week of working time has no fixed length; write 5d business"
        )
    days = sum(int(count) for count, unit in parts if unit == "d")
    length = whole - days * _DAY if isinstance(whole, timedelta) else timedelta()
    return Span(_whole_ms(length), business=True, days=days)


SpanText = Annotated[
    Span,
    BeforeValidator(parse_span),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["4h", "4h business", "2d business"]}),
]
"""A `Span` in settings and records, as text."""
