"""google-adk's real behaviour around confirmation: the table of facts, row by row."""

from __future__ import annotations

import sqlite3
from contextlib import aclosing, closing
from typing import Any

import pytest
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import Agent
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import ValidationError

from signoff.testing import ScriptedModel, ToolCall
from worker.adk.conftest import NewHouse
from worker.adk.harness import (
    CONFIRM,
    RUN,
    SESSION,
    USER,
    House,
    answer,
    from_user,
    original,
    parent_root,
    requests_in,
    response_to,
    said,
    sequence_root,
    told,
)

WAITS = 'gave {"error": "This tool call requires confirmation, please approve or reject."}'

# ADK's own warnings: experimental and deprecated features are tested here.
pytestmark = [
    pytest.mark.soak,
    pytest.mark.filterwarnings(r"ignore:\[EXPERIMENTAL\]:UserWarning"),
    pytest.mark.filterwarnings("ignore:SequentialAgent is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning"),
]

both_apps = pytest.mark.parametrize("resumable", [False, True], ids=["plain", "resumable"])
both_stores = pytest.mark.parametrize("store", ["sqlite", "database"])


@both_stores
@both_apps
async def test_a_pause_and_its_resume_in_a_new_process(
    new_house: NewHouse, store: str, resumable: bool
) -> None:
    """A paused run continues in a new process, with and without a ResumabilityConfig."""
    house = await new_house(store=store, resumable=resumable)
    paused = await house.run(said("pay:5"))
    assert told(paused) == ["root calls pay", f"root calls {CONFIRM}", f"root pay {WAITS}"]
    resumed = await house.run(answer(requests_in(paused)))
    assert told(resumed) == ['root pay gave {"paid": 5.0}', 'root says pay {"paid": 5.0}']
    assert house.journal == [("pay", 5.0)]


async def test_the_shape_of_a_request(new_house: NewHouse) -> None:
    """One event carries one long-running call for each gated call, with the call and the hint."""
    house = await new_house()
    paused = await house.run(said("pay:5 grant:3"))
    carrying = [event for event in paused if requests_in([event])]
    assert len(carrying) == 1
    pay, grant = requests_in(carrying)
    assert carrying[0].long_running_tool_ids == {pay.id, grant.id}
    calls = paused[0].get_function_calls()
    assert [original(pay), original(grant)] == calls
    assert pay.args is not None
    assert pay.args["toolConfirmation"]["confirmed"] is False
    assert "payload" not in pay.args["toolConfirmation"]
    assert grant.args is not None
    assert grant.args["toolConfirmation"] == {
        "hint": "How many?",
        "confirmed": False,
        "payload": {"approved": 0},
    }
    placeholder = paused[2]
    assert set(placeholder.actions.requested_tool_confirmations) == {call.id for call in calls}


async def test_a_store_returns_a_pause_in_another_order(new_house: NewHouse) -> None:
    """The placeholder is streamed after the request and read before it, because it is older."""
    house = await new_house()
    assert told(await house.run(said("pay:5")))[1:] == [
        f"root calls {CONFIRM}",
        f"root pay {WAITS}",
    ]
    assert told(await house.history())[2:] == [f"root pay {WAITS}", f"root calls {CONFIRM}"]


async def test_model_comments_on_a_dynamic_gate_before_the_pause(new_house: NewHouse) -> None:
    """In a plain app the model comments on a dynamic gate's placeholder; that is not the end."""
    house = await new_house()
    paused = await house.run(said("grant:3"))
    assert told(paused)[-1] == 'root says grant {"status": "pending", "asked": 3}'
    assert len(requests_in(paused)) == 1
    house = await new_house(resumable=True)
    assert told(await house.run(said("grant:3")))[-1].startswith("root grant gave")


