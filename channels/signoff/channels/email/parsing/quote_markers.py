"""Recognises lines that introduce quoted text.

Each function looks at one line and at most a few below it.
"""

from collections.abc import Sequence
from typing import Final

from signoff.channels.email.parsing.quote_phrases import (
    AUTHOR_LABELS,
    DAYS,
    HEADER_LABELS,
    MESSAGE_OF,
    OPENINGS,
    SEPARATORS,
    SUBJECT_LABELS,
    WROTE,
    WROTE_THEN,
)

_YAHOO: Final = ":   "
"""The end of an attribution before a quotation on the same line."""
_LONGEST_LINE: Final = 1_000
_LONGEST_ATTRIBUTION: Final = 600
_LONGEST_HEADING: Final = 80
_LONGEST_LABEL: Final = 40
_ATTRIBUTION_LINES: Final = 7
_HEADER_BLOCK_LINES: Final = 8
_GROUPWISE_LINES: Final = 3
_LONGEST_INITIALS: Final = 3
_DASHES: Final = "-–—─_=*"
_COLONS: Final = ":："
_RULE: Final = "-----"
_GROUPWISE: Final = ">>>"
_NOTES: Final = "---"
_CENTURIES: Final = ("19", "20")
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_UNUSUAL_MARKS: Final = ("|", "¦", "│", "┃", "▏", "▎", "▍", "▌", "»", "›", "}")
_SEPARATORS: Final = tuple(SEPARATORS)


def is_quoted(line: str) -> bool:
    """Return whether a line is marked as quoted: with ">", or with initials ("AW>")."""
    bare = line.lstrip()
    if bare.startswith((">", "\N{FULLWIDTH GREATER-THAN SIGN}")):
        return True
    initials = bare[: _LONGEST_INITIALS + 1].partition(">")
    return bool(initials[1]) and initials[0].isalpha() and initials[0].isupper()


def may_be_quoted(line: str) -> bool:
    """Return whether a line begins with a mark for quotations with which people also draw."""
    return line.lstrip().startswith(_UNUSUAL_MARKS)


def quote_follows(lines: Sequence[str], at: int) -> bool:
    """Return whether the next non-blank line, within three lines, is quoted."""
    for line in lines[at : at + 3]:
        if line.strip():
            return is_quoted(line)
    return False


def is_heading(line: str) -> bool:
    """Return whether a line is a heading over a quoted mail: "-----Original Message-----".

    The quoted mail may continue on the same line: "-----Original Message----- From: Ada".
    """
    short = line[:_LONGEST_LINE].strip()
    if not short:
        return False
    bare = short.strip(_DASHES + "# \ufffd|?[").casefold()
    if bare.startswith("original message processed by") or _is_notes_heading(short):
        return True
    if bare.strip(_COLONS + " ") in SEPARATORS:
        return short[0] in _DASHES or short[-1] in _DASHES + _COLONS
    if short[0] not in _DASHES:
        return False
    known = next((one for one in _SEPARATORS if bare.startswith(one)), "")
    return bool(known) and bare[len(known) :].lstrip().startswith(tuple(_DASHES + _COLONS))


def is_between_rules(line: str) -> bool:
    """Return whether a line has text between rules of dashes, like headings in any language."""
    short = line[:_LONGEST_LINE].strip()
    bare = short.strip(_DASHES + " ")
    return bool(bare) and short.startswith(_RULE) and _RULE in short[len(_RULE) + len(bare) :]


def begins_header_block(lines: Sequence[str], at: int) -> bool | None:
    """Return whether a copied mail header begins here: three labels, including the author's.

    Programs capitalize the labels; "to: ada@x.example" is a value from a person.

    Returns:
        None if these may also be three values: without a subject, an address of the author, and a
        date with a time.
    """
    line = lines[at]
    if ":" not in line and "\N{FULLWIDTH COLON}" not in line:
        return False
    on_one_line = _header_line(line)
    if on_one_line is not False:
        return on_one_line
    if _label(line) not in HEADER_LABELS:
        return False
    labels: set[str] = set()
    author, dated = "", False
    others = seen = 0
    for below in lines[at : at + 2 * _HEADER_BLOCK_LINES]:
        if not below.strip():
            continue
        label = _label(below)
        if label in HEADER_LABELS:
            labels.add(label)
            author = below if label in AUTHOR_LABELS else author
            dated = dated or all(_dates(_core(below)))
        else:
            # A long list of recipients may continue on a second line.
            others += 1
        seen += 1
        if others > 2 or seen >= _HEADER_BLOCK_LINES:
            break
    if len(labels) < 3 or not labels & AUTHOR_LABELS:
        return False
    certain = dated or len(labels) > 3 or bool(labels & SUBJECT_LABELS) or "@" in author
    return True if certain else None


