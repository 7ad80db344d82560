"""google-adk after the death of a process: which call continues, and what may happen twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.run_config import RunConfig
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.cli.utils.service_factory import create_session_service_from_options
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import BaseNode
from google.genai import types

from signoff.worker.adk.sessions.sqlite import PatientSqliteSessionService
from worker.adk.conftest import NewHouse
from worker.adk.harness import (
    APP,
    CONFIRM,
    RUN,
    SESSION,
    USER,
    House,
    answer,
    custom_root,
    from_user,
    original,
    parent_root,
    requests_in,
    said,
    sequence_root,
    told,
    workflow_root,
)

pytestmark = [
    pytest.mark.soak,
    pytest.mark.filterwarnings(r"ignore:\[EXPERIMENTAL\]:UserWarning"),
    pytest.mark.filterwarnings("ignore:SequentialAgent is deprecated:DeprecationWarning"),
]

Root = Callable[[House], BaseNode]

ROOTS: dict[str, Root] = {
    "llm": House.gated,
    "parent": parent_root,
    "sequence": sequence_root,
    "custom": custom_root,
    "workflow": workflow_root,
}
NODE_PATH = ("llm", "parent", "workflow")
"""The roots that ADK runs as nodes; the others use the older path through the runner."""

both_apps = pytest.mark.parametrize("resumable", [False, True], ids=["plain", "resumable"])
both_gates = pytest.mark.parametrize(("ask", "tool"), [("pay:5", "pay"), ("grant:3", "grant")])
every_root = pytest.mark.parametrize("root", ROOTS.values(), ids=ROOTS)
node_roots = pytest.mark.parametrize("root", [ROOTS[name] for name in NODE_PATH], ids=NODE_PATH)
older_roots = pytest.mark.parametrize("root", [sequence_root, custom_root])

YES = {"approved": 2}


class Reader(BasePlugin):
    """Counts the tool calls that each request shows the model."""

    def __init__(self) -> None:
        super().__init__(name="reader")
        self.calls: list[int] = []

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Count, and let the request go."""
        parts = [part for content in llm_request.contents for part in content.parts or []]
        self.calls.append(sum(part.function_call is not None for part in parts))


async def paused_house(new_house: NewHouse, ask: str = "pay:5", **options: Any) -> House:
    """Build a house that has run to its pause."""
    house = await new_house(**options)
    await house.run(said(ask))
    return house


async def reply_to(house: House) -> types.Content:
    """Build the approval of the last request in the history."""
    return answer(requests_in(await house.history())[-1:], payload=YES)


# --- a: our own invocation id, and a run that is repeated -----------------------------------------


@every_root
async def test_plain_app_uses_the_callers_invocation_id(new_house: NewHouse, root: Root) -> None:
    """With a new session, every event of a plain app has the caller's id."""
    house = await paused_house(new_house, root=root)
    await house.run(await reply_to(house))
    assert {event.invocation_id for event in await house.history()} == {RUN}
    assert house.journal == [("pay", 5.0)]


@node_roots
async def test_resumable_app_uses_the_callers_invocation_id(
    new_house: NewHouse, root: Root
) -> None:
    """So does a resumable app whose root is an LlmAgent or a Workflow."""
    house = await paused_house(new_house, root=root, resumable=True)
    await house.run(await reply_to(house))
    assert {event.invocation_id for event in await house.history()} == {RUN}
    assert house.journal == [("pay", 5.0)]


@older_roots
async def test_older_resumable_roots_want_an_event_before_our_id(
    new_house: NewHouse, root: Root
) -> None:
    """A resumable SequentialAgent or custom root refuses an id on a session without events."""
    house = await new_house(root=root, resumable=True)
    with pytest.raises(ValueError, match="has no events to resume"):
        await house.run(said("pay:5"))
    await house.append(Event(author="user", invocation_id=RUN))
    await house.run(said("pay:5"))
    await house.run(await reply_to(house))
    assert {event.invocation_id for event in await house.history()} == {RUN}
    assert from_user(await house.history()) == 2
    assert house.journal == [("pay", 5.0)]


