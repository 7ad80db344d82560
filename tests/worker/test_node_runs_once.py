"""An approved node of a workflow runs once, although ADK or the worker would try again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from google.adk.workflow import BaseNode, FunctionNode, RetryConfig, Workflow

from signoff.broker import stages
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from worker.office import AGENTS, Office

# ADK announces its experimental features by warning about them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True),
    pytest.mark.parametrize("app", ["nodes", "nodes_resumable"]),
]

RETRY = RetryConfig(max_attempts=3, initial_delay=0.01, jitter=0.0)


def asking(pay: Callable[..., Any], **more: Any) -> FunctionNode:
    """Build a node that asks whether it may run."""
    return FunctionNode(
        func=pay, name="pay", require_confirmation=True, rerun_on_resume=True, **more
    )


async def approved(office: Office, patch: pytest.MonkeyPatch, app: str, node: BaseNode) -> Run:
    """Replace the workflow of an app by a node, and approve what it asks."""
    runner = office.apps.runner(app)
    patch.setattr(runner, "agent", Workflow(name=runner.agent.name, edges=[("START", node)]))
    run = await office.submit(app, "go")
    await office.approve(run)
    return run


async def require_raised(office: Office, run: Run, problem: str) -> None:
    """Require that a run has failed because its approved node has raised."""
    run = await office.ledger.run(run.id)
    assert run.state is RunState.FAILED
    assert problem in run.problem
    (approval,) = await office.ledger.approvals(run.approvals)
    assert approval.handoff is not Handoff.STARTED


@pytest.mark.parametrize("around", [0, 1, 2])
async def test_a_node_that_raises_is_not_retried(
    office: Office, monkeypatch: pytest.MonkeyPatch, app: str, around: int
) -> None:
    """The `retry_config` of the node, and of the workflows around it, does not run it again."""
    paid = []

    def pay() -> None:
        paid.append("50")
        raise RuntimeError("flaky")

    node: BaseNode = asking(pay, retry_config=RETRY)
    for number in range(around):
        node = Workflow(name=f"outer{number}", retry_config=RETRY, edges=[("START", node)])
    run = await approved(office, monkeypatch, app, node)
    await office.resume(run)
    assert paid == ["50"]
    await require_raised(office, run, "RuntimeError: flaky")


async def test_a_node_that_takes_too_long_is_not_retried(
    office: Office, monkeypatch: pytest.MonkeyPatch, app: str
) -> None:
    """ADK cancels it and would run it again."""
    paid = []

    async def pay() -> None:
        paid.append("50")
        await asyncio.Event().wait()

    node = asking(pay, timeout=0.1, retry_config=RETRY)
    run = await approved(office, monkeypatch, app, node)
    await office.resume(run)
    assert paid == ["50"]
    await require_raised(office, run, "is not run again: it raised NodeTimeoutError")


async def test_a_node_with_a_passing_error_is_not_run_again(
    office: Office, monkeypatch: pytest.MonkeyPatch, app: str
) -> None:
    """The worker takes up such a run again later, because it may have failed before the node."""
    paid = []

    def pay() -> None:
        paid.append("50")
        raise ConnectionError("the bank hung up")

    run = await approved(office, monkeypatch, app, asking(pay))
    run = await office.resume(run)
    assert run.state is RunState.ANSWERED
    office.pass_time()
    await office.executor.drain(stages.resume(app))
    assert paid == ["50"]
    await require_raised(office, run, "raised ConnectionError: the bank hung up")
