"""The current refresh token, in the ledger: some issuers return a new one at each use.

The first token is in the settings. It is also the key that encrypts its successors, so that access
to the ledger does not give access to the mailbox, and so that a new consent in the settings
replaces the successors of the old one.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import timedelta
from typing import Final

import structlog
from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.base.errors import Conflict

log = structlog.get_logger(__name__)

_KEPT: Final = timedelta(days=365)
"""Longer than any issuer accepts an unused token."""


class Consent:
    """The refresh token in the settings, and its successors, which the ledger keeps."""

    def __init__(self, first: str, ledger: Ledger) -> None:
        self._first = first
        self._ledger = ledger
        name = hashlib.sha256(f"signoff consent {first}".encode()).hexdigest()[:32]
        self._key = f"consent:{name}"
        self._box = SecretBox(hashlib.sha256(f"signoff consent key {first}".encode()).digest())

    async def get(self) -> str:
        """Return the current token.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        found = await self._ledger.raw(self._key)
        if found is None:
            return self._first
        try:
            return self._box.decrypt(base64.b64decode(found[1])).decode()
        except (CryptoError, ValueError):
            log.error("imap.consent_unreadable", key=self._key)  # noqa: TRY400 -- the event is enough
            return self._first

    async def replace(self, token: str) -> None:
        """Store a successor.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        found = await self._ledger.raw(self._key)
        sealed = base64.b64encode(self._box.encrypt(token.encode())).decode()
        change = Change().put_raw(self._key, sealed, was=found[0] if found else 0, ttl=_KEPT)
        try:
            await self._ledger.commit(change)
        except Conflict:
            # Another process renewed it at the same time, and stored an equally valid one.
            log.info("imap.consent_renewed_twice", key=self._key)
