"""Reads all forms of a mail's text, and compares them.

A program shows one of several alternatives (RFC 2046, section 5.1.4), and we do not know which: the
author may have seen the HTML, and the next reader sees the plain text. So all readable forms are
read, and an answer is certain only if the person's own words are the same in all of them.
"""

import unicodedata
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from signoff.channels.email.parsing.cascade import Budget
from signoff.channels.email.parsing.formats import (
    ENRICHED,
    HTML,
    RTF,
    text_of_enriched,
    text_of_rtf,
)
from signoff.channels.email.parsing.markup import lines_of_html, words_of_html
from signoff.channels.email.parsing.mime import Part
from signoff.channels.email.parsing.quoting import (
    AMBIGUOUS,
    MOST_LINES,
    Line,
    Reply,
    has_words,
    is_name,
    read_reply,
)

DIFFERENT: Final = (
    "Your mail has two versions of its text that say different things, and I cannot tell which of "
    "them you saw. Send your answer again as plain text."
)
UNREADABLE: Final = (
    "Your mail has a version of its text that I cannot read, so I cannot tell what you saw. Send "
    "your answer again as plain text."
)

_MOST_READINGS: Final = 4
_PLAIN: Final = frozenset({"text/plain", "text/markdown", "text/x-markdown"})
_NO_TEXT: Final = frozenset(
    {
        *("text/calendar", "text/vcard", "text/x-vcard", "text/directory", "text/css"),
        *("text/rfc822-headers", "text/xml", "text/csv", "text/javascript", "text/x-amp-config"),
    }
)
_LINKS: Final = ("http:", "https:", "mailto:", "tel:", "cid:", "ftp:", "file:", "www.", "image:")
_PICTURES: Final = (".png", ".jpg", ".jpeg", ".gif")
_LONGEST_LINK: Final = 2_000


class Reading(NamedTuple):
    """The words of a mail's author.

    Attributes:
        reply: The author's own words.
        text: The whole text that contains them.
        doubt: Why it is not certain that these are the author's words, or "".
    """

    reply: Reply
    text: str
    doubt: str


class _Reading(NamedTuple):
    """One form of the text: its lines, its parts, and whether it is only HTML."""

    lines: list[Line]
    parts: Sequence[Part]
    html: bool

    def words(self) -> str:
        """Return all words in it, visible or not."""
        return " ".join(map(_words, self.parts))


class Readings(NamedTuple):
    """The forms of a mail's text that were read.

    Attributes:
        forms: The number of forms.
        read: The forms that were read.
    """

    forms: int
    read: Sequence[_Reading]


def read_forms(mail: Part) -> Readings:
    """Read the forms of a mail's text."""
    forms = [parts for parts in _forms(mail) if parts]
    budget = Budget()
    read = (_read(parts, budget) for parts in forms[:_MOST_READINGS])
    return Readings(len(forms), [one for one in read if one is not None])


def own_words_in(
    mail: Part, found: Readings, sent_lines: Collection[str], names: Collection[str]
) -> Reading:
    """Return the words of a mail's author, from all its forms.

    Args:
        mail: The parsed mail.
        found: The forms of its text, from `read_forms`.
        sent_lines: Lines that we sent, which the person did not write.
        names: The words of the author's name, case-folded.
    """
    readings = found.read
    if not readings:
        unreadable = any(map(_is_unreadable, mail.walk()))
        return Reading(Reply("", ""), "", doubt=UNREADABLE if unreadable else "")
    replies = [read_reply(one.lines, sent_lines, names) for one in readings]
    doubt = _doubt(replies, readings, frozenset(names))
    if found.forms > _MOST_READINGS:
        doubt = doubt or DIFFERENT
    if any(map(_is_unreadable, mail.walk())):
        doubt = doubt or UNREADABLE
    text = "\n".join(line.text for line in readings[0].lines)
    return Reading(replies[0], text, doubt)


def _doubt(replies: Sequence[Reply], readings: Sequence[_Reading], names: frozenset[str]) -> str:
    # Some programs add the person's name only to one of the forms.
    answers = (one.answer.splitlines() for one in replies)
    essences = [
        essence("\n".join(line for line in answer if not is_name(line, names)))
        for answer in answers
    ]
    for at, reply in enumerate(replies):
        if reply.doubt and not (
            reply.doubt == AMBIGUOUS
            and any(
                _settles(other, readings[place], essences[place] == essences[at], reply.unsure)
                for place, other in enumerate(replies)
                if place != at
            )
        ):
            return reply.doubt
    return DIFFERENT if len(set(essences)) > 1 else ""


