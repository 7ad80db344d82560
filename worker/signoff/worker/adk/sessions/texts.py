"""Replaces characters that a store of sessions cannot store, before an event is stored."""

from __future__ import annotations

import re
from typing import Final

from pydantic import BaseModel

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"

LONE_SURROGATES: Final = re.compile("[\ud800-\udfff]")
"""Halves of characters, which UTF-8 cannot encode."""


def replaced(value: object, unkept: re.Pattern[str]) -> object:
    """Return a value with these characters replaced by U+FFFD.

    Models are changed in place, and other values are copied, so that the approved call, the tool's
    arguments and the session agree.
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
