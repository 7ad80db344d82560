"""Patterns match exactly the phrases that they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.core.lexicon.patterns import Bound, Match, Phrases
from signoff.core.lexicon.tokens import tokenize

_SLOT = "{name}"
_PARTS = {"part": "(a|b) [c]", "other": "<part> a|c"}
Spelt = tuple[str, set[tuple[str, ...]]]
"""A pattern, and all phrases that it stands for."""


def _sequence(parts: Sequence[Spelt]) -> Spelt:
    found: set[tuple[str, ...]] = {()}
    for _, phrases in parts:
        found = {(*start, *end) for start in found for end in phrases}
    return " ".join(text for text, _ in parts), found


def _choice(options: Sequence[Spelt], *, optional: bool) -> Spelt:
    text = "|".join(text for text, _ in options)
    phrases = set[tuple[str, ...]]().union(*(phrases for _, phrases in options))
    return (f"[{text}]", phrases | {()}) if optional else (f"({text})", phrases)


_PART = {("a",), ("b",), ("a", "c"), ("b", "c")}
_ATOMS = st.sampled_from(
    [
        *((word, {(word,)}) for word in ("a", "b", "c", _SLOT)),
        ("<part>", _PART),
        ("<other>", {*((*one, "a") for one in _PART), ("c",)}),
    ]
)
_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(_sequence)
        | st.builds(_choice, st.lists(inner, min_size=1, max_size=3), optional=st.booleans())
    ),
    max_leaves=8,
)


def _matches(phrases: set[tuple[str, ...]], words: list[str]) -> Iterator[int]:
    """Yield the lengths of the phrases at the beginning of a text; a slot takes one word."""
    for phrase in phrases:
        here = words[: len(phrase)]
        if len(here) == len(phrase) and all(
            part in (word, _SLOT) for part, word in zip(phrase, here, strict=True)
        ):
            yield len(phrase)


@given(
    st.lists(st.tuples(st.sampled_from(["yes", "no"]), _PATTERNS), min_size=1, max_size=5),
    st.lists(st.sampled_from("abcd"), max_size=7),
)
def test_patterns_match_their_phrases_and_nothing_else(
    lines: list[tuple[str, Spelt]], words: list[str]
) -> None:
    """Choices, optional words, parts and slots are found wherever a phrase begins."""
    lines = [(role, one) for role, one in lines if () not in one[1]]
    patterns = {role: [text for also, (text, _) in lines if also == role] for role, _ in lines}
    phrases, tokens = Phrases(patterns, _PARTS), tokenize(" ".join(words))
    for start in range(len(words) + 1):
        found = phrases.at(tokens, start, lambda _, at: [at + 1] if at < len(words) else [])
        assert len(found) == len({(one.role, one.end) for one in found})
        assert {(one.role, one.end) for one in found} == {
            (role, start + length)
            for role, (_, all_of_them) in lines
            for length in _matches(all_of_them, words[start:])
        }


@given(_PATTERNS)
def test_a_pattern_that_may_be_empty_is_refused(one: Spelt) -> None:
    """It would match everywhere."""
    text, phrases = one
    if () in phrases:
        with pytest.raises(ValueError, match="matches nothing at all"):
            Phrases({"yes": [text]}, _PARTS)
    else:
        assert Phrases({"yes": [text]}, _PARTS).words() <= {"a", "b", "c"}


def test_a_slot_is_as_short_as_possible() -> None:
    """Of two ways to fill a slot, the shorter one is returned."""
    phrases = Phrases({"reassign": ["forward to {name}", "forward {name}"]})
    tokens = tokenize("forward to tom")
    found = phrases.at(tokens, 0, lambda _, at: range(at + 1, len(tokens) + 1))
    assert Match("reassign", 3, (Bound("name", 2, 3),)) in found
