"""One-time links to sign in: good for minutes, once, and in the browser that asked.

What the ledger holds is the hash of a link and the hash of the cookie of the browser, so who reads
it can use neither. Who asks learns nothing about who is there: the request does the same whatever
the address is, and only the stage `sign_in` looks it up, which mails the link.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.limits.throttle import Rule, Throttle, hashed, network_of
from signoff.broker.work import MailLink
from signoff.channels.inbox.auth.sessions import How
from signoff.channels.inbox.auth.sign_in import TooManyAttempts, limited
from signoff.channels.inbox.settings import ROOT
from signoff.core.directory.people import identity_key

LASTS: Final = timedelta(minutes=10)
"""How long a link is good for."""

_ADDRESS_LIMITS: Final = ((5, timedelta(minutes=15)), (20, timedelta(days=1)))
_PEER_LIMIT: Final = (40, timedelta(minutes=15))
_LENGTH: Final = 43
_LONGEST_ADDRESS: Final = 254


@dataclass(frozen=True, slots=True)
class Link:
    """A link that was not used yet.

    Attributes:
        key: Of its record.
        version: Of its record.
        person: The id of the person it signs in.
        how: What sessions say that they began with.
        to: The path to go on to.
        bound: The hash of what the browser that asked has in a cookie; "" for any browser.
    """

    key: str
    version: int
    person: str
    how: How
    to: str
    bound: str

    def is_of(self, secret: str) -> bool:
        """Say whether a browser with this cookie has asked for it."""
        return not self.bound or hmac.compare_digest(self.bound, _hash(secret))

    def used(self) -> Change:
        """Return the change that uses it up; of two at the same moment one is a `Conflict`."""
        return Change().put_raw(self.key, "", was=self.version)


class Links:
    """Takes requests for links, and finds the links that are opened.

    Args:
        ledger: Where they are kept.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._throttle = Throttle(ledger.store)

    async def ask(self, address: str, *, to: str, secret: str, browser: str, peer: str) -> None:
        """Have a link mailed, if this is somebody's address.

        Args:
            address: As it was typed.
            to: The path to go on to after the sign-in.
            secret: What the browser has in a cookie from now on.
            browser: Which browser it is, in our own words.
            peer: Where it is.

        Raises:
            TooManyAttempts: For this address, whosever it is, or from this peer.
        """
        wanted = identity_key(address)
        about = hashed(wanted)
        of_peer = Rule(f"tries:links:peer:{hashed(network_of(peer))}", *_PEER_LIMIT)
        of_address = limited(f"tries:links:address:{about}", _ADDRESS_LIMITS)
        if not await self._throttle.allow(of_peer, *of_address):
            raise TooManyAttempts
        work = MailLink(
            request=secrets.token_hex(8),
            address=wanted[: _LONGEST_ADDRESS + 1],
            to=to,
            bound=_hash(secret),
            browser=browser,
            asked=await self._ledger.now(),
        )
        await self._ledger.commit(Change().send(work))

    async def find(self, token: str) -> Link | None:
        """Return the link with this token, None if there is none, or none any more."""
        if len(token) != _LENGTH or not token.isascii():
            return None
        key = f"link:{_hash(token)}"
        record = await self._ledger.raw(key)
        if record is None:
            return None
        data = json.loads(record[1])
        if await self._ledger.now() >= datetime.fromisoformat(data["until"]):
            return None
        how = How(data["how"])
        return Link(key, record[0], data["person"], how, data["to"], data["bound"])


def new_secret(present: str) -> str:
    """Return what a browser that asks for a link has in its cookie: what it has already, if any."""
    return present if len(present) == _LENGTH and present.isascii() else secrets.token_urlsafe(32)


async def make_link(
    ledger: Ledger, person: str, *, how: How, to: str, bound: str = "", lasts: timedelta = LASTS
) -> tuple[str, datetime]:
    """Make a link that signs somebody in.

    Args:
        ledger: Where it is kept.
        person: The id.
        how: What its session shall say that it began with.
        to: The path to go on to.
        bound: The hash of the cookie of the browser that asked; "" for any browser.
        lasts: How long it is good for.

    Returns:
        Its path, and until when it is good (UTC). The path is the secret: nothing else has it.
    """
    token, until = secrets.token_urlsafe(32), await ledger.now() + lasts
    data = {
        "person": person,
        "how": how.value,
        "to": to,
        "bound": bound,
        "until": until.isoformat(),
    }
    await ledger.commit(Change().put_raw(f"link:{_hash(token)}", json.dumps(data), ttl=lasts))
    return f"{ROOT}/sign-in/link/{token}", until


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
