"""How often something may be tried: counted in Redis, for all processes together."""

from __future__ import annotations

import hashlib
import ipaddress
from datetime import timedelta
from typing import Final, NamedTuple

from signoff.broker.ledger.store import Store

MINUTE: Final = timedelta(minutes=1)


class Rule(NamedTuple):
    """How often something may be tried.

    Attributes:
        key: What is counted, without the prefix.
        most: How many attempts a window has.
        window: How long it is. It begins with the first attempt.
    """

    key: str
    most: int
    window: timedelta


class Throttle:
    """Counts attempts in fixed windows of time.

    Args:
        store: Where they are counted.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def allow(self, *rules: Rule) -> bool:
        """Count an attempt under all of these rules and say whether it may be made.

        An attempt that one of them refuses is counted under none: who goes on after the few of a
        quarter of an hour must not use up those of the day, which may be somebody else's.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        return not await self.pause(*rules)

    async def pause(self, *rules: Rule) -> float:
        """Count an attempt as `allow` does, and return in how many seconds it may be made.

        Returns:
            0 where it may be made now; else when the first rule that refuses it begins anew.
        """
        counted: list[str | int] = []
        for key, most, window in rules:
            counted += (key, most, window // timedelta(milliseconds=1))
        return int(await self._store.script("throttle", *counted)) / 1000

    async def token_pause(self, token_id: str, rate: int) -> float:
        """Count a request of an API token, and return in how many seconds it may be made.

        Args:
            token_id: The token.
            rate: How many it may make a minute; 0 for any number.

        Returns:
            0 where it may be made now.
        """
        return await self.pause(Rule(f"rate:token:{token_id}", rate, MINUTE)) if rate else 0

    async def refund(self, *rules: Rule) -> None:
        """Count one attempt less: it was none of those that are to be few.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        await self._store.script("refund", *(rule.key for rule in rules))


def hashed(text: str) -> str:
    """Return what an address, a person or a peer is counted under."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def network_of(peer: str) -> str:
    """Return what one guest of the internet has: an IPv4 address, or a /64 of IPv6.

    Args:
        peer: The address of the other end; what is none is returned as it is.
    """
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return peer
