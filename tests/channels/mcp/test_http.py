"""The gate before a real server over streamable HTTP, with the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from httpx import Timeout
from mcp import Client
from mcp.types import ElicitResult
from mcp_types import CallToolResult, TextContent
from starlette.requests import Request
from starlette.types import Receive, Scope
from starlette.types import Send as ASGISend

from builders import present
from channels.mcp.bank import server as bank
from channels.mcp.conftest import CALLER, Gatehouse
from ports import free_port
from served import listening
from signoff.channels.mcp.http import Gate, Who, make_app, server_client
from signoff.channels.mcp.records import Caller
from signoff.core.base.errors import LedgerUnavailable


def text_of(result: object) -> str:
    """Return the text of a result."""
    assert isinstance(result, CallToolResult)
    (one,) = result.content
    assert isinstance(one, TextContent)
    return one.text


Journal = Callable[[], list[str]]


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """Return the actions of the bank."""
    monkeypatch.setenv("JOURNAL", str(tmp_path / "journal"))
    return lambda: (tmp_path / "journal").read_text().splitlines()


async def who(request: Request) -> Caller:
    """Treat every client as the same one."""
    del request
    return CALLER


@asynccontextmanager
async def gate(gatehouse: Gatehouse, *, wait: float = 0) -> AsyncIterator[str]:
    """Serve a bank behind a gate; yield the URL of the gate."""
    there, here = free_port(), free_port()
    app = bank.streamable_http_app(stateless_http=False)
    seen: list[str] = []

    async def guarded(scope: Scope, receive: Receive, send: ASGISend) -> None:
        headers = dict(scope["headers"])
        seen.append(headers.get(b"authorization", b"").decode())
        assert b"cookie" not in headers
        await app(scope, receive, send)

    async with (
        bank.session_manager.run(),
        listening(guarded, there),
        httpx.AsyncClient(timeout=60) as http,
    ):
        calls = gatehouse.calls(wait)
        made = Gate(
            calls,
            who,
            url=f"http://127.0.0.1:{there}/mcp",
            headers={"authorization": "Bearer bank-secret"},
            http=http,
        )
        async with listening(make_app(made), here):
            yield f"http://127.0.0.1:{here}/mcp"
        calls.close()
    assert {*seen} == {"Bearer bank-secret"}


async def test_a_client_without_approval_support_works(
    gatehouse: Gatehouse, journal: Journal
) -> None:
    """Lists, resources and prompts pass; a call waits, is reported as waiting, and runs once."""
    told: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        del progress, total
        told.append(message)

    async with gate(gatehouse) as url:
        for mode in ("legacy", "auto"):
            async with Client(url, mode=mode) as client:
                tools = (await client.list_tools()).tools
                assert [one.name for one in tools] == ["refund", "pay", "read_rates"]
                assert (await client.read_resource("bank://rates")).contents
                assert (await client.get_prompt("remind", {"name": "A"})).messages
                assert text_of(await client.call_tool("read_rates", {})) == "3 %"
                waits = await client.call_tool("refund", {"amount": 5})
                assert waits.is_error
                assert "exactly the same arguments" in text_of(waits)
                await gatehouse.approve()
                done = await client.call_tool(
                    "refund", {"amount": 5}, progress_callback=on_progress
                )
                assert text_of(done) == "refunded 5.0 with nothing"
    assert journal() == ["refund 5.0"] * 2
    assert told == ["half"] * 2


@pytest.mark.soak
async def test_a_call_that_waits_sends_progress(gatehouse: Gatehouse, journal: Journal) -> None:
    """The progress keeps the client waiting until the result arrives."""
    told = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        del progress, total
        if message and message.startswith("Waiting"):
            told.set()

    async with gate(gatehouse, wait=60) as url, Client(url) as client:
        asked = asyncio.create_task(
            client.call_tool("refund", {"amount": 5}, progress_callback=on_progress)
        )
        await told.wait()
        await gatehouse.approve()
        assert text_of(await asked) == "refunded 5.0 with nothing"
    assert journal() == ["refund 5.0"]


@pytest.mark.soak
async def test_an_approver_answers_an_elicitation_of_a_tool(
    gatehouse: Gatehouse, journal: Journal
) -> None:
    """The client does not support elicitation, so the gate asks; another gate continues."""
    async with gate(gatehouse) as url, Client(url) as client:
        await client.call_tool("pay", {"amount": 5})
        await gatehouse.approve()
        assert "still waits" in text_of(await client.call_tool("pay", {"amount": 5}))
        await gatehouse.approve(account="DE12")
    async with gate(gatehouse) as url, Client(url) as client:
        assert text_of(await client.call_tool("pay", {"amount": 5})) == "paid 5.0 to DE12"
    assert journal() == ["pay 5.0 to DE12"]


async def test_the_answer_of_a_client_is_shown_before_the_tool_gets_it(
    gatehouse: Gatehouse, journal: Journal
) -> None:
    """A client that answers the server itself could otherwise choose who is paid, unseen."""

    async def on_question(context: object, params: object) -> ElicitResult:
        del context, params
        return ElicitResult(action="accept", content={"account": "DE66"})

    async with gate(gatehouse) as url, Client(url, elicitation_callback=on_question) as client:
        await client.call_tool("pay", {"amount": 5})
        await gatehouse.approve()
        waits = await client.call_tool("pay", {"amount": 5})
        assert "still waits" in text_of(waits)
        asked = await gatehouse.pending()
        assert "DE66" in json.dumps(asked.call.args)
        await gatehouse.approve()
        # The client begins again, and gives the same answer.
        await client.call_tool("pay", {"amount": 5})
        await gatehouse.approve()
        paid = await client.call_tool("pay", {"amount": 5})
        assert text_of(paid) == "paid 5.0 to DE66"
    assert journal() == ["pay 5.0 to DE66"]


async def test_messages_that_could_be_read_twice_do_not_pass(gatehouse: Gatehouse) -> None:
    """Batches, duplicate keys, headers of another method, and calls without an id are refused."""
    ok = '"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"refund","arguments":{}}'
    bad = [
        (f"[{{{ok}}}]", {}),
        (f'{{"method":"tools/list",{ok}}}', {}),
        (f"{{{ok}}}", {"mcp-method": "tools/list"}),
        (f"{{{ok}}}", {"mcp-name": "read_rates"}),
        (f"{{{ok}}}".replace('"id":1,', ""), {}),
        ("{", {}),
    ]
    async with httpx.AsyncClient(timeout=60) as http:
        made = Gate(gatehouse.calls(), who, url="http://localhost:1/mcp", headers={}, http=http)
        transport = httpx.ASGITransport(make_app(made))
        async with httpx.AsyncClient(transport=transport, base_url="http://gate") as client:
            for body, headers in bad:
                answer = await client.post("/mcp", content=body, headers=headers)
                assert answer.status_code == 400, body
            gone = await client.post("/mcp", content='{"jsonrpc":"2.0","method":"x"}')
            assert gone.status_code == 502
            asked = await client.post("/mcp", content=f"{{{ok}}}".replace("refund", "read_rates"))
            assert "cannot be reached" in asked.text


REFUND = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"refund","arguments":{}}}'
READ = REFUND.replace("refund", "read_rates")
LIST = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'


class Listening:
    """A server that gives empty answers and records its requests."""

    def __init__(self) -> None:
        self.agents: list[bytes] = []
        self.types: list[bytes | None] = []

    async def __call__(self, scope: Scope, receive: Receive, send: ASGISend) -> None:
        """Answer a request."""
        headers = dict(scope["headers"])
        self.agents.append(headers[b"user-agent"])
        self.types.append(headers.get(b"content-type"))
        kind = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        body = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
        await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def in_front(
    gatehouse: Gatehouse, server: Listening, known: Who = who
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of a gate before a server, without sockets."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(server)) as http:
        made = Gate(gatehouse.calls(), known, url="http://bank/mcp", headers={}, http=http)
        transport = httpx.ASGITransport(make_app(made), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://gate") as client:
            yield client


async def test_a_repeated_header_is_refused(gatehouse: Gatehouse) -> None:
    """The server might use the second value, which nobody has approved."""
    server = Listening()
    async with in_front(gatehouse, server) as client:
        for name, values in (
            ("mcp-name", ("read_rates", "drop_rates")),
            ("mcp-method", ("tools/call", "tools/list")),
        ):
            headers = [(name, value) for value in values]
            answer = await client.post("/mcp", content=READ, headers=headers)
            assert answer.status_code == 400, name
    assert not server.agents


SHIP = REFUND.replace("{}", '{"to":{"region":"staging","fast":true},"count":42,"note":"zo\u00eb"}')


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (
            200,
            {"Region": "staging", "Fast": "true", "Count": "42.0", "Note": "=?base64?em/Dqw==?="},
        ),
        (400, {"Region": "production"}),
        (400, {"Region": "Staging"}),
        (400, {"Fast": "false"}),
        (400, {"Fast": "1"}),
        (400, {"Count": "43"}),
        (400, {"Count": "NaN"}),
        (400, {"Note": "=?base64?em/D?="}),
        (400, {"Dry-Run": "true", "dry-run": "staging"}),
        (400, {"Empty": ""}),
    ],
)
async def test_the_headers_of_a_call_have_its_arguments(
    gatehouse: Gatehouse, status: int, headers: dict[str, str]
) -> None:
    """A proxy may route a call by these headers, to another place than people were shown."""
    server = Listening()
    async with in_front(gatehouse, server) as client:
        sent = [(f"mcp-param-{name}".encode(), one.encode()) for name, one in headers.items()]
        answer = await client.post("/mcp", content=SHIP.replace("refund", "read"), headers=sent)
        assert answer.status_code == status
        listed = await client.post("/mcp", content=LIST, headers=sent)
        assert listed.status_code == 400
    assert len(server.agents) == (status == 200)


async def test_headers_of_any_letters_reach_the_server(gatehouse: Gatehouse) -> None:
    """They pass unchanged, with messages and with approved calls."""
    server = Listening()
    async with in_front(gatehouse, server) as client:
        for body in (LIST, READ):
            answer = await client.post("/mcp", content=body, headers=[(b"user-agent", b"K\xfcche")])
            assert answer.json()["result"] == {"content": []}
    assert server.agents == [b"K\xfcche"] * 2


async def test_the_server_reads_each_message_in_the_charset_of_the_gate(
    gatehouse: Gatehouse,
) -> None:
    """The same bytes can be a list in UTF-8 and a call in the charset that the client names."""
    hidden = "+ACIALAAi-method+ACIAOgAi-tools/call"
    both = f'{{"jsonrpc":"2.0","id":1,"method":"tools/list","x":"{hidden}"}}'
    assert json.loads(both.encode().decode("utf-7"))["method"] == "tools/call"
    server, foreign = Listening(), {"content-type": "application/json; charset=utf-7"}
    async with in_front(gatehouse, server) as client:
        for body in (both, READ):
            await client.post("/mcp", content=body, headers=foreign)
        await client.get("/mcp")
    assert server.types == [b"application/json", b"application/json", None]


async def test_a_client_gets_503_while_redis_is_unavailable(gatehouse: Gatehouse) -> None:
    """The gate cannot look up the client's token, so it answers 503."""

    async def nobody(request: Request) -> Caller:
        raise LedgerUnavailable("Redis cannot be reached")

    async with in_front(gatehouse, Listening(), nobody) as client:
        answer = await client.post("/mcp", content=READ)
    assert answer.status_code == 503
    assert "Redis" in answer.json()["detail"]


