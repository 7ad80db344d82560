"""A person's text as words and marks that can be compared, each with its place in the text."""

from __future__ import annotations

import unicodedata
from typing import Final, NamedTuple

from signoff.core.base.text import unaccented

NEWLINE: Final = "\n"

MARKS: Final = frozenset(",.!¡:;-–—―─━‐‑()\"'“”‘’„‚«»‹›*_|•·`、。・ᐧ")
"""Punctuation that says nothing alone. A question mark, a tilde, brackets and slashes do.

The last one is what a tracker of opened mails puts below them.
"""

_APOSTROPHES: Final = frozenset("'’‘`´ʼ")
_UNSEEN: Final = frozenset("\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u180e")
"""What programs put between letters and nobody sees; none of them reorders or hides text."""

_WRAPPED: Final = 60
"""A line of so many characters was probably wrapped on its way, and goes on on the next one."""


class Token(NamedTuple):
    """A word, a character of a script without spaces, a mark or a line end.

    Attributes:
        text: In the form that is compared: NFKC, case-folded, without accents and apostrophes.
        start: Where it begins in the text.
        end: Where it ends there.
    """

    text: str
    start: int
    end: int


def tokenize(text: str) -> tuple[Token, ...]:
    r"""Split text into tokens.

    Letters of alphabets are one token a word, apostrophes left out ("don't" is ``dont``); digits
    are one a number. Of Chinese, Japanese and Korean each character is a token, because spaces
    there say nothing. Everything else is one token a character, whatever it is: nothing that can be
    seen is left out.

    Args:
        text: With line ends as ``\n``; composed (NFC), or accents are tokens of their own.
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


def unwrapped(text: str) -> str:
    """Return text with lines joined that mail programs have wrapped; its length stays the same."""
    lines = text.split("\n")
    joined: list[str] = []
    for at, line in enumerate(lines[:-1]):
        wrapped = len(line) >= _WRAPPED and lines[at + 1].strip()
        joined += [line, " " if wrapped else "\n"]
    return "".join([*joined, lines[-1]])


def _goes_on(text: str, at: int) -> bool:
    return at + 1 < len(text) and text[at + 1].isalpha()


def _fold(mark: str) -> str:
    folded = unaccented(unicodedata.normalize("NFKC", mark).casefold())
    if len(_FOLDED) < 20_000:
        _FOLDED[mark] = folded
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
    """Say whether a character is hiragana, which is written between words and hardly in names."""
    return "\u3041" <= mark <= "\u309f"


def is_han(mark: str) -> bool:
    """Say whether a character is one of Chinese, which Japanese has too."""
    return "\u3400" <= mark <= "\u9fff"


def _is_unseen(mark: str) -> bool:
    # Variation selectors and skin tones: every thumb is one thumb. Signs of gender follow a joiner.
    return mark in _UNSEEN or "\ufe00" <= mark <= "\ufe0f" or "\U0001f3fb" <= mark <= "\U0001f3ff"
