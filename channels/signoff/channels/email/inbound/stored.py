"""Stored mail: kept before it is acknowledged, processed once, forgotten after a week."""

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
"""How long a processed mail is recognised."""


UNKNOWN_PEER: Final = "?"
"""The peer of a mail whose topmost fields cannot be trusted, which is never in `relays`."""


@dataclass(frozen=True, slots=True)
class StoredMail:
    """A received mail that is not processed yet.

    Attributes:
        id: The SHA-256 of the stored content; see `mail_id`.
        version: The version of its record.
        raw: The bytes of the mail.
        sender: The envelope sender, "" for a bounce, None if it is not known.
        recipients: The envelope recipients.
        peer: The address of the server that delivered it. "" if we fetched it, or if its deliverer
            is trusted to write the topmost fields.
        is_cut: Whether it is only the header of a mail that is too large to be read.
    """

    id: str
    version: int
    raw: bytes
    sender: str | None
    recipients: tuple[str, ...]
    peer: str = ""
    is_cut: bool = False

    @property
    def traced(self) -> bytes:
        """The bytes below the Return-Path that final delivery adds (RFC 5321, section 4.4)."""
        if self.sender is None:
            return self.raw
        if not self.sender:
            return b"Return-Path: <>\r\n" + self.raw
        sender = normal_address(self.sender)
        return self.raw if sender is None else f"Return-Path: <{sender}>\r\n".encode() + self.raw

    def done(self, change: Change) -> Change:
        """Add to a change that the mail was processed; only a record of its id remains."""
        return change.put_raw(mail_key(self.id), "{}", was=self.version, ttl=REMEMBERED)


def mail_id(raw: bytes, *, sender: str | None, recipients: Sequence[str]) -> str:
    """Return the id of a received mail, from its bytes and its envelope.

    A mail server that repeats a delivery sends the same bytes and envelope. The envelope is
    included because it determines the effect of the mail.
    """
    envelope = json.dumps([sender, sorted(recipients)]).encode()
    return hashlib.sha256(envelope + b"\n" + raw).hexdigest()


def mail_key(mail_id: str) -> str:
    """Return the key of a mail's record."""
    return f"mail:{mail_id}"


def record_of(
    raw: bytes,
    *,
    sender: str | None,
    recipients: Sequence[str],
    peer: str,
    is_cut: bool = False,
) -> str:
    """Return the record of a mail that is not processed yet."""
    record = {
        "raw": base64.b64encode(raw).decode(),
        "sender": sender,
        "recipients": list(recipients),
        "peer": peer,
    }
    # A process of the last release reads it as a mail without a word, which decides nothing.
    return json.dumps(record | {"cut": True} if is_cut else record)


def remember(change: Change, identity: str, *, within: timedelta = REMEMBERED) -> Change:
    """Add to a change that a mail was processed, so that other copies of it are recognised.

    They share an identity, which is remembered for at least a week.
    """
    return change.put_raw(_seen_key(identity), "{}", ttl=max(within, REMEMBERED))


async def is_known(ledger: Ledger, *identities: str) -> bool:
    """Return whether another copy of a mail was processed, by any of their shared ids.

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
    is_cut: bool = False,
) -> bool:
    """Store a mail and queue it for the intake, in one commit.

    Args:
        ledger: The ledger.
        raw: The bytes of the mail.
        sender: The envelope sender, "" for a bounce. None if the path has no envelope: then the
            Return-Path in the mail counts.
        recipients: The envelope recipients, if they are known.
        peer: See `StoredMail`.
        is_cut: See `StoredMail`.
        also: A further change for the same commit.

    Returns:
        Whether it is new. False if the same bytes came before in the same envelope; then `also` is
        not committed. The intake recognises copies that came by other paths.

    Raises:
        LedgerUnavailable: It may not have been stored, so it must not be acknowledged.
    """
    key = mail_key(mail_id(raw, sender=sender, recipients=recipients))
    record = record_of(raw, sender=sender, recipients=recipients, peer=peer, is_cut=is_cut)
    change = (also or Change()).put_raw(key, record)
    change.send(ReadMail(mail=key))
    try:
        await ledger.commit(change)
    except Conflict:
        return False
    return True


async def load(ledger: Ledger, key: str) -> StoredMail | None:
    """Return a stored mail; None if it was already processed.

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
        is_cut=bool(record.get("cut")),
    )
