"""Serves the routes of FastAPI in a Starlette application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send


class ThroughFastApi(BaseRoute):
    """One route that passes requests to the routes of a FastAPI router."""

    def __init__(self, router: APIRouter, handlers: Mapping[Any, Any]) -> None:
        self._app = FastAPI(
            docs_url=None, redoc_url=None, openapi_url=None, exception_handlers={**handlers}
        )
        self._app.include_router(router)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether one of the router's routes matches."""
        found = [route.matches(scope)[0] for route in self._app.routes]
        return max(found, key=lambda one: one.value, default=Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        await self._app(scope, receive, send)
