"""Routes of FastAPI in an application that is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send


class ThroughFastApi(BaseRoute):
    """One route that stands for those of a router of FastAPI.

    Args:
        router: The router.
        handlers: What answers when one of them raises, by the class of the exception.
    """

    def __init__(self, router: APIRouter, handlers: Mapping[Any, Any]) -> None:
        self._app = FastAPI(
            docs_url=None, redoc_url=None, openapi_url=None, exception_handlers={**handlers}
        )
        self._app.include_router(router)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Say whether one of them is meant."""
        found = [route.matches(scope)[0] for route in self._app.routes]
        return max(found, key=lambda one: one.value, default=Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        await self._app(scope, receive, send)
