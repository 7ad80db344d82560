"""Recognises signatures below an answer: names, addresses, lines of phones, disclaimers.

A lexicon cannot know the words of signatures, so they are recognised by their form, and only below
a closing or the person's own name. Sentences are not signatures: a text that a person adds below a
closing ("PS: only if Tom agrees") is not ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Final

from signoff.core.base.text import plain_line, unaccented
from signoff.core.lexicon.languages import SignatureTable, languages
from signoff.core.lexicon.tokens import (
    is_hiragana,
    is_spaceless,
    phrase_tokens,
    tokenize,
)
from signoff.core.replies.devices import is_device_line
from signoff.core.replies.text import Names

LONGEST_LINE: Final = 200
LONGEST_DISCLAIMER: Final = 4_000
_LONGEST_NAME: Final = 24
_SHORTEST_NAME: Final = 3
_MOST_WORDS: Final = 14
_PHONE_DIGITS: Final = 6
_LONG_PHONE_DIGITS: Final = 9
_LONGEST_SPACELESS: Final = 24
_MARKS_OF_A_SENTENCE: Final = frozenset("?!？！")
_MOST_WORDS_OF_A_FIRM: Final = 3
_SEPARATORS: Final = re.compile(r"[|,;·•/–—]|\s-\s")
_STREETS: Final = ("strasse", "straße", "str", "weg", "platz", "allee", "gasse", "straat", "laan")
_COMPANIES: Final = frozenset(
    (
        *("inc", "ltd", "llc", "llp", "plc", "corp", "co", "pty", "limited", "incorporated"),
        *("gmbh", "ag", "kg", "ug", "ohg", "se", "sa", "sas", "sarl", "srl", "spa", "snc", "sl"),
        *("slu", "lda", "ltda", "bv", "nv", "vof", "oy", "ab", "as", "aps", "kk", "gk"),
    )
)
_SPACELESS_COMPANIES: Final = (
    *("株式会社", "有限会社", "合同会社", "株)", "有)", "주식회사", "유한회사", "주)", "유)"),
    *("有限公司", "有限責任公司", "有限责任公司", "股份公司"),
)
_SHORT_WORDS: Final = re.compile(r"(?<![^\W_])[^\W\d_]{1,2}(?![^\W_])[:.]?")
_AMOUNT_OR_DAY: Final = re.compile(
    r"\d{1,3}(?:[.,']\d{3})+(?:[.,]\d+)?|\d{1,4}([./-])\d{1,2}\1\d{2,4}"
)
_VOWELS: Final = frozenset("aeiouy")
_NOBODY: Final = Names()
_SHORTEST_DISCLAIMER: Final = 10
"""Every word of a disclaimer with fewer words must be known."""
_SENTENCE_ENDS: Final = re.compile(r"[.!?](?=\s|$)|[。！？]")
_LONGEST_COUNT: Final = 3
_LONGEST_CODE: Final = 5


def is_disclaimer(text: str, people: Iterable[Names] = ()) -> bool:
    """Say whether a text from its first line on is a disclaimer, and nothing else.

    It has two usual phrases, starts with one, or has no other words. Each sentence is about a topic
    of disclaimers, and none has a word of an answer: "This e-mail only counts if Tom agrees".

    Args:
        text: One paragraph, or one line.
        people: Names that disclaimers do not contain.
    """
    if not _has_form_of_disclaimer(text):
        return False
    tokens = tokenize(text)
    return not any(
        text[token.start].isupper() and not _is_word(token.text) and names.word_at(tokens, at)
        for names in people
        for at, token in enumerate(tokens)
    )


@lru_cache(maxsize=1_024)
def says_more(disclaimer: str) -> bool:
    """Say whether a paragraph with the words of a disclaimer also has words of an answer.

    Its language is the one that most of its words belong to.
    """
    folded = unaccented(plain_line(disclaimer).casefold())
    words = phrase_tokens(folded)
    spaceless = any(map(is_spaceless, folded))

    def known(table: SignatureTable) -> int:
        topics = tuple(map(unaccented, table.disclaimer_topics))
        if spaceless:
            return sum(one in folded for one in topics if is_spaceless(one[0]))
        small = set(map(unaccented, table.disclaimer_small))
        return sum(one in small or one.startswith(topics) for one in words)

    table = max((one.file.signature for one in languages()), key=known)
    return len(disclaimer) > LONGEST_DISCLAIMER or any(
        _is_in(unaccented(word), folded) for word in table.never_in_disclaimers
    )


@lru_cache(maxsize=1_024)
def _has_form_of_disclaimer(text: str) -> bool:
    first, folded = (plain_line(part).casefold() for part in (text.partition("\n")[0], text))
    used = [
        (language, [one for one in language.file.signature.disclaimer if one in folded])
        for language in languages()
    ]
    tables = [language.file.signature for language, found in used if found]
    phrases = [one for _, found in used for one in found]
    topics = tuple(
        unaccented(one) for table in tables for one in (*table.disclaimer_topics, *table.disclaimer)
    )
    if not phrases or len(text) > LONGEST_DISCLAIMER:
        return False
    begins = len(phrases) > 1 or any(folded.startswith(one) for one in phrases)
    if not begins and not _is_about(text, topics, tables):
        return False
    if not any(one in first for one in phrases) and not _is_about(first, topics, tables):
        return False
    if any(_is_in(word, folded) for table in tables for word in table.never_in_disclaimers):
        return False
    if not all(any(topic in one for topic in topics) for one in _sentences(text)):
        return False
    short = len(folded.split()) < _SHORTEST_DISCLAIMER
    return not short or _is_about(text, topics, tables)


def _is_about(text: str, topics: tuple[str, ...], tables: Iterable[SignatureTable]) -> bool:
    """Say whether every word of a text is a word of disclaimers, or may be a company's name."""
    small = {unaccented(word) for table in tables for word in table.disclaimer_small}
    for word in phrase_tokens(" ".join(one for one in text.split() if not _is_address(one))):
        if not word.isalpha() or is_spaceless(word[0]) or len(word) == 1:
            continue
        if word in small or _is_word(word) or any(topic in word for topic in topics):
            continue
        named = word.capitalize() in text or word.upper() in text
        if _is_said(word) or not named:
            return False
    return True


