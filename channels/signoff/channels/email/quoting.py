"""Which lines of a mail the person wrote, and which only came along.

Mail programmes mark what they quote in dozens of ways, and no rule finds them all; so what is left
here is never searched for a command, only its first line is read as one. Where it is uncertain
who wrote a line, it counts as quoted: an answer that was cut away is asked for again, while one
that was never given would run a tool.

- Lines behind ">" are quoted. Text between or below them is the person's (answers at the bottom).
- "On Monday, Ada wrote:" goes; when no ">" follows, so does everything below it.
- A copied header block, a heading such as "-----Original Message-----", a rule of underscores, and
  our own cut marker end the person's text.
- A line right below a long quoted line is the rest of that line, wrapped on its way.
- A signature (below "-- ", or "Sent from my iPhone") is nobody's answer.

One pass, with a bounded look ahead of a few lines; no regular expressions.
"""

from collections.abc import Collection, Iterator, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from signoff.channels.email.marks import (
    after_attribution,
    before_attribution,
    begins_header_block,
    is_banner,
    is_heading,
    is_quoted,
    quote_follows,
)
from signoff.channels.email.phrases import SEPARATORS
from signoff.core.replies.signature import is_device_line

CUT_MARKER: Final = "──── reply above this line ────"
"""The line in our own mails below which nothing is the person's."""

LONGEST_TEXT: Final = 64 * 1024
MOST_LINES: Final = 200

_MARKER_WORDS: Final = "reply above this line"
_WRAPPED: Final = 50
_LOOK_AHEAD: Final = 8
_SIGNATURE_RULES: Final = frozenset({"--", "–", "__"})
_RULES: Final = frozenset("-–—─_=*#~+ᐧ \t")


class Reply(NamedTuple):
    """What a person wrote.

    Attributes:
        answer: The lines that are read as an answer: nothing quoted, no signature.
        shown: The text as the person meant it to be read: with what they quoted to write below it,
            and without what their programme quoted.
    """

    answer: str
    shown: str


class _Kind(Enum):
    TEXT = auto()
    QUOTE = auto()
    INTRODUCTION = auto()
    SIGNATURE = auto()


_Line = tuple[_Kind, str]


def own_text(text: str, sent_lines: Collection[str] = ()) -> str:
    """Return the lines that are read as an answer: `read_reply`'s ``answer``."""
    return read_reply(text, sent_lines).answer


def read_reply(text: str, sent_lines: Collection[str] = ()) -> Reply:
    """Tell what the person wrote from what came along.

    Args:
        text: The plain text of a mail.
        sent_lines: Lines that we sent; where they stand unmarked they are taken out too. None of
            them may be a line with which a person would answer.

    Returns:
        The person's lines, without blank ones at either end; "" when there are none.
    """
    scanned = text[:LONGEST_TEXT].replace("\r\n", "\n").replace("\r", "\n")
    lines = [_visible(line) for line in scanned.split("\n", MOST_LINES)[:MOST_LINES]]
    ours = {_comparable(line) for line in sent_lines} - {""}
    told = list(_told_apart(lines, ours))
    return Reply(_answer(told), _shown(told))


