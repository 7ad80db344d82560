"""A third-party emulator of Slack's Web API, `emulate` from npm, in its own process.

Unlike our own double, it knows members, private conversations, authors and scopes; it does not
check the limits of blocks and has no Socket Mode.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

import npm
from ports import free_port
from signoff.channels.slack.web import SCOPES

PACKAGE = Path(__file__).parent / "emulate" / "package.json"
BOT = "xoxb-emulated"
POOR = "xoxb-emulated-poor"
OWNER = "xoxp-emulated-owner"
PEOPLE = {"mara": "mara@example.com", "cleo": "cleo@example.com", "signoff": "bot@example.com"}

_PATIENCE = 300.0
_STEP = 0.05


@dataclass
class Emulator:
    """A running emulator; methods in `limited` are answered with 429."""

    url: str
    session: aiohttp.ClientSession
    limited: set[str] = field(default_factory=set)

    async def call(self, method: str, token: str = BOT, **arguments: Any) -> dict[str, Any]:
        """Call a method as another user would, and return the answer."""
        headers = {"Authorization": f"Bearer {token}"}
        where = f"{self.url}/api/{method}"
        async with self.session.post(where, json=arguments, headers=headers) as answer:
            found: dict[str, Any] = await answer.json()
            return found

    async def user(self, name: str) -> str:
        """Return the id of a user."""
        found = await self.call("users.lookupByEmail", email=PEOPLE[name])
        return str(found["user"]["id"])

    async def channel(self, name: str) -> str:
        """Return the id of a channel."""
        found = (await self.call("conversations.list"))["channels"]
        return str(next(one["id"] for one in found if one["name"] == name))

    async def messages(self, channel: str) -> list[dict[str, Any]]:
        """Return the messages of a conversation, the newest first, without threads."""
        return list((await self.call("conversations.history", channel=channel))["messages"])


@asynccontextmanager
async def emulator(folder: Path) -> AsyncIterator[Emulator]:
    """Start an emulator behind a shim; skip the test if it cannot be installed."""
    packages = npm.packages(PACKAGE.read_bytes())
    port = free_port()
    seed = folder / "seed.yaml"
    seed.write_text(json.dumps({"slack": _seed()}))  # JSON is YAML
    program = str(packages / ".bin" / "emulate")
    with (folder / "emulator.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(program, "start", "--service", "slack", "--port", str(port), "--seed", str(seed)),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    behind = f"http://127.0.0.1:{port}"
    try:
        async with aiohttp.ClientSession() as session:
            await _up(session, behind)
            limited: set[str] = set()
            async with _shim(session, behind, limited) as url:
                yield Emulator(url, session, limited)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _seed() -> dict[str, Any]:
    poor = [scope for scope in SCOPES if scope != "im:history"]
    return {
        "users": [{"name": name, "email": email} for name, email in PEOPLE.items()],
        "channels": [{"name": "ops"}],
        "strict_scopes": True,
        "tokens": [
            {"token": BOT, "type": "bot", "user": "signoff", "scopes": list(SCOPES)},
            {"token": OWNER, "type": "user", "user": "admin", "scopes": ["channels:manage"]},
            {"token": POOR, "type": "bot", "user": "signoff", "scopes": poor},
        ],
    }


async def _up(session: aiohttp.ClientSession, url: str) -> None:
    async with asyncio.timeout(_PATIENCE):
        while True:
            try:
                async with session.post(f"{url}/api/auth.test"):
                    return
            except aiohttp.ClientError:
                await asyncio.sleep(_STEP)  # the emulator does not report that it is ready


@asynccontextmanager
async def _shim(
    session: aiohttp.ClientSession, behind: str, limited: set[str]
) -> AsyncIterator[str]:
    """Accept a GET with a query, as Slack does, and forward it as the emulator's POST."""

    async def forward(request: web.Request) -> web.Response:
        if request.path.rpartition("/")[2] in limited:
            return web.json_response(
                {"ok": False, "error": "ratelimited"}, status=429, headers={"Retry-After": "30"}
            )
        headers = {"Authorization": request.headers.get("Authorization", "")}
        where = f"{behind}{request.path}"
        if request.method == "GET":
            sent = session.post(where, data=dict(request.query), headers=headers)
        else:
            headers["Content-Type"] = request.headers.get("Content-Type", "")
            sent = session.post(where, data=await request.read(), headers=headers)
        async with sent as answer:
            return web.Response(
                body=await answer.read(), status=answer.status, content_type=answer.content_type
            )

    app = web.Application(client_max_size=1 << 22)
    app.router.add_route("*", "/{path:.*}", forward)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")
