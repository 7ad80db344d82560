"""Moves ended runs and audit entries from the ledger into the archive.

A crash at any point loses and duplicates nothing. A file is on the disk, with its checksum, before
the ledger names it. Its contents are removed from the ledger afterwards, unless they have changed.
The next archiver finishes the work of one that crashed.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import structlog

from signoff.broker.archive.anchor import LEASE_KEY, Anchor, read_anchor
from signoff.broker.archive.candidates import (
    RunBundle,
    names_in,
    run_bundles,
    value_of,
    waiting_work,
)
from signoff.broker.archive.files import (
    ArchivedEntry,
    ArchivedRecord,
    ArchiveFiles,
    FileHeader,
    PartialFile,
)
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change, entries
from signoff.broker.ledger.lease import KeyLease, kept
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import to_us
from signoff.broker.monitoring import metrics
from signoff.broker.sessions import SessionRecords
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import LedgerError, SignoffError

log = structlog.get_logger(__name__)

CYCLE: Final = timedelta(hours=1)
"""How often a process archives."""

_LEASE: Final = 60.0
_RUNS: Final = 500
_ENTRIES: Final = 5_000
_AT_ONCE: Final = 50
"""Runs in one call of the script, which takes Redis a few milliseconds."""


@dataclass(slots=True)
class Archived:
    """The result of archiving.

    Attributes:
        files: The numbers of the new files.
        runs: How many runs were archived.
        entries: How many audit entries were archived.
        sessions: How many unused sessions of agents were deleted.
        busy: Whether another process is archiving, so that nothing was done.
    """

    files: list[int] = field(default_factory=list)
    runs: int = 0
    entries: int = 0
    sessions: int = 0
    busy: bool = False


class _Batch(NamedTuple):
    entries: Sequence[tuple[str, str, str]]
    runs: Sequence[RunBundle]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to archive.

        Entries about earlier archiving do not count, because each archiving adds one.
        """
        return not self.runs and all('"what":"archived"' in text for _, text, _ in self.entries)


