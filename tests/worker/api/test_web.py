"""ADK's own web page in a real browser, with Signoff's workers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from chromium import Tab, chromium
from signoff.broker.ledger.follow import follow
from signoff.core.approvals.events import What
from signoff.core.approvals.run import RunState
from worker.api.client import LOCAL, Site, lines_of, site
from worker.api.test_bad_input import TOKENS, bearer

pytestmark = [pytest.mark.soak, pytest.mark.asyncio(loop_scope="module")]

CHAT = "textarea.chat-input-box"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """A plant with the page."""
    gateway = LOCAL + "\nadk_web = true"
    async with site(tmp_path_factory.mktemp("site"), gateway=gateway) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tab]:
    """A tab of a browser."""
    async with chromium(tmp_path_factory.mktemp("browser"), scripts=True) as made:
        yield made


async def test_a_call_is_confirmed_in_the_page(here: Site, tab: Tab) -> None:
    """Choose the agent, send a message, confirm its request, and see the result."""
    await tab.open(f"{here.url}/dev-ui/")
    await tab.click("button.selector-button", "arrow_drop_down")
    await tab.click("mat-option, [role=option], .app-option, .selector-item, button, a", "finance")
    await tab.write(CHAT, "Reimburse me $2500 for the page")
    await tab.key("Enter")
    await tab.find("app-long-running-response", "2500")
    # The page redraws the box while events arrive, and loses the tick.
    await tab.received("/run_sse")
    await tab.tick("app-long-running-response input[type=checkbox]")
    await tab.click("app-long-running-response button", "Submit")
    await tab.find("app-chat, body", "I have reimbursed 2,500.00.")

    assert [one["amount"] for one in lines_of(here.plant) if one.get("purpose") == "the page"] == [
        2500
    ]
    ledger = here.plant.parts.ledger
    (approval, *_) = await ledger.decided()
    assert approval.decision is not None
    assert (approval.decision.by, approval.decision.channel) == ("mara", "api")


SEND = "app-long-running-response button:not(:disabled)"


async def test_a_request_for_input_is_answered_in_the_page(here: Site, tab: Tab) -> None:
    """The typed text is the answer."""
    await tab.open(f"{here.url}/dev-ui/?app=asks_input")
    await tab.write(CHAT, "go")
    await tab.key("Enter")
    await tab.find("app-long-running-response", "Which account?")
    ready = f"!!document.querySelector({json.dumps(SEND)})"
    while not await tab.look(ready):
        # The page redraws the field while events arrive, and loses the text.
        await tab.write("app-long-running-response input", "A-17")
    await tab.click(SEND)

    ledger = here.plant.parts.ledger
    (run, *_) = [one for one in await ledger.recent_runs() if one.app == "asks_input"]
    ended = await here.plant.ends([run.id])
    assert ended[run.id].what == RunState.COMPLETED.value
    (approval,) = await ledger.approvals(run.approvals)
    assert approval.decision is not None
    assert approval.decision.payload == "A-17"


async def test_a_refused_confirmation_is_seen_in_the_page(here: Site, tab: Tab) -> None:
    """A second answer shows an error with the reason."""
    await tab.open(f"{here.url}/dev-ui/?app=finance")
    await tab.write(CHAT, "Reimburse me $2600 for the refusal")
    await tab.key("Enter")
    await tab.find("app-long-running-response", "2600")
    ledger = here.plant.parts.ledger
    (run, *_) = await ledger.recent_runs()
    asked = follow(ledger.store, subject=run.id)
    event = await anext(one async for one in asked if one.what is What.ASKED)
    call = (await ledger.approval(event.approval)).origin.confirmation
    first = await here.answer(run.app, run.session, call, {"confirmed": False}, user=run.user)
    assert first.status_code == 200
    await tab.click("app-long-running-response input[type=checkbox]")
    await tab.click("app-long-running-response button", "Submit")
    await tab.find("app-chat, body", "The call has been answered before")


async def test_a_client_of_streams_gets_a_problem_as_an_event(here: Site) -> None:
    """The event has the same status and problem as other responses."""
    body = {
        "appName": "finance",
        "userId": "user",
        "sessionId": "none",
        "newMessage": {"role": "user", "parts": [{"text": "hi"}]},
    }
    told = await here.http.post("/run_sse", json=body, headers={"Accept": "text/event-stream"})
    plain = await here.http.post("/run_sse", json=body)
    assert told.status_code == plain.status_code == 404
    assert told.headers["content-type"].startswith("text/event-stream")
    event = json.loads(told.text.removeprefix("data: "))
    assert event["errorCode"] == "no-such-session"
    assert event["customMetadata"]["problem"] == plain.json()


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/dev-ui/assets/config/runtime-config.json", {"backendUrl": ""}),
        ("/config/telemetry", {"telemetry": False}),
        ("/dev/apps/finance/eval_sets", []),
        ("/dev/apps/finance/eval-results", []),
        ("/dev/apps/finance/debug/trace/session/x", []),
        ("/dev/apps/finance/tests", []),
    ],
)
async def test_requests_of_adks_page_are_answered(here: Site, path: str, answer: object) -> None:
    """It has no evaluations, traces and tests, and the page works without them."""
    assert (await here.http.get(path)).json() == answer


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/dev/apps/finance/build_graph", 501),
        ("GET", "/dev/apps/finance/users/user/sessions/x/events/y/graph", 501),
        ("POST", "/dev/apps/finance/builder/save", 501),
        ("POST", "/dev/apps/finance/eval_sets/x", 501),
        ("GET", "/dev-ui/nothing.js", 404),
        ("GET", "/dev-ui/..%2f..%2fapi_server.py", 404),
    ],
)
async def test_the_rest_is_a_problem(here: Site, method: str, path: str, status: int) -> None:
    """Functions that need or change the agents' code, or that do not exist."""
    answer = await here.http.request(method, path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


async def test_page_of_adk_needs_a_token_when_tokens_exist(tmp_path: Path) -> None:
    """With tokens, no file of the page is served without one."""
    gateway = TOKENS.replace("adk = true", "adk = true\nadk_web = true", 1)
    async with site(tmp_path, "gateway", gateway=gateway) as made:
        for path in ("/dev-ui/", "/dev-ui/assets/config/runtime-config.json", "/dev/apps/x/tests"):
            assert (await made.http.get(path)).status_code == 401
            assert (await made.http.get(path, headers=bearer("app"))).status_code == 200
