"""Translates pydantic's errors into sentences without Python types, patterns or classes.

They are about settings, options of the command line, and the bodies and parameters of requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from pydantic_core import ErrorDetails

_SENTENCES: Final = {
    "missing": "it is missing",
    "extra_forbidden": "there is no such field",
    "bool_parsing": "it should be true or false",
    "bool_type": "it should be true or false",
    "int_parsing": "it should be a whole number",
    "int_parsing_size": "it should be a whole number of fewer digits",
    "int_type": "it should be a whole number",
    "int_from_float": "it should be a whole number",
    "float_parsing": "it should be a number",
    "float_type": "it should be a number",
    "finite_number": "it should be a finite number",
    "string_type": "it should be text",
    "path_type": "it should be a path",
    "tuple_type": "it should be a list",
    "list_type": "it should be a list",
    "date_type": "it should be a date like 2026-01-31",
    "date_parsing": "it should be a date like 2026-01-31",
    "date_from_datetime_parsing": "it should be a date like 2026-01-31",
    "date_from_datetime_inexact": "it should be a date like 2026-01-31, without a time",
    "datetime_type": "it should be a time like 2026-01-31T09:00:00Z",
    "datetime_parsing": "it should be a time like 2026-01-31T09:00:00Z",
    "datetime_from_date_parsing": "it should be a time like 2026-01-31T09:00:00Z",
    "time_delta_type": "it should be a duration like 30m, 4h, 2d or 1h30m",
    "time_delta_parsing": "it should be a duration like 30m, 4h, 2d or 1h30m",
    "invalid-json-value": "it should be a JSON value",
}
"""The sentence for each type of error of pydantic."""

_TABLES: Final = frozenset({"dict_type", "model_type", "model_attributes_type"})
_BOUNDS: Final = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
_LENGTHS: Final = {
    "string_too_short": ("min_length", "at least", "character"),
    "string_too_long": ("max_length", "at most", "character"),
    "too_short": ("min_length", "at least", "entry"),
    "too_long": ("max_length", "at most", "entry"),
}

_MODULE: Final = "a module and a function like package.module:function"
_PLACE: Final = "the id of a channel like C0123ABC"
_NAME: Final = "letters, digits, ., _ and -, beginning with a letter or digit"
PATTERNS: Final = {
    "^[a-z][a-z0-9_]{1,31}$": "2 to 32 of a-z, 0-9 and _, beginning with a letter",
    "^[a-z][a-z0-9-]{0,31}$": "1 to 32 of a-z, 0-9 and -, beginning with a letter",
    "^[A-Za-z][A-Za-z0-9_-]*$": "letters, digits, _ and -, beginning with a letter",
    "^[A-Za-z0-9][A-Za-z0-9._-]*$": _NAME,
    "^[A-Za-z_][A-Za-z0-9_]*$": "letters, digits and _, not beginning with a digit",
    r"^https?://[^\s]+/$": "a URL that begins with http:// or https:// and ends with /",
    r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$": _MODULE,
    r"^([A-Za-z_][\w.]*:[A-Za-z_]\w*)?$": _MODULE,
    "^[0-9a-f]{64}$": "64 hexadecimal digits (0-9, a-f)",
    r"^[^@\s<>,;]+@[^@\s<>,;]+$": "an address like mara@example.com",
    "^((T[A-Z0-9]+/)?[UW][A-Z0-9]+)?$": "the id of a Slack user like U0123ABC or T0123ABC/U0123ABC",
    "^([1-9][0-9]?|100)%$": "a share like 60%",
    "^([CG][A-Z0-9]{2,32})?$": _PLACE,
    "^(S[A-Z0-9]{2,32})?$": "the id of a user group like S0123ABC",
    r"^(mailto:[^@\s]+@[^@\s]+|https://\S+)$": "an address like mailto:ops@example.com or a URL",
    "^every ": "an interval like every 4h",
    "^[A-Za-z0-9._:-]+$": "letters, digits, ., _, : and -",
    r"^[^\x00-\x1f\x7f]+$": "text without control characters",
    "^sha256:[0-9a-f]{64}$": "the digest that the request has: sha256: and 64 hexadecimal digits",
    r"^(\d{1,18}-\d{1,18})?$": "the id of an entry, like 1795273200000-0",
    "^[1-9][0-9]*(s|m|h)$": "a duration like 90s, 30m or 4h",
    "^(succeeded|failed)$": "'succeeded' or 'failed'",
    r"^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$": "a UUID",
    "^whsec_[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$": "whsec_ and 32 bytes in base64",
}
"""The meanings of the patterns of settings and requests; tests ensure that all are here."""

_DELTA: Final = re.compile(r"datetime\.timedelta\((.*)\)")
_UNITS: Final = {
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
    "second": timedelta(seconds=1),
    "millisecond": timedelta(milliseconds=1),
}


def plainly(error: ErrorDetails, *, table: str = "an object") -> str:
    """Return a sentence about an error: ``it should be at least 1 hour``.

    Args:
        error: The error, with its context.
        table: The name of a mapping where the value comes from, such as ``a table`` in TOML.
    """
    kind, context = error["type"], error.get("ctx") or {}
    if kind in _TABLES:
        return f"it should be {table}"
    if (sentence := _SENTENCES.get(kind) or _by_context(kind, context)) is not None:
        return sentence
    message = error["msg"].removeprefix("Value error, ")
    return re.sub(r"^(?:Input|String|Value) should", "it should", message)


def _by_context(kind: str, context: Mapping[str, Any]) -> str | None:
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"it should be {words} {_bound(context[name])}"
    if kind in _LENGTHS:
        name, words, unit = _LENGTHS[kind]
        return f"it should have {words} {_count(context[name], unit)}"
    if kind == "string_pattern_mismatch":
        return f"it should be {PATTERNS.get(context['pattern'], 'of another form')}"
    return None


def _bound(value: object) -> str:
    """Return a bound as people write it; pydantic writes some durations in Python's form."""
    found = _DELTA.fullmatch(str(value))
    if found is None:
        return f"{value:g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)
    parts = (part.split("=") for part in found.group(1).split(", "))
    return _duration(timedelta(**{name: int(number) for name, number in parts}))


def _duration(rest: timedelta) -> str:
    words = []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            words.append(_count(count, unit))
    return " and ".join(words) or "0 seconds"


def _count(count: int, unit: str) -> str:
    if count == 1:
        return f"1 {unit}"
    return f"{count} {'entries' if unit == 'entry' else f'{unit}s'}"
