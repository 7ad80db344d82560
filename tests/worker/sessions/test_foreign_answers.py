"""Answers that can no longer be given: each has a defined end and is reported, in every store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.adk.apps.app import App
from google.adk.cli.utils.agent_loader import AgentLoader
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.genai import types

from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import What
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from signoff.worker.adk.guard.guard import GuardPlugin
from worker.office import EXAMPLES, Office

CONFERENCE = "Reimburse me $2500 for the conference"

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")

Sabotage = Callable[[Office, Run, Approval], Awaitable[None]]


class Door(BasePlugin):
    """Stops a tool before it runs."""

    def __init__(self) -> None:
        super().__init__(name="door")
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def before_tool_callback(self, **_: Any) -> None:
        """Report that the tool is reached, and wait for permission."""
        self.reached.set()
        await self.open.wait()


async def answer_elsewhere(
    office: Office, run: Run, approval: Approval, *, yes: bool, door: Door | None = None
) -> None:
    """Answer in an `adk web` on the same database: a Runner without a guard."""
    found = AgentLoader(str(EXAMPLES)).load_agent(run.app)
    app = found if isinstance(found, App) else App(name=run.app, root_agent=found)
    app = app.model_copy(update={"plugins": [door] if door else []})
    response = types.FunctionResponse(
        id=approval.origin.confirmation,
        name="adk_request_confirmation",
        response={"confirmed": yes},
    )
    async with Runner(app=app, session_service=office.apps.sessions) as runner:
        async for _ in runner.run_async(
            user_id=run.user,
            session_id=run.session,
            invocation_id=run.invocation,
            new_message=types.Content(role="user", parts=[types.Part(function_response=response)]),
        ):
            pass


@asynccontextmanager
async def running_elsewhere(office: Office, run: Run, approval: Approval) -> AsyncIterator[None]:
    """Let another Runner wait before the same tool with its own approval."""
    door = Door()
    other = asyncio.create_task(answer_elsewhere(office, run, approval, yes=True, door=door))
    await door.reached.wait()
    try:
        yield
    finally:
        door.open.set()
        await other


async def delete(office: Office, run: Run, approval: Approval) -> None:
    """Delete the session."""
    await office.apps.sessions.delete_session(
        app_name=run.app, user_id=run.user, session_id=run.session
    )


async def approve_elsewhere(office: Office, run: Run, approval: Approval) -> None:
    """Let another Runner approve and run the tool."""
    await answer_elsewhere(office, run, approval, yes=True)


async def reject_elsewhere(office: Office, run: Run, approval: Approval) -> None:
    """Let another Runner continue the session with a rejection."""
    await answer_elsewhere(office, run, approval, yes=False)


async def require_told(office: Office, run: Run, approval_id: str, words: str) -> None:
    """Check that a run has failed with this message, in the audit and to the approver."""
    assert run.state is RunState.FAILED
    assert words in run.problem
    assert (await office.ledger.approval(approval_id)).handoff is Handoff.FAILED
    (failed,) = [
        event
        for event in await office.ledger.history(approval_id)
        if event.what is What.NOT_RESUMED
    ]
    assert words in failed.why
    claimed = await office.ledger.claim(stages.deliver("email"))
    (told,) = [item for item in claimed.items if item.id == f"unheard:{approval_id}:mara"]
    assert words in told.body["problem"]
    await audit.verify(office.ledger.store)


@pytest.mark.parametrize(
    ("sabotage", "words", "executed"),
    [
        (delete, "is gone", 0),
        (approve_elsewhere, "answered and run by somebody else", 1),
        (reject_elsewhere, "went on without us", 0),
    ],
)
async def test_failed_answer_is_reported_to_the_approver(
    office: Office, sabotage: Sabotage, words: str, executed: int
) -> None:
    """The run fails, the approver is told, the audit has the reason, and we run nothing."""
    run = await office.submit("finance", CONFERENCE)
    (approval,) = await office.ledger.approvals(run.approvals)
    await sabotage(office, run, approval)
    await office.approve(run)
    run = await office.resume(run)
    assert len(office.executed()) == executed
    await require_told(office, run, approval.id, words)


async def test_call_approved_by_a_foreign_client_is_not_run(office: Office) -> None:
    """A foreign approval in the session runs nothing here, even with our own answer's text."""
    run = await office.submit("finance", CONFERENCE)
    (approval,) = await office.ledger.approvals(run.approvals)
    await office.approve(run)
    async with running_elsewhere(office, run, approval):
        run = await office.resume(run)
        assert office.executed() == []
    assert len(office.executed()) == 1
    await require_told(office, run, approval.id, "approved by somebody else")


async def test_foreign_answer_during_a_resume_stops_the_tool(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard checks the history that ADK uses once more: the tool runs once."""
    run = await office.submit("finance", CONFERENCE)
    (approval,) = await office.ledger.approvals(run.approvals)
    await office.approve(run)
    begin = GuardPlugin.begin
    door = Door()
    others = []

    async def overtaken(*args: Any) -> None:
        await begin(*args)
        answer = answer_elsewhere(office, run, approval, yes=True, door=door)
        others.append(asyncio.create_task(answer))
        await door.reached.wait()

    monkeypatch.setattr(GuardPlugin, "begin", overtaken)
    ended = await office.resume(run)
    door.open.set()
    # Their history has changed meanwhile: some stores report it after the tool.
    await asyncio.gather(*others, return_exceptions=True)
    assert len(office.executed()) == 1
    await require_told(office, ended, approval.id, "approved by somebody else")
