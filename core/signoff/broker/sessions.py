"""The sessions of agents in the ledger's Redis: their events and states, as JSON texts.

What is in an event is the agent framework's affair; here it is a text with an id and a time.
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
"""Before the names of values, in hashes that have fields of their own."""

_PAGE: Final = 200


class Refused(StrEnum):
    """Why an event was not put into a session."""

    GONE = "gone"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class Seen:
    """A session as a caller has read it.

    Attributes:
        made: What tells it from one of the same name that was deleted.
        count: How many events it had.
    """

    made: str = ""
    count: int = 0


NOT_SEEN: Final = Seen()


@dataclass(frozen=True, slots=True)
class SeenAt:
    """A session as somebody has it who does not know more.

    Attributes:
        last: The id of its last event, "" where it had none.
        at: Its time, in seconds since the epoch.
    """

    last: str
    at: float


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a session.

    Attributes:
        app: The app.
        user: The user.
        id: The id of the session; another user may have one with the same.
    """

    app: str
    user: str
    id: str

    @property
    def key(self) -> str:
        """The hash that its keys end with."""
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
        """The key of its lease, whose holder alone runs or changes it."""
        return session_key(self.app, self.user, self.id)

    @property
    def keys(self) -> tuple[str, str, str]:
        """All three, as the scripts take them."""
        return self.key, self.app_key, self.user_key


@dataclass(frozen=True, slots=True)
class States:
    """Values of state by who shares them.

    Attributes:
        session: Those of one session.
        app: Those of all users of the app.
        user: Those of all sessions of the user.
    """

    session: Texts = field(default_factory=dict)
    app: Texts = field(default_factory=dict)
    user: Texts = field(default_factory=dict)

    def updated(self, delta: States) -> States:
        """Return them with other values in the places of those that the delta names."""
        if not (delta.session or delta.app or delta.user):
            return self
        return States(
            {**self.session, **delta.session},
            {**self.app, **delta.app},
            {**self.user, **delta.user},
        )

    def arguments(self) -> list[str | int]:
        """Return them as the scripts take them: three counts, then names and values."""
        three = (self.session, self.app, self.user)
        return [
            *(len(one) for one in three),
            *(text for one in three for text in _fields_of(one)),
        ]


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session as it was at one moment.

    Attributes:
        name: Its name.
        made: What tells it from one of the same name that was deleted.
        count: How many events it has.
        first: The place of the first event that was read.
        events: The events from there on, in the order in which they were put in.
        at: The time of the last event, or of its making, in seconds since the epoch.
        states: Its state.
    """

    name: Name
    made: str
    count: int
    first: int
    events: tuple[str, ...]
    at: float
    states: States


class NewEvent(NamedTuple):
    """An event that is put into a session.

    Attributes:
        id: Its id.
        text: All of it, as JSON.
        at: Its time, in seconds since the epoch.
        delta: What it sets in the states.
    """

    id: str
    text: str
    at: float
    delta: States


class SessionRecords:
    """Sessions under the ledger's prefix.

    Args:
        store: Where.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def make(self, name: Name, states: States, *, at: float) -> StoredSession | None:
        """Make a session without events, and return it; None where there is one of this name.

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
        return StoredSession(name, made, 0, 0, (), at, shared)

    async def put_back(
        self, name: Name, values: Texts, events: Sequence[str], *, last: str, at: float
    ) -> bool:
        """Write a session of another store, all at once, if it is newer; return whether it is.

        Args:
            name: The session; nobody else works with it.
            values: Its state.
            events: Its events, in their order.
            last: The id of the last one.
            at: The time of the last one, in seconds since the epoch.

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

    async def put_back_shared(self, app: str, user: str, values: Texts) -> None:
        """Write state that another store had, as far as there is none of the same names.

        Args:
            app: The app.
            user: The user whose sessions share it; "" for that of all users.
            values: The state.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        key = f"{self._store.prefix}state:{_hashed(app, user) if user else _hashed(app)}"
        named = {_VALUE + name: text for name, text in values.items()} | {"app": app, "user": user}
        await self._write([("HSETNX", key, name, text) for name, text in named.items()])

    async def append(
        self, name: Name, seen: Seen | SeenAt, event: NewEvent
    ) -> StoredSession | Refused:
        """Put an event behind the others, if the session is as the caller has seen it.

        Returns:
            The session after it, with this event and without its states; or why it is not in it.

        Raises:
            LedgerUnavailable: Redis cannot be reached. The event may have been put in; the same
                again is safe.
        """
        exact, last, at = (
            ("", seen.last, repr(seen.at))
            if isinstance(seen, SeenAt)
            else (f"{seen.made} {seen.count}", "", "0")
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
            return Refused(found)
        made, count = after
        return StoredSession(name, made, count, count - 1, (event.text,), event.at, States())

    async def read(
        self, name: Name, seen: Seen = NOT_SEEN, *, most: int | None = None
    ) -> StoredSession | None:
        """Return a session in one round trip, None where it is not there.

        Args:
            name: The session.
            seen: What the caller has of it: the events behind that are returned.
            most: The most events to return, counted from the last.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        found = await self._store.script(
            "session_read", *name.keys, seen.made, seen.count, -1 if most is None else most
        )
        return _stored(name, found) if found else None

    async def read_or_make(self, name: Name, *, at: float) -> StoredSession:
        """Return a session in one round trip; one that is not there is made, without state.

        Args:
            name: The session.
            at: When it is made, in seconds since the epoch.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        mark, made_of = secrets.token_hex(4), (name.app, name.user, name.id)
        found = await self._store.script(
            "session_open", *name.keys, "", 0, -1, mark, repr(at), *made_of
        )
        return _stored(name, found)

    async def drop(self, name: Name) -> None:
        """Delete a session, if it is there.

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
        """Delete the sessions that are over; return how many.

        A session is over when its last event is older than this and the ledger has no run of it.

        Args:
            before: Seconds since the epoch.

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
        """Rewrite what a session says of somebody; return whether anything changed.

        Args:
            name: The session; the caller holds its lease.
            clean: Returns a JSON object without them, as JSON.

        Raises:
            LedgerUnavailable: Redis cannot be reached; some of it may be rewritten.
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
        """Delete the state that all sessions of somebody share, and rewrite that of others.

        Args:
            is_theirs: Says whether a user of an app is this person.
            clean: Returns a JSON object without them, as JSON.

        Raises:
            LedgerUnavailable: Redis cannot be reached; some of it may be rewritten.
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
        """Return the commands that take somebody out of the values in a hash."""
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
        """Yield the fields of sessions by their hashes; of those that are there."""
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
    return StoredSession(name, fields["made"], in_all, first, tuple(events), at, states)


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
