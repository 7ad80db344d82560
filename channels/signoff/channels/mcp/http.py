"""The gate in front of a server that speaks streamable HTTP."""

from __future__ import annotations

import asyncio
import base64
import binascii
import itertools
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Final

import httpx
import structlog
from pydantic import JsonValue
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from signoff.channels.mcp import messages
from signoff.channels.mcp.calls import Calls
from signoff.channels.mcp.events import ServerEvents
from signoff.channels.mcp.messages import Answer, BadMessage, Call, JsonRpcMessage
from signoff.channels.mcp.records import Caller
from signoff.channels.mcp.running import CallLost, NotSent
from signoff.channels.web.problems import Patience, Problem, read_body
from signoff.core.base.errors import SignoffError
from signoff.core.base.problems import KINDS

log = structlog.get_logger(__name__)

PATH: Final = "/mcp"

MOST: Final = 16 * 1024 * 1024
"""The largest message, in bytes."""

TIMEOUT: Final = httpx.Timeout(30, read=None)
"""A call may run as long as it likes."""

_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_PASSED: Final = frozenset({b"accept", b"last-event-id", b"user-agent"})
_OWN: Final = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "keep-alive",
        "set-cookie",
        "transfer-encoding",
        "upgrade",
        "www-authenticate",
    }
)
_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=")
_COPIED: Final = "mcp-param-"
"""The beginning of headers that repeat an argument (MCP 2026-07-28)."""
_RESUMES: Final = 5

Who = Callable[[Request], Awaitable[Caller]]
"""Returns the client that makes a request; raises `Problem`, and `LedgerError` without Redis."""


@dataclass(slots=True)
class _Exchange:
    """A call that a client waits for.

    Attributes:
        request: The client's.
        call: The call.
        lines: The lines for the client; the last one has the answer.
        refused: The response of the server if it has refused the call.
    """

    request: Request
    call: Call
    lines: asyncio.Queue[tuple[str, Answer | None]] = field(default_factory=asyncio.Queue)
    refused: tuple[int, str, bytes] | None = None


