"""Compares conditions without a call: which can never be true, and which cover others.

A condition is taken apart into alternatives (``||``), each of parts (``&&``) that must all be true.
Parts that compare one value with numbers, texts or booleans are understood; any other part is only
known to be equal to itself. So what is found here holds, but not everything is found.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Final, Self

from signoff.core.policies.condition_cost import LITERAL

Literal = tuple[type, float | str]
"""A text, number or boolean in a condition. In CEL, values of different types are never equal."""

_MOST: Final = 64
_DEEPEST: Final = 32
"""The most alternatives, and the deepest nesting, of a condition that is taken apart."""

_EXACT: Final = 2**53
"""Larger whole numbers are not exact as floats, so comparisons with them are not understood."""

_HELD: Final = re.compile("\0([0-9]+)\0")
_BLANK: Final = re.compile(r"(?<=\w)\s+(?=\w)|(\s+)")
_NOW: Final = re.compile(r"\bnow\.")
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_PLAIN: Final = re.compile(r"""(?:"([^"\\\n]*)"|'([^'\\\n]*)')""")
_HAS: Final = re.compile(r"has\(([^()]+)\)")
_RELATION: Final = re.compile(r"(.*?[^<>=!])(<=|>=|==|!=|<|>)([^<>=!].*)")
_MEMBER: Final = re.compile(r"([\w.«»/+-]+) in\[(.*)\]")
_NO_NAME: Final = re.compile(r"[<>=!?]|&&|\|\|")
_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


@dataclass(frozen=True, slots=True)
class Values:
    """The values that a name may have.

    Attributes:
        low: The lower bound of a number.
        high: The upper bound of a number.
        above: Whether the lower bound itself is excluded.
        below: Whether the upper bound itself is excluded.
        only: The values, None for any.
        other: Values that are excluded.
    """

    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    below: bool = False
    only: frozenset[Literal] | None = None
    other: frozenset[Literal] = frozenset()

    def has(self, value: Literal) -> bool:
        """Say whether this is one of the values."""
        if value in self.other or (self.only is not None and value not in self.only):
            return False
        if (self.low, self.high) == (-math.inf, math.inf):
            return True
        found = value[1]
        if isinstance(found, str):
            return False
        over = found > self.low if self.above else found >= self.low
        return over and (found < self.high if self.below else found <= self.high)

    @property
    def is_empty(self) -> bool:
        """Whether there is no such value."""
        if self.only is not None:
            return not any(map(self.has, self.only))
        if self.low == self.high:
            return not self.has((float, self.low))
        return self.low > self.high

    def both(self, more: Values) -> Values:
        """Return the values that are among these and among others."""
        low, high = max(self.low, more.low), min(self.high, more.high)
        only = more.only if self.only is None else self.only
        if self.only is not None and more.only is not None:
            only = self.only & more.only
        return Values(
            low=low,
            high=high,
            above=any(one.above for one in (self, more) if one.low == low),
            below=any(one.below for one in (self, more) if one.high == high),
            only=only,
            other=self.other | more.other,
        )

    def within(self, wider: Values) -> bool:
        """Say whether all of these values are among others."""
        if self.only is not None:
            return all(wider.has(one) for one in self.only if self.has(one))
        if wider.only is not None or any(map(self.has, wider.other)):
            return False
        over = wider.low < self.low or (wider.low == self.low and self.above >= wider.above)
        under = wider.high > self.high or (wider.high == self.high and self.below >= wider.below)
        return over and under


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way in which a condition is true: all of this holds.

    Attributes:
        parts: The parts as texts.
        names: The values of the names and expressions that are compared, such as ``args.amount``.
        fields: The fields that must exist, by ``has(args.amount)``.
        others: The parts that are not understood.
    """

    parts: frozenset[str]
    names: Mapping[str, Values]
    fields: tuple[str, ...]
    others: frozenset[str]

    @classmethod
    def of(cls, parts: Iterable[str]) -> Self:
        """Return the alternative with these parts."""
        names, fields, others = dict[str, Values](), list[str](), set[str]()
        every = frozenset(parts)
        for part in sorted(every):
            if compared := _compared(part):
                name, values = compared
                names[name] = names.get(name, Values()).both(values)
            elif has := _HAS.fullmatch(part):
                fields.append(has[1])
            else:
                others.add(part)
        # Most policies differ in their tool, so names with few values are compared first.
        ordered = sorted(names.items(), key=lambda one: one[1].only is None)
        return cls(every, dict(ordered), tuple(fields), frozenset(others))

    @property
    def contrary(self) -> str:
        """The name for which no value is left, "" if it can hold."""
        return next((name for name, values in self.names.items() if values.is_empty), "")

    def implies(self, other: Alternative) -> bool:
        """Say whether another one holds whenever this one does."""
        if not other.others <= self.others:
            return False
        for name, values in other.names.items():
            mine = self.names.get(name)
            if mine is None or not mine.within(values):
                return False
        return all(map(self._has, other.fields))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts that a name may have, in order; empty if it may have any."""
        values = self.names.get(name, Values())
        only = [one for one in values.only or () if values.has(one)]
        return tuple(sorted(str(found) for kind, found in only if kind is str))

    def _has(self, field: str) -> bool:
        """Say whether a field exists whenever this holds, because it is compared."""
        compared = (
            one == field or one.startswith((f"{field}.", f"{field}[")) for one in self.names
        )
        return field in self.fields or any(compared)


