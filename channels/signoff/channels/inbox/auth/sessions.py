"""Sessions of the inbox page, in the ledger.

The cookie has 256 random bits, and the ledger only their hash. A session ends when it was unused
for a while, at the latest after a fixed time, and when its person signs out everywhere, loses a
second factor or is signed out by an operator.
"""

from __future__ import annotations

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
from signoff.channels.web.signatures import sha256_of
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import Conflict

_NOTED: Final = timedelta(minutes=1)
"""How often the use of a session is recorded."""

_LENGTH: Final = 43
"""256 bits in base64, without padding."""

_MOST_PRUNED: Final = 100


class How(StrEnum):
    """The sign-in methods."""

    LINK = "link"
    """A mailed link."""
    CODE = "code"
    """A code from an authenticator app."""
    PASSKEY = "passkey"
    OIDC = "oidc"
    """OpenID Connect."""
    LOCAL = "local"
    """A link of the command line, on the machine itself."""


@dataclass(frozen=True, slots=True)
class Session:
    """The session of one browser.

    Attributes:
        id: The hash of its name, which is in the cookie.
        version: The version of its record.
        person: The id of the person.
        epoch: The epoch of the person's sessions at the sign-in.
        csrf: The token that every form of the session has.
        how: The sign-in method.
        browser: The name of the browser.
        began: When it began (UTC).
        seen: When it was last used (UTC), to about a minute.
        factor: The last second factor, ``totp`` or ``passkey``; "" for none.
        proven: When that was given (UTC), None for never.
        kept: The record as it was read, with the fields of a later version.
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
    """All sessions."""

    def __init__(self, ledger: Ledger, settings: InboxSettings) -> None:
        self._ledger = ledger
        self._settings = settings

    async def begin(
        self, person: str, *, how: How, browser: str = "", factor: str = "", also: Change
    ) -> str:
        """Begin a session under a new random name, and return the name.

        Args:
            person: The id of the person.
            how: The sign-in method.
            browser: The name of the browser.
            factor: The second factor that was given at the sign-in, "" for none.
            also: A change for the same commit, such as using up a link.

        Raises:
            Conflict: `also` cannot be committed any more.
        """
        name, now = secrets.token_urlsafe(32), await self._ledger.now()
        epoch, csrf = await epoch_of(self._ledger, person), secrets.token_urlsafe(32)
        one = Session(sha256_of(name), 0, person, epoch, csrf, how, browser, now, now)
        if factor:
            one = replace(one, factor=factor, proven=now)
        # Expired sessions have left their entries.
        over = await self._ledger.store.below(_all(person), to_ms(now), limit=_MOST_PRUNED)
        more = {"person": person, "by": how.value, "browser": browser}
        signed_in = Event(what=What.SIGNED_IN, at=now, by=person, more=more)
        change = self._put(also.copy(), one, drop=over).note([signed_in])
        await self._ledger.commit(change)
        return name

    async def find(self, name: str, *, used: bool = True) -> Session | None:
        """Return the session of a name (the cookie), None if there is none or it has ended.

        It is prolonged if a person uses it now.
        """
        if len(name) != _LENGTH or not name.isascii():
            return None
        session = await self._read(sha256_of(name))
        if session is None:
            return None
        now = await self._ledger.now()
        if not await self._is_valid(session, now):
            return None
        if used and now - session.seen >= min(_NOTED, self._settings.idle / 2):
            session = await self._renewed(session, replace(session, seen=now))
        return session

    async def is_open(self, session: Session) -> bool:
        """Return whether a session has not ended. This does not prolong it."""
        present = await self._read(session.id)
        return present is not None and await self._is_valid(present, await self._ledger.now())

    async def of_person(self, person: str) -> list[Session]:
        """Return the open sessions of a person, the last used one first."""
        found, now = [], await self._ledger.now()
        for one in await self._ledger.store.members(_all(person)):
            session = await self._read(one)
            if session is not None and await self._is_valid(session, now):
                found.append(session)
        return sorted(found, key=lambda one: one.seen, reverse=True)

    async def prove(self, session: Session, factor: str) -> tuple[Session, str]:
        """Record that a second factor was given now, and give the session a new name.

        So a stolen name does not gain the second factor.

        Returns:
            The session, and its new name; "" if it has ended meanwhile.
        """
        name = secrets.token_urlsafe(32)

        async def attempt() -> tuple[Session, str]:
            was, now = await self._read(session.id), await self._ledger.now()
            if was is None:
                return session, ""
            new = replace(was, id=sha256_of(name), version=0, seen=now, proven=now, factor=factor)
            await self._ledger.commit(self._put(self._dropped(was), new))
            return replace(new, version=1), name

        return await self._ledger.decide_again(attempt)

    async def end(self, name: str) -> None:
        """End a session."""
        await self.end_one(sha256_of(name), "")

    async def end_one(self, session_id: str, person: str) -> None:
        """End a session, if it belongs to this person; "" ends that of anybody."""

        async def attempt() -> None:
            session = await self._read(session_id)
            if session is not None and person in {"", session.person}:
                await self._ledger.commit(self._dropped(session))

        await self._ledger.decide_again(attempt)

    async def is_fresh(self, session: Session) -> bool:
        """Return whether the last second factor is recent enough for a decision."""
        proven = session.proven
        return proven is not None and await self._ledger.now() < proven + self._settings.fresh

    async def _read(self, session_id: str) -> Session | None:
        record = await self._ledger.raw(f"login:{session_id}")
        return _session(session_id, *record) if record is not None else None

    async def _is_valid(self, session: Session, now: datetime) -> bool:
        end = min(session.began + self._settings.longest, session.seen + self._settings.idle)
        return now < end and await epoch_of(self._ledger, session.person) == session.epoch

    async def _renewed(self, was: Session, new: Session) -> Session:
        try:
            await self._ledger.commit(self._put(Change(), new))
        except Conflict:
            return was  # another request has recorded it
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
    """End all sessions of a person, given by id; `by` is the author, for the audit."""

    async def attempt() -> None:
        change = await begin_epoch(ledger, Change(), person)
        more = {"person": person}
        event = Event(what=What.SIGNED_OUT, at=await ledger.now(), by=by, more=more)
        await ledger.commit(change.note([event]))

    await ledger.decide_again(attempt)


def _all(person: str) -> str:
    return f"logins:{person}"


def _session(session_id: str, version: int, text: str) -> Session | None:
    data = json.loads(text)
    if "how" not in data:
        return None  # an earlier version has written it
    return _SESSION.validate_python({**data, "id": session_id, "version": version, "kept": data})
