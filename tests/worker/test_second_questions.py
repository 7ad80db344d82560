"""A tool asks another question on its approved pass: a person is asked, and nobody goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from worker.office import MARA, Office

pytestmark = [
    # ADK announces its experimental features by warning about them, and what it will take away.
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Agent is deprecated:DeprecationWarning"),
]

AGENT = """
from google.adk.tools.tool_context import ToolContext
from worker.shapes import actor, journal, noter, pay, sequence


def pay_many(to: str, tool_context: ToolContext) -> dict:
    answer = tool_context.tool_confirmation
    if answer is None:
        tool_context.request_confirmation(hint="How much?", payload={"amount": 0})
        return {"status": "pending"}
    if answer.payload["amount"] > 100 and not answer.payload.get("sure"):
        tool_context.request_confirmation(
            hint="So much?", payload={"amount": answer.payload["amount"], "sure": False}
        )
        return {"status": "pending"}
    journal({"amount": answer.payload["amount"]})
    return pay(to)


def ask_always(to: str, tool_context: ToolContext) -> dict:
    tool_context.request_confirmation(hint="May I?")
    if tool_context.tool_confirmation is None:
        return {"status": "pending"}
    return pay(to)


def build(tool):
    a = actor("a", [(tool.__name__, {"to": "a1"})], "a is done.", tools=[tool])
    return sequence("root", a, noter("b"))


"""


@pytest.fixture(scope="module")
def agents_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of agents: a tool asks again if the answer is unusual, or asks always."""
    folder = tmp_path_factory.mktemp("again")
    for name in ("pay_many", "ask_always"):
        home = folder / f"{name}_office"
        home.mkdir()
        (home / "__init__.py").write_text("from . import agent\n")
        (home / "agent.py").write_text(f"{AGENT}root_agent = build({name})\n")
    return folder


async def asked(office: Office, run: Run) -> Approval:
    """Return the only question that the run waits for, after it was put to Mara."""
    assert run.state is RunState.PAUSED, run.problem
    (approval,) = await office.ask(run)
    return approval


async def test_second_question_has_an_approval_of_its_own(office: Office) -> None:
    """Its card shows the call and the new question; the answer reaches the tool."""
    run = await office.submit("pay_many_office", "go")
    first = await asked(office, run)
    await office.decider.approve(first.id, MARA, channel="cli", values={"amount": 500})
    run = await office.resume(run)
    second = await asked(office, run)
    assert second.id != first.id
    assert (second.call, second.hint) == (first.call, "So much?")
    assert second.template == {"amount": 500, "sure": False}
    assert office.executed() == []
    values = {"amount": 400, "sure": True}
    await office.decider.approve(second.id, MARA, channel="cli", values=values)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert office.executed() == [{"amount": 400}, {"paid": "a1"}, {"noted": "b1"}]
    for one in await office.ledger.approvals([first.id, second.id]):
        assert (one.handoff, one.starts) == (Handoff.RESUMED, 1)


async def test_no_to_the_second_question_reaches_the_model(office: Office) -> None:
    """The tool does not run again, and the agents go on."""
    run = await office.submit("pay_many_office", "go")
    first = await asked(office, run)
    await office.decider.approve(first.id, MARA, channel="cli", values={"amount": 500})
    run = await office.resume(run)
    second = await asked(office, run)
    await office.decider.reject(second.id, MARA, channel="cli", reason="too much")
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert office.executed() == [{"noted": "b1"}]
    results = [
        one.response or {}
        for event in (await office.session(run)).events
        for one in event.get_function_responses()
        if one.name == "pay_many"
    ]
    assert results[-1]["reason"] == "too much"


async def test_question_that_was_answered_is_not_asked_again(office: Office) -> None:
    """A tool may put the same question on each pass; its approval lets it run once."""
    run = await office.submit("ask_always_office", "go")
    first = await asked(office, run)
    await office.decider.approve(first.id, MARA, channel="cli")
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert office.executed() == [{"paid": "a1"}, {"noted": "b1"}]
