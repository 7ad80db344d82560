"""Answers that cannot be given any more, and last words that were lost: each has a defined end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from google.adk.apps.app import App
from google.adk.cli.utils.agent_loader import AgentLoader
from google.adk.runners import Runner
from google.genai import types

from signoff.broker import audit, stages
from signoff.core.approval import Approval
from signoff.core.events import What
from signoff.core.lifecycle import Handoff
from signoff.core.policy import InDoubt
from signoff.core.run import Run, RunState
from worker.office import AGENTS, EXAMPLES, Office
from worker.test_taken_up import Fuse, lay, work_until_death

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")

Sabotage = Callable[[Office, Run, Approval], Awaitable[None]]


async def delete(office: Office, run: Run, approval: Approval) -> None:
    """Delete the session."""
    await office.apps.sessions.delete_session(
        app_name=run.app, user_id=run.user, session_id=run.session
    )


async def answer_elsewhere(office: Office, run: Run, approval: Approval, yes: bool) -> None:
    """Answer in an `adk web` on the same database: a Runner without a guard."""
    found = AgentLoader(str(EXAMPLES)).load_agent(run.app)
    app = found if isinstance(found, App) else App(name=run.app, root_agent=found)
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


async def approve_elsewhere(office: Office, run: Run, approval: Approval) -> None:
    """Let somebody else say yes, and run the tool."""
    await answer_elsewhere(office, run, approval, yes=True)


async def reject_elsewhere(office: Office, run: Run, approval: Approval) -> None:
    """Let the session go on: somebody else says no."""
    await answer_elsewhere(office, run, approval, yes=False)


@pytest.mark.parametrize(
    ("sabotage", "words", "executed"),
    [
        (delete, "is gone", 0),
        (approve_elsewhere, "answered and run by somebody else", 1),
        (reject_elsewhere, "went on without us", 0),
    ],
)
async def test_an_answer_that_cannot_be_given_is_told(
    office: Office, sabotage: Sabotage, words: str, executed: int
) -> None:
    """The run fails, whoever decided is told, and the trail says why; nothing runs by us."""
    run = await office.submit("finance", "Reimburse me $2500 for the conference")
    (approval,) = await office.ledger.approvals(run.approvals)
    await sabotage(office, run, approval)
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.FAILED
    assert words in run.problem
    assert len(office.executed()) == executed
    assert (await office.ledger.approval(approval.id)).handoff is Handoff.FAILED
    (failed,) = [
        event
        for event in await office.ledger.history(approval.id)
        if event.what is What.NOT_RESUMED
    ]
    assert words in failed.why
    claimed = await office.ledger.claim(stages.deliver("email"))
    (told,) = [item for item in claimed.items if item.id == f"unheard:{approval.id}:mara"]
    assert words in told.body["problem"]
    await audit.verify(office.ledger.store)


@pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(1, 9))
async def test_a_lost_last_word_has_what_the_tool_gave_in_its_place(
    office: Office, monkeypatch: pytest.MonkeyPatch, step: int, after: bool
) -> None:
    """A plain root of one's own cannot be asked for it again: the stored result stands there."""
    run = await office.submit("relay", "pay")
    await office.approve(run, InDoubt.FAIL)
    with monkeypatch.context() as patch:
        lay(patch, office, Fuse(step, after=after))
        await work_until_death(office, stages.resume("relay"))
    run = await office.resume(run)
    assert len(office.executed()) <= 1
    if run.state is RunState.IN_DOUBT:
        return
    assert run.state is RunState.COMPLETED
    assert '"paid": "A"' in run.text
    if not run.text.startswith("I paid"):
        assert "last word was lost" in run.text
        assert "last word was lost" in (await office.ledger.history(run.id))[-1].why
