"""ADK's session service over SQLAlchemy, for texts that PostgreSQL cannot keep."""

from __future__ import annotations

import re
from typing import Final

from google.adk.events.event import Event
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.session import Session

from signoff.worker.adk.sessions.texts import replaced

POSTGRES: Final = "postgresql"
_UNKEPT: Final = re.compile("[\x00\ud800-\udfff]")
_CONNECTIONS: Final = 15
"""As many as SQLAlchemy opens by default at the most; it would close ten of them after each use."""


class TextSessionService(DatabaseSessionService):
    """Keeps U+FFFD for each U+0000 and each lone surrogate in an event, and connections open.

    PostgreSQL has neither in its text and jsonb types (PostgreSQL manual, 8.14), and refuses the
    whole event. The event itself is changed before it is stored.

    Args:
        url: ``postgresql+asyncpg://…``.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url, pool_size=_CONNECTIONS, max_overflow=0)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event, without what PostgreSQL cannot keep."""
        replaced(event, _UNKEPT)
        return await super().append_event(session, event)
