"""The cost limit of conditions: no call can keep a process busy."""

from __future__ import annotations

import math
from typing import Any

import cel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from builders import present
from signoff.core.base.errors import ConditionError
from signoff.core.policies import conditions
from signoff.core.policies.condition_cost import DEEPEST, MOST, cost, size_of
from signoff.core.policies.matching import MatchResult, weigh
from signoff.core.policies.policy import Policy, second_step_needed

NUMBERS: dict[str, JsonValue] = {"args": {"a": [*range(400)], "b": 1}}
TRIPLE = "args.a.all(x, args.a.all(y, args.a.all(z, x + y + z >= 0)))"

FINE: dict[str, dict[str, Any]] = {
    "args.b > 10000": {"b": 1},
    "args.to.all(one, one.endsWith('@example.com'))": {"to": ["mara@example.com"] * 10_000},
    "size(args.rows) > 50 && args.rows.exists(row, row.amount > 100)": {
        "rows": [{"amount": 1, "to": "mara", "for": "x" * 80}] * 5_000
    },
    "args.rows.all(row, row.cells.all(cell, cell < row.limit))": {
        "rows": [{"cells": list(range(10)), "limit": 20}] * 4_000
    },
    "args.a.all(x, x in args.allowed)": {"a": [1] * 500, "allowed": list(range(500))},
    "args.a.filter(x, x > 1).size() > 3": {"a": list(range(500))},
    "args.a.all(x, args.a.exists_one(y, y == x))": {"a": list(range(200))},
    "args.text.matches('^[a-z ]*$')": {"text": "some words " * 50_000},
    "args.to.all(one, one.matches('^[a-z]+@example[.]com$'))": {"to": ["mara@example.com"] * 500},
}
"""Typical conditions of policies, on large calls."""

DEAR: dict[str, dict[str, Any]] = {
    TRIPLE: {"a": list(range(400))},
    "args.a.all(x, args.a.all(y, x + y >= 0))": {"a": list(range(5_000))},
    "args.a . map ( x , args.a ) . size() > 0": {"a": list(range(1_000))},
    "args.a.map(x, x).all(y, y >= 0)": {"a": list(range(20_000))},
    "args.a.all(x, args.a.size() > 0)": {"a": list(range(5_000))},
    "args.a.all(x, !args.text.contains(x))": {"a": ["b"] * 1_000, "text": "a" * 10_000_000},
    "args.to.all(one, one.matches('^a+$'))": {"to": ["a"] * 100_000},
    "args.a.all(x, '.all(' != ')' && args.a.all(y, true))": {"a": list(range(5_000))},
    "args.rows.all(r, r.c.all(x, r.c.all(y, r.c.all(z, x + y + z >= 0))))": {
        "rows": [{"c": list(range(300))}] * 3
    },
    "args.b == 1": {"b": 1, "more": list(range(MOST))},
}
"""Nested loops, and conditions on calls that are too large for them."""


@pytest.mark.parametrize("source", FINE)
def test_cheap_condition_is_evaluated_on_a_large_call(source: str) -> None:
    """A large call is fine as long as the condition on it is cheap."""
    facts = {"args": FINE[source]}
    assert cost(source, facts) <= MOST
    conditions.check(source)
    assert conditions.value(source, facts) in {True, False}


@pytest.mark.parametrize("source", DEAR)
def test_expensive_condition_is_an_error(source: str) -> None:
    """An expensive condition is an error on this call, like a value of a wrong type."""
    conditions.check(source)
    with pytest.raises(ConditionError, match="too long"):
        conditions.value(source, {"args": DEAR[source]})


def test_expensive_condition_asks_the_default_with_a_second_step() -> None:
    """The default is asked, as for any error, and a second step is needed."""
    policy = Policy(name="all", when=TRIPLE, ask=("mara",))
    verdict, problem = weigh(policy, NUMBERS)
    assert verdict is MatchResult.ERROR
    assert "too long" in problem
    assert second_step_needed(TRIPLE, NUMBERS)


def test_values_that_are_nested_too_deeply_are_not_judged() -> None:
    """The evaluator recurses into nested values, and its stack is limited."""
    knot: Any = 1
    for _ in range(DEEPEST * 1_000):
        knot = [knot]
    assert size_of(knot) is None
    with pytest.raises(ConditionError, match="too long"):
        conditions.value("args.b == 1", {"args": {"b": 1, "knot": knot}})


sizes = st.integers(min_value=0, max_value=12)


@given(lengths=st.lists(sizes, min_size=1, max_size=3), gathers=st.booleans(), here=st.booleans())
def test_no_loop_runs_more_often_than_is_counted(
    lengths: list[int], gathers: bool, here: bool
) -> None:
    """Nested loops, over lists of the call or over lists inside these."""
    body = "true"
    args: dict[str, Any] = {f"l{n}": [1] * length for n, length in enumerate(lengths)}
    for depth in reversed(range(len(lengths))):
        body = f"args.l{depth}.all(x{depth}, {body})"
    times = math.prod(lengths)
    if here:
        rows: Any = 1
        for length in reversed(lengths):
            rows = [rows] * length
        args = {"l0": rows}
        body = "true"
        for depth in reversed(range(len(lengths))):
            body = f"{f'x{depth - 1}' if depth else 'args.l0'}.all(x{depth}, {body})"
    if gathers:
        body = f"args.l0.map(m, {body}).size() >= 0"
        times *= lengths[0] ** 2 if not here else len(rows) ** 2
    facts: dict[str, JsonValue] = {"args": args}
    assert cel.compile(body).execute(facts) is True
    assert cost(body, facts) >= times


@given(st.recursive(st.none() | st.integers() | st.text(), lambda one: st.lists(one, max_size=4)))
def test_a_size_counts_every_value(value: Any) -> None:
    """The size counts each value once, and texts by their length too."""

    def count(part: Any) -> int:
        return 1 + (sum(map(count, part)) if isinstance(part, list) else 0)

    size = size_of(value)
    assert size is not None
    assert size.whole == count(value)
    assert present(size_of("x" * 25_600)).whole == 101


FIRST = st.sampled_from(
    [
        'tool == "pay"',
        "tool=='pay' ",
        "agent == 'pay'",
        "tool == 'pay'",
        "(tool == 'pay')",
        "tool != 'pay'",
        'tool == "p\\u0061y"',
        "user == ''",
    ]
)
REST = st.sampled_from(
    [
        "",
        " && args.amount > 5",
        " && args.missing > 5",
        " && args.amount > 'text'",
        " && args.amount > 5 || true",
        " || args.amount > 5",
        " ? true : args.amount > 5",
        " && args.amount > 5 ? false : true",
        " && (args.amount > 5 || true)",
        ' && args.amount > 5 // "\n || true // "',
        " && tool == 'a||b'",
        " == true",
        " && tool",
    ]
)


@given(first=FIRST, rest=REST, tool=st.sampled_from(["pay", "look", "", 5]))
def test_skipped_condition_gives_the_result_of_cel(first: str, rest: str, tool: Any) -> None:
    """A condition about another tool is false, whatever follows it, as in CEL itself."""
    facts: dict[str, Any] = {"tool": tool, "agent": "pay", "user": "", "args": {"amount": 9}}
    found: list[Any] = []
    for evaluate in (conditions.value, lambda source, facts: cel.compile(source).execute(facts)):
        try:
            found.append(evaluate(first + rest, facts))
        except (KeyError, ConditionError, RuntimeError, TypeError, ValueError) as error:
            found.append("missing" if isinstance(error, KeyError) else "error")
    assert found[0] == found[1]
    assert type(found[0]) is type(found[1])
