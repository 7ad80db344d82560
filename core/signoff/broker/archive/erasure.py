"""Erases a person: ended approvals are archived first, and redacted in the archive.

The chain of the audit stays verifiable. A redacted entry keeps its link and the hash of its
original text. The audit records the new checksums of the files.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

import structlog

from signoff.broker.archive.anchor import Anchor, Swap
from signoff.broker.archive.archiver import Archiver, archive_lease, recover
from signoff.broker.archive.candidates import (
    RunBundle,
    names_in,
    run_bundles,
    value_of,
    waiting_work,
)
from signoff.broker.archive.files import ArchivedEntry, ArchivedRecord, ArchiveFiles, FileHeader
from signoff.broker.archive.redaction import Redaction
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import DEAD, Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.search_index import SearchIndex
from signoff.broker.sessions import SessionRecords
from signoff.broker.timers.poison import STUCK
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import ErasureRefused

log = structlog.get_logger(__name__)

_SUFFIX: Final = "erased"
_BATCH: Final = 100
_LEASE: Final = 20.0
_NAMED: Final = 5
_EXPIRING: Final = (
    "arguments:",
    "bundle:",
    f"{DEAD}:",
    "invitation:",
    "link:",
    "login:",
    "mcp:",
    "quarantine:",
    f"{STUCK}:",
    "token:",
)
"""Prefixes of records that expire, and that may name somebody until then."""

_LASTING: Final = ("access:", "freezes", "instance:", "policies", "vacancies")
"""Prefixes of lasting records, in which a placeholder replaces the person."""


@dataclass(frozen=True, slots=True)
class Erased:
    """The result of an erasure.

    Attributes:
        placeholder: The placeholder that replaces the person.
        files: How many files of the archive were rewritten.
        lines: How many lines changed in them.
    """

    placeholder: str
    files: int
    lines: int


async def erase(
    ledger: Ledger,
    files: ArchiveFiles,
    redaction: Redaction,
    *,
    by: str,
    why: str,
    feeds: bool = False,
) -> Erased:
    """Erase a person from the ledger and the archive.

    Args:
        ledger: The ledger.
        files: The archive.
        redaction: The person.
        by: Who erases the person, for the audit.
        why: The reason, for the audit.
        feeds: Whether webhooks read the audit; see `Archiver`.

    Raises:
        ErasureRefused: Something that names the person is still pending. Nothing was erased.
        ArchiveBroken: A file of the archive is missing or was changed.
        LedgerUnavailable: Redis cannot be reached; repeating the erasure is safe.
    """
    await require_over(ledger, redaction)
    archiver = Archiver(
        ledger,
        files,
        after=timedelta(),
        feeds=feeds,
        wanted=lambda one: _names(redaction, one),
    )
    if (await archiver.once()).busy:
        raise ErasureRefused("Another process is archiving right now; try again in a minute.")
    await _require_gone(ledger, redaction)
    async with archive_lease(ledger) as hold:
        if hold is None:
            raise ErasureRefused("Another process is archiving right now; try again in a minute.")
        anchor = await recover(ledger, files, hold)
        for name in files.unplaced(_SUFFIX):
            files.drop(name)  # left by an erasure that was interrupted before its commit
        theirs = await asyncio.to_thread(_owned, files, anchor, redaction)
        # Before the archive is redacted, so that a repeated erasure still knows their requests.
        await _forget(ledger, redaction, theirs)
        swaps, count = await asyncio.to_thread(_rewrite, files, anchor, redaction, theirs)
        sums = {one.sequence: one.sha256 for one in swaps}
        after = anchor.model_copy(
            update={"swaps": swaps, "sha256": sums.get(anchor.sequence, anchor.sha256)}
        )
        more = {
            "placeholder": redaction.placeholder,
            "files": {str(one): sha256 for one, sha256 in sums.items()},
        }
        event = Event(what=What.ERASED, at=await ledger.now(), by=by, why=why, more=more)
        await ledger.commit(hold.fence(anchor.put(Change(), after).note([event])))
        await recover(ledger, files, hold)
    await _forget_sessions(ledger, redaction)
    await SearchIndex(ledger).drop()
    log.info("person.erased", placeholder=redaction.placeholder, files=len(swaps))
    return Erased(redaction.placeholder, len(swaps), count)


async def require_over(ledger: Ledger, redaction: Redaction) -> None:
    """Check that nothing that names a person is pending.

    Raises:
        ErasureRefused: Something is pending, in doubt, or not finished.
    """
    work, now = await waiting_work(ledger), await ledger.now()
    if any(map(redaction.is_in, work)):
        raise ErasureRefused(
            "Messages to them are not delivered yet, or one of their runs has not finished. Try "
            "again when `signoff doctor` shows no backlog."
        )
    names = names_in(work)
    named = [one async for one in _bundles(ledger) if _names(redaction, one)]
    if kept := [why for one in named if (why := one.why_kept(now, names))]:
        more = f" and {len(kept) - _NAMED:,} more" if len(kept) > _NAMED else ""
        raise ErasureRefused(
            f"Requests that name them are still open: {'; '.join(kept[:_NAMED])}{more}. Decide, "
            "reassign, withdraw or settle them first (`signoff runs settle` ends a doubt)."
        )


async def _require_gone(ledger: Ledger, redaction: Redaction) -> None:
    """Refuse if a record that names the person was added meanwhile, or cannot be archived."""
    for key in ("approval:", "run:", "grant:"):
        found = await ledger.store.keys(key, "string")
        for start in range(0, len(found), _BATCH):
            page = found[start : start + _BATCH]
            for name, record in zip(page, await ledger.store.read(page), strict=True):
                if record is not None and redaction.is_in(record[1]):
                    raise ErasureRefused(
                        f"{name} names them and cannot be archived. Nothing was erased."
                    )
    async for entry_id, text, _ in audit.entries(ledger.store):
        if redaction.is_in(text):
            raise ErasureRefused(
                f"Entry {entry_id} of the audit names them and cannot be archived yet: it is new, "
                "or webhooks have not read it. Nothing was erased; try again."
            )


async def _bundles(ledger: Ledger) -> AsyncIterator[RunBundle]:
    ids = await ledger.store.members("runs")
    for start in range(0, len(ids), _BATCH):
        for one in await run_bundles(ledger, ids[start : start + _BATCH]):
            yield one


def _names(redaction: Redaction, one: RunBundle) -> bool:
    texts = [record.data for record in one.records]
    return any(map(redaction.is_in, texts)) or any(
        redaction.is_in(event.model_dump_json()) for event in one.events
    )


def _owned(files: ArchiveFiles, anchor: Anchor, redaction: Redaction) -> set[str]:
    """Return the ids of the person's own runs, approvals and grants in the archive."""
    return {
        line.id
        for sequence in range(1, anchor.sequence + 1)
        for line in files.read(sequence)
        if isinstance(line, ArchivedRecord) and redaction.owns(json.loads(line.data))
    }


