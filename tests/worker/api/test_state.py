"""The state of a session does not change while one of its calls waits for an approval."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types

from builders import MARA, paused
from deciding import Decider
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.parts import INPUT, Kind
from signoff.core.approvals.run import RunState
from signoff.worker.adk_api.callers import Caller
from signoff.worker.adk_api.problems import Problem
from signoff.worker.adk_api.sessions import CallerSessions

APP, USER = "finance", "riley"
CALLER = Caller("test", None, None, None, "")


@pytest.fixture
async def sessions(decider: Decider) -> CallerSessions:
    """The sessions API, with two sessions of Riley's and one of Kim's."""
    service = InMemorySessionService()
    for user, session in ((USER, "s"), (USER, "other"), ("kim", "s")):
        await service.create_session(app_name=APP, user_id=user, session_id=session)
    return CallerSessions(service, decider)


async def patch(
    sessions: CallerSessions, session: str, user: str = USER, **state: Any
) -> dict[str, Any]:
    """Set some state and return the resulting state."""
    changed = await sessions.update(CALLER, APP, user, session, {"stateDelta": state})
    return dict(changed.state)


@pytest.mark.parametrize("decided", [False, True], ids=["waiting", "decided"])
@pytest.mark.parametrize("state", [{"iban": "DE-EVIL"}, {"user:iban": "DE-EVIL"}, {"app:x": 1}])
async def test_state_is_not_changed_under_a_call_that_waits(
    sessions: CallerSessions, decider: Decider, ledger: Ledger, state: dict[str, Any], decided: bool
) -> None:
    """It is refused until the call has run, even after the decision, with a suggestion."""
    run, (approval,) = await paused(ledger, session="s")
    if decided:
        await decider.approve(approval.id, MARA, channel="cli")
        assert (await ledger.run(run.id)).state is RunState.ANSWERED
    with pytest.raises(Problem) as caught:
        await patch(sessions, "s", **state)
    problem = caught.value
    assert (problem.status, problem.kind) == (409, "session-paused")
    assert problem.more["approvals"] == [approval.id]
    found = await sessions.get(CALLER, APP, USER, "s")
    assert found.state == {}
    assert found.events == []


async def test_state_of_the_user_is_not_changed_from_another_session(
    sessions: CallerSessions, ledger: Ledger
) -> None:
    """The user's state is shared; another session's own state may change."""
    await paused(ledger, session="s")
    with pytest.raises(Problem, match="session s "):
        await patch(sessions, "other", **{"user:iban": "DE-EVIL"})
    with pytest.raises(Problem, match="session s "):
        await sessions.create(CALLER, APP, USER, {"state": {"user:iban": "DE-EVIL"}})
    assert await patch(sessions, "other", iban="DE-1") == {"iban": "DE-1"}
    assert (await patch(sessions, "s", "kim", **{"user:iban": "DE-2"}))["user:iban"] == "DE-2"


async def test_state_can_be_changed_when_the_pause_has_ended(
    sessions: CallerSessions, ledger: Ledger
) -> None:
    """No displayed value waits for an approval any more."""
    run, _ = await paused(ledger, session="s")
    ended, events = run.model_copy(update={"state": RunState.ANSWERED, "waiting": ()}).completed(
        "done", now=await ledger.now()
    )
    await ledger.commit(Change().put(ended, was=run).note(events))
    assert await patch(sessions, "s", iban="DE-1") == {"iban": "DE-1"}


@pytest.mark.parametrize("key", ["signoff_run", "signoff_told", "signoff_refusal"])
async def test_the_marks_of_signoff_are_its_own(sessions: CallerSessions, key: str) -> None:
    """Signoff finds its own messages by them; nobody else may set them."""
    with pytest.raises(Problem, match="Signoff's own"):
        await patch(sessions, "s", **{key: "run_1"})
    with pytest.raises(Problem, match="Signoff's own"):
        await sessions.create(CALLER, APP, USER, {"state": {key: "run_1"}})


async def test_the_event_of_a_question_is_found_by_its_number(
    sessions: CallerSessions, ledger: Ledger
) -> None:
    """A node asks twice under one id, in two events."""
    found = await sessions.get(CALLER, APP, USER, "s")
    call = types.FunctionCall(id="node", name=INPUT, args={"interruptId": "node"})
    content = types.Content(role="model", parts=[types.Part(function_call=call)])
    events = [
        await sessions.usual.append_event(
            found, Event(author="flow", content=content, long_running_tool_ids={"node"})
        )
        for _ in range(2)
    ]
    _, (approval,) = await paused(ledger, session="s")
    for nth in range(3):
        update = {"nth": nth, "confirmation": "node"}
        origin = approval.origin.model_copy(update=update)
        asked = approval.model_copy(update={"origin": origin, "kind": Kind.INPUT})
        assert await sessions.event_of(asked) == (events[nth].id if nth < 2 else "")
    elsewhere = approval.origin.model_copy(update={"session": "gone"})
    assert await sessions.event_of(approval.model_copy(update={"origin": elsewhere})) == ""