def _settles(other: Reply, reading: _Reading, same: bool, unsure: str) -> bool:
    """Return whether another form resolves the doubt, because it quotes the unsure words."""
    return not other.doubt and same and essence(unsure) in essence(reading.words())


def _forms(part: Part) -> list[list[Part]]:
    """Return the forms of a part's text, each as a list of parts, the preferred form first.

    The preferred form is plain text, if it is not empty.
    """
    if part.attached:
        return [[]]
    if part.media_type == "multipart/alternative":
        forms = [form for child in part.children for form in _forms(child) if form]
        return sorted(forms, key=_preference) or [[]]
    if part.children:
        inner = [_forms(child) for child in part.children]
        count = max(map(len, inner))
        return [
            [one for forms in inner for one in forms[at if at < len(forms) else 0]]
            for at in range(count)
        ]
    return [[part]] if _is_read(part) else [[]]


def _preference(form: Sequence[Part]) -> int:
    types = {part.media_type for part in form}
    return 0 if types & _PLAIN else 1 if "text/html" in types else 2


def _is_read(part: Part) -> bool:
    return part.media_type in _PLAIN | HTML | ENRICHED | RTF


def _is_unreadable(part: Part) -> bool:
    """Return whether a program may show a part as text that is not read here."""
    if part.attached or part.children:
        return False
    if part.media_type in RTF:
        return text_of_rtf(part.text()) is None
    unknown = part.media_type.startswith("text/") and not _is_read(part)
    return unknown and part.media_type not in _NO_TEXT and has_words(part.text())


def _read(parts: Sequence[Part], budget: Budget) -> _Reading | None:
    """Read one form of the text; None if it is empty."""
    lines: list[Line] = []
    plain = False
    for part in parts:
        if part.media_type in HTML:
            lines += lines_of_html(part.text(), budget)
            continue
        text = _unformatted(part)
        plain = plain or bool(text.strip())
        lines += map(Line, text.replace("\r\n", "\n").replace("\r", "\n").split("\n", MOST_LINES))
    reading = _Reading(lines, parts, html=not plain)
    shown = any(line.text.strip() or line.doubt for line in lines)
    return reading if shown or has_words(reading.words()) else None


def _words(part: Part) -> str:
    return words_of_html(part.text()) if part.media_type in HTML else _unformatted(part)


def _unformatted(part: Part) -> str:
    """Return the text of a part that is not HTML."""
    text = part.text()
    if part.media_type in ENRICHED:
        return text_of_enriched(text)
    return (text_of_rtf(text) or "") if part.media_type in RTF else text


def essence(text: str) -> str:
    """Return a text without layout, links and marks around words, to compare forms.

    Marks that change the meaning of an answer stay: question marks, signs of numbers, currencies,
    emoji.
    """
    plain = unicodedata.normalize("NFKC", "".join(_without_links(text))).casefold()
    return "".join(
        mark
        for at, mark in enumerate(plain)
        if mark.isalnum() or mark == "?" or (not mark.isspace() and _counts(mark, plain, at))
    )


def _counts(mark: str, text: str, at: int) -> bool:
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if mark in "+-":
        return after.isdecimal() and not before.isalnum()
    if mark in ".,:/":
        return before.isdecimal() and after.isdecimal()
    if mark in "%$":
        return True
    return mark > "\x7f" and unicodedata.category(mark) in ("Sc", "So")


def _without_links(text: str) -> Iterator[str]:
    """Yield a text without the URLs that programs add after linked words."""
    at = 0
    for start, mark in enumerate(text):
        if start < at or mark not in "<[(":
            continue
        end = text.find({"<": ">", "[": "]", "(": ")"}[mark], start, start + _LONGEST_LINK)
        inside = text[start + 1 : end].lstrip().casefold() if end > 0 else ""
        if inside.startswith(_LINKS) or (mark == "<" and inside.endswith(_PICTURES)):
            yield text[at:start]
            at = end + 1
    yield text[at:]
