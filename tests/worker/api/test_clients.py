"""ADK's own client, the curl of ADK's documentation, and faulty clients."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from google.adk.cli.adk_web_server import RunAgentRequest
from google.adk.cli.conformance.adk_web_server_client import AdkWebServerClient
from google.genai import types

from services import missing
from signoff.broker import stages
from signoff.broker.ledger.follow import follow
from signoff.core.approvals.events import What
from signoff.core.approvals.run import RunState
from worker.api.client import (
    CONFIRM,
    Site,
    answer_body,
    calls_of,
    events_of,
    lines_of,
    site,
    words_of,
)

pytestmark = [pytest.mark.soak, pytest.mark.asyncio(loop_scope="module")]

CURL = """\
{"app_name": "time_off", "user_id": "user", "session_id": "SESSION",
 "new_message": {"role": "user", "parts": [{"function_response": {
   "id": "adk-…", "name": "adk_request_confirmation",
   "response": {"confirmed": true, "payload": {"approved_days": 5}}}}]}}"""
TIME_OFF = "I would like to take 5 days off"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Return an installation whose local user answers as Mara."""
    async with site(tmp_path_factory.mktemp("site")) as made:
        yield made


async def test_adks_own_client_runs_and_answers_an_agent(here: Site) -> None:
    """google-adk's conformance client lists, runs, answers, changes and deletes."""
    async with AdkWebServerClient(base_url=here.url) as client:
        assert (await client.get_version_data())["language"] == "python"
        made = await client.create_session(app_name="time_off", user_id="user", state={"a": 1})
        assert made.state == {"a": 1}
        where: dict[str, Any] = {
            "app_name": "time_off",
            "user_id": "user",
            "session_id": made.id,
        }
        text = types.Content(role="user", parts=[types.Part(text=TIME_OFF)])
        asked = [
            call
            async for event in client.run_agent(RunAgentRequest(**where, new_message=text))
            for call in event.get_function_calls()
            if call.name == CONFIRM
        ]
        answer = types.FunctionResponse(
            id=asked[0].id,
            name=CONFIRM,
            response={"confirmed": True, "payload": {"approved_days": 3}},
        )
        said = types.Content(role="user", parts=[types.Part(function_response=answer)])
        events = [e async for e in client.run_agent(RunAgentRequest(**where, new_message=said))]
        assert events[-1].is_final_response()
        assert "3 days" in str(events[-1].content)
        seen = await client.get_session(**where)
        assert {event.id for event in events} <= {event.id for event in seen.events}
        assert (await client.update_session(**where, state_delta={"b": 2})).state["b"] == 2
        assert (await client.get_session(**where)).state == {"a": 1, "b": 2}
        await client.delete_session(**where)
        with pytest.raises(httpx.HTTPStatusError, match="404"):
            await client.get_session(**where)


