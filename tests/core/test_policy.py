"""The policy of a call: which one matches, who is asked, and how long it may take."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, TypeAdapter, ValidationError

from builders import NOON, people
from signoff.core.base.durations import Duration, coarse, format_duration, parse_duration, roughly
from signoff.core.base.errors import ConditionError
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.policy import (
    Fallback,
    Policy,
    Terms,
)
from signoff.core.routing.selection import Choice, choose

FALLBACK = Fallback(ask=("cleo",))
LARGE = Policy(name="large", when='tool == "reimburse" && args.amount > 1000', ask=("cleo",))
ANY = Policy(name="any", when='tool == "reimburse"', ask=("mara",))
DURATION: TypeAdapter[timedelta] = TypeAdapter(Duration)


def pick(
    *policies: Policy, fallback: Fallback = FALLBACK, user: str = "riley", **args: JsonValue
) -> Choice:
    """Choose a policy for a reimbursement with these arguments."""
    facts: dict[str, JsonValue] = {
        "app": "finance",
        "agent": "a",
        "tool": "reimburse",
        "args": args,
        "user": user,
    }
    return choose(policies, fallback, people(), facts, now=NOON)


@pytest.mark.parametrize(
    ("amount", "policy"), [(2500, "large"), (1000, "any"), (1000.5, "large"), (2**70, "large")]
)
def test_the_first_that_matches_rules(amount: float, policy: str) -> None:
    """Policies are tried in the order of the file."""
    choice = pick(LARGE, ANY, amount=amount)
    assert choice.terms.policy == policy
    assert choice.notes == ()


def test_a_later_policy_never_overrides_an_earlier_one() -> None:
    """The same two policies in the other order give the other result."""
    assert pick(ANY, LARGE, amount=2500).terms.policy == "any"


@pytest.mark.parametrize("amount", ["2500", None, [2500], float("nan")])
def test_policy_that_cannot_be_evaluated_asks_the_default(amount: JsonValue) -> None:
    """An argument of a wrong type must not lead to a weaker policy below."""
    choice = pick(LARGE, ANY, amount=amount)
    assert choice.terms.policy == "default"
    assert [person.id for person in choice.people] == ["cleo"]
    assert "policy large" in choice.notes[0]


def test_argument_that_a_tool_lacks_matches_no_policy() -> None:
    """A policy about amounts does not match a tool without an amount."""
    assert pick(LARGE, ANY).terms.policy == "any"


@pytest.mark.parametrize(
    ("when", "args"),
    [
        ("args.force == true", {"force": "true"}),
        ("args.force == true", {"force": " True"}),
        ("!(args.force != true)", {"force": "TRUE"}),
        ("args.level == 3", {"level": "3"}),
        ("args.level == 2.5", {"level": "2.5"}),
        ("args.to.account == '42'", {"to": {"account": 42}}),
        ("args.force == true || args.amount > 5", {"force": "true", "amount": 1}),
        ("true == args.force", {"force": "true"}),
        ("'42' == args.to.account", {"to": {"account": 42}}),
        ('args["force"] == true', {"force": "true"}),
        ("args.force==true", {"force": 1}),
        ("args.force == true", {"force": 1.0}),
        ("args.force != false", {"force": 0}),
        ("args.force == true", {"force": "1"}),
        ("args.level == 1", {"level": True}),
        ("args.level == 2.0", {"level": "2"}),
        ("args.level == 2", {"level": "2.0"}),
        ("args.level == '2'", {"level": 2.0}),
        ("args.level in [2, 3]", {"level": "3"}),
        ("args.level in ['2', '3']", {"level": 3}),
        ("args.to.level in [2, 3]", {"to": {"level": "3"}}),
        ("!(args.level in [1, 2]) || args.amount > 5", {"level": "2", "amount": 3}),
    ],
)
def test_value_of_another_type_does_not_slip_through_an_equality(
    when: str, args: dict[str, Any]
) -> None:
    """For CEL, the text "true" only differs from true, so a weaker policy below would apply."""
    choice = pick(Policy(name="strict", when=when, ask=("cleo",)), ANY, **args)
    assert choice.terms.policy == "default"
    assert "must be" in choice.notes[0]


@pytest.mark.parametrize(
    ("when", "args"),
    [
        ("args.force == true", {"force": "no"}),
        ("args.force == true", {"force": None}),
        ("args.to == 'all'", {"to": ["mara"]}),
        ("args.force == true && args.amount > 5", {"force": "true", "amount": 1}),
        ("tool == 'other' && args.force == true", {"force": "true"}),
        ("tool in ['other'] && args.force == true", {"force": "true"}),
        ("args.force == true && args.other > 5", {"force": "true"}),
        ("args.force == true", {"force": 0}),
        ("args.force == true", {"force": 2}),
        ("args.level == 3", {"level": "three"}),
        ("args.level == 3", {"level": "nan"}),
        ("args.level in [2, 3]", {"level": "4"}),
        ("args.level in ['a, b', 'c']", {"level": 4}),
        ("args.level in [2, 3] && args.amount > 5", {"level": "3", "amount": 1}),
    ],
)
def test_type_of_a_value_that_decides_nothing_does_not_matter(
    when: str, args: dict[str, Any]
) -> None:
    """The policy would not match with the right type either."""
    choice = pick(Policy(name="strict", when=when, ask=("cleo",)), ANY, **args)
    assert choice.terms.policy == "any"


def test_value_of_another_type_does_not_avoid_the_second_step() -> None:
    """A second step is needed if its condition would be true with the right type."""
    policy = Policy(name="p", ask=("cleo",), second_step="args.force == true")
    assert pick(policy, force="true").terms.second_step
    assert pick(policy, force=True).terms.second_step
    assert not pick(policy, force=False).terms.second_step


LOOPS = (
    "args.payments.exists(one, one.amount > 500)",
    "!args.payments.all(one, one.amount <= 500)",
    'args["payments"].exists(one, one["amount"] > 500)',
    "args.payments.filter(one, one.amount > 500).size() > 0",
    "args.payments.map(one, one.amount).exists(amount, amount > 500)",
    "args.payments.exists(one, one.amount > 500) || args.fee > 500",
    "args.fee > 500 || args.payments.exists(one, one.amount > 500)",
    "args.bill.parts.exists(part, part.lines.exists(one, one.price.amount > 500))",
    "args.named.exists(key, args.named[key].amount > 500)",
)


@pytest.mark.parametrize("when", LOOPS)
def test_item_without_a_field_hides_no_other_item(when: str) -> None:
    """A list whose first item lacks the amount must not lead to a weaker policy below."""
    strict = Policy(name="strict", when=when, ask=("cleo",))
    large: dict[str, JsonValue] = {"amount": 900}
    lines: list[JsonValue] = [{"price": {}}, {"price": large}]
    choice = pick(
        strict,
        ANY,
        payments=[{"note": "a"}, large],
        bill={"parts": [{"lines": lines}]},
        named={"first": {}, "second": large},
    )
    assert choice.terms.policy in {"strict", "default"}
    assert [person.id for person in choice.people] == ["cleo"]


@pytest.mark.parametrize("when", LOOPS)
def test_loop_over_an_argument_that_a_tool_lacks_matches_no_policy(when: str) -> None:
    """It does not match a tool without the list either, or with complete items only."""
    strict = Policy(name="strict", when=when, ask=("cleo",))
    small: JsonValue = {"amount": 5}
    assert pick(strict, ANY).terms.policy == "any"
    assert pick(strict, ANY, other=[{"note": "a"}]).terms.policy == "any"
    lines: list[JsonValue] = [{"price": small}]
    bill: JsonValue = {"parts": [{"lines": lines}]}
    full = pick(strict, ANY, payments=[small], bill=bill, named={"first": small}, fee=1)
    assert full.terms.policy == "any"


def test_no_policy_matches() -> None:
    """The default is asked, and the audit says why."""
    choice = pick()
    assert [person.id for person in choice.people] == ["cleo"]
    assert choice.notes == ("no policy matches; the default is asked",)


def test_no_match_without_a_default_asks_nobody_and_is_noted() -> None:
    """The notes say so, and what to do."""
    choice = pick(fallback=Fallback())
    assert choice.people == ()
    assert "[default] ask" in choice.notes[-1]


IDENTITIES = st.sampled_from(
    ["riley", "riley@example.com", "r.voss@example.net", "mara", "m.lind@example.net", "cleo"]
)


@given(
    IDENTITIES,
    st.sampled_from([str.upper, str.lower, str.title, lambda text: f" {text} "]),
    st.lists(st.sampled_from(["riley", "mara", "cleo", "nobody"]), min_size=1, max_size=4),
    st.lists(st.sampled_from(["riley", "mara", "cleo", "nobody"]), max_size=3),
)
def test_the_requester_is_never_asked(
    identity: str, written: Callable[[str], str], asked: list[str], fallback: list[str]
) -> None:
    """No identity, spelling, policy or default makes the requester an approver."""
    user = written(identity)
    requester = people().find(user)
    assert requester is not None
    choice = pick(
        Policy(name="p", ask=tuple(asked)), fallback=Fallback(ask=tuple(fallback)), user=user
    )
    assert requester.id not in {person.id for person in choice.people}
    assert len({person.id for person in choice.people}) == len(choice.people)
    if not choice.people:
        assert {*asked, *fallback} <= {requester.id, "nobody"}


def test_equal_expression_results_share_their_terms() -> None:
    """A different ceiling or second step makes different terms."""
    rule = Policy(
        name="refunds", ask=("mara",), ceiling="args.amount < 100", second_step="args.amount > 900"
    )
    calls: list[dict[str, JsonValue]] = [{"amount": 1}, {"amount": 500}, {"amount": 901}, {}]
    low, middle, high, unknown = (rule.terms({"args": args}) for args in calls)
    assert low is rule.terms({"args": {"amount": 2}})
    assert [(one.under_ceiling, one.second_step) for one in (low, middle, high, unknown)] == [
        *((True, False), (False, False), (False, True)),
        (False, True),
    ]
    renamed = rule.model_copy(update={"name": "repayments"})
    assert renamed.terms({"args": {"amount": 1}}).policy == "repayments"


def test_notes_name_the_excluded_and_unknown_people() -> None:
    """The notes name the people who were left out and those who do not exist."""
    choice = pick(Policy(name="p", ask=("riley", "ghost", "mara")))
    assert [person.id for person in choice.people] == ["mara"]
    assert choice.notes == (
        "Riley Voss asked for this and is left out",
        "ghost is not in the directory",
    )


def test_policy_without_eligible_people_asks_the_default() -> None:
    """A person's own request goes to another person, and is not left without approvers."""
    choice = pick(Policy(name="p", ask=("riley",)))
    assert choice.terms.policy == "default"
    assert "leaves nobody to ask" in choice.notes[1]


