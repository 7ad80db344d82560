"""Recognises what mail systems add to a mail: warnings above, notices and disclaimers below.

The person did not write this text. It is removed only if it is known word for word: a person may
have written a sentence that only resembles a warning.
"""

from collections.abc import Sequence
from typing import Final

from signoff.channels.email.word_lists import folded, word_lists
from signoff.core.base.text import fold
from signoff.core.replies.signature import says_more

_LISTS: Final = {
    name: folded(words) for name, words in word_lists(__package__, "additions.toml").items()
}

BANNER_TAGS: Final = frozenset(_LISTS["banner_tags"])
BANNER_OPENINGS: Final = _LISTS["banner_openings"]
BANNER_REASONS: Final = _LISTS["banner_reasons"]
BANNER_LINES: Final = frozenset(_LISTS["banner_lines"])
BANNER_SENTENCES: Final = (_LISTS["banner_sentences"], _LISTS["banner_sentence_ends"])
BANNER_ENDS: Final = _LISTS["banner_ends"]
NOTICE_OPENINGS: Final = _LISTS["notice_openings"]
NOTICE_LINES: Final = frozenset(_LISTS["notice_lines"])
DISCLAIMER_LINES: Final = frozenset(_LISTS["disclaimer_lines"])
DISCLAIMER_OPENINGS: Final = _LISTS["disclaimer_openings"]
DISCLAIMER_WORDS: Final = _LISTS["disclaimer_words"]
POSTSCRIPT_WORDS: Final = frozenset(_LISTS["postscript_words"])
MARKED_POSTSCRIPT_WORDS: Final = frozenset(_LISTS["marked_postscript_words"])
AFTERTHOUGHTS: Final = _LISTS["afterthoughts"]

_LONGEST_LINE: Final = 1_000
_LONGEST_TAG: Final = 40
_MOST_LINES: Final = 20
_MOST_LINES_OF_PGP: Final = 40
_WRAPPED: Final = range(56, 81)
_MARKS: Final = " \t※*#!-–—_=~|>•·⚠\ufe0f🛑❗"
_BRACKETS: Final = "[](){}<>【】「」"
_ENDS: Final = ".!。．:："
_PGP: Final = ("begin pgp signature", "end pgp signature")
_PROOFPOINT: Final = ("pfptbannerstart", "pfptbannerend")


def banner_length(lines: Sequence[str], at: int) -> int:
    """Return the number of lines of a warning here ("CAUTION: external sender"), or 0."""
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
    """Return a line without a tag in brackets at its beginning: "[EXTERN] ok" becomes "ok"."""
    bare = line.lstrip()
    closing = {"[": "]", "【": "】", "(": ")", "*": "*"}.get(bare[:1], "")
    end = bare.find(closing, 1, _LONGEST_TAG) if closing else -1
    if end < 0 or _plain(bare[:end]) not in BANNER_TAGS:
        return line
    return bare[end:].lstrip(f"{closing}:- ")


def notice_length(lines: Sequence[str], at: int) -> int:
    """Return the number of lines of a notice or a disclaimer here, or 0.

    "No virus found in this message.", "This e-mail is confidential and intended for …"
    """
    plain = _plain(lines[at])
    if plain == _PGP[0]:
        below = range(at, min(len(lines), at + _MOST_LINES_OF_PGP))
        return next((end + 1 - at for end in below if _plain(lines[end]) == _PGP[1]), 0)
    if plain.startswith(NOTICE_OPENINGS) or plain in NOTICE_LINES or plain in DISCLAIMER_LINES:
        return 1
    if not plain.startswith(DISCLAIMER_OPENINGS):
        return 0
    end = at
    while end < min(len(lines), at + _MOST_LINES) and lines[end].strip():
        end += 1
    paragraph = " ".join(lines[at:end])
    text = fold(paragraph[: 4 * _LONGEST_LINE])
    known = sum(word in text for word in DISCLAIMER_WORDS) >= 2
    return end - at if known and not says_more(paragraph) else 0


def is_afterthought(line: str) -> bool:
    """Return whether a line opens a postscript: "PS: only half", "P. S. only half", "追伸"."""
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
    # "[EXTERNAL EMAIL] only if Tom agrees" goes on with the person's words.
    tagged = _plain(rest) if (rest := without_tag(line)) != line else ""
    warns = any(one in (tagged or plain) for one in BANNER_REASONS)
    return warns and plain.startswith(BANNER_OPENINGS) and not says_more(line)


def _is_wrapped(line: str) -> bool:
    """Return whether a line was wrapped, so that the sentence continues below."""
    if len(line) not in _WRAPPED or line.rstrip(_BRACKETS + _MARKS).endswith(tuple(_ENDS)):
        return False
    return not _plain(line).endswith(BANNER_ENDS)


def _plain(line: str) -> str:
    return fold(line[:_LONGEST_LINE]).strip(_MARKS + _BRACKETS + _ENDS)
