"""Compaction during a waiting call, and the remains of dead runs: google-adk 2.13."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types

from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from signoff.worker.adk.history import confirmations
from signoff.worker.adk.orphans import orphans
from signoff.worker.adk.questions import CONFIRMATION
from worker.office import Office

HERE = Path(__file__).parent / "agents"

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")


@pytest.fixture
def sessions_url(tmp_path: Path) -> str:
    """ADK's compaction does not depend on the store."""
    return f"sqlite:///{tmp_path}/sessions.db"


@pytest.fixture
def agents_folder() -> Path:
    """The folder of the agent whose session is compacted."""
    return HERE


async def say(office: Office, message: str) -> Run:
    """Send a message in the only session of the test."""
    run = await office.decider.submit(
        "compacting", message, user="riley@example.com", session="one"
    )
    await office.executor.drain("run.compacting")
    return await office.ledger.run(run.id)


async def stored(office: Office) -> Session:
    """Return the session of the test."""
    session = await office.apps.sessions.get_session(
        app_name="compacting", user_id="riley@example.com", session_id="one"
    )
    assert session is not None
    return session


def compacted(session: Session, wanted: Event) -> bool:
    """Return whether a summary has replaced an event."""
    ranges = [one.actions.compaction for one in session.events if one.actions.compaction]
    return any(one.start_timestamp <= wanted.timestamp <= one.end_timestamp for one in ranges)


def request_in(session: Session) -> Event:
    """Return the event that asks for a confirmation."""
    (event,) = (event for event in session.events if confirmations(event))
    return event


async def test_the_newest_pending_call_is_not_compacted(office: Office) -> None:
    """ADK summarises the events before it, and keeps the call and the question."""
    await say(office, "hello")
    run = await say(office, "pay")
    assert run.state is RunState.PAUSED
    session = await stored(office)
    assert any(event.actions.compaction for event in session.events)
    assert not compacted(session, request_in(session))


async def test_a_pending_call_is_compacted_for_the_model_and_can_still_be_approved(
    office: Office,
) -> None:
    """After another turn the summary covers it; ADK still finds the stored events."""
    run = await say(office, "pay")
    await say(office, "hello")
    session = await stored(office)
    assert compacted(session, request_in(session))
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert run.text == '{"status": "ok", "paid": "A"}'
    assert office.executed() == [{"paid": "A"}]


async def test_call_removed_by_compaction_fails_the_run(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that removes compacted events leaves no call to approve: the run says so."""
    run = await say(office, "pay")
    await office.approve(run)
    service = type(office.apps.sessions)
    original = service.get_session

    async def dropping(self: Any, **kwargs: Any) -> Session | None:
        session: Session | None = await original(self, **kwargs)
        if session is not None:
            session.events = [event for event in session.events if event.author == "user"]
        return session

    monkeypatch.setattr(service, "get_session", dropping)
    run = await office.resume(run)
    assert run.state is RunState.FAILED
    assert "deleted or compacted away" in run.problem
    assert office.executed() == []
    (approval,) = await office.ledger.approvals(run.approvals)
    assert approval.handoff is Handoff.VOID


async def test_a_question_that_is_gone_is_asked_again(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ADK refuses an answer to a missing question, so the call is asked about again."""
    run = await say(office, "pay")
    await office.approve(run)
    service = type(office.apps.sessions)
    original = service.get_session

    async def dropping(self: Any, **kwargs: Any) -> Session | None:
        session: Session | None = await original(self, **kwargs)
        if session is not None:
            session.events = [event for event in session.events if not confirmations(event)]
        return session

    monkeypatch.setattr(service, "get_session", dropping)
    (before,) = run.approvals
    run = await office.resume(run)
    assert run.state is RunState.PAUSED
    assert office.executed() == []
    old, new = await office.ledger.approvals([before, *run.waiting])
    assert (old.handoff, new.supersedes) == (Handoff.VOID, old.id)


def call_event(invocation: str, name: str, *, call_id: str, long_running: bool = False) -> Event:
    """Return an event in which an agent calls a tool."""
    call = types.FunctionCall(id=call_id, name=name, args={})
    return Event(
        author="root",
        invocation_id=invocation,
        content=types.Content(role="model", parts=[types.Part(function_call=call)]),
        long_running_tool_ids={call_id} if long_running else None,
    )


async def test_dead_tool_call_does_not_block_compaction(office: Office) -> None:
    """ADK 2.13 skips an unanswered call of an older run."""
    run = await say(office, "hello")
    left = call_event(run.invocation, "look", call_id="adk-left")
    await office.apps.sessions.append_event(await stored(office), left)
    await say(office, "and on")
    session = await stored(office)
    assert compacted(session, next(event for event in session.events if event.id == left.id))
    (found,) = orphans(session.events)
    assert (found.id, found.name) == ("adk-left", "look")


async def test_long_running_call_blocks_compaction(office: Office) -> None:
    """ADK expects an answer to it, so later events are not summarised either."""
    await say(office, "export")
    await say(office, "hello")
    await say(office, "and on")
    session = await stored(office)
    last = session.events[-1]
    assert last.author == "root"
    assert not compacted(session, last)
    (found,) = orphans(session.events)
    assert found.name == "export"


def test_open_question_is_no_orphan() -> None:
    """An open question waits for its approvers."""
    events = [
        call_event("e-1", CONFIRMATION, call_id="adk-q", long_running=True),
        call_event("e-2", "look", call_id="adk-now"),
    ]
    assert orphans(events) == ()


def test_an_empty_session_has_no_orphans() -> None:
    """There is nothing to leave behind."""
    assert orphans([]) == ()
