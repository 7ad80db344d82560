"""Sessions of the inbox page, in the ledger.

The cookie holds 256 random bits, the ledger their hash: who reads it can be nobody. A session ends
when it was not used for a while, in any case after a day's work, and when its person signs out
everywhere, loses a second factor or is signed out by an operator.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, TypeAdapter

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import to_ms
from signoff.channels.inbox.auth.epochs import begin_epoch, epoch_of
from signoff.channels.inbox.settings import InboxSettings
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import Conflict

_NOTED: Final = timedelta(minutes=1)
"""How often it is noted that a session is in use."""

_LENGTH: Final = 43
"""256 bits in base64, without padding."""

_MOST_PRUNED: Final = 100


class How(StrEnum):
    """What a session began with."""

    LINK = "link"
    """A link that was mailed."""
    CODE = "code"
    """A code from an authenticator app."""
    PASSKEY = "passkey"
    OIDC = "oidc"
    """The sign-in of the company."""
    LOCAL = "local"
    """A link of the command line, on the machine itself."""


@dataclass(frozen=True, slots=True)
class Session:
    """One browser that somebody has signed in with.

    Attributes:
        id: The hash of its name.
        version: Of its record.
        person: The id of the person.
        epoch: The epoch of the person's sessions at the sign-in.
        csrf: What every form of the session carries.
        how: What it began with.
        browser: Which browser it is, in words.
        began: When (UTC).
        seen: When it was last used, give or take a minute (UTC).
        factor: Which second factor was given last, ``totp`` or ``passkey``; "" for none.
        proven: When that was (UTC), None for never.
        kept: Its record as it was read, with the fields of a later version.
    """

    id: str
    version: int
    person: str
    epoch: str
    csrf: str
    how: How
    browser: str
    began: datetime
    seen: datetime
    factor: str = ""
    proven: Annotated[datetime | None, BeforeValidator(lambda at: at or None)] = None
    kept: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def key(self) -> str:
        """The key of its record."""
        return f"login:{self.id}"


_SESSION: Final = TypeAdapter(Session)


class Sessions:
    """All sessions.

    Args:
        ledger: Where they are kept.
        settings: How long they last.
    """

    def __init__(self, ledger: Ledger, settings: InboxSettings) -> None:
        self._ledger = ledger
        self._settings = settings

    async def begin(
        self, person: str, *, how: How, browser: str = "", factor: str = "", also: Change
    ) -> str:
        """Begin a session under a name that nobody could know before, and return the name.

        Args:
            person: The id of the person who has proven who they are.
            how: By what.
            browser: See `Session`.
            factor: The second factor that was given with it, "" for none.
            also: What must happen in the same commit, such as using up a link.

        Raises:
            Conflict: What `also` needs was changed by somebody else.
        """
        name, now = secrets.token_urlsafe(32), await self._ledger.now()
        epoch, csrf = await epoch_of(self._ledger, person), secrets.token_urlsafe(32)
        one = Session(_id(name), 0, person, epoch, csrf, how, browser, now, now)
        if factor:
            one = replace(one, factor=factor, proven=now)
        # A session that expired has left its entry.
        over = await self._ledger.store.below(_all(person), to_ms(now), limit=_MOST_PRUNED)
        more = {"person": person, "by": how.value, "browser": browser}
        signed_in = Event(what=What.SIGNED_IN, at=now, by=person, more=more)
        change = self._put(also.copy(), one, drop=over).note([signed_in])
        await self._ledger.commit(change)
        return name

    async def find(self, name: str, *, used: bool = True) -> Session | None:
        """Return the session of this name.

        Args:
            name: As the cookie has it.
            used: Whether a person uses it now, which is noted and prolongs it.

        Returns:
            None if there is none, or none any more.
        """
        if len(name) != _LENGTH or not name.isascii():
            return None
        session = await self._read(_id(name))
        if session is None:
            return None
        now = await self._ledger.now()
        if not await self._lasts(session, now):
            return None
        if used and now - session.seen >= min(_NOTED, self._settings.idle / 2):
            session = await self._renewed(session, replace(session, seen=now))
        return session

    async def stands(self, session: Session) -> bool:
        """Say whether a session has not ended, without noting a use of it."""
        present = await self._read(session.id)
        return present is not None and await self._lasts(present, await self._ledger.now())

    async def open(self, person: str) -> list[Session]:
        """Return the sessions of a person, the one used last first."""
        found, now = [], await self._ledger.now()
        for one in await self._ledger.store.members(_all(person)):
            session = await self._read(one)
            if session is not None and await self._lasts(session, now):
                found.append(session)
        return sorted(found, key=lambda one: one.seen, reverse=True)

    async def prove(self, session: Session, factor: str) -> tuple[Session, str]:
        """Note that a second factor was given just now, and give the session another name.

        Someone who had got hold of the name before has nothing of what it may do from now on.

        Returns:
            The session, and its name; "" where it has ended meanwhile.
        """
        name = secrets.token_urlsafe(32)

        async def attempt() -> tuple[Session, str]:
            was, now = await self._read(session.id), await self._ledger.now()
            if was is None:
                return session, ""
            new = replace(was, id=_id(name), version=0, seen=now, proven=now, factor=factor)
            await self._ledger.commit(self._put(self._dropped(was), new))
            return replace(new, version=1), name

        return await self._ledger.decide_again(attempt)

    async def end(self, name: str) -> None:
        """End a session."""
        await self._end(_id(name), "")

    async def end_one(self, session_id: str, person: str) -> None:
        """End a session of a person; nothing happens where it is somebody else's, or over."""
        await self._end(session_id, person)

    async def is_fresh(self, session: Session) -> bool:
        """Say whether a second factor was given so lately that it stands for a decision."""
        proven = session.proven
        return proven is not None and await self._ledger.now() < proven + self._settings.fresh

    async def _end(self, session_id: str, person: str) -> None:
        async def attempt() -> None:
            session = await self._read(session_id)
            if session is not None and person in {"", session.person}:
                await self._ledger.commit(self._dropped(session))

        await self._ledger.decide_again(attempt)

    async def _read(self, session_id: str) -> Session | None:
        record = await self._ledger.raw(f"login:{session_id}")
        return _session(session_id, *record) if record is not None else None

    async def _lasts(self, session: Session, now: datetime) -> bool:
        end = min(session.began + self._settings.longest, session.seen + self._settings.idle)
        return now < end and await epoch_of(self._ledger, session.person) == session.epoch

    async def _renewed(self, was: Session, new: Session) -> Session:
        try:
            await self._ledger.commit(self._put(Change(), new))
        except Conflict:
            return was  # another request of the same session has written it
        return replace(new, version=new.version + 1)

    def _put(self, change: Change, one: Session, *, drop: list[str] | None = None) -> Change:
        fields = _SESSION.dump_python(one, mode="json", exclude={"id", "version", "kept"})
        data = json.dumps({**one.kept, **fields})
        end = one.began + self._settings.longest
        return change.put_raw(
            one.key,
            data,
            was=one.version,
            ttl=min(self._settings.idle, end - one.seen),
            add=[(_all(one.person), one.id, to_ms(end))],
            drop=[(_all(one.person), over, 0) for over in drop or ()],
        )

    @staticmethod
    def _dropped(one: Session) -> Change:
        entry = (_all(one.person), one.id, 0)
        return Change().put_raw(one.key, "", was=one.version, drop=[entry])


async def sign_out_everywhere(ledger: Ledger, person: str, *, by: str) -> None:
    """End all sessions of a person.

    Args:
        ledger: Where they are kept.
        person: The id.
        by: Who does it, for the audit.
    """

    async def attempt() -> None:
        change = await begin_epoch(ledger, Change(), person)
        more = {"person": person}
        event = Event(what=What.SIGNED_OUT, at=await ledger.now(), by=by, more=more)
        await ledger.commit(change.note([event]))

    await ledger.decide_again(attempt)


def _all(person: str) -> str:
    return f"logins:{person}"


def _id(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _session(session_id: str, version: int, text: str) -> Session | None:
    data = json.loads(text)
    if "how" not in data:
        return None  # an earlier version of ours began it
    return _SESSION.validate_python({**data, "id": session_id, "version": version, "kept": data})