@every_root
@both_apps
@pytest.mark.parametrize("lived", [0, 1, 2, 3, 4, 5])
async def test_repeated_run_adds_no_message_and_pays_once(
    new_house: NewHouse, root: Root, resumable: bool, lived: int
) -> None:
    """Wherever the first attempt died, a repetition adds no message and leads to one payment."""
    house = await new_house(root=root, resumable=resumable)
    if resumable and root in (sequence_root, custom_root):
        await house.append(Event(author="user", invocation_id=RUN))
    await house.run(said("pay:5"), events_to_live=lived)
    await house.run(said("pay:5"))
    history = await house.history()
    assert from_user(history) == 1
    assert {event.invocation_id for event in history} == {RUN}
    await house.run(await reply_to(house))
    assert house.journal == [("pay", 5.0)]


async def test_a_repeated_plain_run_asks_twice_and_can_pay_twice(new_house: NewHouse) -> None:
    """If the first request was stored, a plain app asks again; both can be approved."""
    house = await new_house()
    await house.run(said("pay:5"), events_to_live=3)
    await house.run(said("pay:5"))
    first, second = requests_in(await house.history())
    assert original(first).id != original(second).id
    await house.run(answer([second]))
    await house.run(answer([first]))
    assert house.journal == [("pay", 5.0), ("pay", 5.0)]


async def test_a_repeated_plain_run_hides_the_orphaned_call(new_house: NewHouse) -> None:
    """The model does not see the first attempt's unanswered call."""
    reader = Reader()
    house = await new_house(plugins=[reader])
    await house.run(said("pay:5"), events_to_live=2)
    await house.run(said("pay:5"))
    calls = [call.name for event in await house.history() for call in event.get_function_calls()]
    assert calls == ["pay", "pay", CONFIRM]
    await house.run(await reply_to(house))
    assert reader.calls == [0, 0, 1]


async def test_repeating_a_paused_plain_run_lets_the_model_speak(new_house: NewHouse) -> None:
    """A paused plain app must not run again: the model comments on the placeholder."""
    house = await paused_house(new_house)
    again = await house.run(said("pay:5"))
    assert len(again) == 1
    assert "requires confirmation" in told(again)[0]


@node_roots
async def test_repeated_paused_resumable_run_does_nothing(new_house: NewHouse, root: Root) -> None:
    """A paused resumable app may run again: no text and no request follow."""
    house = await paused_house(new_house, root=root, resumable=True)
    calls = len(house.turns)
    assert told(await house.run(said("pay:5"))) == []
    assert len(house.turns) == calls
    assert len(requests_in(await house.history())) == 1


async def test_resumable_run_keeps_the_stored_call(new_house: NewHouse) -> None:
    """A resumable app gates the stored call; the model is not asked again."""
    house = await new_house(resumable=True)
    await house.run(said("pay:5"), events_to_live=2)
    await house.run(said("pay:5"))
    history = await house.history()
    assert len(house.turns) == 1
    (call,) = (c for e in history for c in e.get_function_calls() if c.name == "pay")
    assert original(requests_in(history)[0]).id == call.id


@both_apps
async def test_an_ungated_tool_runs_again_if_its_result_was_lost(
    new_house: NewHouse, resumable: bool
) -> None:
    """Without a gate ADK promises "at least once": a lost result means a second execution."""
    house = await new_house(resumable=resumable)
    await house.run(said("note:a"), events_to_live=2)
    await house.run(said("note:a"))
    assert house.journal == [("note", "a"), ("note", "a")]


# --- b: a death on the way from the answer to the last word ---------------------------------------

UNTIL_ANSWER, UNTIL_RESULT, UNTIL_WORD = 1, 2, 3


async def answered(new_house: NewHouse, ask: str, lived: int, **options: Any) -> House:
    """Build a house that died some events after its pause; the answer is the first event."""
    house = await paused_house(new_house, ask, **options)
    await house.run(await reply_to(house), events_to_live=lived)
    return house