def _rewrite(
    files: ArchiveFiles, anchor: Anchor, redaction: Redaction, theirs: Collection[str]
) -> tuple[tuple[Swap, ...], int]:
    """Rewrite the files that name the person; return them, and how many lines changed."""
    swaps, count = list[Swap](), 0
    for sequence in range(1, anchor.sequence + 1):
        head, changed, lines = None, 0, list[str]()
        for line in files.read(sequence):
            if isinstance(line, FileHeader):
                head = line
                continue
            clean = _redacted(line, redaction, theirs)
            changed += clean != line
            lines.append(
                clean.to_line() if isinstance(clean, ArchivedRecord) else audit.to_line(*clean)
            )
        if changed and head is not None:
            files.checksum(sequence)
            part = files.write(head, lines, suffix=_SUFFIX)
            swaps.append(Swap(sequence=sequence, part=part.name, sha256=part.sha256))
            count += changed
    return tuple(swaps), count


def _redacted(
    line: ArchivedEntry | ArchivedRecord, redaction: Redaction, theirs: Collection[str]
) -> ArchivedEntry | ArchivedRecord:
    if isinstance(line, ArchivedRecord):
        if not redaction.is_in(line.data):
            return line
        clean = line._replace(data=redaction.record(line.data), mark="")
        value_of(clean)  # raises if the redacted record is not readable
        return clean
    fields = json.loads(line.text)
    about = any(fields.get(one) in theirs for one in ("run", "approval"))
    if not about and not redaction.is_in(line.text):
        return line
    text = redaction.entry(line.text, theirs=about)
    if text == line.text:
        return line
    hashed = line.hashed or hashlib.sha256(line.text.encode()).hexdigest()
    return line._replace(text=text, hashed=hashed)


