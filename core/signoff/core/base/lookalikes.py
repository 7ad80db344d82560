"""Finds lookalikes: words whose letters look like those of another script.

The pairs are the single letters of Unicode Technical Standard 39 (confusables.txt, 15.1) that look
like an ASCII letter or digit, of the scripts that people and attackers have on a keyboard. Left out
are pairs that only look alike in some fonts, such as the Cyrillic "г" and "r": ordinary Russian
must not read like an attack.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, lru_cache
from itertools import groupby, islice
from typing import Final

from signoff.core.base.model import Value

_RANGES: Final = {
    "Greek": "\u0370-\u03e1\u03f0-\u03ff\u1f00-\u1fff",
    "Cyrillic": "\u0400-\u052f\u1c80-\u1c8f\u2de0-\u2dff\ua640-\ua69f",
    "Armenian": "\u0531-\u0587",
    "Coptic": "\u03e2-\u03ef\u2c80-\u2cff",
    "Cherokee": "\u13a0-\u13ff\uab70-\uabbf",
    "Canadian": "\u1400-\u167f",
    "Runic": "\u16a0-\u16ff",
    "Tifinagh": "\u2d30-\u2d7f",
    "Lisu": "\ua4d0-\ua4ff",
    "Old Italic": "\U00010300-\U0001032f",
    "Deseret": "\U00010400-\U0001044f",
    "Osage": "\U000104b0-\U000104ff",
    "Warang Citi": "\U000118a0-\U000118ff",
    "Indic": "\u0900-\u0eff\u1000-\u109f",
}
"""The scripts with letters that look like ASCII; the Indic scripts have such digits."""

_PAIRS: Final = (
    # Greek
    ("αϲιϳοσρϱυνγΑΒϹΕϜΗΙͿΚΜϺΝΟΡΤΥϒΧΖ", "acijooppuvyABCEFHIJKMMNOPTYYXZ"),
    # Cyrillic
    ("асԁеҽһіꙇӏјоӧрԛѕѵѡԝхуүАВСЕԌНІӀЈКМОРЅТѴԜХУҮЗӠ", "acdeehiiljoopqsvwwxyyABCEGHIIJKMOPSTVWXYY33"),
    # Armenian
    ("քցհոռօգզսաՕՏՍ", "fghnnoqquwOSU"),
    # Coptic
    ("ⲥⲒⲟⲣⲤⲎⲔⲘⲚⲞⲢⲦⲬⲨ", "cIopCHKMNOPTXY"),
    # Cherokee
    ("ᏏꮯᏧᏂᎥꮪꮃꮓᎪᏴᏟᎠᎬᏀᎻᎫᏦᏞᎷᏢᎡᏒᏚᎢᏙᎳᎩᏃ", "bcdhiswzABCDEGHJKLMPRRSTVWYZ"),
    # Lisu
    ("ꓮꓐꓚꓓꓰꓝꓖꓧꓙꓗꓡꓟꓠꓳꓑꓣꓢꓔꓴꓦꓪꓫꓬꓜ", "ABCDEFGHJKLMNOPRSTUVWXYZ"),
    # Zeros like an o, and digits of other values than they look like
    ("०੦૦௦౦೦൦๐໐၀০୦৪੪੧୨৭൭", "oooooooooooo889999"),
)
_LOOKS_LIKE: Final = {
    letter: ascii_one for many, like in _PAIRS for letter, ascii_one in zip(many, like, strict=True)
}

_IN_LATIN: Final = frozenset("вгикмнптшь")
"""Cyrillic letters that only look Latin inside a Latin word."""

_NEVER_LATIN: Final = frozenset(
    {"Coptic", "Cherokee", "Canadian", "Runic", "Tifinagh", "Lisu"}
    | {"Old Italic", "Deseret", "Osage", "Warang Citi"}
)
"""Scripts whose letters have no ordinary use in a Latin word."""

_SYMBOLS: Final = frozenset("αγρσνυ")
"""Greek letters that occur alone in formulas and are not words."""

_SCRIPTS: Final = {name: f"[{marks}]" for name, marks in _RANGES.items()}
_PHONETIC: Final = "ɑɡɩɪɯʋʏɣᴀ-ᴢꞙꬲꬵꬽꭇꭈꭎꭒꭚ"
"""Latin letters of phonetic alphabets, without the dotless ı, which is Turkish."""

_FONTS: Final = "\U0001d400-\U0001d7ff"
"""Mathematical alphanumerics: ASCII in the shapes of bold, italic or monospaced fonts."""

_WIDE: Final = "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\u2160-\u217f"
"""Full-width letters and Roman numerals: ordinary in a separate word, but not inside another."""

_SIGNS: Final = "\u2024\u2044\u2215\u2236\u29f8\ua789"
"""Characters that look like the dot, the slash and the colon of an address."""

_DIGITS: Final = "\u0660-\u0669\u06f0-\u06f9"
"""Arabic digits: only suspicious in one number together with ASCII digits."""

_CANDIDATE: Final = f"[{''.join(_RANGES.values())}{_PHONETIC}{_FONTS}{_WIDE}{_SIGNS}{_DIGITS}]"
_IN_A_FONT: Final = re.compile(f"[{_FONTS}]")
_IN_LATIN_WORDS: Final = re.compile(f"[{_PHONETIC}{_WIDE}]")
# A combining accent belongs to its word, an underscore does not.
_WORD: Final = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+")
_DIGIT: Final = re.compile("[0-9]")
_ADDRESS: Final = re.compile(r"[A-Za-z0-9][@./:\\_]|[@./:\\_][A-Za-z0-9]")
_BEFORE: Final = re.compile(r"\S+\Z")
_AFTER: Final = re.compile(r"\S+")
_FAR: Final = 100
_MOST: Final = 5_000
"""The most lookalikes in one text, and different words to look at: about a quarter of a second."""

_SIGN: Final = re.compile(rf"(?<=[A-Za-z0-9])[{_SIGNS}](?=[A-Za-z])")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a large pattern on first use; most processes never need one."""
    return re.compile(pattern)


