"""Passkeys (WebAuthn Level 3): adds them, and takes them as second factors and for the sign-in.

Every ceremony has its own challenge. For some minutes, the ledger keeps the hash of the challenge,
its purpose and its session. The commit that takes the response uses the challenge up.
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
    from signoff.channels.inbox.auth.ceremonies import RelyingParty

log = structlog.get_logger(__name__)

MOST: Final = 20
"""The most passkeys of one person."""

_LASTS: Final = timedelta(minutes=5)
_FOREIGN: Final = (ValueError, TypeError, KeyError, RecursionError)
"""The errors for an invalid response of an authenticator."""


class PasskeyRefused(Exception):
    """A passkey is refused; the message is for the person."""


class For(StrEnum):
    """The purpose of a challenge."""

    ADD = "add"
    PROVE = "prove"
    SIGN_IN = "sign_in"


@dataclass(frozen=True, slots=True)
class _Challenge:
    plain: bytes
    used: Change
    invitation: tuple[str, int] | None


class Passkeys:
    """The ceremonies. Passkeys are bound to the host of the page."""

    def __init__(self, ledger: Ledger, settings: InboxSettings) -> None:
        self._ledger = ledger
        self._url = settings.url
        self._secret = settings.secret_key.get_secret_value()

    async def offer_to_add(
        self, session: Session, person: Person, invitation: tuple[str, int] | None
    ) -> str:
        """Return the options from which a browser creates a passkey, as JSON.

        Args:
            session: The session; the caller checks that it may add a passkey.
            person: The person.
            invitation: The key and version of the one-time code that the new passkey uses up.

        Raises:
            PasskeyRefused: The person has too many passkeys.
        """
        existing = await passkeys_of(self._ledger, person)
        if len(existing) >= MOST:
            raise PasskeyRefused(f"You have {MOST} passkeys. Remove one first.")
        challenge = await self._challenge(For.ADD, session.id, invitation)
        return self._site.offer_to_add(
            challenge,
            existing,
            handle=handle_of(person.id, self._secret),
            address=person.email,
            shown=person.shown,
        )

    async def add(self, session: Session, person: Person, answer: str, name: str) -> None:
        """Add the passkey that a browser has created.

        Raises:
            PasskeyRefused: It does not answer a challenge of this session, or exists already.
        """
        challenge = await self._answered(For.ADD, session.id, answer)
        try:
            made = self._site.added(challenge.plain, answer)
            found = json.loads(answer)["response"].get("transports") or ()
        except _FOREIGN as error:
            raise _refused("adding", person.id, error) from error
        from webauthn.helpers import bytes_to_base64url  # noqa: PLC0415 -- as `_site`

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
            address=person.email,
        )
        change = one.put(challenge.used)
        if challenge.invitation is not None:
            key, version = challenge.invitation
            change.put_raw(key, "", was=version)
        more = {"person": person.id, "factor": "passkey", "name": name}
        change.note([Event(what=What.ENROLLED, at=now, by=person.id, more=more)])
        await self._commit(change)

    async def remove(self, person: Person, passkey_id: str) -> None:
        """Remove a passkey, if it belongs to this person."""
        one = await passkey_called(self._ledger, passkey_id)
        if one is None or not _is_of(one, person):
            return
        more = {"person": person.id, "factor": "passkey", "name": one.name}
        event = Event(what=What.UNENROLLED, at=await self._ledger.now(), by=person.id, more=more)
        await self._commit(one.drop(Change()).note([event]))

    async def offer_to_prove(self, session: Session, person: Person) -> str:
        """Return the options for a signature with one of the person's passkeys, as JSON.

        Raises:
            PasskeyRefused: The person has no passkey.
        """
        existing = await passkeys_of(self._ledger, person)
        if not existing:
            raise PasskeyRefused("You have no passkey yet.")
        return await self._offer(For.PROVE, session.id, existing)

    async def offer_to_sign_in(self) -> str:
        """Return the options for a signature with any passkey, as JSON."""
        return await self._offer(For.SIGN_IN, "", ())

    async def prove(self, session: Session, person: Person, answer: str) -> None:
        """Check the passkey of a person who is signed in.

        Raises:
            PasskeyRefused: It belongs to another person, or answers no challenge of this session.
        """
        one, change = await self._checked(For.PROVE, session.id, answer)
        if not _is_of(one, person):
            raise PasskeyRefused("That passkey belongs to another person.")
        await self._commit(_bound(one, person).put(change))

    async def sign_in(self, answer: str, directory: Directory) -> tuple[Person, Change]:
        """Return the person of a passkey, and the change that uses the challenge up.

        Raises:
            PasskeyRefused: The passkey is not valid, or its person is not in the directory.
        """
        one, change = await self._checked(For.SIGN_IN, "", answer)
        person = directory.get(one.person)
        if person is None or not _is_of(one, person):
            raise PasskeyRefused("The person of that passkey is not in the directory.")
        return person, _bound(one, person).put(change)

    @property
    def _site(self) -> RelyingParty:
        from signoff.channels.inbox.auth.ceremonies import (  # noqa: PLC0415 -- webauthn: 6 MB
            RelyingParty,
        )

        return RelyingParty(urlsplit(self._url).hostname or "", self._url)

    async def _offer(self, what: For, session: str, existing: Sequence[Passkey]) -> str:
        return self._site.offer_to_sign(await self._challenge(what, session), existing)

    async def _checked(self, what: For, session: str, answer: str) -> tuple[Passkey, Change]:
        """Return the passkey that has signed, used now, and the change that uses the challenge."""
        challenge = await self._answered(what, session, answer)
        try:
            one = await passkey_called(self._ledger, str(json.loads(answer)["id"]))
        except _FOREIGN as error:
            raise _refused("reading", "", error) from error
        if one is None:
            raise PasskeyRefused("That passkey is not known here. Use another method to sign in.")
        try:
            signed = self._site.signed(challenge.plain, answer, one)
        except _FOREIGN as error:
            # If the counter does not grow, the key may have been copied.
            raise _refused("signing", one.person, error) from error
        used = replace(one, count=signed.new_sign_count, used=await self._ledger.now())
        return used, challenge.used

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
        """Return the challenge of a response, if its purpose and session are these."""
        try:
            plain = _challenge_in(json.loads(answer))
        except _FOREIGN as error:
            raise _refused("reading", "", error) from error
        record = await self._ledger.raw(_key(plain))
        data = json.loads(record[1]) if record is not None else {}
        same = (data.get("for"), data.get("session")) == (what.value, session)
        if record is None or not same:
            raise PasskeyRefused(
                "This response was not requested here, or already used. Try again."
            )
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
            raise PasskeyRefused("This response was already used. Try again.") from error


def _is_of(one: Passkey, person: Person) -> bool:
    return one.person == person.id and person.is_still(one.address)


def _bound(one: Passkey, person: Person) -> Passkey:
    """Return a passkey with the address of its person, which earlier releases did not record."""
    return replace(one, address=one.address or person.email)


def _challenge_in(answer: Mapping[str, Any]) -> bytes:
    from webauthn.helpers import base64url_to_bytes  # noqa: PLC0415 -- as `_site`

    client_data = json.loads(base64url_to_bytes(answer["response"]["clientDataJSON"]))
    return base64url_to_bytes(client_data["challenge"])


def _refused(what: str, person: str, error: Exception) -> PasskeyRefused:
    log.warning("inbox.passkey_refused", at=what, person=person, error=repr(error))
    return PasskeyRefused("That passkey was not accepted. Try again, or use another method.")


def _key(challenge: bytes) -> str:
    return f"challenge:{hashlib.sha256(challenge).hexdigest()}"