async def _forget(ledger: Ledger, redaction: Redaction, theirs: Collection[str]) -> None:
    """Remove the person's own records, and expiring records about the person."""
    store = ledger.store
    await store.script("compact")
    for key in ("absences", "groups"):
        await ledger.decide_again(partial(_forget_in, ledger, redaction, key))
    for start in _LASTING:
        for key in await store.keys(start, "string"):
            await ledger.decide_again(partial(_redact_in, ledger, redaction, key))
    turns, told = await store.keys("turns:", "zset"), await store.keys("told:", "string")
    async with store.translated_client() as client:
        for name in redaction.names:
            own = [f"{kind}:{name}" for kind in ("epoch", "logins", "push")]
            own += [key for key in told if key.endswith(f":{name}")]
            await client.delete(*(store.prefix + one for one in own))
            for key in turns:
                await client.zrem(store.prefix + key, name)
    for start in _EXPIRING:
        for key in await ledger.store.keys(start, "string"):
            record = await ledger.raw(key)
            if record is not None and _mentions(key, record[1], redaction, theirs):
                index, _, name = key.partition(":")
                drop = [(index, name, 0)] if index in {DEAD, STUCK} else []
                await ledger.commit_all([Change().put_raw(key, "", was=record[0], drop=drop)])


async def _forget_sessions(ledger: Ledger, redaction: Redaction) -> None:
    """Delete the person's sessions with agents, and redact the person in other sessions.

    Raises:
        ErasureRefused: A worker runs one of the sessions.
    """
    records = SessionRecords(ledger.store)

    def clean(text: str) -> str:
        return redaction.record(text) if redaction.is_in(text) else text

    async for name in records.all_names():
        token = secrets.token_hex(8)
        if not await ledger.take_lease(name.lease, token, lease=_LEASE):
            raise ErasureRefused(
                f"A worker runs session {name.id} of {name.app}. Everything else is erased; erase "
                "the person again when the run has ended."
            )
        try:
            if redaction.is_named(name.user):
                await records.drop(name)
            else:
                await records.redact(name, clean)
        finally:
            await ledger.release_lease(name.lease, token)
    await records.redact_shared(redaction.is_named, clean)


async def _forget_in(ledger: Ledger, redaction: Redaction, key: str) -> None:
    record = await ledger.raw(key)
    if record is None:
        return
    names = {*redaction.names}
    kept = {
        name: [one for one in value if one not in names] if isinstance(value, list) else value
        for name, value in json.loads(record[1]).items()
        if name not in names
    }
    await ledger.commit(Change().put_raw(key, json.dumps(kept), was=record[0]))


async def _redact_in(ledger: Ledger, redaction: Redaction, key: str) -> None:
    record = await ledger.raw(key)
    if record is None or not redaction.is_in(record[1]):
        return
    async with ledger.store.translated_client() as client:
        left = await client.ttl(ledger.store.prefix + key)
    ttl = timedelta(seconds=max(left, 1)) if left >= 0 else None
    await ledger.commit(Change().put_raw(key, redaction.value(record[1]), was=record[0], ttl=ttl))


def _mentions(key: str, data: str, redaction: Redaction, theirs: Collection[str]) -> bool:
    """Say whether a record names the person, or is about one of their requests."""
    try:
        fields = json.loads(data)
        if redaction.is_in(data):
            return True
    except ValueError:
        return any(one in data for one in redaction.names)
    if key.startswith("arguments:") or not isinstance(fields, dict):
        # The arguments of a tool may have fields with the names below and any values.
        return False
    # A dead letter holds the work that was given up.
    parts = [one for one in (fields, fields.get("body")) if isinstance(one, dict)]
    mail = base64.b64decode(fields.get("raw", "")).decode("utf-8", "replace")
    return any(one.get("approval") in theirs for one in parts) or redaction.is_in_plain(mail)
