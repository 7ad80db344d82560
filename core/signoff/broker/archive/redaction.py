"""Redacts a person in stored texts: a placeholder replaces names, and their words are removed."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

ERASED: Final = "[erased]"

_WHO: Final = ("by", "person", "of", "to", "user", "revoked_by")
"""Fields that name a person."""

_WORDS: Final = frozenset(
    {
        *("address", "args", "arguments", "away", "context", "copies", "hint", "message", "more"),
        *("note", "payload", "problem", "proposal", "reason", "reasoning", "receipt", "request"),
        *("result", "revoked_why", "said", "template", "text", "why"),
    }
)
"""Fields with a person's own text or address."""

_RECEIPT: Final = re.compile(r"eyJ[\w-]+\.([\w-]+)\.[\w-]+")

_KEPT: Final = ("channel", "digest", "verdict", "sequence", "sha256", "files")
"""Details of an event that contain no personal data."""


class Redaction:
    """Redacts one person.

    Args:
        names: Ids, addresses and names of the person. Addresses and full names are also found
            inside texts. An id may be a common word, so it is only found as a whole value.
        placeholder: The text that replaces the person and reveals nothing about them.
        also: Further words to find inside texts.
    """

    def __init__(self, names: Iterable[str], placeholder: str, also: Iterable[str] = ()) -> None:
        more = {one for one in also if one}
        self.names = tuple({one for one in names if one} | more)
        self.placeholder = placeholder
        self._folded = {one.casefold() for one in self.names}
        inside = {one for one in self.names if "@" in one or " " in one} | more
        words = "|".join(re.escape(one) for one in sorted(inside, key=len, reverse=True))
        form = rf"(?<![\w.+-])(?:{words})(?![\w@-])" if words else r"(?!)"
        self._form = re.compile(form, re.IGNORECASE)

    def is_in(self, text: str) -> bool:
        """Say whether a JSON text mentions the person."""
        return self._in(json.loads(text))

    def is_in_plain(self, text: str) -> bool:
        """Say whether a plain text mentions the person."""
        return self._form.search(text) is not None

    def entry(self, text: str, *, theirs: bool) -> str:
        """Redact an entry of the audit.

        Args:
            text: The JSON text of the entry.
            theirs: Whether it is about one of their requests.
        """
        fields: dict[str, Any] = json.loads(text)
        if theirs or self.is_named(fields.get("by")):
            more = fields.get("more", {})
            fields["more"] = {name: more[name] for name in _KEPT if name in more}
            fields["why"] = ""
        clean = {name: value for name, value in self._clean(fields, False).items() if value}
        return json.dumps(clean, ensure_ascii=False, separators=(",", ":"))

    def record(self, text: str) -> str:
        """Redact a record, given and returned as JSON text."""
        fields: dict[str, Any] = json.loads(text)
        clean = self._clean(fields, self.owns(fields))
        if clean.get("message") == "":
            clean["message"] = ERASED
        return json.dumps(clean, ensure_ascii=False, separators=(",", ":"))

    def value(self, text: str) -> str:
        """Redact any other JSON text."""
        clean = self._clean(json.loads(text), False)
        return json.dumps(clean, ensure_ascii=False, separators=(",", ":"))

    def owns(self, fields: Mapping[str, Any]) -> bool:
        """Say whether a run, an approval or a grant belongs to a request of the person."""
        inner = (fields.get("origin"), fields.get("scope"), fields)
        return any(self.is_named(one.get("user")) for one in inner if isinstance(one, Mapping))

    def is_named(self, value: object) -> bool:
        """Say whether a value is exactly a name of the person."""
        return isinstance(value, str) and value.casefold() in self._folded

    def _in(self, value: object) -> bool:
        match value:
            case str():
                found = self.is_named(value) or self._form.search(value) is not None
                return found or self._in(_stated(value))
            case dict():
                return any(self._in(one) for pair in value.items() for one in pair)
            case list():
                return any(self._in(one) for one in value)
        return False

    def _clean(self, value: Any, theirs: bool) -> Any:  # noqa: ANN401 -- JSON
        match value:
            case str():
                if self._in(_stated(value)):
                    return ""  # a signed text cannot be redacted in part
                return (
                    self.placeholder
                    if self.is_named(value)
                    else self._form.sub(self.placeholder, value)
                )
            case list():
                return [self._clean(one, theirs) for one in value]
            case dict():
                own = theirs or any(self.is_named(value.get(name)) for name in _WHO)
                return {
                    self._clean(name, False): _blank(one)
                    if own and name in _WORDS
                    else self._clean(one, theirs)
                    for name, one in value.items()
                }
        return value


def _stated(text: str) -> object:
    """Return the payload of a receipt (a JWS in compact form), None for any other text."""
    form = _RECEIPT.fullmatch(text)
    try:
        return json.loads(base64.urlsafe_b64decode(form[1] + "==")) if form else None
    except ValueError:
        return None


def _blank(value: object) -> object:
    match value:
        case str():
            return ""
        case dict():
            return {}
        case list():
            return []
    return None
