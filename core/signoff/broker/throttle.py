"""How often something may be tried: counted in Redis, for all processes together."""

from __future__ import annotations

import hashlib
import ipaddress
from datetime import timedelta
from typing import Final

from signoff.broker.store import Store

MINUTE: Final = timedelta(minutes=1)


class Throttle:
    """Counts attempts in fixed windows of time.

    Args:
        store: Where they are counted.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def allow(self, key: str, most: int, window: timedelta) -> bool:
        """Count an attempt, and say whether it is one of the first so many of its window.

        The window begins with the first attempt and ends by itself; attempts that are refused do
        not prolong it.

        Args:
            key: What is counted, without the prefix.
            most: How many attempts a window has.
            window: How long it is.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        return not await self.pause(key, most, window)

    async def pause(self, key: str, most: int, window: timedelta) -> float:
        """Count an attempt as `allow` does, and return in how many seconds the next one is allowed.

        Returns:
            0 where this one is.
        """
        count, left = await self._add(key, 1, window)
        return 0 if count <= most else left

    async def token_pause(self, token_id: str, rate: int) -> float:
        """Count a request of an API token, and return in how many seconds it may be made.

        Args:
            token_id: The token.
            rate: How many it may make a minute; 0 for any number.

        Returns:
            0 where it may be made now.
        """
        return await self.pause(f"rate:token:{token_id}", rate, MINUTE) if rate else 0

    async def refund(self, key: str, window: timedelta) -> None:
        """Count one attempt less: it was none of those that are to be few.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        await self._add(key, -1, window)

    async def _add(self, key: str, count: int, window: timedelta) -> tuple[int, float]:
        """Return the count, and how many seconds its window has still."""
        name, ttl = self._store.prefix + key, int(window / timedelta(milliseconds=1))
        async with (
            self._store.translated_client() as client,
            client.pipeline(transaction=True) as pipe,
        ):
            pipe.execute_command("SET", name, 0, "NX", "PX", ttl)
            pipe.execute_command("INCRBY", name, count)
            pipe.execute_command("PTTL", name)
            _, total, left = await pipe.execute()
        return int(total), max(int(left), 1) / 1000


def hashed(text: str) -> str:
    """Return what an address, a person or a peer is counted under."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def network_of(peer: str) -> str:
    """Return what one guest of the internet has: an IPv4 address, or a /64 of IPv6.

    Args:
        peer: The address of whoever is at the other end; what is none is returned as it is.
    """
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return peer
