"""The wire format: other servers' events, our requests, and the handling of failures."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pydantic import SecretStr, ValidationError

from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.events import What
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from signoff.core.base.errors import InvalidRun, RemoteError, RemoteUnavailable
from signoff.worker.adk_remote.server import FATES, stream_data
from signoff.worker.adk_remote.settings import RemoteApp
from signoff.worker.adk_remote.wire import read_events
from worker.office import MARA, HandClock
from worker.remote.conftest import make_far_office
from worker.remote.fake_server import FakeServer
from worker.remote.far_office import FarOffice

FarLedger = tuple[Ledger, HandClock]

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")


def office_of(far_ledger: FarLedger, server: FakeServer, **settings: Any) -> FarOffice:
    """Return an office with one agent on this server."""
    remote = RemoteApp(url="http://agents.example", **settings)
    return make_far_office(far_ledger, {"office": remote}, server.transport)


async def paused(office: FarOffice) -> Run:
    """Bring a run to its pause."""
    run = await office.submit("office", "pay both")
    assert run.state is RunState.PAUSED
    return run


async def approve_first(office: FarOffice, run: Run) -> None:
    """Approve the first call and reject the second, as in the recording."""
    first, second = await office.ask(run)
    await office.decider.approve(first.id, MARA, channel="cli")
    await office.decider.reject(second.id, MARA, channel="cli", reason="not B")


async def test_a_typescript_agent_pauses_and_is_resumed(far_ledger: FarLedger) -> None:
    """Its pause is one event without placeholders, and its answer starts a new invocation."""
    server = FakeServer("siblings")
    office = office_of(far_ledger, server)
    run = await paused(office)
    approvals = await office.ledger.approvals(run.approvals)
    assert [one.call.args for one in approvals] == [{"to": "A"}, {"to": "B"}]
    await approve_first(office, run)
    run = await office.work(run)
    assert run.state is RunState.COMPLETED
    assert run.text == '{"status":"ok","paid":"A"}; {"error":"This tool call is rejected."}'
    first, _ = await office.ledger.approvals(run.approvals)
    assert json.loads(first.result) == {"status": "ok", "paid": "A"}


async def test_answer_has_only_the_fields_that_adk_accepts(far_ledger: FarLedger) -> None:
    """One message answers the whole pause; each part only has `confirmed` and `payload`."""
    server = FakeServer("siblings")
    office = office_of(far_ledger, server)
    run = await paused(office)
    approvals = await office.ledger.approvals(run.approvals)
    await approve_first(office, run)
    await office.work(run)
    said, answered = server.posted
    assert said["newMessage"] == {"role": "user", "parts": [{"text": "pay both"}]}
    assert said["stateDelta"] == {"signoff_run": run.id}
    assert answered["invocationId"] == approvals[0].origin.invocation
    assert answered["newMessage"]["parts"] == [
        {
            "functionResponse": {
                "id": approval.origin.confirmation,
                "name": "adk_request_confirmation",
                "response": {"confirmed": confirmed, "payload": payload},
            }
        }
        for approval, confirmed, payload in zip(
            approvals, [True, False], [None, {"reason": "not B"}], strict=True
        )
    ]


async def test_typescript_tool_that_asks_by_itself_is_in_doubt(far_ledger: FarLedger) -> None:
    """ADK for TypeScript 2.0.0 refuses the answer after storing it; its error is reported."""
    server = FakeServer("time_off")
    office = office_of(far_ledger, server)
    run = await office.submit("office", "5 days")
    approval = await office.approval(run)
    assert approval.template == {"approved_days": 0}
    await office.approve(run, approved_days=3)
    run = await office.work(run)
    assert run.state is RunState.PAUSED
    history = await office.ledger.history(approval.id)
    (started,) = [event.why for event in history if event.what is What.STARTED]
    assert "confirmation_not_required" in started


async def test_repeated_run_posts_no_second_message(far_ledger: FarLedger) -> None:
    """The mark identifies the message in the session of any server."""
    server = FakeServer("siblings")
    office = office_of(far_ledger, server)
    run = await office.decider.submit("office", "pay both", user="riley")
    before = await office.runtime.start(run, lambda one: one)
    assert await office.runtime.start(run, lambda one: one) == before
    assert len(server.posted) == 1


async def test_server_without_state_gets_no_second_message(far_ledger: FarLedger) -> None:
    """Without the mark, equal text is not a proof: the run fails and says so."""
    server = FakeServer("siblings")
    office = office_of(far_ledger, server)
    run = await office.decider.submit("office", "pay both", user="riley")
    await office.runtime.start(run, lambda one: one)
    assert server.session is not None
    server.session["events"][0]["actions"]["stateDelta"] = {}
    server.session["state"] = {}
    with pytest.raises(RemoteError, match="cannot be told"):
        await office.runtime.start(run, lambda one: one)
    assert len(server.posted) == 1


async def test_stopped_turn_is_not_started_again(far_ledger: FarLedger) -> None:
    """Only a Python server continues a turn; for another, it would be a second message."""
    server = FakeServer("siblings")
    office = office_of(far_ledger, server)
    run = await office.decider.submit("office", "pay both", user="riley")
    await office.runtime.start(run, lambda one: one)
    assert server.session is not None
    del server.session["events"][1:]
    with pytest.raises(RemoteError, match="stopped in the middle of the turn"):
        await office.runtime.start(run, lambda one: one)
    assert len(server.posted) == 1


async def test_a_broken_connection_after_the_answer_is_looked_into(far_ledger: FarLedger) -> None:
    """The stream broke, but the session has the results: the run completes."""
    server = FakeServer("siblings")
    office = office_of(far_ledger, server)
    run = await paused(office)
    await approve_first(office, run)

    def breaks(body: dict[str, Any]) -> httpx.Response | None:
        server.play(body)
        raise httpx.RemoteProtocolError("peer closed connection")

    server.fail = breaks
    run = await office.work(run)
    assert run.state is RunState.COMPLETED


async def test_answer_in_doubt_is_never_posted_again(
    far_ledger: FarLedger,
) -> None:
    """The stream broke and the session has no result: only a person may post it again."""
    server = FakeServer("siblings")
    office = office_of(far_ledger, server)
    run = await paused(office)
    await approve_first(office, run)

    def breaks(_: dict[str, Any]) -> httpx.Response | None:
        raise httpx.ReadTimeout("no byte for 600 seconds")

    server.fail = breaks
    run = await office.work(run)
    assert run.state is RunState.PAUSED
    assert len(server.posted) == 2
    server.fail = lambda _: None
    await office.approve(run)
    run = await office.work(run)
    assert run.state is RunState.COMPLETED
    assert len(server.posted) == 3


async def test_late_result_of_the_server_is_recorded(far_ledger: FarLedger) -> None:
    """A server that continues without its client writes the result a moment later."""
    server = FakeServer("siblings")
    office = office_of(far_ledger, server)
    run = await paused(office)
    await approve_first(office, run)
    office.runtime.patience = 60
    looks = 0

    def breaks(body: dict[str, Any]) -> httpx.Response | None:
        def later() -> None:
            nonlocal looks
            looks += 1
            if looks == 2:
                server.play(body)

        server.on_look = later
        raise httpx.ReadError("connection reset")

    server.fail = breaks
    run = await office.work(run)
    assert run.state is RunState.COMPLETED
    assert looks == 2
    assert len(server.posted) == 2


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_busy_server_gets_the_answer_again(far_ledger: FarLedger, status: int) -> None:
    """It reports being busy and has not stored the answer, so the answer is posted again."""
    server = FakeServer("siblings")
    office = office_of(far_ledger, server)
    run = await paused(office)
    await approve_first(office, run)
    server.fail = lambda _: httpx.Response(status, json={"detail": "not now"})
    run = await office.work(run)
    assert run.state is RunState.ANSWERED
    server.fail = lambda _: None
    await office.let_leases_run_out()
    run = await office.work(run)
    assert run.state is RunState.COMPLETED


@pytest.mark.parametrize("status", [502, 504])
async def test_a_proxy_that_gave_up_is_not_believed(far_ledger: FarLedger, status: int) -> None:
    """The server behind it may be working, so the answer is not posted again automatically."""
    server = FakeServer("siblings")
    office = office_of(far_ledger, server)
    run = await paused(office)
    await approve_first(office, run)
    server.fail = lambda _: httpx.Response(status, text="Bad Gateway")
    run = await office.work(run)
    assert run.state is RunState.PAUSED
    assert len(server.posted) == 2


async def test_refused_answer_fails_the_run_with_the_servers_message(far_ledger: FarLedger) -> None:
    """The message names the app, the URL and the setting, and never the token."""
    server = FakeServer("siblings")
    office = office_of(far_ledger, server, token=SecretStr("hush-hush"))
    run = await paused(office)
    await approve_first(office, run)
    server.fail = lambda _: httpx.Response(401, json={"error": "who are you?"})
    run = await office.work(run)
    assert run.state is RunState.FAILED
    assert "office answers POST http://agents.example/run_sse with 401: who are you?" in run.problem
    assert "Set [agents.remote.office] token" in run.problem
    assert "hush" not in run.problem
    approvals = await office.ledger.approvals(run.approvals)
    assert {one.handoff for one in approvals} == {Handoff.FAILED}


async def test_rejection_is_posted_again_after_a_broken_connection(far_ledger: FarLedger) -> None:
    """A rejection starts nothing: after a broken connection it is posted again."""
    server = FakeServer("siblings")
    office = office_of(far_ledger, server)
    run = await paused(office)
    await office.reject(run, "no")

    def breaks(_: dict[str, Any]) -> httpx.Response | None:
        raise httpx.ReadError("connection reset")

    server.fail = breaks
    run = await office.work(run)
    assert run.state is RunState.ANSWERED
    server.fail = lambda _: None
    await office.let_leases_run_out()
    run = await office.work(run)
    assert run.state is RunState.COMPLETED


async def test_turn_cut_off_after_its_tools_fails_the_run(far_ledger: FarLedger) -> None:
    """The tools have finished, but the agent's further work is unknown."""
    server = FakeServer("siblings")
    office = office_of(far_ledger, server)
    run = await paused(office)
    await approve_first(office, run)

    def breaks(body: dict[str, Any]) -> httpx.Response | None:
        server.play(body)
        assert server.session is not None
        server.session["events"].pop()
        raise httpx.ReadError("connection reset")

    server.fail = breaks
    run = await office.work(run)
    assert run.state is RunState.ANSWERED
    await office.let_leases_run_out()
    run = await office.work(run)
    assert run.state is RunState.FAILED
    why = (await office.ledger.history(run.id))[-1].why
    assert "cut off in the middle of a turn" in why
    assert "pay() has run" in why
    assert len(server.posted) == 2