@both_apps
@both_gates
@pytest.mark.parametrize("root", [House.gated, parent_root])
async def test_resume_without_a_message_runs_the_tool(
    new_house: NewHouse, root: Root, resumable: bool, ask: str, tool: str
) -> None:
    """After a death between answer and tool, the id alone runs the tool, without a user event."""
    house = await paused_house(new_house, ask, root=root, resumable=resumable)
    async with house.service() as service:
        stream = house.runner(service).run_async(
            user_id=USER,
            session_id=SESSION,
            invocation_id=RUN,
            new_message=await reply_to(house),
            yield_user_message=True,
        )
        await anext(stream)
        await stream.aclose()
    assert house.journal == []
    await house.run(None)
    assert [name for name, _ in house.journal] == [tool]
    assert from_user(await house.history()) == 2


@both_apps
@both_gates
@pytest.mark.parametrize("resend", [False, True])
async def test_a_lost_result_runs_the_tool_twice(
    new_house: NewHouse, resumable: bool, ask: str, tool: str, resend: bool
) -> None:
    """After a death between effect and event, both ways to continue run the tool again."""
    house = await answered(new_house, ask, UNTIL_ANSWER, resumable=resumable)
    await house.run(await reply_to(house) if resend else None)
    assert [name for name, _ in house.journal] == [tool, tool]
    assert from_user(await house.history()) == (3 if resend else 2)


@both_apps
@both_gates
async def test_resume_without_a_message_makes_the_model_write_the_last_message(
    new_house: NewHouse, resumable: bool, ask: str, tool: str
) -> None:
    """After a death before the last message, the id alone makes the model write it."""
    house = await answered(new_house, ask, UNTIL_RESULT, resumable=resumable)
    rest = await house.run(None)
    assert [line.split(" ")[1] for line in told(rest)] == ["says"]
    assert [name for name, _ in house.journal] == [tool]
    assert from_user(await house.history()) == 2


@both_apps
@both_gates
async def test_repeated_answer_ends_the_run_without_a_last_message(
    new_house: NewHouse, resumable: bool, ask: str, tool: str
) -> None:
    """After a death before the last message, a repeated answer ends the run without one."""
    house = await answered(new_house, ask, UNTIL_RESULT, resumable=resumable)
    assert told(await house.run(await reply_to(house))) == []
    assert [name for name, _ in house.journal] == [tool]
    assert from_user(await house.history()) == 3


@both_apps
async def test_resume_after_the_last_message_repeats_it(
    new_house: NewHouse, resumable: bool
) -> None:
    """A finished LlmAgent speaks a second time, so check the history before continuing."""
    house = await answered(new_house, "pay:5", UNTIL_WORD, resumable=resumable)
    assert told(await house.run(None)) == ['root says pay {"paid": 5.0}']
    assert house.journal == [("pay", 5.0)]


@both_apps
async def test_a_workflow_that_was_done_stays_silent(new_house: NewHouse, resumable: bool) -> None:
    """A Workflow root continues with the due node, or not at all."""
    house = await answered(new_house, "pay:5", 99, root=workflow_root, resumable=resumable)
    assert told(await house.history())[-1] == "third says third done"
    assert told(await house.run(None)) == []


@older_roots
@pytest.mark.parametrize(("lived", "runs"), [(UNTIL_ANSWER, 2), (UNTIL_RESULT, 1)])
async def test_plain_root_of_an_older_adk_resumes_through_a_resumable_copy(
    new_house: NewHouse, root: Root, lived: int, runs: int
) -> None:
    """They refuse to continue without a message; in a resumable App the same agent continues."""
    house = await answered(new_house, "pay:5", lived, root=root)
    with pytest.raises(ValueError, match="requires a new_message or a resumable app"):
        await house.run(None)
    house.resumable = True
    rest = told(await house.run(None))
    assert rest[-1].endswith('says pay {"paid": 5.0}')
    assert len(house.journal) == runs
    assert from_user(await house.history()) == 2