@given(st.timedeltas(timedelta(milliseconds=1), timedelta(days=365)))
def test_duration_reads_back_as_written(duration: timedelta) -> None:
    """A snapshot keeps the same durations."""
    kept = DURATION.validate_python(duration)
    assert duration - kept < timedelta(milliseconds=1)
    assert DURATION.validate_json(DURATION.dump_json(kept)) == kept
    terms = Terms(policy="p", ask=("mara",), within=duration)
    assert Terms.model_validate_json(terms.model_dump_json()) == terms


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("90s", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("1h 30m", timedelta(hours=1, minutes=30)),
        ("2d", timedelta(days=2)),
        ("1w", timedelta(days=7)),
        ("250ms", timedelta(milliseconds=250)),
        ("0h5m", timedelta(minutes=5)),
    ],
)
def test_durations_people_write(text: str, duration: timedelta) -> None:
    """Days, hours, minutes, and sums of them are read."""
    assert parse_duration(text) == duration
    assert DURATION.validate_python(text) == duration


@pytest.mark.parametrize(
    "text",
    ["", " ", "5", "m", "5 minutes", "1.5h", "-5m", "5m5", "٣m", "0s", "366d", "999999999w", "1y"],
)
def test_invalid_duration_is_refused(text: str) -> None:
    """An ambiguous or meaningless duration is refused."""
    with pytest.raises(ValidationError):
        DURATION.validate_python(text)


