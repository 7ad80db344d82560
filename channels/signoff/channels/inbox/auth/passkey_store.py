"""Stores passkeys in the ledger: public keys, with which a reader of Redis cannot sign in."""

from __future__ import annotations

import base64
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, TypeAdapter

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import to_us
from signoff.channels.web.signatures import sha256_of
from signoff.core.approvals.events import Event, What
from signoff.core.directory.people import Person

INVITED: Final = timedelta(days=1)
"""How long an operator's one-time code is valid."""

_ALL: Final = "passkeys:"


@dataclass(frozen=True, slots=True)
class Passkey:
    """A passkey of a person.

    Attributes:
        id: Its credential id, in base64url.
        version: The version of its record.
        person: The id of the person.
        public: The public key (COSE), in base64url.
        count: Its signature counter; 0 if the authenticator does not count.
        name: The name that the person has given it.
        added: When it was added (UTC).
        used: When it was last used (UTC), None for never.
        transports: How browsers reach the authenticator.
        address: The address of the person when it was added; see `Person.is_still`.
        kept: The record as it was read, with the fields of a later version.
    """

    id: str
    version: int
    person: str
    public: str
    count: int
    name: str
    added: datetime
    used: Annotated[datetime | None, BeforeValidator(lambda at: at or None)] = None
    transports: tuple[str, ...] = ()
    address: str = ""
    kept: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def key(self) -> str:
        """The key of its record."""
        return f"passkey:{sha256_of(self.id)}"

    def put(self, change: Change) -> Change:
        """Add the write of this passkey to a change."""
        fields = _PASSKEY.dump_python(self, mode="json", exclude={"version", "kept"})
        data = json.dumps({**self.kept, **fields})
        entry = (_ALL + self.person, sha256_of(self.id), to_us(self.added))
        return change.put_raw(self.key, data, was=self.version, add=[entry])

    def drop(self, change: Change) -> Change:
        """Add the deletion of this passkey to a change."""
        entry = (_ALL + self.person, sha256_of(self.id), 0)
        return change.put_raw(self.key, "", was=self.version, drop=[entry])


_PASSKEY: Final = TypeAdapter(Passkey)


async def passkeys_of(ledger: Ledger, person: Person) -> list[Passkey]:
    """Return the passkeys of a person, the oldest first."""
    found = await all_passkeys(ledger, [person.id])
    return [one for one in found if person.is_still(one.address)]


async def has_passkey(ledger: Ledger, person: Person) -> bool:
    """Return whether a person has a passkey."""
    return bool(await passkeys_of(ledger, person))


async def all_passkeys(ledger: Ledger, people: Sequence[str]) -> list[Passkey]:
    """Return the passkeys under these ids, also of people who had one earlier."""
    sizes = await ledger.store.sizes([_ALL + one for one in people])
    able = [one for one, size in zip(people, sizes, strict=True) if size]
    hashes = [key for one in able for key in await ledger.store.members(_ALL + one)]
    records = await ledger.store.read([f"passkey:{one}" for one in hashes])
    return [_passkey(*record) for record in records if record is not None]


async def passkey_called(ledger: Ledger, credential: str) -> Passkey | None:
    """Return the passkey with this credential id, None if it is unknown."""
    record = await ledger.raw(f"passkey:{sha256_of(credential)}")
    return _passkey(*record) if record is not None else None


async def drop_passkeys(ledger: Ledger, change: Change, person: str) -> int:
    """Add the deletion of all passkeys under an id to a change; return their number."""
    found = await all_passkeys(ledger, [person])
    for one in found:
        one.drop(change)
    return len(found)


async def invite(ledger: Ledger, person: str, *, by: str) -> str:
    """Return a code with which a person may add a passkey, once.

    It cannot sign anybody in: it is accepted only in a session of this person.

    Args:
        ledger: Stores its hash.
        person: The id of the person.
        by: The operator, for the audit.
    """
    letters = base64.b32encode(secrets.token_bytes(10)).decode().lower()
    now, more = await ledger.now(), {"person": person}
    data = {"person": person, "until": (now + INVITED).isoformat()}
    change = Change().put_raw(_invitation(letters), json.dumps(data), ttl=INVITED)
    await ledger.commit(change.note([Event(what=What.INVITED, at=now, by=by, more=more)]))
    return "-".join(letters[at : at + 4] for at in range(0, len(letters), 4))


async def invited(ledger: Ledger, person: str, code: str) -> tuple[str, int] | None:
    """Return the key and version of the record of a person's code, None if it is not valid."""
    key = _invitation("".join(one for one in code.lower() if one.isalnum()))
    record = await ledger.raw(key)
    if record is None:
        return None
    data = json.loads(record[1])
    good = data["person"] == person and await ledger.now() < datetime.fromisoformat(data["until"])
    return (key, record[0]) if good else None


def handle_of(person: str, secret: str) -> bytes:
    """Return the id of a person for authenticators (32 bytes), which reveals nothing to others."""
    return hmac.digest(secret.encode(), b"signoff.passkey\0" + person.encode(), "sha256")


def _invitation(letters: str) -> str:
    return f"invitation:{sha256_of(letters)}"


def _passkey(version: int, text: str) -> Passkey:
    data = json.loads(text)
    return _PASSKEY.validate_python({**data, "version": version, "kept": data})
