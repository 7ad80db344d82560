"""Restate: a handler that awaits an awakeable, which is resolved over HTTP."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config

from benchmarks.peers.port import PAYLOAD, Arrivals, Peer, free_port, listening, size_of

_PORT = "BENCH_PORT"
_service = restate.Service("bench")


@_service.handler()
async def ask(context: Any, request: dict[str, Any]) -> None:  # noqa: ANN401 -- a Restate context
    """Report how to resolve the awakeable, and wait for it."""
    name, decision = context.awakeable()
    await context.run("asked", lambda: _tell("card", request["unit"], name))
    await decision
    _tell("end", request["unit"], time.monotonic_ns())


def _tell(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Awakeables(Peer):
    """The server with its defaults, and the handler in a separate process."""

    at_once = 1_000

    async def start(self) -> None:
        """Start the server and the handler, and register the handler."""
        ingress, admin, node, handler = (free_port() for _ in range(4))
        self._data = self.folder / "restate"
        await self.fleet.run(
            "restate",
            _server(),
            environment={
                "RESTATE_BASE_DIR": str(self._data),
                "RESTATE_LISTEN_MODE": "tcp",
                "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
                "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{node}",
                "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
                "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
                "RESTATE_LOG_FILTER": "error",
                "DO_NOT_TRACK": "1",
            },
        )
        child = await self.fleet.run(
            "handler",
            *(sys.executable, "-m", __name__),
            environment={_PORT: str(handler)},
        )
        self._cards: dict[str, str] = {}
        self._asked, self._ends = Arrivals(), Arrivals()
        child.hear = self._hear
        for port in (handler, ingress, admin):
            await listening(port)
        self._http = aiohttp.ClientSession(f"http://127.0.0.1:{ingress}")
        self.ends.push_async_callback(self._http.close)
        url = f"http://127.0.0.1:{admin}/deployments"
        body = {"uri": f"http://127.0.0.1:{handler}"}
        async with self._http.post(url, json=body) as reply:
            reply.raise_for_status()
        await self.answer(await self.open())

    async def open(self) -> str:
        """Send the request, and wait until its handler waits."""
        unit = secrets.token_hex(8)
        body = PAYLOAD | {"unit": unit}
        async with self._http.post("/bench/ask/send", json=body) as reply:
            reply.raise_for_status()
        await self._asked.of(unit)
        return unit

    async def answer(self, request: str) -> int:
        """Resolve the awakeable, and wait until the handler continues."""
        path = f"/restate/awakeables/{self._cards.pop(request)}/resolve"
        async with self._http.post(path, json={"approved": True}) as reply:
            reply.raise_for_status()
        return await self._ends.of(request)

    async def stored(self) -> int:
        """Return the bytes of its folder."""
        await asyncio.sleep(1)
        return size_of(self._data)

    def _hear(self, words: list[str]) -> None:
        match words:
            case ["card", unit, name]:
                self._cards[unit] = name
                self._asked.tell(unit)
            case ["end", unit, moment]:
                self._ends.tell(unit, int(moment))


def _server() -> str:
    """Return the path of the server that npm has installed."""
    modules = Path(sys.prefix) / "node_modules"
    return str(next(modules.glob("@restatedev/restate-server-*/bin/restate-server")))


if __name__ == "__main__":
    config = Config()
    config.bind = [f"127.0.0.1:{os.environ[_PORT]}"]
    asyncio.run(serve(restate.app([_service]), config))