def _is_address(word: str) -> bool:
    return any(mark in word for mark in ("@", "://", "www."))


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text, folded; a capital on a new line begins a sentence."""
    found = [""]
    for line in text.split("\n"):
        begins = line.lstrip(" *_>-–—([\"'“„")[:1]
        if not begins.islower():
            found.append("")
        for part in _SENTENCE_ENDS.split(line):
            found[-1] += f" {part}"
            found.append("")
        found.pop()
    folded = (unaccented(plain_line(one).casefold()) for one in found)
    return [one for one in folded if any(map(str.isalpha, one))]


def _is_in(word: str, folded: str) -> bool:
    """Say whether a word is in a folded text; words of scripts without spaces may be anywhere."""
    at = folded.find(word)
    while at >= 0:
        around = folded[at - 1 : at] + folded[at + len(word) : at + len(word) + 1]
        if is_spaceless(word[0]) or not any(map(str.isalnum, around)):
            return True
        at = folded.find(word, at + 1)
    return False


def is_signature_line(line: str, names: Names, *, first: bool) -> bool:
    """Say whether a line has the form of a line of a signature.

    Args:
        line: The line, or the part of it after a closing or a name.
        names: The names of the person who writes.
        first: Whether it is the first line below a closing, which may be a bare name.
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
    # "Director | Acme Ltd | www.acme.example"
    parts = bare.split("|")
    return _is_titled(bare, names, first=first) or (
        len(parts) > 1 and all(is_signature_line(one, names, first=False) for one in parts)
    )


def is_phone_number(line: str) -> bool:
    """Say whether a line is only an international phone number: "+1 555 010 2233" is no "+1"."""
    bare = line.strip()
    digits = sum(map(str.isdecimal, bare))
    return bare.startswith("+") and digits >= _PHONE_DIGITS and not bare.strip("+-()./ 0123456789")


