"""Replies that would work, for help texts, cards and error messages."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from signoff.core.base.counts import counted
from signoff.core.payloads.payload import example_value, fields_of, missing_fields

_USUAL_SPAN: Final = timedelta(hours=4)
_EXAMPLE_OF_GRANT: Final = "approve and calls like it for 4 hours"
_USUAL_MINUTES: Final = (30, 60, 240, 480, 1440)


def example_of_approval(template: JsonValue = None) -> str:
    """Return a reply that would approve a request with this template, for help texts.

    It has only the fields that must be filled in.
    """
    fields = fields_of(template)
    names = missing_fields(template, None)
    return "\n".join(["approve", *(f"{name}: {example_value(fields[name])}" for name in names)])


def example_of_grant(longest: timedelta) -> str:
    """Return a reply that approves similar calls too, for no longer than allowed."""
    if longest >= _USUAL_SPAN:
        return _EXAMPLE_OF_GRANT
    minutes = max(longest // timedelta(minutes=1), 1)
    return _EXAMPLE_OF_GRANT.replace("4 hours", counted(minutes, "minute"))


def spans_within(longest: timedelta) -> tuple[timedelta, ...]:
    """Return durations to choose from, up to the longest that is allowed."""
    usual = tuple(timedelta(minutes=minutes) for minutes in _USUAL_MINUTES)
    return tuple(one for one in usual if one <= longest) or (longest,)
