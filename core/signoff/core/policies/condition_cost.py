"""Estimates the cost of an expression before it is evaluated.

CEL always terminates, but can be slow: three nested ``all`` over 400 items take a minute, which
blocks the process. The policy determines the depth of the loops, and the call the length of its
lists, so the estimate multiplies the two. Its constants are measured: `cel` copies the whole value
of a name each time it is read, and the result of ``map`` and ``filter`` each time they add to it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from pydantic import JsonValue

MOST: Final = 2_000_000
"""The highest cost of an expression: about half a second, in units of one copied value."""

DEEPEST: Final = 64
"""The deepest nesting of values."""

_CHARACTERS: Final = 256
"""The characters of a text that cost as much as one value."""

_TURN: Final = 4
_LETTERS: Final = 3
"""The cost of an iteration, and the letters of a loop's body that cost as much as one value."""

_PATTERN: Final = 1_000
"""The cost of a regular expression, which is compiled each time it is used."""

LITERAL: Final = re.compile(
    r"""[bB]?[rR][bB]?(?:'''.*?'''|\"\"\".*?\"\"\"|'[^'\n]*'|"[^"\n]*")"""  # raw: no escapes
    r"""|[bB]?(?:'''(?:\\.|.)*?'''|\"\"\"(?:\\.|.)*?\"\"\")"""
    r"""|[bB]?(?:'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")"""
    r"""|//[^\n]*""",
    re.DOTALL,
)
"""A text or a comment in an expression."""

_LOOP: Final = re.compile(
    r"\.\s*(all|exists|exists_one|existsOne|map|filter)\s*\(\s*([A-Za-z_]\w*)\s*,"
)
_GATHERING: Final = frozenset({"map", "filter"})
_RANGE: Final = re.compile(r"([A-Za-z_]\w*)(?:\s*\.\s*[A-Za-z_]\w*|\s*\[[^\[\]]*\])*\s*\Z")
_MATCHES: Final = re.compile(r"\bmatches\s*\(")
_NAME: Final = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_WORDS: Final = frozenset({"true", "false", "null", "in", "size", "has", "int", "double", "string"})
"""Names that are not facts; a missing one only makes a loop look more expensive."""


class Size(NamedTuple):
    """The size of facts in values; a long text counts as several.

    Attributes:
        whole: The size of all facts.
        longest: The length of the longest list or map.
        element: The size of the largest value over which a loop can iterate: an element of a list
            or a key of a map.
    """

    whole: int
    longest: int
    element: int


class Loop(NamedTuple):
    """A loop with the loops around it.

    Attributes:
        times: The factors of how often its body is evaluated: True for a list that may be any of
            the facts, False for a list inside the elements of an outer loop.
        turn: The cost of its body for each iteration, without copies.
        reads: Whether its body reads facts, and not only the variables of the loops.
    """

    times: tuple[bool, ...]
    turn: int
    reads: bool


class Weighed(dict[str, JsonValue]):
    """Facts for many expressions, whose size is computed once. They must not be changed."""

    @cached_property
    def size(self) -> Size | None:
        """The size of the facts, None if they are nested too deeply."""
        return size_of(dict(self))


def cost(source: str, facts: Mapping[str, JsonValue]) -> float:
    """Return the highest cost of an expression on these facts; infinity if they are too deep."""
    size = facts.size if isinstance(facts, Weighed) else size_of(dict(facts))
    if size is None:
        return math.inf
    total = float(size.whole)
    for loop in loops(source):
        times = math.prod(size.longest if any_list else size.whole for any_list in loop.times)
        total += times * (loop.turn + (size.whole if loop.reads else size.element))
    return total


def variables_of_loops(source: str) -> frozenset[str]:
    """Return the names that the loops of an expression give to the items."""
    return frozenset(found[2] for found in _LOOP.finditer(source))


def size_of(value: JsonValue) -> Size | None:
    """Return the size of a value, None if it is nested too deeply."""
    longest = element = 1

    def weigh(part: JsonValue, depth: int) -> int:
        nonlocal longest, element
        if depth > DEEPEST:
            raise RecursionError
        if isinstance(part, str):
            return 1 + len(part) // _CHARACTERS
        if part is None or isinstance(part, int | float):
            return 1
        if isinstance(part, Mapping):
            gone_through = [weigh(key, depth) for key in part]
            beside = sum(weigh(one, depth + 1) for one in part.values())
        elif isinstance(part, list | tuple):
            gone_through, beside = [weigh(one, depth + 1) for one in part], 0
        else:
            return 1
        longest = max(longest, len(gone_through))
        element = max(element, *gone_through, 1)
        return 1 + sum(gone_through) + beside

    try:
        whole = weigh(value, 0)
    except RecursionError:
        return None
    return Size(whole, longest, element)


@lru_cache(maxsize=1024)
def loops(source: str) -> tuple[Loop, ...]:
    """Return the loops of an expression, the outermost first."""
    return tuple(_loops(LITERAL.sub('""', source), (), {}))


def _loops(text: str, around: tuple[bool, ...], bound: Mapping[str, int | None]) -> Iterator[Loop]:
    """Yield the loops of a part of an expression.

    Args:
        text: The part, without literals.
        around: The factors of the loops around it.
        bound: The variables of these loops, each with the place of its factor; None if another
            loop already iterates over its elements.
    """
    end = 0
    for found in _LOOP.finditer(text):
        if found.start() < end:
            continue  # inside the previous loop, which has yielded it
        end = _closing(text, found.end())
        body, name = text[found.end() : end], found[2]
        head = _RANGE.search(text[: found.start()])
        place = bound.get(head[1]) if head else None
        inner = dict(bound)
        if head is None or place is None:
            times, inner[name] = (*around, True), len(around)
        else:
            # All elements of all elements are at most as many as there are values.
            times = (*around[:place], False, *around[place + 1 :])
            inner[head[1]], inner[name] = None, place
        if found[1] in _GATHERING:
            times = (*times, True)
        turn = _TURN + len(body) // _LETTERS + _PATTERN * len(_MATCHES.findall(body))
        yield Loop(times, turn, _reads(body, inner))
        yield from _loops(body, times, inner)


def _reads(body: str, bound: Iterable[str]) -> bool:
    known = {*bound, *_WORDS, *(found[2] for found in _LOOP.finditer(body))}
    return not known.issuperset(_NAME.findall(body))


def _closing(text: str, start: int) -> int:
    """Return where the bracket that was opened before a place is closed."""
    depth = 1
    for place in range(start, len(text)):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if not depth:
            return place
    return len(text)
