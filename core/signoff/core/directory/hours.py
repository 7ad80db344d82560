"""Calendars of people: time zones, working hours, public holidays and absences."""

import difflib
import functools
import re
import zoneinfo
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Final, Self
from zoneinfo import ZoneInfo

from pydantic import ConfigDict, Field, model_validator

from signoff.core.base.model import Value, checked_by

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SPELLED: Final = re.compile(
    r"(?P<days>[a-z]{3}(?:-[a-z]{3})?(?:,[a-z]{3}(?:-[a-z]{3})?)*) "
    r"(?P<start>[0-2][0-9]:[0-5][0-9])-(?P<end>[0-2][0-9]:[0-5][0-9])"
)
_DAY: Final = timedelta(days=1)
_EXAMPLE: Final = "write them like Mon-Fri 09:00-17:00 or Sat,Sun 10:00-14:00"


class Window(Value):
    """Hours of some days of the week, in local time.

    Attributes:
        days: Days of the week, Monday is 0.
        start: The time since midnight.
        end: The time since the same midnight; more than a day if it is on the next day.
    """

    days: frozenset[int]
    start: timedelta
    end: timedelta


@functools.lru_cache(maxsize=1024)
def window(text: str) -> Window:
    """Read ``Mon-Fri 09:00-17:00``; an end that is not after the start is on the next day.

    Raises:
        ValueError: The text has another form.
    """
    found = _SPELLED.fullmatch(re.sub(r"\s*([-,])\s*", r"\1", text.strip().lower()))
    if found is None:
        raise ValueError(f"{text!r} are not working hours: {_EXAMPLE}")
    days: set[int] = set()
    for part in found["days"].split(","):
        first, _, last = part.partition("-")
        if first not in _DAYS or (last and last not in _DAYS):
            raise ValueError(f"{text!r} names no day of the week: {_EXAMPLE}")
        begin = _DAYS.index(first)
        length = (_DAYS.index(last or first) - begin) % 7
        days |= {(begin + offset) % 7 for offset in range(length + 1)}
    start, end = _since_midnight(found["start"]), _since_midnight(found["end"])
    if start >= _DAY or end > _DAY:
        raise ValueError(f"{text!r}: a day ends at 24:00")
    return Window(days=frozenset(days), start=start, end=end if end > start else end + _DAY)


def _since_midnight(text: str) -> timedelta:
    hours, _, minutes = text.partition(":")
    return timedelta(hours=int(hours), minutes=int(minutes))


@functools.lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """Return a time zone by its name in the IANA database.

    Raises:
        ValueError: There is no time zone with this name.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        close = difflib.get_close_matches(name, zoneinfo.available_timezones(), n=1)
        like = close[0] if close else "Europe/Berlin"
        raise ValueError(f"there is no time zone {name!r}: write it like {like}") from error


def moment_of(day: date, since_midnight: timedelta, place: ZoneInfo) -> datetime:
    """Return the moment (UTC) of a local time.

    A local time that the clocks skip is read with the offset before the gap. If the clocks show it
    twice, the first moment is meant (RFC 5545, section 3.3.5).
    """
    shown = datetime.combine(day, time()) + since_midnight
    return shown.replace(tzinfo=place).astimezone(UTC)


@functools.lru_cache(maxsize=4096)
def free_days(code: str, year: int) -> frozenset[date]:
    """Return the public holidays of one year.

    Args:
        code: A country, ``DE``, or a part of it, ``DE-BY``, as in the library `holidays`.
        year: The year.

    Raises:
        ValueError: The library does not have this country or part.
    """
    import holidays  # noqa: PLC0415 -- slow to import, and often not needed

    country, _, part = code.partition("-")
    try:
        return frozenset(holidays.country_holidays(country, subdiv=part or None, years=year))
    except NotImplementedError as error:
        parts = holidays.list_supported_countries().get(country)
        known = f"parts of {country}: {', '.join(parts)}" if parts else "write it like DE or DE-BY"
        raise ValueError(f"there are no holidays {code!r}; {known}") from error


def _known_holidays(code: str) -> bool:
    return not code or bool(free_days(code, 2026))  # the year does not matter


Hours = Annotated[str, Field(max_length=200), checked_by(window)]
TimeZone = Annotated[str, Field(max_length=64), checked_by(zone)]
Holidays = Annotated[str, Field(max_length=16), checked_by(_known_holidays)]


class Absence(Value):
    """An absence, and the delegate.

    Attributes:
        start: The first day, in the person's time zone.
        end: The last day.
        delegate: The id or address of the delegate; empty for none.
        second_factor: For absences set at run time: whether a second factor was given, or the
            terminal of the installation was used. Otherwise the delegate is not asked about
            requests that need a second step, because a mailbox or a token alone would then choose
            who decides. Absences in the settings do not need it.
    """

    model_config = ConfigDict(
        validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
    )

    start: date = Field(alias="from")
    end: date = Field(alias="to")
    delegate: str = ""
    second_factor: bool = False

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.end < self.start:
            raise ValueError(f"it ends on {self.end}, before it begins on {self.start}")
        return self

    def covers(self, day: date) -> bool:
        """Say whether the absence includes this day."""
        return self.start <= day <= self.end
