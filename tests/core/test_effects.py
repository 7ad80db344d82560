"""What a policy can do besides ask: allow up to a ceiling, deny with a reason, read the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from builders import NOON, ask, make_approval, make_origin, people
from signoff.core.approvals.approval import Kind, State
from signoff.core.approvals.events import What
from signoff.core.base.errors import ConditionError, IllegalMove
from signoff.core.policies import conditions
from signoff.core.policies.allowance import Allowance, Rate, parse_rate
from signoff.core.policies.policy import Effect, Fallback, Policy
from signoff.core.routing.selection import Choice, choose

ALLOW = Policy(name="small", when="args.amount <= 50", effect="allow", at_most="2/h", ask=("mara",))
DENY = Policy(name="never", when="args.amount > 9000", effect="deny", reason="Too much at once.")
ANY = Policy(name="any", ask=("cleo",))
DEFAULT = Fallback(ask=("cleo",))


def pick(amount: JsonValue, *policies: Policy, now: datetime = NOON, **not_allowed: str) -> Choice:
    """Choose a policy for a reimbursement of Riley's."""
    facts: dict[str, JsonValue] = {
        "app": "finance",
        "agent": "a",
        "tool": "reimburse",
        "args": {"amount": amount},
        "user": "riley",
    }
    rules = policies or (DENY, ALLOW, ANY)
    return choose(rules, DEFAULT, people(), facts, now=now, not_allowed=not_allowed)


def test_first_matching_policy_sets_the_effect() -> None:
    """The first matching policy denies, allows or asks."""
    denied, allowed, asked = pick(10_000), pick(50), pick(500)
    assert (denied.terms.effect, denied.refused, denied.people) == (
        Effect.DENY,
        "Too much at once.",
        (),
    )
    assert (allowed.terms.effect, allowed.allowed, allowed.people) == (
        Effect.ALLOW,
        Rate(2, timedelta(hours=1)),
        (),
    )
    assert (asked.terms.effect, [one.id for one in asked.people]) == (Effect.ASK, ["cleo"])
    assert pick(10_000, ANY, DENY).terms.policy == "any"


def test_above_the_ceiling_the_people_of_the_policy_are_asked_or_the_default() -> None:
    """The notes give the reason, and the terms are those of a policy that asks."""
    over = pick(50, small="it has allowed as many calls as it may, 2/h")
    assert ([one.id for one in over.people], over.terms.effect) == (["mara"], Effect.ASK)
    assert "as many calls as it may" in over.notes[0]
    nobody = Policy(name="small", effect="allow", at_most="2/h")
    over = pick(50, nobody, small="enough")
    assert (over.terms.policy, over.stranded) == ("default", False)


@pytest.mark.parametrize("amount", ["50", None, [1]])
def test_failing_condition_asks_the_default(amount: JsonValue) -> None:
    """If a condition cannot be evaluated, the default is asked."""
    choice = pick(amount, ALLOW, DENY)
    assert (choice.terms.policy, choice.allowed, choice.refused) == ("default", None, "")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"effect": "allow"}, "needs a ceiling"),
        ({"effect": "allow", "at_most": "2/h", "second_step": "true"}, "asks twice"),
        ({"effect": "deny"}, "needs a reason"),
        ({"effect": "deny", "reason": " "}, "needs a reason"),
        ({"effect": "deny", "reason": "no", "ask": ["mara"]}, "asks nobody"),
        ({"at_most": "2/h", "ask": ["mara"]}, "at_most goes with"),
        ({"reason": "no", "ask": ["mara"]}, "reason goes with"),
        ({"effect": "allow", "at_most": "many"}, "not a rate"),
        ({"effect": "allow", "at_most": "0/h"}, "between 1 and"),
        ({"effect": "allow", "at_most": "5/10ms"}, "less than a second"),
        ({}, "nobody is asked"),
    ],
)
def test_settings_that_contradict_themselves_are_refused(
    settings: dict[str, JsonValue], message: str
) -> None:
    """The message names the setting that is missing or superfluous."""
    with pytest.raises(ValidationError, match=message):
        Policy.model_validate({"name": "p", **settings})


def test_the_default_only_asks() -> None:
    """A policy without a condition handles all other calls, so the default only asks."""
    with pytest.raises(ValidationError, match="as the last one"):
        Fallback(ask=("mara",), effect="allow")


@given(
    st.integers(1, 10_000),
    st.integers(1, 365 * 86_400).map(lambda seconds: timedelta(seconds=seconds)),
)
def test_rate_text_round_trips(count: int, period: timedelta) -> None:
    """Snapshots and settings use the same form."""
    rate = Rate(count, period)
    assert parse_rate(str(rate)) == rate


