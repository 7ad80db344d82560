"""Splits a text into words and marks that can be compared, with their positions in the text."""

from __future__ import annotations

import unicodedata
from typing import Final, NamedTuple

from signoff.core.base.text import compatible, unaccented

NEWLINE: Final = "\n"

MARKS: Final = frozenset(",.!¡:;-–—―─━‐‑()\"'“”‘’„‚«»‹›*_|•·`、。・ᐧ")
"""Punctuation without a meaning. Question marks, tildes, other brackets and slashes have one.

The last mark comes from a program that tracks whether mails are opened.
"""

_APOSTROPHES: Final = frozenset("'’‘`´ʼ")
_UNSEEN: Final = frozenset("\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u180e")
"""Invisible characters that programs put between letters. They do not reorder or hide text."""

_WRAPPED: Final = 60
"""A line of at least so many characters was probably wrapped, and continues on the next line."""


class Token(NamedTuple):
    """A word, a character of a script without spaces, a mark or a line end.

    Attributes:
        text: The form for comparison: NFKC, case-folded, without accents and apostrophes.
        start: The start in the text.
        end: The end in the text.
    """

    text: str
    start: int
    end: int


def tokenize(text: str) -> tuple[Token, ...]:
    r"""Split text into tokens.

    A word of an alphabet is one token, without apostrophes ("don't" is ``dont``), and a number is
    one token. In Chinese, Japanese and Korean, each character is a token, because spaces have no
    meaning there. Every other visible character is one token.

    Args:
        text: The text, with line ends as ``\n``. It must be composed (NFC); otherwise accents are
            separate tokens.
    """
    found: list[Token] = []
    word: list[str] = []
    begin = 0
    kind = ""

    def flush(at: int) -> None:
        if word:
            found.append(Token("".join(word), begin, at))
            word.clear()

    for at, mark in enumerate(text):
        if _is_unseen(mark):
            continue
        folded = _FOLDED.get(mark) or _fold(mark)
        for part in folded:
            now = _kind(part)
            if part in _APOSTROPHES and kind == "letter" and word and _goes_on(text, at):
                continue
            if now != kind or now not in ("letter", "digit"):
                flush(at)
            if now in ("letter", "digit"):
                begin = begin if word else at
                word.append(part)
            elif now != "space":
                found.append(Token(part, at, at + 1))
            kind = now
    flush(len(text))
    return tuple(found)


def phrase_tokens(text: str) -> tuple[str, ...]:
    """Return the tokens of a phrase of the lexicon."""
    if text.isascii() and text.replace(" ", "").isalpha():
        return tuple(text.lower().split())
    return tuple(token.text for token in tokenize(unicodedata.normalize("NFC", text)))


def accents_in(word: str) -> frozenset[int]:
    """Return the places of the accents in a word of an alphabet, as places in its token."""
    found, at = set(), 0
    for mark in word:
        if _is_unseen(mark) or mark in _APOSTROPHES:
            continue
        plain = compatible(mark).casefold()
        bare = unaccented(plain)
        if plain != bare:
            found.add(at)
        at += len(bare)
    return frozenset(found)


def unwrapped(text: str) -> str:
    """Return text without the line breaks of mail programs; its length does not change."""
    lines = text.split("\n")
    joined: list[str] = []
    for at, line in enumerate(lines[:-1]):
        wrapped = len(line) >= _WRAPPED and lines[at + 1].strip()
        joined += [line, " " if wrapped else "\n"]
    return "".join([*joined, lines[-1]])


def _goes_on(text: str, at: int) -> bool:
    return at + 1 < len(text) and text[at + 1].isalpha()


def _fold(mark: str) -> str:
    folded = unaccented(compatible(mark).casefold())
    if len(_FOLDED) < 20_000:
        # Most characters stay as they are, and need no second object.
        _FOLDED[mark] = mark if folded == mark else folded
    return folded


_FOLDED: dict[str, str] = {}


def _kind(mark: str) -> str:
    if mark == NEWLINE:
        return "newline"
    if mark.isspace():
        return "space"
    if mark.isdecimal():
        return "digit"
    if is_spaceless(mark):
        return "character"
    return "letter" if mark.isalpha() else "mark"


def is_spaceless(mark: str) -> bool:
    """Say whether a character is Han, kana or Hangul."""
    return (
        "\u3040" <= mark <= "\u30ff"
        or "\u3400" <= mark <= "\u9fff"
        or "\uac00" <= mark <= "\ud7a3"
        or "\u1100" <= mark <= "\u11ff"
        or "\u3130" <= mark <= "\u318f"
        or mark in "々〆ヶー"
        or "\U00020000" <= mark <= "\U0003134f"
    )


def is_hiragana(mark: str) -> bool:
    """Say whether a character is hiragana, which sentences have and names rarely have."""
    return "\u3041" <= mark <= "\u309f"


def is_han(mark: str) -> bool:
    """Say whether a character is Han: Chinese, or a Japanese kanji."""
    return "\u3400" <= mark <= "\u9fff"


def is_hangul(mark: str) -> bool:
    """Say whether a character is a syllable of Hangul."""
    return "\uac00" <= mark <= "\ud7a3"


def _is_unseen(mark: str) -> bool:
    # Variation selectors and skin tones are ignored, so that all thumbs are equal.
    return mark in _UNSEEN or "\ufe00" <= mark <= "\ufe0f" or "\U0001f3fb" <= mark <= "\U0001f3ff"
