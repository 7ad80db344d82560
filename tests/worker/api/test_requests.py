"""Requests for input and long-running calls, answered over the API by the same rules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from signoff.broker.ledger.follow import follow
from signoff.core.approvals.events import What
from worker.api.client import LOCAL, Site, answer_body, events_of, lines_of, site, words_of

pytestmark = [pytest.mark.soak, pytest.mark.asyncio(loop_scope="module")]

INPUT = "adk_request_input"
RULES = """
[[long_running]]
tool = "ask_for_approval"
payload = { limit = 0 }
response = "{'status': status, 'limit': approved ? values.limit : 0, 'ticket': result.ticket}"
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """A plant for the user of this machine, who answers as Mara."""
    async with site(tmp_path_factory.mktemp("site"), gateway=LOCAL + RULES) as made:
        yield made


def asked(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the open calls of events."""
    return [
        part["functionCall"]
        for event in events
        for part in event.get("content", {}).get("parts", [])
        if part.get("functionCall", {}).get("id") in event.get("longRunningToolIds", [])
    ]


async def answer(
    here: Site, app: str, session: str, call: dict[str, Any], response: object
) -> httpx.Response:
    """Answer a call under its own name."""
    body = answer_body(app, session, call["id"], response)
    body["new_message"]["parts"][0]["function_response"]["name"] = call["name"]
    return await here.http.post("/run_sse", json=body)


async def test_a_workflow_is_answered_question_by_question(here: Site) -> None:
    """Each answer resumes it with the sent value, and brings the next question."""
    session = await here.session("forms")
    (call,) = asked(await here.say("forms", session, "ship it"))
    assert call["name"] == INPUT
    for response in (
        {"street": "Storgata 1", "country": "NO"},
        {"result": False},
        {"result": "3"},
        {"result": "0042"},
    ):
        events = events_of(await answer(here, "forms", session, call, response))
        call = next(iter(asked(events)), {})
    assert not call
    told = [line for line in lines_of(here.plant) if line.keys() & {"place", "fragile", "count"}]
    assert told == [
        {"place": {"street": "Storgata 1", "floor": 0, "country": "NO"}},
        {"fragile": False},
        {"count": 3},
    ]
    assert {"code": "0042"} in lines_of(here.plant)


async def test_a_question_of_a_model_is_answered(here: Site) -> None:
    """A complete answer with a rejection reaches the model unchanged."""
    session = await here.session("asks_model")
    (call,) = asked(await here.say("asks_model", session, "go"))
    said = {"approved": False, "comment": "not today"}
    events = events_of(await answer(here, "asks_model", session, call, said))
    assert json.loads(words_of(events)) == said


async def test_request_for_input_accepts_the_answer_of_a_confirmation(here: Site) -> None:
    """ADK asks with a request for input; the answer is that of a confirmation."""
    session = await here.session("nodes")
    (call,) = asked(await here.say("nodes", session, "go"))
    assert call["name"] == INPUT
    wrong = await answer(here, "nodes", session, call, {"result": True})
    assert (wrong.status_code, wrong.json()["key"]) == (422, "result")
    events = events_of(await answer(here, "nodes", session, call, {"confirmed": True}))
    (call,) = asked(events)
    assert {"transferred": 50} in lines_of(here.plant)
    events_of(await answer(here, "nodes", session, call, {"confirmed": True}))
    assert {"told": "A"} in lines_of(here.plant)


async def test_a_long_running_call_is_answered(here: Site) -> None:
    """The rule builds the tool's result from the values of the answer."""
    session = await here.session("ticket")
    (call,) = asked(await here.say("ticket", session, "ask:50"))
    assert call["name"] == "ask_for_approval"
    yes = {"confirmed": True, "payload": {"limit": 40}}
    events = events_of(await answer(here, "ticket", session, call, yes))
    told = json.loads(words_of(events))
    assert told == {"status": "approved", "limit": 40, "ticket": "t-17"}
    late = await answer(here, "ticket", session, call, {"confirmed": False})
    assert (late.status_code, late.json()["decided_by"]) == (409, "mara")


BAD: dict[str, tuple[str, object, dict[str, Any], int, str, str]] = {
    "input: a field too many": (
        "forms", {"street": "x", "country": "NO", "a": 1}, {}, 422, "payload", '"a" is not a field',
    ),
    "input: one missing": ("forms", {"street": "x"}, {}, 422, "payload", '"country"'),
    "input: of another type": (
        "forms", {"street": 5, "country": "NO"}, {}, 422, "payload", "should be text",
    ),
    "input: no such choice": (
        "forms", {"street": "x", "country": "DK"}, {}, 422, "payload", "'DK' is not one of",
    ),
    "input: a yes": ("forms", {"confirmed": True}, {}, 422, "payload", '"confirmed"'),
    "input: text": ("forms", {"result": "Storgata 1"}, {}, 422, "payload", "an object"),
    "input: not JSON": ("forms", {"result": "{street"}, {}, 422, "payload", "an object"),
    "input: another name": (
        "forms", {"street": "x", "country": "NO"}, {"name": "adk_request_confirmation"},
        400, "unknown-name", "adk_request_input",
    ),
    "input: another id": ("forms", {"result": "x"}, {"id": "no"}, 404, "not-found", "this session"),
    "input: a megabyte": ("forms", {"result": "x" * (1 << 20)}, {}, 413, "too-large", "1,048,576"),
    "input: a long text": (
        "forms", {"street": "x" * 2001, "country": "NO"}, {}, 422, "payload", "2,000 characters",
    ),
    "ticket: yes": (
        "ticket", {"confirmed": "yes", "payload": {"limit": 1}}, {}, 422, "payload", 'I read "yes"',
    ),
    "ticket: a result": (
        "ticket", {"status": "approved"}, {}, 422, "payload", '"status" is not a field',
    ),
    "ticket: no values": ("ticket", {"confirmed": True}, {}, 422, "payload", "limit"),
    "ticket: of another type": (
        "ticket", {"confirmed": True, "payload": {"limit": "4"}}, {},
        422, "payload", "a whole number",
    ),
    "ticket: another name": (
        "ticket", {"confirmed": True}, {"name": "wait_for_it"}, 400, "unknown-name",
        "'ask_for_approval'",
    ),
    "ticket: a megabyte": (
        "ticket", {"confirmed": True, "payload": {"limit": "9" * (1 << 20)}}, {},
        413, "too-large", "1,048,576",
    ),
}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def waiting(here: Site) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return a session and its open call, by app; the tests do not change them."""
    found = {}
    for app, words in (("forms", "ship it"), ("ticket", "ask:50")):
        session = await here.session(app)
        (call,) = asked(await here.say(app, session, words))
        (run,) = await here.plant.parts.ledger.session_runs(app, "user", session)
        async for event in follow(here.plant.parts.ledger.store, subject=run.waiting[0]):
            if event.what is What.DELIVERED:
                break
        found[app] = session, call
    return found


@pytest.mark.parametrize("case", BAD)
async def test_bad_input_is_a_problem_and_changes_nothing(
    here: Site, waiting: dict[str, tuple[str, dict[str, Any]]], case: str
) -> None:
    """The rules of a confirmation hold for these requests too."""
    app, response, update, status, kind, words = BAD[case]
    session, call = waiting[app]
    ledger = here.plant.parts.ledger
    audit = f"{ledger.store.prefix}audit"
    runs = await ledger.session_runs(app, "user", session)
    noted = await ledger.store.client.xlen(audit)
    refused = await answer(here, app, session, {**call, **update}, response)
    problem = refused.json()
    assert (refused.status_code, problem["type"]) == (status, f"urn:signoff:problem:{kind}")
    assert words in problem["detail"]
    if kind == "payload":
        assert set(problem) >= {"key", "read", "example"}
    assert await ledger.session_runs(app, "user", session) == runs
    # The audit may have the refused answer of an invalid value; no other entry is added.
    assert noted <= await ledger.store.client.xlen(audit) <= noted + (kind == "payload")


async def test_one_of_eight_different_simultaneous_answers_counts(here: Site) -> None:
    """The workflow continues with the only accepted answer."""
    session = await here.session("asks_input")
    (call,) = asked(await here.say("asks_input", session, "go"))
    answers = await asyncio.gather(
        *(answer(here, "asks_input", session, call, {"result": f"A{one}"}) for one in range(8))
    )
    assert sorted(one.status_code for one in answers) == [200, *[409] * 7]
    (won,) = [place for place, one in enumerate(answers) if one.status_code == 200]
    events_of(answers[won])
    (run,) = await here.plant.parts.ledger.session_runs("asks_input", "user", session)
    (approval,) = await here.plant.parts.ledger.approvals(run.approvals)
    assert approval.decision is not None
    assert (approval.decision.payload, approval.decision.channel) == (f"A{won}", "api")
