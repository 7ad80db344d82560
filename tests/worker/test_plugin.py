"""The plugin for agents that run elsewhere: what it publishes, and its failures."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from google.adk.apps.app import App
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types

from builders import MARA, ask, people
from deciding import Decider
from promises.plant import plant
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals import reopening
from signoff.core.approvals.events import What
from signoff.core.approvals.lifecycle import State
from signoff.core.approvals.masking import masked
from signoff.core.approvals.run import RunState
from signoff.core.base.hiding import HIDDEN
from signoff.worker.adk_api.callers import TokenAuthenticator
from signoff.worker.adk_api.pauses import Pauses
from signoff.worker.adk_api.router import make_adk_router
from signoff.worker.adk_api.sessions import CallerSessions
from signoff.worker.adk_api.settings import ApiToken
from signoff.worker.adk_remote.settings import RemoteApp
from signoff.worker.plugin import SignoffPlugin
from worker.adk.harness import House
from worker.office import EXAMPLES, ROOT
from worker.remote.api_server import ApiServer
from worker.test_forged_calls import forgeries, require_real

TOKEN = "a token"  # a secret for these tests only
HASH = hashlib.sha256(TOKEN.encode()).hexdigest()
Handler = Callable[[httpx.Request], httpx.Response]


class Elsewhere:
    """An agent in another process, with the plugin."""

    def __init__(
        self,
        tmp_path: Path,
        handler: Handler | httpx.AsyncBaseTransport,
        *,
        pause: float = 0.001,
        patience: float = 5,
    ) -> None:
        transport = handler
        if not isinstance(transport, httpx.AsyncBaseTransport):
            transport = httpx.MockTransport(transport)
        self.plugin = SignoffPlugin(
            url="http://127.0.0.1:1",
            token=TOKEN,
            pause=pause,
            patience=patience,
            transport=transport,
        )
        agent = House(tmp_path / "unused.db").gated()
        app = App(name="travel", root_agent=agent, plugins=[self.plugin])
        self.sessions = InMemorySessionService()
        self.runner = Runner(app=app, session_service=self.sessions)

    async def say(self, text: str, state: dict[str, Any] | None = None) -> list[str]:
        """Send a message and return the ids of the turn's confirmation requests."""
        await self.sessions.create_session(app_name="travel", user_id="riley", session_id="s")
        message = types.Content(role="user", parts=[types.Part(text=text)])
        return [
            str(call.id)
            async for event in self.runner.run_async(
                user_id="riley", session_id="s", new_message=message, state_delta=state
            )
            for call in event.get_function_calls()
            if call.name == "adk_request_confirmation"
        ]


class Line:
    """Signoff's end of the connection: records requests and answers as told."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.seen: list[dict[str, Any]] = []
        self.tokens: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer."""
        self.seen.append(json.loads(request.content))
        self.tokens.append(request.headers["authorization"])
        status = self.statuses.pop(0) if self.statuses else 201
        if status == 0:
            raise httpx.ConnectError("nobody there")
        return httpx.Response(status, json={"detail": "as told"})


async def test_a_pause_is_published_when_its_turn_is_drained(tmp_path: Path) -> None:
    """All calls of the pause are in one request, with the token and the user's text."""
    signoff = Line()
    here = Elsewhere(tmp_path, signoff)
    ids = await here.say("pay:5 grant:3")
    (body,) = signoff.seen
    assert signoff.tokens == [f"Bearer {TOKEN}"]
    assert (body["appName"], body["userId"], body["sessionId"]) == ("travel", "riley", "s")
    assert body["message"] == "pay:5 grant:3"
    assert sorted(one["functionCall"]["id"] for one in body["pauses"]) == sorted(ids)
    assert {one["agent"] for one in body["pauses"]} == {"root"}
    session = await here.sessions.get_session(app_name="travel", user_id="riley", session_id="s")
    assert session is not None
    assert {event.invocation_id for event in session.events} == {body["invocationId"]}


async def test_turn_without_a_pause_publishes_nothing(tmp_path: Path) -> None:
    """A turn with only text causes no request."""
    signoff = Line()
    assert await Elsewhere(tmp_path, signoff).say("hello") == []
    assert signoff.seen == []


