"""The deed and the subject of a tool, as its name tells them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import Final, NamedTuple

from signoff.core.lexicon.languages import (
    TOPIC,
    changes,
    doings,
    endings,
    language,
    languages,
    refusals,
    stems,
)
from signoff.core.lexicon.tokens import MARKS, is_spaceless, phrase_tokens

ENDINGS: Final = frozenset(f"{TOPIC}{one}" for one in ("deletion", "cancellation", "archiving"))
"""The topics of tools that end something."""
_GENERAL: Final = frozenset(("message", "publication", "change"))
"""The topics of tools whose subject only the name of the agent may tell: "send_request"."""
_ALTERING: Final = frozenset(("change", "restart", "deletion", "cancellation", "archiving"))
"""The topics of tools that change or end their subject."""
_REVERSALS: Final = ("refund", "return", "chargeback")
"""The beginnings of verbs of tools that undo what their object says: "refund_order"."""
_BILLS: Final = ("invoice", "bill")
_SETTLES: Final = (*_BILLS, "settl")
_RELEASE: Final = "releas"
"""The beginning of a verb that means a deployment, unless it has a subject: "release_payment"."""
_PREPOSITIONS: Final = frozenset(("to", "for", "from", "by", "with", "in", "on", "of", "at", "via"))
_HUMPS: Final = re.compile(
    r"(?<=[^\W\d_])(?=[A-ZÀ-ÖØ-Þ][^\W\d_A-ZÀ-ÖØ-Þ])|(?<=[a-zß-öø-ÿ0-9])(?=[A-ZÀ-ÖØ-Þ])"
)
"""The places between the words of a name such as ``holdPayment`` or ``ERPCancelOrder``."""


class Tool(NamedTuple):
    """What the names of a request on its card say.

    Attributes:
        words: The words of the tool's name.
        called: The words of all names; "holdPayment" is a word and has two.
        names: The names, each as one word.
        verb: The first word: the deed.
        noun: The last word before a preposition: the subject.
        middle: The words that are neither: the "payment" of ``update_payment_method``.
        topical: The words that tell the topic.
        ending: The word that ends something: the "cancel" of ``cancel_deletion``; or "".
        ends: All words that end or hold something.
        reverses: Whether the tool undoes what its subject says: ``refund_order``.
        refuses: Whether the tool refuses or holds its subject: ``decline_offer``.
        makes: Whether the tool is known to make or carry out its subject: ``create_order``.
    """

    words: frozenset[str]
    called: frozenset[str]
    names: frozenset[str]
    verb: str
    noun: str
    middle: frozenset[str]
    topical: frozenset[str]
    ending: str
    ends: frozenset[str]
    reverses: bool
    refuses: bool
    makes: bool

    def is_about(self, topic: str) -> bool:
        """Say whether the names belong to a topic; without names, every topic fits."""
        if not self.called:
            return True
        known = stems().get(topic, ())
        words = (self.ending,) if f"{TOPIC}{topic}" in ENDINGS else self.topical
        return any(word.startswith(known) for word in words) or (
            topic == "payment" and _settles(words)
        )


@lru_cache(maxsize=256)
def tool_of(called: tuple[str, ...]) -> Tool:
    """Return what the names of a request on its card say; the first one is the tool's."""
    own = called[:1]
    words = [one for name in own for one in split(name)]
    phrase = list(takewhile(lambda one: one not in _PREPOSITIONS, words)) or words
    verb, noun = (words[0], phrase[-1]) if words else ("", "")
    spaceless = any(is_spaceless(one[0]) for one in words)
    middle = frozenset() if spaceless else frozenset(words) - {verb, noun}
    every = frozenset[str]().union(*map(words_in, called))
    # "Pay it" is no answer about a tool that grants access, whatever the agent is called.
    topical = frozenset(words) - middle if any(map(_has_a_subject, words)) else every
    if verb.startswith(_RELEASE) and noun != verb and _has_a_subject(noun):
        topical -= {verb}
    # The first one says what the tool does: the "cancel" of ``cancel_deletion``.
    ending = next((one for one in words if _is_ending(one)), "")
    ends = endings_in(" ".join(own))
    ends = frozenset((ending,)) if len(ends) > 1 and ending in ends else ends
    return Tool(
        words=frozenset[str]().union(*map(words_in, own)),
        called=every,
        names=frozenset("".join(phrase_tokens(name)) for name in called),
        verb=verb,
        noun=noun,
        middle=middle,
        topical=topical,
        ending=ending,
        ends=ends,
        reverses=is_reversal(verb),
        refuses=not ends.isdisjoint(refusals()),
        makes=_makes(words),
    )


def is_reversal(word: str) -> bool:
    """Say whether a word undoes what another says: "refund", "returned"."""
    return word.startswith(_REVERSALS)


def split(name: str) -> tuple[str, ...]:
    """Return the words of a name in order: "hold" and "payment" for ``holdPayment``."""
    return tuple(one for one in phrase_tokens(_HUMPS.sub(" ", name)) if one not in MARKS)


def words_in(text: str) -> frozenset[str]:
    """Return the words of a text; "holdPayment" is a word and has two."""
    return frozenset((*phrase_tokens(text), *split(text))) - MARKS


@lru_cache(maxsize=256)
def endings_in(text: str) -> frozenset[str]:
    """Return the words of a tool's name, or of a text, that end or hold something."""
    return _words_of(endings(), text)


def _words_of(known: frozenset[str], text: str) -> frozenset[str]:
    """Return the words of a text that are known; without spaces, it may have them anywhere.

    Two words in a row count as one: "shut down".
    """
    pairs = ("".join(pair) for pair in pairwise(split(text)))
    words = (words_in(text) | frozenset(pairs)) & known
    if text.isascii():
        return words
    joined = "".join(phrase_tokens(text))
    return words | {one for one in known if is_spaceless(one[0]) and one in joined}


def _has_a_subject(word: str) -> bool:
    """Say whether a word of a tool's name says what it is about: "pay", but not "send" or "set"."""
    return any(word.startswith(known) for name, known in stems().items() if name not in _GENERAL)


def _makes(words: Sequence[str]) -> bool:
    """Say whether a tool makes or carries out its subject, as "pay" and "create" do.

    The first word may be the name of a system: ``stripe_create_refund``. The words of other
    languages than English are not known so well, and may have another order.
    """
    if not words:
        return True
    first, last = words[0], words[-1]
    if first in changes() or (last in changes() and first not in doings()):
        return False
    known = (stem for name, each in stems().items() if name not in _ALTERING for stem in each)
    return (
        first.startswith(tuple(known))
        or not doings().isdisjoint(words[:-1] or words)
        or _is_foreign(first)
        or _is_foreign(last)
    )


def _is_foreign(word: str) -> bool:
    """Say whether a word of a tool's name is a noun of another language than English."""
    return is_spaceless(word[0]) or (
        word not in language("en").words and any(word in one.nouns.words() for one in languages())
    )


def _settles(words: Iterable[str]) -> bool:
    """Say whether a tool may pay an invoice: ``process_invoice``, but not ``send_invoice``."""
    known = tuple(stem for each in stems().values() for stem in each)
    others = (one for one in words if not one.startswith(_SETTLES))
    return any(one.startswith(_BILLS) for one in words) and not any(
        one.startswith(known) for one in others
    )


def _is_ending(word: str) -> bool:
    """Say whether a word of a tool's name ends something: "delete", but not "deleted"."""
    known = tuple(stem for topic in ENDINGS for stem in stems()[topic.removeprefix(TOPIC)])
    return (word in endings() or word.startswith(known)) and not word.endswith("ed")
