"""The gate in front of a real server over streamable HTTP, with the SDK's own client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from mcp import Client
from mcp_types import CallToolResult, TextContent
from starlette.requests import Request
from starlette.types import Receive, Scope
from starlette.types import Send as ASGISend

from channels.mcp.bank import server as bank
from channels.mcp.conftest import CALLER, Gatehouse
from served import listening
from signoff.broker.server.embedded import free_port
from signoff.channels.mcp.http import Gate, make_app
from signoff.channels.mcp.records import Caller


def text_of(result: object) -> str:
    """Return the text of a result."""
    assert isinstance(result, CallToolResult)
    (one,) = result.content
    assert isinstance(one, TextContent)
    return one.text


Journal = Callable[[], list[str]]


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """Return what the bank has done."""
    monkeypatch.setenv("JOURNAL", str(tmp_path / "journal"))
    return lambda: (tmp_path / "journal").read_text().splitlines()


async def who(request: Request) -> Caller:
    """Take everybody for the same client."""
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
        httpx.AsyncClient() as http,
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


async def test_a_client_knows_nothing_of_approvals(gatehouse: Gatehouse, journal: Journal) -> None:
    """Lists, resources and prompts pass; a call waits, is told so, and runs once."""
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
    """The client is told that it waits, so that it does not give up, and gets the result."""
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
async def test_what_a_tool_asks_is_answered_by_an_approver(
    gatehouse: Gatehouse, journal: Journal
) -> None:
    """The client knows no elicitation: the gate asks, and another gate goes on."""
    async with gate(gatehouse) as url, Client(url) as client:
        await client.call_tool("pay", {"amount": 5})
        await gatehouse.approve()
        assert "still waits" in text_of(await client.call_tool("pay", {"amount": 5}))
        await gatehouse.approve(account="DE12")
    async with gate(gatehouse) as url, Client(url) as client:
        assert text_of(await client.call_tool("pay", {"amount": 5})) == "paid 5.0 to DE12"
    assert journal() == ["pay 5.0 to DE12"]


async def test_messages_that_could_be_read_twice_do_not_pass(gatehouse: Gatehouse) -> None:
    """Batches, doubled keys, headers of another method, and calls without an id."""
    ok = '"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"refund","arguments":{}}'
    bad = [
        (f"[{{{ok}}}]", {}),
        (f'{{"method":"tools/list",{ok}}}', {}),
        (f"{{{ok}}}", {"mcp-method": "tools/list"}),
        (f"{{{ok}}}", {"mcp-name": "read_rates"}),
        (f"{{{ok}}}".replace('"id":1,', ""), {}),
        ("{", {}),
    ]
    async with httpx.AsyncClient() as http:
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
