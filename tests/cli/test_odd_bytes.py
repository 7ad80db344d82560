"""Any bytes in a request are the client's error: the gateway never answers 500."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi.routing import APIRoute
from pydantic import JsonValue
from starlette.routing import BaseRoute, Mount, Route

from builders import OF_PEOPLE, paused
from signoff.broker.api_tokens import create
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.aap import instances
from signoff.channels.inbox.auth.sessions import How, Sessions
from signoff.cli.composition.aap import ServedAap
from signoff.cli.composition.adk_api import serve_adk
from signoff.cli.composition.http import Server
from signoff.cli.composition.parts import build
from signoff.cli.config.settings import load_settings
from signoff.cli.gateway import assemble
from signoff.core.access.api_tokens import Scope

ORIGIN = "https://approvals.example.com"
SECRET = "whsec_" + "YWJj" * 10
SETTINGS = f"""\
[redis]
url = "{{redis}}"
prefix = "{{prefix}}"
[sessions]
url = "sqlite:///{{folder}}/sessions.db"
[agents]
folder = "{{agents}}"
artifacts = "{{folder}}/artifacts"
[gateway]
adk = true
adk_web = true
local = true
local_person = "mara"
[aap]
enabled = true
[inbox]
url = "{ORIGIN}"
secret_key = "a key of thirty-two characters.."
[email.inbound]
listen = false
[email.webhook]
secrets = ["{SECRET}"]
mailgun_secrets = ["a signing key of twenty-four"]
[slack]
bot_token = "xoxb-1"
signing_secret = "abcdefghijklmnopqrstuvwxyz012345"
[[people]]
id = "mara"
email = "mara@example.com"
[[people]]
id = "cleo"
email = "cleo@example.com"
[[people]]
id = "riley"
email = "riley@example.com"
[default]
ask = ["mara"]
"""
AGENTS = Path(__file__).parents[2] / "examples" / "agents"

ODD = (
    *("%00", "a%00b", "%01", "%0a", "%0d%0aX-A:%20b", "%1b%5b2J", "%7f", "%80", "%ff", "%fe%ff"),
    *("%c0%af", "%c3%28", "%ed%a0%80", "%ed%b3%bf", "%f0%9f%98%80", "%f4%90%80%80", "%e2%80%ae"),
    *("%e2%80%a8", "%ef%bf%be", "%25", "%2500", "%", "%g1", "%2e%2e", "..%2f..%2fetc", "%5c"),
    *("%3f", "%23", "%20", "%09", "%2a", "%5b", "%5d%5b", "%7b%7d", "%27%22", "-1", "9" * 40),
    *("a" * 3000, "null", "nan", "1e999", "%CC%81", "%F3%A0%80%81", "\u00e4", "\x80\xff"),
)
"""Values that replace an id or a value, as sent on the wire (in Latin-1)."""

QUERY = (
    *("q", "state", "after", "cursor", "limit", "sort", "of", "queue", "person", "tool", "page"),
    *("next", "to", "token", "code", "iss", "error", "approval", "run", "before", "due", "app"),
    *("app_name", "version", "relative_path", "since", "order", "view", "tab", "requester"),
)
HEADERS = (
    *("Authorization", "Cookie", "Content-Type", "Accept", "User-Agent", "Referer", "Origin"),
    *("Idempotency-Key", "If-None-Match", "Last-Event-ID", "X-Forwarded-For", "Accept-Language"),
    *("Range", "webhook-id", "webhook-timestamp", "webhook-signature", "X-Slack-Signature"),
    *("X-Slack-Request-Timestamp", "Sec-Fetch-Site", "HX-Request", "traceparent", "signoff-live"),
)
BYTES = (
    *(b"\x01", b"\x7f", b"\x80\xff", b"\xed\xa0\x80", b"\xc3\x28", b"=?x?=", b'"', b";=;", b"%00"),
    b"9" * 5000,
)


@dataclass
class Gateway:
    """A gateway on loopback, with credentials."""

    port: int
    routes: list[tuple[str, str]]
    token: str
    admin: str
    asks: str
    cookie: str
    csrf: str
    names: dict[str, str]

    async def status(
        self, method: str, target: str, body: bytes = b"", *fields: bytes, auth: str = ""
    ) -> int:
        """Send a request byte for byte, and return the status."""
        api = target.startswith(("/api/", "/aap/"))
        usual = self.asks if target.startswith("/aap/") else self.token
        who = f"Bearer {auth or usual}" if api else ""
        lines = [
            f"{method} ".encode() + target.encode("latin-1") + b" HTTP/1.1",
            b"Host: 127.0.0.1",
            b"Connection: close",
            f"Content-Length: {len(body)}".encode(),
            *([f"Authorization: {who}".encode(), b"Idempotency-Key: k"] if who else []),
            *([f"Cookie: __Host-signoff={self.cookie}".encode()] if not api else []),
            *fields,
        ]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(b"\r\n".join([*lines, b"", body]))
            await writer.drain()
            line = await asyncio.wait_for(reader.readline(), 300)
            return int(line.split(b" ")[1])
        finally:
            writer.close()

    def filled(self, path: str, odd: str, at: int) -> str:
        """Return a path with one odd parameter; the others are valid."""
        count = -1

        def value(found: re.Match[str]) -> str:
            nonlocal count
            count += 1
            name = found[1].partition(":")[0]
            return odd if count == at else self.names.get(name, "1")

        return re.sub(r"{([^}]+)}", value, path)


def routes_in(routes: list[BaseRoute], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield method and path of every route, including mounted applications."""
    for route in routes:
        if isinstance(route, Mount):
            yield from routes_in(list(route.routes or ()), prefix + route.path)
            if not route.routes:
                yield "GET", f"{prefix}{route.path}/{{path}}"
        elif (router := getattr(route, "original_router", None)) is not None:
            yield from routes_in(list(router.routes), prefix)
        elif isinstance(route, APIRoute | Route):
            for method in sorted((route.methods or {"GET"}) - {"HEAD"}):
                yield method, prefix + route.path