@lru_cache(maxsize=1024)
def alternatives(source: str, time_zone: str = "") -> tuple[Alternative, ...]:
    """Return the alternatives of a condition, of which one holds whenever it is true.

    An empty condition, which is always true, has one alternative without parts.

    Args:
        source: The expression.
        time_zone: The time zone of `now`; parts in different zones are never equal.
    """
    if "\0" in source:
        return (Alternative(frozenset({source}), {}, (), frozenset({source})),)
    held: list[str] = []

    def hold(found: re.Match[str]) -> str:
        held.append(found[0])
        return f"\0{len(held) - 1}\0" if not found[0].startswith("//") else " "

    text = _BLANK.sub(lambda one: "" if one[1] else " ", LITERAL.sub(hold, source).strip())
    if time_zone:
        text = _NOW.sub(f"now«{time_zone}».", text)
    found = []
    for parts in _taken_apart(text, 0):
        whole = (_HELD.sub(lambda one: held[int(one[1])], part) for part in parts)
        found.append(Alternative.of(one for one in whole if one not in {"", "true"}))
    return tuple(found)


def contrary(source: str) -> str:
    """Return a name for which a condition wants contrary values, "" if it can be true."""
    found = [one.contrary for one in alternatives(source)]
    return found[0] if all(found) else ""


def covers(wider: Iterable[Alternative], narrower: Iterable[Alternative]) -> bool:
    """Say whether a condition is true or fails whenever another one is true."""
    wide = tuple(wider)
    return all(any(map(one.implies, wide)) or bool(one.contrary) for one in narrower)


def _compared(part: str) -> tuple[str, Values] | None:
    """Return the name that a part compares, and its values; None if it is not understood."""
    if found := _RELATION.fullmatch(part):
        left, sign, right = found[1], found[2], found[3]
        if _literal(left) is not None:
            left, sign, right = right, _TURNED[sign], left
        value = _literal(right)
        if value is None or _literal(left) is not None or _NO_NAME.search(left):
            return None
        values = _values(sign, value)
        return (left, values) if values is not None else None
    if listed := _MEMBER.fullmatch(part):
        literals = [_literal(one) for one in _split(listed[2], ",")]
        only = frozenset(one for one in literals if one is not None)
        return (listed[1], Values(only=only)) if None not in literals else None
    return None


def _values(sign: str, value: Literal) -> Values | None:
    number = value[1]
    if sign == "==":
        return Values(only=frozenset({value}))
    if sign == "!=":
        return Values(other=frozenset({value}))
    if isinstance(number, str):
        return None
    if sign in {"<", "<="}:
        return Values(high=number, below=sign == "<")
    return Values(low=number, above=sign == ">")


def _literal(text: str) -> Literal | None:
    if text in {"true", "false"}:
        return bool, text
    if plain := _PLAIN.fullmatch(text):
        return str, plain[1] if plain[1] is not None else plain[2]
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    return (float, number) if abs(number) <= _EXACT else None


def _taken_apart(text: str, depth: int) -> tuple[tuple[str, ...], ...]:
    """Return the alternatives of a text without literals, each with its parts."""
    text = _without_brackets(text)
    whole, found = ((text,),), tuple[tuple[str, ...], ...]()
    if "?" in text or depth > _DEEPEST:
        return whole
    if len(either := _split(text, "||")) > 1:
        found = tuple(one for part in either for one in _taken_apart(part, depth + 1))
    elif len(parts := _split(text, "&&")) > 1:
        choices = [_taken_apart(part, depth + 1) for part in parts]
        if math.prod(map(len, choices)) <= _MOST:
            found = tuple(tuple(one for way in ways for one in way) for ways in product(*choices))
    return found if 0 < len(found) <= _MOST else whole


def _without_brackets(text: str) -> str:
    while text.startswith("(") and _closes(text) == len(text) - 1:
        text = text[1:-1]
    return text


def _closes(text: str) -> int:
    """Return where the bracket at the beginning of a text is closed, -1 if it is not."""
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if not depth:
            return at
    return -1


def _split(text: str, mark: str) -> list[str]:
    """Split a text at a mark outside of brackets."""
    return list(_pieces(text, mark))


def _pieces(text: str, mark: str) -> Iterator[str]:
    depth = start = 0
    for at, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if not depth and at >= start and text.startswith(mark, at):
            yield text[start:at]
            start = at + len(mark)
    yield text[start:]