class Lookalike(Value):
    """A word that looks as if it was written in another script.

    Attributes:
        start: Where it begins in its text.
        word: The word.
        foreign: The places in the word, from 0, of the letters that are not what they look like.
        scripts: The scripts of those letters, such as ``Cyrillic``; ``other`` for those of fonts
            and signs.
    """

    start: int
    word: str
    foreign: tuple[int, ...]
    scripts: tuple[str, ...]


def scripts_in_use(texts: Iterable[str]) -> frozenset[str]:
    """Return the scripts that texts are plainly written in: by letters that look like no other.

    Beside such a text "сор" is the Russian word, and not "cop".
    """
    return frozenset().union(*map(_plain, texts))


def lookalikes(text: str, in_use: frozenset[str] = frozenset()) -> tuple[Lookalike, ...]:
    """Return the words that pretend to be written in another script.

    A word pretends if it mixes Latin letters with lookalikes, or if all of its letters look like
    Latin ones and nothing else says that its own script is meant. In addresses nothing does:
    each part of them has its own script. Chinese, Japanese, Korean, Thai, Hebrew and Arabic stand
    beside Latin letters in ordinary text, and look like none of them.

    After thousands of words that pretend, or of different words that might, the rest of the text is
    one word that does: each of its letters that may look like another is foreign. So no text keeps
    a process busy for long.

    Args:
        text: Any text.
        in_use: Scripts that are known to be meant; see `scripts_in_use`.
    """
    if text.isascii() or _compiled(_CANDIDATE).search(text) is None:
        return ()
    candidate, meant = _compiled(_CANDIDATE), in_use | _plain(text)
    signs = [*islice(_SIGN.finditer(text), _MOST + 1)]
    end = signs[-1].start() if len(signs) > _MOST else len(text)
    found, known = list[Lookalike](), dict[tuple[str, bool], Sequence[int]]()
    for one in _WORD.finditer(text, 0, end):
        word = one.group()
        # Most words of ordinary text are over here: to look at each letter takes its time.
        if word.isascii() or not _may_pretend().search(word) or not candidate.search(word):
            continue
        if _MOST in {len(found), len(known)}:
            end = one.start()
            break
        key = word, _in_address(one)
        if key not in known:
            known[key] = _foreign(word, frozenset() if key[1] else meant)
        if places := known[key]:
            found.append(_found(one, places))
    found += [_found(one, (0,)) for one in signs if one.start() < end]
    if end < len(text):
        rest = text[end:]
        places = tuple(one.start() for one in candidate.finditer(rest))
        found.append(Lookalike(start=end, word=rest, foreign=places, scripts=("other",)))
    return tuple(sorted(found, key=lambda one: one.start))


def _in_address(word: re.Match[str]) -> bool:
    """Say whether a word is a part of an address or a path, as far as can be seen from it."""
    text, (start, end) = word.string, word.span()
    if not (text[max(0, start - 1) : start] + text[end : end + 1]).strip():
        return False  # as for most words: there are blanks around it
    before = _BEFORE.search(text, max(0, start - _FAR), start)
    after = _AFTER.match(text, end, end + _FAR)
    around = f"{before.group() if before else ''} {after.group() if after else ''}"
    return _ADDRESS.search(around) is not None