@both_apps
async def test_text_after_the_answer_requires_the_answer_again(
    new_house: NewHouse, resumable: bool
) -> None:
    """Only the last user event counts: after a text, the answer must be sent again."""
    house = await paused_house(new_house, resumable=resumable)
    reply = await reply_to(house)
    await house.append(Event(author="user", invocation_id=RUN, content=reply))
    await house.run(said("hello"), invocation="run-2")
    await house.run(None)
    assert house.journal == []
    await house.run(reply)
    assert house.journal == [("pay", 5.0)]


# --- c: a death inside the pause ------------------------------------------------------------------


@both_apps
async def test_half_a_pause_is_enough_for_a_static_gate(
    new_house: NewHouse, resumable: bool
) -> None:
    """If the request is stored without a placeholder, a static gate can be approved."""
    house = await new_house(resumable=resumable)
    await house.run(said("pay:5"), events_to_live=3)
    await house.run(await reply_to(house))
    assert house.journal == [("pay", 5.0)]


@both_apps
async def test_half_a_pause_is_not_enough_for_a_dynamic_gate(
    new_house: NewHouse, resumable: bool
) -> None:
    """If the request is stored without a placeholder, ADK forgets that the tool asked."""
    house = await new_house(resumable=resumable)
    await house.run(said("grant:3"), events_to_live=3)
    with pytest.raises(ValueError, match="does not require confirmation"):
        await house.run(await reply_to(house))
    assert house.journal == []


async def test_a_plain_run_repeated_heals_a_dynamic_gate(new_house: NewHouse) -> None:
    """The same message makes a plain app ask again, and the new request can be approved."""
    house = await new_house()
    await house.run(said("grant:3"), events_to_live=3)
    await house.run(said("grant:3"))
    assert len(requests_in(await house.history())) == 2
    await house.run(await reply_to(house))
    assert house.journal == [("grant", True)]


@pytest.mark.parametrize("message", [said("grant:3"), None], ids=["message", "none"])
async def test_a_resumable_run_repeated_does_not_heal_a_dynamic_gate(
    new_house: NewHouse, message: types.Content | None
) -> None:
    """A resumable app considers itself paused and does nothing, forever."""
    house = await new_house(resumable=True)
    await house.run(said("grant:3"), events_to_live=3)
    assert told(await house.run(message)) == []
    with pytest.raises(ValueError, match="does not require confirmation"):
        await house.run(await reply_to(house))


@both_apps
async def test_missing_placeholder_can_be_rebuilt_from_the_request(
    new_house: NewHouse, resumable: bool
) -> None:
    """The request has everything that the placeholder needs, so a dynamic gate can be repaired."""
    house = await new_house(resumable=resumable)
    await house.run(said("grant:3"), events_to_live=3)
    asking = (await house.history())[-1]
    (request,) = requests_in([asking])
    call = original(request)
    assert call.id is not None
    assert request.args is not None
    part = types.Part(
        function_response=types.FunctionResponse(
            id=call.id, name=call.name, response={"status": "pending"}
        )
    )
    confirmation = ToolConfirmation(**request.args["toolConfirmation"])
    await house.append(
        Event(
            author=asking.author,
            invocation_id=asking.invocation_id,
            branch=asking.branch,
            node_info=asking.node_info,
            content=types.Content(role="user", parts=[part]),
            actions=EventActions(requested_tool_confirmations={call.id: confirmation}),
        )
    )
    await house.run(await reply_to(house))
    assert house.journal == [("grant", True)]


@both_apps
async def test_request_of_a_dynamic_gate_can_be_lost_beside_a_sibling(
    new_house: NewHouse, resumable: bool
) -> None:
    """The placeholder is written first; if the request is lost, a repetition never asks again."""
    house = await new_house(resumable=resumable)
    await house.run(said("note:a pay:5"), events_to_live=3)
    again = await house.run(said("note:a pay:5"))
    assert "requires confirmation" in told(again)[-1]
    assert requests_in(await house.history()) == []