class Gate:
    """Passes messages on, and asks about calls.

    Args:
        calls: Asks about calls.
        who: Returns the client that makes a request.
        url: The URL of the server.
        headers: The headers of each request to the server: the credentials.
        http: The client that reaches the server.
    """

    def __init__(
        self,
        calls: Calls,
        who: Who,
        *,
        url: str,
        headers: Mapping[str, str],
        http: httpx.AsyncClient,
    ) -> None:
        self._calls = calls
        self._who = who
        self._url = url
        self._headers = {name.encode(): value.encode() for name, value in headers.items()}
        self._http = http

    async def serve(self, request: Request) -> Response:
        """Answer a request."""
        try:
            caller = await self._who(request)
            if request.method != "POST":
                return await self._pass_on(request, None)
            message = messages.read(await read_body(request, MOST))
            call = messages.call_of(message)
            _require_same(request, message, call)
        except Problem as problem:
            return problem.response()
        except SignoffError as error:
            return Problem.of(error, KINDS).response()
        except BadMessage as problem:
            return Response(messages.error_line(problem), 400, media_type=_JSON)
        if call is None:
            return await self._pass_on(request, message)
        return await self._answered(caller, request, call)

    # Calls.

    async def _answered(self, caller: Caller, request: Request, call: Call) -> Response:
        exchange = _Exchange(request, call)
        task = asyncio.create_task(self._ask(caller, exchange))
        try:
            first = await exchange.lines.get()
            if first[1] is None and _EVENTS in request.headers.get("accept", ""):
                return StreamingResponse(self._events(exchange, task, first), media_type=_EVENTS)
            while first[1] is None:
                first = await exchange.lines.get()
        except BaseException:
            task.cancel()
            raise
        status, kind, body = exchange.refused or (200, _JSON, first[0].encode())
        return StreamingResponse(self._whole(exchange, body, first[1]), status, media_type=kind)

    async def _ask(self, caller: Caller, exchange: _Exchange) -> None:
        call, told = exchange.call, itertools.count(1)

        async def send(more: Mapping[str, str]) -> Answer:
            return await self._send(exchange, more)

        async def tell(text: str) -> None:
            if call.token is not None:
                line = messages.progress_line(call.token, next(told), text)
            else:
                line = ""  # keeps the connection
            await exchange.lines.put((line, None))

        try:
            answer = await self._calls.answer_always(caller, call, send, tell)
        except Exception:
            log.exception("mcp.failed", tool=call.tool)
            answer = call.failure("The gate has failed.")
        await exchange.lines.put((answer.line(call.id), answer))

    async def _events(
        self, exchange: _Exchange, task: asyncio.Task[None], first: tuple[str, Answer | None]
    ) -> AsyncIterator[str]:
        """Yield the events for a waiting client; the waiting ends if it disconnects."""
        try:
            line, answer = first
            while answer is None:
                yield f"event: message\ndata: {line}\n\n" if line else ": waiting\n\n"
                line, answer = await exchange.lines.get()
            yield f"event: message\ndata: {line}\n\n"
            await self._delivered(exchange, answer)
        finally:
            task.cancel()

    async def _whole(
        self, exchange: _Exchange, body: bytes, answer: Answer
    ) -> AsyncIterator[bytes]:
        yield body
        await self._delivered(exchange, answer)

    async def _delivered(self, exchange: _Exchange, answer: Answer) -> None:
        # Before the response ends: afterwards every client counts as disconnected.
        if not await exchange.request.is_disconnected():
            await self._calls.delivered(answer)

    async def _send(self, exchange: _Exchange, more: Mapping[str, str]) -> Answer:
        """Make a call at the server.

        Raises:
            NotSent: The server has not taken it.
            CallLost: The server may have it, and does not answer.
        """
        body = exchange.call.request(exchange.call.id, more)
        headers = self._to_server(exchange.request)
        try:
            async with self._http.stream(
                "POST", self._url, content=body.encode(), headers=headers, timeout=TIMEOUT
            ) as response:
                return await self._read(exchange, response, headers)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NotSent(f"the server cannot be reached ({error})") from error
        except httpx.HTTPError as error:
            raise CallLost(f"the connection to the server broke ({error})") from error

    async def _read(
        self, exchange: _Exchange, response: httpx.Response, headers: Mapping[bytes, bytes]
    ) -> Answer:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code >= 500:
            raise CallLost(f"the server answered {response.status_code}")
        if response.status_code >= 400:
            body = await response.aread()
            exchange.refused = (response.status_code, kind or _JSON, body)
            raise NotSent(f"the server answered {response.status_code}")
        if kind == _JSON:
            with suppress(BadMessage):
                return messages.read(await response.aread()).answer()
            raise CallLost("the server answered what is no message")
        events = ServerEvents()
        found = await self._relay(exchange, response, events) if kind == _EVENTS else None
        return found or await self._resumed(exchange, events, headers)

    async def _resumed(
        self, exchange: _Exchange, events: ServerEvents, headers: Mapping[bytes, bytes]
    ) -> Answer:
        """Resume a stream that the server has closed, and return the answer.

        Raises:
            CallLost: The answer does not come.
        """
        again = {name: one for name, one in headers.items() if name != b"content-type"}
        again[b"accept"] = _EVENTS.encode()
        for _ in range(_RESUMES):
            if not events.last:
                break
            await asyncio.sleep(events.pause)
            again[b"last-event-id"] = events.last
            try:
                async with self._http.stream(
                    "GET", self._url, headers=again, timeout=TIMEOUT
                ) as resumed:
                    if resumed.status_code != 200:
                        break
                    if found := await self._relay(exchange, resumed, events):
                        return found
            except httpx.HTTPError as error:
                # The server has the call, even if it cannot be reached any more.
                raise CallLost(f"the stream of the server did not resume ({error})") from error
        raise CallLost("the server has not answered")

    async def _relay(
        self, exchange: _Exchange, response: httpx.Response, events: ServerEvents
    ) -> Answer | None:
        """Pass on the messages of a server during a call; return the answer, None if none came."""
        async for data in events.read(response.aiter_bytes()):
            with suppress(BadMessage):
                message = messages.read(data)
                if message.is_response and message.id == exchange.call.id:
                    return message.answer()
                await exchange.lines.put((message.text, None))
        return None

    # Everything else.

    async def _pass_on(self, request: Request, message: JsonRpcMessage | None) -> Response:
        """Pass a request on as it is, and its response."""
        body = message.text.encode() if message is not None else b""
        sent = self._http.build_request(
            request.method,
            self._url,
            content=body,
            headers=self._to_server(request),
            timeout=TIMEOUT,
        )
        try:
            response = await self._http.send(sent, stream=True)
        except httpx.HTTPError as error:
            log.warning("mcp.unreachable", error=str(error))
            return Response("The server cannot be reached.", 502, media_type="text/plain")

        async def content() -> AsyncIterator[bytes]:
            try:
                async for part in response.aiter_bytes():
                    yield part
            except httpx.HTTPError as error:
                log.info("mcp.stream_ended", error=str(error))
            finally:
                await response.aclose()

        headers = {
            name: value for name, value in response.headers.items() if name.lower() not in _OWN
        }
        return StreamingResponse(content(), response.status_code, headers)

    def _to_server(self, request: Request) -> dict[bytes, bytes]:
        """Return the headers for the server: those of the protocol, and the gate's credentials."""
        passed = {
            name: value
            for name, value in request.headers.raw
            if name in _PASSED or name.startswith(b"mcp-")
        }
        if request.method == "POST":
            # Not the client's: with another charset, the server would read another message.
            passed[b"content-type"] = _JSON.encode()
        return {**passed, b"accept-encoding": b"identity", **self._headers}


