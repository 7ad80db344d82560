"""What evaluating an expression may cost, estimated before it is evaluated.

CEL always ends, but not soon: ``all`` inside of ``all`` inside of ``all`` over 400 items takes a
minute, and nothing else can be done meanwhile in the process that evaluates it. Who wrote the
policy decides how deep its loops are; who made the call, how long its lists are. So the two are
multiplied first. The numbers behind it are measured: `cel` copies a name's whole value each time it
is read, and what ``map`` and ``filter`` have gathered each time they add to it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from pydantic import JsonValue

MOST: Final = 2_000_000
"""What an expression may cost: about half a second, in units of one value that is copied."""

DEEPEST: Final = 64
"""How deep values may be nested."""

_CHARACTERS: Final = 256
"""How many characters of a text cost as much as one value."""

_TURN: Final = 4
_LETTERS: Final = 3
"""What a turn of a loop costs, and how many letters of its body cost as much as one value."""

_PATTERN: Final = 1_000
"""What a regular expression costs, which is compiled each time it is used."""

_LITERAL: Final = re.compile(
    r"""[bB]?[rR][bB]?(?:'''.*?'''|\"\"\".*?\"\"\"|'[^'\n]*'|"[^"\n]*")"""  # raw: no escapes
    r"""|[bB]?(?:'''(?:\\.|.)*?'''|\"\"\"(?:\\.|.)*?\"\"\")"""
    r"""|[bB]?(?:'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")"""
    r"""|//[^\n]*""",
    re.DOTALL,
)
_LOOP: Final = re.compile(
    r"\.\s*(all|exists|exists_one|existsOne|map|filter)\s*\(\s*([A-Za-z_]\w*)\s*,"
)
_GATHERING: Final = frozenset({"map", "filter"})
_RANGE: Final = re.compile(r"([A-Za-z_]\w*)(?:\s*\.\s*[A-Za-z_]\w*|\s*\[[^\[\]]*\])*\s*\Z")
_MATCHES: Final = re.compile(r"\bmatches\s*\(")
_NAME: Final = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_WORDS: Final = frozenset({"true", "false", "null", "in", "size", "has", "int", "double", "string"})
"""Names that are no facts; one that is not here only makes a loop look dearer."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large facts are, in values; a text counts as several.

    Attributes:
        whole: All of them.
        longest: The most elements that one list or map has.
        element: The largest that a loop goes through, with what is in it: elements of lists, and
            keys of maps.
    """

    whole: int
    longest: int
    element: int


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop, with those around it.

    Attributes:
        times: How often its body is evaluated, as factors: a True for each list that may be any of
            the facts, a False for each that is inside of what a loop around it goes through.
        turn: What its body costs each time, without what it copies.
        reads: Whether its body reads facts, and not only what the loops have bound.
    """

    times: tuple[bool, ...]
    turn: int
    reads: bool


class Weighed(dict[str, JsonValue]):
    """Facts that many expressions see, and whose size is reckoned once; nobody changes them."""

    @cached_property
    def size(self) -> Size | None:
        """How large they are, None where they are nested too deeply."""
        return size_of(dict(self))


def cost(source: str, facts: Mapping[str, JsonValue]) -> float:
    """Return what an expression costs at most on these facts; infinity where they are too deep."""
    size = facts.size if isinstance(facts, Weighed) else size_of(dict(facts))
    if size is None:
        return math.inf
    total = float(size.whole)
    for loop in loops(source):
        times = math.prod(size.longest if any_list else size.whole for any_list in loop.times)
        total += times * (loop.turn + (size.whole if loop.reads else size.element))
    return total


def size_of(value: JsonValue) -> Size | None:
    """Return how large a value is, None where it is nested too deeply."""
    longest = element = 1

    def weigh(part: JsonValue, depth: int) -> int:
        nonlocal longest, element
        if depth > DEEPEST:
            raise RecursionError
        if isinstance(part, str):
            return 1 + len(part) // _CHARACTERS
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
    return tuple(_loops(_LITERAL.sub('""', source), (), {}))


def _loops(text: str, around: tuple[bool, ...], bound: Mapping[str, int | None]) -> Iterator[Loop]:
    """Yield the loops of a part of an expression.

    Args:
        text: The part, without literals.
        around: The factors of the loops around it.
        bound: The names that those have bound, each with the place of its factor; None where
            another loop goes through its elements already.
    """
    end = 0
    for found in _LOOP.finditer(text):
        if found.start() < end:
            continue  # inside of the one before, which has yielded it
        end = _closing(text, found.end())
        body, name = text[found.end() : end], found[2]
        head = _RANGE.search(text[: found.start()])
        place = bound.get(head[1]) if head else None
        inner = dict(bound)
        if head is None or place is None:
            times, inner[name] = (*around, True), len(around)
        else:
            # All elements of all elements are no more than there are values.
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
    """Return where the bracket is closed that was opened before a place."""
    depth = 1
    for place in range(start, len(text)):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if not depth:
            return place
    return len(text)
