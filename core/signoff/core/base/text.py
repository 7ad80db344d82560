"""Text that people typed, made safe to compare and to show.

Every function walks its text forwards once, so hostile text costs no more than its length.
"""

import re
import unicodedata
from typing import Final

from signoff.core.base.shown_text import one_line

LONGEST_LINE: Final = 4_000
SHOWN: Final = 120
LONGEST_REASON: Final = 2_000
"""Characters of a reason or a note that are kept."""

_UNSEEN: Final = ("Cc", "Cf", "Cs")
_LINE_END: Final = re.compile("\r\n?|[\x0b\x0c\x85]")
_NOT_KEPT: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Return what a person wrote as it is kept: without control characters and lone surrogates.

    Those cannot be stored or sent on. Everything else stays as it was written, also what looks like
    markup: wherever it is shown, it is escaped (`signoff.core.base.shown_text`). Line ends are
    line feeds.
    """
    return _NOT_KEPT.sub("", _LINE_END.sub("\n", text))


def plain_line(line: str) -> str:
    """Return a line in the form that words are compared in, except for case.

    NFKC makes full-width letters, colons and question marks plain (Unicode Annex 15); runs of space
    become one. Variation selectors and skin tones go, so that every thumb is one thumb, and the
    apostrophe that phones set becomes the typed one.
    """
    composed = unicodedata.normalize("NFKC", line[:LONGEST_LINE])
    seen = "".join(mark for mark in composed if not _unseen(mark))
    return " ".join(seen.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())


def unaccented(text: str) -> str:
    """Return composed text without the accents that phones leave out: "aprobé" is "aprobe".

    Marks that stand alone stay: they also strike words through.
    """
    return text if text.isascii() else "".join(map(_base, text))


def fold(text: str) -> str:
    """Return text without case, accents, typographic apostrophes and runs of space."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    bare = "".join(mark for mark in plain if not unicodedata.combining(mark))
    return " ".join(bare.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())


def brief(text: str) -> str:
    """Return text on one line, with nothing hidden, short enough to be quoted inside a message."""
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
