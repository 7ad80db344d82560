"""Stores the sessions of agents in the ledger's Redis: their events and states, as JSON texts.

The agent framework defines the contents of events. Here, an event is a text with an id and a time.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from signoff.broker.ledger.lease import session_key
from signoff.broker.ledger.pipeline import Command
from signoff.broker.ledger.store import Store

Texts = Mapping[str, str]
"""State: the name of each value, and the value as JSON."""

_VALUE: Final = "="
"""The prefix of the names of values in hashes, which have other fields as well."""

_PAGE: Final = 200


class AppendRefusal(StrEnum):
    """Why an event was not appended to a session.

    Attributes:
        GONE: The session does not exist.
        STALE: The session has changed since the caller read it.
    """

    GONE = "gone"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class SessionVersion:
    """A session as a caller has read it.

    Attributes:
        made: A mark that distinguishes it from a deleted session with the same name.
        count: How many events it had.
        last: The id of the last event; "" if it is not known.
    """

    made: str = ""
    count: int = 0
    last: str = ""


NOT_SEEN: Final = SessionVersion()


@dataclass(frozen=True, slots=True)
class SeenAt:
    """A session as read by a caller who does not know its mark.

    Attributes:
        last: The id of the last event, "" if there was none.
        at: When the session was last written, in seconds since the epoch.
    """

    last: str
    at: float


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a session; the id is unique for each user and app."""

    app: str
    user: str
    id: str

    @property
    def key(self) -> str:
        """The hash at the end of the session's keys."""
        return _hashed(self.app, self.user, self.id)

    @property
    def app_key(self) -> str:
        """The hash of the state that all users of the app share."""
        return _hashed(self.app)

    @property
    def user_key(self) -> str:
        """The hash of the state that all sessions of the user share, and of their index."""
        return _hashed(self.app, self.user)

    @property
    def lease(self) -> str:
        """The lease key of the session; only the holder of the lease runs or changes it."""
        return session_key(self.app, self.user, self.id)

    @property
    def keys(self) -> tuple[str, str, str]:
        """The three hashes above, as arguments of the scripts."""
        return self.key, self.app_key, self.user_key


