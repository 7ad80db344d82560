"""Sessions of the inbox page, in the ledger.

The cookie holds 256 random bits, the ledger their hash: who reads it can be nobody. A session ends
when it was not used for a while, in any case after a day's work, and when its person signs out
everywhere or loses the second factor.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from signoff.broker.change import Change
from signoff.broker.ledger import Ledger
from signoff.channels.inbox.factors import Factors
from signoff.channels.inbox.settings import InboxSettings
from signoff.core.errors import Conflict

_NOTED: Final = timedelta(minutes=1)
"""How often it is noted that a session is in use."""

_LENGTH: Final = 43
"""256 bits in base64, without padding."""


@dataclass(frozen=True, slots=True)
class Session:
    """One browser that somebody has signed in with.

    Attributes:
        key: Of its record.
        version: Of its record.
        person: The id of the person.
        epoch: The epoch of the person's second factor at the sign-in.
        csrf: What every form of the session carries.
        began: When (UTC).
        seen: When it was last used, give or take a minute (UTC).
        proven: When the last code was given (UTC).
    """

    key: str
    version: int
    person: str
    epoch: str
    csrf: str
    began: datetime
    seen: datetime
    proven: datetime


class Sessions:
    """All sessions.

    Args:
        ledger: Where they are kept.
        factors: Whose loss ends a session.
        settings: How long they last.
    """

    def __init__(self, ledger: Ledger, factors: Factors, settings: InboxSettings) -> None:
        self._ledger = ledger
        self._factors = factors
        self._settings = settings

    async def begin(self, person: str, epoch: str) -> str:
        """Begin a session under a name that nobody could know before, and return the name."""
        name, now = secrets.token_urlsafe(32), await self._ledger.now()
        csrf = secrets.token_urlsafe(32)
        await self._put(Session(_key(name), 0, person, epoch, csrf, now, now, now))
        return name

    async def find(self, name: str) -> Session | None:
        """Return the session of this name; None if there is none, or none any more."""
        if len(name) != _LENGTH or not name.isascii():
            return None
        record = await self._ledger.raw(_key(name))
        if record is None:
            return None
        session = _read(_key(name), *record)
        now = await self._ledger.now()
        over = now >= min(
            session.began + self._settings.longest, session.seen + self._settings.idle
        )
        if over or await self._factors.epoch(session.person) != session.epoch:
            return None
        if now - session.seen >= min(_NOTED, self._settings.idle / 2):
            session = await self._renewed(session, replace(session, seen=now))
        return session

    async def prove(self, session: Session) -> Session:
        """Note that a code was given just now."""
        now = await self._ledger.now()
        return await self._renewed(session, replace(session, seen=now, proven=now))

    async def end(self, name: str) -> None:
        """End a session."""

        async def attempt() -> None:
            record = await self._ledger.raw(_key(name))
            if record is not None:
                await self._ledger.commit(Change().put_raw(_key(name), "", was=record[0]))

        await self._ledger.decide_again(attempt)

    async def is_fresh(self, session: Session) -> bool:
        """Say whether the last code was given so lately that it stands for a decision."""
        return await self._ledger.now() < session.proven + self._settings.fresh

    async def _renewed(self, was: Session, new: Session) -> Session:
        try:
            await self._put(new)
        except Conflict:
            return was  # another request of the same session has written it
        return replace(new, version=new.version + 1)

    async def _put(self, one: Session) -> None:
        data = {
            "person": one.person,
            "epoch": one.epoch,
            "csrf": one.csrf,
            "began": one.began.isoformat(),
            "seen": one.seen.isoformat(),
            "proven": one.proven.isoformat(),
        }
        left = one.began + self._settings.longest - one.seen
        ttl = min(self._settings.idle, left)
        change = Change().put_raw(one.key, json.dumps(data), was=one.version, ttl=ttl)
        await self._ledger.commit(change)


def _key(name: str) -> str:
    return f"login:{hashlib.sha256(name.encode()).hexdigest()}"


def _read(key: str, version: int, text: str) -> Session:
    data = json.loads(text)
    began, seen, proven = (datetime.fromisoformat(data[at]) for at in ("began", "seen", "proven"))
    return Session(key, version, data["person"], data["epoch"], data["csrf"], began, seen, proven)
