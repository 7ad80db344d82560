"""A session service for ADK on the ledger's Redis: the default.

A worker reads a session once in a turn. After that it knows the session's content: it holds the
session's lease, and the store accepts each of its events only if nobody else has written meanwhile.
"""

import asyncio
import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Final
from weakref import WeakValueDictionary

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.platform import time as platform_time
from google.adk.sessions import _session_util
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from google.genai import types
from pydantic import PrivateAttr
from pydantic_core import PydanticSerializationError

from signoff.broker.ledger.store import Store
from signoff.broker.sessions import (
    AppendRefusal,
    Name,
    NewEvent,
    SeenAt,
    SessionRecords,
    SessionVersion,
    States,
    StoredSession,
    Texts,
)
from signoff.worker.adk.sessions.texts import LONE_SURROGATES, replaced

_NOTHING: Final = States()


@dataclass(slots=True)
class _Kept:
    """The known content of the session whose lease is held.

    Attributes:
        session: The session as it was last read or written, without its events; None if unknown.
        texts: All its events as JSON.
        events: The parsed events for our own use, up to the last one that was needed. ADK gets its
            own copies, because a tool or a callback may change them.
        fresh: Whether it was just read, so that the next reading can use it.
    """

    session: StoredSession | None = None
    texts: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    fresh: bool = False

    def knows(self, name: Name) -> StoredSession | None:
        """Return a session without its events; None if it is not the known one."""
        return self.session if self.session is not None and self.session.name == name else None

    def note_read(self, found: StoredSession | None) -> None:
        """Record the result of a reading."""
        known = self.session
        follows = (
            found is not None
            and known is not None
            and (known.name, known.made, len(self.texts)) == (found.name, found.made, found.first)
        )
        if not follows:
            self.texts, self.events = [], []
        if found is not None:
            self.texts += found.events
        self.session, self.fresh = found, True

    def note_event(self, after: StoredSession, delta: States) -> None:
        """Record an event that the store has acknowledged.

        Args:
            after: The session after the event, with only this event.
            delta: The changes of the event to the states.
        """
        known = self.knows(after.name)
        if known is None or (known.made, len(self.texts)) != (after.made, after.first):
            self.session, self.texts, self.events = None, [], []
            return
        self.texts += after.events
        self.session = replace(after, states=known.states.updated(delta))


_held: ContextVar[_Kept | None] = ContextVar("signoff_held", default=None)


@contextmanager
def lease_held() -> Iterator[None]:
    """Declare that the caller holds the lease of its session inside the `with` block."""
    token = _held.set(_Kept())
    try:
        yield
    finally:
        _held.reset(token)


async def opened(
    service: BaseSessionService, app_name: str, user_id: str, session_id: str
) -> Session:
    """Return a session for reading, created if it does not exist; its events must not be changed.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
        Exception: Any error of a store that is not the ledger.
    """
    if isinstance(service, LedgerSessionService):
        await service.open(app_name, user_id, session_id)
    found = await latest(service, app_name, user_id, session_id)
    return found or await service.create_session(
        app_name=app_name, user_id=user_id, session_id=session_id
    )


async def latest(
    service: BaseSessionService, app_name: str, user_id: str, session_id: str
) -> Session | None:
    """Return a session for reading; its events must not be changed.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
        Exception: Any error of a store that is not the ledger.
    """
    if isinstance(service, LedgerSessionService):
        return await service.latest(app_name, user_id, session_id)
    return await service.get_session(app_name=app_name, user_id=user_id, session_id=session_id)


