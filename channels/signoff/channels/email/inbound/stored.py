"""Mail that came in: stored before it is acknowledged, processed once, forgotten after a week."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.work import ReadMail
from signoff.channels.email.parsing.addresses import normal_address
from signoff.core.base.errors import Conflict

REMEMBERED: Final = timedelta(days=7)
"""How long a mail is recognised after it was processed."""


UNKNOWN_PEER: Final = "?"
"""The peer of a mail of which nobody knows who wrote what stands on top: none that is trusted."""


@dataclass(frozen=True, slots=True)
class StoredMail:
    """A mail as it came in, not processed yet.

    Attributes:
        id: The SHA-256 of what is stored; see `mail_id`.
        version: Of its record.
        raw: Its bytes.
        sender: The envelope's sender, "" for a bounce, None where nobody told.
        recipients: The envelope's recipients.
        peer: The address of the server that handed it to us, "" where we have fetched it, or where
            who brought it is trusted to write what stands on top.
    """

    id: str
    version: int
    raw: bytes
    sender: str | None
    recipients: tuple[str, ...]
    peer: str = ""

    @property
    def traced(self) -> bytes:
        """Its bytes below the Return-Path that final delivery adds (RFC 5321, section 4.4)."""
        if self.sender is None:
            return self.raw
        if not self.sender:
            return b"Return-Path: <>\r\n" + self.raw
        sender = normal_address(self.sender)
        return self.raw if sender is None else f"Return-Path: <{sender}>\r\n".encode() + self.raw

    def done(self, change: Change) -> Change:
        """Add to a change that it was processed: only the memory of it stays."""
        return change.put_raw(mail_key(self.id), "{}", was=self.version, ttl=REMEMBERED)


def mail_id(raw: bytes, *, sender: str | None, recipients: Sequence[str]) -> str:
    """Return the id of a mail as it came in, bytes and envelope.

    A mail server that sends again what it got no answer for sends the same. The envelope is part of
    it because it says what the mail does: with another one it would be another mail.
    """
    envelope = json.dumps([sender, sorted(recipients)]).encode()
    return hashlib.sha256(envelope + b"\n" + raw).hexdigest()


def mail_key(mail_id: str) -> str:
    """Return the key of a mail's record."""
    return f"mail:{mail_id}"


def record_of(raw: bytes, *, sender: str | None, recipients: Sequence[str], peer: str) -> str:
    """Return what is stored of a mail that is not processed yet."""
    return json.dumps(
        {
            "raw": base64.b64encode(raw).decode(),
            "sender": sender,
            "recipients": list(recipients),
            "peer": peer,
        }
    )


def remember(change: Change, identity: str, *, within: timedelta = REMEMBERED) -> Change:
    """Add to a change that a mail was processed, of which other copies may come by other paths.

    Args:
        change: Added to.
        identity: What the copies have in common.
        within: For how long it is known, a week at the least.
    """
    return change.put_raw(_seen_key(identity), "{}", ttl=max(within, REMEMBERED))


async def is_known(ledger: Ledger, *identities: str) -> bool:
    """Say whether another copy of a mail was processed, by anything that they have in common.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    found = await ledger.store.read([_seen_key(one) for one in identities])
    return any(one is not None for one in found)


def _seen_key(identity: str) -> str:
    return f"seen:{identity}"


async def store(
    ledger: Ledger,
    raw: bytes,
    *,
    sender: str | None,
    recipients: Sequence[str],
    peer: str = "",
    also: Change | None = None,
) -> bool:
    """Store a mail and put it before the intake, in one commit.

    Args:
        ledger: Where.
        raw: Its bytes.
        sender: The envelope's sender, "" for a bounce. None where the path has no envelope: then
            the Return-Path that stands in the mail counts.
        recipients: The envelope's recipients, as far as they are known.
        peer: See `StoredMail`.
        also: What is to happen in the same commit.

    Returns:
        Whether it is new; False if the same bytes came before in the same envelope, and then `also`
        has not happened. Copies that
        came by other paths are for the intake to recognise.

    Raises:
        LedgerUnavailable: It may not have been stored: it must not be acknowledged.
    """
    key = mail_key(mail_id(raw, sender=sender, recipients=recipients))
    record = record_of(raw, sender=sender, recipients=recipients, peer=peer)
    change = (also or Change()).put_raw(key, record)
    change.send(ReadMail(mail=key))
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
        sender=record["sender"],
        recipients=tuple(record.get("recipients", ())),
        peer=str(record.get("peer", UNKNOWN_PEER)),
    )
