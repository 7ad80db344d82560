"""The problem documents of the gateway's routes, and the limits of request bodies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signoff.core.base.problems import MEDIA_TYPE, BaseProblem

PATIENCE: Final = 30.0
"""Seconds within which a whole body must arrive."""

_DRAINED: Final = 16


class Problem(BaseProblem):
    """A problem of the gateway's own routes and of the REST API."""

    def response(self) -> JSONResponse:
        """Return the problem document as a response."""
        return JSONResponse(
            self.document(), self.status, headers=self.headers, media_type=MEDIA_TYPE
        )


class Patience:
    """Limits the seconds to read a whole request body, for all routes of an application.

    The application behind it sees a client that is too slow as disconnected; a 408 replaces its
    response. The application therefore does not have to handle clients that disconnect early,
    either.
    """

    def __init__(self, app: ASGIApp, seconds: float = PATIENCE) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        end: float | None = None
        late = whole = started = False

        async def receive_in_time() -> Message:
            nonlocal end, late, whole
            if late:
                return {"type": "http.disconnect"}
            if whole:
                return await receive()
            end = end or asyncio.get_running_loop().time() + self._seconds
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError:
                late = True
                return {"type": "http.disconnect"}
            whole = not message.get("more_body", False)
            return message

        async def send_unless_late(message: Message) -> None:
            nonlocal started
            if started or not late:
                started = True
                await send(message)

        with suppress(ClientDisconnect):
            await self._app(scope, receive_in_time, send_unless_late)
        if late and not started:
            await too_slow(self._seconds).response()(scope, receive, send)


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request, and never hold more than `most` bytes of it.

    `Patience` limits the time.

    Raises:
        Problem: The body is larger.
        ClientDisconnect: The client disconnected, or was too slow.
    """
    body, length = await read_beginning(request, most)
    if length > most:
        raise too_large(most)
    return body


async def read_beginning(
    request: Request, most: int, each: Callable[[bytes], object] = len
) -> tuple[bytes, int]:
    """Return the first bytes of the body of a request, at most `most`, and its whole length.

    `each` is called with each part of the whole body.

    Raises:
        Problem: The body is so large that it is not even read and dropped.
        ClientDisconnect: The client disconnected, or was too slow.
    """
    drained = _DRAINED * most
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > drained:
        raise too_large(most)
    body, length = bytearray(), 0
    async for chunk in request.stream():
        length += len(chunk)
        if length > drained:
            raise too_large(most)
        # A client reads the response only after it has sent everything: the rest is read and
        # dropped.
        body += chunk[: most - len(body)]
        each(chunk)
    return bytes(body), length


def too_slow(seconds: float) -> Problem:
    """Return the problem for a body that did not arrive within this many seconds."""
    words = f"The whole body must arrive within {seconds:.0f} seconds. Nothing was done."
    headers = {"Connection": "close"}
    return Problem(408, "too-slow", "The body did not arrive in time", words, headers=headers)


def too_large(most: int) -> Problem:
    """Return the problem for a body of more than `most` bytes."""
    words = f"A body may have at most {most:,} bytes. Nothing was done."
    return Problem(413, "too-large", "The body is too large", words)


def nothing_here(request: Request, error: HTTPException) -> Problem:
    """Return the problem for a path or a method that the gateway does not serve."""
    kind = {404: "not-found", 405: "method"}.get(error.status_code, "request")
    detail = f"{request.method} {request.url.path}: {error.detail}."
    title = "The path or method is not served"
    return Problem(error.status_code, kind, title, detail, headers=error.headers)
