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

One pass, with a bounded look ahead of a few lines; no regular expressions.
"""

from collections.abc import Collection
from typing import Final

from signoff.channels.email.phrases import (
    AUTHOR_LABELS,
    HEADER_LABELS,
    OPENINGS,
    SEPARATORS,
    WROTE,
    WROTE_THEN,
)

CUT_MARKER: Final = "──── reply above this line ────"
"""The line in our own mails below which nothing is the person's."""

LONGEST_TEXT: Final = 64 * 1024
MOST_LINES: Final = 200

_MARKER_WORDS: Final = "reply above this line"
_LONGEST_LINE: Final = 1_000
_LONGEST_ATTRIBUTION: Final = 600
_ATTRIBUTION_LINES: Final = 7
_HEADER_BLOCK_LINES: Final = 8
_WRAPPED: Final = 50
_DASHES: Final = "-–—─_=*"
_COLONS: Final = ":："


def own_text(text: str, sent_lines: Collection[str] = ()) -> str:
    """Return what the person wrote.

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
    own: list[str] = []
    at, quoted_length = 0, 0
    while at < len(lines):
        line = lines[at]
        if _is_quoted(line):
            own += [""] if quoted_length == 0 else []
            at, quoted_length = at + 1, len(line)
            continue
        if _ends_own_text(lines, at):
            break
        after = _after_attribution(lines, at)
        if after is not None:
            if not _quote_follows(lines, after):
                break
            at, quoted_length = after, 0
            continue
        between = at + 1 < len(lines) and _is_quoted(lines[at + 1])
        if line and quoted_length and (quoted_length >= _WRAPPED or between):
            at, quoted_length = at + 1, len(line)
            continue
        quoted_length = 0
        if _comparable(line) not in ours:
            own.append(line)
        at += 1
    return "\n".join(own).strip("\n")


def _visible(line: str) -> str:
    """Drop what cannot be seen at the ends of a line and would hide a mark there."""
    return (
        line.replace("\N{NO-BREAK SPACE}", " ")
        .strip("\ufeff\u200b\u200c\u200d\u200e\u200f\u2060")
        .rstrip()
    )


def _comparable(line: str) -> str:
    return " ".join(line.strip("> *\t").split()).casefold()


def _is_quoted(line: str) -> bool:
    return line.lstrip().startswith((">", "\N{FULLWIDTH GREATER-THAN SIGN}"))


def _ends_own_text(lines: list[str], at: int) -> bool:
    line = lines[at].strip()[:_LONGEST_LINE]
    bare = line.strip(_DASHES + "# \ufffd|?").casefold()
    if bare == _MARKER_WORDS:
        return True
    if len(line) >= 10 and not line.strip("_"):
        return True
    heading = bare.strip(_COLONS + " ")
    if heading in SEPARATORS and (line[0] in _DASHES or line[-1] in _DASHES + _COLONS):
        return True
    return _begins_header_block(lines, at)


def _begins_header_block(lines: list[str], at: int) -> bool:
    """Say whether a copied mail header begins here: three labels, among them the author's."""
    if _label(lines[at]) not in HEADER_LABELS:
        return False
    labels: set[str] = set()
    others = seen = 0
    for line in lines[at : at + 2 * _HEADER_BLOCK_LINES]:
        if not line.strip():
            continue
        label = _label(line)
        if label in HEADER_LABELS:
            labels.add(label)
        else:
            # One long list of recipients may run over two lines.
            others += 1
        seen += 1
        if others > 2 or seen >= _HEADER_BLOCK_LINES:
            break
    return len(labels) >= 3 and bool(labels & AUTHOR_LABELS)


def _label(line: str) -> str:
    head = line.strip(" *|\t")[:40].replace("\N{FULLWIDTH COLON}", ":")
    name, colon, _ = head.partition(":")
    return name.strip(" *").casefold() if colon else ""


def _after_attribution(lines: list[str], at: int) -> int | None:
    """Return the line after an attribution that begins here, or None where none does."""
    first = _core(lines[at])
    if not first:
        return None
    if _is_dated_author(first) or _closes(first, dashed=lines[at].endswith("--")):
        return at + 1
    if not (first.startswith(OPENINGS) or first[0].isdigit() or "<" in first or "@" in first):
        return None
    text = first
    for end in range(at + 1, min(at + _ATTRIBUTION_LINES, len(lines))):
        if not _goes_on(text, lines[end]):
            return None
        text = f"{text} {_core(lines[end])}".rstrip()
        if _closes(text, dashed=lines[end].endswith("--")):
            return end + 1
    return None


def _goes_on(text: str, line: str) -> bool:
    """Say whether an attribution that began as ``text`` may run on over this line."""
    if len(text) > _LONGEST_ATTRIBUTION:
        return False
    if _is_quoted(line):
        # An address may be folded so that its ">" stands first on a line.
        return text.count("<") > text.count(">")
    core = _core(line)
    return not _is_dated(core) if core else _is_dated(text)


def _core(line: str) -> str:
    """Return a line without the dashes and stars around it, case-folded and shortened."""
    return line[:_LONGEST_LINE].strip(" \t*-_|").casefold()


def _is_dated(line: str) -> bool:
    """Say whether a line opens like an attribution and holds a year or a time of day."""
    if not line.startswith(OPENINGS) and not line[:1].isdigit():
        return False
    run, longest = 0, 0
    for mark in line:
        run = run + 1 if mark.isdigit() else 0
        longest = max(longest, run)
    return longest >= 4 or any(
        line[place - 1 : place].isdigit() and line[place + 1 : place + 2].isdigit()
        for place, mark in enumerate(line)
        if mark in ":."
    )


def _is_dated_author(line: str) -> bool:
    """Recognise "2013/7/20 Ada <ada@x.example>" and "2016-03-03 17:21 GMT+01:00 Ada"."""
    date = line.split(" ", 1)[0].replace("/", "-").split("-")
    dated = len(date) == 3 and all(part.isdigit() for part in date) and len(date[0]) == 4
    return dated and (" gmt" in line or (line.endswith(">") and "@" in line))


def _closes(text: str, *, dashed: bool) -> bool:
    """Say whether text is "… wrote:", with a date or an address in it."""
    if not any(mark.isdigit() or mark == "@" for mark in text):
        return False
    if not text.endswith(tuple(_COLONS)) and not dashed:
        return False
    bare = text.rstrip(_COLONS + " ")
    if bare.endswith(WROTE):
        return True
    if bare.endswith(">") and _is_dated(text):
        return True
    return any(f" {phrase} " in text for phrase in WROTE_THEN) or (
        "@" in text and any(phrase in text for phrase in WROTE_THEN[-2:])
    )


def _quote_follows(lines: list[str], at: int) -> bool:
    for line in lines[at : at + 3]:
        if line.strip():
            return _is_quoted(line)
    return False
