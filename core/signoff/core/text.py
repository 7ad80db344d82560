"""Text that people typed, made safe to compare and to show.

Every function walks its text forwards once, so hostile text costs no more than its length.
"""

import unicodedata
from typing import Final

LONGEST_LINE: Final = 4_000
SHOWN: Final = 120
LONGEST_REASON: Final = 2_000
"""Characters of a reason or a note that are kept."""

_UNSEEN: Final = ("Cc", "Cf", "Cs")


def clean_text(text: str) -> str:
    """Return text without control and format characters, lone surrogates and HTML tags.

    A reason is shown on cards and reaches a model: what hides, reorders or marks up text has no
    place in it. Tags that appear only once inner tags are gone are removed as well. Line ends and
    tabs stay.
    """
    kept: list[str] = []
    opened: list[int] = []
    for mark in text:
        if mark not in "\n\t" and unicodedata.category(mark) in _UNSEEN:
            continue
        if mark == "<":
            opened.append(len(kept))
        elif mark == ">" and _drop_tag(kept, opened):
            continue
        kept.append(mark)
    return "".join(kept)


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

    Marks that stand by themselves stay: they also strike words through.
    """
    return text if text.isascii() else "".join(map(_base, text))


def brief(text: str) -> str:
    """Return text on one line, cleaned and short enough to be quoted inside a message."""
    line = " ".join(clean_text(text[:LONGEST_LINE]).split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}…"


def _drop_tag(kept: list[str], opened: list[int]) -> bool:
    """Cut ``kept`` back to the nearest "<" that begins a tag; say whether there was one."""
    while opened:
        start = opened.pop()
        if start + 1 < len(kept) and (kept[start + 1].isalpha() or kept[start + 1] in "/!?"):
            del kept[start:]
            return True
    return False


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
