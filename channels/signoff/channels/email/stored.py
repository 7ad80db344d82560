"""Mail that came in: stored before it is acknowledged, processed once, forgotten after a week."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from signoff.broker import stages
from signoff.broker.change import Change
from signoff.broker.ledger import Ledger
from signoff.channels.email.addresses import normal_address
from signoff.core.errors import Conflict

REMEMBERED: Final = timedelta(days=7)
"""How long the same bytes are recognised after they were processed."""

QUARANTINE: Final = timedelta(days=30)
"""How long a mail that cannot be read is kept for somebody to look at."""


@dataclass(frozen=True, slots=True)
class StoredMail:
    """A mail as it came in, not processed yet.

    Attributes:
        id: The SHA-256 of its bytes.
        version: Of its record.
        raw: Its bytes.
        sender: The envelope's sender, "" for a bounce.
        recipients: The envelope's recipients.
    """

    id: str
    version: int
    raw: bytes
    sender: str
    recipients: tuple[str, ...]

    @property
    def traced(self) -> bytes:
        """Its bytes below the Return-Path that final delivery adds (RFC 5321, section 4.4)."""
        if not self.sender:
            return b"Return-Path: <>\r\n" + self.raw
        sender = normal_address(self.sender)
        return self.raw if sender is None else f"Return-Path: <{sender}>\r\n".encode() + self.raw

    def done(self, change: Change) -> Change:
        """Add to a change that it was processed: only the memory of it stays."""
        return change.put_raw(mail_key(self.id), "{}", was=self.version, ttl=REMEMBERED)

    def quarantine(self, change: Change, problem: str) -> Change:
        """Add to a change that it is laid aside."""
        record = {"problem": problem, "raw": base64.b64encode(self.raw).decode()}
        change.put_raw(quarantine_key(self.id), json.dumps(record), ttl=QUARANTINE)
        return self.done(change)


def mail_key(mail_id: str) -> str:
    """Return the key of a mail's record."""
    return f"mail:{mail_id}"


def quarantine_key(mail_id: str) -> str:
    """Return the key under which a mail that cannot be read is kept."""
    return f"quarantine:{mail_id}"


async def store(ledger: Ledger, raw: bytes, *, sender: str, recipients: Sequence[str]) -> bool:
    """Store a mail and put it before the intake, in one commit.

    Returns:
        Whether it is new; False if the same bytes came before.

    Raises:
        LedgerUnavailable: It may not have been stored: it must not be acknowledged.
    """
    mail_id = hashlib.sha256(raw).hexdigest()
    record = {
        "raw": base64.b64encode(raw).decode(),
        "sender": sender,
        "recipients": list(recipients),
    }
    change = Change().put_raw(mail_key(mail_id), json.dumps(record))
    change.send(stages.INTAKE, mail_key(mail_id), {"mail": mail_key(mail_id)})
    try:
        await ledger.commit(change)
    except Conflict:
        return False
    return True


async def load(ledger: Ledger, key: str) -> StoredMail | None:
    """Return a stored mail; None when it has been processed.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    found = await ledger.raw(key)
    if found is None:
        return None
    version, data = found
    record = json.loads(data)
    if "raw" not in record:
        return None
    return StoredMail(
        id=key.removeprefix("mail:"),
        version=version,
        raw=base64.b64decode(record["raw"]),
        sender=str(record.get("sender", "")),
        recipients=tuple(record.get("recipients", ())),
    )
