"""A Mattermost server for tests, over real HTTP; it has what the example channel uses.

https://developers.mattermost.com/api-documentation/
"""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

FILE = Path(__file__).resolve().parents[2] / "examples" / "channels" / "mattermost.py"


def example() -> ModuleType:
    """Load examples/channels/mattermost.py."""
    spec = importlib.util.spec_from_file_location("mattermost", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass
class Server:
    """A server with its users, posts and temporary failures.

    `busy` are users for whom it returns a rate limit.
    """

    users: set[str] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)
    posts: dict[str, dict[str, Any]] = field(default_factory=dict)
    edits: int = 0
    url: str = ""

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the channel."""
        return {"url": self.url, "bot": "bot", "token": "right", "command_token": "secret"}

    def app(self) -> web.Application:
        """Return the server."""
        made = web.Application()
        made.router.add_post("/api/v4/channels/direct", self._direct)
        made.router.add_post("/api/v4/posts", self._post)
        made.router.add_put("/api/v4/posts/{id}/patch", self._patch)
        return made

    async def _direct(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer right":
            return web.json_response({"message": "Invalid or expired session"}, status=401)
        bot, user = await request.json()
        if user in self.busy:
            return web.json_response({"message": "Rate limit exceeded"}, status=429)
        if bot != "bot" or user not in self.users:
            return web.json_response({"message": "Unable to find the user"}, status=404)
        return web.json_response({"id": f"direct-{user}"}, status=201)

    async def _post(self, request: web.Request) -> web.Response:
        post = await request.json()
        pending = post.pop("pending_post_id")
        before = next((one for one in self.posts.values() if one["pending"] == pending), None)
        if before is None:
            before = {"id": f"post{len(self.posts) + 1}", "pending": pending, **post}
            self.posts[before["id"]] = before
        return web.json_response(before, status=201)

    async def _patch(self, request: web.Request) -> web.Response:
        post = self.posts.get(request.match_info["id"])
        if post is None:
            return web.json_response({"message": "Unable to get the post"}, status=404)
        post |= await request.json()
        self.edits += 1
        return web.json_response(post)


@asynccontextmanager
async def mattermost(*users: str) -> AsyncIterator[Server]:
    """Start a server with these users."""
    made = Server(set(users))
    async with TestServer(made.app()) as server:
        made.url = str(server.make_url("")).rstrip("/")
        yield made
