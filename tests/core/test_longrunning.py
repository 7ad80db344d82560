"""Long-running tools: which calls wait for a person, and which response they get."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from builders import MARA, NOON, ask, make_call, make_origin, people
from signoff.core.approvals.approval import Approval, Kind
from signoff.core.approvals.input.long_running import LongRunning, check, result_of, rule_for
from signoff.core.base.errors import ConditionError, NotCanonical

SO_FAR: dict[str, JsonValue] = {"status": "pending", "ticket": "t-17"}


def waiting(template: JsonValue = None) -> Approval:
    """Return an approval for a long-running call that Mara is asked about."""
    approval, _ = Approval.open(
        make_origin(),
        make_call("ask_for_approval", amount=50),
        hint="",
        template=template,
        now=NOON,
        kind=Kind.LONG_RUNNING,
    )
    return ask(approval, MARA)


def decided(act: str, template: JsonValue = None, **more: Any) -> Approval:
    """Return the approval after Mara's decision."""
    method = getattr(waiting(template), act)
    after: Approval
    after, _ = method(MARA, people(), channel="email", now=NOON + timedelta(minutes=1), **more)
    return after


def test_decision_is_merged_into_the_tools_result() -> None:
    """Without an expression, the result keeps all fields that the tool has returned."""
    yes = decided("approve", reason="fine")
    no = decided("reject", reason="too much")
    assert result_of(None, yes, SO_FAR) == {
        "status": "approved",
        "ticket": "t-17",
        "reason": "fine",
    }
    assert result_of(None, no, None) == {"status": "rejected", "reason": "too much"}


def test_long_running_result_tells_a_timeout_from_a_rejection() -> None:
    """A timeout is not a rejection, because nobody has answered."""
    late, _ = waiting().time_out(now=NOON + timedelta(days=2))
    assert result_of(None, late, SO_FAR)["status"] == "timed_out"


def test_values_and_proposals_reach_the_model() -> None:
    """A payload carries values; without one, they are arguments that would be approved."""
    filled = decided("approve", {"cap": 0}, values={"cap": 40})
    edited = decided("approve", values={"amount": 20})
    assert result_of(None, filled, None)["values"] == {"cap": 40}
    assert result_of(None, edited, None)["proposal"] == {
        "tool": "ask_for_approval",
        "args": {"amount": 20},
    }


def test_an_expression_builds_the_result_from_all_there_is() -> None:
    """An expression can use the decision, the values, the arguments and the tool's result."""
    rule = LongRunning(
        tool="ask_for_approval",
        payload={"cap": 0},
        response="{'ok': approved, 'state': status, 'why': reason, 'cap': values.cap, 'by': by, "
        "'of': args.amount, 'id': result.ticket, 'tool': app + '.' + tool}",
    )
    check(rule)
    yes = decided("approve", {"cap": 0}, values={"cap": 40}, reason="fine")
    assert result_of(rule, yes, SO_FAR) == {
        "ok": True,
        "state": "approved",
        "why": "fine",
        "cap": 40,
        "by": "mara",
        "of": 50,
        "id": "t-17",
        "tool": "finance.ask_for_approval",
    }


@pytest.mark.parametrize("response", ["{'id': result.ticket}", "result.list"])
def test_error_for_an_unbuildable_result_names_the_expression(response: str) -> None:
    """The run fails with this error instead of giving the agent another result."""
    rule = LongRunning(tool="ask_for_approval", response=response)
    with pytest.raises(ConditionError, match="result"):
        result_of(rule, decided("approve"), {"list": [1]} if "list" in response else {})


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"when": "result.status =="}, "not a CEL expression"),
        ({"when": "agent == 'x'"}, "'agent', which does not exist"),
        ({"when": "tool"}, "not true or false"),
        ({"response": "status"}, "not a map"),
        ({"response": "{'a': user}"}, "'user', which does not exist"),
    ],
)
def test_a_rule_that_can_never_work_is_refused(rule: dict[str, str], words: str) -> None:
    """`signoff config check` reports it before anything runs."""
    with pytest.raises(ConditionError, match=words):
        check(LongRunning(tool="t", **rule))


def test_payload_that_is_not_json_is_refused() -> None:
    """TOML can write infinity, and JSON cannot."""
    with pytest.raises(NotCanonical):
        check(LongRunning(tool="t", payload={"cap": float("inf")}))


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        ({"tool": "ask", "app": "a", "result": {"status": "pending"}}, 0),
        ({"tool": "ask", "app": "b", "result": {"status": "pending"}}, 1),
        ({"tool": "ask", "app": "a", "result": {"status": "approved"}}, 1),
        ({"tool": "ask", "app": "a", "result": None}, 0),
        ({"tool": "other", "app": "a", "result": {"status": "pending"}}, None),
    ],
)
def test_the_first_rule_that_matches_rules(facts: dict[str, Any], wanted: int | None) -> None:
    """Rules match by tool, by app and by the tool's result."""
    rules = (
        LongRunning(tool="ask", app="a", when="result.status == 'pending'"),
        LongRunning(tool="ask"),
    )
    found = rule_for(rules, args={}, **facts)
    assert found is (None if wanted is None else rules[wanted])


def test_a_condition_that_cannot_be_evaluated_asks() -> None:
    """One question too many does no harm; a call that stays open forever does."""
    rules = (LongRunning(tool="ask", when="result.status > 3"),)
    found = rule_for(rules, app="a", tool="ask", args={}, result={"status": "pending"})
    assert found is rules[0]


@given(st.text(max_size=30))
def test_no_expression_breaks_the_check(source: str) -> None:
    """Any text is either accepted or refused with a message."""
    for rule in (LongRunning(tool="t", when=source), LongRunning(tool="t", response=source)):
        try:
            check(rule)
        except ConditionError as error:
            assert str(error)  # noqa: PT017 -- both outcomes are correct
