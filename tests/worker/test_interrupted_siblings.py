"""A call that raises, or may not start, does not interrupt the call beside it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.function_tool import FunctionTool

from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import RunState
from signoff.core.base.errors import DigestMismatch, KeyUnknown
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.port import Fence
from worker.office import AGENTS, Office

# ADK announces its experimental features by warning about them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True),
]


@pytest.mark.parametrize("raised", [DigestMismatch("no"), KeyUnknown("no"), ValueError("no")])
async def test_a_running_tool_ends_before_the_turn_does(
    office: Office, monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    """ADK cancels all calls of a step if one of them raises, which left the others in doubt."""
    paying, failed = asyncio.Event(), asyncio.Event()
    paid = []

    async def fail() -> None:
        await paying.wait()
        failed.set()
        raise raised

    async def pay(to: str) -> str:
        if to == "B":
            await fail()
        paying.set()
        await failed.wait()
        for _ in range(20):  # time for the failure to cancel this
            await asyncio.sleep(0)
        paid.append(to)
        return "ok"

    enter = GuardPlugin.enter

    async def refused(self: GuardPlugin, approval: str, fence: Fence, *call: Any) -> None:
        if call[1] == {"to": "B"} and not isinstance(raised, ValueError):
            await fail()
        await enter(self, approval, fence, *call)

    run = await office.submit("siblings", "pay both")
    await office.approve(run)
    agent = office.apps.runner("siblings").agent
    assert isinstance(agent, LlmAgent)
    monkeypatch.setattr(agent, "tools", [FunctionTool(pay, require_confirmation=True)])
    monkeypatch.setattr(GuardPlugin, "enter", refused)
    run = await office.resume(run)
    assert paid == ["A"]
    first, second = await office.ledger.approvals(run.approvals)
    assert first.handoff in {Handoff.FINISHED, Handoff.FAILED}
    assert second.handoff is not Handoff.STARTED
    assert run.state is (RunState.ANSWERED if isinstance(raised, KeyUnknown) else RunState.FAILED)
