"""Builds the ADK API for the gateway that serves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import httpx

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.channels.gateway import Gateway
from signoff.cli.composition.parts import Parts
from signoff.core.base.hiding import Hidden

if TYPE_CHECKING:
    from google.adk.sessions.base_session_service import BaseSessionService

    from signoff.worker.adk_remote.settings import RemoteApp

_SPARE = 16


def serve_adk(
    app: Gateway, parts: Parts, stack: AsyncExitStack, *, hides: Callable[[], Hidden]
) -> None:
    """Add the routes of an ADK API server to the gateway.

    Args:
        app: The gateway.
        parts: The parts of the process.
        stack: Closes everything that is opened here.
        hides: Returns the arguments that any current policy hides.

    Raises:
        ConfigError: There is no folder of agents, or ADK does not take the URL of the sessions.
    """
    # Imported here, so that other gateways do not load the agent framework.
    from signoff.cli.composition.sessions import open_sessions  # noqa: PLC0415
    from signoff.worker.adk.apps import artifact_service  # noqa: PLC0415
    from signoff.worker.adk_api.callers import TokenAuthenticator  # noqa: PLC0415
    from signoff.worker.adk_api.pauses import Pauses  # noqa: PLC0415
    from signoff.worker.adk_api.router import make_adk_router  # noqa: PLC0415
    from signoff.worker.adk_api.sessions import CallerSessions  # noqa: PLC0415
    from signoff.worker.adk_api.streaming import MAX_CLIENTS  # noqa: PLC0415
    from signoff.worker.agent_folders import app_names  # noqa: PLC0415

    settings, decisions = parts.settings, parts.decisions
    if not settings.agents.remote:
        app_names(settings.agents_folder)
    sessions = open_sessions(parts)
    if (close := getattr(sessions, "close", None)) is not None:
        stack.push_async_callback(close)
    store = Store.open(settings.redis_url, prefix=settings.redis.prefix, size=MAX_CLIENTS + _SPARE)
    stack.push_async_callback(store.close)
    app.include_router(
        make_adk_router(
            decisions,
            watching=Ledger(store),
            authenticator=TokenAuthenticator(
                settings.gateway.tokens,
                decisions,
                local=settings.local_programs,
                local_person=settings.gateway.local_person,
                rate=settings.gateway.rate,
            ),
            sessions=CallerSessions(
                sessions, decisions, _remote_sessions(settings.agents.remote, stack)
            ),
            artifacts=artifact_service(settings.artifacts_url, settings.agents_folder),
            folder=settings.agents_folder,
            pauses=Pauses(decisions, settings.agents.remote, hides),
            web=settings.gateway.adk_web,
        )
    )


def _remote_sessions(
    remote: Mapping[str, RemoteApp], stack: AsyncExitStack
) -> Mapping[str, BaseSessionService]:
    """Return the session services of the agents behind API servers, by app."""
    from signoff.worker.adk_remote.server import RemoteServer  # noqa: PLC0415
    from signoff.worker.adk_remote.sessions import RemoteSessionService  # noqa: PLC0415

    if not remote:
        return {}
    client = httpx.AsyncClient()
    stack.push_async_callback(client.aclose)
    return {
        name: RemoteSessionService(RemoteServer(name, one, client)) for name, one in remote.items()
    }
