"""An agent's words before a call are stored with its approval."""

from __future__ import annotations

import pytest
from google.adk.events.event import Event
from google.genai import types

from signoff.core.approvals.run import RunState
from signoff.worker.adk.history import said_before
from worker.office import AGENTS, MARA, Office

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")

FIRST = "I look at the budget first."
SECOND = "A is paid, so <b>B</b> is next."


def event(author: str, *parts: types.Part, partial: bool = False) -> Event:
    """Return an event of a session."""
    content = types.Content(role="user" if author == "user" else "model", parts=list(parts))
    return Event(author=author, content=content, partial=partial)


def call(call_id: str) -> types.Part:
    """Return a call."""
    return types.Part(function_call=types.FunctionCall(id=call_id, name="pay", args={}))


def test_explanation_has_only_the_calling_agents_latest_words() -> None:
    """Only the calling agent's words since the user's last message count, without its thoughts."""
    events = [
        event("user", types.Part(text="please")),
        event("one", types.Part(text="old"), call("a")),
        event("two", types.Part(text="hm", thought=True), call("b")),
        event("one", types.Part(text="half"), partial=True),
        event("one", call("c")),
        event("user", types.Part(text="go on")),
        event("one", call("d")),
    ]
    said = said_before(events, ["a", "b", "c", "d", "e"])
    assert said == {"a": "old", "b": "", "c": "old", "d": ""}


@pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True)
async def test_here(office: Office) -> None:
    """Beside the call, or the last words before it; unchanged, so that channels show text."""
    run = await office.submit("tells", "pay both")
    (first,) = await office.ask(run)
    assert first.said == FIRST
    assert first.request == run.message
    await office.decider.approve(first.id, MARA, channel="cli")
    run = await office.resume(run)
    (second,) = await office.ask(run)
    assert second.said == SECOND
    await office.decider.approve(second.id, MARA, channel="cli")
    run = await office.resume(run)
    assert (run.state, run.text) == (RunState.COMPLETED, "Done.")