class Archiver:
    """Archives old runs and audit entries.

    Any number of processes may have one; a lease lets one of them archive at a time.

    Args:
        ledger: The ledger.
        files: The archive.
        after: How long after its last event a run is archived.
        feeds: Whether webhooks read the audit. Entries that they have not read are not archived.
        wanted: Returns whether to archive a run that is old enough; None archives all.
    """

    def __init__(
        self,
        ledger: Ledger,
        files: ArchiveFiles,
        *,
        after: timedelta,
        feeds: bool = False,
        wanted: Callable[[RunBundle], bool] | None = None,
    ) -> None:
        self._ledger = ledger
        self._files = files
        self._after = after
        self._feeds = feeds
        self._wanted = wanted

    async def run_forever(self) -> None:
        """Archive every hour until cancelled; log errors, and retry."""
        while True:
            try:
                if not (await self.once()).busy:
                    metrics.record(metrics.ARCHIVE_ATTEMPTS, "ok")
            except (SignoffError, OSError) as error:
                metrics.record(metrics.ARCHIVE_ATTEMPTS, "failed")
                log.error("archive.failed", error=str(error))  # noqa: TRY400 -- the message says it all
            await asyncio.sleep(CYCLE.total_seconds())

    async def once(self) -> Archived:
        """Archive everything that is old enough, and delete unused sessions that are as old.

        Raises:
            ArchiveBroken: A file of the archive is missing or was changed. Nothing was removed.
            LedgerUnavailable: Redis cannot be reached. The next call continues.
            OSError: A file cannot be written.
            ConfigError: The folder cannot be created.
        """
        before = await self._ledger.now() - self._after
        found = Archived()
        async with archive_lease(self._ledger) as hold:
            if hold is None:
                return Archived(busy=True)
            anchor = await recover(self._ledger, self._files, hold)
            while True:
                batch = await self._batch(anchor, before)
                if batch.is_empty:
                    break
                anchor = await self._archive(anchor, batch, hold)
                found.files.append(anchor.sequence)
                found.runs += len(batch.runs)
                found.entries += len(batch.entries)
        if self._wanted is None:
            records = SessionRecords(self._ledger.store)
            found.sessions = await records.end(before=before.timestamp())
        return found

    async def _batch(self, anchor: Anchor, before: datetime) -> _Batch:
        """Return the next audit entries, and the runs that have no later entry."""
        rows: list[tuple[str, str, str]] = []
        last = before
        limit = await self._fed()
        async for row in audit.entries(self._ledger.store, after=anchor.entry):
            at = _moment(row[1]) or last
            if at > before or (limit and audit.order(row[0]) > audit.order(limit)):
                break
            rows.append(row)
            if len(rows) == _ENTRIES:
                last = at
                break
        end = rows[-1][0] if rows else anchor.entry
        return _Batch(rows, await self._ended(end, last) if end else [])

    async def _fed(self) -> str:
        record = await self._ledger.raw("webhooks") if self._feeds else None
        return "" if record is None else record[1]

    async def _ended(self, end: str, last: datetime) -> list[RunBundle]:
        """Return runs that can be archived, and whose audit entries are not after a given one."""
        found: list[RunBundle] = []
        names, now = names_in(await waiting_work(self._ledger)), await self._ledger.now()
        place: tuple[int, str] | None = None
        while len(found) < _RUNS:
            page = await self._ledger.store.behind("runs", before=place, limit=100, rising=True)
            ids = [one for score, one in page if score <= to_us(last)]
            for one in await run_bundles(self._ledger, ids):
                inside = all(audit.order(id_) <= audit.order(end) for id_ in one.trail.split())
                wanted = self._wanted is None or self._wanted(one)
                if wanted and inside and not one.why_kept(now, names):
                    found.append(one)
            if len(ids) < 100:
                break
            place = page[-1]
        return found[:_RUNS]

    async def _archive(self, anchor: Anchor, batch: _Batch, hold: KeyLease) -> Anchor:
        now = await self._ledger.now()
        sequence = anchor.sequence + 1
        head = FileHeader(
            sequence=sequence,
            after=anchor.entry,
            link=anchor.link,
            count=anchor.count,
            at=now,
            kept=anchor.kept,
        )
        lines = [audit.to_line(*one) for one in batch.entries]
        lines += [one.to_line() for run in batch.runs for one in run.records]
        part = await asyncio.to_thread(self._files.write, head, lines)
        last = batch.entries[-1] if batch.entries else (anchor.entry, "", anchor.link)
        after = anchor.model_copy(
            update={
                "sequence": sequence,
                "part": part.name,
                "sha256": part.sha256,
                "entry": last[0],
                "link": last[2],
                "count": anchor.count + len(batch.entries),
                "pruning": True,
                "kept": (),
            }
        )
        more = {"sequence": sequence, "sha256": part.sha256, "runs": len(batch.runs)}
        event = Event(what=What.ARCHIVED, at=now, by="archive", more=more)
        try:
            await self._ledger.commit(hold.fence(anchor.put(Change(), after).note([event])))
        except LedgerError:
            # The commit may have been carried out. Then the ledger names the file.
            if (await read_anchor(self._ledger)).part != part.name:
                self._files.drop(part.name)
            raise
        log.info("archive.written", file=str(self._files.path(sequence)), runs=len(batch.runs))
        return await recover(self._ledger, self._files, hold)


@asynccontextmanager
async def archive_lease(ledger: Ledger) -> AsyncIterator[KeyLease | None]:
    """Hold the lease of the archive while the body runs; None if another process holds it."""
    token, loop = secrets.token_hex(8), asyncio.get_running_loop()
    at = loop.time()
    if not await ledger.take_lease(LEASE_KEY, token, lease=_LEASE):
        yield None
        return
    async with kept(ledger, LEASE_KEY, token, lease=_LEASE, alive_at=at) as hold:
        yield hold