@both_apps
async def test_leaving_the_stream_at_the_request_spoils_a_dynamic_gate(
    new_house: NewHouse, resumable: bool
) -> None:
    """A client that breaks at the request can approve a static gate later, a dynamic one never."""

    async def left(message: str) -> House:
        house = await new_house(resumable=resumable)
        async with house.service() as service:
            stream = house.runner(service).run_async(
                user_id=USER, session_id=SESSION, invocation_id=RUN, new_message=said(message)
            )
            async with aclosing(stream):
                async for event in stream:
                    if requests_in([event]):
                        break
        return house

    house = await left("pay:5")
    await house.run(answer(requests_in(await house.history())))
    assert house.journal == [("pay", 5.0)]
    house = await left("grant:3")
    with pytest.raises(ValueError, match="Tool 'grant' does not require confirmation"):
        await house.run(answer(requests_in(await house.history())))
    assert house.journal == []


@both_apps
async def test_ungated_sibling_runs_immediately_and_once(
    new_house: NewHouse, resumable: bool
) -> None:
    """A settled sibling's response comes before the request, and it runs only once."""
    house = await new_house(resumable=resumable)
    paused = await house.run(said("note:a pay:5"))
    assert told(paused) == [
        "root calls note, calls pay",
        f'root note gave {{"noted": "a"}}, pay {WAITS}',
        f"root calls {CONFIRM}",
    ]
    resumed = await house.run(answer(requests_in(paused)))
    assert told(resumed)[-1] == 'root says note {"noted": "a"}; pay {"paid": 5.0}'
    assert house.journal == [("note", "a"), ("pay", 5.0)]


async def test_plain_app_speaks_between_two_answers(new_house: NewHouse) -> None:
    """If they are answered one by one, a plain app calls the model while the other waits."""
    house = await new_house()
    pay, grant = requests_in(await house.run(said("pay:5 grant:3")))
    first = await house.run(answer([pay]))
    assert told(first)[-1] == 'root says pay {"paid": 5.0}; grant {"status": "pending", "asked": 3}'
    second = await house.run(answer([grant], payload={"approved": 2}))
    assert told(second)[-1] == 'root says pay {"paid": 5.0}; grant {"granted": 2}'


async def test_resumable_app_runs_each_and_speaks_after_the_last(new_house: NewHouse) -> None:
    """If they are answered one by one, it runs each tool immediately and the model last."""
    house = await new_house(resumable=True)
    pay, grant = requests_in(await house.run(said("pay:5 grant:3")))
    first = await house.run(answer([pay]))
    assert told(first) == ['root pay gave {"paid": 5.0}']
    assert first[-1].actions.end_of_agent, "the mark of the end is set although a call still waits"
    second = await house.run(answer([grant], payload={"approved": 2}))
    assert told(second)[-1] == 'root says pay {"paid": 5.0}; grant {"granted": 2}'


@both_apps
async def test_one_message_may_answer_a_whole_pause(new_house: NewHouse, resumable: bool) -> None:
    """One message may have all answers to a pause; the model is called once."""
    house = await new_house(resumable=resumable)
    paused = await house.run(said("pay:5 grant:3"))
    resumed = await house.run(answer(requests_in(paused), payload={"approved": 2}))
    assert told(resumed) == [
        'root pay gave {"paid": 5.0}, grant gave {"granted": 2}',
        'root says pay {"paid": 5.0}; grant {"granted": 2}',
    ]
    assert house.journal == [("pay", 5.0), ("grant", True)]


@both_apps
async def test_repeated_reply_is_stored_and_has_no_effect(
    new_house: NewHouse, resumable: bool
) -> None:
    """The second of two equal replies is in the history; no tool and no model runs."""
    house = await new_house(resumable=resumable)
    reply = answer(requests_in(await house.run(said("pay:5"))))
    await house.run(reply)
    calls = len(house.turns)
    assert told(await house.run(reply)) == []
    assert (house.journal, len(house.turns)) == ([("pay", 5.0)], calls)
    assert from_user(await house.history()) == 3