def begins_marked_mail(lines: Sequence[str], at: int) -> bool:
    """Return whether a marked line introduces a quoted mail whose lines are not marked.

    GroupWise writes ">>> Ada <ada@x.example> 3/2/2026 10:00 AM >>>" over it, and may fold that.
    """
    first = lines[at].strip()
    if first.startswith(_GROUPWISE):
        text = first
        for below in range(at + 1, at + 1 + _GROUPWISE_LINES):
            closed = text.rfind(_GROUPWISE)
            if closed > len(_GROUPWISE) and ("@" in text or _has_date(text)):
                return not quote_follows(lines, below)
            if below >= len(lines) or not lines[below].strip():
                break
            text = f"{text} {lines[below].strip()}"
    marked: list[str] = []
    for line in lines[at : at + _HEADER_BLOCK_LINES + 2]:
        if not is_quoted(line):
            break
        marked.append(line.lstrip("> "))
    end = after_attribution(marked, 0) or int(is_heading(marked[0]))
    rest = [line for line in marked[end:] if line.strip()]
    only = (end or rest) and all(_label(line) in HEADER_LABELS for line in rest)
    return (
        bool(only) and at + len(marked) < len(lines) and not quote_follows(lines, at + len(marked))
    )


def after_attribution(lines: Sequence[str], at: int) -> int | None:
    """Return the line after an attribution that begins here, or None."""
    first = _core(_before_quotation(lines[at])) if at < len(lines) else ""
    if not first:
        return None
    named = first.startswith(MESSAGE_OF)
    quoting = first.rstrip(_COLONS + " ").endswith(WROTE) or (
        named and first.endswith(tuple(_COLONS))
    )
    if (
        (quoting and quote_follows(lines, at + 1))
        or _is_dated_author(first)
        or _closes(first, dashed=lines[at].endswith("--"))
    ):
        return at + 1
    opens = named or _opens(first) or first[0].isdigit() or "<" in first or "@" in first
    return _folded_end(lines, at, first, sure=opens) if opens or _has_date(first) else None


def before_attribution(line: str) -> str | None:
    """Return the text on a line before an attribution that begins in it, or None.

    "Fine with me On Wed, Apr 4, 2012 at 3:59 PM, ada@x.example wrote:"
    """
    text = line[:_LONGEST_LINE].casefold()
    at = text.rfind("on ")
    opened = at > 0 and text[at - 1] in " -" and text[at + 3 :].startswith(_WEEKDAYS)
    closed = opened and _has_date(text[at:]) and _closes(text[at:].strip(" -"), dashed=False)
    return line[:at].rstrip(" -") if closed else None


def follows_attribution(lines: Sequence[str]) -> bool:
    """Return whether the last lines are an attribution, so that the next line is quoted."""
    above = [*lines]
    while above and not above[-1].strip():
        above.pop()
    first = max(0, len(above) - _ATTRIBUTION_LINES)
    marked = [*above, ">"]
    return any(after_attribution(marked, at) == len(above) for at in range(first, len(above)))


def _before_quotation(line: str) -> str:
    """Return a line without the quotation that Yahoo's app begins on it: "… wrote:   Hello"."""
    head, gap, _ = line[:_LONGEST_LINE].partition(_YAHOO)
    return f"{head}:" if gap and "@" in head else line


def _label(line: str) -> str:
    head = line.strip(" *|\t")[:_LONGEST_LABEL].replace("\N{FULLWIDTH COLON}", ":")
    name, colon, _ = head.partition(":")
    name = name.strip(" *")
    return name.casefold() if colon and not name[:1].islower() else ""


def _header_line(line: str) -> bool | None:
    """Return whether a whole header is on one line: "From: Ada Sent: Monday To: Mara"."""
    pieces = line[:_LONGEST_LINE].replace("\N{FULLWIDTH COLON}", ":").split(":")
    if len(pieces) < 4:
        return False
    labels = set()
    for at, piece in enumerate(pieces[:-1]):
        words = piece[-_LONGEST_LABEL:].strip(" *|\t").split()
        tails = (words if at == 0 else words[-length:] for length in (1, 2, 3))
        found = next((one for one in tails if " ".join(one).casefold() in HEADER_LABELS), None)
        if found is None and at == 0:
            return False
        if found is not None and not found[0][:1].islower():
            labels.add(" ".join(found).casefold())
    if len(labels) < 3 or not labels & AUTHOR_LABELS:
        return False
    return True if "@" in line or len(labels) > 3 or labels & SUBJECT_LABELS else None


