"""Limits on the mail from one sender, for one request, and from one peer."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Final

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.limits.throttle import Rule, Throttle
from signoff.channels.email.settings import LimitSettings

SPAN: Final = timedelta(hours=1)
"""The time window of a count; it begins with the first mail, by the clock of Redis."""


class Limits:
    """Counts mail, for all gateways and channels together."""

    def __init__(self, ledger: Ledger, settings: LimitSettings) -> None:
        self._ledger = ledger
        self._throttle = Throttle(ledger.store)
        self._settings = settings

    async def allow_recipient(self, token: str, sender: str, *, own: bool = False) -> bool:
        """Count an announced mail, unless it exceeds a limit, and return whether it is accepted.

        Args:
            token: The token of its recipient.
            sender: The envelope sender; the empty one of bounces is not counted.
            own: Whether this is the address of the token's holder, whose mail is counted separately
                from that of all others.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        kind = "own" if own else "token"
        rules = [Rule(_key(kind, token.lower()), self._settings.per_token, SPAN)]
        if sender:
            rules.append(Rule(_key("sender", sender.lower()), self._settings.per_sender, SPAN))
        return await self._throttle.allow(*rules)

    async def allow_peer(self, peer: str) -> bool:
        """Return whether a peer may continue, given the unknown recipients that it tried.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        (count,) = await self._count(_key("peer", peer), by=0)
        return count < self._settings.unknown_recipients

    async def count_unknown(self, peer: str) -> None:
        """Count an unknown recipient.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        await self._count(_key("peer", peer))

    async def over_noise(self, source: str) -> int:
        """Count a mail that decides nothing, and return by how many its source exceeds the limit.

        The source is the holder of the request, or the sender.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        (count,) = await self._count(_key("noise", source.lower()))
        return max(0, count - self._settings.per_token)

    async def _count(self, *keys: str, by: int = 1) -> list[int]:
        span = SPAN // timedelta(milliseconds=1)
        return [int(count) for count in await self._ledger.store.script("count", span, by, *keys)]


def _key(kind: str, name: str) -> str:
    # Hashed, because some names are tokens.
    return f"rate:{kind}:{hashlib.sha256(name.encode()).hexdigest()[:32]}"
