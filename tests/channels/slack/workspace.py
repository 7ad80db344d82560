"""A Slack workspace for tests: the Web API and Socket Mode over real HTTP and WebSockets.

It keeps posts and checks blocks as Slack does. If its behaviour could differ from Slack's,
test_emulator.py uses an independent emulator.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar

from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer

from channels.slack.limits import faults_of
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.slack.outbound.channel import SlackChannel
from signoff.channels.slack.outbound.conversations import Conversations
from signoff.channels.slack.outbound.rate_limit import Call, SlackRateLimit
from signoff.channels.slack.web import SlackWeb

Json = dict[str, Any]
T = TypeVar("T")

TEAM = "T0HOME"
BOT = "xoxb-test"
APP = "xapp-test"
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"


_BROKEN: Final[dict[str | int | None, tuple[str, str, int]]] = {
    "html": ("<html>Sorry</html>", "text/html", 200),
    "cut": ('{"ok": tru', "application/json", 200),
    "failed": ("<html>Bad gateway</html>", "text/html", 502),
}
"""Answers that are not what Slack documents, with their types and statuses."""


def slack_channel(web: SlackWeb, ledger: Ledger) -> SlackChannel:
    """Return the channel as processes have it."""
    return SlackChannel(web, Conversations(web, ledger, app=BOT), SlackRateLimit(ledger))


def fast_channel(web: SlackWeb, ledger: Ledger) -> SlackChannel:
    """Return the channel without a limit of its own, for tests that are not about limits."""
    return SlackChannel(web, Conversations(web, ledger, app=BOT), NoLimit(ledger))


class NoLimit(SlackRateLimit):
    """Lets all calls go out at once."""

    async def take(self, calls: Sequence[tuple[str, Call, datetime | None]]) -> list[float]:
        """Wait for nothing."""
        return [0.0] * len(calls)

    async def pause(self, call: Call, seconds: float) -> None:
        """Stop nothing."""


@dataclass
class Workspace:
    """A workspace with its members, and a list of calls.

    `failures` has, by method, answers before the real one: a Slack error code, a status,
    ``"html"`` (a proxy's page; nothing is done), ``"lost"`` (it is done, and the connection
    dropped), ``"dropped"`` (nothing is done), ``"cut"`` (it is done, and the JSON of the answer is
    cut off), ``"failed"`` (it is done, and answered with 502), ``"held"`` (it is done, and answered
    after `gate` opens).
    """

    members: dict[str, Json] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    failures: dict[str, list[str | int | None]] = field(default_factory=lambda: defaultdict(list))
    retry_after: str = "7"
    enterprise: str = ""
    scopes: str = "chat:write,im:write,im:history,channels:history,channels:read"
    calls: list[tuple[str, Json]] = field(default_factory=list)
    messages: dict[str, dict[str, Json]] = field(default_factory=lambda: defaultdict(dict))
    whispers: list[Json] = field(default_factory=list)
    views: list[Json] = field(default_factory=list)
    sockets: list[web.WebSocketResponse] = field(default_factory=list)
    acks: dict[str, asyncio.Future[Json]] = field(default_factory=dict)
    joined: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    url: str = ""
    now: Callable[[], float] = time.time
    greeting: bool = True
    _ts: Any = field(default_factory=lambda: itertools.count(1))
    busy: set[str] = field(default_factory=set)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    connected: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, user: str, email: str, *, team: str = TEAM, **more: Any) -> str:
        """Add a member, and return the id."""
        profile = {"email": email, "real_name": email.partition("@")[0]}
        self.members[user] = {"id": user, "team_id": team, "profile": profile, **more}
        return user

    def post(self, channel: str, **message: Any) -> None:
        """Post a message, as another app does."""
        self._chat_postmessage({"channel": channel, **message})

    def called(self, method: str) -> list[Json]:
        """Return the arguments of each call of a method."""
        return [arguments for name, arguments in self.calls if name == method]

    def cards(self, channel: str = "") -> list[Json]:
        """Return the messages of a conversation, or of all, in order."""
        places = [self.messages[channel]] if channel else list(self.messages.values())
        return [message for place in places for message in place.values()]

    def app(self) -> web.Application:
        """Return the server."""
        made = web.Application(client_max_size=1 << 22)
        made.router.add_route("*", "/api/{method}", self._api)
        made.router.add_get("/socket", self._socket)
        return made

    async def until(self, holds: Callable[[], T], *, within: float = 60) -> T:
        """Wait until a condition holds, and return its value; each call checks it."""
        async with asyncio.timeout(within):
            while not (found := holds()):
                await self._changed.wait()
            return found

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _api(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answered(request)
        finally:
            self._tell()

    async def _answered(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        arguments = await _arguments(request)
        self.calls.append((method, arguments))
        failures = self.failures[method]
        failure = failures.pop(0) if failures else None
        if failure in {"lost", "dropped"}:
            if failure == "lost":
                self._done(method, arguments)
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        if failure in _BROKEN:
            if failure != "html":
                self._done(method, arguments)
            text, content_type, status = _BROKEN[failure]
            return web.Response(text=text, content_type=content_type, status=status)
        if failure == "held":
            answer = self._done(method, arguments)
            self._tell()
            await self.gate.wait()
            return web.json_response({"ok": True, **answer})
        if isinstance(failure, int):
            headers = {"Retry-After": self.retry_after} if failure == 429 else {}
            body = {"ok": False, "error": "ratelimited"} if failure == 429 else {}
            return web.json_response(body, status=failure, headers=headers)
        if failure is not None:
            return web.json_response({"ok": False, "error": failure})
        authorised = request.headers.get("Authorization") in {f"Bearer {BOT}", f"Bearer {APP}"}
        answer = self._done(method, arguments) if authorised else {"error": "invalid_auth"}
        return web.json_response(
            {"ok": "error" not in answer, **answer}, headers={"x-oauth-scopes": self.scopes}
        )

    def _done(self, method: str, arguments: Json) -> Json:
        do = getattr(self, "_" + method.replace(".", "_").lower(), None)
        found: Json = do(arguments) if do is not None else {"error": "unknown_method"}
        return found

    def _auth_test(self, _arguments: Json) -> Json:
        me = {"team_id": TEAM, "user_id": "U0BOT", "url": "https://example.slack.com/"}
        return me | ({"enterprise_id": self.enterprise} if self.enterprise else {})

    def _users_info(self, arguments: Json) -> Json:
        member = self.members.get(arguments["user"])
        return {"user": member} if member else {"error": "user_not_found"}

    def _users_lookupbyemail(self, arguments: Json) -> Json:
        if arguments["email"] in self.busy:
            return {"error": "ratelimited"}
        for member in self.members.values():
            if member["profile"]["email"] == arguments["email"]:
                return {"user": member}
        return {"error": "users_not_found"}

    def _usergroups_users_list(self, arguments: Json) -> Json:
        users = self.groups.get(arguments["usergroup"])
        return {"error": "no_such_subteam"} if users is None else {"users": users}

    def _conversations_open(self, arguments: Json) -> Json:
        user = arguments["users"]
        if user not in self.members:
            return {"error": "user_not_found"}
        return {"channel": {"id": "D" + user[1:]}}

    def _conversations_info(self, arguments: Json) -> Json:
        channel = arguments["channel"]
        if not self._exists(channel):
            return {"error": "channel_not_found"}
        return {"channel": {"id": channel, "is_member": channel in self.joined}}

    def _conversations_history(self, arguments: Json) -> Json:
        """Answer as Slack does: the newest first, and with ``oldest`` alone the oldest ones.

        https://docs.slack.dev/reference/methods/conversations.history#pagination-by-time
        """
        oldest = float(arguments.get("oldest", 0))
        latest = float(arguments.get("latest", "inf"))
        kept = [
            message
            for message in self.messages[arguments["channel"]].values()
            if oldest < float(message["ts"]) < latest and "thread_ts" not in message
        ]
        most, start = int(arguments.get("limit", 100)), int(arguments.get("cursor") or 0)
        from_the_oldest = "oldest" in arguments and "latest" not in arguments
        ordered = kept if from_the_oldest else kept[::-1]
        page = ordered[start : start + most]
        answer: Json = {"messages": page[::-1] if from_the_oldest else page}
        if start + most < len(ordered):
            answer["response_metadata"] = {"next_cursor": str(start + most)}
        return answer

    def _chat_postmessage(self, arguments: Json) -> Json:
        channel = arguments["channel"]
        if not self._exists(channel):
            return {"error": "channel_not_found"}
        if faults := faults_of(arguments.get("blocks", ())):
            return {"error": "invalid_blocks", "response_metadata": {"messages": faults}}
        ts = f"{int(self.now())}.{next(self._ts):06d}"
        self.messages[channel][ts] = {"ts": ts, "channel": channel, **arguments}
        return {"channel": channel, "ts": ts}

    def _chat_update(self, arguments: Json) -> Json:
        message = self.messages[arguments["channel"]].get(arguments["ts"])
        if message is None:
            return {"error": "message_not_found"}
        if faults := faults_of(arguments.get("blocks", ())):
            return {"error": "invalid_blocks", "response_metadata": {"messages": faults}}
        message.update(arguments)
        message["edits"] = message.get("edits", 0) + 1
        return {"channel": arguments["channel"], "ts": arguments["ts"]}

    def _chat_postephemeral(self, arguments: Json) -> Json:
        if not self._exists(arguments["channel"]):
            return {"error": "channel_not_found"}
        if arguments["user"] in self.left:
            return {"error": "user_not_in_channel"}
        self.whispers.append(arguments)
        return {"message_ts": f"1700000001.{len(self.whispers):06d}"}

    def _views_open(self, arguments: Json) -> Json:
        view = arguments["view"]
        if faults := faults_of(view["blocks"], modal=True):
            return {"error": "invalid_arguments", "response_metadata": {"messages": faults}}
        if len(view["title"]["text"]) > 24:
            return {"error": "invalid_arguments"}
        self.views.append(view)
        return {"view": {"id": f"V{len(self.views)}"}}

    def _views_push(self, arguments: Json) -> Json:
        return self._views_open(arguments)

    def _apps_connections_open(self, _arguments: Json) -> Json:
        return {"url": self.url.replace("http", "ws") + "/socket"}

    def _exists(self, channel: str) -> bool:
        return channel in self.joined or (channel[:1] == "D" and "U" + channel[1:] in self.members)

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets.append(socket)
        if self.greeting:
            await socket.send_json({"type": "hello", "num_connections": len(self.sockets)})
        self.connected.set()
        self._tell()
        try:
            async for message in socket:
                if message.type is not WSMsgType.TEXT:
                    continue
                said = json.loads(message.data)
                waiting = self.acks.get(said.get("envelope_id", ""))
                if waiting is not None and not waiting.done():
                    waiting.set_result(said)
        finally:
            self.sockets.remove(socket)
        return socket

    async def push(self, payload: Json, *, envelope: str = "e-1", at: int = 0) -> Json:
        """Send an interaction over a connection, and return its acknowledgement."""
        waiting = self.acks[envelope] = asyncio.get_running_loop().create_future()
        sent = {"type": "interactive", "envelope_id": envelope, "payload": payload}
        await self.sockets[at].send_json({**sent, "accepts_response_payload": True})
        return await asyncio.wait_for(waiting, 300)


@asynccontextmanager
async def serve(made: Workspace) -> AsyncIterator[Workspace]:
    """Serve a workspace over TCP."""
    async with TestServer(made.app()) as server:
        made.url = str(server.make_url("")).rstrip("/")
        try:
            yield made
        finally:
            made.gate.set()
            for socket in tuple(made.sockets):
                await socket.close()


async def _arguments(request: web.Request) -> Json:
    if request.method == "GET":
        return dict(request.query)
    if request.content_type == "application/json":
        found: Json = await request.json()
        return found
    return dict(await request.post())