def test_zero_and_negative_time_is_written_as_zero() -> None:
    """A deadline in the past has no time left."""
    assert format_duration(timedelta()) == format_duration(timedelta(seconds=-5)) == "0s"
    assert format_duration(timedelta(days=9, seconds=61)) == "9d1m1s"


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        ("args.amount >", "not a CEL expression: it is not complete$"),
        ("(args.amount > 5", "it is not complete$"),
        ("args.paid ? args.amount", "it is not complete$"),
        ('tool = "x"', "unexpected '=' in line 1, column 6$"),
        ("args.amount > 5\n  and tool == 'x'", "unexpected 'and' in line 2, column 3$"),
        ("tool == 'x')", r"unexpected '\)' in line 1, column 12$"),
        ("args.map(1, 2)", "argument must be a simple name in line 1, column 10$"),
        ("amount > 5", "amount"),
        ("tool", "not true or false"),
        ('tool + "x"', "not true or false"),
    ],
)
def test_condition_that_can_never_hold_is_refused(when: str, problem: str) -> None:
    """`signoff config check` finds them before a call does."""
    from signoff.core.policies.conditions import check

    with pytest.raises(ConditionError, match=problem):
        check(when)


@pytest.mark.parametrize(
    "when", ["args.amount > 5", 'tool.startsWith("re")', "args.days[0] == 1 || user == 'x'", "true"]
)
def test_condition_on_arguments_is_checked_at_the_call(when: str) -> None:
    """An argument may belong to some tools only, so naming it is not a mistake."""
    from signoff.core.policies.conditions import check

    check(when)