async def recover(ledger: Ledger, files: ArchiveFiles, hold: KeyLease) -> Anchor:
    """Finish interrupted work: give files their final names, and remove their contents from Redis.

    Raises:
        ArchiveBroken: A file is missing or was changed. Nothing was removed from the ledger.
    """
    anchor = await read_anchor(ledger)
    for swap in anchor.swaps:
        files.place(swap.sequence, PartialFile(swap.part, swap.sha256), replaces=True)
    if anchor.sequence:
        files.place(anchor.sequence, anchor.last)
    for name, sequence in files.unplaced().items():
        # Left by a process that died or lost its lease. The ledger has another file with this
        # number, so this one is not needed.
        if sequence <= anchor.sequence:
            files.drop(name)
    if anchor.pruning or anchor.swaps:
        kept = await _prune(ledger, files, anchor) if anchor.pruning else anchor.kept
        after = anchor.model_copy(update={"pruning": False, "swaps": (), "kept": kept})
        await ledger.commit(hold.fence(anchor.put(Change(), after)))
        anchor = await read_anchor(ledger)
    return anchor


async def _prune(ledger: Ledger, files: ArchiveFiles, anchor: Anchor) -> tuple[str, ...]:
    """Remove the contents of the last file from the ledger; return the runs that have changed."""
    left: list[str] = []
    gone: list[str] = []
    runs: list[list[ArchivedRecord]] = []
    rows: list[tuple[str, str]] = []
    for line in files.read(anchor.sequence):
        match line:
            case ArchivedRecord(kind="run"):
                runs.append([line])
            case ArchivedRecord():
                runs[-1].append(line)
            case ArchivedEntry():
                rows.append((line.id, str(_fields(line.text).get("run", ""))))
            case _:
                pass
    for start in range(0, len(runs), _AT_ONCE):
        page = runs[start : start + _AT_ONCE]
        done = await ledger.store.script("prune", json.dumps([_removal(one) for one in page]))
        for records, outcome in zip(page, done, strict=True):
            if outcome != 1:
                left.append(records[0].id)
                log.info("archive.kept", run=records[0].id, waits=outcome < 0)
            else:
                # The script does not see packed entries.
                gone += records[0].trail.split()
    await _prune_rest(ledger, rows, gone)
    return tuple(left)


async def _prune_rest(ledger: Ledger, rows: Sequence[tuple[str, str]], gone: Sequence[str]) -> None:
    """Remove the entries without a run, and those whose run is not in the ledger any more.

    Args:
        ledger: The ledger.
        rows: The entries of a file, each with its run.
        gone: More entries of runs that are not in the ledger any more.
    """
    store = ledger.store
    names = sorted({run for _, run in rows if run})
    there: set[str] = set()
    for start in range(0, len(names), _ENTRIES):
        page = names[start : start + _ENTRIES]
        found = await store.read([f"run:{one}" for one in page])
        there |= {one for one, record in zip(page, found, strict=True) if record is not None}
    over = [entry_id for entry_id, run in rows if run not in there]
    await audit.remove(store, [*gone, *over])


def _removal(records: Sequence[ArchivedRecord]) -> dict[str, object]:
    drop = {entry[:2] for one in records for entry in entries(value_of(one))}
    return {
        "run": records[0].id,
        "trail": records[0].trail,
        "records": [[one.key, f"{one.version} {one.mark}"] for one in records],
        "drop": sorted(drop),
    }


def _moment(text: str) -> datetime | None:
    at = _fields(text).get("at")
    try:
        return datetime.fromisoformat(at) if isinstance(at, str) else None
    except ValueError:
        return None


def _fields(text: str) -> dict[str, Any]:
    """Return the fields of an entry, which a newer version may have written."""
    try:
        fields = json.loads(text)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}
