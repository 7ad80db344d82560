"""Who sends a request: the holder of an API token, which the request carries (RFC 6750)."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Final

import structlog
from starlette.requests import Request

from signoff.broker.api_tokens import holder
from signoff.broker.decisions import Decisions
from signoff.broker.limits.throttle import Rule, Throttle, hashed, network_of
from signoff.channels.web.problems import Problem
from signoff.core.access.api_tokens import Access

log = structlog.get_logger(__name__)

_WRONG: Final = 60
_WHILE: Final = timedelta(minutes=15)


class Bearers:
    """Finds out whose token a request has, and counts how often it is used.

    Args:
        decisions: Its ledger keeps the tokens, and its directory the people.
        rate: How many requests a minute one token may make; 0 for any number.
    """

    def __init__(self, decisions: Decisions, rate: int = 0) -> None:
        self._decisions = decisions
        self._rate = rate
        self._throttle = Throttle(decisions.ledger.store)

    async def admit(self, request: Request) -> tuple[Access, str]:
        """Return what the sender may do, and the token.

        Raises:
            Problem: 401 without a token that is known, 429 where it was used too often, or where
                many wrong ones came from the same network.
            LedgerUnavailable: Redis cannot be reached.
        """
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        token = given.strip() if scheme.lower() == "bearer" else ""
        found = await holder(self._decisions.ledger, self._decisions.directory, token)
        if found is None:
            await self._slow_down(request, given)
            raise Problem(
                401,
                "unauthenticated",
                "A token is needed",
                "Send `Authorization: Bearer TOKEN` with a token that `signoff tokens create` "
                "made, and that has not expired or been revoked.",
                # RFC 6750, section 3: no error code where no token was sent.
                headers={
                    "WWW-Authenticate": 'Bearer realm="signoff"'
                    + (', error="invalid_token"' if given else "")
                },
            )
        if wait := await self._throttle.token_pause(found.id, self._rate):
            words = f"This token may make {self._rate:,} requests a minute ([gateway] rate)."
            raise too_many(words, wait)
        return found, token

    async def _slow_down(self, request: Request, given: str) -> None:
        """Make a network wait that sends many wrong tokens.

        The holder of a token is never kept out: 256 random bits are not guessed, and a client
        behind the same proxy must not be able to lock the others out.
        """
        if not given:
            return
        peer = network_of(request.client.host if request.client is not None else "")
        key = f"tries:token:{hashed(peer)}"
        if wait := await self._throttle.pause(Rule(key, _WRONG, _WHILE)):
            if await self._throttle.allow(Rule(f"{key}:told", 1, _WHILE)):
                log.warning("gateway.wrong_tokens", peer=peer)
            raise too_many("Too many wrong tokens have come from this network.", wait)


def too_many(words: str, wait: float) -> Problem:
    """Return the problem of a request that comes too early.

    Args:
        words: What there were too many of.
        wait: Seconds after which it may come again.
    """
    seconds = math.ceil(wait)
    return Problem(
        429,
        "too-many-requests",
        "Too many requests",
        f"{words} Come again in {seconds} seconds.",
        headers={"Retry-After": str(seconds)},
    )