@pytest.fixture
async def gateway(
    tmp_path: Path, redis_url: str, prefix: str, ledger: Ledger
) -> AsyncIterator[Gateway]:
    """Return a gateway with all its parts, and a waiting approval."""
    file = tmp_path / "signoff.toml"
    file.write_text(SETTINGS.format(redis=redis_url, prefix=prefix, folder=tmp_path, agents=AGENTS))
    parts = build(load_settings(file))
    app, _ = assemble(parts)
    run, (approval,) = await paused(ledger)
    token, _ = await create(ledger, scopes=OF_PEOPLE, by="test", person="mara")
    admin, _ = await create(ledger, scopes=frozenset({Scope.ADMIN}), by="test")
    asks = (await instances.create(ledger, "codex", user="riley", by="test"))[1]
    ServedAap(parts).mount(app)
    sessions = Sessions(ledger, parts.settings.inbox)
    cookie = await sessions.begin("mara", how=How.LINK, also=Change())
    session = await sessions.find(cookie)
    assert session is not None
    names = {
        "approval_id": approval.id,
        "run_id": run.id,
        "person_id": "mara",
        "app_name": "finance",
        "user_id": "riley",
        "session_id": run.session,
        "name": "all",
    }
    async with AsyncExitStack() as stack:
        stack.push_async_callback(parts.ledger.close)
        serve_adk(app, parts, stack, hides=tuple)
        listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, lifespan="off")
        server = Server(config, listening.set_result)
        serving = asyncio.create_task(server.serve())
        port = await listening
        found = sorted(set(routes_in(list(app.routes))))
        yield Gateway(port, found, token, admin, asks, cookie, session.csrf, names)
        server.should_exit = True
        await serving


async def failures(gateway: Gateway, requests: list[tuple[Any, ...]]) -> list[str]:
    """Send requests, and return those with a server error."""
    limit = asyncio.Semaphore(16)

    async def one(method: str, target: str, body: bytes, fields: tuple[bytes, ...]) -> str:
        async with limit:
            status = await gateway.status(method, target, body, *fields)
        # 501 is correct for functions of ADK's server that this gateway does not have.
        failed = status >= 500 and status != 501
        return f"{status} {method} {target} {body!r} {fields}"[:300] if failed else ""

    return [found for found in await asyncio.gather(*(one(*each) for each in requests)) if found]


def turns(values: Sequence[Any], nth: int, each: int = 4) -> Sequence[Any]:
    """Return some of the values; each value is used at some routes."""
    return [values[(nth * each + one) % len(values)] for one in range(each)]


STREAMS = frozenset({"/inbox/live", "/inbox/events"})


def _sends(gateway: Gateway) -> list[tuple[str, str]]:
    return [one for one in gateway.routes if one[1] not in STREAMS]


