"""Taking a person out of what is kept: their names become a placeholder, their words go."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

ERASED: Final = "[erased]"

_WHO: Final = ("by", "person", "of", "to", "user", "revoked_by")
"""Fields that name somebody."""

_WORDS: Final = frozenset(
    {
        *("address", "args", "arguments", "away", "context", "copies", "hint", "message", "more"),
        *("note", "payload", "problem", "proposal", "reason", "reasoning", "receipt", "request"),
        *("result", "revoked_why", "said", "template", "text", "why"),
    }
)
"""Fields that hold what somebody wrote, or where they are reached."""

_RECEIPT: Final = re.compile(r"eyJ[\w-]+\.([\w-]+)\.[\w-]+")

_KEPT: Final = ("channel", "digest", "verdict", "sequence", "sha256", "files")
"""Details of an event that say nothing of a person."""


class Redaction:
    """One person, and what stands for them from now on.

    Args:
        names: Ids, addresses and names of the person. Addresses and full names are found inside
            texts too; an id, which may be a common word, only where it stands alone.
        placeholder: What takes their place; nothing can be learned from it.
        also: Further words that are found inside texts.
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

    def entry(self, text: str, *, theirs: bool) -> str:
        """Return an entry of the audit without the person.

        Args:
            text: Its JSON text.
            theirs: Whether it is about a request of theirs.
        """
        fields: dict[str, Any] = json.loads(text)
        if theirs or self.is_named(fields.get("by")):
            more = fields.get("more", {})
            fields["more"] = {name: more[name] for name in _KEPT if name in more}
            fields["why"] = ""
        clean = {name: value for name, value in self._clean(fields, False).items() if value}
        return json.dumps(clean, ensure_ascii=False, separators=(",", ":"))

    def record(self, text: str) -> str:
        """Return what a record holds without the person, as JSON text."""
        fields: dict[str, Any] = json.loads(text)
        clean = self._clean(fields, self.owns(fields))
        if clean.get("message") == "":
            clean["message"] = ERASED
        return json.dumps(clean, ensure_ascii=False, separators=(",", ":"))

    def owns(self, fields: Mapping[str, Any]) -> bool:
        """Say whether a run, an approval or a grant is about a request of the person."""
        inner = (fields.get("origin"), fields.get("scope"), fields)
        return any(self.is_named(one.get("user")) for one in inner if isinstance(one, Mapping))

    def is_named(self, value: object) -> bool:
        """Say whether a value is a name of the person, and nothing else."""
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
                    return ""  # nothing of what was signed can be taken out
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
    """Return what a receipt states (a JWS in compact form), None for any other text."""
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
