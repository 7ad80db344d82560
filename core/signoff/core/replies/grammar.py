"""The grammar of an approval: every phrase in the answer must be known to be harmless.

::

    answer    = greeting? (courtesy | object | for-me)* verdict
                (verdict | object | for-me | courtesy | values | note | grant | report | name)*
                (closing signature)?
    values    = values of the request's fields, after the verdict or on lines of their own
    note      = a line that begins with note:, comment:, reason: or remark:
    report    = "keep me posted", beside a verdict that is more than "ok"

The parser covers the whole text with phrases, at the lowest cost. A phrase of the lexicon costs
nothing, and a token outside of all phrases costs one. The text approves only if the cost is zero.
Otherwise the tokens that cost something are left over, and are quoted back to the person.

An answer is in one language: its phrases belong to that language or to English. Words of two other
languages side by side may mean something that neither of them says ("ok, prima Tom").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import timedelta
from enum import IntEnum
from itertools import pairwise, takewhile
from typing import Final, NamedTuple

from signoff.core.base.dates import read_date
from signoff.core.base.errors import PayloadError
from signoff.core.base.text import plain_line
from signoff.core.lexicon.languages import (
    TOPIC,
    Language,
    Role,
    language,
    languages,
    leads_values,
    negations,
    stems,
    stops,
)
from signoff.core.lexicon.patterns import Bound, Match
from signoff.core.lexicon.tokens import (
    MARKS,
    NEWLINE,
    accents_in,
    is_han,
    is_hangul,
    is_hiragana,
    is_spaceless,
    phrase_tokens,
)
from signoff.core.payloads.entries import Entries, assignment, entries_on_line
from signoff.core.payloads.payload import fields_of, parse_values
from signoff.core.replies.devices import is_device_line
from signoff.core.replies.signature import is_disclaimer, is_signature_line
from signoff.core.replies.text import Names, ReplyContext, Text
from signoff.core.replies.tool import ENDINGS, endings_in, is_reversal, tool_of

_MOST_NAMES: Final = 4
_MOST_WORDS_OF_A_CALL: Final = 8
_MOST_WORDS_OF_A_DAY: Final = 8
_MOST_WORDS_OF_A_PERSON: Final = 12
_LONGEST_NUMBER: Final = 4
_LONGEST_HONOURED: Final = 6
_BETWEEN: Final = MARKS | {NEWLINE}
_DENIALS: Final = (Role.NO, Role.NO_ALONE, Role.TAKE_BACK, Role.UNSURE, Role.CONDITION)

_LABELS: Final = frozenset("-–—―─━‐‑|•·")
"""Marks between a name and the words of this person. A colon is another one."""
_TEAMS: Final = ("IT", "US")
_ENDS: Final = frozenset(",.!、。\n")
_COMMAS: Final = frozenset(",、")
_AROUND_VALUES: Final = frozenset(":*_\"'“”„«»‘’")
_POINTS: Final = ".。・、"
_PRONOUNS: Final = frozenset(("him", "her"))
_REFUND: Final = f"{TOPIC}refund"
_INSIDE_WORDS: Final = re.compile(r"(?<=[^\W_])_+(?=[^\W_])")
_EMPHASIS: Final = re.compile(r"(?<!\w)(_+)(?=[^\s_])[^_]*[^\s_]\1(?!\w)")
_BOXES: Final = {"(": ")", "|": "|"}
_DASHES: Final = frozenset({"--", "---", "—", "––", "__", "___"})
"""Lines that begin a signature (RFC 3676, section 4.3), without the trailing space."""
_MOST_WORDS_OF_A_VALUE: Final = 24
_MOST_PIECES: Final = 60
"""The parser stops after so many phrases, because answers do not have more."""
_MOST_UNITS_OF_A_DURATION: Final = 4
_MOST_LEFT_OVER: Final = 60
"""The parser stops after so many tokens that are left over, because the text is not a yes."""


class State(IntEnum):
    """The position of a token in an answer: before or after the verdict, or after the closing."""

    BEFORE = 0
    AFTER = 1
    CLOSED = 2


class Piece(NamedTuple):
    """A part of an answer, and its role.

    Attributes:
        role: A `Role`, or ``value``, ``name``, ``signature``, ``left over``.
        start: Its first token.
        end: The token after its last one.
        slots: The contents of the slots of its pattern.
    """

    role: str
    start: int
    end: int
    slots: tuple[Bound, ...] = ()


LEFT_OVER: Final = "left over"
VALUE: Final = "value"
NAME: Final = "name"
SIGNATURE: Final = "signature"


class Parse(NamedTuple):
    """The cheapest cover of a text.

    Attributes:
        cost: How many tokens are left over.
        pieces: The parts of the text, without marks and line ends.
        problem: What is wrong with a value, in words for the person; "" for nothing.
    """

    cost: int
    pieces: tuple[Piece, ...]
    problem: str = ""


class Reader:
    """Finds the phrases of one language, and of English, in one text.

    Args:
        text: The text.
        context: The context of the request that it answers.
        code: The language.

    Attributes:
        tool: The tool of the request.
        ends_something: Whether the tool ends or holds something, and the text does not say so.
        reverses: Whether the tool undoes what its subject says, and the text does not say so.
    """

    def __init__(self, text: Text, context: ReplyContext, code: str) -> None:
        self.context = context
        self.languages: tuple[Language, ...] = (language("en"),)
        if code != "en":
            self.languages += (language(code),)
        self.text = _as_spelt(text, self.languages)
        self._orders = {word for one in self.languages for word in one.file.orders}
        self._author = (context.author,)
        self._people = (*context.people, context.author)
        self.tool = tool_of(tuple(context.called))
        self._called = self.tool.called
        # "Approve the payment" may mean not to hold it, unless the text says "hold".
        ends = self.tool.ends
        self.ends_something = bool(ends) and ends.isdisjoint(endings_in(self.text.text))
        # "Approve the order" may mean not to refund it, unless the text says "refund".
        said = any(is_reversal(one.text) for one in text.tokens)
        self.reverses = self.tool.reverses and not said
        self._found: dict[int, list[Match]] = {}
        self._slots: dict[tuple[str, int], tuple[int, ...]] = {}
        self._openings: tuple[int, ...] | None = None

    def phrases(self, at: int) -> list[Match]:
        """Return the phrases that begin at a token."""
        if at not in self._found:
            mark = self.text.tokens[at].text if at < len(self.text) else ""
            # Few phrases begin with a mark, such as "-1", and they never begin with a slot.
            begun = (one for one in self.languages if mark not in _BETWEEN or mark in one.phrases)
            self._found[at] = [
                found for one in begun for found in one.phrases.at(self.text.tokens, at, self.ends)
            ]
        return self._found[at]

    def longest(self, at: int, *roles: Role) -> Match | None:
        """Return the longest phrase of these roles that begins at a token."""
        found = [one for one in self.phrases(at) if one.role in roles]
        return max(found, key=lambda one: one.end, default=None)

    def ends(self, slot: str, at: int) -> tuple[int, ...]:
        """Return where the content of a slot may end."""
        key = (slot, at)
        if key not in self._slots:
            self._slots[key] = tuple(dict.fromkeys(self._fill(slot, at)))
        return self._slots[key]

    def _fill(self, slot: str, at: int) -> Iterator[int]:
        tokens = self.text.tokens
        if at >= len(tokens):
            return
        match slot:
            case "object":
                yield from self._objects(at)
            case "me":
                yield from self.names(at, self._author)
            case "number":
                if tokens[at].text.isdecimal() and len(tokens[at].text) <= _LONGEST_NUMBER:
                    yield at + 1
            case "duration":
                yield from (end for end, _ in self.durations(at))
            case "day" if self._has_digits(at, at + _MOST_WORDS_OF_A_DAY):
                for end in range(at + 1, min(at + _MOST_WORDS_OF_A_DAY, len(tokens)) + 1):
                    words = plain_line(self.text.words(at, end)).rstrip(".")
                    if read_date(words) is not None:
                        yield end
            case "person":
                for end in range(at + 1, min(at + _MOST_WORDS_OF_A_PERSON, len(tokens)) + 1):
                    if tokens[end - 1].text in (NEWLINE, ":", "?"):
                        return
                    yield end

    def _has_digits(self, start: int, end: int) -> bool:
        return any(token.text.isdecimal() for token in self.text.tokens[start:end])

    def _objects(self, at: int) -> Iterator[int]:
        tokens = self.text.tokens
        starts = {at}
        for one in self.languages:
            for found in one.nouns.at(tokens, at, no_slots):
                if found.role == Role.DETERMINER:
                    starts.add(found.end)
                elif self._means_the_request(found, at):
                    yield found.end
        for start in starts:
            end = start
            if start >= len(tokens) or tokens[start].text not in self._called:
                continue
            while end < min(start + _MOST_WORDS_OF_A_CALL, len(tokens)):
                if tokens[end].text not in self._called | {"_", "-"}:
                    break
                end += 1
                named = tokens[end - 1].text in self._called and len(tokens[end - 1].text) > 1
                named = named and not self._is_opposed() and self._is_no_label(at, end)
                named = named and (end > start + 1 or tokens[start].text not in self.tool.middle)
                named = named and (end > at + 1 or self._is_clear(at))
                if named and not self._names_a_denial(start, end):
                    yield end
                    if self.names_its_verb(end - 1) and self._is_a_person(end):
                        yield end + 1

    def _is_a_person(self, at: int) -> bool:
        """Say whether a token is a pronoun for the person whom a deed is about: "invite her"."""
        return at < len(self.text) and self.text.tokens[at].text in _PRONOUNS

    def _is_clear(self, at: int) -> bool:
        """Say whether a bare word of a name means the request: the "payment" of a tool's name.

        A word in the middle needs an article or more of the name, because alone it may be a limit
        or a condition: the "pending" of ``release_pending_payment``. "Ok, archived" may be what
        has happened meanwhile.
        """
        word = self.text.tokens[at].text
        if word in self.tool.names or word == self.tool.verb:
            return True
        if any(word.startswith(stems()[one.removeprefix(TOPIC)]) for one in ENDINGS):
            return False
        return word == self.tool.noun or any(map(word.startswith, stems().values()))

    def _is_no_label(self, at: int, end: int) -> bool:
        """Say whether words of the card are no name of a team: "Finance approved"."""
        tokens = self.text.tokens
        goes_on = end < len(tokens) and tokens[end].text not in _ENDS
        return not goes_on or any(one.text in self.tool.words for one in tokens[at:end])

    def _is_opposed(self) -> bool:
        """Say whether the tool undoes what its object says, and the text does not say so."""
        return self.ends_something or self.reverses

    def _means_the_request(self, found: Match, at: int) -> bool:
        """Say whether a noun means the request, and not what the tool ends or gives back."""
        if not found.role.startswith(TOPIC):
            words = {token.text for token in self.text.tokens[at : found.end]}
            return not self._is_opposed() or self._called.isdisjoint(words)
        if self.ends_something and found.role not in ENDINGS:
            return False
        if self.reverses and found.role != _REFUND:
            return False
        return self.tool.is_about(found.role.removeprefix(TOPIC))

    def names_its_verb(self, at: int) -> bool:
        """Say whether a token is the first word of the tool's name, which says what it does."""
        return at < len(self.text) and self.text.tokens[at].text == self.tool.verb

    def is_with_something(self, yes: Piece) -> bool:
        """Say whether a noun without an article may be a condition: "ok with changes"."""
        tokens = self.text.tokens
        return any(
            slot.start > yes.start
            and leads_values(word := tokens[slot.start - 1].text)
            and not is_spaceless(word[0])
            and tokens[slot.start].text not in self._called
            and not self._has_article(slot.start)
            for slot in yes.slots
        )

    def _has_article(self, at: int) -> bool:
        """Say whether an article, or another word for any request, is at a token."""
        return any(
            found.role in (Role.DETERMINER, Role.OBJECT)
            for one in self.languages
            for found in one.nouns.at(self.text.tokens, at, no_slots)
        )

    def _names_a_denial(self, start: int, end: int) -> bool:
        """Say whether words of the tool's name may deny: the "no" of ``charge_no_show_fee``.

        The name as it is written in code never denies.
        """
        words = self.text.words(start, end)
        if "_" in words and not any(map(str.isspace, words)):
            return False
        if self._is_a_stop(start, end):
            return True
        for at in range(start, end):
            if (self.text.tokens[at].text,) in stops():
                continue
            spaceless = is_spaceless(self.text.tokens[at].text[0])
            if self._denies(at, end if spaceless else at + 1, languages()):
                return True
        return False

    def _is_a_stop(self, start: int, end: int) -> bool:
        """Say whether words of the tool's name, without more of it, may end the request."""
        tokens = self.text.tokens
        words = [one.text for one in tokens[start:end] if one.text not in MARKS]
        if tuple(words) not in stops() and not (len({*words}) == 1 and (words[0],) in stops()):
            return False
        # At most one word, such as an article, is in between: "cancel the order".
        more = [one.text for one in tokens[end : end + 2]]
        return not more or more[0] in _BETWEEN or self._called.isdisjoint(more)

    def _denies(self, at: int, end: int, known: Iterable[Language]) -> bool:
        """Say whether a no, a doubt or a condition begins at a token and reaches an end."""
        tokens = self.text.tokens
        return (end == at + 1 and tokens[at].text in negations()) or any(
            found.role in _DENIALS and found.end >= end
            for one in known
            for found in one.phrases.at(tokens, at, no_slots)
        )

    def names(self, at: int, known: tuple[Names, ...] | None = None) -> Iterator[int]:
        """Yield where a person's name that begins at a token may end."""
        tokens, end = self.text.tokens, at
        for _ in range(_MOST_NAMES):
            found = max(one.word_at(tokens, end) for one in known or self._people)
            if not found:
                return
            end += found
            yield end
            # A hyphen between two names.
            if end + 1 < len(tokens) and tokens[end].text == "-":
                end += 1

    def own_name(self, at: int) -> int | None:
        """Return where the author's own name at a token ends, None if it is not their name.

        A name that is a no in the language of the reply is not a name: "OK, no".
        """
        end = max(self.names(at, self._author), default=None)
        return None if end is None or self._denies(at, end, self.languages) else end

    def addressed(self, at: int, *, greeted: bool, opens: bool = False) -> Iterator[int]:
        """Yield where the name of an addressed person that begins at a token may end.

        Args:
            at: The token.
            greeted: Whether a greeting comes before it. Any name may follow a greeting. Without
                one, a name that is a no in any language is not a name: "No, OK".
            opens: Whether it begins a reply. Any name with an honorific may begin a reply.
        """
        ends = {
            end
            for end in self.names(at)
            if greeted or not (self._denies(at, end, languages()) or self._limits(at))
        }
        ends |= {one.end for one in self.phrases(at) if one.role == Role.ADDRESS}
        for title in [one.end for one in self.phrases(at) if one.role == Role.TITLE]:
            abbreviated = title < len(self.text) and self.text.tokens[title].text == "."
            name = title + abbreviated
            ends |= set(self.names(name)) | set(self._capitalised(name))
        if greeted:
            unknown = self._capitalised(at)
            ends |= {end for end in unknown if not self._denies(at, end, languages())}
        if greeted or opens:
            ends |= set(self._honoured(at))
        for end in ends:
            for after in (end, *(one.end for one in self.phrases(end) if one.role == Role.TITLE)):
                if self.text.is_boundary(after):
                    yield after

    def _limits(self, at: int) -> bool:
        """Say whether a word in lower case may limit a yes, though it is a name: "ok, max"."""
        token = self.text.tokens[at]
        return (token.text,) in stops() and self.text.text[token.start].islower()

    def _capitalised(self, at: int) -> Iterator[int]:
        """Yield where an unknown name of one or two words may end: "Hi Anna,"."""
        for end in range(at + 1, min(at + 2, len(self.text)) + 1):
            token = self.text.tokens[end - 1]
            word = self.text.text[token.start : token.end]
            if not (word[:1].isupper() and word[:1].isalpha() and len(word) > 1):
                return
            yield end

    def _honoured(self, at: int) -> Iterator[int]:
        """Yield where an unknown name with an honorific may end.

        Words with hiragana do not count as names: "確認は田中さん" is a sentence. A no does not
        count either.
        """
        for end in range(at + 1, min(at + _LONGEST_HONOURED, len(self.text)) + 1):
            token = self.text.tokens[end - 1]
            parted = end - 1 > at and self.text.tokens[end - 2].end < token.start
            if not is_spaceless(token.text[0]) or is_hiragana(token.text[0]) or parted:
                return
            if self._denies(at, end, self.languages):
                return
            titles = (one.end for one in self.phrases(end) if one.role == Role.TITLE)
            yield from (title for title in titles if is_spaceless(self.text.tokens[end].text[0]))

    def durations(self, at: int) -> Iterator[tuple[int, timedelta]]:
        """Yield where a duration that begins at a token may end, and its length."""
        tokens, length = self.text.tokens, timedelta()
        for _ in range(_MOST_UNITS_OF_A_DURATION):
            if at >= len(tokens) or not tokens[at].text.isdecimal():
                return
            count = tokens[at].text
            if len(count) > _LONGEST_NUMBER:
                return
            units = [unit for one in self.languages for unit in one.units.items()]
            fitting = [
                (len(unit), minutes)
                for unit, minutes in units
                if tuple(one.text for one in tokens[at + 1 : at + 1 + len(unit)]) == unit
            ]
            if not fitting:
                return
            width, minutes = max(fitting)
            length += int(count) * timedelta(minutes=minutes)
            at += 1 + width
            yield at, length

    def openings(self) -> tuple[int, ...]:
        """Return where an answer may begin: at the start, after a greeting or after courtesies."""
        if self._openings is None:
            self._openings = self._open()
        return self._openings

    def _open(self) -> tuple[int, ...]:
        reached, order = {0}, [0]
        for at in order:
            if at >= len(self.text) or len(order) > _MOST_PIECES:
                continue
            step = _Step(0, 0, None, None)
            for edge in self._edges(at, State.BEFORE, step):
                if edge.state is State.BEFORE and not edge.cost and edge.end not in reached:
                    reached.add(edge.end)
                    order.append(edge.end)
        return tuple(sorted(reached))

    def signature_from(self, at: int) -> int:
        """Return the line end before the signature, or the end of the text.

        Args:
            at: The beginning of the content; a signature is on a line below it.
        """
        for newline in self.text.newlines:
            start = newline + 1
            if newline < at or start >= len(self.text):
                continue
            if self._signs(start):
                return newline
        return len(self.text)

    def _signs(self, start: int) -> bool:
        """Say whether a signature begins with a line."""
        line = self.text.line(start)
        if is_device_line(line) or self._disclaimer_end(start) is not None:
            return True
        end = self.text.line_end(start)
        stops = {one.end for one in self.phrases(start) if one.role == Role.CLOSING}
        stops |= set(self.names(start, self._author))
        for stop in {*stops, *(end for one in stops for end in self.names(one))}:
            rest = self.text.tokens[stop:end]
            if all(token.text in MARKS for token in rest):
                return True
        return False

    # -- the whole text ---------------------------------------------------------------------------

    def parse(self) -> Parse | None:
        """Return the cheapest cover of the text that has a yes in it, or None."""
        return self.cover(0, State.BEFORE)

    def harmless_from(self, start: int) -> Parse | None:
        """Return the cover of the text from a token on, if it is harmless and says nothing."""
        left = self.cover(start, State.AFTER)
        says = (Role.YES, Role.REPORT)
        if left is None or left.cost or any(one.role in says for one in left.pieces):
            return None
        return left

    def cover(self, start: int, state: State) -> Parse | None:
        """Return the cheapest cover of the text from a token on, None if there is none.

        From `State.BEFORE`, the cover must have a yes.
        """
        count = len(self.text)
        problem = ""
        best: dict[tuple[int, State], _Step] = {(start, state): _Step(0, 0, None, None)}
        for at in range(start, count):
            for here in State:
                step = best.get((at, here))
                if step is None or step.cost > _MOST_LEFT_OVER or step.length > _MOST_PIECES:
                    continue
                for edge in self._edges(at, here, step):
                    problem = problem or edge.problem
                    _improve(best, (at, here), step, edge)
        ends = [
            (best[count, one], one) for one in (State.AFTER, State.CLOSED) if (count, one) in best
        ]
        if not ends:
            return None
        last = min(ends, key=lambda end: end[0][:2])
        return Parse(last[0].cost, _pieces(best, (count, last[1])), problem)

    def _edges(self, at: int, state: State, step: _Step) -> Iterator[_Edge]:
        token = self.text.tokens[at]
        doubts = (self._is_hesitation, self._is_blank, self._is_unclosed, self._inverts)
        harmless = not any(one(at) for one in doubts)
        if (token.text in MARKS and harmless) or token.text == NEWLINE:
            yield _Edge(at + 1, state)
        else:
            yield _Edge(at + 1, state, Piece(LEFT_OVER, at, at + 1), cost=1)
        first = self.text.begins_line(at)
        if first:
            yield from self._lines(at, state)
        if state is State.BEFORE:
            yield from self._opening(at, first=first)
        if state is State.CLOSED:
            yield from self._closing(at, step)
        else:
            yield from self._body(at, state, step)

    def _is_hesitation(self, at: int) -> bool:
        """Say whether a mark is one of several points: "ok ..." is not a complete answer."""
        tokens, point = self.text.tokens, self.text.tokens[at].text
        if point not in _POINTS:
            return False
        before = takewhile(lambda one: one.text == point, reversed(tokens[max(at - 2, 0) : at]))
        behind = takewhile(lambda one: one.text == point, tokens[at + 1 : at + 3])
        return sum(1 for _ in before) + sum(1 for _ in behind) > 1

    def _is_blank(self, at: int) -> bool:
        """Say whether a mark begins a box or a line that nobody filled in: "( ) ok", "ok: __"."""
        tokens, mark = self.text.tokens, self.text.tokens[at].text
        if mark in _BOXES:
            end = at + 1
            while end < len(tokens) and tokens[end].text in MARKS and tokens[end].text not in ")|":
                end += 1
            closed = end < len(tokens) and tokens[end].text == _BOXES[mark]
            called = end == at + 1 and at and tokens[at - 1].text in self._called
            return closed and not (called and tokens[end].start == tokens[at - 1].end + 1)
        return mark == "_" and _has_gap(self.text.whole_line(at))

    def _is_unclosed(self, at: int) -> bool:
        """Say whether a mark is a bracket that nothing closes, or the mouth of a face: "ok :("."""
        tokens, mark = self.text.tokens, self.text.tokens[at].text
        if mark == "(":
            return all(one.text != ")" for one in tokens[at : self.text.line_end(at)])
        eyes = at > 0 and tokens[at - 1].text in ":;-" and tokens[at - 1].end == tokens[at].start
        return mark == "|" and eyes

    def _inverts(self, at: int) -> bool:
        """Say whether a mark is the "not" of program code: "!approved", but not "ok!yes"."""
        tokens = self.text.tokens
        if tokens[at].text != "!" or at + 1 >= len(tokens):
            return False
        begins = at == 0 or tokens[at - 1].end < tokens[at].start or tokens[at - 1].text == NEWLINE
        return begins and tokens[at].end == tokens[at + 1].start and tokens[at + 1].text.isalnum()

    def _lines(self, at: int, state: State) -> Iterator[_Edge]:
        """Yield the edges of lines that are read as a whole."""
        end = self.text.line_end(at)
        notes = [
            note.end
            for note in self.phrases(at)
            if note.role == Role.NOTE and note.end < end and self.text.tokens[note.end].text == ":"
        ]
        for colon in notes:
            yield _Edge(end, state, Piece(Role.NOTE, colon + 1, end))
        # "note: …" is a remark, unless the template of the request has such a field.
        asked = state is State.AFTER and not (notes and self.context.proposes)
        if asked and assignment(plain_line(self.text.line(at)), self.context.fields):
            yield _Edge(end, state, Piece(VALUE, at, end), length=-1)
        if state is not State.BEFORE:
            line = self.text.line(at)
            if line in _DASHES:
                yield _Edge(end, State.CLOSED, Piece(SIGNATURE, at, end))
            if is_device_line(line):
                yield _Edge(end, State.CLOSED, Piece(SIGNATURE, at, end))
            if (below := self._disclaimer_end(at)) is not None:
                yield _Edge(below, State.CLOSED, Piece(SIGNATURE, at, below))

    def _disclaimer_end(self, at: int) -> int | None:
        """Return the end of the paragraph, if it is a disclaimer from this line on."""
        end = at
        while end < len(self.text) and self.text.tokens[end].text != NEWLINE:
            end = self.text.line_end(end)
            if end + 1 < len(self.text) and self.text.tokens[end + 1].text != NEWLINE:
                end += 1
        if end <= at or not is_disclaimer(self.text.words(at, end), self.context.people):
            return None
        return end

    def _opening(self, at: int, *, first: bool) -> Iterator[_Edge]:
        """Yield the edges of greetings and of addressed names."""
        for found in self.phrases(at):
            if found.role != Role.GREETING or self._begins_a_denial(at, found.end):
                continue
            if self.text.is_boundary(found.end) and not self._may_defer(at, found.end):
                yield _Edge(found.end, State.BEFORE, Piece(Role.GREETING, at, found.end))
            for end in self.addressed(found.end, greeted=True):
                if not self._may_begin_an_answer(at, found.end):
                    yield _Edge(end, State.BEFORE, Piece(Role.GREETING, at, end))
        if first:
            own = self.own_name(at)
            for end in self.addressed(at, greeted=False, opens=True):
                if end == own or not self._attributes(at, end):
                    yield _Edge(end, State.BEFORE, Piece(NAME, at, end))

    def _begins_a_denial(self, at: int, end: int) -> bool:
        """Say whether a greeting is the beginning of a longer no: the "아" of "아니"."""
        return any(one.role in _DENIALS and one.end > end for one in self.phrases(at))

    def _may_defer(self, at: int, end: int) -> bool:
        """Say whether a greeting may also be the day of an answer: the "Morgen" of "Morgen, ok"."""
        defers = any(one.role == Role.UNSURE and one.end == end for one in self.phrases(at))
        return defers and not self.text.is_last_of_line(end)

    def _may_begin_an_answer(self, at: int, name: int) -> bool:
        """Say whether a name behind a greeting may be an answer: "Morgen passt, bitte machen"."""
        return self._may_defer(at, name) and self.longest(name, Role.YES) is not None

    def _attributes(self, at: int, end: int) -> bool:
        """Say whether a name says whose words follow: "Tom: approved", "Tom - approved".

        A dash may also follow the name of the requester, who is addressed.
        """
        if end + 1 >= len(self.text):
            return False
        tokens, goes_on = self.text.tokens, end + 1 < self.text.line_end(end)
        if tokens[end].text == ":":
            # Letters in Chinese begin with a name and a colon on a line of their own.
            chinese = self.text.words(end, end + 1) != ":" or is_spaceless(tokens[end - 1].text[0])
            return goes_on or not chinese
        asks = self.context.people[1:]
        named = bool(asks) and end in set(self.names(at, asks))
        addressed = named and any(one.text not in self._called for one in tokens[at:end])
        return tokens[end].text in _LABELS and goes_on and not addressed

    def _body(self, at: int, state: State, step: _Step) -> Iterator[_Edge]:
        """Yield the edges of phrases around a verdict."""
        if state is State.AFTER and step.last == Role.YES and not self._numbers(at, step):
            yield from self._values(at)
        if self._is_unit(at):
            return
        for found in self._whole(self.phrases(at), at):
            piece = Piece(found.role, at, found.end, found.slots)
            match found.role:
                case Role.YES if not self._runs_on(at, found.end):
                    yield _Edge(found.end, State.AFTER, piece)
                case Role.FOR_ME:
                    yield _Edge(found.end, state, piece)
                case Role.COURTESY if not self._completes_a_word(at):
                    yield from self._courtesy(piece, state)
                case Role.THANKS:
                    yield from self._courtesy(piece, state)
                case Role.AFTER | Role.GRANT | Role.REPORT if (
                    state is State.AFTER and self._may_follow(found, at)
                ):
                    yield _Edge(found.end, state, piece)
                case Role.CLOSING if state is State.AFTER and self._stands_alone(at):
                    yield from self._closed(piece)
        for end in self.ends("object", at) if not self._is_ordered(at, step) else ():
            if not self._splits_a_word(at, end):
                yield _Edge(end, state, Piece(Role.OBJECT, at, end))
        if state is State.AFTER and at and self.text.tokens[at - 1].text in MARKS | {NEWLINE}:
            yield from self._named(at)

    def _is_ordered(self, at: int, step: _Step) -> bool:
        """Say whether a word before an object is an order: "correct it", "change it"."""
        if self._stands_alone(at):
            return False
        before, here = (token.text for token in self.text.tokens[at - 1 : at + 1])
        if step.last in (Role.AFTER, Role.COURTESY):
            return before in self._orders
        pronoun = step.last == Role.OBJECT and here not in self._called
        return pronoun and (before,) in stops() and at + 1 in self.ends("object", at)

    def _named(self, at: int) -> Iterator[_Edge]:
        """Yield the author's own name, which closes an answer, and addressed names.

        Another person's name on a separate line is a signature of that person's text.
        """
        own = self.own_name(at)
        if own is not None and not self.text.begins_line(at) and self._denies(at, own, languages()):
            own = None
        if own is not None and self._stands_alone(at) and self.text.is_boundary(own):
            yield _Edge(own, State.CLOSED, Piece(NAME, at, own))
        if self.text.begins_line(at):
            return
        comma = self.text.tokens[at - 1].text in _COMMAS
        for end in self.addressed(at, greeted=False):
            # "Approved. Tom" and "Approved, Tom Weber" may be signed by Tom.
            if (not comma or self._is_full_name(at, end)) and self.text.is_last_of_line(end):
                continue
            if all(one.role != Role.ADDRESS or one.end != end for one in self.phrases(at)):
                yield _Edge(end, State.AFTER, Piece(NAME, at, end))

    def _is_full_name(self, at: int, end: int) -> bool:
        """Say whether a name from one token to another has several words, apart by spaces."""
        words = self.text.tokens[at:end]
        apart = end > at + 1 and all(one.text not in MARKS for one in words)
        return apart and not is_spaceless(words[0].text[0]) and end in set(self.names(at))

    def _completes_a_word(self, at: int) -> bool:
        """Say whether a Chinese character directly follows another one.

        "可以理解" means that something can be understood. It is not "可以" with a courtesy.
        """
        if not at:
            return False
        before, here = self.text.tokens[at - 1 : at + 1]
        return before.end == here.start and is_han(before.text[0]) and is_han(here.text[0])

    def _whole(self, found: Iterable[Match], at: int) -> Iterator[Match]:
        return (one for one in found if not self._splits_a_word(at, one.end))

    def _splits_a_word(self, at: int, end: int) -> bool:
        """Say whether a phrase begins inside a Korean word and has more words.

        "오케이 안 승인" does not have "이 안" (this plan) in it: it means "OK, not approved".
        """
        tokens = self.text.tokens
        inside = at > 0 and is_hangul(tokens[at].text[0]) and is_hangul(tokens[at - 1].text[0])
        return (
            inside
            and tokens[at - 1].end == tokens[at].start
            and any(one.end < other.start for one, other in pairwise(tokens[at:end]))
        )

    def _runs_on(self, at: int, end: int) -> bool:
        """Say whether a yes of one character is the beginning of a longer word.

        "好棒" is praise and not the yes "好". Only thanks may directly follow such a yes.
        """
        tokens = self.text.tokens
        single = end == at + 1 and is_spaceless(tokens[at].text[0])
        if not single or end >= len(tokens) or tokens[at].end < tokens[end].start:
            return False
        thanked = any(one.role == Role.THANKS for one in self.phrases(end))
        return not thanked and not self.text.is_boundary(end)

    def _is_unit(self, at: int) -> bool:
        """Say whether a word is written directly after a number: the "k" of "100k"."""
        if not at:
            return False
        before, here = self.text.tokens[at - 1 : at + 1]
        word = here.text[0].isalpha() and not is_spaceless(here.text[0])
        return word and before.end == here.start and before.text.isdecimal()

    def _stands_alone(self, at: int) -> bool:
        """Say whether a new sentence or line begins at a token."""
        return self.text.begins_line(at) or self.text.tokens[at - 1].text in MARKS

    def _may_follow(self, found: Match, at: int) -> bool:
        """Say whether a phrase may follow a yes here; "keep me posted" is a clause of its own.

        In scripts without spaces, marks must be around it: "承認完了したら知らせて" asks to be told
        when it is approved.
        """
        if found.role != Role.REPORT:
            return True
        spaceless = is_spaceless(self.text.tokens[at].text[0])
        return self.text.is_boundary(found.end) and (not spaceless or self._stands_alone(at))

    def _courtesy(self, piece: Piece, state: State) -> Iterator[_Edge]:
        """Yield a courtesy alone and with a name after it: "thanks Anna"."""
        if piece.end == piece.start + 1 and self._is_label(piece.end):
            return
        yield _Edge(piece.end, state, piece)
        tokens = self.text.tokens
        comma = piece.end < len(tokens) and tokens[piece.end].text == ","
        if not comma and piece.role != Role.THANKS:
            # "Prima Tom" means "great, Tom" in German and "Tom first" in Italian.
            return
        for end in self.addressed(piece.end + comma, greeted=False):
            yield _Edge(end, state, piece._replace(end=end))

    def _is_label(self, at: int) -> bool:
        """Say whether a colon follows, and not a smiley: "Legal: approved" quotes a team."""
        tokens = self.text.tokens
        if at + 1 >= len(tokens) or tokens[at].text != ":":
            return False
        return tokens[at + 1].text not in MARKS or tokens[at].end < tokens[at + 1].start

    def _closed(self, piece: Piece) -> Iterator[_Edge]:
        """Yield a closing, alone or with names after it, at the end of a sentence."""
        if self.text.is_boundary(piece.end):
            yield _Edge(piece.end, State.CLOSED, piece)
        for end in self.names(piece.end):
            if self.text.is_boundary(end) and not self._denies(piece.end, end, languages()):
                yield _Edge(end, State.CLOSED, piece._replace(end=end))

    def _closing(self, at: int, step: _Step) -> Iterator[_Edge]:
        """Yield the edges of phrases below a closing."""
        ends_here = (Role.CLOSING, Role.COURTESY, Role.THANKS)
        closings = [
            found
            for found in self.phrases(at)
            if found.role in ends_here and self.text.is_boundary(found.end)
        ]
        for found in closings:
            yield _Edge(found.end, State.CLOSED, Piece(found.role, at, found.end))
        own = self.own_name(at)
        if own is not None:
            yield _Edge(own, State.CLOSED, Piece(NAME, at, own))
        end = self.text.line_end(at)
        # Another person's name below a closing is a signature of that person's text.
        others = own is None and end in set(self.names(at))
        if not closings and not others and self._stands_alone(at):
            known = any(True for _ in self.context.author)
            first = step.last in (Role.CLOSING, Role.THANKS) and (
                known or self.text.begins_line(at)
            )
            if is_signature_line(self.text.line(at), self.context.author, first=first):
                yield _Edge(end, State.CLOSED, Piece(SIGNATURE, at, end))

    # -- values -----------------------------------------------------------------------------------

    def _values(self, at: int) -> Iterator[_Edge]:
        """Yield the edges of values after a yes."""
        if not fields_of(self.context.fields):
            return
        tokens, end = self.text.tokens, self.text.line_end(at)
        if at >= end or (tokens[at].text in MARKS and not self._is_sign(at)):
            return
        if self._is_rest_of_a_number(at):
            return
        given = self._given(at, end)
        if given.problem or not given.found:
            if given.problem:
                yield _Edge(end, State.AFTER, Piece(LEFT_OVER, at, end), end - at, given.problem)
            return
        if problem := self._misfit(given.found):
            yield _Edge(end, State.AFTER, Piece(LEFT_OVER, at, end), end - at, problem)
        else:
            yield _Edge(end, State.AFTER, Piece(VALUE, at, end))
        for stop in range(at + 1, min(end, at + _MOST_WORDS_OF_A_VALUE)):
            part = self._given(at, stop)
            if part.found and not part.problem and not self._misfit(part.found):
                if self._ends_a_value(stop):
                    yield _Edge(stop, State.AFTER, Piece(VALUE, at, stop))
                named = tokens[stop].text in self._words_of_fields(part.found)
                if named and not self._denies(stop, stop + 1, languages()):
                    yield _Edge(stop + 1, State.AFTER, Piece(VALUE, at, stop))

    def _numbers(self, at: int, step: _Step) -> bool:
        """Say whether a number may be that of the request, not a value: "approve refund 4711"."""
        slots = step.piece.slots if step.piece is not None else ()
        return self.text.tokens[at].text.isdecimal() and any(slot.end == at for slot in slots)

    def _is_rest_of_a_number(self, at: int) -> bool:
        """Say whether a mark with a space before it belongs to a number: the point of ".5"."""
        tokens = self.text.tokens
        if not at or tokens[at].text in MARKS or not tokens[at].text.isdecimal():
            return False
        before = tokens[at - 1]
        begins = at < 2 or tokens[at - 2].end < before.start
        own = before.text in MARKS and before.text not in _AROUND_VALUES
        return own and begins and before.end == tokens[at].start

    def _ends_a_value(self, at: int) -> bool:
        """Say whether a value may end before a token.

        Other words than "please" and "thanks" may be a part of the number: "500 k", "5 mil
        gracias".
        """
        return self.text.is_boundary(at) or any(
            one.role in (Role.AFTER, Role.FOR_ME) or (one.role == Role.THANKS and one.end == at + 1)
            for one in self.phrases(at)
        )

    def _given(self, at: int, end: int) -> Entries:
        return entries_on_line(plain_line(self.text.words(at, end)), self.context.fields)

    def _misfit(self, found: Iterable[tuple[str, str]]) -> str:
        try:
            parse_values(self.context.fields, dict(found), self.context.currencies)
        except PayloadError as error:
            return str(error)
        return ""

    def _words_of_fields(self, found: Iterable[tuple[str, str]]) -> set[str]:
        """Return the words of the names of fields: the "days" of ``approved_days``."""
        return {word for name, _ in found for word in phrase_tokens(name)}

    def _is_sign(self, at: int) -> bool:
        """Say whether a mark belongs to the value after it: the minus of "-3", a quote."""
        tokens = self.text.tokens
        glued = at + 1 < len(tokens) and tokens[at].end == tokens[at + 1].start
        number = glued and tokens[at + 1].text.isdecimal()
        return tokens[at].text == '"' or (tokens[at].text in "-." and number)


