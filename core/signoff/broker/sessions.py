"""The sessions of agents in the ledger's Redis: their events and states, as JSON texts.

What is in an event is the agent framework's affair; here it is a text with an id and a time.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from signoff.broker.ledger.lease import session_key
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


class Seen(NamedTuple):
    """A session as a caller has read it.

    Attributes:
        made: What tells it from one of the same name that was deleted.
        count: How many events it had.
    """

    made: str = ""
    count: int = 0


NOT_SEEN: Final = Seen()


class SeenAt(NamedTuple):
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
            *(text for one in three for name, value in one.items() for text in (_VALUE + name, value)),
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
        exact = isinstance(seen, Seen)
        found, *after = await self._store.script(
            "session_append",
            *name.keys,
            f"{seen.made} {seen.count}" if exact else "",
            "" if exact else seen.last,
            "0" if exact else repr(seen.at),
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
        if not found:
            return None
        flat, in_all, first, events, app, user = found
        fields = _pairs(flat)
        states = States(_values(fields), _values(_pairs(app)), _values(_pairs(user)))
        at = float(fields["at"])
        return StoredSession(name, fields["made"], in_all, first, tuple(events), at, states)

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


def lease_of(name: Name) -> str:
    """Return the lease key of a session: its holder alone runs or changes it."""
    return session_key(name.app, name.user, name.id)


def _hashed(*names: str) -> str:
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:32]


def _pairs(flat: list[Any]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _values(fields: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(_VALUE): value
        for name, value in fields.items()
        if name.startswith(_VALUE)
    }
