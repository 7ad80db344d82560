"""The gateway: the HTTP server, which also keeps the mail server for answers running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol, cast

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.timers.lag import Lag, lag
from signoff.channels.web.closing import Closing
from signoff.channels.web.problems import PATIENCE, Patience, Problem, nothing_here
from signoff.core.base.errors import LedgerUnavailable

_PROBE: Final = "probe:gateway"
_PROBE_MS: Final = 60_000
_ANSWERS: Final = 4
"""Seconds that Redis has for a readiness probe; those of the examples give up after five."""
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


Missing = dict[str, Callable[[], Response]]
"""The pages for unknown addresses, by the path above them."""


class Listener(Protocol):
    """Receives answers while the gateway runs."""

    @property
    def name(self) -> str:
        """The name in ``/readyz``: the table of its settings."""

    @property
    def problem(self) -> str:
        """Why it cannot receive answers, "" if it can."""

    @property
    def remote(self) -> bool:
        """Whether it depends on another server. Its problems do not make the gateway unready."""

    async def start(self) -> object:
        """Start receiving."""

    async def stop(self) -> None:
        """Stop receiving."""


class Gateway(Starlette):
    """The HTTP application of the gateway, to which routes are added."""

    def show_missing(self, root: str, page: Callable[[], Response]) -> None:
        """Answer unknown addresses below a path with a page instead of a problem document."""
        self.state.missing[root] = page

    def include_router(self, router: Router) -> None:
        """Add routes. The gateway is a plain Starlette application: FastAPI takes more memory."""
        if type(router) is Router:
            self.router.routes.extend(router.routes)
            return
        from signoff.channels.web.through_fastapi import ThroughFastApi  # noqa: PLC0415 -- few do

        self.router.routes.append(ThroughFastApi(cast("Any", router), self.exception_handlers))


def make_gateway(
    ledger: Ledger,
    listeners: Sequence[Listener] = (),
    *,
    close: Callable[[], Awaitable[None]] | None = None,
    patience: float = PATIENCE,
) -> Gateway:
    """Return the HTTP application.

    ``GET /healthz`` says that the process is alive; ``GET /readyz`` that it can do its work: the
    ledger takes writes and its own ports are open. If a mailbox or Slack cannot be reached, or the
    timers are late (``lag_seconds``), it answers ``degraded`` with status 200. There are no other
    routes.

    Args:
        ledger: The ledger; the caller closes it.
        listeners: Started before the first request and stopped after the last.
        close: Called after the listeners have stopped.
        patience: The most seconds that a body may take.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        del app
        async with AsyncExitStack() as stack:
            if close is not None:
                stack.push_async_callback(close)
            for listener in listeners:
                await listener.start()
                stack.push_async_callback(listener.stop)
            yield

    # Bound to the pages, because the routes of FastAPI have an application of their own.
    missing: Missing = {}
    show = partial(_show_problem, missing)
    app = Gateway(lifespan=lifespan, exception_handlers={Problem: _refuse, HTTPException: show})
    app.state.closing = Closing()
    app.state.missing = missing
    app.add_middleware(Patience, seconds=patience)
    app.add_middleware(SecurityHeaders)

    async def readyz(request: Request) -> JSONResponse:
        del request
        return await _readiness(ledger, listeners)

    app.add_route("/healthz", _healthz)
    app.add_route("/readyz", readyz)
    return app


async def _refuse(request: Request, problem: Exception) -> Response:
    del request
    return cast("Problem", problem).response()


async def _show_problem(pages: Missing, request: Request, error: Exception) -> Response:
    """Answer with the page for unknown addresses of this path, or with a problem document."""
    problem = nothing_here(request, cast("HTTPException", error))
    for root, page in pages.items():
        if problem.status == HTTPStatus.NOT_FOUND and request.url.path.startswith(f"{root}/"):
            return page()
    return problem.response()


async def _healthz(request: Request) -> JSONResponse:
    del request
    return JSONResponse({"status": "ok"})


async def _readiness(ledger: Ledger, listeners: Sequence[Listener]) -> JSONResponse:
    redis_problem, late = await _state_of(ledger)
    problems = {"redis": redis_problem}
    problems |= {one.name: one.problem for one in listeners if not one.remote}
    ready = not any(problems.values())
    # Another gateway would have the same problem, and pages and clicks still work.
    problems |= {one.name: one.problem for one in listeners if one.remote}
    problems |= {"timers": late.problem}
    well = "degraded" if any(problems.values()) else "ok"
    content = {
        "status": well if ready else "unavailable",
        "checks": {name: problem or "ok" for name, problem in problems.items()},
        "lag_seconds": round(late.late.total_seconds(), 3),
    }
    return JSONResponse(content, status_code=200 if ready else 503)


class SecurityHeaders:
    """Adds the headers of a strict security policy to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and add the headers to the response."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


async def _state_of(ledger: Ledger) -> tuple[str, Lag]:
    """Return the problem of Redis, "" if it takes writes, and how late the timers are."""
    try:
        async with asyncio.timeout(_ANSWERS):
            problem = await _redis_problem(ledger)
            return problem, Lag() if problem else await _lag(ledger)
    except TimeoutError:
        return f"Redis has not answered for {_ANSWERS} seconds. `signoff doctor` checks it.", Lag()


async def _redis_problem(ledger: Ledger) -> str:
    """Write to Redis, and return the problem; a full or read-only Redis still answers PING."""
    store = ledger.store
    try:
        async with store.translated_client() as client:
            await client.set(f"{store.prefix}{_PROBE}", "1", px=_PROBE_MS)
    except LedgerUnavailable as error:
        return str(error)
    return ""


async def _lag(ledger: Ledger) -> Lag:
    try:
        return await lag(ledger)
    except LedgerUnavailable:
        return Lag()
