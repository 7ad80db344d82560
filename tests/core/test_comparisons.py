"""Which conditions can never be true, and which cover others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from builders import NOON
from signoff.core.base.errors import ConditionError
from signoff.core.policies import conditions
from signoff.core.policies.comparisons import alternatives, contrary, covers
from signoff.core.policies.matching import MatchResult, facts_at, weigh
from signoff.core.policies.policy import Policy


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("", [set()]),
        (" true ", [set()]),
        ('tool == "a b" && args.n>1', [{'tool=="a b"', "args.n>1"}]),
        ("user == 'a && b' && (args.x && args.y)", [{"user=='a && b'", "args.x", "args.y"}]),
        ("args.x && args.y || args.z", [{"args.x", "args.y"}, {"args.z"}]),
        ("args.x ? args.y : args.z && args.z", [{"args.x?args.y:args.z&&args.z"}]),
    ],
)
def test_a_condition_is_taken_apart(source: str, found: list[set[str]]) -> None:
    """Signs inside of texts and brackets separate nothing."""
    assert [set(one.parts) for one in alternatives(source)] == found


@pytest.mark.parametrize(
    ("wider", "narrower"),
    [
        ("", "args.n > 5"),
        ("true", ""),
        ("args.n > 100", "args.n > 1000"),
        ("args.n > 100", "tool == 'pay' && args.n > 100.5"),
        ("args.n >= 100", "100 <= args.n"),
        ("args.n > 100", "args.n == 500"),
        ("args.n > 100", "args.n in [101, 500]"),
        ("args.n <= 10 && args.n >= 0", "args.n > 1 && args.n < 10"),
        ("has(args.n)", "args.n > 1"),
        ("has(args.a)", "args.a.b == 'x'"),
        ("tool in ['pay', 'refund']", 'tool == "pay"'),
        ("tool in ['pay', 'refund']", 'tool == "pay" || tool == "refund"'),
        ("tool == 'pay' || args.n > 5", "args.n > 6"),
        ("args.n != 5", "args.n > 5"),
        ("args.n != 'x'", "args.n > 5"),
        ("(app == 'a' && args.n > 1) || app == 'b'", "app == 'a' && (args.n > 2 && user == 'u')"),
        ("tool.startsWith('x y')", "args.n > 1 && tool.startsWith( 'x y' )"),
        ("args.n > 1", "args.n > 5 && args.n < 3"),
        ("size(args.to) > 5", "size(args.to) > 50"),
        ("args['n'] > 1", "args['n'] > 2"),
        ("tool == 'a' // the first\n", "tool == 'a' && args.x"),
    ],
)
def test_a_condition_covers_narrower_ones(wider: str, narrower: str) -> None:
    """Bounds, lists and alternatives are compared, and not only texts."""
    assert covers(alternatives(wider), alternatives(narrower))


@pytest.mark.parametrize(
    ("wider", "narrower"),
    [
        ("args.n > 1000", "args.n > 100"),
        ("args.n > 100", "args.n >= 100"),
        ("args.n > 100 && app == 'a'", "args.n > 1000"),
        ("args.n == 5", "args.n == '5'"),
        ("args.n == 1", "args.n == true"),
        ("args.n != 5", "args.n > 4"),
        ("args.n > 5", "args.n != 3"),
        ("args.admin[0] > 5", "args.adm in [9]"),
        ("has(args.n)", "args.nn > 1"),
        ("args.n > 5 ? true : false", "args.n > 6"),
        ("!(args.n > 5)", "args.n > 6"),
        ("args.t == 'a && b'", "b"),
        ("args.l.exists(x, x > 1)", "args.l.exists(x, x > 2)"),
        ("args.n > 9007199254740993", "args.n > 9007199254740994"),
        ("tool == 'pay'", "tool == 'pay' || tool == 'refund'"),
        ("args.n > -5", "args.m > 5"),
    ],
)
def test_a_condition_does_not_cover_others(wider: str, narrower: str) -> None:
    """What is not understood, or true more often, is not covered."""
    assert not covers(alternatives(wider), alternatives(narrower))


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("args.n > 500 && args.n < 100", "args.n"),
        ("now.hour >= 22 && now.hour < 6", "now.hour"),
        ("tool == 'a' && tool == 'b'", "tool"),
        ("tool == 'a' && tool != 'a'", "tool"),
        ("args.n > 5 && args.n <= 5", "args.n"),
        ("args.n > 5 && args.n == 'x'", "args.n"),
        ("args.n > 5 && args.n < 3 || app == 'a' && app == 'b'", "args.n"),
        ("(args.n > 5 || args.n == 7) && args.n in [1, 2]", "args.n"),
        ("args.n == true && args.n == false", "args.n"),
    ],
)
def test_contrary_values_can_never_be_true(source: str, name: str) -> None:
    """The name with the contrary values is found."""
    assert contrary(source) == name


@pytest.mark.parametrize(
    "source",
    [
        "",
        "args.n > 5 && args.n < 6",
        "args.n >= 5 && args.n <= 5",
        "now.hour >= 22 || now.hour < 6",
        "tool != 'a' && tool != 'b'",
        "args.n > 5 && args.m < 5",
        "args.n > 5 && args.n < 3 || app == 'a'",
        "args.n != 5 && args.n >= 5",
    ],
)
def test_other_conditions_can_be_true(source: str) -> None:
    """One alternative that can be true is enough."""
    assert contrary(source) == ""


def test_now_in_another_time_zone_is_another_value() -> None:
    """Nine o'clock in Berlin says nothing about New York."""
    late, later = "now.hour > 17", "now.hour > 20"
    here = alternatives(later, "Europe/Berlin")
    assert covers(alternatives(late, "Europe/Berlin"), here)
    assert not covers(alternatives(late, "America/New_York"), here)


