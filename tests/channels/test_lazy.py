"""An application is built once, at its first request."""

from __future__ import annotations

import asyncio

import httpx
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from signoff.channels.web.lazy import LazyApp


async def test_concurrent_callers_share_one_application() -> None:
    """Concurrent callers wait for the same application."""
    made: list[ASGIApp] = []

    def make() -> ASGIApp:
        made.append(PlainTextResponse("here"))
        return made[-1]

    app = LazyApp(make)
    assert made == []
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://signoff.example") as http:
        answers = await asyncio.gather(*(http.get("/") for _ in range(5)))
    assert [one.text for one in answers] == ["here"] * 5
    assert len(made) == 1