def _is_notes_heading(line: str) -> bool:
    """Recognise a Notes heading: "Ada Lovelace ---02.03.2026 10:00:15---Is this all right"."""
    _, found, rest = line.partition(_NOTES)
    date, closed, _ = rest[:_LONGEST_HEADING].partition(_NOTES)
    return bool(found and closed) and _has_date(date) and date[:1].isdigit()


def _folded_end(lines: Sequence[str], at: int, first: str, *, sure: bool) -> int | None:
    """Return the line after an attribution of several lines, or None."""
    text = first
    for end in range(at + 1, min(at + _ATTRIBUTION_LINES, len(lines))):
        # An address may be folded so that its ">" begins a line.
        open_address = text.count("<") > text.count(">")
        quoted = is_quoted(lines[end]) and not open_address
        if len(text) > _LONGEST_ATTRIBUTION or quoted:
            return None
        if not (open_address or _goes_on(text, lines[end], sure=sure)):
            return None
        text = f"{text} {_core(lines[end])}".rstrip()
        if _closes(text, dashed=lines[end].endswith("--")):
            return end + 1
    return None


def _goes_on(text: str, line: str, *, sure: bool) -> bool:
    """Return whether an attribution that began with ``text`` may continue on this line."""
    core = _core(line)
    if "@" in core and _has_date(core) and _closes(core, dashed=False):
        # This line introduces a quotation itself, so the person wrote the line above it.
        return False
    if not sure:
        return core.startswith("<") or core.rstrip(_COLONS + " ") in WROTE
    if text.startswith(MESSAGE_OF):
        return bool(core)
    return not _is_dated(core) if core else _is_dated(text)


def _core(line: str) -> str:
    """Return a line without surrounding dashes and stars, case-folded and shortened.

    Direction marks, which are common in Arabic and Hebrew lines, are removed.
    """
    short = line[:_LONGEST_LINE]
    if not short.isascii():
        short = short.translate(_DIRECTIONS)
    return short.strip(" \t*-_|").casefold()


_DIRECTIONS: Final = dict.fromkeys(
    (0x200E, 0x200F, 0x202A, 0x202B, 0x202C, 0x2066, 0x2067, 0x2068, 0x2069)
)


def _is_dated(line: str) -> bool:
    """Return whether a line begins like an attribution and contains a year or a time of day."""
    return (_opens(line) or line[:1].isdigit()) and _has_date(line)


def _opens(line: str) -> bool:
    """Return whether a line begins like an attribution: "On", or a weekday with a number."""
    return line.startswith(OPENINGS) or (
        line.startswith(DAYS) and any(mark.isdecimal() for mark in line)
    )


def _has_date(line: str) -> bool:
    """Return whether a line contains a year or a time of day."""
    return any(_dates(line))


def _dates(line: str) -> tuple[bool, bool]:
    """Return whether a line contains a year, and whether it contains a time of day."""
    plain = line if line.isascii() else line.translate(_DIGITS)
    runs = "".join(mark if mark.isdecimal() else " " for mark in plain).split()
    return any(len(run) == 4 and run[:2] in _CENTURIES for run in runs), any(
        plain[place - 1 : place].isdigit() and plain[place + 1 : place + 2].isdigit()
        for place, mark in enumerate(plain)
        if mark in ":."
    )


_DIGITS: Final = {
    zero + digit: str(digit) for zero in (0x0660, 0x06F0, 0x0966, 0x09E6) for digit in range(10)
}


def _is_dated_author(line: str) -> bool:
    """Recognise "2013/7/20 Ada <ada@x.example>" and "2016-03-03 17:21 GMT+01:00 Ada"."""
    date = line.split(" ", 1)[0].replace("/", "-").split("-")
    dated = len(date) == 3 and all(part.isdigit() for part in date) and len(date[0]) == 4
    return dated and (" gmt" in line or (line.endswith(">") and "@" in line))


def _closes(text: str, *, dashed: bool) -> bool:
    """Return whether a text is "… wrote:", with a date or an address in it."""
    if not any(mark.isdigit() or mark == "@" for mark in text):
        return False
    bare = text.rstrip(_COLONS + " ")
    if not text.endswith(tuple(_COLONS)) and not dashed:
        # Some programs omit the colon.
        return bare.endswith(WROTE) and ">" in text and "@" in text and _is_dated(text)
    if "@" in bare and (
        (bare.endswith(">") and _has_date(text))
        or ("@" in bare[bare.rfind(" ") + 1 :] and _is_dated(text))
        or any(phrase in text for phrase in WROTE_THEN[-2:])
    ):
        return True
    return (
        bare.endswith(WROTE)
        or (text.startswith(MESSAGE_OF) and ("@" in text or _has_date(text)))
        or any(f" {phrase} " in text for phrase in WROTE_THEN)
    )
