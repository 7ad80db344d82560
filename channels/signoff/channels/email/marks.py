"""How a line tells that what follows it was written by somebody else.

Each function looks at one line and at most a few below it.
"""

from typing import Final

from signoff.channels.email.phrases import (
    AUTHOR_LABELS,
    BANNER_REASONS,
    BANNERS,
    HEADER_LABELS,
    OPENINGS,
    SEPARATORS,
    WROTE,
    WROTE_THEN,
)

_LONGEST_LINE: Final = 1_000
_LONGEST_ATTRIBUTION: Final = 600
_ATTRIBUTION_LINES: Final = 7
_HEADER_BLOCK_LINES: Final = 8
_LONGEST_INITIALS: Final = 3
_DASHES: Final = "-–—─_=*"
_COLONS: Final = ":："
_RULE: Final = "-----"
_CENTURIES: Final = ("19", "20")
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def is_quoted(line: str) -> bool:
    """Say whether a line is marked as quoted: behind ">", or behind initials ("AW>")."""
    bare = line.lstrip()
    if bare.startswith((">", "\N{FULLWIDTH GREATER-THAN SIGN}")):
        return True
    initials = bare[: _LONGEST_INITIALS + 1].partition(">")
    return bool(initials[1]) and initials[0].isalpha() and initials[0].isupper()


def quote_follows(lines: list[str], at: int) -> bool:
    """Say whether the next line that is not blank, within three, is quoted."""
    for line in lines[at : at + 3]:
        if line.strip():
            return is_quoted(line)
    return False


def is_heading(line: str) -> bool:
    """Say whether a line is a heading over a quoted mail: "-----Original Message-----"."""
    short = line[:_LONGEST_LINE]
    if not short:
        return False
    bare = short.strip(_DASHES + "# \ufffd|?[").casefold()
    if bare.startswith("original message processed by"):
        return True
    # Whatever is written between rules, in any language.
    if short.startswith(_RULE) and short.endswith(_RULE) and bare:
        return True
    heading = bare.strip(_COLONS + " ")
    return heading in SEPARATORS and (short[0] in _DASHES or short[-1] in _DASHES + _COLONS)


def is_banner(line: str) -> bool:
    """Say whether a line is what mail systems put on top: "CAUTION: external sender"."""
    bare = line[:_LONGEST_LINE].lstrip("[*#! ").casefold()
    return bare.startswith(BANNERS) and any(word in bare for word in BANNER_REASONS)


def begins_header_block(lines: list[str], at: int) -> bool:
    """Say whether a copied mail header begins here: three labels, among them the author's.

    Programmes write the labels with a capital; "to: ada@x.example" is a value that a person gives.
    """
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


def after_attribution(lines: list[str], at: int) -> int | None:
    """Return the line after an attribution that begins here, or None where none does."""
    first = _core(lines[at])
    if not first:
        return None
    undated = first.rstrip(_COLONS + " ").endswith(WROTE) and quote_follows(lines, at + 1)
    if undated or _is_dated_author(first) or _closes(first, dashed=lines[at].endswith("--")):
        return at + 1
    opens = first.startswith(OPENINGS) or first[0].isdigit() or "<" in first or "@" in first
    if not (opens or _has_date(first)):
        return None
    text = first
    for end in range(at + 1, min(at + _ATTRIBUTION_LINES, len(lines))):
        if not _goes_on(text, lines[end], sure=opens):
            return None
        text = f"{text} {_core(lines[end])}".rstrip()
        if _closes(text, dashed=lines[end].endswith("--")):
            return end + 1
    return None


def before_attribution(line: str) -> str | None:
    """Return what stands on a line before an attribution that begins in it, or None.

    "Fine with me On Wed, Apr 4, 2012 at 3:59 PM, ada@x.example wrote:"
    """
    text = line[:_LONGEST_LINE].casefold()
    at = text.rfind("on ")
    opened = at > 0 and text[at - 1] in " -" and text[at + 3 :].startswith(_WEEKDAYS)
    closed = opened and _has_date(text[at:]) and _closes(text[at:].strip(" -"), dashed=False)
    return line[:at].rstrip(" -") if closed else None


def _label(line: str) -> str:
    head = line.strip(" *|\t")[:40].replace("\N{FULLWIDTH COLON}", ":")
    name, colon, _ = head.partition(":")
    name = name.strip(" *")
    return name.casefold() if colon and not name[:1].islower() else ""


def _goes_on(text: str, line: str, *, sure: bool) -> bool:
    """Say whether an attribution that began as ``text`` may run on over this line."""
    if len(text) > _LONGEST_ATTRIBUTION:
        return False
    if text.count("<") > text.count(">"):
        # An address may be folded so that its ">" stands first on a line.
        return True
    if is_quoted(line):
        return False
    core = _core(line)
    if "@" in core and _has_date(core) and _closes(core, dashed=False):
        # It is one by itself, and what stands above it is the person's.
        return False
    if not sure:
        return core.startswith("<") or core.rstrip(_COLONS + " ") in WROTE
    return not _is_dated(core) if core else _is_dated(text)


def _core(line: str) -> str:
    """Return a line without the dashes and stars around it, case-folded and shortened."""
    return line[:_LONGEST_LINE].strip(" \t*-_|").casefold()


def _is_dated(line: str) -> bool:
    """Say whether a line opens like an attribution and holds a year or a time of day."""
    return (line.startswith(OPENINGS) or line[:1].isdigit()) and _has_date(line)


def _has_date(line: str) -> bool:
    """Say whether a line holds a year or a time of day."""
    runs = "".join(mark if mark.isdecimal() else " " for mark in line).split()
    return any(len(run) == 4 and run[:2] in _CENTURIES for run in runs) or any(
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
    bare = text.rstrip(_COLONS + " ")
    if not text.endswith(tuple(_COLONS)) and not dashed:
        # Some programmes forget the colon.
        return bare.endswith(WROTE) and ">" in text and "@" in text and _is_dated(text)
    if bare.endswith(WROTE):
        return True
    if bare.endswith(">") and "@" in bare and _has_date(text):
        return True
    return any(f" {phrase} " in text for phrase in WROTE_THEN) or (
        "@" in text and any(phrase in text for phrase in WROTE_THEN[-2:])
    )
