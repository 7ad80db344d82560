"""ADK's session service over SQLAlchemy, for texts that PostgreSQL cannot keep."""

from __future__ import annotations

import re
from typing import Final

from google.adk.events.event import Event
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.session import Session
from pydantic import BaseModel

POSTGRES: Final = "postgresql"
_UNKEPT: Final = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


class TextSessionService(DatabaseSessionService):
    """Keeps U+FFFD for each U+0000 and each lone surrogate in an event.

    PostgreSQL has neither in its text and jsonb types (PostgreSQL manual, 8.14), and refuses the
    whole event. The event itself is changed before it is stored, so that what is approved, what
    the tool gets and what the session shows are the same.
    """

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event, without what PostgreSQL cannot keep."""
        _kept(event)
        return await super().append_event(session, event)


def _kept(value: object) -> object:
    """Return a value without these characters; models are changed in place, all else is copied."""
    match value:
        case str():
            return _UNKEPT.sub(_REPLACEMENT, value)
        case dict():
            clean = {_kept(key): _kept(one) for key, one in value.items()}
            return value if clean == value else clean
        case list():
            items = [_kept(one) for one in value]
            return value if items == value else items
        case BaseModel():
            for name in type(value).model_fields:
                old = getattr(value, name)
                if (new := _kept(old)) is not old:
                    setattr(value, name, new)
    return value