@both_apps
async def test_lost_request_can_be_rebuilt_from_the_placeholder(
    new_house: NewHouse, resumable: bool
) -> None:
    """The placeholder's actions have the question, so the request can be repaired too."""
    house = await new_house(resumable=resumable)
    await house.run(said("note:a pay:5"), events_to_live=3)
    history = await house.history()
    placeholder = history[-1]
    ((call_id, asked),) = placeholder.actions.requested_tool_confirmations.items()
    (call,) = (c for e in history for c in e.get_function_calls() if c.id == call_id)
    request = types.FunctionCall(
        id="adk-mended",
        name=CONFIRM,
        args={
            "originalFunctionCall": call.model_dump(by_alias=True, exclude_none=True),
            "toolConfirmation": asked.model_dump(by_alias=True, exclude_none=True),
        },
    )
    await house.append(
        Event(
            author=placeholder.author,
            invocation_id=placeholder.invocation_id,
            branch=placeholder.branch,
            node_info=placeholder.node_info,
            content=types.Content(role="model", parts=[types.Part(function_call=request)]),
            long_running_tool_ids={"adk-mended"},
        )
    )
    await house.run(answer([request]))
    assert house.journal == [("note", "a"), ("pay", 5.0)]


# --- d: metadata ----------------------------------------------------------------------------------


@every_root
@both_apps
async def test_custom_metadata_is_on_every_event(
    new_house: NewHouse, root: Root, resumable: bool
) -> None:
    """The metadata of a RunConfig is on all events of the run, and is stored."""
    house = await new_house(root=root, resumable=resumable)
    mark = {"signoff": {"task": "t-1"}}
    await house.run(said("pay:5"), invocation=None, config=RunConfig(custom_metadata=mark))
    history = await house.history()
    assert from_user(history) == 1
    assert [event.custom_metadata for event in history] == [mark] * len(history)


# --- e: plugins -----------------------------------------------------------------------------------


class Guard(BasePlugin):
    """Records the calls before a tool, and answers instead of it if told to."""

    def __init__(self, *, reject: bool = False, ask_again: bool = False) -> None:
        super().__init__(name="guard")
        self.reject = reject
        self.ask_again = ask_again
        self.seen: list[tuple[str, str | None, bool | None]] = []
        self.results: dict[str | None, dict[str, Any]] = {}

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Record the call; reject it, ask again, or return its first result."""
        verdict = tool_context.tool_confirmation
        confirmed = None if verdict is None else verdict.confirmed
        self.seen.append((tool.name, tool_context.function_call_id, confirmed))
        if verdict is not None and self.reject:
            assert verdict.payload is not None
            return {"error": "Rejected.", "reason": verdict.payload["reason"]}
        if verdict is not None and self.ask_again:
            tool_context.request_confirmation(hint="Again?")
            return {"error": "In doubt."}
        return self.results.get(tool_context.function_call_id)

    async def after_tool_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        result: dict[str, Any],
    ) -> None:
        """Keep a result that is not a placeholder."""
        if not tool_context.actions.requested_tool_confirmations:
            self.results[tool_context.function_call_id] = result


@both_apps
@both_gates
async def test_a_plugin_answers_a_rejection_with_the_reason(
    new_house: NewHouse, resumable: bool, ask: str, tool: str
) -> None:
    """The model gets the plugin's dict, and neither gate runs the tool's body."""
    guard = Guard(reject=True)
    house = await new_house(resumable=resumable, plugins=[guard])
    requests = requests_in(await house.run(said(ask)))
    await house.run(answer(requests, confirmed=False, payload={"reason": "too dear"}))
    (result,) = house.turns[-1].tool_results
    assert (result.name, result.response) == (tool, {"error": "Rejected.", "reason": "too dear"})
    assert house.journal == []


@both_apps
@both_gates
async def test_plugin_sees_a_gated_call_before_and_after_the_confirmation(
    new_house: NewHouse, resumable: bool, ask: str, tool: str
) -> None:
    """Before the gate, it sees a call id twice: without a confirmation, then with it."""
    guard = Guard()
    house = await new_house(resumable=resumable, plugins=[guard])
    (request,) = requests_in(await house.run(said(ask)))
    await house.run(answer([request], payload=YES))
    call_id = original(request).id
    assert guard.seen == [(tool, call_id, None), (tool, call_id, True)]


@both_apps
@both_gates
async def test_plugin_result_replaces_a_second_execution(
    new_house: NewHouse, resumable: bool, ask: str, tool: str
) -> None:
    """A result with the call id replaces the second execution after a death."""
    house = await answered(new_house, ask, UNTIL_ANSWER, resumable=resumable, plugins=[Guard()])
    rest = await house.run(None)
    assert [name for name, _ in house.journal] == [tool]
    assert told(rest)[0].startswith(f"root {tool} gave")
    assert told(rest)[1].startswith("root says")


@both_apps
async def test_a_plugin_cannot_ask_again_within_a_resume(
    new_house: NewHouse, resumable: bool
) -> None:
    """A request during a resume never surfaces, so asking again has to be done from outside."""
    house = await paused_house(new_house, resumable=resumable, plugins=[Guard(ask_again=True)])
    resumed = await house.run(await reply_to(house))
    assert requests_in(resumed) == []
    assert house.journal == []


def test_plugins_for_an_agent_without_an_app(tmp_path: Path) -> None:
    """An agent without an App gets one, and does not change."""
    guard = Guard()
    agent = House(tmp_path / "x").gated()
    app = App(name="folder", root_agent=agent, plugins=[guard])
    runner = Runner(app=app, session_service=SqliteSessionService(str(tmp_path / "s")))
    assert runner.plugin_manager.plugins == [guard]
    assert runner.agent is agent


def test_plugins_for_a_users_app(tmp_path: Path) -> None:
    """A copy of an App gets more plugins and another name; the user's own does not change."""
    guard = Guard()
    mine = App(
        name="mine",
        root_agent=House(tmp_path / "x").gated(),
        resumability_config=ResumabilityConfig(is_resumable=True),
    )
    runner = Runner(
        app=mine.model_copy(update={"plugins": [*mine.plugins, guard]}),
        app_name="folder",
        session_service=SqliteSessionService(str(tmp_path / "s")),
    )
    assert mine.plugins == []
    assert runner.plugin_manager.plugins == [guard]
    assert runner.app_name == "folder"
    assert runner.agent is mine.root_agent
    assert runner.resumability_config is mine.resumability_config