@given(
    st.integers(1, 5),
    st.lists(st.integers(0, 4_000_000), max_size=40).map(sorted),
)
def test_no_period_ever_has_more_calls_than_the_rate_allows(count: int, moments: list[int]) -> None:
    """No hour that ends with a call has more calls than the rate, and no allowed call is lost."""
    rate, hour = Rate(count, timedelta(hours=1)), 3_600_000
    allowance, taken = Allowance(), list[int]()
    for moment in moments:
        recent = [one for one in taken if one > moment - hour]
        after = allowance.take(rate, moment)
        assert (after is None) == (len(recent) >= count)
        assert [one for one in allowance.used if one > moment - hour] == recent
        if after is not None:
            taken.append(moment)
            allowance = Allowance.model_validate_json(after.model_dump_json())


def test_audit_names_the_policy_that_allowed_or_denied() -> None:
    """Nobody is named as the decider, and the model reads the reason."""
    allowed, (event,) = make_approval().allow(pick(50).terms, now=NOON)
    assert (allowed.state, allowed.asked, event.what) == (State.APPROVED, (), What.APPROVED)
    assert (event.more["policy"], event.by) == ("small", "")
    choice = pick(10_000)
    denied, (event,) = make_approval().refuse(reason=choice.refused, now=NOON, terms=choice.terms)
    assert (denied.state, event.why, event.more["policy"]) == (
        State.REJECTED,
        "Too much at once.",
        "never",
    )


def test_request_that_needs_a_person_is_never_allowed_automatically() -> None:
    """Required values, calls in doubt and requests that people already see are never allowed."""
    terms = pick(50).terms
    needs = [
        make_approval(template={"days": 0}),
        make_approval().model_copy(update={"kind": Kind.INPUT}),
        make_approval(origin=make_origin().model_copy(update={"again": 1})),
        ask(make_approval()),
    ]
    for approval in needs:
        with pytest.raises(IllegalMove, match=r"cannot be allowed|is asked already"):
            approval.allow(terms, now=NOON)


@given(st.datetimes(datetime(2000, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 -- hypothesis takes bounds without a zone
def test_the_clock_is_that_of_the_zone_of_the_policy(moment: datetime) -> None:
    """A policy with Tokyo's time zone reads the clock in Tokyo."""
    night = Policy(
        name="night",
        when='now.hour < 7 || now.weekday in ["Sat", "Sun"]',
        effect="deny",
        reason="Not at night.",
        time_zone="Asia/Tokyo",
    )
    tokyo = moment + timedelta(hours=9)
    at_night = tokyo.hour < 7 or tokyo.isoweekday() > 5
    assert bool(pick(1, night, ANY, now=moment).refused) == at_night


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("now.hours > 5", "now.hours, which does not exist"),
        ('now.weekday == "Saturday"', "'Saturday', which is not a day"),
        ("now.weekday in ['Sat', 'sun']", "'sun', which is not a day"),
        ("now.hour", "gives int"),
    ],
)
def test_impossible_clock_condition_is_refused(source: str, message: str) -> None:
    """`signoff config check` reports it before the policy is used."""
    with pytest.raises(ConditionError, match=message):
        conditions.check(source, conditions.POLICY_NAMES)
    with pytest.raises(ConditionError, match="'now', which does not exist"):
        conditions.check("now.hour > 5")


@pytest.mark.parametrize(
    ("source", "args", "said"),
    [
        ("args.amount > 1000", {"amount": "2500"}, "args.amount is text, but must be a number"),
        ("1000 < args.amount", {"amount": None}, "args.amount is empty, but must be a number"),
        (
            "args.amount > args.most",
            {"amount": [1], "most": 5},
            "args.amount is a list, but must be a number",
        ),
        (
            "args.amount > 10.5",
            {"amount": float("nan")},
            "args.amount is not a number, but must be a number",
        ),
        (
            "size(args.to) > 3",
            {"to": 5},
            "'size(args.to) > 3' cannot be evaluated on this call, where args.to is a number",
        ),
        (
            "args.a / args.b > 1",
            {"a": 1, "b": 0},
            (
                "'args.a / args.b > 1' cannot be evaluated on this call, where args.a is a number, "
                "args.b is a number (division by zero in CEL expression)"
            ),
        ),
    ],
)
def test_condition_problem_is_one_plain_line(
    source: str, args: dict[str, JsonValue], said: str
) -> None:
    """The problem does not contain the error messages of CEL."""
    with pytest.raises(ConditionError) as caught:
        conditions.holds(source, {"args": args})
    assert str(caught.value) == said
