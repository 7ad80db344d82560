"""The plugin's reports about answers that were given without Signoff."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.genai import types

from worker.test_plugin import Elsewhere, Line


async def answered(here: Elsewhere, call: str, state: dict[str, Any] | None = None) -> None:
    """Answer a call in the agent's own process."""
    said = types.FunctionResponse(
        id=call, name="adk_request_confirmation", response={"confirmed": True}
    )
    message = types.Content(role="user", parts=[types.Part(function_response=said)])
    turn = here.runner.run_async(
        user_id="riley", session_id="s", new_message=message, state_delta=state
    )
    async for _ in turn:
        pass


async def test_plugin_reports_an_answer_of_another_client(tmp_path: Path) -> None:
    """Otherwise people would be asked about a call that has run."""
    signoff = Line()
    here = Elsewhere(tmp_path, signoff)
    (call,) = await here.say("pay:5")
    await answered(here, call)
    _, told = signoff.seen
    assert (told["answered"], told["pauses"]) == ([call], [])


async def test_an_answer_that_signoff_has_given_is_not(tmp_path: Path) -> None:
    """Its turn is marked, and Signoff knows its own answers."""
    signoff = Line()
    here = Elsewhere(tmp_path, signoff)
    (call,) = await here.say("pay:5")
    await answered(here, call, {"signoff_refusal": ""})
    assert len(signoff.seen) == 1


async def test_a_call_that_was_answered_meanwhile_is_not_published_any_more(
    tmp_path: Path,
) -> None:
    """Otherwise a pause that is published late would ask people about a call that has run."""
    signoff = Line(503)
    here = Elsewhere(tmp_path, signoff, pause=0.2)
    (call,) = await here.say("pay:5")
    await answered(here, call)
    await here.plugin.close()
    first, *told = signoff.seen
    assert len(first["pauses"]) == 1
    assert [(one["answered"], one["pauses"]) for one in told] == [([call], [])]
