"""Recognises the line that phones and mail programs add to a mail: "Sent from my iPhone"."""

import tomllib
from functools import lru_cache
from importlib import resources
from typing import Final

from pydantic import BaseModel, ConfigDict

from signoff.core.base.text import fold
from signoff.core.lexicon import languages

_LONGEST_LINE: Final = 160
_LONGEST_UNSPACED: Final = 60
_MOST_UNKNOWN: Final = 3
_PAUSES: Final = "、。，,；;：:？?はがに件"
"""Marks and particles that occur in sentences, but not in the names of devices."""
_MARKS: Final = " \t※*#!-–—_=~|>•·[](){}<>【】「」.!。．:："


class _Words(BaseModel):
    """The words of ``lexicon/devices.toml``, folded."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    openings: tuple[str, ...]
    by: tuple[str, ...]
    endings: tuple[str, ...]
    words: frozenset[str]
    fillers: frozenset[str]
    unspaced_starts: tuple[str, ...]
    unspaced_ends: tuple[str, ...]
    unspaced_words: frozenset[str]


def is_device_line(line: str) -> bool:
    """Say whether a line is one that phones add to a mail: "Sent from my iPhone".

    All its words except names must be known: "Sent from my desk, which is quieter" is not such a
    line.
    """
    if len(line) > 2 * _LONGEST_LINE:
        return False
    known, plain = _known(), fold(line).strip(_MARKS)
    if not plain or len(plain) > _LONGEST_LINE:
        return False
    named = any(word in plain for word in known.words)
    if plain.startswith(known.unspaced_starts) or plain.endswith(known.unspaced_ends):
        bare = len(plain) <= _LONGEST_UNSPACED and not any(mark in plain for mark in _PAUSES)
        return bare and (named or any(word in plain for word in known.unspaced_words))
    if not plain.startswith(known.openings) and not plain.endswith(known.endings):
        return False
    unknown = [word for word in _words(line) if not _is_known(fold(word))]
    if any(map(_is_possessive, unknown)) or _says_who(plain):
        return False
    names = all(word[0].isupper() or any(map(str.isdigit, word)) for word in unknown)
    whole = named or (plain.startswith("sent ") and not any(mark in line for mark in _PAUSES))
    return whole and names and len(unknown) <= _MOST_UNKNOWN


def _is_possessive(word: str) -> bool:
    """Say whether a word is somebody's: the "Tom's" of "Sent from Tom's iPad"."""
    return fold(word).replace("’", "'").endswith("'s")


def _says_who(plain: str) -> bool:
    """Say whether a line names a person after "sent by", rather than a program."""
    for opening in _known().by:
        if plain.startswith(f"{opening} "):
            first = next(iter(_words(plain.removeprefix(opening))), "")
            return not _is_known(first)
    return False


def _words(line: str) -> list[str]:
    """Return the words of a line, without the addresses of links."""
    pieces = line.replace("<", " <").replace("(", " (").split()
    bare = (piece.strip(".,;:!?*_<>()[]\"'™®–—-") for piece in pieces)
    return [word for word in bare if word and "://" not in word]


def _is_known(word: str) -> bool:
    known = _known().words | _known().fillers | _words_of_openings()
    parts = [word] if word in known else word.split("-")
    return all(part in known or part.startswith("typo") for part in parts)


@lru_cache
def _words_of_openings() -> frozenset[str]:
    return frozenset(word for one in _known().openings for word in one.split())


@lru_cache
def _known() -> _Words:
    text = resources.files(languages.__package__ or "").joinpath("devices.toml").read_text("utf-8")
    tables = tomllib.loads(text)
    return _Words.model_validate({key: [fold(one) for one in ones] for key, ones in tables.items()})