def _is_contact(bare: str, tokens: tuple[str, ...]) -> bool:
    """Say whether it is an address, a phone number or a web page, with at most a label before."""
    words = bare.split()
    if len(words) > _MOST_WORDS:
        return False
    if _unknown(tokens) and not bare.startswith("〒"):
        return False
    places = [word for word in words if "@" in word or "://" in word or word.startswith("www.")]
    others = [word for word in words if word not in places]
    if not all(map(_may_label, _SHORT_WORDS.findall(" ".join(others)))):
        return False
    letters = [token for token in tokens if token.isalpha() and not is_spaceless(token[0])]
    digits = sum(len(token) for token in tokens if token.isdecimal())
    known = _words()
    if digits >= _PHONE_DIGITS and all(len(one) < 3 or one in known for one in letters):
        return bare.startswith("〒") or _is_phone(bare, letters, digits)
    named = (phrase_tokens(word) for word in others)
    return bool(places) and all(
        all(one in known or not one.isalpha() or len(one) < 3 for one in word) for word in named
    )


def _is_phone(bare: str, letters: list[str], digits: int) -> bool:
    """Say whether a number has a usual label, or the form of a phone number.

    Without them, it may be an amount or a day.
    """
    if letters and all(len(one) == 1 or one in _words() for one in letters):
        return True
    phone = bare.startswith("0") or "+" in bare or digits >= _LONG_PHONE_DIGITS
    return phone and _AMOUNT_OR_DAY.fullmatch(bare.lstrip("~<>")) is None


def _may_label(short: str) -> bool:
    """Say whether one or two letters may label a number: "T", "Ph", but not the words "up to".

    Consonants are no words, and a colon or a point marks any letter as a label.
    """
    letters = short.rstrip(":.")
    if len(letters) == 1:
        return letters != short or letters.isupper() or _plain(letters) not in _VOWELS
    return not (_is_said(_plain(letters)) or _plain(letters) in _small())


def _is_titled(bare: str, names: Names, *, first: bool) -> bool:
    """Say whether every part of a line is a name, a job title, a company or a street address."""
    if bare.endswith("...") or "…" in bare:
        return False
    parts = [words for part in _SEPARATORS.split(bare) if (words := _bare_words(part))]
    if not parts or sum(map(len, parts)) > _MOST_WORDS:
        return False
    if first and len(parts[0]) == 1 and _may_be_a_name(parts[0][0], names):
        parts = parts[1:]
    if any(map(_is_limit, parts)):
        return False
    street = any(map(_is_street, parts))
    return all(
        _is_street(words) or (street and _is_town(words)) or _is_known_part(words, names)
        for words in parts
    )


def _is_limit(words: list[str]) -> bool:
    """Say whether a part may limit a yes: "for Sales", "1 unit", "Legal to audit"."""
    first, *more = map(_plain, words)
    counted = bool(more) and first.isdecimal() and len(first) <= _LONGEST_COUNT
    # "Legal to support" is a condition, "Assistant to the CEO" a title.
    orders = any(
        one in _limits() and after.islower() and _plain(after) not in _small()
        for one, after in zip(more, words[2:], strict=False)
    )
    # "US 100000" is an amount.
    amount = len(more) == 1 and more[0].isdecimal() and len(more[0]) > _LONGEST_CODE
    amount = amount and _is_said(first)
    # "Ab 2027" is "from 2027", although "AB" is also the legal form of a firm.
    begins = words[0].islower() and first in _COMPANIES and _is_said(first)
    # "cap it at 1000" has only words of signatures, in two languages.
    follows = words[0].islower() and any(
        one in _small() and after.isdecimal() for one, after in pairwise((first, *more))
    )
    return first in _limits() or counted or amount or orders or begins or follows


def _is_street(words: list[str]) -> bool:
    """Say whether a part is a street and a number: "Hauptstraße 5"."""
    return len(words) == 2 and _plain(words[0]).endswith(_STREETS) and words[1][0].isdecimal()


def _is_town(words: list[str]) -> bool:
    """Say whether a part is a postal code and a town: "10115 Berlin"."""
    code, *town = words
    return len(code) > 3 and code.isdecimal() and len(town) == 1 and town[0][0].isupper()


def _bare_words(part: str) -> list[str]:
    return [word for one in part.split() if (word := one.strip(".,;:()&+\"'"))]