def test_deep_and_large_conditions_are_left_alone() -> None:
    """They are one part, which is equal to itself, and nothing overflows."""
    deep = "(" * 900 + "args.n" + ")" * 900
    nested = "args.a && (" * 400 + "args.b" + ")" * 400
    wide = " && ".join(f"(args.a == {one} || args.b == {one})" for one in range(12))
    for source in (deep, nested, wide, "((", "))", "a &&", "\0" + "7\0"):
        assert covers(alternatives(source), alternatives(source))


VALUES = st.sampled_from(
    ["0", "1", "2", "-1", "1.5", "2.0", "'a'", '"b"', "'1'", "'true'", "true", "false"]
)
NAMES = st.sampled_from(["args.n", "args.m", "args.o.p", "tool", "now.hour", "size(args.l)"])


def _comparison(draw: st.DrawFn) -> str:
    name, value = draw(NAMES), draw(VALUES)
    sign = draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
    match draw(st.integers(0, 7)):
        case 0:
            return f"{value} {sign} {name}"
        case 1:
            listed = ", ".join(draw(st.lists(VALUES, min_size=1, max_size=3)))
            return f"{name} in [{listed}]"
        case 2:
            return f"has({draw(st.sampled_from(['args.n', 'args.o', 'args.o.p']))})"
        case 3:
            return f"!({name} {sign} {value})"
    return f"{name} {sign} {value}"


@st.composite
def sources(draw: st.DrawFn, depth: int = 0) -> str:
    """Draw conditions of comparisons, joined and nested."""
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        nested = depth < 2 and draw(st.integers(0, 3)) == 0
        parts.append(f"({draw(sources(depth + 1))})" if nested else _comparison(draw))
    return draw(st.sampled_from([" && ", " && ", " || "])).join(parts)


SCALARS: st.SearchStrategy[JsonValue] = st.sampled_from(
    [0, 1, 2, -1, 1.0, 1.5, 2.0, 3, float("nan"), "a", "b", "1", "true", "TRUE", True, False, None]
)
ARGS = st.fixed_dictionaries(
    {},
    optional={
        "n": SCALARS | st.lists(SCALARS, max_size=2),
        "m": SCALARS,
        "o": SCALARS | st.fixed_dictionaries({}, optional={"p": SCALARS}),
        "l": SCALARS | st.lists(SCALARS, max_size=3),
    },
)


@given(sources(), sources(), ARGS, st.sampled_from(["a", "b", "1", ""]))
def test_no_call_contradicts_a_comparison(
    one: str, other: str, args: dict[str, JsonValue], tool: str
) -> None:
    """No call matches a covered condition and not the wider one, or one that is never true."""
    facts = facts_at({"tool": tool, "args": args}, NOON, "UTC")

    def found(source: str) -> MatchResult:
        return weigh(Policy(name="p", when=source, ask=("mara",)), facts)[0]

    for wider, narrower in (
        (one, other),
        (one, f"({one}) && ({other})"),
        (f"{one} || {other}", one),
    ):
        if (
            covers(alternatives(wider), alternatives(narrower))
            and found(narrower) is MatchResult.MATCHES
        ):
            assert found(wider) is not MatchResult.NO
    if contrary(one):
        assert found(one) is not MatchResult.MATCHES


@given(sources())
def test_alternatives_have_the_meaning_of_the_condition(source: str) -> None:
    """All alternatives together are as true as the condition on calls that have all arguments."""
    args: dict[str, JsonValue] = {"n": 1, "m": 2, "o": {"p": 1.5}, "l": []}
    facts = facts_at({"tool": "a", "args": args}, NOON, "UTC")

    def is_true(text: str) -> bool | None:
        try:
            return conditions.value(text, facts) is True
        except (KeyError, ConditionError):
            return None

    ways = [[is_true(part) for part in one.parts] for one in alternatives(source)]
    if all(part is not None for way in ways for part in way):
        assert is_true(source) in {any(map(all, ways)), None}