def test_people_have_clean_addresses() -> None:
    """An empty or unprintable address could match another person's."""
    for bad in ({"email": "a\u0007@b.c"}, {"aliases": ("",)}, {"aliases": ("a\nb",)}):
        with pytest.raises(ValidationError):
            Person(**({"id": "x", "email": "x@y.z"} | bad))
    assert Person(id="x", email="x@y.z").shown == "x"
    assert next(iter(Directory([Person(id="x", email="x@y.z")]))).id == "x"


@pytest.mark.parametrize(
    ("seconds", "rounded", "largest"),
    [
        (-5, "0 s", "overdue"),
        (59.4, "59 s", "59s"),
        (89, "1 min", "1m29s"),
        (3599, "1 h", "59m59s"),
        (14_399, "4 h", "3h59m"),
        (47.4 * 3600, "47 h", "1d23h"),
        (60 * 3600, "3 days", "2d12h"),
        (86_400 * 400, "400 days", "400d"),
    ],
)
def test_durations_for_the_eye(seconds: float, rounded: str, largest: str) -> None:
    """A sentence rounds to one unit, and a table cuts off after two units."""
    assert roughly(timedelta(seconds=seconds)) == rounded
    assert coarse(timedelta(seconds=seconds)) == largest


UNTIL = "limit.money >= args.amount"


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        ({"batch": True}, ""),
        ({"batch": True, "second_step": "false"}, ""),
        ({"batch": True, "second_step": "args.amount > 9"}, "take one of them out"),
        ({"batch": True, "risk": "high"}, 'batch contradicts risk = "high"'),
        ({"risk": "high", "second_step": "true"}, ""),
        ({"levels": [{"ask": ["cleo"]}]}, "cannot be set beside levels"),
        ({"ask": [], "levels": [{"ask": ["cleo"]}]}, ""),
        ({"ask": [], "all_of": [{"ask": ["cleo"]}]}, ""),
        (
            {"ask": [], "all_of": [{"ask": ["mara"]}], "levels": [{"ask": ["cleo"]}]},
            "cannot be set beside levels",
        ),
        ({"ask": []}, "nobody is asked"),
        ({"until": UNTIL}, ""),
        ({"until": UNTIL, "on_timeout": "stay"}, ""),
        ({"until": UNTIL, "on_timeout": "approve"}, "cannot approve while managers are asked"),
        (
            {"ask": ["requester.managers"], "on_timeout": "approve"},
            "cannot approve while managers are asked",
        ),
        (
            {"ask": [], "levels": [{"ask": ["cleo"], "until": UNTIL}], "on_timeout": "approve"},
            "cannot approve while managers are asked",
        ),
        ({"on_timeout": "approve", "ceiling": "true"}, ""),
    ],
)
def test_rules_that_contradict_each_other_are_refused(
    rules: dict[str, JsonValue], fault: str
) -> None:
    """The message says which of them to take out."""
    settings = {"name": "p", "ask": ["mara"], **rules}
    with pytest.raises(ValidationError, match=fault) if fault else nullcontext():
        Policy.model_validate(settings)
