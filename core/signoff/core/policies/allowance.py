"""The number of calls that a policy allows without asking anybody: ``"20/h"``."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from signoff.core.base.durations import format_duration, parse_duration
from signoff.core.base.model import Value

_RATE: Final = re.compile(r"\s*([0-9]{1,5})\s*/\s*([0-9].*|[wdhms])\s*")
_MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class Rate:
    """A number of calls in any period of this length.

    Attributes:
        count: The number of calls, from 1 to 10,000.
        period: The length of the sliding period.
    """

    count: int
    period: timedelta

    def __str__(self) -> str:
        """Return text that `parse_rate` reads: ``20/h``, ``5/10m``."""
        period = format_duration(self.period)
        return f"{self.count}/{period[1:] if re.fullmatch('1[a-z]', period) else period}"


def parse_rate(value: object) -> Rate:
    """Read ``"20/h"``, ``"100/d"`` or ``"5/10m"``.

    Raises:
        ValueError: It is not a rate, or the count or the period is out of range.
    """
    if isinstance(value, Rate):
        return value
    found = _RATE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{value!r} is not a rate: write it like 20/h, 100/d or 5/10m")
    period = parse_duration(found[2] if found[2][0].isdigit() else f"1{found[2]}")
    count = int(found[1])
    if not isinstance(period, timedelta) or not timedelta(seconds=1) <= period:
        raise ValueError(f"{value!r} has a period of less than a second: write it like 20/h")
    if not 1 <= count <= _MOST:
        raise ValueError(f"{value!r} is not between 1 and {_MOST:,} calls")
    return Rate(count, period)


RateText = Annotated[
    Rate,
    BeforeValidator(parse_rate),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["20/h", "100/d", "5/10m"]}),
]
"""A `Rate` in settings and records, as text."""


class Allowance(Value):
    """The calls that one policy has allowed within its period.

    Attributes:
        used: When each call was allowed, the oldest first: milliseconds since 1970 (UTC).
    """

    used: tuple[int, ...] = ()

    def take(self, rate: Rate, now_ms: int) -> Self | None:
        """Return the allowance with one more call; None if the rate allows no more now."""
        since = now_ms - rate.period // timedelta(milliseconds=1)
        within = [one for one in self.used if one > since]
        if len(within) >= rate.count:
            return None
        return self.model_copy(update={"used": (*within, max(now_ms, *within, 0))})
