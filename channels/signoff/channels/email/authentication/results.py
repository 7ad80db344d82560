"""`Authentication-Results` (RFC 8601): a mail server's report on the checks of a mail.

We parse it ourselves, because the field decides who may approve: our parser is linear, it refuses
ambiguous input, and it knows which field to trust, which libraries do not.
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
"""Fields that the author's side writes. A server puts its own fields above all of them."""


@dataclass(frozen=True, slots=True)
class MethodResult:
    """One result: the method, its outcome, and the properties that it checked.

    ``Result("dkim", "pass", {"header.d": "example.com"})``
    """

    method: str
    value: str
    properties: dict[str, str]

    def domain(self, *names: str) -> str:
        """Return the domain in the first of these properties that exists, "" without any."""
        for name in names:
            if name in self.properties:
                return self.properties[name].rpartition("@")[2].lower()
        return ""


@dataclass(frozen=True, slots=True)
class Results:
    """One field: the server and its results."""

    server: str
    results: tuple[MethodResult, ...]

    def of(self, method: str) -> tuple[MethodResult, ...]:
        """Return the results of one method, in order."""
        return tuple(one for one in self.results if one.method == method)


def topmost(headers: Headers, server: str) -> Results | None:
    """Return the results of our mail server for a mail; None without any.

    Only the topmost such field can come from our server: every server adds its fields on top (RFC
    8601, section 5), so the sender may have written a lower one. For the same reason, the field
    does not count below a field that the author's side writes. The second field is ignored even if
    it has the same name, although each filter of a server writes one: OpenDKIM removes only fields
    with a DKIM result, so the field below its own may come from the sender.

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
    """Parse a field's unfolded value; None if it is invalid or ambiguous."""
    segments = _segments(value)
    if segments is None:
        return None
    head, *rest = [list(_pairs(segment)) for segment in segments]
    # Microsoft's servers omit their name; then the results have no author.
    named = bool(head) and all(pair.value is None for pair in head)
    if not named or not (len(head) == 1 or (len(head) == 2 and head[1].name.isdecimal())):
        return None
    results: list[MethodResult] = []
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


def _result(pairs: list[_Pair]) -> MethodResult | None:
    method, value = pairs[0]
    if value is None:
        return None
    properties: dict[str, str] = {}
    for name, content in pairs[1:]:
        if content is None or properties.setdefault(name, content) != content:
            return None
    return MethodResult(method.partition("/")[0].strip(), value.lower(), properties)


def _segments(value: str) -> list[list[_Atom]] | None:
    """Split at the semicolons; None if a quote or a comment does not end."""
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
    """Return the characters, and whether each was quoted; a comment becomes a space."""
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
    """Yield ``name=value`` pairs, and single words without a value."""
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
        # An address may contain "=" (atext in RFC 5321).
        while at < size and atoms[at].kind != " ":
            at += 1
        yield _Pair(name, "".join(atom.text for atom in atoms[start:at]))
