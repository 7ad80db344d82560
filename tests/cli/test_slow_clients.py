"""Clients that are slow or disconnect while sending do not affect others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse

from deciding import Decider
from signoff.channels.email.inbound.webhook import make_mail_router
from signoff.channels.email.settings import WebhookSettings
from signoff.channels.gateway import Gateway, make_gateway
from signoff.channels.inbox.router import make_inbox_router
from signoff.channels.inbox.settings import InboxSettings
from signoff.channels.rest.app import PATH, make_rest
from signoff.channels.slack.inbound.handler import SlackHandler
from signoff.channels.slack.inbound.http import make_slack_router
from signoff.channels.slack.settings import SlackSettings
from signoff.cli.composition.http import Protocol, Server, listen
from signoff.worker.adk_api.callers import TokenAuthenticator
from signoff.worker.adk_api.pauses import Pauses
from signoff.worker.adk_api.router import make_adk_router
from signoff.worker.adk_api.sessions import CallerSessions

INBOX = InboxSettings(url="http://localhost:8080", secret_key="k" * 32)
SLACK = SlackSettings(bot_token="xoxb-1", signing_secret="s" * 32)
MAIL = WebhookSettings(secrets=("whsec_" + "A" * 32,), mailgun_secrets=("m" * 32,))

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
DOORS = {
    "sign in by code": ("/inbox/sign-in", FORM),
    "sign in by link": ("/inbox/sign-in/link", FORM),
    "sign in by passkey": ("/inbox/sign-in/passkey", FORM),
    "mail": ("/inbound/mail", "message/rfc822"),
    "Mailgun": ("/inbound/mail/mailgun", FORM),
    "Slack": ("/slack/interactions", FORM),
    "ADK": ("/run_sse", JSON),
    "ADK's pauses": ("/v1/pauses", JSON),
    "REST": (f"{PATH}/runs", JSON),
    "a channel of one's own": ("/town/command", JSON),
    "nothing at all": ("/nowhere", FORM),
}


class Headers(dict[str, str]):
    """Headers of an authorised client, for requests whose body does not arrive."""


async def application(
    decider: Decider, folder: Path, *, patience: float
) -> tuple[Gateway, Headers]:
    """Return a gateway with all its parts, and headers for each of them."""
    from google.adk.artifacts import InMemoryArtifactService
    from google.adk.sessions import InMemorySessionService

    from signoff.broker.api_tokens import create
    from signoff.core.access.api_tokens import Scope

    app = make_gateway(decider.ledger, patience=patience)
    app.include_router(make_inbox_router(decider, INBOX))
    app.include_router(make_mail_router(MAIL, decider.ledger))
    handler = SlackHandler.__new__(SlackHandler)  # no request is processed
    app.include_router(make_slack_router(SLACK, handler))
    app.mount(PATH, make_rest(decider))
    app.include_router(
        make_adk_router(
            decider,
            watching=decider.ledger,
            authenticator=TokenAuthenticator((), decider),
            sessions=CallerSessions(InMemorySessionService(), decider),
            artifacts=InMemoryArtifactService(),
            folder=folder,
            pauses=Pauses(decider, {}),
        )
    )

    async def command(request: Request) -> JSONResponse:
        return JSONResponse(await request.json())

    app.add_route("/town/command", command, methods=["POST"])

    scopes = frozenset({Scope.RUNS_SUBMIT})
    token, _ = await create(decider.ledger, scopes=scopes, by="test", users=("*",))
    return app, Headers(
        {"Authorization": f"Bearer {token}", "Origin": INBOX.url, "Host": "localhost:8080"}
    )


@dataclass
class Served:
    """A running gateway."""

    port: int
    server: Server


@asynccontextmanager
async def served(app: Gateway, *, patience: float) -> AsyncIterator[Served]:
    """Serve the application as the gateway does."""

    class Impatient(Protocol):
        """Checks as often as the test wants."""

    Impatient.patience = patience
    config = uvicorn.Config(app, http=Impatient, log_config=None, lifespan="off")
    server = Server(config, lambda _: None)
    with listen("127.0.0.1", 0) as listening:
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield Served(listening.getsockname()[1], server)
        finally:
            server.should_exit = True
            await serving


def head(path: str, kind: str, headers: Headers, *, length: int = 1000) -> bytes:
    """Return the head of a request without its body."""
    lines = [f"POST {path} HTTP/1.1", f"Content-Type: {kind}", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


async def begin(port: int, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect and send some bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    await writer.drain()
    return reader, writer


async def is_well(port: int) -> None:
    """Return whether the gateway is alive."""
    async with httpx.AsyncClient(timeout=60) as http:
        assert (await http.get(f"http://127.0.0.1:{port}/healthz")).status_code == 200


@pytest.mark.parametrize("door", DOORS)
async def test_incomplete_body_is_answered_and_the_connection_closed(
    decider: Decider, tmp_path: Path, door: str
) -> None:
    """The client gets an answer in time, and the connection is closed."""
    path, kind = DOORS[door]
    app, headers = await application(decider, tmp_path, patience=0.05)
    async with served(app, patience=60) as here:
        reader, writer = await begin(here.port, head(path, kind, headers) + b"a")
        answer = await reader.read()
        writer.close()
    status = answer.split(b" ", 2)[1]
    # For unknown paths and foreign signatures, the gateway does not wait for a body.
    assert status == (b"404" if door == "nothing at all" else b"408"), answer
    assert b"\r\nreferrer-policy: no-referrer\r\n" in answer.lower()


@pytest.mark.parametrize("door", list(DOORS)[::4])
async def test_client_that_aborts_a_post_is_not_logged(
    decider: Decider, tmp_path: Path, caplog: pytest.LogCaptureFixture, door: str
) -> None:
    """Three hundred aborted posts are not errors of the gateway: nothing is logged."""
    path, kind = DOORS[door]
    app, headers = await application(decider, tmp_path, patience=60)
    async with served(app, patience=60) as here:
        with caplog.at_level(logging.WARNING):
            for _ in range(300):
                _, writer = await begin(here.port, head(path, kind, headers) + b"a")
                writer.transport.abort()
            await is_well(here.port)
    assert [one.getMessage() for one in caplog.records if one.name != "asyncio"] == []


async def test_many_slow_forms_are_all_ended(decider: Decider, tmp_path: Path) -> None:
    """Each gets its answer, and meanwhile the gateway answers others."""
    path, kind = DOORS["sign in by code"]
    app, headers = await application(decider, tmp_path, patience=0.5)
    async with served(app, patience=60) as here:
        slow = [await begin(here.port, head(path, kind, headers) + b"a") for _ in range(300)]
        await is_well(here.port)
        answers = await asyncio.gather(*(reader.read() for reader, _ in slow))
        for _, writer in slow:
            writer.close()
    assert {answer.split(b" ", 2)[1] for answer in answers} == {b"408"}


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /inbox/sign-in HTTP/1.1\r\nHost: loc",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /healthz HTTP/1.1\r\nHo",
        b"POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\na",
    ],
    ids=["nothing", "half a head", "half a second head", "half a body that nobody reads"],
)
async def test_slow_request_is_disconnected(decider: Decider, tmp_path: Path, sent: bytes) -> None:
    """An occasional byte does not keep a connection open."""
    app, _ = await application(decider, tmp_path, patience=60)
    async with served(app, patience=0.05) as here:
        reader, writer = await begin(here.port, sent)
        await reader.read()  # until the other side closes
        writer.close()


async def test_a_connection_that_is_used_stays(decider: Decider, tmp_path: Path) -> None:
    """It is closed only if no request came between two checks."""
    app, headers = await application(decider, tmp_path, patience=60)
    async with (
        served(app, patience=60) as here,
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{here.port}", headers=headers, timeout=60
        ) as http,
    ):
        await http.get("/healthz")
        (connection,) = here.server.server_state.connections
        assert isinstance(connection, Protocol)
        for number in range(5):
            connection.close_if_unused()
            assert (await http.post("/town/command", json={"n": number})).json() == {"n": number}
        assert here.server.server_state.connections == {connection}
        connection.close_if_unused()
        connection.close_if_unused()
        assert connection.transport.is_closing()


@pytest.mark.parametrize(
    "framing",
    [
        "HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
        "HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5",
        "HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked",
        "HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6",
        "HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: xchunked",
    ],
)
async def test_request_of_ambiguous_length_is_refused(
    decider: Decider, tmp_path: Path, framing: str
) -> None:
    """What follows it is no request: a proxy may take it for a part of the body."""
    app, _ = await application(decider, tmp_path, patience=60)
    async with served(app, patience=60) as here:
        hidden = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
        first = f"POST /healthz {framing}\r\nHost: a\r\n\r\n0\r\n\r\n".encode()
        reader, writer = await begin(here.port, first + hidden)
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


async def test_chunked_request_is_read(decider: Decider, tmp_path: Path) -> None:
    """A client need not say how long its body is."""
    app, _ = await application(decider, tmp_path, patience=60)

    async def echo(request: Request) -> JSONResponse:
        return JSONResponse((await request.body()).decode())

    app.add_route("/echo", echo, methods=["POST"])

    async def body() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    async with served(app, patience=60) as here, httpx.AsyncClient() as http:
        found = await http.post(f"http://127.0.0.1:{here.port}/echo", content=body())
    assert found.json() == "ab"
