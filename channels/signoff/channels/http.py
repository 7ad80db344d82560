"""What the routes of the gateway have in common: problem documents, and bodies with a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import JsonValue
from starlette.exceptions import HTTPException

PROBLEM: Final = "application/problem+json"
"""The media type of a problem document."""

_PATIENCE: Final = 30.0
_DRAINED: Final = 16
_UNAVAILABLE: Final = 503


class Problem(Exception):
    """A request is not carried out; nothing was stored.

    Args:
        status: The status of the answer.
        kind: What it is, the same each time; part of a URN.
        title: The kind in words.
        detail: What was wrong with this request, and what to do.
        headers: Headers of the answer.
        more: Further members of the document (RFC 9457, section 3.2).
    """

    def __init__(
        self,
        status: int,
        kind: str,
        title: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: JsonValue,
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.title = status, kind, title
        self.headers, self.more = dict(headers or {}), more

    def response(self) -> JSONResponse:
        """Return the answer: a problem document (RFC 9457)."""
        content = {
            "type": f"urn:signoff:problem:{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": str(self),
            **self.more,
        }
        headers = {"Retry-After": "5"} if self.status == _UNAVAILABLE else {}
        return JSONResponse(
            content, self.status, headers=headers | self.headers, media_type=PROBLEM
        )


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request, and hold no more than `most` bytes of it on the way.

    Raises:
        Problem: It is larger, or too slow.
        ClientDisconnect: The client went away.
    """
    drained = _DRAINED * most
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > drained:
        raise too_large(most)
    body, length = bytearray(), 0
    try:
        async with asyncio.timeout(_PATIENCE):
            async for chunk in request.stream():
                length += len(chunk)
                if length > drained:
                    break
                # A client reads the answer only when it has sent all: the rest is forgotten.
                if length <= most:
                    body += chunk
    except TimeoutError as error:
        raise Problem(
            408,
            "too-slow",
            "The body did not come in time",
            f"All of it has to come within {_PATIENCE:.0f} seconds.",
        ) from error
    if length > most:
        raise too_large(most)
    return bytes(body)


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
