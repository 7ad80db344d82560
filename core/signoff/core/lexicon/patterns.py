"""Patterns of the lexicon: phrases with choices, and how to find them in a text.

A pattern is a line of words with four signs::

    (a|b c)    one of these          [a]    may be left out
    {slot}     a part whose words depend on the request or the text: an object, a name, a duration
    <part>     a named pattern of the same file

``[i] [hereby] (approve|accept) [{object}]`` stands for "approve", "I hereby approve it" and so on.
Patterns are compiled to a graph of words without empty steps, so that a text is matched in one pass
for any number of patterns.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from signoff.core.lexicon.tokens import (
    Token,
    is_spaceless,
    phrase_tokens,
)

_OPEN: Final = {"(": ")", "[": "]"}
_DEEPEST: Final = 8
_UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
_SINGLE: Final = 1 << 31
"""Added to the number of a node, it is the number of a list with only this node."""

Ends = Callable[[str, int], Iterable[int]]
"""Returns where the content of a slot may end, given the slot and its first token."""


class Bound(NamedTuple):
    """The content of a slot: the first token, and the one after the last."""

    slot: str
    start: int
    end: int


class Match(NamedTuple):
    """A phrase found in a text.

    Attributes:
        role: What the phrase is.
        end: The token after its last one.
        slots: What fills its slots.
    """

    role: str
    end: int
    slots: tuple[Bound, ...] = ()


class _Kind(IntEnum):
    """What a node of the graph stands for."""

    WORD = 0
    SLOT = 1
    END = 2


class _Graph:
    """The nodes of all patterns: the words and slots, and what may follow each of them.

    Nodes and lists of nodes are numbers. As objects, those of all languages take 10 MiB more.

    Attributes:
        names: The words, the names of the slots, and the roles; nodes have their numbers.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        # A language has about 15,000 nodes. With more than 65,536, `array` raises OverflowError.
        self._named = array("H")
        self._kinds = bytearray()
        self._after = array("I")
        self._lists = array("H")
        self._starts = array("I", [0])

    def add(self, name: int, kind: _Kind, after: int) -> int:
        """Return a new node.

        Args:
            name: The number of the word, of the name of the slot, or of the role of the pattern
                that ends here.
            kind: What it stands for.
            after: The list of nodes that may follow.
        """
        self._named.append(name)
        self._kinds.append(kind)
        self._after.append(after)
        return len(self._named) - 1

    def add_list(self, nodes: array[int]) -> int:
        """Return a new list of nodes."""
        self._lists.extend(nodes)
        self._starts.append(len(self._lists))
        return len(self._starts) - 2

    def listed(self, one: int) -> array[int]:
        """Return the nodes of a list."""
        if one & _SINGLE:
            return array("H", [one ^ _SINGLE])
        return self._lists[self._starts[one] : self._starts[one + 1]]

    def words(self) -> frozenset[str]:
        """Return the words of all nodes."""
        pairs = set(zip(self._named, self._kinds, strict=True))
        return frozenset(self.names[name] for name, kind in pairs if kind == _Kind.WORD)

    def state(self, nodes: Iterable[int]) -> _State:
        """Return the state of a text that has reached these nodes."""
        kinds: tuple[dict[str, array[int]], ...] = ({}, {}, {})
        for node in nodes:
            name = self.names[self._named[node]]
            kinds[self._kinds[node]].setdefault(name, array("H")).append(node)
        words, slots, ends = kinds
        return _State(self, _packed(words), _packed(slots), tuple(ends))

    def state_after(self, nodes: bytes) -> _State:
        """Return the state of a text after one of these nodes."""
        lists = dict.fromkeys(self._after[node] for node in array("H", nodes))
        return self.state(dict.fromkeys(node for one in lists for node in self.listed(one)))


def _packed(found: Mapping[str, array[int]]) -> dict[str, bytes]:
    """Return lists of nodes as bytes, which take half of their memory."""
    return {name: nodes.tobytes() for name, nodes in found.items()}