@dataclass(frozen=True, slots=True)
class States:
    """State by its scope.

    Attributes:
        session: The state of one session.
        app: The state that all users of an app share.
        user: The state that all sessions of a user share.
    """

    session: Texts = field(default_factory=dict)
    app: Texts = field(default_factory=dict)
    user: Texts = field(default_factory=dict)

    def updated(self, delta: States) -> States:
        """Return the states with the values of a delta."""
        if not (delta.session or delta.app or delta.user):
            return self
        return States(
            {**self.session, **delta.session},
            {**self.app, **delta.app},
            {**self.user, **delta.user},
        )

    def arguments(self) -> list[str | int]:
        """Return the arguments of the scripts: three counts, then names and values."""
        three = (self.session, self.app, self.user)
        return [
            *(len(one) for one in three),
            *(text for one in three for text in _fields_of(one)),
        ]


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session as it was at one moment.

    Attributes:
        name: The name.
        made: A mark that distinguishes it from a deleted session with the same name.
        count: How many events it has.
        first: The index of the first event that was read, from 0.
        events: The events from that index on, the oldest first.
        at: The time of the last event, or of the creation, in seconds since the epoch.
        states: The states.
        last: The id of the last event, "" if there is none.
    """

    name: Name
    made: str
    count: int
    first: int
    events: tuple[str, ...]
    at: float
    states: States
    last: str

    @property
    def seen(self) -> SessionVersion:
        """The session as its reader has seen it."""
        return SessionVersion(self.made, self.count, self.last)


class NewEvent(NamedTuple):
    """An event to append to a session.

    Attributes:
        id: The id, which no other event has.
        text: The whole event as JSON.
        at: The time, in seconds since the epoch.
        delta: The values that it sets in the states.
    """

    id: str
    text: str
    at: float
    delta: States


class SessionRecords:
    """Reads and writes the sessions under the ledger's prefix."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def make(self, name: Name, states: States, *, at: float) -> StoredSession | None:
        """Create a session without events, and return it; None if this name is in use.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        made = secrets.token_hex(4)
        found = await self._store.script(
            "session_make",
            *name.keys,
            made,
            repr(at),
            name.app,
            name.user,
            name.id,
            *states.arguments(),
        )
        if not found:
            return None
        shared = States(states.session, *(_values(_pairs(one)) for one in found))
        return StoredSession(name, made, 0, 0, (), at, shared, "")

    async def import_newer(
        self, name: Name, values: Texts, events: Sequence[str], *, last: str, at: float
    ) -> bool:
        """Write a session from another store, unless the stored one is as new; return whether.

        Args:
            name: The session. No other process may use it meanwhile.
            values: The state of the session.
            events: The events, the oldest first.
            last: The id of the last event.
            at: The time of the last event, in seconds since the epoch.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        there = await self.read(name, most=0)
        if there is not None and there.at >= at:
            return False
        start = self._store.prefix
        fields = ["made", secrets.token_hex(4), "at", repr(at), "last", last]
        fields += ["app", name.app, "user", name.user, "id", name.id, *_fields_of(values)]
        pages = [events[one : one + _PAGE] for one in range(0, len(events), _PAGE)]
        await self._write(
            [
                ("DEL", f"{start}session:{name.key}", f"{start}history:{name.key}"),
                ("HSET", f"{start}session:{name.key}", *fields),
                *(("RPUSH", f"{start}history:{name.key}", *page) for page in pages),
                ("ZADD", f"{start}listed", repr(at), name.key),
                ("ZADD", f"{start}listed:{name.user_key}", repr(at), name.key),
            ]
        )
        return True

    async def import_state(self, app: str, user: str, values: Texts) -> None:
        """Write shared state from another store; values that exist here stay.

        Args:
            app: The app.
            user: The user whose sessions share the state; "" if all users of the app share it.
            values: The state.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        key = f"{self._store.prefix}state:{_hashed(app, user) if user else _hashed(app)}"
        named = {_VALUE + name: text for name, text in values.items()} | {"app": app, "user": user}
        await self._write([("HSETNX", key, name, text) for name, text in named.items()])

    async def append(
        self, name: Name, seen: SessionVersion | SeenAt, event: NewEvent
    ) -> StoredSession | AppendRefusal:
        """Append an event, unless the session has changed since the caller read it.

        Returns:
            The session with this event only and without states, or why it was not appended.

        Raises:
            LedgerUnavailable: Redis cannot be reached. The event may have been appended; appending
                it again is safe.
        """
        exact, last, at = (
            ("", seen.last, repr(seen.at))
            if isinstance(seen, SeenAt)
            else (f"{seen.made} {seen.count}", seen.last, "0")
        )
        found, *after = await self._store.script(
            "session_append",
            *name.keys,
            exact,
            last,
            at,
            event.id,
            event.text,
            repr(event.at),
            *event.delta.arguments(),
        )
        if not after:
            return AppendRefusal(found)
        made, count = after
        added = (event.text,)
        return StoredSession(name, made, count, count - 1, added, event.at, States(), event.id)

    async def read(
        self, name: Name, seen: SessionVersion = NOT_SEEN, *, most: int | None = None
    ) -> StoredSession | None:
        """Return a session in one round trip, None if it does not exist.

        Args:
            name: The session.
            seen: The session as read before; only later events are returned.
            most: The most events to return, counted from the last; None for all.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        found = await self._store.script(
            "session_read", *name.keys, seen.made, seen.count, -1 if most is None else most
        )
        return _stored(name, found) if found else None

    async def read_or_make(self, name: Name, *, at: float) -> StoredSession:
        """Return a session in one round trip; create it without state if it does not exist.

        The time of a creation, `at`, is in seconds since the epoch.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        parts = (secrets.token_hex(4), repr(at), name.app, name.user, name.id)
        found = await self._store.script("session_open", *name.keys, "", 0, -1, *parts)
        return _stored(name, found)

    async def drop(self, name: Name) -> None:
        """Delete a session, if it exists.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        await self._store.script("session_drop", name.key, name.user_key, "")

    async def user_state(self, app: str, user: str) -> Texts:
        """Return the state that all sessions of a user share.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        (flat,) = await self._hashes([f"state:{Name(app, user, '').user_key}"])
        return _values(flat)

    async def listed(self, app: str, user: str | None = None) -> list[StoredSession]:
        """Return the sessions of an app, or of one user in it, without events, the oldest first.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        index = "listed" if user is None else f"listed:{Name(app, user, '').user_key}"
        found = [one async for one in self._fields(await self._store.members(index))]
        rows = [one for one in found if one["app"] == app]
        users = list(dict.fromkeys(one["user"] for one in rows))
        keys = [f"state:{_hashed(app)}", *(f"state:{_hashed(app, one)}" for one in users)]
        shared, *theirs = [_values(one) for one in await self._hashes(keys)]
        by_user = dict(zip(users, theirs, strict=True))
        sessions = [
            StoredSession(
                Name(app, one["user"], one["id"]),
                one["made"],
                0,
                0,
                (),
                float(one["at"]),
                States(_values(one), shared, by_user[one["user"]]),
                one.get("last", ""),
            )
            for one in rows
        ]
        return sorted(sessions, key=lambda one: (one.at, one.name.user, one.name.id))

    async def all_names(self) -> AsyncIterator[Name]:
        """Yield the names of all sessions.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        async for one in self._fields(await self._store.members("listed")):
            yield Name(one["app"], one["user"], one["id"])

    async def end(self, *, before: float) -> int:
        """Delete unused sessions, and return how many.

        A session is unused if its last event is old, the ledger has none of its runs, and no worker
        holds its lease.

        Args:
            before: The latest time of the last event, in seconds since the epoch.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        old = await self._store.below("listed", before, limit=-1)
        count = 0
        for start in range(0, len(old), _PAGE):
            page = [one async for one in self._fields(old[start : start + _PAGE])]
            names = [Name(one["app"], one["user"], one["id"]) for one in page]
            calls = [(one.key, one.user_key, repr(before)) for one in names]
            count += sum(await self._store.scripts("session_drop", calls)) if calls else 0
        return count

    async def redact(self, name: Name, clean: Callable[[str], str]) -> bool:
        """Redact a person in a session, and return whether anything changed.

        Args:
            name: The session. The caller holds its lease.
            clean: Returns a JSON object without the person, given and returned as JSON text.

        Raises:
            LedgerUnavailable: Redis cannot be reached. A part may be redacted.
        """
        found = await self.read(name)
        if found is None:
            return False
        history = f"{self._store.prefix}history:{name.key}"
        texts = {place: clean(text) for place, text in enumerate(found.events)}
        changed: list[Command] = [
            ("LSET", history, place, text)
            for place, text in texts.items()
            if text != found.events[place]
        ]
        changed += self._redacted(f"session:{name.key}", found.states.session, clean)
        await self._write(changed)
        return bool(changed)

    async def redact_shared(
        self, is_theirs: Callable[[str], bool], clean: Callable[[str], str]
    ) -> None:
        """Delete the state that a person's sessions share, and redact the person elsewhere.

        Args:
            is_theirs: Returns whether a user of an app is this person.
            clean: Returns a JSON object without the person, given and returned as JSON text.

        Raises:
            LedgerUnavailable: Redis cannot be reached. A part may be redacted.
        """
        keys = await self._store.keys("state:", "hash")
        for start in range(0, len(keys), _PAGE):
            page = keys[start : start + _PAGE]
            for key, fields in zip(page, await self._hashes(page), strict=True):
                if is_theirs(fields.get("user", "")):
                    await self._write([("DEL", self._store.prefix + key)])
                else:
                    await self._write(self._redacted(key, _values(fields), clean))

    def _redacted(self, key: str, values: Texts, clean: Callable[[str], str]) -> list[Command]:
        """Return the commands that redact the values in a hash."""
        before = {name: json.loads(text) for name, text in values.items()}
        after = json.loads(clean(json.dumps(before)))
        if after == before:
            return []
        name = self._store.prefix + key
        fields = [_VALUE + one for one in before]
        pairs = _fields_of({one: json.dumps(value) for one, value in after.items()})
        return [("HDEL", name, *fields), *([("HSET", name, *pairs)] if pairs else [])]

    async def _write(self, commands: Sequence[Command]) -> None:
        if not commands:
            return
        async with (
            self._store.translated_client() as client,
            client.pipeline(transaction=True) as pipe,
        ):
            for one in commands:
                pipe.execute_command(*one)
            await pipe.execute()

    async def _fields(self, keys: Sequence[str]) -> AsyncIterator[dict[str, str]]:
        """Yield the fields of the existing sessions among these."""
        for start in range(0, len(keys), _PAGE):
            page = [f"session:{one}" for one in keys[start : start + _PAGE]]
            for fields in await self._hashes(page):
                if fields:
                    yield fields

    async def _hashes(self, keys: Iterable[str]) -> list[dict[str, str]]:
        prefix = self._store.prefix
        async with (
            self._store.translated_client() as client,
            client.pipeline(transaction=False) as pipe,
        ):
            for key in keys:
                pipe.execute_command("HGETALL", prefix + key)
            found: list[dict[str, str]] = await pipe.execute()
        return found


def _stored(name: Name, found: list[Any]) -> StoredSession:
    flat, in_all, first, events, app, user = found
    fields = _pairs(flat)
    states = States(_values(fields), _values(_pairs(app)), _values(_pairs(user)))
    at = float(fields["at"])
    last = fields.get("last", "")
    return StoredSession(name, fields["made"], in_all, first, tuple(events), at, states, last)


def _hashed(*names: str) -> str:
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:32]


def _fields_of(values: Texts) -> list[str]:
    return [text for name, value in values.items() for text in (_VALUE + name, value)]


def _pairs(flat: list[Any]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _values(fields: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(_VALUE): value
        for name, value in fields.items()
        if name.startswith(_VALUE)
    }
