"""A request for input without a schema: from the approver's reply to the agent's value."""

from __future__ import annotations

from typing import Any

import pytest

from signoff.core.approvals.input.rules import InputRule
from signoff.core.approvals.lifecycle import State
from signoff.core.approvals.run import Run, RunState
from signoff.core.base.errors import PayloadError
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.executor import Executor
from worker.office import AGENTS, MARA, Office

pytestmark = [
    # ADK announces its experimental features by warning about them.
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True),
]

RULE = InputRule(yes={"approved": True}, no={"approved": False, "reason": ""})


async def told(office: Office, run: Run) -> object:
    """Return the value that the agent got for its question."""
    session = await office.session(run)
    (given,) = [
        response
        for event in session.events
        if event.author == "user"
        for response in event.get_function_responses()
    ]
    return (given.response or {}).get("result", given.response)


def with_rules(office: Office, *rules: InputRule) -> None:
    """Give the worker these tables."""
    was = office.executor.runtime
    assert isinstance(was, AdkRuntime)
    runtime = AdkRuntime(office.apps, was.guard, inputs=rules)
    office.executor = Executor(office.ledger, runtime)


@pytest.mark.parametrize(
    ("yes", "words", "wanted"),
    [
        (True, {"values": {"value": {"approved": True}}}, {"approved": True}),
        (True, {"values": {"value": "A-17"}}, "A-17"),
        (True, {}, "approve"),
        (False, {}, "reject"),
        (False, {"reason": "not today"}, "reject: not today"),
        (False, {"values": {"value": {"approved": False}}}, {"approved": False}),
    ],
)
async def test_each_answer_reaches_the_agent(
    office: Office, yes: bool, words: dict[str, Any], wanted: object
) -> None:
    """A no is a rejection, and the agent continues with it."""
    run = await office.submit("asks_input", "go")
    (approval,) = await office.ask(run)
    decide = office.decider.approve if yes else office.decider.reject
    after = await decide(approval.id, MARA, channel="test", **words)
    assert after.state is (State.APPROVED if yes else State.REJECTED)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert await told(office, run) == wanted


@pytest.mark.parametrize("yes", [True, False])
async def test_input_settings_map_a_single_word_to_a_value(office: Office, *, yes: bool) -> None:
    """[[inputs]] maps it to a value that this agent understands."""
    with_rules(office, RULE)
    run = await office.submit("asks_input", "go")
    (approval,) = await office.ask(run)
    decide = office.decider.approve if yes else office.decider.reject
    await decide(approval.id, MARA, channel="test", reason="" if yes else "late")
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    wanted = {"approved": True} if yes else {"approved": False, "reason": "late"}
    assert await told(office, run) == wanted


@pytest.mark.parametrize("value", [False, "no", {"approved": False}, {"decision": "denied"}])
async def test_approval_with_a_negative_answer_is_refused(office: Office, value: Any) -> None:
    """A negative answer is never recorded as an approval."""
    run = await office.submit("asks_input", "go")
    (approval,) = await office.ask(run)
    with pytest.raises(PayloadError, match="says no"):
        await office.decider.approve(approval.id, MARA, channel="test", values={"value": value})
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