@both_stores
@both_apps
async def test_simultaneous_equal_replies_run_the_tool_twice(
    new_house: NewHouse, store: str, resumable: bool
) -> None:
    """Both runners of one reply run the tool; the store objects after the effect."""
    house = await new_house(store=store, resumable=resumable)
    reply = answer(requests_in(await house.run(said("pay:5"))))
    async with house.service() as one, house.service() as two:
        streams = [
            house.runner(service).run_async(
                user_id=USER, session_id=SESSION, new_message=reply, yield_user_message=True
            )
            for service in (one, two)
        ]
        for stream in streams:
            await anext(stream)
        with pytest.raises(StaleSessionError):
            async for _ in streams[0]:
                pass
        async for _ in streams[1]:
            pass
    assert house.journal == [("pay", 5.0), ("pay", 5.0)]


@both_apps
async def test_reply_with_an_extra_key_fails_and_a_clean_reply_succeeds(
    new_house: NewHouse, resumable: bool
) -> None:
    """A reply with a key of its own raises ValidationError; the same reply without it works."""
    house = await new_house(resumable=resumable)
    requests = requests_in(await house.run(said("pay:5")))
    body = {"confirmed": True, "comment": "fine by me"}
    with pytest.raises(ValidationError, match="comment"):
        await house.run(types.Content(role="user", parts=[response_to(requests[0], body)]))
    assert house.journal == []
    await house.run(answer(requests))
    assert house.journal == [("pay", 5.0)]


@pytest.mark.parametrize("confirmed", ["yes", "on", "1", 1])
async def test_a_lax_yes_executes(new_house: NewHouse, confirmed: object) -> None:
    """ADK accepts every value that pydantic accepts as true."""
    house = await new_house()
    request = requests_in(await house.run(said("pay:5")))[0]
    reply = types.Content(role="user", parts=[response_to(request, {"confirmed": confirmed})])
    await house.run(reply)
    assert house.journal == [("pay", 5.0)]


async def test_confirmation_that_is_not_a_boolean_fails_the_run(new_house: NewHouse) -> None:
    """`confirmed: "approve"` is an error, not an approval."""
    house = await new_house()
    request = requests_in(await house.run(said("pay:5")))[0]
    reply = types.Content(role="user", parts=[response_to(request, {"confirmed": "approve"})])
    with pytest.raises(ValidationError, match="valid boolean"):
        await house.run(reply)
    assert house.journal == []


@both_apps
async def test_a_denial_loses_its_reason(new_house: NewHouse, resumable: bool) -> None:
    """A static gate tells the model that the call is rejected, without the reason."""
    house = await new_house(resumable=resumable)
    requests = requests_in(await house.run(said("pay:5")))
    denied = await house.run(answer(requests, confirmed=False, payload={"reason": "too dear"}))
    assert told(denied)[0] == 'root pay gave {"error": "This tool call is rejected."}'
    assert house.journal == []


@both_apps
async def test_a_denied_dynamic_gate_enters_the_tool(new_house: NewHouse, resumable: bool) -> None:
    """If the tool itself asked, ADK runs its body with confirmed=False."""
    house = await new_house(resumable=resumable)
    requests = requests_in(await house.run(said("grant:3")))
    await house.run(answer(requests, confirmed=False))
    assert house.journal == [("grant", False)]


@both_apps
async def test_confirmation_request_must_match_the_call_in_the_history(
    new_house: NewHouse, resumable: bool
) -> None:
    """The arguments of the request and the call must be equal when the answer arrives."""
    house = await new_house(resumable=resumable)
    requests = requests_in(await house.run(said("pay:5")))
    with closing(sqlite3.connect(house.database)) as database, database:
        rows = database.execute("SELECT id, event_data FROM events").fetchall()
        changed = [(data.replace("5.0", "9.0"), key) for key, data in rows if CONFIRM in data]
        database.executemany("UPDATE events SET event_data = ? WHERE id = ?", changed)
    with pytest.raises(ValueError, match="arguments mismatch"):
        await house.run(answer(requests))
    assert house.journal == []


def threshold_agent(tool: Any) -> Agent:
    """Build an agent around a tool with a threshold function that wants the context."""

    def large(amount: float, tool_context: ToolContext) -> bool:
        return amount > 3 and tool_context is not None

    return Agent(
        name="root",
        model=ScriptedModel(script=lambda _turn: ToolCall(tool.__name__, {"amount": 5.0})),
        tools=[FunctionTool(tool, require_confirmation=large)],
    )


