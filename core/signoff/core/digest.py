"""The digest that ties together what is shown, what is approved and what is executed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import rfc8785
from pydantic import JsonValue

from signoff.core.errors import NotCanonical

_MAX_SAFE_INTEGER = 2**53 - 1
_ESCAPE = "\x00"


def digest(tool: str, args: Mapping[str, JsonValue]) -> str:
    """Return ``sha256:`` and 64 hex digits over the canonical form of a tool call.

    The canonical form is JSON Canonicalization Scheme (RFC 8785) of
    ``{"args": args, "tool": tool}``. RFC 8785 has no integers beyond 2^53-1; agents do pass such
    numbers (account numbers), so they are written as marked strings that no real string can equal.

    Raises:
        NotCanonical: The arguments hold something that JSON cannot say (NaN, infinity, a
            lone surrogate).
    """
    try:
        canonical = rfc8785.dumps({"args": _injective(dict(args)), "tool": _injective(tool)})
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise NotCanonical(
            f"The arguments of {tool}() have no canonical form: {error}. "
            "Pass plain JSON values (no NaN, no infinity) to tools that need an approval."
        ) from error
    return "sha256:" + hashlib.sha256(canonical).hexdigest()


def _injective(value: JsonValue) -> JsonValue:
    """Rewrite integers that RFC 8785 cannot hold, without letting two values meet."""
    match value:
        case bool() | None | float():
            return value
        case int():
            return value if abs(value) <= _MAX_SAFE_INTEGER else f"{_ESCAPE}int:{value}"
        case str():
            return _ESCAPE + value if value.startswith(_ESCAPE) else value
        case list():
            return [_injective(item) for item in value]
        case dict():
            return {_injective_key(key): _injective(item) for key, item in value.items()}


def _injective_key(key: str) -> str:
    return _ESCAPE + key if key.startswith(_ESCAPE) else key