def _found(one: re.Match[str], places: Sequence[int]) -> Lookalike:
    word = one.group()
    scripts = dict.fromkeys(_script(word[at]) or "other" for at in places)
    return Lookalike(start=one.start(), word=word, foreign=tuple(places), scripts=tuple(scripts))


def _foreign(word: str, meant: frozenset[str]) -> Sequence[int]:
    """Return the places of the letters of a word that are not what they look like."""
    if word.isascii():
        return ()
    scripts = [_script(letter) for letter in word]
    latin = "Latin" in scripts
    others = [at for at, name in enumerate(scripts) if name not in {"", "Latin"}]
    counts = _DIGIT.search(word) is not None
    strange = [
        at
        for at, letter in enumerate(word)
        if _is_strange(letter, alone=len(word) == 1, latin=latin, counts=counts)
    ]
    if not latin:
        return strange or _whole(word, scripts, meant)
    plainly = [at for at in others if not _like(word[at])]
    if plainly and len(others) > scripts.count("Latin"):
        # It is the Latin letter that was put into a word of another script.
        there = {_like(letter) for letter in _LOOKS_LIKE if _script(letter) in scripts}
        return sorted({*strange, *_runs(scripts, {"Latin"}, lambda at: word[at] in there)})
    names = {scripts[at] for at in others}
    return sorted({*strange, *_runs(scripts, names, lambda at: _passes(word[at]))})


def _is_strange(letter: str, *, alone: bool, latin: bool, counts: bool) -> bool:
    """Say whether a letter or a digit is one of ASCII in another shape, or of another system.

    Args:
        letter: The letter.
        alone: Whether it is the whole word.
        latin: Whether the word has Latin letters.
        counts: Whether the word has digits of ASCII.
    """
    if letter.isascii():
        return False
    if letter.isdecimal() and counts:
        return True
    if _IN_A_FONT.match(letter):
        return not alone
    return latin and _IN_LATIN_WORDS.match(letter) is not None


def _whole(word: str, scripts: Sequence[str], meant: frozenset[str]) -> Sequence[int]:
    """Return all places of a word of one script, if all its letters look like Latin ones."""
    names = {name for name in scripts if name}
    if len(names) != 1 or names <= meant or word in _SYMBOLS:
        return ()
    letters = [at for at, letter in enumerate(word) if not unicodedata.combining(letter)]
    return letters if all(_like(word[at]) for at in letters) else ()


def _runs(scripts: Sequence[str], names: Collection[str], fits: Callable[[int], bool]) -> list[int]:
    """Return the places of letters of some scripts, where all that stand together fit."""
    found: list[int] = []
    for name, places in groupby(range(len(scripts)), key=lambda at: scripts[at]):
        run = list(places)
        found += run if name in names and all(map(fits, run)) else []
    return found


def _passes(letter: str) -> bool:
    """Say whether a letter passes for a Latin one in the middle of a Latin word."""
    return bool(_like(letter)) or letter in _IN_LATIN or _script(letter) in _NEVER_LATIN


@lru_cache(maxsize=4096)
def _like(letter: str) -> str:
    """Return what a letter looks like, without its accents; "" where it looks like itself."""
    return _LOOKS_LIKE.get(unicodedata.normalize("NFD", letter)[0], "")


def _plain(text: str) -> frozenset[str]:
    """Return the scripts of those letters of a text that look like no other."""
    if text.isascii():
        return frozenset()
    return frozenset(
        name for one in set(text) if (name := _script(one)) not in {"", "Latin"} and not _like(one)
    )


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    """Return the script of a letter, as far as it matters here; "" for all others."""
    if letter.isascii():
        return "Latin" if letter.isalpha() else ""
    return next((name for name, marks in _SCRIPTS.items() if _compiled(marks).match(letter)), "")


@cache
def _may_pretend() -> re.Pattern[str]:
    """Return what a word has that may look as if it was of another script."""
    # With their accents: the "ё" looks like the "ë".
    accented = (
        letter
        for letter in map(chr, range(0x0370, 0x2000))
        if unicodedata.normalize("NFD", letter)[0] in _LOOKS_LIKE
    )
    alike = "".join({*_LOOKS_LIKE, *accented})
    return re.compile(rf"[A-Za-z0-9{_FONTS}]|\A[{alike}\u0300-\u036f]+\Z")