def _require_same(request: Request, message: JsonRpcMessage, call: Call | None) -> None:
    """Refuse headers that differ from the message: a server may go by either.

    Raises:
        BadMessage: A header differs.
    """
    methods, names = map(request.headers.getlist, ("mcp-method", "mcp-name"))
    if any(one != message.value.get("method") for one in methods):
        raise BadMessage("Mcp-Method is not the method of the message.", id_=message.id)
    if call is not None and any(_decoded(one) != call.tool for one in names):
        raise BadMessage("Mcp-Name is not the tool of the message.", id_=message.id)
    copies = [name for name in request.headers if name.startswith(_COPIED)]
    values = list(_values(call.arguments)) if call is not None else []
    for name in copies:
        copy = _decoded(request.headers[name])
        if copies.count(name) > 1 or not any(_is_copy(copy, one) for one in values):
            raise BadMessage(f"{name} is not an argument of the message.", id_=message.id)


def _values(arguments: JsonValue) -> Iterator[str | float]:
    """Yield the values that headers can have: those of objects, not those of lists."""
    if isinstance(arguments, dict):
        for one in arguments.values():
            yield from _values(one)
    elif isinstance(arguments, str | int | float):
        yield arguments


def _is_copy(text: str, value: str | float) -> bool:
    """Return whether a header has a value; only the declaration of the tool says which one."""
    if isinstance(value, str | bool):
        return text == (value if isinstance(value, str) else json.dumps(value))
    try:
        return Decimal(text) == Decimal(str(value))
    except InvalidOperation:
        return False


def _decoded(name: str) -> str:
    """Return the name in a header, which is plain text, or base64 if it is not ASCII."""
    if (encoded := _ENCODED.fullmatch(name)) is not None:
        with suppress(binascii.Error, UnicodeDecodeError):
            return base64.b64decode(encoded[1], validate=True).decode()
    return name


def server_client() -> httpx.AsyncClient:
    """Return the HTTP client for a server; it has no limit of connections, for open streams."""
    return httpx.AsyncClient(limits=httpx.Limits())


def make_app(gate: Gate) -> Starlette:
    """Return the application that serves a gate at `PATH`."""
    return Starlette(
        routes=[Route(PATH, gate.serve, methods=["GET", "POST", "DELETE"])],
        middleware=[Middleware(Patience)],
    )
