"""Second factors: time-based codes (RFC 6238) from an authenticator app.

The secret of a person's app is in the ledger, encrypted with the key of the settings. So an
enrolment takes effect at once, without a change of files, and a reader of Redis or its backups
cannot make codes. The person's id is encrypted with the secret, so a record copied to another
person is worthless.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import pyotp
import structlog
from pydantic import SecretStr

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.inbox.auth.epochs import begin_epoch
from signoff.channels.inbox.auth.passkey_store import all_passkeys, drop_passkeys
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import ConfigError, Conflict
from signoff.core.directory.people import Person

if TYPE_CHECKING:
    from cryptography.fernet import Fernet, MultiFernet

log = structlog.get_logger(__name__)

ISSUER: Final = "Signoff"
"""The name of the entry in the authenticator app, beside the address."""

_STEP: Final = 30
_WINDOW: Final = (-1, 0, 1)
"""The time steps around the present whose codes are accepted, because clocks differ."""

_DIGITS: Final = 6
_KEYS: Final = "factor:"


@dataclass(frozen=True, slots=True)
class Enrolment:
    """The second factor of one person.

    Attributes:
        version: The version of the record.
        sealed: The encrypted secret.
        last: The time step of the last accepted code. No code of it or before is accepted again.
        address: The address of the person at the enrolment; see `Person.is_still`.
        kept: The record as it was read, with the fields of a later version.
    """

    version: int
    sealed: str
    last: int
    address: str = ""
    kept: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def to_json(self) -> str:
        """Return the content of the record."""
        fields = {"sealed": self.sealed, "last": self.last, "address": self.address}
        return json.dumps({**self.kept, **fields})


class Factors:
    """The second factors of all people.

    The key encrypts the secrets. The previous key decrypts older ones; None or "" for none.

    Raises:
        ConfigError: There is no key.
    """

    def __init__(self, ledger: Ledger, key: SecretStr, previous: SecretStr | None = None) -> None:
        if not key.get_secret_value():
            raise ConfigError(
                "secret_key is not set here: it encrypts the secrets of second factors. Set "
                "SIGNOFF_INBOX__SECRET_KEY to the key of the gateways.",
                key="inbox.secret_key",
            )
        self._ledger = ledger
        self._keys = [one for one in (key, previous) if one and one.get_secret_value()]

    async def enroll(self, person: Person, *, by: str, replace: bool = False) -> str:
        """Give a person a new secret, and return it as an ``otpauth://`` address.

        Second factors of another person, who had the id earlier, become invalid.

        Args:
            person: The person.
            by: The operator, for the audit.
            replace: Whether to replace the second factors of the person, after the loss of a phone
                for example. All passkeys become invalid.

        Raises:
            ConfigError: The person has a secret, and it is not to be replaced.
        """
        found = await _find(self._ledger, person.id)
        others = found is not None and not person.is_still(found.address)
        if found is not None and not replace and not others:
            raise ConfigError(
                f"{person.shown} is enrolled. With --replace there is a new secret, the old one "
                "is void, and all sessions end."
            )
        secret = pyotp.random_base32()
        sealed = self._seal(person.id, secret)
        made = Enrolment(found.version if found else 0, sealed, 0, person.email)
        change = Change().put_raw(_KEYS + person.id, made.to_json(), was=made.version)
        await begin_epoch(self._ledger, change, person.id)
        if replace or others:
            await drop_passkeys(self._ledger, change, person.id)
        await self._ledger.commit(
            change.note([await _event(self._ledger, What.ENROLLED, person.id, by)])
        )
        return pyotp.TOTP(secret).provisioning_uri(name=person.email, issuer_name=ISSUER)

    async def reseal(self) -> tuple[list[str], list[str]]:
        """Encrypt with the current key the secrets that the previous one has encrypted.

        Returns:
            The ids of the people whose secrets were encrypted again, and of those whose secrets
            neither key decrypts.
        """
        done, lost = [], []
        for person in await _with_app(self._ledger):
            match await self._ledger.decide_again(partial(self._reseal, person)):
                case True:
                    done.append(person)
                case None:
                    lost.append(person)
        return done, lost

    async def _reseal(self, person: str) -> bool | None:
        found = await _find(self._ledger, person)
        if found is None:
            return False
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 -- as below

        with suppress(InvalidToken):
            _fernet(self._keys[0]).decrypt(found.sealed)
            return False
        try:
            anew = self._fernet.rotate(found.sealed.encode()).decode()
        except InvalidToken:
            return None
        await self._put(person, replace(found, sealed=anew))
        return True

    async def has(self, person: Person) -> bool:
        """Return whether a person has an authenticator app."""
        found = await _find(self._ledger, person.id)
        return found is not None and person.is_still(found.address)

    async def check(self, person: Person | None, code: str) -> bool:
        """Check a code as it was typed, which is accepted once (RFC 6238, section 5.2).

        It does the same, and takes the same time, if there is no such person (None).

        Returns:
            Whether the code is right.
        """
        whose = person.id if person is not None else ""
        found = await _find(self._ledger, whose)
        secret = self._unseal(whose, found)
        step = self.step_of(secret, code, await self._ledger.now())
        if person is None or found is None or step <= found.last:
            return False
        if not person.is_still(found.address):
            log.warning("inbox.factor_of_another_address", person=whose)
            return False
        bound = found.address or person.email
        try:
            await self._put(whose, replace(found, last=step, address=bound))
        except Conflict:
            return False  # the same code came twice at the same time
        return True

    @staticmethod
    def step_of(secret: str, code: str, now: datetime) -> int:
        """Return the time step of a code, 0 if it belongs to none of the steps around now."""
        typed = "".join(code.split())
        if len(typed) != _DIGITS or not (typed.isascii() and typed.isdigit()):
            typed = "-" * _DIGITS
        totp, present = pyotp.TOTP(secret, digits=_DIGITS, interval=_STEP), int(now.timestamp())
        steps = [present // _STEP + offset for offset in _WINDOW]
        right = [step for step in steps if hmac.compare_digest(totp.generate_otp(step), typed)]
        return max(right, default=0)

    async def _put(self, person: str, one: Enrolment) -> None:
        await self._ledger.commit(Change().put_raw(_KEYS + person, one.to_json(), was=one.version))

    # Created on demand: cryptography needs 8 MB, and many processes never check a code.
    @cached_property
    def _fernet(self) -> MultiFernet:
        from cryptography.fernet import MultiFernet  # noqa: PLC0415

        return MultiFernet([_fernet(one) for one in self._keys])

    @cached_property
    def _nobody(self) -> Enrolment:
        """Checked instead of a missing secret, so that it takes as long."""
        return Enrolment(0, self._seal("", pyotp.random_base32()), 0)

    def _seal(self, person: str, secret: str) -> str:
        return self._fernet.encrypt(json.dumps([person, secret]).encode()).decode()

    def _unseal(self, person: str, found: Enrolment | None) -> str:
        """Return the secret of a person, a random one if there is none."""
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 -- as above

        nobody = self._nobody
        try:
            whose, secret = json.loads(self._fernet.decrypt((found or nobody).sealed))
        except InvalidToken:
            log.error("inbox.factor_sealed_with_another_key", person=person)  # noqa: TRY400 -- it says it all
            return pyotp.random_base32()
        return str(secret) if found is not None and whose == person else pyotp.random_base32()


async def unenroll(ledger: Ledger, person: str, *, by: str) -> bool:
    """Remove a person's second factors, with all passkeys, and sign them out everywhere.

    The person is given by id, and `by` is the operator, for the audit.

    Returns:
        Whether there was one.
    """

    async def attempt() -> bool:
        found, change = await _find(ledger, person), Change()
        if not await drop_passkeys(ledger, change, person) and found is None:
            return False
        if found is not None:
            change.put_raw(_KEYS + person, "", was=found.version)
        await begin_epoch(ledger, change, person)
        await ledger.commit(change.note([await _event(ledger, What.UNENROLLED, person, by)]))
        return True

    return await ledger.decide_again(attempt)


async def enrolled(ledger: Ledger, people: Iterable[Person]) -> list[str]:
    """Return the ids of those people who have a second factor, sorted."""
    everybody = list(people)
    found = await _addresses(ledger, everybody)
    return sorted(
        one.id
        for one in everybody
        if any(one.is_still(address) for address in found.get(one.id, ()))
    )


async def enrolled_for_others(ledger: Ledger, people: Iterable[Person]) -> dict[str, str]:
    """Return the ids under which a second factor is of an address that its person does not have.

    Returns:
        By id, that address.
    """
    everybody = list(people)
    found = await _addresses(ledger, everybody)
    return {
        one.id: address
        for one in everybody
        for address in found.get(one.id, ())
        if not one.is_still(address)
    }


async def _addresses(ledger: Ledger, people: Sequence[Person]) -> Mapping[str, Sequence[str]]:
    """Return the addresses for which the second factors under each id were enrolled."""
    ids, found = [one.id for one in people], defaultdict[str, list[str]](list)
    apps = await ledger.store.read([_KEYS + one for one in ids])
    for one, record in zip(ids, apps, strict=True):
        if record is not None:
            found[one].append(_enrolment(*record).address)
    for passkey in await all_passkeys(ledger, ids):
        found[passkey.person].append(passkey.address)
    return found


async def _with_app(ledger: Ledger) -> list[str]:
    keys = await ledger.store.keys(_KEYS, "string")
    return sorted(key.removeprefix(_KEYS) for key in keys)


def _fernet(key: SecretStr) -> Fernet:
    from cryptography.fernet import Fernet  # noqa: PLC0415 -- as above

    digest = hashlib.sha256(b"signoff.inbox\0" + key.get_secret_value().encode()).digest()
    return Fernet(base64.urlsafe_b64encode(digest))


async def _find(ledger: Ledger, person: str) -> Enrolment | None:
    record = await ledger.raw(_KEYS + person)
    return None if record is None else _enrolment(*record)


def _enrolment(version: int, text: str) -> Enrolment:
    data = json.loads(text)
    address = str(data.get("address", ""))
    return Enrolment(version, data["sealed"], data["last"], address, data)


async def _event(ledger: Ledger, what: What, person: str, by: str) -> Event:
    return Event(what=what, at=await ledger.now(), by=by, more={"person": person})
