"""Makes text that people typed safe to compare and to show.

Every function takes time in proportion to the length of its text, even for hostile text.
"""

import hashlib
import re
import unicodedata
from typing import Final

from signoff.core.base.shown_text import one_line

LONGEST_LINE: Final = 4_000
SHOWN: Final = 120
_SMALL_DIGITS: Final = re.compile("([²³¹⁰⁴-⁹₀-₉]+)")
LONGEST_REASON: Final = 2_000
"""The most characters of a reason or a note that are stored."""

_UNSEEN: Final = ("Cc", "Cf", "Cs")
_LINE_END: Final = re.compile("\r\n?|[\x0b\x0c\x85]")
_NOT_KEPT: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Return a person's text as it is stored: without control characters and lone surrogates.

    These cannot be stored or sent. Everything else is kept, including markup, which is escaped when
    it is shown (`signoff.core.base.shown_text`). Line ends become line feeds.
    """
    return _NOT_KEPT.sub("", _LINE_END.sub("\n", text))


def reason_mark(reason: str) -> str:
    """Return a mark of a reason, with which a form confirms exactly this reason."""
    return hashlib.sha256(" ".join(reason.split()).encode()).hexdigest()[:16]


def plain_line(line: str) -> str:
    """Return a line in the form in which words are compared, except for case.

    NFKC turns full-width letters, colons and question marks into plain ones (Unicode Annex 15), and
    runs of spaces become one space. Variation selectors and skin tones are removed, so that all
    thumbs are equal. Typographic apostrophes become straight ones.
    """
    composed = compatible(line[:LONGEST_LINE])
    seen = "".join(mark for mark in composed if not _unseen(mark))
    return " ".join(seen.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())


def compatible(text: str) -> str:
    """Return text in the form NFKC, except for small raised and lowered digits.

    These are exponents and numbers of footnotes: "500¹" is not 5001.
    """
    if text.isascii():
        return text
    parts = _SMALL_DIGITS.split(text)
    return "".join(
        part if _SMALL_DIGITS.fullmatch(part) else unicodedata.normalize("NFKC", part)
        for part in parts
    )


def unaccented(text: str) -> str:
    """Return composed text without accents, which people often leave out: "aprobé" is "aprobe".

    Combining marks without a letter stay, because some of them strike words through.
    """
    return text if text.isascii() else "".join(map(_base, text))


def fold(text: str) -> str:
    """Return text without case, accents, typographic apostrophes and runs of spaces."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    bare = "".join(mark for mark in plain if not unicodedata.combining(mark))
    return " ".join(bare.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())


def brief(text: str) -> str:
    """Return text on one line, with hidden characters as escapes, short enough for a message."""
    line = one_line(clean_text(text[:LONGEST_LINE]))
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}…"


def _base(mark: str) -> str:
    parts = unicodedata.normalize("NFD", mark)
    accented = len(parts) > 1 and all("\u0300" <= accent <= "\u036f" for accent in parts[1:])
    return parts[0] if accented else mark


def _unseen(mark: str) -> bool:
    return (
        "\ufe00" <= mark <= "\ufe0f"
        or "\U0001f3fb" <= mark <= "\U0001f3ff"
        or (mark not in "\t\n" and unicodedata.category(mark) in _UNSEEN)
    )