def _as_spelt(text: Text, known: tuple[Language, ...]) -> Text:
    """Return the text with the accents of words that a language writes without them.

    People leave accents out and never add one: "approvò" (he approved) is not "approvo" (I
    approve).
    """
    if text.text.isascii() and not any(one in text.text for one in _TEAMS):
        return text
    text = _without_teams(text)
    return text.replaced(
        token._replace(text=word.casefold()) if _is_another(token.text, word, known) else token
        for token in text.tokens
        for word in (text.text[token.start : token.end],)
    )


def _without_teams(text: Text) -> Text:
    """Return the text with the names of teams and countries that are also pronouns: "IT approved".

    In a text in capitals, "IT" behind other words is the pronoun: "PLEASE APPROVE IT".
    """
    words = [text.text[one.start : one.end] for one in text.tokens if one.text.isalpha()]
    loud = all(map(str.isupper, words)) and words[0] not in _TEAMS if words else False
    if loud:
        return text
    spelt = ((one, text.text[one.start : one.end]) for one in text.tokens)
    return text.replaced(one._replace(text=word) if word in _TEAMS else one for one, word in spelt)


def _is_another(folded: str, word: str, known: tuple[Language, ...]) -> bool:
    """Say whether a word differs from a word of the lexicon in an accent that it has."""
    if word.isascii() or not any(folded in one.words for one in known):
        return False
    accents = accents_in(word)
    return all(not accents <= one.accents.get(folded, frozenset()) for one in known)


