"""How fast mail goes out, for all processes together: what providers ask of those who send."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.settings import SmtpSettings
from signoff.core.base.errors import LedgerUnavailable

AGAIN: Final = 10.0
"""Seconds after which mail that had to wait for its turn is tried again."""

REST: Final = 60.0
"""Seconds for which nothing is sent after the server has asked for less."""

_MINUTE_MS: Final = 60_000
_RATE: Final = "rate:smtp"
_REST: Final = "rate:smtp-rest"
_SLOT: Final = "lease:smtp"
_SLOT_LEASE: Final = 120.0
"""Seconds after which a connection of a process that died is not counted any more."""


class Pace:
    """Grants mails and connections, by counters in the ledger.

    Args:
        ledger: Where they are counted.
        settings: How many there may be.
    """

    def __init__(self, ledger: Ledger, settings: SmtpSettings) -> None:
        self._ledger = ledger
        self._settings = settings

    async def grant(self, wanted: int) -> int:
        """Return how many of so many mails may go out now.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        if await self._count(_REST, by=0, span=_MINUTE_MS):
            return 0
        most = self._settings.per_minute
        if not most:
            return wanted
        before = await self._count(_RATE, by=wanted, span=_MINUTE_MS) - wanted
        return min(max(most - before, 0), wanted)

    async def rest(self) -> None:
        """Send nothing for a minute: the server has asked for less."""
        # A rest that cannot be noted must not have mail that is sent counted as not sent.
        with suppress(LedgerUnavailable):
            await self._count(_REST, by=1, span=int(REST * 1000))

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[bool]:
        """Hold one of the connections there may be, and say whether there was one.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        token = secrets.token_hex(8)
        for slot in range(self._settings.connections):
            key = f"{_SLOT}:{slot}"
            if await self._ledger.take_lease(key, token, lease=_SLOT_LEASE):
                try:
                    yield True
                finally:
                    # What was sent is sent: a slot that cannot be given back expires.
                    with suppress(LedgerUnavailable):
                        await self._ledger.release_lease(key, token)
                return
        yield not self._settings.connections

    async def _count(self, key: str, *, by: int, span: int) -> int:
        (count,) = await self._ledger.store.script("count", span, by, key)
        return int(count)