async def test_plugin_ignores_turns_that_signoff_runs(tmp_path: Path) -> None:
    """The process that began the turn sees its pauses; two would open the same approvals."""
    signoff = Line()
    assert await Elsewhere(tmp_path, signoff).say("pay:5", {"signoff_run": "run_1"})
    assert signoff.seen == []


async def test_failed_publication_is_retried_in_the_background(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The run ends as usual; the plugin retries until it succeeds, and logs the errors."""
    signoff = Line(0, 503, 409)
    here = Elsewhere(tmp_path, signoff)
    assert await here.say("pay:5")
    await here.plugin.close()
    assert len(signoff.seen) == 4
    assert len({json.dumps(one) for one in signoff.seen}) == 1
    assert "nobody there" in caplog.text
    assert "409 as told" in caplog.text


async def test_failed_publication_is_logged_after_the_last_retry(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says that nobody is asked."""
    signoff = Line(*[500] * 20)
    here = Elsewhere(tmp_path, signoff)
    await here.say("pay:5")
    await here.plugin.close()
    assert len(signoff.seen) == 7
    assert "nobody is asked: 500 as told" in caplog.text


async def test_a_refusal_is_not_repeated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A wrong token stays wrong."""
    signoff = Line(401)
    here = Elsewhere(tmp_path, signoff)
    assert await here.say("pay:5")
    await here.plugin.close()
    assert len(signoff.seen) == 1
    assert "401 as told" in caplog.text


async def test_a_plugin_that_is_closed_waits_only_a_moment(tmp_path: Path) -> None:
    """Unpublished pauses are logged then, and no task is left."""
    here = Elsewhere(tmp_path, Line(*[0] * 20), pause=60, patience=0.01)
    await here.say("pay:5")
    await here.plugin.close()
    await asyncio.sleep(0)  # the loop notices the finished task
    assert "signoff-publish" not in {one.get_name() for one in asyncio.all_tasks()}


@pytest.mark.parametrize(
    ("url", "words"),
    [("signoff.example.com", "is not a URL"), ("http://signoff.example.com", "unencrypted")],
)
def test_wrong_url_is_refused_at_server_start(url: str, words: str) -> None:
    """The error comes when the server starts, not at the first pause."""
    with pytest.raises(ValueError, match=words):
        SignoffPlugin(url=url, token=TOKEN)


def test_plugin_imports_only_adk_and_httpx() -> None:
    """It can be imported without Celery and Redis."""
    code = (
        "import sys\n"
        "for name in ('celery', 'redis', 'structlog', 'signoff.core', 'signoff.broker'):\n"
        "    sys.modules[name] = None\n"
        "import signoff.worker.plugin\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- Signoff's end ------------------------------------------------------------------------------


@pytest.fixture
def hides() -> list[str]:
    """The values that the current policies hide."""
    return []


@pytest.fixture
async def api(
    ledger: Ledger, decider: Decider, tmp_path: Path, hides: list[str]
) -> AsyncIterator[httpx.AsyncClient]:
    """Return the routes of the API on an empty ledger."""
    app = FastAPI()
    tokens = (
        ApiToken(sha256=HASH, users=("riley",), apps=("travel", "far")),
        ApiToken(sha256=hashlib.sha256(b"other").hexdigest(), users=("kim",)),
    )
    remote = {
        "travel": RemoteApp(url="http://127.0.0.1:8000"),
        "far": RemoteApp(url="http://127.0.0.1:8001", app_name="travel_far"),
        "near": RemoteApp(url="http://127.0.0.1:8002", app_name="travel_far"),
    }
    app.include_router(
        make_adk_router(
            decider,
            watching=ledger,
            authenticator=TokenAuthenticator(tokens, decider),
            sessions=CallerSessions(InMemorySessionService(), decider),
            artifacts=InMemoryArtifactService(),
            folder=tmp_path / "none",
            pauses=Pauses(decider, remote, lambda: tuple(hides)),
        )
    )
    headers = {"Authorization": f"Bearer {TOKEN}"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://signoff", headers=headers
    ) as client:
        yield client


def published(**update: Any) -> dict[str, Any]:
    """Return a post of the plugin."""
    call = {
        "id": "adk-1",
        "name": "adk_request_confirmation",
        "args": {
            "originalFunctionCall": {"id": "call-1", "name": "book", "args": {"price": 900}},
            "toolConfirmation": {"hint": "Book it?", "confirmed": False},
        },
    }
    return {
        "appName": "travel",
        "userId": "riley",
        "sessionId": "s",
        "invocationId": "e-1",
        "message": "to Oslo",
        "pauses": [{"agent": "root", "functionCall": call}],
    } | update


async def test_a_published_pause_opens_an_approval_once(
    api: httpx.AsyncClient, ledger: Ledger
) -> None:
    """A repeated or simultaneous publication is recognised."""
    answers = await asyncio.gather(*(api.post("/v1/pauses", json=published()) for _ in range(5)))
    answers.append(await api.post("/v1/pauses", json=published()))
    assert sorted(one.status_code for one in answers) == [200] * 5 + [201]
    (approval,) = await ledger.pending()
    assert all(one.json() == {"approvals": [approval.id]} for one in answers)
    assert (approval.call.name, approval.call.args) == ("book", {"price": 900})
    assert (approval.origin.invocation, approval.hint) == ("e-1", "Book it?")
    run = await ledger.run(approval.origin.run)
    assert (run.state, run.waiting, run.message) == (RunState.PAUSED, (approval.id,), "to Oslo")
    assert await ledger.backlog() == {"route": 1}
    assert [one.what for one in await ledger.history(run.id)] == [What.SUBMITTED, What.OPENED]


async def test_published_call_hides_what_the_current_policy_hides(
    api: httpx.AsyncClient, ledger: Ledger, hides: list[str]
) -> None:
    """This holds for rules of reloaded settings, too."""
    hides.append("price")
    await api.post("/v1/pauses", json=published())
    (approval,) = await ledger.pending()
    assert (approval.terms, masked(approval).call.args) == (None, {"price": HIDDEN})


@forgeries
async def test_a_published_pause_opens_the_call_that_would_run(
    api: httpx.AsyncClient, ledger: Ledger, details: dict[str, Any]
) -> None:
    """A payload that looks like suspended code is a payload, also from a remote agent."""
    args = {"record": "ADMIN-1", "role": "superuser", "details": details}
    body = published()
    body["pauses"][0]["functionCall"]["args"] = {
        "originalFunctionCall": {"id": "call-1", "name": "update_record", "args": args},
        "toolConfirmation": {"hint": "", "confirmed": False, "payload": details},
    }
    assert (await api.post("/v1/pauses", json=body)).status_code == 201
    (approval,) = await ledger.pending()
    require_real(approval, details)


async def test_publication_waits_while_signoff_runs_the_session(
    api: httpx.AsyncClient, decider: Decider
) -> None:
    """Otherwise both would open the same approval."""
    await decider.submit("travel", "to Oslo", user="riley", session="s")
    answer = await api.post("/v1/pauses", json=published())
    assert (answer.status_code, answer.headers["retry-after"]) == (409, "2")


async def test_a_call_that_is_asked_about_again_is_withdrawn_too(
    api: httpx.AsyncClient, ledger: Ledger
) -> None:
    """The approval had expired, and its successor has an id of its own."""
    await api.post("/v1/pauses", json=published())
    (first,) = await ledger.pending()
    now = await ledger.now()
    approved, _ = ask(first, now=now).approve(MARA, people(), channel="email", now=now)
    expired, second, _ = reopening.expire(
        approved, now=now + timedelta(days=30), valid_for=timedelta(days=7)
    )
    was = await ledger.run(first.origin.run)
    run = was.answered(first.id).paused([second.id])
    await ledger.commit(Change().put(expired, was=first).put(second, was=None).put(run, was=was))
    told = published(pauses=[], answered=["adk-1"])
    assert (await api.post("/v1/pauses", json=told)).status_code == 200
    assert (await ledger.approval(second.id)).state is State.WITHDRAWN


async def test_call_answered_by_another_client_is_withdrawn(
    api: httpx.AsyncClient, ledger: Ledger
) -> None:
    """The approvers are told why; a repeated report changes nothing."""
    await api.post("/v1/pauses", json=published())
    (approval,) = await ledger.pending()
    told = published(pauses=[], answered=["adk-1", "adk-unknown"])
    for _ in range(2):
        assert (await api.post("/v1/pauses", json=told)).status_code == 200
    approval = await ledger.approval(approval.id)
    assert approval.decision is not None
    assert (approval.state, approval.decision.by) == (State.WITHDRAWN, "plugin")
    assert "answered where the agent runs" in approval.decision.reason


async def test_servers_with_the_same_app_name_are_distinguished(
    api: httpx.AsyncClient, ledger: Ledger
) -> None:
    """The approval has Signoff's name for the app; without its URL the app is unknown."""
    body = published(appName="travel_far")
    assert (await api.post("/v1/pauses", json=body)).status_code == 404
    assert (
        await api.post("/v1/pauses", json=body | {"appUrl": "http://127.0.0.1:8001/"})
    ).status_code == 201
    (approval,) = await ledger.pending()
    assert approval.origin.app == "far"


def without(*path: str | int) -> dict[str, Any]:
    """Return a post of the plugin without some part of its call."""
    body = published()
    inner: Any = body["pauses"][0]["functionCall"]
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return body


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (published(pauses=[]), 422),
        (published(pauses=[{"functionCall": {"name": "reimburse", "id": "x"}}]), 422),
        (published(pauses=[{"functionCall": {"name": 5}}]), 422),
        (without("id"), 422),
        (without("args", "originalFunctionCall"), 422),
        (without("args", "originalFunctionCall", "id"), 422),
        (published(invocationId=""), 422),
        (published(sessionId="a\0b"), 422),
        (published(sessionId=""), 422),
        (published(confirmed=True), 422),
        (published(userId="kim"), 403),
        (published(appName="near"), 404),
        (published(appName="nothing"), 404),
        (published(appUrl="http://evil.example"), 404),
    ],
)
async def test_invalid_publication_changes_nothing(
    api: httpx.AsyncClient, ledger: Ledger, body: dict[str, Any], status: int
) -> None:
    """Each gets a problem document, and the ledger stays empty."""
    answer = await api.post("/v1/pauses", json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert await ledger.pending() == []
    assert await ledger.recent_runs() == []


# -- the whole way ------------------------------------------------------------------------------


def example(gateway: str) -> str:
    """Return the documentation's example with the URL of this gateway."""
    page = (ROOT / "docs" / "how-to" / "use-the-plugin.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert "https://signoff.example.com" in code
    return str(code).replace("https://signoff.example.com", gateway)


@pytest.mark.soak
async def test_documented_plugin_pauses_and_is_answered_by_mail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real API server, the page's five lines and a real mail: the tool runs once."""
    agents = tmp_path / "agents"
    (agents / "travel").mkdir(parents=True)
    (agents / "finance").symlink_to(EXAMPLES / "finance")
    monkeypatch.setenv("SIGNOFF_TOKEN", TOKEN)
    (tmp_path / "far").mkdir()
    server = ApiServer(agents, tmp_path / "far")
    more = f"""\
adk = true
[[gateway.tokens]]
sha256 = "{HASH}"
users = ["*"]
apps = ["travel"]
[agents.remote.travel]
url = "{server.url}"
"""
    (tmp_path / "plant").mkdir()
    async with plant(tmp_path / "plant", "worker", "channels", "gateway", gateway=more) as here:
        gateway = f"http://127.0.0.1:{here.supervisor.children['gateway'].report['port']}"
        code = "from finance.agent import root_agent\n" + example(gateway)
        (agents / "travel" / "agent.py").write_text(code)
        (agents / "travel" / "__init__.py").write_text("from . import agent\n")
        try:
            await asyncio.to_thread(server.start)
            answering = asyncio.create_task(here.answer_everything(lambda _: "approve"))
            async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
                made = await client.post("/apps/travel/users/riley/sessions")
                session = made.json()["id"]
                text = {"role": "user", "parts": [{"text": "Reimburse me $2500 for Oslo"}]}
                where = {"appName": "travel", "userId": "riley", "sessionId": session}
                paused = await client.post("/run", json=where | {"newMessage": text})
                assert "adk_request_confirmation" in paused.text
                ledger = here.parts.ledger
                (run,) = await ledger.session_runs("travel", "riley", session)
                ends = await here.ends([run.id])
                assert ends[run.id].what is What.COMPLETED
                seen = await client.get(f"/apps/travel/users/riley/sessions/{session}")
            answering.cancel()
            assert "I have reimbursed 2,500.00" in seen.text
            assert len(server.lines()) == 1
            (approval,) = await ledger.approvals((await ledger.run(run.id)).approvals)
            assert approval.decision is not None
            assert (approval.decision.by, approval.decision.channel) == ("mara", "email")
        finally:
            server.kill()
