"""Identifies the sender of a request by its API token (RFC 6750)."""

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
    """Finds the owner of a request's token, and counts how often the token is used.

    The rate is the most requests a minute for one token; 0 for no limit.
    """

    def __init__(self, decisions: Decisions, rate: int) -> None:
        self._decisions = decisions
        self._rate = rate
        self._throttle = Throttle(decisions.ledger.store)

    async def admit(self, request: Request) -> tuple[Access, str]:
        """Return what the sender may do, and the token.

        Raises:
            Problem: 401 without a known token; 429 if the token is used too often, or if many
                invalid tokens come from the same network.
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
                # RFC 6750, section 3: no error code if no token was sent.
                headers={
                    "WWW-Authenticate": 'Bearer realm="signoff"'
                    + (', error="invalid_token"' if given else "")
                },
            )
        if wait := await self._throttle.token_pause(found.id, self._rate):
            words = f"This token may make {self._rate:,} requests a minute ([gateway] rate)."
            raise too_many(words, wait)
        # Responses show who is away now, and what is frozen.
        await self._decisions.roster.refresh()
        return found, token

    async def _slow_down(self, request: Request, given: str) -> None:
        """Make a network that sends many invalid tokens wait.

        Valid tokens are never refused: 256 random bits cannot be guessed, and one client behind a
        proxy must not lock out the others.
        """
        if not given:
            return
        peer = network_of(request.client.host if request.client is not None else "")
        key = f"tries:token:{hashed(peer)}"
        if wait := await self._throttle.pause(Rule(key, _WRONG, _WHILE)):
            if await self._throttle.allow(Rule(f"{key}:told", 1, _WHILE)):
                log.warning("gateway.wrong_tokens", peer=peer)
            raise too_many("Too many invalid tokens came from this network.", wait)


def too_many(words: str, wait: float) -> Problem:
    """Return the problem for what exceeded a limit, with the seconds after which to try again."""
    seconds = math.ceil(wait)
    return Problem(
        429,
        "too-many-requests",
        "Too many requests",
        f"{words} Try again in {seconds} seconds.",
        headers={"Retry-After": str(seconds)},
    )