async def test_curl_example_of_adk_resumes_the_run(here: Site) -> None:
    """The curl answer with real ids resumes the run with the approved values."""
    curl = shutil.which("curl") or missing("curl", "apt-get install curl")
    session = await here.session("time_off")
    (call,) = calls_of(await here.say("time_off", session, TIME_OFF))
    body = CURL.replace("SESSION", session).replace("adk-…", call)
    process = await asyncio.create_subprocess_exec(
        *(curl, "--silent", "--show-error", "--fail", "-X", "POST", f"{here.url}/run_sse"),
        *("-H", "Content-Type: application/json", "-d", body),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    events = [json.loads(line[5:]) for line in output.splitlines() if line.startswith(b"data:")]
    assert words_of(events) == "You may take 5 days off."


async def test_wrapped_response_of_adks_web_client_is_accepted(here: Site) -> None:
    """A response with one key `response` and JSON as text is read as that JSON."""
    session = await here.session("time_off")
    (call,) = calls_of(await here.say("time_off", session, TIME_OFF))
    wrapped = {"response": json.dumps({"confirmed": True, "payload": {"approved_days": 2}})}
    answered = await here.answer("time_off", session, call, wrapped)
    assert words_of(events_of(answered)) == "You may take 2 days off."


async def test_run_returns_all_events_of_a_turn_at_once(here: Site) -> None:
    """`/run` returns the events of `/run_sse` as one list, for messages and answers."""
    session = await here.session("time_off")
    body = {
        "appName": "time_off",
        "userId": "user",
        "sessionId": session,
        "newMessage": {"parts": [{"text": TIME_OFF}]},
    }
    events = (await here.http.post("/run", json=body)).json()
    (call,) = calls_of(events)
    said = answer_body("time_off", session, call, {"confirmed": False, "payload": {"reason": "x"}})
    rest = (await here.http.post("/run", json=said)).json()
    stored = (await here.http.get(f"/apps/time_off/users/user/sessions/{session}")).json()
    by_agents = [event for event in stored["events"] if event["author"] != "user"]
    # The store sorts by time, and ADK yields a request before the placeholder that is older.
    assert {event["id"] for event in by_agents} == {event["id"] for event in events + rest}
    assert len(by_agents) == len(events + rest)


@pytest.mark.parametrize("app", ["siblings", "siblings_resumable"])
async def test_answer_with_waiting_siblings_returns_no_events(here: Site, app: str) -> None:
    """The first of two answers gets an empty stream; the second resumes the run."""
    session = await here.session(app)
    first, second = calls_of(await here.say(app, session, "pay both"))
    assert events_of(await here.answer(app, session, first, {"confirmed": True})) == []
    events = events_of(await here.answer(app, session, second, {"confirmed": True}))
    assert words_of(events).count('"ok"') == 2


async def test_one_message_may_answer_a_whole_pause(here: Site) -> None:
    """Two answers in one message resume the run; the model reads the rejection's reason."""
    session = await here.session("siblings")
    first, second = calls_of(await here.say("siblings", session, "pay both"))
    body = answer_body("siblings", session, first, {"confirmed": True})
    no = {"confirmed": False, "payload": {"reason": "B is paid"}}
    body["new_message"]["parts"] += answer_body("siblings", session, second, no)["new_message"][
        "parts"
    ]
    words = words_of(events_of(await here.http.post("/run_sse", json=body)))
    assert "B is paid" in words


async def test_failed_run_is_reported_as_by_adks_server(here: Site) -> None:
    """A tool's error ends the stream with an error, and `/run` with a problem document."""
    session = await here.session("careless")
    (call,) = calls_of(await here.say("careless", session, "raises"))
    *_, told = events_of(await here.answer("careless", session, call, {"confirmed": True}))
    assert "the bank hung up" in told["error"]
    assert told["error_details"]["error_type"] == "RunFailed"
    session = await here.session("careless")
    (call,) = calls_of(await here.say("careless", session, "raises"))
    body = answer_body("careless", session, call, {"confirmed": True})
    failed = await here.http.post("/run", json=body)
    assert (failed.status_code, failed.json()["type"]) == (500, "urn:signoff:problem:run-failed")
    assert "the bank hung up" in failed.json()["detail"]


async def test_one_of_eight_simultaneous_answers_wins(here: Site) -> None:
    """One client gets the turn, seven read who decided, and the tool runs once."""
    session = await here.session("finance")
    (call,) = calls_of(await here.say("finance", session, "Reimburse me $2500 for the eight"))
    clients = [httpx.AsyncClient(base_url=here.url, timeout=60) for _ in range(8)]
    body = answer_body("finance", session, call, {"confirmed": True})
    answers = await asyncio.gather(*(one.post("/run_sse", json=body) for one in clients))
    for client in clients:
        await client.aclose()
    assert sorted(one.status_code for one in answers) == [200, *[409] * 7]
    for lost in (one.json() for one in answers if one.status_code == 409):
        assert lost["type"] == "urn:signoff:problem:already-decided"
        assert "approved by Mara Lind, at 20" in lost["detail"]
        assert (lost["decided_by"], lost["channel"]) == ("mara", "api")
    (won,) = [one for one in answers if one.status_code == 200]
    assert words_of(events_of(won)) == "I have reimbursed 2,500.00."
    paid = [line for line in lines_of(here.plant) if "eight" in line.get("purpose", "")]
    assert len(paid) == 1


async def test_a_client_that_goes_away_ends_the_stream_and_not_the_run(here: Site) -> None:
    """The run completes without its client."""
    gate = here.plant.folder / "closed-first_word"
    gate.touch()
    session = await here.session("patient")
    body = {
        "appName": "patient",
        "userId": "user",
        "sessionId": session,
        "newMessage": {"parts": [{"text": "pay"}]},
    }
    async with here.http.stream("POST", "/run_sse", json=body) as response:
        run = response.headers["signoff-run"]
        await until(here, {"at": "first_word"})
    gate.unlink()
    async for event in follow(here.plant.parts.ledger.store, subject=run):
        if event.what is What.ASKED:
            break
    assert (await here.plant.parts.ledger.run(run)).state is RunState.PAUSED


@pytest.mark.parametrize("at", ["first_word", "paid", "last_word"])
async def test_stream_continues_after_another_worker_takes_over_the_run(
    here: Site, at: str
) -> None:
    """After `kill -9` in the middle of the turn, each event arrives once."""
    (here.plant.folder / "journal.jsonl").unlink(missing_ok=True)
    gate = here.plant.folder / f"closed-{at}"
    session = await here.session("patient")
    path = f"/apps/patient/users/user/sessions/{session}"
    if at == "first_word":
        gate.touch()
        turn = asyncio.create_task(here.say("patient", session, "pay"))
    else:
        (call,) = calls_of(await here.say("patient", session, "pay"))
        gate.touch()

        async def answered() -> list[dict[str, Any]]:
            return events_of(await here.answer("patient", session, call, {"confirmed": True}))

        turn = asyncio.create_task(answered())
    await until(here, {"at": at})
    await here.plant.kill("worker")
    await here.plant.end_leases(stages.run("patient"), stages.resume("patient"))
    gate.unlink()
    events = await turn
    paid = [line for line in lines_of(here.plant) if "paid" in line]
    assert len(paid) == (at != "first_word")
    if at == "paid":
        # It started and was not seen to finish, so this policy asks a person.
        assert events[-1]["error_details"]["error_type"] == "ToolInDoubt"
        return
    ids = [event["id"] for event in events]
    assert len(ids) == len(set(ids))
    stored = (await here.http.get(path)).json()["events"]
    said = max(place for place, event in enumerate(stored) if event["author"] == "user")
    assert set(ids) == {event["id"] for event in stored[said + 1 :]}


async def until(here: Site, line: dict[str, object]) -> None:
    """Wait until an agent has written this into its journal."""
    while line not in lines_of(here.plant):  # noqa: ASYNC110 -- another process writes it
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("mode", ["record", "replay"])
async def test_recording_and_replaying_are_refused_with_a_reason(here: Site, mode: Any) -> None:
    """Recording and replaying send state with a message, which would be dropped."""
    where: dict[str, Any] = {
        "app_name": "time_off",
        "user_id": "user",
        "session_id": await here.session("time_off"),
    }
    text = types.Content(role="user", parts=[types.Part(text=TIME_OFF)])
    async with AdkWebServerClient(base_url=here.url) as client:
        request = RunAgentRequest(**where, new_message=text)
        with pytest.raises(httpx.HTTPStatusError, match="422"):
            async for _ in client.run_agent(
                request, mode=mode, test_case_dir="x", user_message_index=0
            ):
                pass
    assert (await client_events(here, where)) == []


async def client_events(here: Site, where: dict[str, Any]) -> list[Any]:
    """Return the events of a session."""
    async with AdkWebServerClient(base_url=here.url) as client:
        return list((await client.get_session(**where)).events)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/apps/time_off/app-info", 404),
        ("PATCH", "/apps/time_off/users/user/memory", 404),
        ("GET", "/apps/time_off/eval_sets", 404),
        ("GET", "/list-apps?detailed=true", 501),
    ],
)
async def test_unsupported_adk_routes_return_a_problem_document(
    here: Site, method: str, path: str, status: int
) -> None:
    """Each gets a problem that says what is served."""
    answer = await here.http.request(method, path)
    assert (answer.status_code, answer.json()["type"]) == (
        status,
        "urn:signoff:problem:not-served",
    )
