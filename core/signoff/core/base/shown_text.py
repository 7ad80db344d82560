"""Shows texts of agents and people completely, with nothing hidden in them.

The stored text never changes. When it is shown, invisible characters, characters that change the
direction of the text, and letters that only look like others are written as escapes. So people see
exactly what a program gets.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from pydantic import JsonValue

from signoff.core.base.counts import counted
from signoff.core.base.lookalikes import Lookalike, lookalikes
from signoff.core.base.numbers import json_text

_UNSEEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_BLANK: Final = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
"""Letters and marks, by their category, that are invisible."""

_SELECTORS: Final = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_HIDING: Final = re.compile(f"[{_BLANK}{_SELECTORS}]")

_PREPENDED: Final = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2\U000110bd")
"""Signs of Arabic numbers: format characters that are visible."""

_JOINERS: Final = frozenset("\u200b\u200c\u200d")
_DIRECTION: Final = frozenset("\u061c\u200e\u200f")
_FLAG: Final = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,6}\U000e007f")
"""The flag of England, Scotland, …: the only use of tag characters (Unicode TS 51)."""

_JOINED: Final = ("CJK ", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "YI ")
"""The beginnings of the names of letters without case that are never joined."""

_MOST_MARKS: Final = 8
_PILE: Final = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0]{9,}")
"""Accents on one letter: more than eight of them cover the lines above."""

_MOST_WARNINGS: Final = 5
_LONGEST_WORD: Final = 60
_LITERAL: Final = re.compile(
    r"\s*(?:true|false|null|none|[+-]?0+(?:\.0+)?|\[\s*\]|\{\s*\})\s*", re.IGNORECASE
)
"""Texts that read like a truth value, nothing, or something empty."""

_VIRAMA: Final = 9


def shown(value: JsonValue, in_use: frozenset[str] = frozenset()) -> str:
    """Return a value as text in which a person sees all of it.

    Characters that do not print or that change the direction of the text are written as escapes: a
    right-to-left override can make "gpj.exe" read "exe.jpg". So are lookalike letters. Nothing is
    left out. Numbers are written by `json_text`.

    Args:
        value: A text, or any JSON.
        in_use: The scripts of the texts around it; see `scripts_in_use`.
    """
    text = value if isinstance(value, str) else json_text(value)
    if _is_ordinary(text):
        return text
    text = visible(text)
    return _distinct(text, lookalikes(text, in_use))


def shown_value(value: JsonValue, in_use: frozenset[str] = frozenset()) -> str:
    """Return an argument as `shown` text; a text that reads like another value is in quotes.

    Many languages count every text as true, so ``force: "false"`` does not mean ``force: false``.
    See `scripts_in_use` for `in_use`.
    """
    quoted = isinstance(value, str) and len(value) <= _LONGEST_WORD and _LITERAL.fullmatch(value)
    return shown(json_text(value) if quoted else value, in_use)


def shown_name(name: str, in_use: frozenset[str] = frozenset()) -> str:
    """Return the name of an argument on one line.

    In an empty name, and in one with blanks that a line does not show, the blanks are escapes, in
    quotes. Otherwise two names could look the same. See `scripts_in_use` for `in_use`.
    """
    text = shown(name, in_use)
    if text and unbroken(text) == text:
        return text
    quoted = shown(json_text(name), in_use)
    return "".join(_escape(char) if char.isspace() else char for char in quoted)


def one_line(text: str, in_use: frozenset[str] = frozenset()) -> str:
    """Return `shown` text without line breaks, for titles, subjects and names."""
    return unbroken(shown(text, in_use))


def unbroken(text: str) -> str:
    """Return text without line breaks; the text has passed `shown` before."""
    return " ".join(text.split())


def shortened(text: str, most: int) -> str:
    """Return shown text of at most so many characters, and how many were left out."""
    left = len(text) - most
    if left <= 0:
        return text
    return f"{text[:most]} … and {counted(left, 'more character')}"


def visible(text: str) -> str:
    """Return text in which invisible characters are escapes; line ends and tabs stay.

    Joiners, selectors and marks of direction stay where ordinary text has them: inside emoji, and
    between letters of scripts that need them.
    """
    hidden = {} if _is_ordinary(text) else dict(_hidden(text))
    if not hidden:
        return text
    return "".join(_escape(char) if at in hidden else char for at, char in enumerate(text))


def warnings_about(texts: Iterable[str], in_use: frozenset[str]) -> tuple[str, ...]:
    """Return sentences about the characters that `shown` writes as escapes; the first few of them.

    See `scripts_in_use` for `in_use`.
    """
    found: dict[str, None] = {}
    for text in (one for one in texts if not _is_ordinary(one)):
        found |= dict.fromkeys(_about_word(one) for one in lookalikes(visible(text), in_use))
        found |= dict.fromkeys(_about_hidden(text))
    said = tuple(found)
    left = len(said) - _MOST_WARNINGS
    return said if left <= 0 else (*said[:_MOST_WARNINGS], f"And {left:,} more of this kind.")


def _is_ordinary(text: str) -> bool:
    """Say whether a text is printable ASCII, which hides nothing: a quick check."""
    return text.isascii() and text.isprintable()


def _hidden(text: str) -> Iterable[tuple[int, str]]:
    """Yield the position of each invisible character, and the character."""
    suspects = {one for one in set(text) if not _prints(one)}
    flags = {at for one in _FLAG.finditer(text) for at in range(*one.span())} if suspects else set()
    for at, char in enumerate(text) if suspects else ():
        if char in suspects and at not in flags and not _may_stand(char, at, text):
            yield at, char
    if not text.isascii():
        for pile in _PILE.finditer(text):
            yield from enumerate(pile.group()[_MOST_MARKS:], pile.start() + _MOST_MARKS)


def _distinct(text: str, found: tuple[Lookalike, ...]) -> str:
    parts, done = [], 0
    for one in found:
        parts += [text[done : one.start], _written(one)]
        done = one.start + len(one.word)
    return "".join([*parts, text[done:]]) if found else text


def _written(one: Lookalike) -> str:
    foreign = frozenset(one.foreign)
    return "".join(_escape(char) if at in foreign else char for at, char in enumerate(one.word))


def _about_word(one: Lookalike) -> str:
    written = shortened(_written(one), _LONGEST_WORD)
    letters = " and ".join(one.scripts)
    if one.scripts == ("other",):
        return f"“{written}” has characters that only look like ordinary letters or signs."
    foreign = frozenset(one.foreign)
    if all(at in foreign for at, char in enumerate(one.word) if char.isalnum()):
        return f"“{written}” is written in {letters} letters that look like Latin ones."
    return f"“{written}” mixes in {letters} letters that look like others."


def _about_hidden(text: str) -> Iterable[str]:
    for char in dict.fromkeys(char for _, char in _hidden(text)):
        name = unicodedata.name(char, "a control character").lower()
        yield f"{_escape(char)} stands for an invisible character: {name}."


def _prints(char: str) -> bool:
    """Say whether a character is always visible."""
    if char in "\n\t" or char in _PREPENDED or "\U0001f000" <= char <= "\U0001faff":
        # Emoji that are newer than this Python are visible as well.
        return True
    return unicodedata.category(char) not in _UNSEEN and not _HIDING.match(char)


def _may_stand(char: str, at: int, text: str) -> bool:
    """Say whether an invisible character has its ordinary use at a position."""
    before, after = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
    if char in _JOINERS:
        return _may_join(before, after)
    if char in _DIRECTION:
        return any(one and unicodedata.bidirectional(one) in {"R", "AL"} for one in (before, after))
    return _HIDING.match(char) is not None and _may_select(char, before, after)


def _may_join(before: str, after: str) -> bool:
    """Say whether a joiner stands between two emoji, or between letters of a script with joiners.

    See https://www.rfc-editor.org/rfc/rfc5892#appendix-A, and Unicode TS 51 for emoji.
    """
    if not (before and after):
        return False
    if unicodedata.combining(before) == _VIRAMA:
        return True
    if unicodedata.category(after) == "So" or "\U0001f000" <= after <= "\U0001faff":
        return unicodedata.category(before) in {"So", "Sk"} or before == "\ufe0f"
    return _is_joined(before) and _is_joined(after)


def _is_joined(char: str) -> bool:
    if unicodedata.category(char) not in {"Lo", "Mn", "Mc"} or "\u0300" <= char <= "\u036f":
        return False
    return not unicodedata.name(char, "").startswith(_JOINED)


def _may_select(char: str, before: str, after: str) -> bool:
    """Say whether a variation selector follows a character with several forms: emoji, letters."""
    if not before or char in _BLANK:
        return False
    if char in "\ufe0e\ufe0f":
        keycap = before in "0123456789#*" and after == "\u20e3"
        pictures = {"So", "Sm", "Po", "Pd", "Sk", "No"}
        return keycap or (not before.isascii() and unicodedata.category(before) in pictures)
    return unicodedata.category(before) == "Lo"


def _escape(char: str) -> str:
    point = ord(char)
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"