async def test_many_clients_keep_a_stream_open() -> None:
    """A hundred open streams do not block another client."""
    port, ended = free_port(), asyncio.Event()

    async def stream(scope: Scope, receive: Receive, send: ASGISend) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b":", "more_body": True})
        await ended.wait()

    async with listening(stream, port), server_client() as http, AsyncExitStack() as stack:
        stack.callback(ended.set)
        for _ in range(101):
            opened = http.stream("GET", f"http://127.0.0.1:{port}/", timeout=Timeout(60, read=None))
            assert (await stack.enter_async_context(opened)).status_code == 200


async def test_a_server_that_is_gone_when_its_stream_resumes_has_the_call(
    gatehouse: Gatehouse,
) -> None:
    """It may have run the call, so no message says that it did not run."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.close()
        head = await reader.readuntil(b"\r\n\r\n")
        length = present(re.search(rb"content-length: (\d+)", head.lower()))
        await reader.readexactly(int(length[1]))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
        writer.write(b"connection: close\r\n\r\nretry: 0\nid: 1\n\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = "http://{}:{}/mcp".format(*server.sockets[0].getsockname())
    async with server_client() as http:
        made = make_app(Gate(gatehouse.calls(), who, url=url, headers={}, http=http))
        transport = httpx.ASGITransport(made)
        async with httpx.AsyncClient(transport=transport, base_url="http://gate") as client:
            answered = await client.post("/mcp", content=READ)
    assert "It is not known whether bank.read_rates has run" in answered.text
