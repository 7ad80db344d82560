"""ADK's session service on SQLAlchemy, for texts that PostgreSQL cannot store."""

from __future__ import annotations

import re
from typing import Final

from google.adk.events.event import Event
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.session import Session
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.event import listen

from signoff.worker.adk.sessions.texts import replaced

_UNKEPT: Final = re.compile("[\x00\ud800-\udfff]")
_READ_ONLY: Final = "25006"
_CONNECTIONS: Final = 15
"""SQLAlchemy's default maximum; by default it would close ten of them after each use."""


def _leave_replica(context: ExceptionContext) -> None:
    """Close all connections to a server that takes no writes, as to the wrong one of a failover."""
    if getattr(context.original_exception, "sqlstate", None) == _READ_ONLY:
        context.is_disconnect = True


class TextSessionService(DatabaseSessionService):
    """Replaces each U+0000 and each lone surrogate by U+FFFD, and keeps its connections open.

    PostgreSQL's text and jsonb types cannot store these characters (PostgreSQL manual, 8.14), and
    PostgreSQL refuses the whole event. The event itself is changed before it is stored.

    Args:
        url: ``postgresql+asyncpg://…``.
    """

    def __init__(self, url: str) -> None:
        # Errors would contain the values that a policy hides, and go into the log and the audit.
        super().__init__(url, pool_size=_CONNECTIONS, max_overflow=0, hide_parameters=True)
        listen(self.db_engine.sync_engine, "handle_error", _leave_replica)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event, without characters that PostgreSQL cannot store."""
        replaced(event, _UNKEPT)
        return await super().append_event(session, event)
