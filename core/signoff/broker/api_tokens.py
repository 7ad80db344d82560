"""API tokens in the ledger: made, found again by what they carry, and revoked.

A token is ``signoff_<id>_<secret>``. The ledger knows only the SHA-256 of the secret, which has 256
random bits, so who can read the ledger cannot use it; the text itself is shown once.
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
from signoff.core.directory.people import Directory

log = structlog.get_logger(__name__)

PREFIX: Final = "signoff_"
"""What every token begins with."""

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
    users: tuple[str, ...] = (),
    apps: tuple[str, ...] = (),
    expires_at: datetime | None = None,
) -> tuple[str, Access]:
    """Make a token.

    Args:
        ledger: Where it is kept.
        scopes: What it is good for.
        by: Who makes it, for the audit.
        name: See `Access`, as for the following.
        person: The id of a person.
        users: ADK users.
        apps: Agents.
        expires_at: When it expires (UTC).

    Returns:
        The token, which can never be found out again, and what is kept of it.

    Raises:
        InvalidToken: Nobody may have such a token.
    """
    now = await ledger.now()
    secret = _random(32)
    try:
        access = Access(
            id=_random(10)[:10],
            name=name,
            person=person,
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
        raise InvalidToken(f"{first['msg'].removeprefix('Value error, ')}.") from error
    if access.has_expired(now):
        raise InvalidToken("It would have expired before it was made.")
    await ledger.commit(_put(Change(), access))
    return f"{PREFIX}{access.id}_{secret}", access


def issue(
    change: Change, *, instance: str, name: str, app: str, seed: bytes, by: str, now: datetime
) -> tuple[str, str]:
    """Add to a change the credential of an instance.

    Args:
        change: Added to.
        instance: The id of the instance.
        name: What the token is called in the audit.
        app: The app as which it asks.
        seed: Random bytes of which the token is made: the same ones make the same token.
        by: Who makes it, for the audit.
        now: The present.

    Returns:
        The token, and its id.
    """
    token, token_id = made_of(seed)
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


def made_of(seed: bytes) -> tuple[str, str]:
    """Return the token that random bytes make, and its id."""
    token_id = _letters(hashlib.sha256(b"id" + seed).digest())[:10]
    secret = _letters(hashlib.sha256(b"secret" + seed).digest())
    return f"{PREFIX}{token_id}_{secret}", token_id


async def take_away(ledger: Ledger, change: Change, token_id: str, *, by: str) -> None:
    """Add to a change that a token is worth nothing any more, if it is still worth something."""
    record = await ledger.raw(_KEYS + token_id)
    access = None if record is None else _read(record[1])
    if record is not None and access is not None:
        change.put_raw(_KEYS + token_id, "", was=record[0])
        change.note([_event(access, What.TOKEN_REVOKED, await ledger.now(), by)])


def _put(change: Change, access: Access) -> Change:
    change.put_raw(_KEYS + access.id, access.model_dump_json(exclude_defaults=True))
    event = _event(access, What.TOKEN_CREATED, access.created_at, access.created_by)
    return change.note([event])


async def find(ledger: Ledger, token: str) -> Access | None:
    """Return what the holder of a token may do; None for one that is worth nothing.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    form = _FORM.fullmatch(token)
    name, secret = form.groups() if form else ("", "")
    (record,), now = await ledger.store.read_now([_KEYS + name])
    access = None if record is None else _read(record[1])
    # Compared even where there is no such token, so that the time says nothing.
    fits = hmac.compare_digest(access.sha256 if access else _NOBODY, _hash(secret))
    return access if fits and access is not None and not access.has_expired(now) else None


async def holder(ledger: Ledger, directory: Directory, token: str) -> Access | None:
    """Return what `find` does; None as well where it is of a person who is not there any more."""
    found = await find(ledger, token) if token else None
    if found is None or (found.person and directory.get(found.person) is None):
        return None
    return found


async def everyone(ledger: Ledger) -> list[Access]:
    """Return all tokens, the oldest first, those that have expired included."""
    keys = await ledger.store.keys(_KEYS, "string")
    records = await ledger.store.read(keys)
    found = [_read(record[1]) for record in records if record is not None]
    return sorted((one for one in found if one is not None), key=lambda one: one.created_at)


async def revoke(ledger: Ledger, token_id: str, *, by: str) -> Access:
    """Make a token worth nothing, and return what it was.

    Raises:
        TokenNotFound: There is none with this id.
    """

    async def attempt() -> Access:
        record = await ledger.raw(_KEYS + token_id)
        access = None if record is None else _read(record[1])
        if record is None or access is None:
            raise TokenNotFound(token_id)
        change = Change().put_raw(_KEYS + token_id, "", was=record[0])
        now = await ledger.now()
        await ledger.commit(change.note([_event(access, What.TOKEN_REVOKED, now, by)]))
        return access

    return await ledger.decide_again(attempt)


def _read(text: str) -> Access | None:
    try:
        return Access.model_validate_json(text)
    except ValidationError as error:
        # It has a scope of a newer version; what cannot be read lets nobody in.
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
