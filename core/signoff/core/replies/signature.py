"""Which lines below an answer are a signature: a name, an address, a phone's line, a disclaimer.

A signature is the one part of an answer that no lexicon can know, so it is told by its form, and
only where a closing or the person's own name stands above it. A sentence is none: what a person
adds below a closing ("PS: only if Tom agrees") is left over.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from signoff.core.base.text import plain_line, unaccented
from signoff.core.lexicon.languages import languages
from signoff.core.lexicon.tokens import (
    is_hiragana,
    is_spaceless,
    phrase_tokens,
)
from signoff.core.replies.text import Names

LONGEST_LINE: Final = 200
_LONGEST_NAME: Final = 24
_MOST_WORDS: Final = 14
_PHONE_DIGITS: Final = 6
_LONGEST_SPACELESS: Final = 24
_MARKS_OF_A_SENTENCE: Final = frozenset("?!？！")
_FOREIGN_COMPANIES: Final = (
    "gmbh",
    "ag",
    "kg",
    "se",
    "sa",
    "sas",
    "sarl",
    "srl",
    "spa",
    "bv",
    "nv",
)

_SPACELESS_COMPANIES: Final = (
    *("株式会社", "有限会社", "合同会社", "株)", "有)", "주식회사", "유한회사", "주)", "유)"),
    *("有限公司", "有限責任公司", "有限责任公司", "股份公司"),
)
_NOBODY: Final = Names()


def is_device_line(line: str) -> bool:
    """Say whether a line is the one that phones put under a mail: "Sent from my iPhone"."""
    if len(line) > LONGEST_LINE:
        return False
    opening = plain_line(line).casefold().lstrip("*_<([")
    bare = opening.rstrip(" ,.!;*_>)]")
    opens, ends, excuses, _, _ = _data()
    if bare.endswith(ends):
        return True
    if not opening.startswith(opens):
        return False
    # "Sent from my desk, which is quieter" is a sentence; "Sent from my cell, excuse typos" is not.
    return "," not in bare or any(word in bare for word in excuses)


@lru_cache(maxsize=1_024)
def is_disclaimer(paragraph: str) -> bool:
    """Say whether a paragraph is legal or technical small print, by two of its usual phrases."""
    folded = plain_line(paragraph).casefold()
    phrases = {phrase for phrase in _disclaimers() if phrase in folded}
    return len(phrases) > 1 or any(folded.startswith(phrase) for phrase in phrases)


def is_signature_line(line: str, names: Names, *, first: bool) -> bool:
    """Say whether a line has the form of a line of a signature.

    Args:
        line: The line, or what stands on it after a closing or a name.
        names: The names of the person who writes.
        first: Whether it is the first below a closing, where a bare name stands.
    """
    plain = plain_line(line[: LONGEST_LINE + 1])
    bare = plain.strip(" *_|•·-–—,;:()[]<>\"'")
    if not bare:
        return True
    if len(plain) > LONGEST_LINE or any(mark in _MARKS_OF_A_SENTENCE for mark in bare):
        return False
    if is_device_line(line) or is_disclaimer(line):
        return True
    tokens = phrase_tokens(bare)
    if _is_contact(bare, tokens):
        return True
    if any(is_spaceless(mark) for mark in bare):
        characters = sum(map(is_spaceless, bare))
        return characters <= _LONGEST_SPACELESS and _names_a_place(bare, names)
    return _is_titled(bare, first=first)


def _is_contact(bare: str, tokens: tuple[str, ...]) -> bool:
    """Say whether it is an address, a number or a page, with at most the word for it before."""
    words = bare.split()
    if len(words) > _MOST_WORDS:
        return False
    if _unknown(tokens) and not bare.startswith("〒"):
        return False
    letters = [token for token in tokens if token.isalpha() and not is_spaceless(token[0])]
    digits = sum(len(token) for token in tokens if token.isdecimal())
    known = _data()[3]
    if digits >= _PHONE_DIGITS and all(len(one) < 3 or one in known for one in letters):
        return True
    places = [word for word in words if "@" in word or "://" in word or word.startswith("www.")]
    others = [word for word in words if word not in places]
    named = (phrase_tokens(word) for word in others)
    return bool(places) and all(
        all(one in known or not one.isalpha() or len(one) < 3 for one in word) for word in named
    )


def _is_titled(bare: str, *, first: bool) -> bool:
    """Say whether all words of a line are written as in a name or a title."""
    words = [word for part in bare.split() if (word := part.strip(".,;:|/()&-–—•·+\"'"))]
    if not words or len(words) > _MOST_WORDS or bare.endswith("...") or "…" in bare:
        return False
    _, _, _, known, small = _data()
    folded = [unaccented(word.casefold()).replace(".", "") for word in words]
    if folded[0] in _AFTERTHOUGHTS or any(_is_loaded(word) for word in folded):
        return False
    titled = all(
        word[0].isupper() or word[0].isdigit() or one in small or one in known
        for word, one in zip(words, folded, strict=True)
    )
    if not titled:
        return False
    shouted = len(words) > 1 and "".join(words).isupper()
    limited = shouted or any(one in _LIMITS for one in folded)
    # "Acme Industries" is a firm; "Ohne Hotel" and "ONLY HALF" are conditions.
    if limited and not any(one in known for one in folded):
        return False
    if len(words) == 1:
        # A single word may be a name, or say something: "Wait".
        return folded[0] in known or (first and len(words[0]) <= _LONGEST_NAME)
    return True


def _names_a_place(bare: str, names: Names) -> bool:
    """Say whether a line of Chinese, Japanese or Korean names a person, a firm or a post.

    Nothing else may stand on it: "ask the manager first" has a post in it too. The name of a firm
    is not known, and may stand beside the word for it.
    """
    if any(mark in "。、，！？!?" for mark in bare):
        return False
    words = bare.split()
    firm = any(company in bare for company in _SPACELESS_COMPANIES)
    unknown = [left for word in words if (left := _unknown(phrase_tokens(word), names))]
    named = firm and len(unknown) == 1 and not any(map(is_hiragana, unknown[0]))
    alphabetic = (
        word for word in words if any(map(str.isalnum, word)) and not any(map(is_spaceless, word))
    )
    return (not unknown or named) and all(_is_titled(word, first=True) for word in alphabetic)


def _unknown(tokens: tuple[str, ...], names: Names = _NOBODY) -> str:
    """Return the Chinese, Japanese and Korean characters that are in no known word or name."""
    known = (*_spaceless_words(), *names)
    fewest = [""]
    for end in range(1, len(tokens) + 1):
        last = tokens[end - 1]
        best = fewest[-1] + (last if is_spaceless(last[0]) else "")
        for word in known:
            start = end - len(word)
            if start >= 0 and len(fewest[start]) < len(best) and tokens[start:end] == word:
                best = fewest[start]
        fewest.append(best)
    return fewest[-1]


_AFTERTHOUGHTS: Final = frozenset({"ps", "pps", "nb", "p", "edit", "update", "addendum", "add"})


_LIMITS: Final = frozenset(
    word
    for line in (
        "only just but not no half part partly without except excluding minus max",
        "maximum before after",
        "until till from first later pay paid stop cancel change",
        "nur aber nicht kein keine halb halfte ohne ausser minus",
        "maximal ab bis nach vor erst spater",
        "seulement mais pas moitie sans sauf hors avant apres jusqu premier plus payer",
        "solo pero mitad sin excepto salvo menos antes despues hasta desde pagar primero",
        "ma meta senza tranne eccetto meno prima dopo fino pagare soltanto",
        "apenas so mas metade sem exceto depois ate pagar primeiro",
        "alleen maar niet geen helft zonder behalve max voor na tot vanaf pas eerst betalen",
    )
    for word in line.split()
)
"""Words of a limit in a line that has the form of a name. Such a line is no signature."""


@lru_cache(maxsize=1)
def _loaded_words() -> frozenset[str]:
    """Return the words that say yes, no or wait by themselves, whatever their form."""
    found: set[str] = set()
    for language in languages():
        phrases = language.phrases
        found |= phrases.single_words({"yes", "no", "no_alone", "take_back", "unsure", "condition"})
    return frozenset(found)


def _is_loaded(word: str) -> bool:
    return any(token in _loaded_words() for token in phrase_tokens(word)[:1]) and word.isalpha()


@lru_cache(maxsize=1)
def _data() -> tuple[
    tuple[str, ...], tuple[str, ...], tuple[str, ...], frozenset[str], frozenset[str]
]:
    tables = [language.file.signature for language in languages()]
    words = {"".join(phrase_tokens(word)) for table in tables for word in table.words}
    return (
        tuple(one for table in tables for one in table.opens),
        tuple(one for table in tables for one in table.ends),
        tuple(one for table in tables for one in table.excuses),
        frozenset(words | set(_FOREIGN_COMPANIES)),
        frozenset(unaccented(word) for table in tables for word in table.small),
    )


@lru_cache(maxsize=1)
def _spaceless_words() -> tuple[tuple[str, ...], ...]:
    """Return the words of signatures in scripts without spaces, each as its tokens."""
    tables = [language.file.signature for language in languages()]
    words = {word for table in tables for word in (*table.words, *table.small)}
    companies = (*words, *_SPACELESS_COMPANIES)
    return tuple(phrase_tokens(word) for word in companies if any(map(is_spaceless, word)))


@lru_cache(maxsize=1)
def _disclaimers() -> tuple[str, ...]:
    return tuple(one for language in languages() for one in language.file.signature.disclaimer)