# --- f: the call behind a request -----------------------------------------------------------------


@every_root
async def test_the_original_call_is_in_the_history(new_house: NewHouse, root: Root) -> None:
    """A request has the id of its call; name and arguments are in the history."""
    house = await paused_house(new_house, root=root)
    history = await house.history()
    (request,) = requests_in(history)
    (call,) = (
        call
        for event in history
        for call in event.get_function_calls()
        if call.id == original(request).id
    )
    assert (call.name, call.args) == ("pay", {"amount": 5.0})
    assert call == original(request)


# --- g: SQLite ------------------------------------------------------------------------------------


async def test_many_sessions_run_in_one_process(tmp_path: Path) -> None:
    """Thirty-two sessions at once run and pause on one SQLite file with a service of our own.

    With ADK's own the database is locked when the machine is busy.
    """
    service = PatientSqliteSessionService(tmp_path / "many.db")
    runner = House(tmp_path / "many.db").runner(service)

    async def pause(session_id: str) -> int:
        await service.create_session(app_name=APP, user_id=USER, session_id=session_id)
        stream = runner.run_async(user_id=USER, session_id=session_id, new_message=said("pay:5"))
        return len(requests_in([event async for event in stream]))

    try:
        assert await asyncio.gather(*(pause(f"s{n}") for n in range(32))) == [1] * 32
    finally:
        await service.close()


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [("sqlite", SqliteSessionService), ("sqlite+aiosqlite", DatabaseSessionService)],
)
def test_which_store_a_uri_means(tmp_path: Path, scheme: str, expected: type) -> None:
    """`sqlite:` is ADK's own SQLite store, and `sqlite+aiosqlite:` the one on SQLAlchemy."""
    service = create_session_service_from_options(
        base_dir=str(tmp_path), session_service_uri=f"{scheme}:///{tmp_path}/sessions.db"
    )
    assert type(service) is expected
