"""Creates, finds and revokes API tokens.

A token is ``signoff_<id>_<secret>``. The ledger has only the SHA-256 of the secret, which has 256
random bits. So the ledger's contents are no use for signing in, and a token is shown only once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from datetime import datetime
from typing import Final

import structlog
from pydantic import ValidationError

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.access.api_tokens import Access
from signoff.core.access.scopes import Scope
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import InvalidToken, TokenNotFound
from signoff.core.base.plain import plainly
from signoff.core.directory.people import Directory

log = structlog.get_logger(__name__)

PREFIX: Final = "signoff_"
"""The prefix of every token."""

_ASKING: Final = frozenset({Scope.RUNS_SUBMIT, Scope.INSTANCES_MANAGE})
"""The scopes with which a program makes requests, itself or by an instance that it creates."""

_KEYS: Final = "access:"
_FORM: Final = re.compile(r"signoff_([a-z2-7]{10})_([a-z2-7]{52})")
_NOBODY: Final = "0" * 64


async def create(
    ledger: Ledger,
    *,
    scopes: frozenset[Scope],
    by: str,
    name: str = "",
    person: str = "",
    address: str = "",
    users: tuple[str, ...] = (),
    apps: tuple[str, ...] = (),
    expires_at: datetime | None = None,
) -> tuple[str, Access]:
    """Create a token.

    Args:
        ledger: The ledger.
        scopes: The scopes of the token; see `Access` for these and the following.
        by: Who creates it, for the audit.
        name: The name.
        person: The id of a person.
        address: The address of that person.
        users: ADK users.
        apps: Apps.
        expires_at: When it expires (UTC).

    Returns:
        The token, which is not stored, and its record.

    Raises:
        InvalidToken: The parts contradict each other, or the token has expired already.
    """
    now = await ledger.now()
    secret = _random(32)
    try:
        access = Access(
            id=_random(10)[:10],
            name=name,
            person=person,
            address=address,
            users=users,
            apps=apps,
            scopes=scopes,
            sha256=_hash(secret),
            created_at=now,
            created_by=by,
            expires_at=expires_at,
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InvalidToken(f"{plainly(first)}.") from error
    if access.is_admin and (asks := sorted(access.scopes & _ASKING)):
        raise InvalidToken(
            f"{Scope.ADMIN} chooses who decides, so it cannot be on a token that makes requests "
            f"({', '.join(asks)}). Make two."
        )
    if access.has_expired(now):
        raise InvalidToken("The expiry is in the past.")
    await ledger.commit(_put(Change(), access))
    return f"{PREFIX}{access.id}_{secret}", access


def issue(
    change: Change, *, instance: str, name: str, app: str, seed: bytes, by: str, now: datetime
) -> tuple[str, str]:
    """Add the token of a program's instance to a change.

    Args:
        change: The change to extend.
        instance: The id of the instance.
        name: The name of the token.
        app: The app in whose name the instance sends requests.
        seed: Random bytes; see `token_of`.
        by: Who creates it, for the audit.
        now: The present.

    Returns:
        The token and its id.
    """
    token, token_id = token_of(seed)
    access = Access(
        id=token_id,
        name=name,
        apps=(app,),
        instance=instance,
        scopes=frozenset({Scope.REQUESTS_SUBMIT}),
        sha256=_hash(token.rpartition("_")[2]),
        created_at=now,
        created_by=by,
    )
    _put(change, access)
    return token, token_id


def token_of(seed: bytes) -> tuple[str, str]:
    """Return the token that is derived from random bytes, and its id."""
    token_id = _letters(hashlib.sha256(b"id" + seed).digest())[:10]
    secret = _letters(hashlib.sha256(b"secret" + seed).digest())
    return f"{PREFIX}{token_id}_{secret}", token_id


async def add_revocation(
    ledger: Ledger, change: Change, token_id: str, *, by: str
) -> Access | None:
    """Add the revocation of a token to a change, and return its record; None if there is none."""
    record = await ledger.raw(_KEYS + token_id)
    access = None if record is None else _read(record[1])
    if record is None or access is None:
        return None
    change.put_raw(_KEYS + token_id, "", was=record[0])
    change.note([_event(access, What.TOKEN_REVOKED, await ledger.now(), by)])
    return access


def _put(change: Change, access: Access) -> Change:
    change.put_raw(_KEYS + access.id, access.model_dump_json(exclude_defaults=True))
    event = _event(access, What.TOKEN_CREATED, access.created_at, access.created_by)
    return change.note([event])


async def find(ledger: Ledger, token: str) -> Access | None:
    """Return the access of a token, None if it is unknown, revoked or expired.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    form = _FORM.fullmatch(token)
    name, secret = form.groups() if form else ("", "")
    (record,), now = await ledger.store.read_now([_KEYS + name])
    access = None if record is None else _read(record[1])
    # Compared even if the token is unknown, so that the response time reveals nothing.
    fits = hmac.compare_digest(access.sha256 if access else _NOBODY, _hash(secret))
    return access if fits and access is not None and not access.has_expired(now) else None


async def holder(ledger: Ledger, directory: Directory, token: str) -> Access | None:
    """Return the access of a token; see `find`. A token of a person who has left gives none."""
    found = await find(ledger, token) if token else None
    if found is None or not found.person:
        return found
    person = directory.get(found.person)
    if person is None:
        return None
    if not person.is_still(found.address):
        log.warning("access.of_another_address", person=person.id, token=found.id)
        return None
    return found


async def all_tokens(ledger: Ledger) -> list[Access]:
    """Return all tokens, including expired ones, the oldest first."""
    keys = await ledger.store.keys(_KEYS, "string")
    records = await ledger.store.read(keys)
    found = [_read(record[1]) for record in records if record is not None]
    return sorted((one for one in found if one is not None), key=lambda one: one.created_at)


async def revoke(ledger: Ledger, token_id: str, *, by: str) -> Access:
    """Revoke a token, and return its record.

    Raises:
        TokenNotFound: There is no token with this id.
    """

    async def attempt() -> Access:
        change = Change()
        access = await add_revocation(ledger, change, token_id, by=by)
        if access is None:
            raise TokenNotFound(token_id)
        await ledger.commit(change)
        return access

    return await ledger.decide_again(attempt)


def _read(text: str) -> Access | None:
    try:
        return Access.model_validate_json(text)
    except ValidationError as error:
        # It may have a scope of a newer version. An unreadable token gives no access.
        log.error("access.unreadable", error=str(error))  # noqa: TRY400 -- the message says it all
        return None


def _event(access: Access, what: What, now: datetime, by: str) -> Event:
    return Event(
        what=what,
        at=now,
        by=by,
        more={
            "token": access.id,
            "name": access.name,
            "person": access.person,
            "scopes": sorted(access.scopes),
        },
    )


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _random(size: int) -> str:
    return _letters(secrets.token_bytes(size))


def _letters(data: bytes) -> str:
    return base64.b32encode(data).decode().rstrip("=").lower()
