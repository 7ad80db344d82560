"""Confirmations of an agent that is called as a tool reach an approver; the call runs once."""

from __future__ import annotations

import asyncio
import json

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool

from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from signoff.core.policies.policy import InDoubt
from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn
from signoff.worker.adk.guard.guard import GuardPlugin
from worker.office import AGENTS, MARA, Office
from worker.test_taken_up import die, work_until_death

pytestmark = [
    pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True),
    # ADK's own: `AgentTool` gives its Runner the plugins.
    pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated"),
    pytest.mark.filterwarnings("ignore:.EXPERIMENTAL. ResumabilityConfig"),
]


APPS = pytest.mark.parametrize(
    "app", ["inside", pytest.param("inside_resumable", marks=pytest.mark.soak)]
)


async def submit(office: Office, app: str, *calls: tuple[str, dict[str, str]]) -> Run:
    """Let the inner agent make these calls."""
    return await office.submit(app, json.dumps(calls))


@APPS
async def test_call_inside_an_agent_tool_is_approved_and_runs_once(
    office: Office, app: str
) -> None:
    """The approver sees the inner call, and the agents continue with its result."""
    run = await submit(office, app, ("look", {"at": "it"}), ("pay", {"to": "A"}))
    assert run.state is RunState.PAUSED, run.problem
    (asked,) = await office.ask(run)
    assert (asked.call.name, asked.call.args) == ("pay", {"to": "A"})
    assert "The agent clerk" in asked.hint
    assert office.executed() == []
    await office.decider.approve(asked.id, MARA, channel="cli")
    done = await office.resume(run)
    assert done.state is RunState.COMPLETED, done.problem
    assert [one["paid"] for one in office.executed()] == ["A"]
    assert "seen" in done.text
    after = await office.ledger.approval(asked.id)
    assert (after.handoff, after.starts) == (Handoff.RESUMED, 1)
    await audit.verify(office.ledger.store)


@APPS
async def test_several_calls_inside_are_asked_about_in_turn(office: Office, app: str) -> None:
    """This includes a repeated call, and one that asks in its own code: each runs once."""
    calls = (("pay", {"to": "A"}), ("give", {"to": "B"}), ("pay", {"to": "A"}))
    run = await submit(office, app, *calls)
    for name, args in calls:
        assert run.state is RunState.PAUSED, run.problem
        (asked,) = await office.ask(run)
        assert (asked.call.name, asked.call.args) == (name, args)
        await office.decider.approve(asked.id, MARA, channel="cli")
        run = await office.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert [one["paid"] for one in office.executed()] == ["A", "B", "A"]


async def test_equal_calls_beside_each_other_do_not_cut_each_other_off(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each approval runs one of them to its end, and then the next one is asked about."""
    paid = []

    async def pay(to: str) -> str:
        """Pay somebody, and take some time for it."""
        for _ in range(20):
            await asyncio.sleep(0)
        paid.append(to)
        return "ok"

    async def yielding(**call: object) -> None:
        await asyncio.sleep(0)

    def three(turn: Turn) -> Reply:
        return "done" if turn.tool_results else [ToolCall("pay", {"to": "A"})] * 3

    root = office.apps.runner("inside").agent
    assert isinstance(root, LlmAgent)
    (tool,) = root.tools
    assert isinstance(tool, AgentTool)
    assert isinstance(tool.agent, LlmAgent)
    monkeypatch.setattr(tool.agent, "tools", [FunctionTool(pay, require_confirmation=True)])
    monkeypatch.setattr(tool.agent, "model", ScriptedModel(script=three))
    monkeypatch.setattr(tool.agent, "before_tool_callback", yielding)
    run = await submit(office, "inside")
    for number in range(3):
        assert run.state is RunState.PAUSED, run.problem
        assert paid == ["A"] * number
        await office.approve(run)
        run = await office.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert paid == ["A"] * 3


@APPS
async def test_a_rejection_reaches_the_agent_inside(office: Office, app: str) -> None:
    """The agent reads the reason, and the tool does not run."""
    run = await submit(office, app, ("pay", {"to": "A"}))
    (asked,) = await office.ask(run)
    await office.decider.reject(asked.id, MARA, channel="cli", reason="over budget")
    done = await office.resume(run)
    assert done.state is RunState.COMPLETED, done.problem
    assert "over budget" in done.text
    assert office.executed() == []


@APPS
async def test_call_inside_an_agent_tool_is_in_doubt_after_a_death(
    office: Office, monkeypatch: pytest.MonkeyPatch, app: str
) -> None:
    """A person is asked before it runs again, and no other call runs twice."""
    run = await submit(office, app, ("pay", {"to": "A"}), ("pay", {"to": "B"}))
    await office.approve(run, InDoubt.ASK)
    run = await office.resume(run)
    await office.approve(run, InDoubt.ASK)
    with monkeypatch.context() as patch:
        patch.setattr(GuardPlugin, "finish", die)
        await work_until_death(office, stages.resume(app))
    assert [one["paid"] for one in office.executed()] == ["A", "B"]
    run = await office.resume(run)
    (again,) = await office.ask(run)
    assert (again.call.name, again.call.args) == ("pay", {"to": "B"})
    assert "may or may not have happened" in again.hint
    await office.decider.reject(again.id, MARA, channel="cli", reason="I saw it")
    done = await office.resume(run)
    assert done.state is RunState.COMPLETED, done.problem
    assert [one["paid"] for one in office.executed()] == ["A", "B"]
    assert "I saw it" in done.text
