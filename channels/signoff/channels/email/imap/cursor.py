"""The position up to which a mailbox was read, in the ledger."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

import structlog

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.lease import KeyLease
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.inbound.stored import REMEMBERED
from signoff.core.approvals.events import Event

log = structlog.get_logger(__name__)

LOOK_BACK: Final = REMEMBERED - timedelta(days=2)
"""The greatest age of a message that is read at first, or after the UIDs changed.

The ledger still remembers such a message if it was processed before. A server's day may begin a day
before ours.
"""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position up to which a folder was read.

    Attributes:
        version: The version of its record, 0 if there is none yet.
        uidvalidity: The numbering for which it is valid (RFC 3501, section 2.3.1.1).
        uid: The last UID that was stored or recorded.
        since: The first day whose messages count.
    """

    version: int
    uidvalidity: int
    uid: int
    since: date


def cursor_key(mailbox: str) -> str:
    """Return the key of the cursor of a mailbox."""
    return f"imap:{mailbox}"


def lease_key(mailbox: str) -> str:
    """Return the lease key of a mailbox; only the holder of the lease reads it."""
    return f"lease:{cursor_key(mailbox)}"


async def read_cursor(
    ledger: Ledger, mailbox: str, uidvalidity: int, *, uidnext: int = 0
) -> Cursor:
    """Return the cursor of a mailbox, or a new one if there is none for this numbering.

    A server that was restored from a backup gives new messages UIDs that were given before, which
    RFC 3501 forbids. The cursor would pass them over.

    Args:
        ledger: The ledger.
        mailbox: The id of the mailbox.
        uidvalidity: Its numbering.
        uidnext: The UID of its next message; 0 if it is unknown.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    found = await ledger.raw(cursor_key(mailbox))
    version, kept = (found[0], json.loads(found[1])) if found else (0, {})
    if kept.get("uidvalidity") == uidvalidity:
        uid = int(kept["uid"])
        if not 0 < uidnext <= uid:
            return Cursor(version, uidvalidity, uid, date.fromisoformat(kept["since"]))
        log.warning("imap.numbers_again", mailbox=mailbox, read_up_to=uid, next=uidnext)
    since = (await ledger.now() - LOOK_BACK).date()
    return Cursor(version, uidvalidity, 0, since)


async def move_cursor(
    hold: KeyLease, mailbox: str, cursor: Cursor, uid: int, events: Sequence[Event]
) -> Cursor:
    """Advance a cursor, and record events about the messages that it passes.

    Raises:
        Conflict, LeaseLost: Another process reads the mailbox.
        LedgerUnavailable: Redis cannot be reached.
    """
    record = {"uidvalidity": cursor.uidvalidity, "uid": uid, "since": cursor.since.isoformat()}
    change = Change().put_raw(cursor_key(mailbox), json.dumps(record), was=cursor.version)
    await hold.ledger.commit(hold.fence(change.note(events)))
    return Cursor(cursor.version + 1, cursor.uidvalidity, uid, cursor.since)
