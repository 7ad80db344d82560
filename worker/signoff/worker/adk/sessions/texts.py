"""Characters that a store of sessions cannot keep, replaced before an event is stored."""

from __future__ import annotations

import re
from typing import Final

from pydantic import BaseModel

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"

LONE_SURROGATES: Final = re.compile("[\ud800-\udfff]")
"""Halves of characters: not text that can be written in UTF-8."""


def replaced(value: object, unkept: re.Pattern[str]) -> object:
    """Return a value with U+FFFD in the place of these characters.

    Models are changed in place, all else is copied, so that what is approved, what the tool gets
    and what the session shows are the same.
    """
    match value:
        case str():
            return unkept.sub(_REPLACEMENT, value)
        case dict():
            clean = {replaced(key, unkept): replaced(one, unkept) for key, one in value.items()}
            return value if clean == value else clean
        case list():
            items = [replaced(one, unkept) for one in value]
            return value if items == value else items
        case BaseModel():
            for name in type(value).model_fields:
                old = getattr(value, name)
                if (new := replaced(old, unkept)) is not old:
                    setattr(value, name, new)
    return value
