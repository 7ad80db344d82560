"""The tools of an MCP server: their gate asks a person and gets the answer."""

from __future__ import annotations

import pytest

from signoff.core.approvals.run import RunState
from worker.office import AGENTS, MARA, Office
from worker.test_changed_arguments import put

pytestmark = [
    # ADK announces its experimental features by warning about them.
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True),
]


async def test_gated_mcp_tool_runs_once_after_its_approval(office: Office) -> None:
    """The server is a separate process; its tool runs once with the shown arguments."""
    run = await office.submit("mcp_gate", "hello")
    assert run.state is RunState.PAUSED
    (approval,) = await office.ledger.approvals(run.approvals)
    assert (approval.call.name, approval.call.args) == ("send", {"to": "A", "text": "hello"})
    assert office.executed() == []
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert "sent to A" in run.text
    assert office.executed() == [{"sent": "A", "text": "hello"}]


async def test_a_rejected_tool_of_an_mcp_server_does_not_run(office: Office) -> None:
    """The model reads the reason, and the server is not called."""
    run = await office.submit("mcp_gate", "hello")
    (approval,) = await office.ask(run)
    await office.decider.reject(approval.id, MARA, channel="cli", reason="not this one")
    run = await office.resume(run)
    assert "not this one" in run.text
    assert office.executed() == []


async def test_mcp_server_gets_only_the_shown_arguments(office: Office) -> None:
    """A callback that inserts another text from a changed state sends nothing."""
    run = await office.submit("mcp_gate", "hello")
    await office.approve(run)
    await put(office, run, text="something else")
    run = await office.resume(run)
    assert run.state is RunState.PAUSED
    (question,) = await office.ledger.approvals(run.waiting)
    assert "has changed its arguments" in question.hint
    assert office.executed() == []
