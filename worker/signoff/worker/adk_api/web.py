"""Serves ADK's own page, `adk web`, for the agents on the workers; google-adk contains the page.

The page is a developer tool and requests more than an API server has: traces, evaluations, a
builder. Requests for lists of these return an empty list. Requests that need the agents' code in
this process are refused, and the page works without them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse
from google.adk import cli
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from signoff.core.base.errors import ConfigError
from signoff.worker.adk_api.callers import Caller
from signoff.worker.adk_api.problems import Problem, ProblemRoute, not_served

_HOME: Final = "/dev-ui/"

_POLICY: Final = (
    # The hash is that of the one handler in the page itself: this.media='all'.
    "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "script-src 'self' 'unsafe-hashes' 'sha256-MhtPZXr7+LpJUY5qtMutB+qWfQtMaPccfe7QXtCcEYc='; "
    "img-src 'self' data: blob:; font-src 'self' data: https://fonts.gstatic.com; "
    "media-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
)

_LISTS: Final = (
    "eval_sets",
    "eval-sets",
    "eval_results",
    "eval-results",
    "tests",
    "debug/trace/session/{session}",
)


@dataclass(frozen=True, slots=True)
class WebPage:
    """The page, and the endpoints that it requests besides the API."""

    admit: Callable[[Request], Awaitable[Caller]]
    files: StaticFiles

    async def file(self, request: Request, path: str) -> Response:
        """Return a file of the page."""
        await self.admit(request)
        try:
            response = await self.files.get_response(path or "index.html", request.scope)
        except HTTPException as error:
            raise Problem(
                404, "not-found", "There is no such file", f"The page has no {path}."
            ) from error
        response.headers["Content-Security-Policy"] = _POLICY
        return response

    async def home(self, request: Request) -> Response:
        """Redirect to the page."""
        await self.admit(request)
        return RedirectResponse(_HOME)

    async def config(self, request: Request) -> Response:
        """Tell the page that the API is on this server."""
        await self.admit(request)
        return JSONResponse({"backendUrl": ""}, headers={"Cache-Control": "no-store"})

    async def logo(self, request: Request) -> Response:
        """Tell the page to show its own logo."""
        await self.admit(request)
        return JSONResponse({"logo_text": None, "logo_image_url": None})

    async def telemetry(self, request: Request) -> Response:
        """Tell the page not to send telemetry to Google, because nobody has consented to it."""
        await self.admit(request)
        return JSONResponse({"telemetry": False})

    async def nothing(self, request: Request) -> Response:
        """Return an empty list."""
        await self.admit(request)
        return JSONResponse([])

    async def no_file(self, request: Request) -> Response:
        """Return an empty text: the builder finds no YAML file, so it cannot change the agent."""
        await self.admit(request)
        return PlainTextResponse("")

    async def not_served(self, request: Request) -> Response:
        """Refuse requests that need an agent's code, or change it."""
        await self.admit(request)
        raise not_served(
            501,
            f"{request.method} {request.url.path} belongs to `adk web` on a developer's machine: "
            "it needs the agents' code, which only workers load.",
        )


def make_web_router(admit: Callable[[Request], Awaitable[Caller]]) -> APIRouter:
    """Return the routes of the page.

    Raises:
        ConfigError: google-adk does not have the page.
    """
    folder = Path(cli.__path__[0]) / "browser"
    if not (folder / "index.html").is_file():
        raise ConfigError(
            "this google-adk comes without the page of `adk web`; take this out, or install "
            "google-adk from PyPI.",
            key="gateway.adk_web",
        )
    page = WebPage(admit, StaticFiles(directory=folder))
    router = APIRouter(route_class=ProblemRoute)
    routes: tuple[tuple[str, Callable[..., Awaitable[Response]]], ...] = (
        ("/dev-ui", page.home),
        (f"{_HOME}assets/config/runtime-config.json", page.config),
        (f"{_HOME}config", page.logo),
        (f"{_HOME}{{path:path}}", page.file),
        ("/config/telemetry", page.telemetry),
        ("/dev/apps/{app}/builder", page.no_file),
        *((f"/dev/apps/{{app}}/{name}", page.nothing) for name in _LISTS),
    )
    for path, endpoint in routes:
        router.add_api_route(path, endpoint, methods=["GET"], response_model=None)
    router.add_api_route(
        "/dev/{rest:path}",
        page.not_served,
        methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        response_model=None,
    )
    return router
