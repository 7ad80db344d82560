"""Limits for attempts, such as sign-ins, counted in Redis for all processes together."""

from __future__ import annotations

import hashlib
import ipaddress
from datetime import timedelta
from typing import Final, NamedTuple

from signoff.broker.ledger.store import Store

MINUTE: Final = timedelta(minutes=1)


class Rule(NamedTuple):
    """A limit for attempts.

    Attributes:
        key: The key in Redis, without the prefix.
        most: The most attempts in a window.
        window: The length of a window, which begins with the first attempt.
    """

    key: str
    most: int
    window: timedelta


class Throttle:
    """Counts attempts in fixed windows of time."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def allow(self, *rules: Rule) -> bool:
        """Count an attempt under all of these rules, and return whether it may be made.

        An attempt that one rule refuses is counted under none. So the attempts above a limit of
        minutes do not use up a limit of days, which other people may share.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        return not await self.pause(*rules)

    async def pause(self, *rules: Rule) -> float:
        """Count an attempt as `allow` does, and return how long to wait.

        Returns:
            0 if the attempt may be made; otherwise the seconds until the window of the first rule
            that refuses it ends.
        """
        counted: list[str | int] = []
        for key, most, window in rules:
            counted += (key, most, window // timedelta(milliseconds=1))
        return int(await self._store.script("throttle", *counted)) / 1000

    async def token_pause(self, token_id: str, rate: int) -> float:
        """Count a request of an API token, and return how long to wait; see `pause`.

        Args:
            token_id: The id of the token.
            rate: The most requests in a minute; 0 for any number.
        """
        return await self.pause(Rule(f"rate:token:{token_id}", rate, MINUTE)) if rate else 0

    async def refund(self, *rules: Rule) -> None:
        """Take back one counted attempt, for example after a successful sign-in.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        await self._store.script("refund", *(rule.key for rule in rules))


def hashed(text: str) -> str:
    """Return a hash for the key of a rule, given an address or the id of a person."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def network_of(peer: str) -> str:
    """Return the network of one client: its IPv4 address, or its /64 of IPv6.

    Args:
        peer: The address of the client. Text that is not an IP address is returned unchanged.
    """
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return peer
