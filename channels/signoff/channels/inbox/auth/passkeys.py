"""Passkeys (WebAuthn Level 3): to add one, to prove with one who somebody is, to sign in with one.

Every ceremony begins with a challenge of its own, whose hash the ledger keeps for some minutes with
what it is for and whose session it belongs to. It is used up by the commit that does what the
ceremony was for.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import structlog

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.inbox.auth.passkey_store import (
    Passkey,
    handle_of,
    passkey_called,
    passkeys_of,
)
from signoff.channels.inbox.auth.sessions import Session
from signoff.channels.inbox.settings import InboxSettings
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import Conflict
from signoff.core.directory.people import Directory, Person

if TYPE_CHECKING:
    from signoff.channels.inbox.auth.ceremonies import Page

log = structlog.get_logger(__name__)

MOST: Final = 20
"""How many passkeys a person may have."""

_LASTS: Final = timedelta(minutes=5)
_FOREIGN: Final = (ValueError, TypeError, KeyError, RecursionError)
"""What is raised for what is no answer of an authenticator."""


class PasskeyRefused(Exception):
    """A passkey does not count; the message says why, for people."""


class For(StrEnum):
    """What a challenge is for: none counts for anything else."""

    ADD = "add"
    PROVE = "prove"
    SIGN_IN = "sign_in"


@dataclass(frozen=True, slots=True)
class _Challenge:
    plain: bytes
    used: Change
    invitation: tuple[str, int] | None


class Passkeys:
    """The ceremonies.

    Args:
        ledger: Where passkeys and challenges are kept.
        settings: Where the page is, which is what passkeys are bound to.
    """

    def __init__(self, ledger: Ledger, settings: InboxSettings) -> None:
        self._ledger = ledger
        self._url = settings.url
        self._secret = settings.secret_key.get_secret_value()

    async def offer_to_add(
        self, session: Session, person: Person, invitation: tuple[str, int] | None
    ) -> str:
        """Return what a browser is to make a passkey from, as JSON.

        Args:
            session: Whose; that it may, is for the caller to see to.
            person: Who.
            invitation: Key and version of what is used up with it.

        Raises:
            PasskeyRefused: There are too many.
        """
        there = await passkeys_of(self._ledger, person.id)
        if len(there) >= MOST:
            raise PasskeyRefused(f"You have {MOST} passkeys. Remove one first.")
        challenge = await self._challenge(For.ADD, session.id, invitation)
        return self._page.offer_to_add(
            challenge,
            there,
            handle=handle_of(person.id, self._secret),
            address=person.email,
            shown=person.shown,
        )

    async def add(self, session: Session, person: Person, answer: str, name: str) -> None:
        """Add the passkey that a browser has made.

        Raises:
            PasskeyRefused: It is not what was offered to this session, or it is there already.
        """
        challenge = await self._answered(For.ADD, session.id, answer)
        try:
            made = self._page.added(challenge.plain, answer)
            found = json.loads(answer)["response"].get("transports") or ()
        except _FOREIGN as error:
            raise _refused("adding", person.id, error) from error
        from webauthn.helpers import bytes_to_base64url  # noqa: PLC0415 -- as `_page`

        from signoff.channels.inbox.auth.ceremonies import known_transports  # noqa: PLC0415

        now = await self._ledger.now()
        one = Passkey(
            id=bytes_to_base64url(made.credential_id),
            version=0,
            person=person.id,
            public=bytes_to_base64url(made.credential_public_key),
            count=made.sign_count,
            name=name,
            added=now,
            transports=known_transports(found),
        )
        change = one.put(challenge.used)
        if challenge.invitation is not None:
            key, version = challenge.invitation
            change.put_raw(key, "", was=version)
        more = {"person": person.id, "factor": "passkey", "name": name}
        change.note([Event(what=What.ENROLLED, at=now, by=person.id, more=more)])
        await self._commit(change)

    async def remove(self, person: Person, passkey_id: str) -> None:
        """Remove a passkey of a person; nothing happens where it is not theirs."""
        one = await passkey_called(self._ledger, passkey_id)
        if one is None or one.person != person.id:
            return
        more = {"person": person.id, "factor": "passkey", "name": one.name}
        event = Event(what=What.UNENROLLED, at=await self._ledger.now(), by=person.id, more=more)
        await self._commit(one.drop(Change()).note([event]))

    async def offer_to_prove(self, session: Session) -> str:
        """Return what a browser is to sign with one of the person's passkeys, as JSON.

        Raises:
            PasskeyRefused: There is none.
        """
        there = await passkeys_of(self._ledger, session.person)
        if not there:
            raise PasskeyRefused("You have no passkey yet.")
        return await self._offer(For.PROVE, session.id, there)

    async def offer_to_sign_in(self) -> str:
        """Return what a browser is to sign with a passkey that the person chooses, as JSON."""
        return await self._offer(For.SIGN_IN, "", ())

    async def prove(self, session: Session, answer: str) -> None:
        """Take the passkey of somebody who is signed in.

        Raises:
            PasskeyRefused: It is not theirs, or not what was offered to this session.
        """
        one, change = await self._checked(For.PROVE, session.id, answer)
        if one.person != session.person:
            raise PasskeyRefused("That passkey is somebody else's.")
        await self._commit(change)

    async def sign_in(self, answer: str, directory: Directory) -> tuple[Person, Change]:
        """Return whose passkey it is, and the change that uses the challenge up.

        Raises:
            PasskeyRefused: It is nobody's who is in the directory.
        """
        one, change = await self._checked(For.SIGN_IN, "", answer)
        person = directory.get(one.person)
        if person is None:
            raise PasskeyRefused("That passkey is nobody's who is in the directory.")
        return person, change

    @property
    def _page(self) -> Page:
        from signoff.channels.inbox.auth.ceremonies import Page  # noqa: PLC0415 -- webauthn: 6 MB

        return Page(urlsplit(self._url).hostname or "", self._url)

    async def _offer(self, what: For, session: str, there: Sequence[Passkey]) -> str:
        return self._page.offer_to_sign(await self._challenge(what, session), there)

    async def _checked(self, what: For, session: str, answer: str) -> tuple[Passkey, Change]:
        """Return the passkey that has signed, and the change that notes its use."""
        challenge = await self._answered(what, session, answer)
        try:
            one = await passkey_called(self._ledger, str(json.loads(answer)["id"]))
        except _FOREIGN as error:
            raise _refused("reading", "", error) from error
        if one is None:
            raise PasskeyRefused("That passkey is not known here. Sign in by another way.")
        try:
            signed = self._page.signed(challenge.plain, answer, one)
        except _FOREIGN as error:
            # A count that does not grow may be a copy of the key.
            raise _refused("signing", one.person, error) from error
        used = replace(one, count=signed.new_sign_count, used=await self._ledger.now())
        return one, used.put(challenge.used)

    async def _challenge(
        self, what: For, session: str, invitation: tuple[str, int] | None = None
    ) -> bytes:
        plain = secrets.token_bytes(32)
        data = {
            "for": what.value,
            "session": session,
            "invitation": invitation,
            "until": (await self._ledger.now() + _LASTS).isoformat(),
        }
        await self._ledger.commit(Change().put_raw(_key(plain), json.dumps(data), ttl=_LASTS))
        return plain

    async def _answered(self, what: For, session: str, answer: str) -> _Challenge:
        """Return the challenge that an answer is to, if it was made for this."""
        try:
            plain = _challenge_in(json.loads(answer))
        except _FOREIGN as error:
            raise _refused("reading", "", error) from error
        record = await self._ledger.raw(_key(plain))
        data = json.loads(record[1]) if record is not None else {}
        same = (data.get("for"), data.get("session")) == (what.value, session)
        if record is None or not same:
            raise PasskeyRefused("This was not asked for here, or is used already. Try again.")
        if await self._ledger.now() >= datetime.fromisoformat(data["until"]):
            raise PasskeyRefused("That took too long. Try again.")
        invitation = data["invitation"]
        return _Challenge(
            plain,
            Change().put_raw(_key(plain), "", was=record[0]),
            (invitation[0], invitation[1]) if invitation else None,
        )

    async def _commit(self, change: Change) -> None:
        try:
            await self._ledger.commit(change)
        except Conflict as error:
            raise PasskeyRefused("This is used already. Try again.") from error


def _challenge_in(answer: Mapping[str, Any]) -> bytes:
    from webauthn.helpers import base64url_to_bytes  # noqa: PLC0415 -- as `_page`

    client_data = json.loads(base64url_to_bytes(answer["response"]["clientDataJSON"]))
    return base64url_to_bytes(client_data["challenge"])


def _refused(what: str, person: str, error: Exception) -> PasskeyRefused:
    log.warning("inbox.passkey_refused", at=what, person=person, error=repr(error))
    return PasskeyRefused("That passkey was not taken. Try again, or take another way.")


def _key(challenge: bytes) -> str:
    return f"challenge:{hashlib.sha256(challenge).hexdigest()}"