async def test_a_threshold_with_context_needs_a_tool_with_context(new_house: NewHouse) -> None:
    """A threshold function gets the tool's own parameters; the context must be one of them."""

    def pay(amount: float) -> float:
        """Pay."""
        return amount

    def pay_in_context(amount: float, tool_context: ToolContext) -> float:
        """Pay."""
        return amount if tool_context else 0

    house = await new_house(root=lambda _: threshold_agent(pay))
    with pytest.raises(TypeError, match="tool_context"):
        await house.run(said("go"))
    house = await new_house(root=lambda _: threshold_agent(pay_in_context))
    assert len(requests_in(await house.run(said("go")))) == 1


@both_apps
async def test_a_gate_inside_an_agent_tool_never_surfaces(
    new_house: NewHouse, resumable: bool
) -> None:
    """The outer agent's model is told that the inner one stopped; nobody is asked."""

    def root(house: House) -> BaseAgent:
        return Agent(
            name="root",
            model=ScriptedModel(
                script=lambda turn: (
                    "Done." if turn.tool_results else ToolCall("inner", {"request": "pay:5"})
                )
            ),
            tools=[AgentTool(house.gated("inner"))],
        )

    house = await new_house(root=root, resumable=resumable)
    events = await house.run(said("go"))
    assert requests_in(events) == []
    assert "which AgentTool cannot resume" in told(events)[1]
    assert house.journal == []


@both_apps
async def test_the_gate_of_a_sub_agent(new_house: NewHouse, resumable: bool) -> None:
    """A sub-agent's gate surfaces with its name, and the answer goes to the sub-agent."""
    house = await new_house(root=parent_root, resumable=resumable)
    paused = await house.run(said("pay:5"))
    assert paused[-1].author == "sub"
    resumed = await house.run(answer(requests_in(paused)))
    assert told(resumed) == ['sub pay gave {"paid": 5.0}', 'sub says pay {"paid": 5.0}']


@both_apps
async def test_a_text_turn_in_between(new_house: NewHouse, resumable: bool) -> None:
    """The user may send other text while a call waits; the answer still finds its call."""
    house = await new_house(resumable=resumable)
    paused = await house.run(said("pay:5"))
    assert told(await house.run(said("hello"), invocation="run-2")) == ["root says Hello."]
    resumed = await house.run(answer(requests_in(paused)))
    assert told(resumed)[0] == 'root pay gave {"paid": 5.0}'
    assert {event.invocation_id for event in resumed} == {RUN}


@both_apps
@pytest.mark.parametrize("invocation", [None, "some-other"])
async def test_the_invocation_of_an_answer_is_that_of_its_call(
    new_house: NewHouse, resumable: bool, invocation: str | None
) -> None:
    """ADK finds the invocation by the id of the call; a missing or wrong one does no harm."""
    house = await new_house(resumable=resumable)
    paused = await house.run(said("pay:5"))
    resumed = await house.run(answer(requests_in(paused)), invocation=invocation)
    assert {event.invocation_id for event in resumed} == {RUN}
    assert house.journal == [("pay", 5.0)]


async def test_answer_without_a_call_is_an_error(new_house: NewHouse) -> None:
    """The id of an answer must be that of a call in the history."""
    house = await new_house()
    await house.run(said("pay:5"))
    with pytest.raises(ValueError, match="Function call not found"):
        await house.run(answer([types.FunctionCall(id="adk-none", name=CONFIRM)]))


async def test_a_plain_sequence_ends_with_the_agent_that_asked(new_house: NewHouse) -> None:
    """After its resume a plain SequentialAgent does not run the later agents."""
    house = await new_house(root=sequence_root)
    resumed = await house.run(answer(requests_in(await house.run(said("pay:5"), invocation=None))))
    assert [event.author for event in resumed] == ["second", "second"]
    house = await new_house(root=sequence_root, resumable=True)
    resumed = await house.run(answer(requests_in(await house.run(said("pay:5"), invocation=None))))
    assert told(resumed)[-1] == "third says third done"
