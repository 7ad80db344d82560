"""The gate on standard streams: which messages reach the client, and what ends the gate."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from channels.mcp.conftest import CALLER, Gatehouse, call, said
from signoff.channels.mcp.stdio import Pipe, Write

SERVER = """
import json, sys

calls = []
for line in sys.stdin:
    message = json.loads(line)
    id_, method = message.get("id"), message["method"]
    if method == "tools/call":
        calls.append(id_)
        print(json.dumps({"jsonrpc": "2.0", "method": "called"}), flush=True)
    elif method == "notifications/cancelled":
        if message["params"]["requestId"] in calls:
            late = {"content": [{"type": "text", "text": "late"}]}
            print(json.dumps({"jsonrpc": "2.0", "id": calls[-1], "result": late}), flush=True)
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": id_, "result": {}}), flush=True)
"""
"""A server that answers a call only after its cancellation, and other messages immediately."""

ANSWERING = """
import json, sys

for line in sys.stdin:
    done = {"content": [{"type": "text", "text": "done"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": done}), flush=True)
"""
"""A server that answers each message immediately."""


class Client:
    """A client of the gate.

    Attributes:
        read: The stream from which the gate reads the client's messages.
        heard: The messages of the gate.
    """

    def __init__(self) -> None:
        self.read = asyncio.StreamReader()
        self.heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def write(self, line: str) -> None:
        """Receive a line from the gate."""
        self.heard.put_nowait(json.loads(line))

    def say(self, method: str, id_: int | None = None, **params: Any) -> None:
        """Send a message."""
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.read.feed_data(json.dumps(message | ({"id": id_} if id_ else {})).encode() + b"\n")


def pipe(gatehouse: Gatehouse, client: Client, write: Write, server: str = SERVER) -> Pipe:
    """Return a gate between a client and a server."""
    command = (sys.executable, "-c", server)
    calls, env = gatehouse.calls(), dict(os.environ)
    return Pipe(calls, CALLER, read=client.read, write=write, command=command, env=env)


async def test_an_answer_after_a_cancellation_is_dropped(gatehouse: Gatehouse) -> None:
    """The client never saw the id of that answer; `true` is not the id 1."""
    client = Client()
    running = asyncio.create_task(pipe(gatehouse, client, client.write).run())
    client.say("tools/call", 1, name="read_rates", arguments={})
    assert (await client.heard.get())["method"] == "called"
    client.say("notifications/cancelled", requestId=True)
    client.say("ping", 2)
    assert (await client.heard.get())["id"] == 2
    client.say("notifications/cancelled", requestId=1)
    client.say("ping", 3)
    assert (await client.heard.get())["id"] == 3
    client.read.feed_eof()
    assert await running == 0
    assert client.heard.empty()


async def test_a_client_that_reads_no_more_ends_the_gate(gatehouse: Gatehouse) -> None:
    """So does a client that stops writing. The server does not get the blame."""
    client = Client()

    async def gone(line: str) -> None:
        raise ConnectionResetError("Connection lost")

    client.say("ping", 1)
    assert await pipe(gatehouse, client, gone).run() == 0


async def test_an_unread_result_is_kept_for_the_next_call(gatehouse: Gatehouse) -> None:
    """The client repeats the call and gets the result; the call does not run again."""
    client = Client()

    async def gone(line: str) -> None:
        raise ConnectionResetError("Connection lost")

    client.say("tools/call", 1, name="read_rates", arguments={})
    assert await pipe(gatehouse, client, gone, ANSWERING).run() == 0
    assert said(await gatehouse.ask(call("read_rates", {}))) == "done"
    assert gatehouse.server.got == []
