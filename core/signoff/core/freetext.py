"""The answer to a request for input that has no schema: text or JSON, as a person writes it."""

from __future__ import annotations

from typing import Final, NamedTuple

from pydantic import JsonValue

from signoff.core.doubts import has_phrase
from signoff.core.errors import PayloadError
from signoff.core.payload import LONE_FIELD, parse_values
from signoff.core.text import brief, clean_text
from signoff.core.words import NEGATIONS, REJECT, REJECT_BRIEF

VERDICT_NAMES: Final = frozenset(
    {"approve", "approved", "confirm", "confirmed", "accept", "accepted", "allow", "allowed", "ok"}
)
"""Booleans of these names say what the person's own yes or no says."""

_DENIALS: Final = tuple(sorted(NEGATIONS | REJECT | REJECT_BRIEF))
_ROUND_QUOTES: Final = {ord(mark): '"' for mark in "“”„‟"}


class FreeAnswer(NamedTuple):
    """An answer as it was written.

    Attributes:
        value: The text or the JSON.
        yes: False where it says no: a no is never recorded as an approval.
    """

    value: JsonValue
    yes: bool


def read_free_text(words: str) -> FreeAnswer:
    """Read a person's own words as the answer to a request without a schema.

    ``value:`` may stand in front of them. Without it a question, and words that may be a no, are
    asked back rather than taken for the answer.

    Args:
        words: Without greeting, signature and quotation.

    Raises:
        PayloadError: They are not taken for the answer; it says why, and what to write.
    """
    words = words.strip()
    named = words.casefold().startswith(f"{LONE_FIELD}:")
    words = words.partition(":")[2].strip() if named else words
    # Mail programs make the quotes of JSON round.
    typed = words.translate(_ROUND_QUOTES) if words.startswith(("{", "[", '"', "“")) else words
    value = parse_values({LONE_FIELD: None}, {LONE_FIELD: typed})[LONE_FIELD]
    if isinstance(value, str):
        value = clean_text(words).strip() if typed is not words else value
        _require_answer(value, named=named)
    return FreeAnswer(value, yes=not says_no(value))


def says_no(value: JsonValue) -> bool:
    """Return whether an answer says no: ``false``, "no", ``{"approved": false}``."""
    if isinstance(value, dict):
        return any(it is False for name, it in value.items() if name.casefold() in VERDICT_NAMES)
    if not isinstance(value, str):
        return value is False
    try:
        return parse_values({LONE_FIELD: True}, {LONE_FIELD: value})[LONE_FIELD] is False
    except PayloadError:
        return False


def _require_answer(value: str, *, named: bool) -> None:
    example = f"{LONE_FIELD}: {brief(value)}"
    if not value:
        raise _unread(value, "has no words of yours", f"{LONE_FIELD}: text")
    if value.startswith(("{", "[")):
        raise _unread(value, "begins like JSON and is none", f'{LONE_FIELD}: {{"approved": true}}')
    if named or says_no(value):
        return
    if value.endswith(("?", "？", "؟")):
        raise _unread(value, "is a question", example)
    if has_phrase(value, _DENIALS):
        raise _unread(value, "may be a no", f"{example}\nor, for a no: reject: the reason")


def _unread(words: str, why: str, example: str) -> PayloadError:
    message = (
        f'"{brief(words)}" {why}, so it was not taken for the answer. To answer with these very '
        f"words, write {LONE_FIELD}: in front of them."
    )
    return PayloadError(message, key=LONE_FIELD, read=brief(words), example=example)
