"""The digest that ties together what is shown, what is approved and what is executed."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping

import rfc8785
from pydantic import JsonValue

from signoff.core.base.errors import NotCanonical

_MAX_SAFE_INTEGER = 2**53 - 1
_ESCAPE = "\x00"
_DEEPEST = 100
"""The most levels of nesting; the reader of stored records stops at 200."""

_COMPARED = 16

_plain = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, separators=(",", ":"), sort_keys=True
).encode

_DIFFERENT = re.compile(r"[0-9]e-[0-9]|[\ud800-\U0010ffff]")
"""A number below 0.0001, or a character that RFC 8785 may sort differently than Python."""


def digest(
    tool: str, args: Mapping[str, JsonValue], about: Mapping[str, JsonValue] | None = None
) -> str:
    """Return ``sha256:`` and 64 hex digits over the canonical form of a tool call.

    The canonical form is the JSON Canonicalization Scheme (RFC 8785) of
    ``{"args": args, "tool": tool}`` and the members of `about`. RFC 8785 has no integers beyond
    2^53-1. Agents do pass such numbers (account numbers), so they are written as marked strings
    that no real string can equal. As in JSON, numbers are compared by value: 1 and 1.0 have the
    same digest, but 1 and true do not. RFC 8785 writes −0 as 0. A tool can distinguish them, so
    they have different digests here.

    Args:
        tool: The name of the tool.
        args: Its arguments.
        about: The agent, the app, the requester and what the tool declares; None for the call
            alone.

    Raises:
        NotCanonical: The arguments contain values that JSON does not have (NaN, infinity, a lone
            surrogate, a tuple), or are nested too deeply.
    """
    call: JsonValue = {**(about or {}), "args": dict(args), "tool": tool}
    canonical = require_canonical(call, f"The arguments of {tool}()")
    return "sha256:" + hashlib.sha256(canonical).hexdigest()


def require_canonical(value: JsonValue, what: str) -> bytes:
    """Return the canonical form of a value.

    Args:
        value: The value.
        what: The name of the value, as the beginning of a sentence.

    Raises:
        NotCanonical: The value has no canonical form.
    """
    try:
        return _canonical(_injective(value, 0))
    # ValueError: a refusal by rfc8785, a lone surrogate, or an integer of over 4,300 digits.
    except (ValueError, RecursionError) as error:
        raise NotCanonical(
            f"{what} cannot be brought into canonical JSON: {error}. "
            "Pass plain JSON values (no NaN, no infinity) to tools that need an approval."
        ) from error


def _canonical(value: JsonValue) -> bytes:
    """Return the form of RFC 8785 of a value from `_injective`."""
    # rfc8785 is written in Python; json mostly writes the same in a tenth of the time.
    text = _plain(value)
    if (not text.isascii() or "e-" in text) and _DIFFERENT.search(text):
        return rfc8785.dumps(value)
    return text.encode()


def _injective(value: JsonValue, depth: int) -> JsonValue:
    """Rewrite numbers that RFC 8785 does not have, so that different values stay different."""
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} levels deep")
    if isinstance(value, str):
        return _escaped(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, list):
        return [_injective(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_escaped(key): _injective(item, depth + 1) for key, item in value.items()}
    # Such values are not left out silently, because different calls would look the same.
    raise ValueError(f"{type(value).__name__} is not a JSON value")


def _number(value: float) -> JsonValue:
    if isinstance(value, float):
        if value == 0 and math.copysign(1, value) < 0:
            return f"{_ESCAPE}-0"
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a JSON number")
        if not value.is_integer():
            return value
    # 1e20 and 10**20 are equal, because a session database may turn one into the other.
    whole = int(value)
    return whole if abs(whole) <= _MAX_SAFE_INTEGER else f"{_ESCAPE}int:{whole}"


def _escaped(text: str) -> str:
    if not isinstance(text, str):
        raise ValueError(f"{text} is not a name")  # noqa: TRY004 -- see `require_canonical`
    return _ESCAPE + text if text[:1] == _ESCAPE else text


def short_digest(whole: str) -> str:
    """Return the part of a digest that people can compare: the first 16 digits."""
    return whole.removeprefix("sha256:")[:_COMPARED]