def _told_apart(lines: list[str], ours: set[str]) -> Iterator[_Line]:
    """Yield the lines with what they are, up to where the person's text ends."""
    at, quoted_length = 0, 0
    signed, top = False, True
    while at < len(lines):
        line = lines[at]
        if is_quoted(line):
            if not quoted_length and _introduces(lines[at : at + _LOOK_AHEAD]):
                yield _Kind.INTRODUCTION, ""
            yield _Kind.QUOTE, line
            at, quoted_length, signed = at + 1, len(line), False
            continue
        if _ends_own_text(lines, at):
            return
        before = before_attribution(line)
        after = None if before else after_attribution(lines, at)
        if before:
            line, lines[at] = before, line[len(before) :].lstrip(" -")
            at -= 1
        if after is not None:
            if not quote_follows(lines, after):
                return
            yield _Kind.INTRODUCTION, line
            at, quoted_length, signed = after, 0, False
            continue
        between = at + 1 < len(lines) and is_quoted(lines[at + 1])
        if line and quoted_length and (quoted_length >= _WRAPPED or between):
            yield _Kind.QUOTE, line
            at, quoted_length = at + 1, len(line)
            continue
        quoted_length = 0
        signed = signed or _opens_signature(line.strip())
        if signed or is_device_line(line):
            yield _Kind.SIGNATURE, line
        elif _comparable(line) not in ours and not (top and is_banner(line)):
            top = top and not line.strip()
            yield _Kind.TEXT, line
        at += 1


def _introduces(quoted: list[str]) -> bool:
    """Say whether quoted lines begin with what introduces a quotation, quoted too."""
    bare = [line.lstrip("> ") for line in quoted]
    return (
        is_heading(bare[0])
        or begins_header_block(bare, 0)
        or after_attribution(bare, 0) is not None
    )


def _answer(told: list[_Line]) -> str:
    answer: list[str] = []
    before = _Kind.TEXT
    for kind, line in told:
        if kind is _Kind.TEXT:
            answer.append(line)
        elif kind is not before:
            answer.append("")
        before = kind
    return "\n".join(answer).strip("\n")


def _shown(told: list[_Line]) -> str:
    """Put together what the person meant to be read.

    Who writes between quoted lines has chosen them, and so has who quotes by hand; a quotation that
    the programme introduced and put in one piece is the programme's.
    """
    pieces = [(kind, line) for kind, line in told if kind is not _Kind.SIGNATURE]
    introduced = any(kind is _Kind.INTRODUCTION for kind, _ in pieces)
    chosen = not introduced or _quotations(pieces) > 1
    wrote = any(kind is _Kind.TEXT and line.strip() for kind, line in pieces)
    while pieces and (_is_empty(pieces[-1]) or (wrote and pieces[-1][0] is not _Kind.TEXT)):
        pieces.pop()
    kept = {_Kind.TEXT, _Kind.QUOTE} if chosen else {_Kind.TEXT}
    return "\n".join(line for kind, line in pieces if kind in kept).strip("\n")


def _quotations(pieces: Sequence[_Line]) -> int:
    """Count the runs of quoted lines with text between them."""
    runs, inside = 0, False
    for kind, line in pieces:
        if kind is _Kind.QUOTE and not inside:
            runs, inside = runs + 1, True
        elif kind is _Kind.TEXT and line.strip():
            inside = False
    return runs


def _is_empty(piece: _Line) -> bool:
    return piece[0] is _Kind.TEXT and set(piece[1]) <= _RULES


def _opens_signature(line: str) -> bool:
    """Say whether a line is RFC 3676's "-- ", or a rule of long dashes, which no markup knows."""
    return line in _SIGNATURE_RULES or (bool(line) and not line.strip("—"))


def _visible(line: str) -> str:
    """Drop what cannot be seen at the ends of a line and would hide a mark there."""
    return (
        line.replace("\N{NO-BREAK SPACE}", " ")
        .strip("\ufeff\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u2060")
        .rstrip()
    )


def _comparable(line: str) -> str:
    return " ".join(line.strip("> *\t").split()).casefold()


def _ends_own_text(lines: list[str], at: int) -> bool:
    bare = lines[at].strip("-–—─_=*# \ufffd|?\t").casefold()
    if bare == _MARKER_WORDS:
        return True
    line = lines[at].strip()
    if len(line) >= 10 and not line.strip("_"):
        return True
    if is_heading(line) or begins_header_block(lines, at):
        return True
    # BlackBerry writes the heading without rules.
    named = bare in SEPARATORS and at + 1 < len(lines)
    return named and begins_header_block(lines, at + 1)