class LedgerSessionService(BaseSessionService):
    """Stores sessions with the approvals, until the last of their runs is archived.

    Appending an event takes one round trip, and so does reading a session. If somebody else has
    written to a session since it was read, appending raises `StaleSessionError` and stores nothing.

    Args:
        store: The store of the ledger.
    """

    def __init__(self, store: Store) -> None:
        self._records = SessionRecords(store)
        self._locks: WeakValueDictionary[Name, asyncio.Lock] = WeakValueDictionary()

    async def open(self, app_name: str, user_id: str, session_id: str) -> None:
        """Read a session whose lease is held; create it if it does not exist.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        if (kept := _held.get()) is not None:
            name = Name(app_name, user_id, session_id)
            kept.note_read(await self._records.read_or_make(name, at=platform_time.get_time()))

    async def latest(self, app_name: str, user_id: str, session_id: str) -> Session | None:
        """Return a session for reading; while its lease is held, Redis is not asked again.

        Its content is known from the events that the store has acknowledged. The events must not be
        changed.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        name, kept = Name(app_name, user_id, session_id), _held.get()
        if kept is None:
            return await self.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
        known = kept.knows(name)
        if known is None:
            kept.note_read(await self._records.read(name))
            known = kept.knows(name)
        if known is None:
            return None
        more = kept.texts[len(kept.events) :]
        kept.events += [_ReadEvent.model_validate_json(text) for text in more]
        return _session(known, kept.events)

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session; see BaseSessionService.

        Raises:
            AlreadyExistsError: There is a session with this id.
            LedgerUnavailable: Redis cannot be reached.
        """
        name = Name(app_name, user_id, session_id or str(uuid.uuid4()))
        at = platform_time.get_time()
        made = await self._records.make(name, _states(state or {}), at=at)
        if made is None:
            raise AlreadyExistsError(f"Session with id {name.id} already exists.")
        if (kept := _held.get()) is not None:
            kept.note_read(made)
        return _session(made, [])

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a copy of a session that the caller may change; see BaseSessionService.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        name, kept = Name(app_name, user_id, session_id), _held.get()
        if kept is None:
            found = await self._records.read(name, most=_most(config))
            return None if found is None else _session(found, _selected(found.events, config))
        known = kept.knows(name)
        if known is None or not kept.fresh:
            seen = (
                SessionVersion(known.made, len(kept.texts))
                if known is not None
                else SessionVersion()
            )
            kept.note_read(await self._records.read(name, seen))
            known = kept.knows(name)
        # Only once: a caller that reads again wants to see changes.
        kept.fresh = False
        return None if known is None else _session(known, _selected(kept.texts, config))

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return sessions without their events, the oldest first; see BaseSessionService.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        found = await self._records.listed(app_name, user_id)
        return ListSessionsResponse(sessions=[_session(one, []) for one in found])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session; see BaseSessionService.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        await self._records.drop(Name(app_name, user_id, session_id))
        if (kept := _held.get()) is not None:
            kept.note_read(None)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state that all sessions of a user share; see BaseSessionService.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        return _loaded(await self._records.user_state(app_name, user_id))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event, and add it to the given session; see BaseSessionService.

        Raises:
            SessionNotFoundError: The session was deleted.
            StaleSessionError: Somebody else has written to it since it was read.
            LedgerUnavailable: Redis cannot be reached; the event may have been stored.
        """
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        text = _text(event)
        delta = _states(event.actions.state_delta) if event.actions.state_delta else _NOTHING
        name = Name(session.app_name, session.user_id, session.id)
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            mark = session._storage_update_marker  # noqa: SLF001 -- ADK stores its version there
            last = session.events[-1].id if session.events else ""
            seen = _seen(mark) if mark else SeenAt(last, session.last_update_time)
            after = await self._records.append(
                name, seen, NewEvent(event.id, text, event.timestamp, delta)
            )
            if after is AppendRefusal.GONE:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            if after is AppendRefusal.STALE:
                raise StaleSessionError(
                    f"Session {session.id} was changed by somebody else since it was read. Read it "
                    "again."
                )
            if (kept := _held.get()) is not None:
                kept.note_event(after, delta)
            session._storage_update_marker = _mark(after.seen)  # noqa: SLF001 -- as above
            session.last_update_time = event.timestamp
            return self._commit_event_to_session(session, event)


def _text(event: Event) -> str:
    try:
        return event.model_dump_json(exclude_none=True)
    except PydanticSerializationError:
        replaced(event, LONE_SURROGATES)
        return event.model_dump_json(exclude_none=True)


def _event(text: str) -> Event:
    return Event.model_validate_json(text)


class _ReadEvent(Event):
    """An event that does not change: its calls and responses are collected once."""

    _calls: list[types.FunctionCall] | None = PrivateAttr(default=None)
    _responses: list[types.FunctionResponse] | None = PrivateAttr(default=None)

    def get_function_calls(self) -> list[types.FunctionCall]:
        if self._calls is None:
            self._calls = super().get_function_calls()
        return self._calls

    def get_function_responses(self) -> list[types.FunctionResponse]:
        if self._responses is None:
            self._responses = super().get_function_responses()
        return self._responses


def _states(delta: Mapping[str, Any]) -> States:
    clean = replaced(dict(delta), LONE_SURROGATES)
    by_scope = _session_util.extract_json_safe_state_delta(clean)  # type: ignore[arg-type]
    return States(*(_dumped(by_scope[scope]) for scope in ("session", "app", "user")))


def _dumped(state: Mapping[str, Any]) -> dict[str, str]:
    return {name: json.dumps(value) for name, value in state.items()}


def _loaded(texts: Texts) -> dict[str, Any]:
    return {name: json.loads(text) for name, text in texts.items()}


def _session(found: StoredSession, events: list[Event]) -> Session:
    states = found.states
    session = Session(
        id=found.name.id,
        app_name=found.name.app,
        user_id=found.name.user,
        state={
            **_loaded(states.session),
            **{State.APP_PREFIX + name: one for name, one in _loaded(states.app).items()},
            **{State.USER_PREFIX + name: one for name, one in _loaded(states.user).items()},
        },
        events=events,
        last_update_time=found.at,
    )
    session._storage_update_marker = _mark(found.seen)  # noqa: SLF001 -- as above
    return session


def _mark(seen: SessionVersion) -> str:
    return f"{seen.made} {seen.count} {seen.last}"


def _seen(mark: str) -> SessionVersion:
    made, count, last = mark.split(" ", 2)
    return SessionVersion(made, int(count), last)


def _most(config: GetSessionConfig | None) -> int | None:
    """Return how many events to read from Redis; None for all, as needed to select by time."""
    return None if config is None or config.after_timestamp else config.num_recent_events


def _selected(texts: tuple[str, ...] | list[str], config: GetSessionConfig | None) -> list[Event]:
    most = None if config is None else config.num_recent_events
    if config is None or not config.after_timestamp:
        chosen = texts if most is None else texts[max(len(texts) - most, 0) :]
        return [_event(text) for text in chosen]
    found = [one for one in map(_event, texts) if one.timestamp >= config.after_timestamp]
    return found if most is None else found[max(len(found) - most, 0) :]
