"""Compares a yes with what the tool does: "pay it" is no yes to a deletion."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from itertools import pairwise
from typing import Final

from signoff.core.lexicon.languages import GOING, LETTING, TOPIC, Language, Role, changes, stems
from signoff.core.lexicon.patterns import Bound
from signoff.core.lexicon.tokens import MARKS
from signoff.core.replies.grammar import Piece, Reader, no_slots
from signoff.core.replies.tool import ENDINGS

_Words = tuple[str, ...]

_STOPS: Final = frozenset(".,!;、。，")
_REQUESTS: Final = frozenset(("request", "requests"))
_INVOICE: Final = (f"{TOPIC}invoice",)
_PAYING: Final = frozenset((GOING, LETTING, "payment"))
"""The topics of words that may say to settle a bill."""
_WISHING: Final = frozenset(
    (Role.COURTESY, Role.CLOSING, Role.AFTER, Role.THANKS, Role.GREETING, Role.YES)
)


class Deed:
    """Says whether an answer fits the tool of its request.

    Args:
        reader: The reader of the answer.
        pieces: The parts of the answer.
    """

    def __init__(self, reader: Reader, pieces: tuple[Piece, ...]) -> None:
        self._reader = reader
        self._text = reader.text
        self._tool = reader.tool
        self._pieces = pieces
        self._yes = tuple(one for one in pieces if one.role == Role.YES)
        # "The server is fine" may mean not to restart it, unless the text says "restart".
        deed = tuple(self._tool.words & changes()) or self._tool.verb
        self._alters = not (self._tool.makes or self._tool.ends) and not any(
            one.text.startswith(deed) for one in self._text.tokens
        )

    def is_doubtful(self) -> bool:
        """Say whether a yes may mean something else than what the tool does."""
        doubts = (
            *(self._is_another, self._tells_a_state, self._may_judge),
            *(self._leaves_as_it_is, self._wishes_well),
        )
        return any(one() for one in doubts)

    def is_firm(self, yes: Piece, but: Container[_Words] = ()) -> bool:
        """Say whether a yes can only mean the request: "approved", but not "ok"."""
        return any(
            word not in but and self._says(word, at)
            for at in range(yes.start, yes.end)
            for word in self._words(lambda one: one.firm)
        )

    def orders(self, yes: Piece) -> bool:
        """Say whether a yes has a verb that says what to do: "run it", but not "payment ok"."""
        nouns = {word for one in self._reader.languages for word in one.nouns.words()}
        return any(
            GOING in topics or (topics != {LETTING} and nouns.isdisjoint(word))
            for word, topics in self._deeds_in(yes)
        )

    # -- another deed -----------------------------------------------------------------------------

    def _is_another(self) -> bool:
        """Say whether a yes names another deed than the tool's: "pay it" about a deletion."""
        end = Piece("", len(self._text), len(self._text))
        return bool(self._tool.called) and any(
            self._names_another(one, other)
            for one, other in pairwise((*self._pieces, end))
            if one.role == Role.YES
        )

    def _names_another(self, yes: Piece, behind: Piece) -> bool:
        """Say whether a yes with the piece behind it names another deed.

        About a tool that ends or holds something, a yes must not say to go on either: "let it run".
        """
        slots = [range(slot.start, slot.end) for slot in yes.slots]
        if any(self._names_a(ENDINGS, slot) for slot in slots):
            return False
        deeds = list(self._deeds_in(yes))
        if behind.role == Role.OBJECT and self._is_beside(yes, behind):
            slots.append(range(behind.start, behind.end))
        # "Send the invoice" about ``send_payment`` asks for the invoice.
        pays = any(not topics.isdisjoint(_PAYING) for _, topics in deeds)
        bills = (slot for slot in slots if self._names_a(_INVOICE, slot))
        if deeds and not pays and any(map(self._is_not_called, bills)):
            return True
        lets = {word for word, topics in deeds if LETTING in topics}
        refuses = self._reader.ends_something and self._tool.refuses
        if refuses and lets and not self.is_firm(yes, lets):
            return True
        return any(self._is_another_deed(topics - {LETTING}, word) for word, topics in deeds)

    def _is_another_deed(self, topics: frozenset[str], word: _Words) -> bool:
        if not topics:
            return False
        if self._reader.ends_something and "deletion" not in topics:
            return True
        if GOING in topics:
            return False
        if self._reader.reverses and "refund" not in topics:
            return True
        known = self._tool.called.issuperset(word) and self._tool.middle.isdisjoint(word)
        return not known and not any(map(self._tool.is_about, topics))

    # -- a judgement ------------------------------------------------------------------------------

    def _may_judge(self) -> bool:
        """Say whether a yes may only judge what the tool ends or changes: "fine", "confirmed".

        About such a tool, a yes has to agree with words for that: "ok", "go ahead", "please do".
        """
        unknown = self._alters and self._tool.words.isdisjoint(changes())
        return (self._reader.ends_something or unknown) and not any(map(self._agrees, self._yes))

    def _agrees(self, yes: Piece) -> bool:
        named = (self._names_a(ENDINGS, range(slot.start, slot.end)) for slot in yes.slots)
        if self.is_firm(yes) or self.orders(yes) or any(named):
            return True
        phrases = self._reader.phrases(yes.start)
        starts = {yes.start, *(one.end for one in phrases if one.role == Role.FOR_ME)}
        return any(
            self._says(words, at) for at in starts for words in self._words(lambda one: one.clear)
        )

    def _tells_a_state(self) -> bool:
        """Say whether a yes may say that nothing is to be changed: "server ok" about a restart."""
        return self._alters and (
            any(self._judges(one, one.slots) for one in self._yes)
            or any(
                self._judges(*((other, (one,)) if one.role == Role.OBJECT else (one, (other,))))
                for one, other in pairwise(self._pieces)
                if {one.role, other.role} == {Role.OBJECT, Role.YES} and self._is_beside(one, other)
            )
        )

    def _judges(self, yes: Piece, nouns: Iterable[Piece | Bound]) -> bool:
        """Say whether a yes may judge a noun that the tool changes."""
        return not (self.is_firm(yes) or self.orders(yes)) and any(
            self._is_the_subject(one.start, one.end) for one in nouns
        )

    def _is_the_subject(self, start: int, end: int) -> bool:
        """Say whether words are what the tool changes: "the server", not "it" or "the change"."""
        own = self._tool.words - _REQUESTS - changes()
        return any(one.text in own for one in self._text.tokens[start:end]) or any(
            found.end == end
            and (beginnings := stems().get(found.role.removeprefix(TOPIC), ()))
            and not any(word.startswith(beginnings) for word in self._tool.words & changes())
            for one in self._reader.languages
            for found in one.nouns.at(self._text.tokens, start, no_slots)
        )

    def _leaves_as_it_is(self) -> bool:
        """Say whether a yes may mean to leave all as it is: "fine as it is" about a deletion."""
        opposed = self._reader.ends_something or self._reader.reverses
        if (self._tool.makes and not opposed) or not any(
            self._says(phrase, at)
            for at in range(len(self._text))
            for phrase in self._words(lambda one: one.as_it_is)
        ):
            return False
        return not any(
            self.is_firm(one)
            or self.orders(one)
            or any(self._says(word, one.start) for word in self._words(lambda one: one.yes))
            for one in self._yes
        )

    def _wishes_well(self) -> bool:
        """Say whether a good wish contradicts the tool: "enjoy the trip" about ``cancel_trip``."""
        return bool(self._tool.ends) and any(
            self._says(word, at)
            for one in self._pieces
            if one.role in _WISHING
            for at in self._outside_slots(one)
            for word in self._words(lambda one: one.wishes)
        )

    # -- words ------------------------------------------------------------------------------------

    def _words(self, of: Callable[[Language], Iterable[_Words]]) -> Iterator[_Words]:
        return (word for one in self._reader.languages for word in of(one))

    def _says(self, words: _Words, at: int) -> bool:
        """Say whether words begin at a token."""
        return tuple(one.text for one in self._text.tokens[at : at + len(words)]) == words

    def _deeds_in(self, yes: Piece) -> Iterator[tuple[_Words, frozenset[str]]]:
        """Yield the words of a yes that say what is done, with the topics that they fit."""
        for at in self._outside_slots(yes):
            for one in self._reader.languages:
                for word, topics in one.deeds.items():
                    if self._says(word, at):
                        yield word, topics

    def _outside_slots(self, piece: Piece) -> Iterator[int]:
        inside = {at for slot in piece.slots for at in range(slot.start, slot.end)}
        return (at for at in range(piece.start, piece.end) if at not in inside)

    def _is_beside(self, one: Piece, other: Piece) -> bool:
        """Say whether two pieces belong to one clause: "server: ok", but not "ok, the server"."""
        between = self._text.tokens[one.end : other.start]
        return all(token.text in MARKS and token.text not in _STOPS for token in between)

    def _is_not_called(self, slot: range) -> bool:
        """Say whether no word of a slot is one of the names on the card."""
        words = (one.text for one in self._text.tokens[slot.start : slot.stop])
        return self._tool.called.isdisjoint(words)

    def _names_a(self, topics: Container[str], slot: range) -> bool:
        """Say whether a slot has a noun of a topic."""
        return any(
            found.role in topics and found.end == slot.stop
            for one in self._reader.languages
            for found in one.nouns.at(self._text.tokens, slot.start, no_slots)
        )
