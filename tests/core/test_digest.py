"""Each JSON value has one digest; a value that is not JSON has none."""

from __future__ import annotations

import hashlib
import json
import math
from decimal import Decimal
from random import Random
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import JsonValue

from signoff.core.base.errors import NotCanonical
from signoff.core.payloads.digest import digest, require_canonical

# Surrogates have no UTF-8 form; the digest's own escapes are drawn on purpose.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["\x00", "\x00int:9007199254740993", "\x00\x00int:9007199254740993", "9007199254740993"]
)
NUMBERS = (
    st.integers()
    | st.integers(2**53 - 2, 2**53 + 3)
    | st.integers(2**53 - 2, 2**53 + 3).map(float)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.just(10**20)
    | st.sampled_from([0, 0.0, -0.0])
    | st.just(1e20)
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def same(one: JsonValue, other: JsonValue) -> bool:
    """Return whether a tool sees one value: 1 is 1.0, true is not 1, and −0 is not 0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, int | float) and isinstance(other, int | float) and one == other == 0:
        return math.copysign(1, one) == math.copysign(1, other)
    return one == other


@given(VALUES, VALUES)
def test_digests_are_equal_only_for_equal_values(one: JsonValue, other: JsonValue) -> None:
    """Two JSON values have the same digest if and only if they are the same value."""
    assert (digest("t", {"a": one}) == digest("t", {"a": other})) is same(one, other)


@given(VALUES)
def test_value_keeps_its_digest_through_json(value: JsonValue) -> None:
    """A session store that writes JSON and reads it back does not change the digest."""
    read = json.loads(json.dumps(value))
    assert digest("t", {"a": read}) == digest("t", {"a": value})


@given(st.dictionaries(TEXT, VALUES, min_size=2, max_size=5), st.randoms())
def test_the_order_of_keys_does_not_matter(args: dict[str, JsonValue], random: Random) -> None:
    """The arguments are a set of names and values."""
    keys = list(args)
    random.shuffle(keys)
    assert digest("t", {key: args[key] for key in keys}) == digest("t", args)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (2**53, 2**53 + 1),
        (2**64, float(2**64) * 2),
        (-(2**53) - 1, -(2**53) - 2),
        (1, True),
        (0, False),
        (0, None),
        (0, -0.0),
        (0.0, -0.0),
        ([{"a": 0}], [{"a": -0.0}]),
        ("1", 1),
        ([], {}),
        ([1, 2], [2, 1]),
        ("e\u0301", "\u00e9"),
        (2**53 + 1, "\x00int:9007199254740993"),
    ],
)
def test_confusable_values_have_different_digests(one: JsonValue, other: JsonValue) -> None:
    """These pairs have broken other canonical forms."""
    assert digest("t", {"a": one}) != digest("t", {"a": other})


def test_a_number_is_its_value() -> None:
    """1 and 1.0 are the same number, even if a database turns 1e20 into an integer."""
    assert digest("t", {"a": 1}) == digest("t", {"a": 1.0})
    assert digest("t", {"a": 10**20}) == digest("t", {"a": 1e20})


def test_digest_includes_the_tool() -> None:
    """The same arguments for another tool make another digest."""
    assert digest("pay", {"a": 1}) != digest("refund", {"a": 1})


def test_its_form() -> None:
    """Anybody can compute the digest with RFC 8785 JSON and SHA-256."""
    found = digest("reimburse", {"amount": 2500})
    wanted = hashlib.sha256(b'{"args":{"amount":2500},"tool":"reimburse"}').hexdigest()
    assert found == f"sha256:{wanted}"


def marked(value: JsonValue) -> Any:
    """Return a value with the marks that the docstring of `digest` describes."""
    if isinstance(value, str):
        return f"\x00{value}" if value.startswith("\x00") else value
    if isinstance(value, list):
        return [marked(one) for one in value]
    if isinstance(value, dict):
        return {marked(key): marked(one) for key, one in value.items()}
    if isinstance(value, float) and value == 0 and math.copysign(1, value) < 0:
        return "\x00-0"
    if isinstance(value, int | float) and value == int(value) and abs(value) >= 2**53:
        return f"\x00int:{int(value)}"
    return value


# Where the texts of JSON libraries differ: numbers with exponents, escapes, and the order of keys.
NEAR = st.floats(-1e-3, 1e-3) | st.floats(1e14, 1e17) | st.floats(-1e6, 1e6)
SIGNS = st.text(
    '\x00\x01\x1f\b\f\n\r\t"\\/\x7f\x80é\u2028\ud7ff\ue000\uffff\U00010000e-19', max_size=4
)
TRICKY = st.recursive(
    VALUES | NEAR | SIGNS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SIGNS, inner, max_size=4),
    max_leaves=8,
)


@given(TRICKY)
@example({"\ue000": 1, "\U00010000": 2})
@example([1e-4, 9.5e-5, 1e-6, 9.5e-7, 5e-324, 0.1, 1e15 + 0.5, 2500.0, "1e-05", -1e-7])
def test_canonical_form_is_that_of_the_library(value: JsonValue) -> None:
    """The short way with the json module writes each byte as rfc8785 does."""
    assert require_canonical(value, "It") == rfc8785.dumps(marked(value))


def deep(levels: int) -> JsonValue:
    """Return a list that is nested in lists."""
    value: JsonValue = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        "\ud800",
        {"\ud800": 1},
        (1, 2),
        {1, 2},
        b"x",
        Decimal(1),
        {1: "x"},
        10**5000,
        deep(120),
        deep(5000),
    ],
    ids=lambda value: type(value).__name__,
)
def test_value_that_is_not_json_has_no_digest(value: Any) -> None:
    """Such a value is refused; leaving it out would make different calls look the same."""
    with pytest.raises(NotCanonical, match=r"arguments of pay\(\)"):
        digest("pay", {"a": value})