async def test_a_session_that_vanishes_after_the_answer_is_doubt(far_ledger: FarLedger) -> None:
    """A server with sessions in memory restarted, so it is unknown if the tool ran."""
    server = FakeServer("siblings")
    office = office_of(far_ledger, server)
    run = await paused(office)
    await approve_first(office, run)

    def vanishes(_: dict[str, Any]) -> httpx.Response | None:
        server.session = None
        raise httpx.ReadError("connection reset")

    server.fail = vanishes
    first = run.approvals[0]
    run = await office.work(run)
    assert run.state is RunState.PAUSED
    assert (await office.ledger.approval(first)).handoff is Handoff.IN_DOUBT


NO_ROUTE = (
    httpx.Response(404, text="<html><h1>404 Not Found</h1><hr>nginx</html>"),
    httpx.Response(404, text="404 page not found\n"),
    httpx.Response(404, json={"message": "no Route matched with those values"}),
    httpx.Response(404, json={"detail": "Not Found"}),
    httpx.Response(404),
)
"""What proxies respond when they do not know a server at the moment."""


@pytest.mark.parametrize("response", NO_ROUTE)
async def test_a_proxy_that_knows_no_server_takes_no_session_away(
    far_ledger: FarLedger, response: httpx.Response
) -> None:
    """An ingress may know no server for a moment: the answer waits, and is posted once."""
    server = FakeServer("siblings")
    office = office_of(far_ledger, server)
    run = await paused(office)
    await approve_first(office, run)
    server.no_route = response
    run = await office.work(run)
    assert run.state is RunState.ANSWERED
    server.no_route = None
    await office.let_leases_run_out()
    run = await office.work(run)
    assert run.state is RunState.COMPLETED
    assert len(server.posted) == 2


