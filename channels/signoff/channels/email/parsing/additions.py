"""What mail systems write into a mail: warnings on top of it, notices and disclaimers below.

None of it is a word of the person's, and none of it is taken out unless it is known word by word:
a sentence that only resembles a warning may be one that a person wrote.
"""

from collections.abc import Sequence
from typing import Final

from signoff.channels.email.parsing.addition_phrases import (
    AFTERTHOUGHTS,
    BANNER_ENDS,
    BANNER_LINES,
    BANNER_OPENINGS,
    BANNER_REASONS,
    BANNER_SENTENCES,
    BANNER_TAGS,
    DEVICE_ENDINGS,
    DEVICE_ENDS_UNSPACED,
    DEVICE_FILLERS,
    DEVICE_OPENINGS,
    DEVICE_STARTS_UNSPACED,
    DEVICE_WORDS,
    DEVICE_WORDS_UNSPACED,
    DISCLAIMER_LINES,
    DISCLAIMER_OPENINGS,
    DISCLAIMER_WORDS,
    MARKED_POSTSCRIPT_WORDS,
    NOTICE_LINES,
    NOTICE_OPENINGS,
    POSTSCRIPT_WORDS,
)
from signoff.channels.email.word_lists import fold

_LONGEST_LINE: Final = 1_000
_LONGEST_TAG: Final = 40
_MOST_LINES: Final = 20
_LONGEST_DEVICE_LINE: Final = 160
_LONGEST_UNSPACED: Final = 60
_MOST_UNKNOWN: Final = 3
_PAUSES: Final = "、。，,；;：:？?はがに件"
"""Marks and particles that are in sentences, and not in the names of devices."""
_WRAPPED: Final = range(56, 81)
_MARKS: Final = " \t※*#!-–—_=~|>•·⚠\ufe0f🛑❗"
_BRACKETS: Final = "[](){}<>【】「」"
_ENDS: Final = ".!。．:："
_PROOFPOINT: Final = ("pfptbannerstart", "pfptbannerend")


def banner_length(lines: Sequence[str], at: int) -> int:
    """Return how many lines of a warning begin here: "CAUTION: external sender"; 0 for none."""
    line = lines[at]
    if _PROOFPOINT[0] in line.casefold():
        below = range(at, min(len(lines), at + _MOST_LINES))
        return next((end + 1 - at for end in below if _PROOFPOINT[1] in lines[end].casefold()), 1)
    if not _is_banner(line):
        return 0
    end = at + 1
    while end < min(len(lines), at + _MOST_LINES) and _is_wrapped(lines[end - 1]):
        if not lines[end].strip():
            break
        end += 1
    return end - at


def without_tag(line: str) -> str:
    """Return a line without a tag in brackets at its beginning: "[EXTERN] ok" is "ok"."""
    bare = line.lstrip()
    closing = {"[": "]", "【": "】", "(": ")", "*": "*"}.get(bare[:1], "")
    end = bare.find(closing, 1, _LONGEST_TAG) if closing else -1
    if end < 0 or _plain(bare[:end]) not in BANNER_TAGS:
        return line
    return bare[end:].lstrip(f"{closing}:- ")


def notice_length(lines: Sequence[str], at: int) -> int:
    """Return how many lines of a notice or a disclaimer begin here; 0 for none.

    "No virus found in this message.", "This e-mail is confidential and intended for …"
    """
    plain = _plain(lines[at])
    if plain.startswith(NOTICE_OPENINGS) or plain in NOTICE_LINES or plain in DISCLAIMER_LINES:
        return 1
    if not plain.startswith(DISCLAIMER_OPENINGS):
        return 0
    end = at
    while end < min(len(lines), at + _MOST_LINES) and lines[end].strip():
        end += 1
    text = fold(" ".join(lines[at:end])[: 4 * _LONGEST_LINE])
    return end - at if sum(word in text for word in DISCLAIMER_WORDS) >= 2 else 0


def is_afterthought(line: str) -> bool:
    """Say whether a line opens a postscript: "PS: only half", "P. S. only half", "追伸"."""
    plain = _plain(line)[:_LONGEST_TAG]
    if plain.startswith(AFTERTHOUGHTS):
        return True
    head, colon, _ = plain.partition(":")
    words = head.split()
    # "P. S." is two words.
    letters = next((at for at, one in enumerate(words) if len(one.strip(".-")) > 1), len(words))
    first = "".join(words[: max(1, letters)])
    initials = first.rstrip(",;-–—)").replace(".", "").replace("-", "")
    if initials in POSTSCRIPT_WORDS:
        return True
    # "PD Dr. Weber" and "NB Consulting" are names.
    marked = len(initials) < len(first) or (bool(colon) and len(words) <= max(1, letters))
    return initials in MARKED_POSTSCRIPT_WORDS and marked


def is_device_line(line: str) -> bool:
    """Say whether a line is the one that phones put under a mail: "Sent from my iPhone".

    All words of it have to be known, but for names: "Sent from my desk, which is quieter" is none.
    """
    plain = _plain(line)
    if not plain or len(plain) > _LONGEST_DEVICE_LINE:
        return False
    named = any(word in plain for word in DEVICE_WORDS)
    if plain.startswith(DEVICE_STARTS_UNSPACED) or plain.endswith(DEVICE_ENDS_UNSPACED):
        bare = len(plain) <= _LONGEST_UNSPACED and not any(mark in line for mark in _PAUSES)
        return bare and (named or any(word in plain for word in DEVICE_WORDS_UNSPACED))
    if not plain.startswith(DEVICE_OPENINGS) and not plain.endswith(DEVICE_ENDINGS):
        return False
    unknown = [word for word in _words(line) if not _is_known(fold(word))]
    names = all(word[0].isupper() or any(map(str.isdigit, word)) for word in unknown)
    whole = named or (plain.startswith("sent ") and not any(mark in line for mark in _PAUSES))
    return whole and names and len(unknown) <= _MOST_UNKNOWN


def _words(line: str) -> list[str]:
    """Return the words of a line, without the addresses of links."""
    pieces = line.replace("<", " <").replace("(", " (").split()
    bare = (piece.strip(".,;:!?*_<>()[]\"'™®–—-") for piece in pieces)
    return [word for word in bare if word and "://" not in word]


def _is_known(word: str) -> bool:
    parts = word.split("-") if word not in DEVICE_WORDS | DEVICE_FILLERS else [word]
    return all(
        part in DEVICE_WORDS
        or part in DEVICE_FILLERS
        or part in _DEVICE_OPENING_WORDS
        or part.startswith("typo")
        for part in parts
    )


_DEVICE_OPENING_WORDS: Final = frozenset(word for one in DEVICE_OPENINGS for word in one.split())


def _is_banner(line: str) -> bool:
    plain = _plain(line)
    if not plain:
        return False
    if plain in BANNER_TAGS:
        return True
    if plain in BANNER_LINES or plain.startswith(BANNER_SENTENCES[0]):
        return True
    if "@" in plain and any(words in plain for words in BANNER_SENTENCES[1]):
        return True
    return plain.startswith(BANNER_OPENINGS) and any(one in plain for one in BANNER_REASONS)


def _is_wrapped(line: str) -> bool:
    """Say whether a line was broken for its length, so that the sentence goes on below."""
    if len(line) not in _WRAPPED or line.rstrip(_BRACKETS + _MARKS).endswith(tuple(_ENDS)):
        return False
    return not _plain(line).endswith(BANNER_ENDS)


def _plain(line: str) -> str:
    return fold(line[:_LONGEST_LINE]).strip(_MARKS + _BRACKETS + _ENDS)
