"""`signoff mcp gate` as clients start it: real processes, the SDK's client, and kill -9."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent
from starlette.types import Receive, Scope
from starlette.types import Send as ASGISend

from builders import MARA
from channels.mcp.bank import server as bank
from channels.mcp.bank import wait_for
from deciding import Decider
from ports import free_port
from served import listening
from signoff.broker.ledger.follow import follow
from signoff.channels.aap import instances
from signoff.channels.pipeline.route import Router
from signoff.cli.composition.parts import build
from signoff.cli.config.settings import Settings, load_settings
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import What
from test_docs import blocks

PAGE = "docs/how-to/gate-an-mcp-server.md"
BANK = Path(__file__).parents[1] / "channels" / "mcp" / "bank.py"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
SETTINGS = """
[redis]
url = "{url}"
prefix = "{prefix}"

[email]
sender = "signoff@example.com"

[[people]]
id = "mara"
name = "Mara Lind"
email = "mara@example.com"

[[people]]
id = "riley"
name = "Riley Rao"
email = "riley@example.com"

[default]
ask = ["mara"]
"""


@dataclass
class House:
    """An installation in a folder, and its decisions.

    Attributes:
        folder: The folder.
        settings: Its settings.
        decider: Makes the decisions.
    """

    folder: Path
    settings: Settings
    decider: Decider

    @property
    def env(self) -> dict[str, str]:
        """Return the environment of a client."""
        scripts = str(Path(sys.executable).parent)
        kept = {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "HOME": str(self.folder)}
        return kept | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}

    async def asked(self, fits: Callable[[Approval], bool] = lambda _: True) -> Approval:
        """Return the waiting approval, as soon as there is one and people are asked."""
        ledger = self.decider.ledger
        router = Router(
            ledger,
            policies=self.settings.policies,
            fallback=self.settings.default,
            directory=self.decider.directory,
        )
        async for event in follow(ledger.store, start="0"):
            if event.what is What.OPENED and event.approval:
                await router.drain()
                found = await ledger.approval(event.approval)
                if fits(found):
                    return found
        raise AssertionError

    async def approve(self, found: Approval, **values: Any) -> None:
        """Approve it as Mara."""
        mara = self.decider.directory.get("mara") or MARA
        await self.decider.approve(found.id, mara, channel="inbox", values=values or None)

    def journal(self) -> list[str]:
        """Return the executions at the bank."""
        file = self.folder / "journal"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
async def house(
    tmp_path: Path, redis_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[House]:
    """Return an installation whose default approver is Mara."""
    shutil.copy(BANK, tmp_path / "bank.py")
    (tmp_path / "signoff.toml").write_text(SETTINGS.format(url=redis_url, prefix=prefix))
    (tmp_path / "bank.env").write_text(f"JOURNAL={tmp_path / 'journal'}\nBANK_TOKEN=hidden\n")
    monkeypatch.chdir(tmp_path)
    settings = load_settings(tmp_path / "signoff.toml")
    parts = build(settings)
    yield House(tmp_path, settings, Decider(parts.ledger, settings.everybody))
    await parts.ledger.close()


def of_page() -> dict[str, Any]:
    """Return the client configuration from the how-to page."""
    (found,) = blocks(PAGE, "json")
    return dict(json.loads(found)["mcpServers"]["bank"])


def text_of(result: object) -> str:
    """Return the text of a result."""
    assert isinstance(result, CallToolResult)
    (one,) = result.content
    assert isinstance(one, TextContent)
    return one.text


@pytest.mark.soak
async def test_documented_mcp_gate_holds_a_call_and_runs_it_once(house: House) -> None:
    """The SDK's client starts the page's gate: lists pass, a call waits and then runs once."""
    server = StdioServerParameters(**of_page(), env=house.env, cwd=house.folder)
    async with Client(server) as client:
        assert len((await client.list_tools()).tools) == 3
        calling = asyncio.create_task(client.call_tool("refund", {"amount": 5}))
        found = await house.asked()
        assert (found.call.name, found.origin.user) == ("bank.refund", "riley@example.com")
        assert house.journal() == []
        await house.approve(found)
        assert text_of(await calling) == "refunded 5.0 with hidden"
    assert house.journal() == ["refund 5.0"]


@dataclass
class Raw:
    """A gate that a test can kill.

    Attributes:
        process: The process of the gate.
    """

    process: Process

    async def ask(self, method: str, params: Mapping[str, Any], id_: int) -> dict[str, Any]:
        """Send a request and return its answer."""
        await self.send({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            found: dict[str, Any] = json.loads(line)
            if found.get("id") == id_ and "method" not in found:
                return found
        raise AssertionError(f"The gate has ended: {self.process.returncode}")

    async def kill(self, calling: asyncio.Task[str]) -> None:
        """Kill the gate as a power cut would."""
        self.process.kill()
        with pytest.raises(AssertionError):
            await calling
        await self.process.wait()

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()

    async def call(self, id_: int) -> str:
        """Call for a refund, and return the text of the result."""
        found = await self.ask("tools/call", {"name": "refund", "arguments": {"amount": 5}}, id_)
        return str(found["result"]["content"][0]["text"])


@asynccontextmanager
async def raw(house: House, *options: str, **env: str) -> AsyncIterator[Raw]:
    """Start a gate, and initialise the session with its server."""
    page = of_page()
    args = [*page["args"]]
    args[args.index("--") : args.index("--")] = options
    process = await asyncio.create_subprocess_exec(
        page["command"], *args, stdin=PIPE, stdout=PIPE, env=house.env | env
    )
    gate = Raw(process)
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    try:
        await gate.ask("initialize", hello, 0)
        await gate.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield gate
        if process.returncode is None and process.stdin is not None:
            process.stdin.close()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.soak
@pytest.mark.promise
async def test_killed_mcp_gate_keeps_the_approval_and_asks_about_a_started_call(
    house: House,
) -> None:
    """The approval outlives the first kill; after the second, a person is asked again."""
    async with raw(house) as gate:
        calling = asyncio.create_task(gate.call(1))
        first = await house.asked()
        await gate.kill(calling)
    await house.approve(first)
    slow = house.folder / "go on"
    async with raw(house, SLOW=str(slow)) as gate:
        calling = asyncio.create_task(gate.call(1))
        await asyncio.to_thread(wait_for, house.folder / "journal")
        await gate.kill(calling)
    assert house.journal() == ["refund 5.0"]
    slow.touch()
    async with raw(house) as gate:
        calling = asyncio.create_task(gate.call(1))
        again = await house.asked(lambda one: one.id != first.id)
        assert again.supersedes == first.id
        assert "may or may not have happened" in again.hint
        assert house.journal() == ["refund 5.0"]
        await house.approve(again)
        assert await calling == "refunded 5.0 with hidden"
    assert house.journal() == ["refund 5.0"] * 2
    done = await house.decider.ledger.approval(again.id)
    assert (done.starts, done.handoff.value) == (1, "resumed")


@asynccontextmanager
async def served(house: House, *options: str) -> AsyncIterator[str]:
    """Serve a gate over HTTP as a process; yield its URL."""
    process = await asyncio.create_subprocess_exec(
        "signoff",
        *("mcp", "gate", "--name", "bank", "--wait", "0s", "--listen", "127.0.0.1:0"),
        *options,
        stderr=PIPE,
        env=house.env | {"SIGNOFF_LOG__FORMAT": "json"},
    )
    assert process.stderr is not None
    try:
        while line := await process.stderr.readline():
            said = json.loads(line)
            if said.get("event") == "ready":
                yield f"http://127.0.0.1:{said['port']}/mcp"
                process.terminate()
                assert await process.wait() == 0
                return
        raise AssertionError(f"The gate has ended: {await process.wait()}")
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.soak
async def test_clients_with_tokens_reach_a_server_with_a_url(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token determines client and requester; without tokens, only local programs connect."""
    monkeypatch.setenv("JOURNAL", str(house.folder / "journal"))
    _, token = await instances.create(house.decider.ledger, "codex", user="riley", by="test")
    port, seen = free_port(), set[str]()
    app = bank.streamable_http_app()

    async def server(scope: Scope, receive: Receive, send: ASGISend) -> None:
        seen.add(dict(scope["headers"]).get(b"authorization", b"").decode())
        await app(scope, receive, send)

    url = ("--url", f"http://127.0.0.1:{port}/mcp", "--env-file", "bank.env")
    header = ("--header", "Authorization: Bearer ${BANK_TOKEN}")
    async with (
        bank.session_manager.run(),
        listening(server, port),
        served(house, *url, *header, "--tokens") as here,
    ):
        own = httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60)
        async with own as http, Client(streamable_http_client(here, http_client=http)) as client:
            assert "still waits" in text_of(await client.call_tool("refund", {"amount": 5}))
            found = await house.asked()
            assert (found.origin.app, found.origin.user) == ("codex", "riley")
            await house.approve(found)
            assert "refunded 5.0" in text_of(await client.call_tool("refund", {"amount": 5}))
        async with httpx.AsyncClient(timeout=60) as http:
            refused = await http.post(here, json=PING)
            assert refused.status_code == 401
        async with served(house, *url, *header) as mine, httpx.AsyncClient(timeout=60) as http:
            assert (await http.post(mine, json=PING)).status_code != 403
            forwarded = await http.post(mine, json=PING, headers={"x-real-ip": "10.0.0.7"})
            assert forwarded.status_code == 403
    assert seen == {"Bearer hidden"}
    assert house.journal() == ["refund 5.0"]


@pytest.mark.soak
async def test_a_client_cancels_and_calls_again(house: House) -> None:
    """The approval stays and waits for the next such call; an invalid call is an error."""
    async with raw(house, "--wait", "1s") as gate:
        await gate.send(
            {
                "jsonrpc": "2.0",
                "id": 7,
                "method": "tools/call",
                "params": {"name": "refund", "arguments": {"amount": 5}},
            }
        )
        first = await house.asked()
        await gate.send(
            {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": 7},
            }
        )
        assert first.id in await gate.call(8)
        bad = await gate.ask("tools/call", {"name": 5}, 9)
        assert bad["error"]["code"] == -32602
    assert house.journal() == []
