"""A tool that raises `StopIteration`, as `next()` does, ends: before Python 3.12 it never would."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.function_tool import FunctionTool

from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import RunState
from worker.office import AGENTS, Office


async def test_a_thread_that_raises_it_ends() -> None:
    """The frameworks run synchronous tools in threads, and asyncio carries their errors."""
    nothing: list[str] = []
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.to_thread(next, iter(nothing))


# ADK announces its experimental features by warning about them.
@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")
@pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True)
async def test_the_run_of_such_a_tool_fails(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run says what the tool has raised, and the call is not in doubt."""

    def pay(to: str) -> Any:
        return next(one for one in "" if one == to)

    run = await office.submit("siblings", "pay both")
    await office.approve(run)
    agent = office.apps.runner("siblings").agent
    assert isinstance(agent, LlmAgent)
    monkeypatch.setattr(agent, "tools", [FunctionTool(pay, require_confirmation=True)])
    run = await office.resume(run)
    assert run.state is RunState.FAILED
    assert "StopIteration" in run.problem
    found = await office.ledger.approvals(run.approvals)
    assert Handoff.STARTED not in {one.handoff for one in found}
