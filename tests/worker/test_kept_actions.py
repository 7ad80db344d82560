"""What a tool has told ADK beside its result is stored as far as ADK itself would store it."""

from __future__ import annotations

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event_actions import EventActions
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext

from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import RunState
from signoff.worker.adk.guard.actions import kept_actions
from worker.office import AGENTS, Office

# ADK announces its experimental features by warning about them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True),
]


class Odd:
    """A value that no store can keep."""

    def __repr__(self) -> str:
        raise ValueError("no")


async def told(
    office: Office, patch: pytest.MonkeyPatch, state: dict[str, object]
) -> tuple[EventActions, ...]:
    """Run an approved tool that writes this state; return what is kept of its actions."""

    def pay(to: str, tool_context: ToolContext) -> str:
        tool_context.state.update(state)
        return f"paid {to}"

    run = await office.submit("siblings", "pay both")
    await office.approve(run)
    agent = office.apps.runner("siblings").agent
    assert isinstance(agent, LlmAgent)
    patch.setattr(agent, "tools", [FunctionTool(pay, require_confirmation=True)])
    run = await office.resume(run)
    assert run.state is not RunState.IN_DOUBT, run.problem
    approvals = await office.ledger.approvals(run.approvals)
    assert Handoff.STARTED not in {one.handoff for one in approvals}
    return tuple([await kept_actions(office.ledger, one.id) for one in approvals])


async def test_temporary_state_is_not_stored(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may contain secrets, and lasts for a turn only."""
    for one in await told(office, monkeypatch, {"paid": "yes", "temp:token": "secret"}):
        assert one.state_delta == {"paid": "yes"}


async def test_state_that_cannot_be_stored_leaves_no_tool_in_doubt(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool has run, and that is recorded."""
    for one in await told(office, monkeypatch, {"odd": Odd()}):
        assert set(one.state_delta) <= {"odd"}
