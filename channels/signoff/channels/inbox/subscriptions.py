"""The push subscriptions of people's browsers, in the ledger.

They end after a while, when the person signs out everywhere, and when another person signs in with
the same browser: it would show one person the requests of the other. A push service takes messages
for a subscription only if Signoff's private key signs them. Only the sender has that key. It
publishes the public key in the ledger, for the pages on which browsers subscribe.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.inbox.auth.epochs import epoch_of
from signoff.channels.inbox.vapid import decoded
from signoff.core.directory.people import Person

LASTS: Final = timedelta(days=180)
"""How long a browser is notified before its user has to turn it on again."""

_MOST: Final = 10
"""The most browsers of one person; a new one replaces the oldest."""

_OURS: Final = "push::key"
"""The key of the public key. No id of a person begins with a colon."""

_MARK: Final = re.compile(r"([0-9a-f]{16})\.([A-Za-z0-9][A-Za-z0-9._-]{0,63})")
_LONGEST: Final = 1000
_SECRET: Final = 16


class SubscriptionRefused(Exception):
    """A browser has sent an invalid subscription."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A browser that is notified.

    Attributes:
        endpoint: Where its push service takes messages.
        key: Its public key, in base64url (`p256dh`).
        auth: Its secret, in base64url.
        browser: The name of the browser, as the page shows it.
        since: When it was turned on (UTC).
        until: When it ends (UTC).
        epoch: The epoch of the session in which it was turned on.
        ours: The public key of Signoff that its push service accepts.
        address: The address of the person when it was turned on; see `Person.is_still`.
    """

    endpoint: str
    key: str
    auth: str
    browser: str
    since: datetime
    until: datetime
    epoch: str
    ours: str
    address: str = ""

    @property
    def id(self) -> str:
        """A hash of the endpoint."""
        return hashlib.sha256(self.endpoint.encode()).hexdigest()[:16]


_ALL: Final = TypeAdapter(tuple[Subscription, ...])


def read_endpoint(text: str, *, allow_private: bool) -> str:
    """Return the endpoint of a subscription.

    The addresses of its host are checked when something is posted there; see `Poster`.

    Raises:
        SubscriptionRefused: It is not valid.
    """
    try:
        parts = urlsplit(text)
        _ = parts.port  # parsed on access
    except ValueError as error:
        raise SubscriptionRefused("The address of the push service is not valid.") from error
    host = parts.hostname or ""
    plain = len(text) <= _LONGEST and text.isascii() and text.isprintable() and " " not in text
    if not plain or not host or parts.username is not None or parts.fragment:
        raise SubscriptionRefused("The address of the push service is not valid.")
    if not allow_private and (parts.scheme != "https" or _is_address(host)):
        raise SubscriptionRefused(
            "The address of a push service has a host name, and begins with https://."
        )
    if parts.scheme not in {"http", "https"}:
        raise SubscriptionRefused("The address of the push service is not valid.")
    return text


def read_keys(key: str, auth: str) -> tuple[str, str]:
    """Return the keys of a subscription.

    Raises:
        SubscriptionRefused: They are not valid.
    """
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 -- 8 MB, for few

    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decoded(key))
        secret = decoded(auth)
    except ValueError as error:
        raise SubscriptionRefused("The keys of the subscription are not valid.") from error
    if len(secret) != _SECRET:
        raise SubscriptionRefused("The secret of the subscription has the wrong length.")
    return key, auth


async def publish_key(ledger: Ledger, ours: str) -> None:
    """Publish the public key of the sender in the ledger; browsers subscribe with it from now on.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """

    async def attempt() -> None:
        version, known = await ledger.raw(_OURS) or (0, "")
        if known != ours:
            await ledger.commit(Change().put_raw(_OURS, ours, was=version))

    await ledger.decide_again(attempt)


async def published_key(ledger: Ledger) -> str:
    """Return the public key of the sender (base64url), "" if no sender has run yet."""
    _, ours = await ledger.raw(_OURS) or (0, "")
    return ours


async def subscriptions_of(ledger: Ledger, person: Person, ours: str) -> list[Subscription]:
    """Return the subscriptions of a person for our public key, the latest first."""
    record = await ledger.raw(_key(person.id))
    if record is None:
        return []
    epoch, now = await epoch_of(ledger, person.id), await ledger.now()
    found = [
        one
        for one in _ALL.validate_json(record[1])
        if (one.epoch, one.ours) == (epoch, ours) and person.is_still(one.address)
    ]
    return sorted((one for one in found if now < one.until), key=lambda one: one.since)[::-1]


async def subscribed(ledger: Ledger, people: Collection[str]) -> frozenset[str]:
    """Return the people who may have a subscription, in one round trip."""
    ids = sorted(set(people))
    records = await ledger.store.read([_key(one) for one in ids])
    return frozenset(one for one, record in zip(ids, records, strict=True) if record is not None)


async def subscribe(ledger: Ledger, person: str, new: Subscription) -> None:
    """Add a subscription; it replaces an earlier one of the same browser."""

    async def attempt() -> None:
        version, kept = await _read(ledger, person)
        left = [one for one in kept if one.id != new.id and new.since < one.until]
        await ledger.commit(_put(person, version, [*left, new][-_MOST:], new.since))

    await ledger.decide_again(attempt)


async def unsubscribe(ledger: Ledger, person: str, ids: Collection[str]) -> None:
    """Remove subscriptions of a person, if they are there."""

    async def attempt() -> None:
        version, kept = await _read(ledger, person)
        left = [one for one in kept if one.id not in ids]
        if len(left) < len(kept):
            await ledger.commit(_put(person, version, left, await ledger.now()))

    await ledger.decide_again(attempt)


def mark_of(person: str, subscription: Subscription) -> str:
    """Return the cookie of a browser that is notified: it says whose requests it shows."""
    return f"{subscription.id}.{person}"


async def unsubscribe_marked(ledger: Ledger, mark: str, *, unless: str = "") -> None:
    """Remove the subscription that the cookie of a browser names (`mark_of`), if it is valid.

    The person with the id `unless` keeps theirs.
    """
    named = _MARK.fullmatch(mark)
    if named is not None and named[2] != unless:
        await unsubscribe(ledger, named[2], [named[1]])


async def _read(ledger: Ledger, person: str) -> tuple[int, Sequence[Subscription]]:
    record = await ledger.raw(_key(person))
    return (0, ()) if record is None else (record[0], _ALL.validate_json(record[1]))


def _put(person: str, version: int, all_: Sequence[Subscription], now: datetime) -> Change:
    if not all_:
        return Change().put_raw(_key(person), "", was=version)
    data = json.dumps(_ALL.dump_python(tuple(all_), mode="json"))
    lasts = max(one.until for one in all_) - now
    return Change().put_raw(_key(person), data, was=version, ttl=lasts)


def _key(person: str) -> str:
    return f"push:{person}"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return True
