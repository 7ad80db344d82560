"""`Authentication-Results` (RFC 8601): what a mail server says it has found out about a mail.

A parser of our own, because the field decides who may approve: it is linear, it takes nothing that
can be read in two ways, and it must know which field it may believe, which no library does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from signoff.channels.email.parsing.mime import Headers

_FIELD: Final = "authentication-results"
_WRITTEN: Final = frozenset(
    {
        *("from", "sender", "reply-to", "to", "cc", "subject", "date", "message-id"),
        *("in-reply-to", "references", "mime-version", "content-type"),
        *("content-transfer-encoding", "dkim-signature"),
    }
)
"""What the author's side writes. A server puts its own fields above all of them."""


@dataclass(frozen=True, slots=True)
class Result:
    """One result: the method, how it ended, and the properties it was looked at by.

    ``Result("dkim", "pass", {"header.d": "example.com"})``
    """

    method: str
    value: str
    properties: dict[str, str]

    def domain(self, *names: str) -> str:
        """Return the domain in the first of these properties that is there, "" if none is."""
        for name in names:
            if name in self.properties:
                return self.properties[name].rpartition("@")[2].lower()
        return ""


@dataclass(frozen=True, slots=True)
class Results:
    """One field: who says so, and what."""

    server: str
    results: tuple[Result, ...]

    def of(self, method: str) -> tuple[Result, ...]:
        """Return the results of one method, in their order."""
        return tuple(one for one in self.results if one.method == method)


def topmost(headers: Headers, server: str) -> Results | None:
    """Return what a mail server of ours says about a mail; None where it says nothing.

    Only the first such field of a mail can be its: every server writes on top of what it got
    (RFC 8601, section 5), so a field further down may be the sender's own invention. For the same
    reason it does not count below a field that the author's side has written. Nor is the next one
    added to it, though it has the same name and each filter of a server writes its own: OpenDKIM
    strips only fields with a result of DKIM, so the one below its own may be the sender's.

    Args:
        headers: The fields of the mail.
        server: The ``authserv-id`` of our server.
    """
    for name, value in headers.fields:
        if name in _WRITTEN:
            return None
        if name == _FIELD:
            results = parse_results(value)
            ours = results is not None and results.server.lower() == server.lower()
            return results if ours else None
    return None


def parse_results(value: str) -> Results | None:
    """Read a field's value, unfolded; None where it can not be read, or be read in two ways."""
    segments = _segments(value)
    if segments is None:
        return None
    head, *rest = [list(_pairs(segment)) for segment in segments]
    # Microsoft's servers leave their name out; then nobody says so.
    named = bool(head) and all(pair.value is None for pair in head)
    if not named or not (len(head) == 1 or (len(head) == 2 and head[1].name.isdecimal())):
        return None
    results: list[Result] = []
    for pairs in rest:
        if pairs in ([], [_Pair("none", None)]):
            continue
        result = _result(pairs)
        if result is None:
            return None
        results.append(result)
    return Results(head[0].name, tuple(results))


class _Atom(NamedTuple):
    kind: str
    text: str


class _Pair(NamedTuple):
    name: str
    value: str | None


def _result(pairs: list[_Pair]) -> Result | None:
    method, value = pairs[0]
    if value is None:
        return None
    properties: dict[str, str] = {}
    for name, content in pairs[1:]:
        if content is None or properties.setdefault(name, content) != content:
            return None
    return Result(method.partition("/")[0].strip(), value.lower(), properties)


def _segments(value: str) -> list[list[_Atom]] | None:
    """Split at the semicolons; None where quotes or comments do not end."""
    marks = _marks(value)
    if marks is None:
        return None
    segments: list[list[_Atom]] = [[]]
    word: list[str] = []
    for mark, literal in [*marks, (";", False)]:
        separates = not literal and (mark in "=;" or mark.isspace())
        if not separates:
            word.append(mark)
            continue
        if word:
            segments[-1].append(_Atom("word", "".join(word)))
            word.clear()
        if mark == ";":
            segments.append([])
        else:
            segments[-1].append(_Atom("=" if mark == "=" else " ", mark))
    return segments[:-1]


def _marks(value: str) -> list[tuple[str, bool]] | None:
    """Return the characters, and whether each was quoted; a comment is a space."""
    marks: list[tuple[str, bool]] = []
    quoted = escaped = False
    comments = 0
    for mark in value:
        if escaped or (quoted and mark not in '"\\'):
            escaped = False
            if not comments:
                marks.append((mark, True))
        elif mark == "\\" and (quoted or comments):
            escaped = True
        elif mark == '"' and not comments:
            quoted = not quoted
        elif mark in "()":
            comments += 1 if mark == "(" else -1
            if comments < 0:
                return None
            marks.append((" ", False))
        elif not comments:
            marks.append((mark, False))
    return None if quoted or escaped or comments else marks


def _pairs(atoms: list[_Atom]) -> Iterator[_Pair]:
    """Yield ``name=value``, and words that stand alone with no value."""
    at, size = 0, len(atoms)

    def after_spaces(at: int) -> int:
        while at < size and atoms[at].kind == " ":
            at += 1
        return at

    while (at := after_spaces(at)) < size:
        name = atoms[at].text.lower()
        at = after_spaces(at + 1)
        if at >= size or atoms[at].kind != "=":
            yield _Pair(name, None)
            continue
        start = at = after_spaces(at + 1)
        # An address may have a "=" in it (RFC 5321's atext).
        while at < size and atoms[at].kind != " ":
            at += 1
        yield _Pair(name, "".join(atom.text for atom in atoms[start:at]))