async def test_odd_bytes_in_a_path(gateway: Gateway) -> None:
    """Each id in a path is replaced, and unknown paths are tried."""
    places = [
        (method, path, at)
        for method, path in _sends(gateway)
        for at in range(max(path.count("{"), 1))
    ]
    requests = []
    for nth, (method, path, at) in enumerate(places):
        for odd in ("%00", *turns(ODD, nth)):
            target = gateway.filled(path, odd, at)
            target = target if "{" in path else f"{target.rstrip('/')}/{odd}"
            requests.append((method, target, b"{}", (b"Content-Type: application/json",)))
    assert len(requests) > len(ODD)
    assert await failures(gateway, requests) == []


@pytest.mark.soak
async def test_odd_bytes_in_a_query(gateway: Gateway) -> None:
    """As a value, as a name, and without either."""
    requests = []
    for nth, (method, path) in enumerate(_sends(gateway)):
        target = gateway.filled(path, "1", -1)
        for odd in ("%00", *turns(ODD, nth)):
            pairs = "&".join(f"{name}={odd}" for name in QUERY)
            queries = (pairs, f"{odd}={odd}&{odd}", f"={odd}") if method == "GET" else (pairs,)
            requests += [(method, f"{target}?{query}", b"", ()) for query in queries]
    assert await failures(gateway, requests) == []


@pytest.mark.soak
async def test_odd_bytes_in_a_header(gateway: Gateway) -> None:
    """Each header that the gateway reads is replaced."""
    requests = [
        (method, gateway.filled(path, "1", -1), b"", (f"{name}: ".encode() + odd,))
        for nth, (method, path) in enumerate(_sends(gateway))
        for at, name in enumerate(turns(HEADERS, nth))
        for odd in turns(BYTES, nth + at, 1)
    ]
    assert await failures(gateway, requests) == []


@pytest.mark.soak
async def test_odd_bytes_in_a_form(gateway: Gateway) -> None:
    """As a field of the session's own forms, as a name, and as an invalid form."""
    fields = ("reason", "text", "to", "of", "by", "mark", "span", "digest", "from", "until")
    more = ("delegate", "address", "code", "next", "name", "id", "selected")
    heads = (
        f"Origin: {ORIGIN}".encode(),
        b"Content-Type: application/x-www-form-urlencoded",
    )
    own = f"csrf={gateway.csrf}&once={'a' * 16}&".encode()
    requests: list[tuple[Any, ...]] = []
    for nth, (method, path) in enumerate(_sends(gateway)):
        target = gateway.filled(path, "1", -1)
        for odd in ("%00", *turns(ODD, nth)) if method == "POST" else ():
            value = odd.encode("latin-1")
            named = b"&".join(name.encode() + b"=" + value for name in (*fields, *more))
            bodies = (own + named, own + value + b"=" + value, value)
            requests += [(method, target, body, heads) for body in bodies]
    assert await failures(gateway, requests) == []


TEXTS = (
    *("\0", "a\0b", "\x1b[2J", "\ud800", "\udfff\ud800", "\u202e", "\ufffe", "\U0010ffff"),
    "a" * 9000,
)
VALUES: list[JsonValue] = [
    *(*TEXTS, None, True, -1, 10**400, 1e308),
    [],
    {},
    [[]],
    {"\0": "\0"},
]
NO_JSON = (b"\0", b"\xff", b'"\xed\xa0\x80"', b"[" * 5000, b"{" * 900, b'{"a":NaN}', b"")


async def test_odd_values_in_json(gateway: Gateway) -> None:
    """Each field of each body is replaced by text, another type or bytes that are not JSON."""
    names = (
        *("app", "message", "user", "session", "id", "digest", "reason", "values", "length", "to"),
        *("of", "text", "by", "from", "delegate", "span", "uses", "limit", "approvals", "ids"),
        *("appName", "userId", "sessionId", "newMessage", "invocationId", "stateDelta", "pauses"),
        *("functionCall", "streaming", "state", "events", "type", "payload", "answered", "appUrl"),
        *("tool", "arguments", "timeout", "server", "agent_reasoning", "context", "status", "note"),
    )
    heads = (b"Content-Type: application/json",)
    requests: list[tuple[Any, ...]] = []
    for nth, (method, path) in enumerate(_sends(gateway)):
        target = gateway.filled(path, "1", -1)
        bodies: list[bytes] = [*turns(NO_JSON, nth, 2)]
        for value in ("\0", *turns(VALUES, nth)):
            bodies += [json.dumps(dict.fromkeys(names, value)).encode(), json.dumps(value).encode()]
        requests += [(method, target, body, heads) for body in bodies if method != "GET"]
    assert await failures(gateway, requests) == []