def _is_known_part(words: list[str], names: Names) -> bool:
    """Say whether all words are known words of a signature, except the name of a company.

    "Acme Industries GmbH" is a company because of its last word. "Ohne Hotel" and "ONLY HALF" may
    be anything.
    """
    own = {"".join(name) for name in names}
    folded = [_plain(word) for word in words]
    named = next((at for at, one in enumerate(folded) if one in own), 0)
    if any(one in _offices() for one in folded[:named]):
        # "Assistant to Mara Lind"
        return False
    if any(one in own for one in folded):
        # "M. Lind"
        own |= {one for one in folded if len(one) == 1}
    unknown = [at for at, one in enumerate(folded) if not (_is_word(one) or one in own)]
    if not unknown:
        return any(one not in _small() and not one.isdecimal() for one in folded)
    together = unknown[-1] - unknown[0] < _MOST_WORDS_OF_A_FIRM
    proper = all(words[at][0].isupper() and not _is_said(folded[at]) for at in unknown)
    return together and proper and any(one in _COMPANIES for one in folded)


def _plain(word: str) -> str:
    return unaccented(word.casefold()).replace(".", "")


def _is_word(word: str) -> bool:
    return word in _words() or word in _small() or word.isdecimal()


def _may_be_a_name(word: str, names: Names) -> bool:
    """Say whether a word below a closing may be the author's name: "Alex" for Alexandra, "ML".

    If the author's name is not known, it may be any capitalised word that is not in a phrase:
    "Mike", but not "Wait".
    """
    own = ["".join(name) for name in names]
    plain = _plain(word)
    if own:
        initials = {one[0] for one in own}
        short = len(plain) <= len(own) and initials.issuperset(plain)
        return short or any(one.startswith(plain) for one in own if len(plain) >= _SHORTEST_NAME)
    named = word[0].isupper() and word.isalpha() and len(word) <= _LONGEST_NAME
    return named and not _is_said(plain)


def _names_a_place(bare: str, names: Names) -> bool:
    """Say whether a line of Chinese, Japanese or Korean names a person, a company or a job title.

    The line must not have other words: "ask the manager first" contains a job title too. One
    unknown word is allowed beside a word for a company, because it may be the company's name.
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
    return (not unknown or named) and all(
        _is_titled(word, names, first=True) for word in alphabetic
    )


def _unknown(tokens: tuple[str, ...], names: Names = _NOBODY) -> str:
    """Return the Chinese, Japanese and Korean characters outside of known words and names."""
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


@lru_cache(maxsize=1)
def _said() -> frozenset[str]:
    """Return all words in the phrases of answers and commands, of all languages."""
    found = (word for language in languages() for word in language.phrases.words())
    return frozenset(unaccented(word) for word in found)


def _is_said(word: str) -> bool:
    return any(token in _said() for token in phrase_tokens(word))


@lru_cache(maxsize=1)
def _words() -> frozenset[str]:
    words = {word for language in languages() for word in language.file.signature.words}
    plain = {_plain("".join(phrase_tokens(word))) for word in words}
    return frozenset(plain | _COMPANIES)


@lru_cache(maxsize=1)
def _small() -> frozenset[str]:
    small = (word for language in languages() for word in language.file.signature.small)
    return frozenset(map(unaccented, small))


@lru_cache(maxsize=1)
def _spaceless_words() -> tuple[tuple[str, ...], ...]:
    """Return the words of signatures in scripts without spaces, each as its tokens."""
    tables = [language.file.signature for language in languages()]
    words = {word for table in tables for word in (*table.words, *table.small)}
    companies = (*words, *_SPACELESS_COMPANIES)
    return tuple(phrase_tokens(word) for word in companies if any(map(is_spaceless, word)))


@lru_cache(maxsize=1)
def _limits() -> frozenset[str]:
    """Return the words that begin a limit of a yes rather than a signature: "for Sales"."""
    tables = [language.file.signature for language in languages()]
    return frozenset(_plain(word) for table in tables for word in table.limits)


@lru_cache(maxsize=1)
def _offices() -> frozenset[str]:
    """Return the words for people who sign for somebody else: "assistant"."""
    tables = [language.file.signature for language in languages()]
    return frozenset(_plain(word) for table in tables for word in table.offices)
