"""What the routes of the gateway have in common: problem documents, and bodies with limits."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signoff.core.base.problems import MEDIA_TYPE, BaseProblem

PATIENCE: Final = 30.0
"""Seconds in which all of a body has to come."""

_DRAINED: Final = 16


class Problem(BaseProblem):
    """A problem of the gateway's own routes and of the REST API."""

    def response(self) -> JSONResponse:
        """Return the problem document as a response."""
        return JSONResponse(
            self.document(), self.status, headers=self.headers, media_type=MEDIA_TYPE
        )


class Patience:
    """Reads no body for longer than a while, whichever route it is for.

    What waits behind it sees a client that is too slow as one that went away: what it answers is
    replaced by 408. Nobody has to mind clients that go away while they send, either.

    Args:
        app: What is behind it.
        seconds: How long all of a body may take.
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
    """Return the body of a request, and hold no more than `most` bytes of it on the way.

    How long it may take is `Patience`'s to say.

    Raises:
        Problem: It is larger.
        ClientDisconnect: The client went away, or was too slow.
    """
    drained = _DRAINED * most
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > drained:
        raise too_large(most)
    body, length = bytearray(), 0
    async for chunk in request.stream():
        length += len(chunk)
        if length > drained:
            break
        # A client reads the answer only when it has sent all: the rest is forgotten.
        if length <= most:
            body += chunk
    if length > most:
        raise too_large(most)
    return bytes(body)


def too_slow(seconds: float) -> Problem:
    """Return the problem of a body that did not come in this many seconds."""
    words = f"All of it has to come within {seconds:.0f} seconds. Nothing was done."
    headers = {"Connection": "close"}
    return Problem(408, "too-slow", "The body did not come in time", words, headers=headers)


def too_large(most: int) -> Problem:
    """Return the problem of a body of more than `most` bytes."""
    words = f"It may have {most:,} bytes. Nothing in it was looked at."
    return Problem(413, "too-large", "The body is too large", words)


def nothing_here(request: Request, error: HTTPException) -> Problem:
    """Return the problem of a path, or a method, that is not served."""
    kind = {404: "not-found", 405: "method"}.get(error.status_code, "request")
    detail = f"{request.method} {request.url.path}: {error.detail}."
    title = "There is nothing of the kind here"
    return Problem(error.status_code, kind, title, detail, headers=error.headers)