@pytest.mark.parametrize("response", NO_ROUTE)
async def test_an_answer_for_which_a_proxy_knows_no_server_is_posted_again(
    far_ledger: FarLedger, response: httpx.Response
) -> None:
    """The server has not got it, so no call is in doubt."""
    server = FakeServer("siblings")
    office = office_of(far_ledger, server)
    run = await paused(office)
    await approve_first(office, run)
    server.fail = lambda _: response
    run = await office.work(run)
    assert run.state is RunState.ANSWERED
    server.fail = lambda _: None
    await office.let_leases_run_out()
    run = await office.work(run)
    assert run.state is RunState.COMPLETED
    assert len(server.posted) == 3


async def test_a_proxy_that_knows_no_server_begins_no_second_turn(far_ledger: FarLedger) -> None:
    """A session that seems to be missing would get the user's message a second time."""
    server = FakeServer("siblings")
    office = office_of(far_ledger, server)
    run = await office.decider.submit("office", "pay both", user="riley@example.com")

    def breaks(body: dict[str, Any]) -> httpx.Response:
        server.play(body)
        server.no_route = NO_ROUTE[0]
        raise httpx.ReadError("connection reset")

    server.fail = breaks
    run = await office.work(run)
    assert run.state is RunState.QUEUED
    await office.let_leases_run_out()
    run = await office.work(run)
    assert run.state is RunState.QUEUED
    server.no_route = None
    await office.let_leases_run_out()
    run = await office.work(run)
    assert run.state is RunState.PAUSED
    assert len(server.posted) == 1


