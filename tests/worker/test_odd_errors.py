"""Tools that raise `StopIteration`, as `next()` does, or `SystemExit`, as argparse does."""

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


@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")
@pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True)
@pytest.mark.parametrize("kind", ["plain", "gated", "async"])
async def test_a_tool_that_exits_ends_no_worker(
    office: Office, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Its run fails, and the call is not in doubt; asyncio would end the process."""

    def pay(to: str) -> dict[str, str]:
        raise SystemExit(f"usage: pay {to}")

    async def pay_later(to: str) -> dict[str, str]:
        return pay(to)

    pay_later.__name__ = "pay"
    tool = FunctionTool(pay_later if kind == "async" else pay, require_confirmation=kind != "plain")
    agent = office.apps.runner("siblings").agent
    assert isinstance(agent, LlmAgent)
    monkeypatch.setattr(agent, "tools", [tool])
    run = await office.submit("siblings", "pay both")
    if kind != "plain":
        await office.approve(run)
        run = await office.resume(run)
    assert run.state is RunState.FAILED
    assert "RuntimeError: It raised SystemExit('usage: pay" in run.problem
    found = await office.ledger.approvals(run.approvals)
    assert Handoff.STARTED not in {one.handoff for one in found}


@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")
@pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True)
async def test_a_node_that_exits_ends_no_worker(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for a function that is a node of a workflow."""

    def leave(_: object) -> None:
        raise SystemExit(2)

    run = await office.submit("nodes", "go")
    await office.approve(run)
    monkeypatch.setattr("nodes.agent.journal", leave)
    run = await office.resume(run)
    assert run.state is RunState.FAILED
    assert "SystemExit(2)" in run.problem
