"""Recognises answers to requests for input that say no."""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

VERDICT_NAMES: Final = frozenset(
    {"approve", "approved", "confirm", "confirmed", "accept", "accepted", "allow", "allowed", "ok"}
)
"""Boolean fields with these names repeat the person's own yes or no."""

_REFUSAL_NAMES: Final = frozenset(
    {"reject", "rejected", "deny", "denied", "decline", "declined", "refuse", "refused"}
)
_OWN_DECISION_NAMES: Final = frozenset({"decision", "verdict"})
_DECISION_NAMES: Final = frozenset(
    {"answer", "choice", "decision", "outcome", "response", "result", "status", "verdict"}
)


def says_no(value: JsonValue) -> bool:
    """Return whether an answer to a request without a schema says no.

    These answers say no: ``false``, a text that rejects ("no", "reject: too late"), and an object
    with such a value in a field for the decision: ``{"approved": false}``, ``{"decision":
    "denied"}``, ``{"reject": true}``.
    """
    if isinstance(value, dict):
        return any(_field_says_no(name.casefold(), one) for name, one in value.items())
    if not isinstance(value, str):
        return value is False
    # Imported here because the words of all languages take long to load, and few callers need them.
    from signoff.core.replies.reading import read_reply  # noqa: PLC0415
    from signoff.core.replies.reply import Reject  # noqa: PLC0415

    return value.strip().casefold() == "false" or isinstance(read_reply(value), Reject)


def refusing_field(values: dict[str, JsonValue]) -> str:
    """Return the name of a field for the decision that says no, such as ``{"approved": false}``.

    Returns:
        The name, "" if there is none.
    """
    names = VERDICT_NAMES | _REFUSAL_NAMES | _OWN_DECISION_NAMES
    refusing = (
        name
        for name, value in values.items()
        if name.casefold() in names and _field_says_no(name.casefold(), value)
    )
    return next(refusing, "")


def _field_says_no(name: str, value: JsonValue) -> bool:
    if name in VERDICT_NAMES:
        return value == 0 or says_no(value)
    if name in _REFUSAL_NAMES:
        return bool(value) and not says_no(value)
    return name in _DECISION_NAMES and says_no(value)