async def test_the_missing_session_of_a_server_that_only_says_404_is_gone(
    far_ledger: FarLedger,
) -> None:
    """Not every server names the missing session; its list of apps shows that it is ADK's."""
    server = FakeServer("siblings")
    server.no_session = httpx.Response(404, text="not found")
    office = office_of(far_ledger, server)
    run = await paused(office)
    await approve_first(office, run)
    server.session = None
    run = await office.work(run)
    assert run.state is RunState.FAILED
    assert "is gone from its server" in run.problem


async def test_the_token_goes_with_every_request(far_ledger: FarLedger) -> None:
    """It is a bearer token, and other headers are sent too."""
    server = FakeServer("siblings")
    office = office_of(
        far_ledger, server, token=SecretStr("secret"), headers={"X-Tenant": SecretStr("acme")}
    )
    await paused(office)
    assert {one["authorization"] for one in server.headers} == {"Bearer secret"}
    assert {one["x-tenant"] for one in server.headers} == {"acme"}


@pytest.mark.parametrize("session", ["..", "a/b", "a\\b"])
async def test_session_id_with_a_slash_makes_no_request(
    far_ledger: FarLedger, session: str
) -> None:
    """A session id is one segment of the path, or no request is made."""
    office = office_of(far_ledger, FakeServer("siblings"))
    run = await office.submit("office", "pay both", session=session)
    assert run.state is RunState.FAILED
    with pytest.raises(InvalidRun, match="without slashes"):
        await office.runtime.start(run, lambda one: one)


async def test_html_page_instead_of_an_api_fails_with_the_setting(far_ledger: FarLedger) -> None:
    """For an HTML page, the error names the setting to check."""
    page = httpx.MockTransport(lambda _: httpx.Response(200, text="<html>It works!</html>"))
    office = make_far_office(
        far_ledger, {"office": RemoteApp(url="http://agents.example")}, transport=page
    )
    run = await office.submit("office", "pay both")
    assert run.state is RunState.FAILED
    assert "Is [agents.remote.office] url that of an ADK API server?" in run.problem


