"""Limits the rate of outgoing mail, for all processes together, as providers require."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.settings import SmtpSettings
from signoff.core.base.errors import LedgerUnavailable

AGAIN: Final = 10.0
"""Seconds after which mail that waits for its turn is tried again."""

REST: Final = 60.0
"""Seconds without any mail after the server asked for less."""

_MINUTE_MS: Final = 60_000
_RATE: Final = "rate:smtp"
_REST: Final = "rate:smtp-rest"
_SLOT: Final = "lease:smtp"
_SLOT_LEASE: Final = 120.0
"""Seconds after which the connection of a dead process no longer counts."""


class MailRateLimit:
    """Limits mails and connections, with counters in the ledger."""

    def __init__(self, ledger: Ledger, settings: SmtpSettings) -> None:
        self._ledger = ledger
        self._settings = settings

    async def grant(self, wanted: int) -> int:
        """Return how many of `wanted` mails may go out now.

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
        """Pause all mail for a minute, because the server asked for less or refused the login."""
        # If the pause cannot be recorded, mail that was sent must still count as sent.
        with suppress(LedgerUnavailable):
            await self._count(_REST, by=1, span=int(REST * 1000))

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[bool]:
        """Hold one of the allowed connections, and yield whether one was free.

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
                    # The mail was sent. A slot that cannot be released expires.
                    with suppress(LedgerUnavailable):
                        await self._ledger.release_lease(key, token)
                return
        yield not self._settings.connections

    async def _count(self, key: str, *, by: int, span: int) -> int:
        (count,) = await self._ledger.store.script("count", span, by, key)
        return int(count)
