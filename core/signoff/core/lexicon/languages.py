"""The words of each language, read from the `.toml` files in this folder, one for each language.

docs/how-to/add-a-language.md explains the tables of a file and how to add a language.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from importlib import resources
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from signoff.core.base.text import fold
from signoff.core.lexicon.patterns import Phrases, in_ascii
from signoff.core.lexicon.tokens import MARKS, NEWLINE, accents_in, phrase_tokens

CODES: Final = ("en", "de", "fr", "es", "it", "pt", "nl", "ja", "ko", "zh")
"""The languages. English is the first, because its words are known in every other language."""


_ACCENTED: Final = re.compile(r"(?:\w+['’])*\w*[^\W\d_\x00-\x7f]\w*(?:['’]\w+)*")
"""A word that has a letter outside of ASCII."""

TOPIC: Final = "topic:"
"""The prefix of the roles of nouns for topics."""

GOING: Final = "going"
"""The key of the words in `LexiconFile.deeds` that fit every topic, but mean to go on."""

LETTING: Final = "letting"
"""The key of the words in `LexiconFile.deeds` that fit every topic, but mean to let it be."""


class Role(StrEnum):
    """The role of a phrase in an answer."""

    YES = "yes"
    NO = "no"
    NO_ALONE = "no_alone"
    OBJECT = "object"
    DETERMINER = "determiner"
    FOR_ME = "for_me"
    AFTER = "after"
    THANKS = "thanks"
    COURTESY = "courtesy"
    REPORT = "report"
    GREETING = "greeting"
    ADDRESS = "address"
    TITLE = "title"
    CLOSING = "closing"
    NOTE = "note"
    TAKE_BACK = "take_back"
    INSTEAD = "instead"
    APOLOGY = "apology"
    UNSURE = "unsure"
    CONDITION = "condition"
    GRANT = "grant"
    GRANT_WORDS = "grant_words"
    CLAIM = "claim"
    RELEASE = "release"
    REASSIGN = "reassign"
    ASK = "ask"
    COMMENT = "comment"
    EXTEND = "extend"
    REMIND = "remind"
    WITHDRAW = "withdraw"
    REVOKE = "revoke"
    AWAY = "away"
    AWAY_WORDS = "away_words"
    BACK = "back"


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


_Patterns = tuple[str, ...]


class _Answers(_Table):
    """Phrases of an answer."""

    yes: _Patterns = Field(min_length=1)
    no: _Patterns = Field(min_length=1)
    no_alone: _Patterns = Field(min_length=1)
    object: _Patterns = Field(min_length=1)
    determiner: _Patterns
    for_me: _Patterns = Field(min_length=1)
    after: _Patterns = Field(min_length=1)
    thanks: _Patterns = Field(min_length=1)
    courtesy: _Patterns = Field(min_length=1)
    report: _Patterns = Field(min_length=1)
    greeting: _Patterns = Field(min_length=1)
    address: _Patterns = Field(min_length=1)
    title: _Patterns
    closing: _Patterns = Field(min_length=1)
    note: _Patterns = Field(min_length=1)


class _AfterNo(_Table):
    """Phrases after a no that take it back or make it uncertain."""

    take_back: _Patterns = Field(min_length=1)
    instead: _Patterns = Field(min_length=1)
    apology: _Patterns = Field(min_length=1)
    unsure: _Patterns = Field(min_length=1)
    condition: _Patterns = Field(min_length=1)


class _Values(_Table):
    """Words around values, and the units of time."""

    with_: tuple[str, ...] = Field(alias="with", min_length=1)
    true: tuple[str, ...] = Field(min_length=1)
    false: tuple[str, ...] = Field(min_length=1)
    minutes: tuple[str, ...] = Field(min_length=1)
    hours: tuple[str, ...] = Field(min_length=1)
    days: tuple[str, ...] = Field(min_length=1)
    weeks: tuple[str, ...] = Field(min_length=1)


class _Commands(_Table):
    """Phrases that do something other than decide."""

    claim: _Patterns = Field(min_length=1)
    release: _Patterns = Field(min_length=1)
    reassign: _Patterns = Field(min_length=1)
    ask: _Patterns = Field(min_length=1)
    comment: _Patterns = Field(min_length=1)
    extend: _Patterns = Field(min_length=1)
    remind: _Patterns = Field(min_length=1)
    withdraw: _Patterns = Field(min_length=1)
    grant: _Patterns = Field(min_length=1)
    grant_words: _Patterns = Field(min_length=1)
    revoke: _Patterns = Field(min_length=1)
    away: _Patterns = Field(min_length=1)
    away_words: _Patterns = Field(min_length=1)
    back: _Patterns = Field(min_length=1)


class SignatureTable(_Table):
    """Words and phrases of signatures."""

    words: tuple[str, ...] = Field(min_length=1)
    small: tuple[str, ...]
    limits: tuple[str, ...] = ()
    offices: tuple[str, ...] = ()
    disclaimer: tuple[str, ...] = Field(min_length=1)
    disclaimer_topics: tuple[str, ...] = Field(min_length=1)
    disclaimer_small: tuple[str, ...]
    never_in_disclaimers: tuple[str, ...] = Field(min_length=1)


class LexiconFile(_Table):
    """The content of one file."""

    language: str
    negations: tuple[str, ...] = ()
    ifs: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    praises: tuple[str, ...] = ()
    misleading: tuple[str, ...] = ()
    firm: tuple[str, ...] = ()
    clear: tuple[str, ...] = ()
    orders: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    doings: tuple[str, ...] = ()
    wishes: tuple[str, ...] = ()
    as_it_is: tuple[str, ...] = ()
    deeds: dict[str, tuple[str, ...]] = {}
    umlauts: bool = False
    parts: dict[str, str]
    answers: _Answers
    topics: dict[str, _Patterns]
    after_a_no: _AfterNo
    values: _Values
    commands: _Commands
    signature: SignatureTable


@dataclass(frozen=True)
class Language:
    """The words of one language.

    Attributes:
        code: The code of the language (ISO 639-1).
        file: The file.
    """

    code: str
    file: LexiconFile

    @cached_property
    def phrases(self) -> Phrases:
        """All patterns by `Role`, except those of `nouns`."""
        patterns: dict[str, Iterable[str]] = {}
        for table in (self.file.answers, self.file.after_a_no, self.file.commands):
            patterns |= table.model_dump()
        for noun in (Role.OBJECT, Role.DETERMINER):
            del patterns[noun]
        return Phrases(patterns, self.file.parts, umlauts=self.file.umlauts)

    @cached_property
    def nouns(self) -> Phrases:
        """Names for a request: objects, determiners, and topics as ``topic:NAME``."""
        answers = self.file.answers
        patterns = {Role.OBJECT.value: answers.object, Role.DETERMINER.value: answers.determiner}
        patterns |= {f"{TOPIC}{name}": lines for name, lines in self.file.topics.items()}
        return Phrases(patterns, self.file.parts, umlauts=self.file.umlauts)

    @cached_property
    def units(self) -> dict[tuple[str, ...], int]:
        """The units of time as tokens, with their lengths in minutes."""
        values = self.file.values
        sizes = (
            *((values.minutes, 1), (values.hours, 60)),
            *((values.days, 1_440), (values.weeks, 10_080)),
        )
        return {phrase_tokens(word): size for words, size in sizes for word in words}

    @cached_property
    def deeds(self) -> dict[tuple[str, ...], frozenset[str]]:
        """The words of a yes that say what is done, as tokens, with the topics that they fit."""
        found: dict[tuple[str, ...], frozenset[str]] = {}
        for topic, words in self.file.deeds.items():
            for word in map(phrase_tokens, words):
                found[word] = found.get(word, frozenset()) | {topic}
        return found

    @cached_property
    def misleading(self) -> frozenset[tuple[str, ...]]:
        """Phrases, as tokens, that are no yes, although their parts are: "confirm please"."""
        return frozenset(map(phrase_tokens, self.file.misleading))

    @cached_property
    def firm(self) -> frozenset[tuple[str, ...]]:
        """Words, as tokens, with which a yes can only mean the request: "approved"."""
        return frozenset(map(phrase_tokens, self.file.firm))

    @cached_property
    def clear(self) -> frozenset[tuple[str, ...]]:
        """Beginnings, as tokens, of a yes that agrees and does not judge: "ok", but not "fine"."""
        return frozenset(map(phrase_tokens, self.file.clear))

    @cached_property
    def yes(self) -> frozenset[tuple[str, ...]]:
        """The words for yes and true, as tokens."""
        return frozenset(map(phrase_tokens, self.file.values.true))

    @cached_property
    def wishes(self) -> frozenset[tuple[str, ...]]:
        """Words of good wishes, as tokens, that tell what the person agrees to: "enjoy"."""
        return frozenset(map(phrase_tokens, self.file.wishes))

    @cached_property
    def as_it_is(self) -> frozenset[tuple[str, ...]]:
        """Phrases, as tokens, that may mean to leave all as it is: "fine as it is"."""
        return frozenset(map(phrase_tokens, self.file.as_it_is))

    @cached_property
    def accents(self) -> dict[str, frozenset[int]]:
        """The places that may have an accent, for each word with accents in its file."""
        found: dict[str, frozenset[int]] = {}
        # Most words share their places with many others; a set of its own would take 216 bytes.
        shared: dict[frozenset[int], frozenset[int]] = {}
        for word in _ACCENTED.findall(unicodedata.normalize("NFC", self.file.model_dump_json())):
            for token in phrase_tokens(word):
                places = found.get(token, frozenset()) | accents_in(word)
                found[token] = shared.setdefault(places, places)
        return found

    @cached_property
    def words(self) -> frozenset[str]:
        """All words of its patterns and units, without marks and line ends.

        Every pattern and every unit has at least one of them.
        """
        units = frozenset(word for unit in self.units for word in unit)
        return (self.phrases.words() | self.nouns.words() | units) - MARKS - {NEWLINE}


@lru_cache
def language(code: str) -> Language:
    """Return the words of a language.

    Args:
        code: One of `CODES`.

    Raises:
        ValueError: Its file has an error; the message says where.
    """
    text = resources.files(__package__).joinpath(f"{code}.toml").read_text("utf-8")
    return Language(code, LexiconFile.model_validate(tomllib.loads(text)))


def languages() -> Iterator[Language]:
    """Yield the words of every language, English first."""
    return map(language, CODES)


@lru_cache
def stems() -> dict[str, tuple[str, ...]]:
    """Return the beginnings of words in the names of tools that show the topic, by topic."""
    text = resources.files(__package__).joinpath("topics.toml").read_text("utf-8")
    return {name: tuple(words) for name, words in tomllib.loads(text).items()}


@lru_cache
def remark_phrases(code: str) -> Phrases:
    """Return the phrases of a language that contradict a yes, or do not, by the keys of their file.

    Raises:
        ValueError: The file has an error; the message says where.
    """
    file = language(code).file
    return Phrases(_remarks()[code], file.parts, umlauts=file.umlauts)


@lru_cache
def _remarks() -> dict[str, dict[str, list[str]]]:
    text = resources.files(__package__).joinpath("remarks.toml").read_text("utf-8")
    return tomllib.loads(text)


@lru_cache
def negations() -> frozenset[str]:
    """Return the words, as tokens, that negate in any language: "not", "nicht"."""
    return frozenset(
        token for one in languages() for word in one.file.negations for token in phrase_tokens(word)
    )


@lru_cache
def brush_offs() -> frozenset[str]:
    """Return the words for yes, case-folded, that mean something else if they are repeated."""
    return frozenset(word for one in languages() for word in one.file.repeated)


@lru_cache
def ifs() -> frozenset[str]:
    """Return the words for yes, case-folded, that mean "if" without their accent."""
    return frozenset(word for one in languages() for word in one.file.ifs)


@lru_cache
def praises() -> frozenset[str]:
    """Return the phrases for going on, folded, that may also mean "keep it up"."""
    return frozenset(fold(phrase) for one in languages() for phrase in one.file.praises)


@lru_cache
def endings() -> frozenset[str]:
    """Return the words in the names of tools that end or hold something: "cancel".

    In scripts without spaces they are whole words, of which a name may have more.
    """
    return _named(one for each in languages() for one in _spelt(each, each.file.endings))


@lru_cache
def refusals() -> frozenset[str]:
    """Return the `endings` of tools that refuse or withhold something: "decline"."""
    return _named(one for each in languages() for one in _spelt(each, each.file.refusals))


@lru_cache
def changes() -> frozenset[str]:
    """Return the words in the names of tools that change or repair something: "restart"."""
    return _named(one for each in languages() for one in _spelt(each, each.file.changes))


@lru_cache
def doings() -> frozenset[str]:
    """Return the words in the names of tools that make or carry out something: "create"."""
    return _named(one for each in languages() for one in _spelt(each, each.file.doings))


def _spelt(known: Language, words: Iterable[str]) -> Iterator[str]:
    """Yield words, also without their umlauts."""
    for word in words:
        yield from (word, in_ascii(word)) if known.file.umlauts else (word,)


def _named(words: Iterable[str]) -> frozenset[str]:
    return frozenset("".join(phrase_tokens(word)) for word in words)


@lru_cache
def stops() -> frozenset[tuple[str, ...]]:
    """Return the words, each as its tokens, that may mean the end of a request: "cancel"."""
    return frozenset(tuple(phrase_tokens(word)) for one in languages() for word in one.file.stops)


def is_true(word: str) -> bool:
    """Say whether a case-folded word means true in a field for yes or no."""
    return word in _words("true")


def is_false(word: str) -> bool:
    """Say whether a case-folded word means false in a field for yes or no."""
    return word in _words("false")


def leads_values(word: str) -> bool:
    """Say whether a word may introduce values: the "with" in "approve with amount=900"."""
    return word.casefold() in _words("with_")


@lru_cache
def _words(table: str) -> frozenset[str]:
    return frozenset(word for one in languages() for word in getattr(one.file.values, table))