class _State:
    """The nodes that a text has reached, and the possible next words; created on demand."""

    __slots__ = ("_graph", "_moves", "_open", "_slots", "_words", "roles")

    def __init__(
        self,
        graph: _Graph,
        words: dict[str, bytes],
        slots: dict[str, bytes],
        roles: tuple[str, ...],
    ) -> None:
        self._graph = graph
        self._words = words
        self._slots = slots
        self._moves: dict[str, _State] = {}
        self._open: tuple[tuple[str, _State], ...] | None = None
        self.roles = roles

    def __contains__(self, word: str) -> bool:
        """Say whether a word may follow."""
        return word in self._words

    def move(self, word: str) -> _State | None:
        """Return the state after a word, None if the word cannot follow."""
        if word not in self._words:
            return None
        if word not in self._moves:
            self._moves[word] = self._graph.state_after(self._words[word])
        return self._moves[word]

    def slots(self) -> tuple[tuple[str, _State], ...]:
        """Return the slots that may follow, and the state after each."""
        if self._open is None:
            self._open = tuple(
                (slot, self._graph.state_after(nodes)) for slot, nodes in self._slots.items()
            )
        return self._open


def in_ascii(text: str) -> str:
    """Return a text as it is spelt without umlauts: "loesche"."""
    return text.translate(_UMLAUTS)


class Phrases:
    """All patterns of a language, by role.

    Args:
        patterns: The patterns of each role.
        parts: Named patterns that others refer to.
        umlauts: Whether "ae", "oe" and "ue" also stand for umlauts.

    Raises:
        ValueError: A pattern is invalid; the message contains it.
    """

    def __init__(
        self,
        patterns: Mapping[str, Iterable[str]],
        parts: Mapping[str, str] | None = None,
        *,
        umlauts: bool = False,
    ) -> None:
        self._graph = graph = _Graph()
        reader = _Reader(graph, parts or {}, umlauts=umlauts)
        nodes = array("H")
        for role, lines in patterns.items():
            for line in lines:
                nodes += reader.compiled(line, role)
            reader.forget_nodes()
        self._start = graph.state(nodes)

    def __contains__(self, word: str) -> bool:
        """Say whether a phrase begins with this word."""
        return word in self._start

    def words(self) -> frozenset[str]:
        """Return every word of every pattern."""
        return self._graph.words()

    def at(self, tokens: Sequence[Token], start: int, ends: Ends) -> list[Match]:
        """Return the phrases that begin at a token, each role and end once.

        If a phrase can be read in two ways, its slots are as short as possible: the name in
        "forward it to Tom" is "Tom", even if a name could be longer.

        Args:
            tokens: The text.
            start: The token.
            ends: Fills the slots.
        """
        found: dict[tuple[str, int], tuple[int, Match]] = {}
        seen: dict[tuple[_State, int], int] = {}
        work: list[tuple[_State, int, tuple[Bound, ...], int]] = [(self._start, start, (), 0)]
        while work:
            state, at, slots, width = work.pop()
            if seen.get((state, at), width + 1) <= width:
                continue
            seen[state, at] = width
            for role in state.roles:
                if found.get((role, at), (width + 1,))[0] > width:
                    found[role, at] = width, Match(role, at, slots)
            if at >= len(tokens):
                continue
            for slot, after in state.slots():
                work += [
                    (after, end, (*slots, Bound(slot, at, end)), width + end - at)
                    for end in ends(slot, at)
                ]
            moved = state.move(tokens[at].text)
            if moved is not None:
                work.append((moved, at + 1, slots, width))
        return [match for _, match in found.values()]


