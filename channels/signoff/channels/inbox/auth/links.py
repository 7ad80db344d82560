"""Sign-in links: valid for minutes, once, and in the browser that requested them.

The ledger has only the hashes of the link and of the browser's cookie, so a reader of Redis can use
neither. A request does the same for every address, so it does not reveal who is in the directory:
only the stage `sign_in`, which mails the link, looks up the address.
"""

from __future__ import annotations

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
from signoff.channels.web.signatures import sha256_of
from signoff.core.directory.people import identity_key

LASTS: Final = timedelta(minutes=10)
"""How long a link is valid."""

_ADDRESS_LIMITS: Final = ((5, timedelta(minutes=15)), (20, timedelta(days=1)))
_PEER_LIMIT: Final = (40, timedelta(minutes=15))
_LENGTH: Final = 43
_LONGEST_ADDRESS: Final = 254


@dataclass(frozen=True, slots=True)
class Link:
    """A link that was not used yet.

    Attributes:
        key: The key of its record.
        version: The version of its record.
        person: The id of the person that it signs in.
        how: The sign-in method that the session records.
        to: The path to show after the sign-in.
        bound: The hash of the cookie of the browser that requested it; "" for any browser.
    """

    key: str
    version: int
    person: str
    how: How
    to: str
    bound: str

    def is_of(self, secret: str) -> bool:
        """Return whether a browser with this cookie may use it."""
        return not self.bound or hmac.compare_digest(self.bound, sha256_of(secret))

    def used(self) -> Change:
        """Return the change that uses it up; a second commit raises `Conflict`."""
        return Change().put_raw(self.key, "", was=self.version)


class Links:
    """Takes requests for links, and finds the links that are opened."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._throttle = Throttle(ledger.store)

    async def ask(self, address: str, *, to: str, secret: str, browser: str, peer: str) -> None:
        """Request a link, which is mailed if the address is in the directory.

        Args:
            address: The address as it was typed.
            to: The path to show after the sign-in.
            secret: The cookie of the browser.
            browser: The name of the browser; see `browser_of`.
            peer: The IP address of the client.

        Raises:
            TooManyAttempts: There were too many requests for this address, or from this client.
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
            bound=sha256_of(secret),
            browser=browser,
            asked=await self._ledger.now(),
        )
        await self._ledger.commit(Change().send(work))

    async def find(self, token: str) -> Link | None:
        """Return the link with this token, None if there is none or it has expired."""
        if len(token) != _LENGTH or not token.isascii():
            return None
        key = f"link:{sha256_of(token)}"
        record = await self._ledger.raw(key)
        if record is None:
            return None
        data = json.loads(record[1])
        if await self._ledger.now() >= datetime.fromisoformat(data["until"]):
            return None
        how = How(data["how"])
        return Link(key, record[0], data["person"], how, data["to"], data["bound"])


def new_secret(present: str) -> str:
    """Return the cookie for a browser that requests a link: its present one, if it is valid."""
    return present if len(present) == _LENGTH and present.isascii() else secrets.token_urlsafe(32)


async def make_link(
    ledger: Ledger, person: str, *, how: How, to: str, bound: str = ""
) -> tuple[str, datetime]:
    """Create a link that signs a person in.

    Args:
        ledger: The ledger.
        person: The id of the person.
        how: The sign-in method that its session records.
        to: The path to show after the sign-in.
        bound: The hash of the cookie of the browser that requested it; "" for any browser.

    Returns:
        Its path, which is a secret, and its end (UTC).
    """
    token, until = secrets.token_urlsafe(32), await ledger.now() + LASTS
    data = {
        "person": person,
        "how": how.value,
        "to": to,
        "bound": bound,
        "until": until.isoformat(),
    }
    await ledger.commit(Change().put_raw(f"link:{sha256_of(token)}", json.dumps(data), ttl=LASTS))
    return f"{ROOT}/sign-in/link/{token}", until