def _has_gap(line: str) -> bool:
    """Say whether underscores draw a line to fill in: "_ ok", "ok: ___", but not "_ok_"."""
    if not any(map(str.isalnum, line)):
        return False
    plain = unicodedata.normalize("NFKC", line)
    return "_" in _EMPHASIS.sub("", _INSIDE_WORDS.sub("", plain))


def readers_of(text: Text, context: ReplyContext) -> list[Reader]:
    """Return a reader of English, and of each language that has a word in a text.

    Readers of other languages would find only what the English reader finds.
    """
    words = {token.text for token in text.tokens}
    found = (one.code for one in languages() if not one.words.isdisjoint(words))
    return [Reader(text, context, code) for code in dict.fromkeys(("en", *found))]


class _Edge(NamedTuple):
    end: int
    state: State
    piece: Piece | None = None
    cost: int = 0
    problem: str = ""
    length: int = 0


class _Step(NamedTuple):
    cost: int
    length: int
    came: tuple[int, State] | None
    piece: Piece | None
    last: str = ""


def _improve(
    best: dict[tuple[int, State], _Step], here: tuple[int, State], step: _Step, edge: _Edge
) -> None:
    cost = step.cost + edge.cost
    length = step.length + (edge.piece is not None) + edge.length
    known = best.get((edge.end, edge.state))
    if known is None or (cost, length) < known[:2]:
        last = edge.piece.role if edge.piece is not None else step.last
        best[edge.end, edge.state] = _Step(cost, length, here, edge.piece, last)


def _pieces(best: dict[tuple[int, State], _Step], end: tuple[int, State]) -> tuple[Piece, ...]:
    found: list[Piece] = []
    at: tuple[int, State] | None = end
    while at is not None:
        step = best[at]
        if step.piece is not None:
            found.append(step.piece)
        at = step.came
    return tuple(reversed(found))


def no_slots(slot: str, at: int) -> tuple[int, ...]:
    """Fill no slot: for phrases without slots."""
    return ()