def snake(value: Any) -> Any:
    """Convert JSON keys to snake_case, except in the data of tools and states."""
    if isinstance(value, list):
        return [snake(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        "".join(f"_{c.lower()}" if c.isupper() else c for c in key): (
            one if key in {"args", "response", "stateDelta"} else snake(one)
        )
        for key, one in value.items()
    }


@pytest.mark.parametrize("case", ["siblings", "time_off"])
def test_snake_case_is_read_as_camel_case(case: str) -> None:
    """Some servers use the other form of JSON keys."""
    session = FakeServer(case).record["asked"]["session"]
    camel, other = read_events(session), read_events(snake(session))
    alike = {"id", "timestamp"}
    dumps = [[one.model_dump(exclude=alike) for one in events] for events in (camel, other)]
    assert dumps[0] == dumps[1]


@pytest.mark.parametrize("event", ["text", {"content": "text"}, {"actions": {"stateDelta": 1}}])
def test_unreadable_session_fails_the_run(event: object) -> None:
    """An unreadable session fails the run; it must not look empty."""
    with pytest.raises(RemoteError, match="cannot be read"):
        read_events({"id": "s", "events": [event]})


def test_every_error_of_httpx_has_a_fate() -> None:
    """Every error class of httpx is translated, directly or by its base class."""
    ours = {httpx.StreamError, httpx.CookieConflict, httpx.HTTPStatusError}
    kinds = [
        kind
        for _, kind in inspect.getmembers(httpx, inspect.isclass)
        if issubclass(kind, Exception) and not any(issubclass(kind, one) for one in ours)
    ]
    assert httpx.ConnectError in kinds
    assert [kind for kind in kinds if not any(issubclass(kind, one) for one in FATES)] == []
    unsent = {kind.__name__ for kind, (fate, _) in FATES.items() if fate == "unsent"}
    assert unsent == {
        *("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError"),
        *("InvalidURL", "UnsupportedProtocol"),
    }


@pytest.mark.parametrize("kind", [one for one in FATES if issubclass(one, httpx.HTTPError)])
async def test_server_errors_map_to_signoffs_errors(
    far_ledger: FarLedger, kind: type[httpx.HTTPError]
) -> None:
    """Unavailable, busy and slow servers are retried; permanent errors are not."""

    def fails(_: httpx.Request) -> httpx.Response:
        raise kind("so it is")

    transport = httpx.MockTransport(fails)
    office = make_far_office(
        far_ledger, {"office": RemoteApp(url="http://agents.example")}, transport
    )
    run = await office.decider.submit("office", "pay", user="riley")
    with pytest.raises(RemoteError, match=f"http://agents.example.*{kind.__name__}") as caught:
        await office.runtime.start(run, lambda one: one)
    assert isinstance(caught.value, RemoteUnavailable) is FATES[kind][1]
    assert caught.value.fate == FATES[kind][0]


async def in_pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    """Yield bytes in pieces, as a network does."""
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_stream_is_read_in_any_pieces(size: int) -> None:
    """Lines end with LF or CRLF, data may have several lines, and U+2028 does not end a line."""
    text = ': hello\r\n\r\ndata: {"a":\r\ndata: 1}\r\n\r\nevent: x\ndata:"\u2028"\n\ndata: last'
    found = [one async for one in stream_data(in_pieces(text.encode(), size))]
    assert [json.loads(one) if one != b"last" else "last" for one in found] == [
        {"a": 1},
        "\u2028",
        "last",
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "agents.example:8000"},
        {"url": "ftp://agents.example"},
        {"url": "http://user:secret@agents.example"},
        {"url": "http://agents.example/?a=b"},
        {"url": "http://agents.example/a b"},
        {"url": "http://agents.example", "token": "line\nbreak"},
        {"url": "http://agents.example", "headers": {"No Header": "x"}},
        {"url": "http://agents.example", "headers": {"authorization": "x"}, "token": "y"},
        {"url": "http://agents.example", "timeout": 0},
        {"url": "http://agents.example", "stream": True},
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any]) -> None:
    """An unsendable value is reported when the settings are read."""
    with pytest.raises(ValidationError):
        RemoteApp(**settings)


def test_printed_settings_hide_their_secrets() -> None:
    """Neither token nor headers are in what is printed."""
    remote = RemoteApp.model_validate(
        {"url": "http://agents.example/", "token": "hush", "headers": {"X-Key": "hush"}}
    )
    assert remote.url == "http://agents.example"
    assert "hush" not in repr(remote)
    assert "hush" not in remote.model_dump_json()
