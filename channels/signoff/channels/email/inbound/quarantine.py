"""Quarantine for mail that could not be read, so that an operator can inspect it."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import to_ms
from signoff.broker.work import ReadMail
from signoff.channels.email.inbound.stored import UNKNOWN_PEER, StoredMail, mail_key, record_of
from signoff.channels.pipeline.reply_tokens import redact
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import NotInQuarantine

INDEX: Final = "quarantine"
"""The ids of the mails in quarantine, by the time at which each was put there."""

KEPT: Final = timedelta(days=30)
"""How long a mail that cannot be read is kept."""

SHORTEST_ID: Final = 6

_HEAD: Final = 64 * 1024
_BATCH: Final = 10


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A mail in quarantine.

    Attributes:
        id: The id; see `StoredMail`.
        version: The version of its record.
        at: When it was put into quarantine, by the ledger's clock.
        problem: The reason.
        sender: The envelope sender; see `StoredMail`.
        recipients: The envelope recipients, which contain tokens.
        peer: The server that delivered it; see `StoredMail`.
        raw: The bytes of the mail.
    """

    id: str
    version: int
    at: datetime
    problem: str
    sender: str | None
    recipients: tuple[str, ...]
    peer: str
    raw: bytes

    def head(self) -> list[str]:
        """Return the raw lines of the header, up to 64 KB, without tokens.

        They are not decoded or unfolded: a mail that broke a parser is not passed to another one.
        """
        head = self.raw[:_HEAD].replace(b"\r\n", b"\n").partition(b"\n\n")[0]
        return [redact(line) for line in head.decode("utf-8", "replace").split("\n")]

    def field(self, name: str) -> str:
        """Return the first line of a header field, or ""."""
        start = f"{name.lower()}:"
        lines = (line for line in self.head() if line[: len(start)].lower() == start)
        return next(lines, "")[len(start) :].strip()


def quarantine_key(mail_id: str) -> str:
    """Return the key of a mail in quarantine."""
    return f"quarantine:{mail_id}"


async def quarantine_mail(
    ledger: Ledger, change: Change, stored: StoredMail, problem: str, *, now: datetime
) -> Change:
    """Add to a change the move of a mail into quarantine.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    # The same mail may have been put there weeks ago.
    before = await ledger.raw(quarantine_key(stored.id))
    record = {
        "at": now.isoformat(),
        "problem": redact(problem),
        "sender": stored.sender,
        "recipients": list(stored.recipients),
        "peer": stored.peer,
        "raw": base64.b64encode(stored.raw).decode(),
    }
    change.put_raw(
        quarantine_key(stored.id),
        json.dumps(record),
        was=0 if before is None else before[0],
        ttl=KEPT,
        add=[(INDEX, stored.id, to_ms(now))],
    )
    change.note([_event(What.QUARANTINED, stored.id, now=now, by="email", why=redact(problem))])
    return stored.done(change)


async def in_quarantine(ledger: Ledger) -> list[str]:
    """Return the ids of the mails in quarantine, the latest first.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    ids = await ledger.store.members(INDEX, newest_first=True)
    async with (
        ledger.store.translated_client() as client,
        client.pipeline(transaction=False) as pipe,
    ):
        for one in ids:
            pipe.execute_command("EXISTS", ledger.store.prefix + quarantine_key(one))
        there = await pipe.execute()
    over = [one for one, exists in zip(ids, there, strict=True) if not exists]
    # Records expire, but their entries do not. Drop these, unless the mail came back meanwhile.
    await ledger.commit_all(
        [Change().put_raw(quarantine_key(one), "", drop=[(INDEX, one, 0)]) for one in over]
    )
    return [one for one in ids if one not in set(over)]


async def list_quarantine(ledger: Ledger, *, limit: int) -> list[Quarantined]:
    """Return the mails in quarantine, the latest first.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    ids = (await in_quarantine(ledger))[:limit]
    found: list[Quarantined] = []
    for start in range(0, len(ids), _BATCH):
        found += await _read(ledger, ids[start : start + _BATCH])
    return found


async def find(ledger: Ledger, start: str) -> Quarantined:
    """Return the mail in quarantine whose id has this prefix.

    Raises:
        NotInQuarantine: No mail matches, or several do.
        LedgerUnavailable: Redis cannot be reached.
    """
    start = start.lower()
    ids = [one for one in await in_quarantine(ledger) if one.startswith(start)]
    if len(start) < SHORTEST_ID or len(ids) > 1:
        words = f"{start!r} does not name one mail; give at least {SHORTEST_ID} digits of its id."
        raise NotInQuarantine(words)
    found = await _read(ledger, ids)
    if not found:
        raise NotInQuarantine(
            f"There is no mail {start!r} in quarantine. `signoff mail quarantine list` shows all."
        )
    return found[0]


async def retry(ledger: Ledger, mail: Quarantined, *, by: str, why: str) -> None:
    """Queue a mail for the intake again, in one commit.

    Raises:
        Conflict: Somebody else changed it first.
        LedgerUnavailable: Redis cannot be reached.
    """
    key = mail_key(mail.id)
    before = await ledger.raw(key)
    change = _out(mail)
    change.put_raw(
        key,
        record_of(mail.raw, sender=mail.sender, recipients=mail.recipients, peer=mail.peer),
        was=0 if before is None else before[0],
    )
    change.send(ReadMail(mail=key))
    now = await ledger.now()
    await ledger.commit(change.note([_event(What.MAIL_RETRIED, mail.id, now=now, by=by, why=why)]))


async def drop(ledger: Ledger, mail: Quarantined, *, by: str, why: str) -> None:
    """Delete a mail.

    Raises:
        Conflict: Somebody else changed it first.
        LedgerUnavailable: Redis cannot be reached.
    """
    now = await ledger.now()
    event = _event(What.MAIL_DROPPED, mail.id, now=now, by=by, why=why)
    await ledger.commit(_out(mail).note([event]))


def _out(mail: Quarantined) -> Change:
    return Change().put_raw(
        quarantine_key(mail.id), "", was=mail.version, drop=[(INDEX, mail.id, 0)]
    )


async def _read(ledger: Ledger, ids: Sequence[str]) -> list[Quarantined]:
    records = await ledger.store.read([quarantine_key(one) for one in ids])
    return [
        _quarantined(one, *record)
        for one, record in zip(ids, records, strict=True)
        if record is not None
    ]


def _quarantined(mail_id: str, version: int, data: str) -> Quarantined:
    record = json.loads(data)
    return Quarantined(
        id=mail_id,
        version=version,
        at=datetime.fromisoformat(record["at"]),
        problem=record["problem"],
        sender=record["sender"],
        recipients=tuple(record["recipients"]),
        peer=str(record.get("peer", UNKNOWN_PEER)),
        raw=base64.b64decode(record["raw"]),
    )


def _event(what: What, mail_id: str, *, now: datetime, by: str, why: str) -> Event:
    return Event(what=what, at=now, by=by, why=why, more={"mail": mail_id})
