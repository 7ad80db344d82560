"""`Part.from_end_session` in a callback ends the session for all agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.apps.app import App
from google.adk.events.event import Event

from signoff.core.approvals.run import RunState
from signoff.testing.model import Reply, ScriptedModel, Turn
from signoff.worker.ces.plugin import CesCallbacks
from signoff.worker.ces.rules import Rules
from worker.ces.shop import KEY, answer
from worker.ces.studio import Talk, write
from worker.office import Office

# ADK warns about its deprecated agents and its experimental features.
pytestmark = [
    pytest.mark.filterwarnings("ignore:SequentialAgent is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
]

END = "Part.from_end_session(reason='No more.', escalated=True)"
SAYS = f"[Part.from_text('Goodbye.'), {END}]"
CALLBACKS = {
    "before_model": f"""
def before_model_callback(callback_context, llm_request):
    return LlmResponse.from_parts(parts={SAYS})
""",
    "after_model": f"""
def after_model_callback(callback_context, llm_response):
    return LlmResponse.from_parts(parts={SAYS})
""",
    "before_agent": f"""
def before_agent_callback(callback_context):
    return Content(parts={SAYS}, role="model")
""",
    "after_agent": f"""
def after_agent_callback(callback_context):
    return Content(parts={SAYS}, role="model")
""",
}


class House:
    """Two agents in sequence, whose models record their calls."""

    def __init__(self, folder: Path, callbacks: str) -> None:
        self.asked: list[str] = []
        write(folder, {"callbacks/a.py": callbacks})
        root = SequentialAgent(name="both", sub_agents=[self.agent("first"), self.agent("second")])
        plugin = CesCallbacks(folder / "callbacks")
        self.talk = Talk(App(name="shop", root_agent=root, plugins=[plugin]))

    def agent(self, name: str) -> LlmAgent:
        """Return an agent."""

        def script(turn: Turn) -> Reply:
            self.asked.append(name)
            return f"I am {name}."

        return LlmAgent(name=name, model=ScriptedModel(script=script))


def texts(events: list[Event]) -> list[str]:
    """Return the texts of the events."""
    return [
        part.text
        for event in events
        for part in (event.content.parts or [] if event.content else [])
        if part.text
    ]


@pytest.mark.parametrize("kind", CALLBACKS)
async def test_ended_session_runs_no_agent_and_repeats_its_last_text(
    tmp_path: Path, kind: str
) -> None:
    """Its last text is sent, no other agent runs, and later messages get that text too."""
    house = House(tmp_path, CALLBACKS[kind])
    said = texts(await house.talk.say("go"))
    assert "Goodbye." in said
    assert house.asked == ([] if kind.startswith("before") else ["first"])
    state = await house.talk.state()
    assert state["signoff_session_ended"] == {"reason": "No more.", "escalated": True}
    asked = list(house.asked)
    assert texts(await house.talk.say("hello?")) == ["This session has ended. No more."]
    assert house.asked == asked


async def test_session_may_end_without_text(tmp_path: Path) -> None:
    """A callback may end the session without text."""
    house = House(
        tmp_path,
        f"def before_agent_callback(callback_context):\n    return Content(parts=[{END}], role='model')\n",
    )
    assert texts(await house.talk.say("go")) == ["This session has ended. No more."]
    assert house.asked == []


async def test_ended_session_does_not_affect_other_sessions(tmp_path: Path) -> None:
    """Only that session has ended."""
    house = House(
        tmp_path,
        f"""
def before_model_callback(callback_context, llm_request):
    if callback_context.get_last_user_input()[0].text == "end":
        return LlmResponse.from_parts(parts=[{END}])
""",
    )
    await house.talk.say("end")
    house.talk.id = ""
    assert texts(await house.talk.say("go")) == ["I am first.", "I am second."]


@pytest.mark.parametrize("resumable", [False, True], ids=["plain", "resumable"])
async def test_a_run_ends_with_its_session_and_a_call_that_was_approved_runs(
    office: Office, shop: Any, resumable: bool
) -> None:
    """A call beside the end still waits for its approver; then no model runs."""
    app = shop(
        Rules(key=KEY),
        "pays",
        resumable=resumable,
        pays="def pays() -> dict:\n    return tools.pay({'who': 'a'}).json()\n",
        callbacks=f"""
def after_model_callback(callback_context, llm_response):
    if any(part.has_function_call("pays") for part in llm_response.content.parts):
        return LlmResponse.from_parts(parts=[*llm_response.content.parts, {END}])
""",
    )
    run = await office.submit(app, "go")
    assert run.state is RunState.PAUSED
    run = await answer(office, run)
    assert run.state is RunState.COMPLETED
    assert run.text == "This session has ended. No more."
    decided = await office.ledger.decided()
    assert '"paid": "a"' in (await office.ledger.approval(decided[0].id)).result.replace("\\", "")
    after = await office.decider.submit(app, "hello?", user=run.user, session=run.session)
    await office.executor.drain(f"run.{app}")
    assert (await office.ledger.run(after.id)).text == "This session has ended. No more."