class _Reader:
    """Parses patterns from left to right into trees, and compiles these from right to left.

    Patterns with the same ending share its nodes, which are most of all nodes.
    """

    def __init__(self, graph: _Graph, parts: Mapping[str, str], *, umlauts: bool) -> None:
        self._graph = graph
        self._parts = parts
        self._umlauts = umlauts
        self._numbers: dict[str, int] = {}
        self._read: dict[str, _Choice] = {}
        self._nodes: dict[tuple[str, _Kind, int], int] = {}
        self._lists: dict[tuple[int, ...], int] = {}
        self._line = ""

    def compiled(self, line: str, role: str) -> array[int]:
        """Return the first nodes of a pattern.

        Raises:
            ValueError: It cannot be read.
        """
        self._line = line
        end = self._node(role, _Kind.END, self._listed(array("H")))
        nodes = self._graph.listed(self._compile(self._tree(line, 0), end))
        if end ^ _SINGLE in nodes:
            raise ValueError(f"The pattern {line!r} matches nothing at all.")
        return nodes

    def forget_nodes(self) -> None:
        """Free the index of nodes: patterns of other roles have other endings and share none."""
        self._nodes.clear()
        self._lists.clear()

    def _compile(self, part: _Part, after: int) -> int:
        """Return the list of the first nodes of a part before others."""
        if isinstance(part, _Word):
            return self._node(part.word, _Kind.SLOT if part.slot else _Kind.WORD, after)
        entries = array("H")
        for option in part.options:
            nodes = after
            for one in reversed(option):
                nodes = self._compile(one, nodes)
            entries += self._graph.listed(nodes)
        if part.optional:
            entries += self._graph.listed(after)
        return self._listed(entries)

    def _node(self, name: str, kind: _Kind, after: int) -> int:
        """Return the list with only this node."""
        key = (name, kind, after)
        if key not in self._nodes:
            self._nodes[key] = self._graph.add(self._number(name), kind, after)
        return self._nodes[key] | _SINGLE

    def _number(self, name: str) -> int:
        """Return the number of a name."""
        if name not in self._numbers:
            self._numbers[name] = len(self._graph.names)
            self._graph.names.append(name)
        return self._numbers[name]

    def _listed(self, nodes: array[int]) -> int:
        """Return the unique list of these nodes."""
        if len(nodes) == 1:
            return nodes[0] | _SINGLE
        key = tuple(nodes)
        if key not in self._lists:
            self._lists[key] = self._graph.add_list(nodes)
        return self._lists[key]

    def _tree(self, text: str, depth: int) -> _Choice:
        if depth > _DEEPEST:
            raise ValueError(f"The pattern {self._line!r} is nested too deeply, or in a circle.")
        options = (tuple(self._sequence(one, depth)) for one in _split(text, self._line))
        return _Choice(tuple(options))

    def _part(self, name: str, depth: int) -> _Choice:
        if name not in self._parts:
            raise ValueError(f"The pattern {self._line!r} names <{name}>, which is no part.")
        if name not in self._read:
            self._read[name] = self._tree(self._parts[name], depth)
        return self._read[name]

    def _sequence(self, text: str, depth: int) -> Iterator[_Part]:
        at = 0
        while at < len(text):
            mark = text[at]
            if mark in "([{<" and at and _is_letter(text[at - 1]):
                raise ValueError(f"The pattern {self._line!r} needs a space before {text[at:]!r}.")
            if mark in _OPEN:
                end = _closing(text, at, self._line)
                yield self._tree(text[at + 1 : end], depth + 1)._replace(optional=mark == "[")
            elif mark == "{":
                end = self._end_of(text, at, "}")
                yield _Word(text[at + 1 : end], slot=True)
            elif mark == "<":
                end = self._end_of(text, at, ">")
                yield self._part(text[at + 1 : end], depth + 1)
            else:
                found = (one for one in map(text.find, "([{<", [at] * 4) if one >= 0)
                end = min(found, default=len(text)) - 1
                yield from self._words(text[at : end + 1])
            at = end + 1

    def _words(self, text: str) -> Iterator[_Part]:
        plain = phrase_tokens(text)
        spelt = phrase_tokens(in_ascii(text)) if self._umlauts else plain
        for word, other in zip(plain, spelt, strict=True):
            yield _Word(word) if word == other else _Choice(((_Word(word),), (_Word(other),)))

    def _end_of(self, text: str, at: int, mark: str) -> int:
        end = text.find(mark, at)
        if end < 0:
            raise ValueError(f"The pattern {self._line!r} has no {mark!r} for its {text[at]!r}.")
        return end


class _Word(NamedTuple):
    word: str
    slot: bool = False


class _Choice(NamedTuple):
    options: tuple[tuple[_Word | _Choice, ...], ...]
    optional: bool = False


_Part = _Word | _Choice


def _is_letter(mark: str) -> bool:
    return mark.isalnum() and not is_spaceless(mark)


def _split(text: str, line: str) -> Iterator[str]:
    """Yield the parts between bars outside of brackets."""
    at = start = 0
    while at < len(text):
        if text[at] in _OPEN:
            at = _closing(text, at, line)
        elif text[at] == "|":
            yield text[start:at]
            start = at + 1
        at += 1
    yield text[start:]


def _closing(text: str, at: int, line: str) -> int:
    waiting: list[str] = []
    for place in range(at, len(text)):
        mark = text[place]
        if mark in _OPEN:
            waiting.append(_OPEN[mark])
        elif waiting and mark == waiting[-1]:
            waiting.pop()
            if not waiting:
                return place
    raise ValueError(f"The pattern {line!r} has a bracket that does not close.")
