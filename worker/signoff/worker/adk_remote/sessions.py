"""A session service of ADK for the sessions of agents behind API servers."""

from __future__ import annotations

import secrets
from typing import Any

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session
from typing_extensions import override

from signoff.worker.adk_remote.server import RemoteServer
from signoff.worker.adk_remote.wire import read_events, read_state


class RemoteSessionService(BaseSessionService):
    """Reads and changes sessions through their server; every method raises `RemoteError`.

    Events have only the fields that servers in every language send; see `wire.read_events`.

    Args:
        server: The server of the app.
    """

    def __init__(self, server: RemoteServer) -> None:
        self._server = server

    @override
    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session; the id is generated here, because not every server generates one.

        Raises:
            AlreadyExistsError: The server has a session with this id.
        """
        made = session_id or f"s_{secrets.token_hex(8)}"
        if session_id and await self._server.session(user_id, session_id) is not None:
            raise AlreadyExistsError(f"Session {session_id} is there.")
        await self._server.create_session(user_id, made, state)
        return Session(id=made, app_name=app_name, user_id=user_id, state=state or {})

    @override
    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session with all of its events; `config` is ignored."""
        found = await self._server.session(user_id, session_id)
        return None if found is None else _session(found, app_name, user_id)

    @override
    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return the sessions of a user."""
        found = await self._server.sessions(user_id or "")
        return ListSessionsResponse(sessions=[_session(one, app_name, user_id) for one in found])

    @override
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session."""
        await self._server.delete_session(user_id, session_id)

    @override
    async def append_event(self, session: Session, event: Event) -> Event:
        """Set the state that an event changes; only the server itself writes events."""
        await self._server.change_session(session.user_id, session.id, event.actions.state_delta)
        session.state.update(event.actions.state_delta)
        return event


def _session(found: dict[str, Any], app: str, user: str | None) -> Session:
    return Session(
        id=str(found.get("id") or ""),
        app_name=app,
        user_id=user or "",
        state=read_state(found),
        events=read_events(found),
    )
