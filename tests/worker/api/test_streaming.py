"""Streamed text, and streams of agents behind API servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from signoff.core.approvals.run import RunState
from signoff.worker.adk.showing import MOST_PARTS
from worker.api.client import LOCAL, Site, answer_body, calls_of, events_of, site, words_of
from worker.office import AGENTS
from worker.remote.api_server import ApiServer

pytestmark = [pytest.mark.soak, pytest.mark.asyncio(loop_scope="module")]

FAR = """
[agents.remote.far_talks]
url = "{url}"
app_name = "talks"
[agents.remote.far_siblings]
url = "{url}"
app_name = "siblings"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Return the API server of the remote agents."""
    made = ApiServer(AGENTS, tmp_path_factory.mktemp("far"))
    made.start()
    yield made
    made.kill()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory, server: ApiServer) -> AsyncIterator[Site]:
    """Return a plant with some of its agents behind that server."""
    gateway = LOCAL + FAR.format(url=server.url)
    async with site(tmp_path_factory.mktemp("site"), gateway=gateway) as made:
        yield made


async def run(here: Site, app: str, text: str, path: str = "/run_sse") -> Any:
    """Send a message in a new session, and ask for streamed text."""
    body = {
        "appName": app,
        "userId": "user",
        "sessionId": await here.session(app),
        "newMessage": {"role": "user", "parts": [{"text": text}]},
        "streaming": True,
    }
    answer = await here.http.post(path, json=body)
    return answer.json() if path == "/run" else events_of(answer)


@pytest.mark.parametrize("app", ["talks", "far_talks"])
async def test_partial_events_stream_in_order_before_the_whole_event(here: Site, app: str) -> None:
    """Partial events come in order, and then the whole event, as in ADK's own server."""
    *parts, whole = await run(here, app, "go")
    assert [part["content"]["parts"][0]["text"] for part in parts] == ["It ", "is ", "done."]
    assert all(part["partial"] for part in parts)
    assert words_of([whole]) == "It is done."
    assert not whole.get("partial")


async def test_stream_has_the_events_of_adks_server(here: Site, server: ApiServer) -> None:
    """The events are those of ADK's own server, except for ids, times and the run."""
    body = {
        "appName": "talks",
        "userId": "user",
        "newMessage": {"role": "user", "parts": [{"text": "go"}]},
        "streaming": True,
    }
    made = await here.http.post(f"{server.url}/apps/talks/users/user/sessions")
    theirs = events_of(
        await here.http.post(f"{server.url}/run_sse", json={**body, "sessionId": made.json()["id"]})
    )
    ours = await run(here, "talks", "go")
    own = {"id", "timestamp", "invocationId", "customMetadata"}
    assert [list(one["customMetadata"]) for one in ours if not one.get("partial")] == [
        ["signoff_run"]
    ]
    assert [{k: v for k, v in one.items() if k not in own} for one in ours] == [
        {k: v for k, v in one.items() if k not in own} for one in theirs
    ]


async def test_partial_events_are_nowhere_but_in_the_stream(here: Site) -> None:
    """`/run` and the session have whole events only."""
    assert [words_of([one]) for one in await run(here, "talks", "go", "/run")] == ["It is done."]
    await run(here, "talks", "go")
    listed = (await here.http.get("/apps/talks/users/user/sessions")).json()
    for one in listed:
        path = f"/apps/talks/users/user/sessions/{one['id']}"
        events = (await here.http.get(path)).json()["events"]
        assert not any(event.get("partial") for event in events)


async def test_a_model_without_end_does_not_push_out_whole_events(here: Site) -> None:
    """After many partial events of a turn, only whole ones are sent."""
    *parts, whole = await run(here, "talks", f"{MOST_PARTS // 3 + 10} times")
    assert len(parts) == MOST_PARTS
    assert words_of([whole]) == "It is done."


async def test_remote_agent_is_used_like_a_local_one(here: Site, server: ApiServer) -> None:
    """It is listed, its sessions are created and read on its server, and its events return."""
    assert {"far_talks", "far_siblings", "talks"} <= set((await here.http.get("/list-apps")).json())
    session = await here.session("far_siblings")
    events = await here.say("far_siblings", session, "pay both")
    first, second = calls_of(events)
    body = answer_body("far_siblings", session, first, {"confirmed": True})
    body["new_message"]["parts"] += answer_body(
        "far_siblings", session, second, {"confirmed": True}
    )["new_message"]["parts"]
    rest = events_of(await here.http.post("/run_sse", json=body))
    assert words_of(rest).count('"ok"') == 2
    path = f"/apps/far_siblings/users/user/sessions/{session}"
    seen = (await here.http.get(path)).json()
    theirs = await here.http.get(server.session("siblings", "user", session))
    assert [one["id"] for one in seen["events"]] == [one["id"] for one in theirs.json()["events"]]
    ids = [one["id"] for one in events + rest]
    assert len(ids) == len(set(ids))
    assert set(ids) < {one["id"] for one in seen["events"]}
    (run,) = await here.plant.parts.ledger.session_runs("far_siblings", "user", session)
    assert run.state is RunState.COMPLETED
    changed = await here.http.patch(path, json={"stateDelta": {"a": 1}})
    assert changed.json()["state"]["a"] == 1
    assert (await here.http.get(path)).json()["state"]["a"] == 1
    assert (await here.http.delete(path)).status_code == 200
    assert (await here.http.get(path)).status_code == 404
    assert (await here.http.get(server.session("siblings", "user", session))).status_code == 404


async def test_existing_session_of_a_remote_agent_is_a_problem_document(here: Site) -> None:
    """The same holds for a local session."""
    path = "/apps/far_talks/users/user/sessions"
    assert (await here.http.post(path, json={"sessionId": "mine"})).status_code == 200
    again = await here.http.post(path, json={"sessionId": "mine"})
    assert (again.status_code, again.json()["type"]) == (409, "urn:signoff:problem:session-exists")
    assert "mine" in [one["id"] for one in (await here.http.get(path)).json()]


async def test_a_server_that_is_away_is_a_problem(here: Site, server: ApiServer) -> None:
    """The client reads the server's name, and to try again."""
    server.kill()
    try:
        away = await here.http.get("/apps/far_talks/users/user/sessions")
        assert (away.status_code, away.headers["retry-after"]) == (503, "2")
        assert "far_talks" in away.json()["detail"]
    finally:
        server.start()
