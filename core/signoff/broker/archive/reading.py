"""Reads the archive and the ledger together: the whole audit, and archived runs and approvals."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from signoff.broker.archive.anchor import Anchor, read_anchor
from signoff.broker.archive.candidates import value_of
from signoff.broker.archive.files import ArchivedEntry, ArchivedRecord, ArchiveFiles, FileHeader
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Record
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.records import read_event
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.run import Run
from signoff.core.base.errors import ArchiveBroken, AuditBroken, NotArchived
from signoff.core.grants.grant import Grant

_TRIES = 3


class Verified(NamedTuple):
    """The result of a successful verification.

    Attributes:
        entries: How many entries the archive and the ledger have.
        archived: How many of them are in the archive.
        files: How many files the archive has.
        head: The last link of the chain.
        unproved: In an export, how many entries were erased, so that nothing proves their text.
    """

    entries: int
    archived: int
    files: int
    head: str
    unproved: int = 0


async def verify(ledger: Ledger, files: ArchiveFiles, *, expect_head: str = "") -> Verified:
    """Verify the chain of the audit through the archive and the ledger, and every file.

    The head in `expect_head`, if any, must be a link of the chain.

    Raises:
        AuditBroken: An entry does not match its link, or the expected head is not in the chain.
        ArchiveBroken: A file is missing, was changed, or is not the one that was archived.
        LedgerUnavailable: Redis cannot be reached.
    """
    for left in reversed(range(_TRIES)):
        anchor = await read_anchor(ledger)
        try:
            return await _verify(ledger, files, anchor, expect_head)
        except (AuditBroken, ArchiveBroken):
            # If another process has archived meanwhile, entries have moved.
            if not left or (await read_anchor(ledger)).version == anchor.version:
                raise
    raise AssertionError


async def _verify(
    ledger: Ledger, files: ArchiveFiles, anchor: Anchor, expect_head: str
) -> Verified:
    walk = _Walk(files, expect_head)
    copies = await _copies(ledger, anchor)
    for sequence in range(1, anchor.sequence + 1):
        for entry in walk.file(sequence):
            copy = copies.pop(entry.id, None)
            if copy is not None and copy != (entry.text, entry.link):
                raise AuditBroken(
                    f"Entry {entry.id} differs from its copy in the archive.", entry=entry.id
                )
    chain = walk.chain
    if (chain.link, chain.count) != (anchor.link, anchor.count):
        raise AuditBroken("The ledger does not continue where the archive ends.", entry="-")
    if copies:
        first = next(iter(copies))
        raise AuditBroken(f"Entry {first} was inserted: it is not in the archive.", entry=first)
    expected = "" if walk.seen else expect_head
    async for entry_id, text, _ in audit.entries(ledger.store, after=anchor.entry):
        walk.note(entry_id, text)
    count, head = await audit.verify(
        ledger.store, expect_head=expected, chain=chain, after=anchor.entry
    )
    walk.require_noted(anchor)
    return Verified(count, anchor.count, anchor.sequence, head)


async def _copies(ledger: Ledger, anchor: Anchor) -> dict[str, tuple[str, str]]:
    """Return archived entries that are still in the ledger, because their runs are."""
    found: dict[str, tuple[str, str]] = {}
    if anchor.entry:
        async for entry_id, text, link in audit.entries(ledger.store):
            if audit.order(entry_id) > audit.order(anchor.entry):
                break
            found[entry_id] = (text, link)
    return found


class _Walk:
    """Verifies the files one after the other."""

    def __init__(self, files: ArchiveFiles, expect_head: str) -> None:
        self._files = files
        self._expect = expect_head
        self._sums: dict[int, str] = {}
        self._noted: dict[int, str] = {}
        self.chain = audit.Chain()
        self.seen = not expect_head

    def file(self, sequence: int) -> Iterator[ArchivedEntry]:
        """Verify one file, and yield its entries.

        Raises:
            ArchiveBroken: The file does not continue the previous one, or cannot be read.
        """
        self._sums[sequence] = self._files.checksum(sequence)
        for line in self._files.read(sequence):
            match line:
                case FileHeader() if (line.sequence, line.link, line.count) != (
                    sequence,
                    self.chain.link,
                    self.chain.count,
                ):
                    raise ArchiveBroken(
                        f"{self._files.path(sequence)} does not continue the previous file."
                    )
                case ArchivedEntry():
                    self.seen = self.chain.follow(*line) == self._expect or self.seen
                    self.note(line.id, line.text)
                    yield line
                case _:
                    pass

    def note(self, entry_id: str, text: str) -> None:
        """Collect the checksums of files that the audit names.

        Raises:
            AuditBroken: The entry names files and cannot be read.
        """
        if '"what":"archived"' not in text and '"what":"erased"' not in text:
            return
        event = read_event(text)
        if event is None:
            raise AuditBroken(f"Entry {entry_id} cannot be read", entry=entry_id)
        try:
            if event.what is What.ARCHIVED:
                self._noted[int(str(event.more["sequence"]))] = str(event.more["sha256"])
            files = event.more.get("files")
            if event.what is What.ERASED and isinstance(files, dict):
                self._noted |= {int(one): str(sum_) for one, sum_ in files.items()}
        except (ValueError, KeyError) as error:
            raise AuditBroken(
                f"Entry {entry_id} cannot be read: {error}", entry=entry_id
            ) from error

    def require_noted(self, anchor: Anchor) -> None:
        """Check that each file has the checksum that the audit names.

        Raises:
            ArchiveBroken: A file has another checksum, or an erasure was interrupted.
        """
        if anchor.swaps:
            raise ArchiveBroken(
                "An erasure was interrupted. `signoff archive run` finishes it; then verify again."
            )
        for sequence, sha256 in self._sums.items():
            if self._noted.get(sequence) != sha256:
                raise ArchiveBroken(
                    f"{self._files.path(sequence)} is not the file that the audit names: its "
                    "records were changed, and its checksum with them."
                )


@dataclass(frozen=True, slots=True)
class ArchivedItem:
    """A run, an approval or a grant in the archive.

    Attributes:
        sequence: The number of the file.
        record: The record.
        value: The value of the record.
    """

    sequence: int
    record: ArchivedRecord
    value: Record


async def items(ledger: Ledger, files: ArchiveFiles) -> AsyncIterator[ArchivedItem]:
    """Yield all runs, approvals and grants in the archive, the first archived first.

    Raises:
        ArchiveBroken: A file is missing or cannot be read.
    """
    anchor = await read_anchor(ledger)
    page: list[ArchivedItem] = []
    for sequence in range(1, anchor.sequence + 1):
        for line in files.read(sequence):
            if isinstance(line, FileHeader):
                for item in _counting(page, line.kept):
                    yield item
                page.clear()
            elif isinstance(line, ArchivedRecord):
                page.append(ArchivedItem(sequence, line, value_of(line)))
    for item in _counting(page, anchor.kept):
        yield item


def _counting(page: Iterable[ArchivedItem], kept: Collection[str]) -> Iterator[ArchivedItem]:
    """Yield the items of a file, without those of runs that stayed in the ledger."""
    counts = True
    for item in page:
        if item.record.kind == "run":
            counts = item.record.id not in kept
        if counts:
            yield item


async def find(
    ledger: Ledger, files: ArchiveFiles, subject: str
) -> tuple[Run | Approval | Grant, list[Event]]:
    """Return a run, an approval or a grant in the archive by its id, and its events.

    Raises:
        NotArchived: The archive does not have it.
        ArchiveBroken: A file is missing or cannot be read.
    """
    found: Record | None = None
    async for item in items(ledger, files):
        if item.record.id == subject:
            found = item.value
    if found is None:
        raise NotArchived(subject)
    events = []
    for sequence in range(1, (await read_anchor(ledger)).sequence + 1):
        for line in files.read(sequence):
            if isinstance(line, ArchivedEntry) and subject in line.text:
                event = read_event(line.text)
                if event is not None and subject in {event.approval, event.run}:
                    events.append(event)
    return found, events


async def lines(
    ledger: Ledger, files: ArchiveFiles, *, subject: str = "", after: str = ""
) -> AsyncIterator[str]:
    """Yield the audit in the archive and in the ledger as lines; see `audit.lines`.

    A `subject` is an approval or a run, whose entries are yielded; `after` is a stream id after
    which to begin.
    """
    anchor = await read_anchor(ledger)
    for sequence in range(1, anchor.sequence + 1):
        for line in files.read(sequence):
            if not isinstance(line, ArchivedEntry) or subject not in line.text:
                continue
            if after and audit.order(line.id) <= audit.order(after):
                continue
            if subject:
                event: dict[str, Any] = json.loads(line.text)
                if subject not in {event.get("approval"), event.get("run")}:
                    continue
            yield audit.to_line(*line)
    run = await ledger.run_of(subject) if subject else ""
    start = max(after, anchor.entry, key=lambda one: audit.order(one) if one else (0, 0))
    async for text in audit.lines(ledger.store, subject=subject, run=run, after=start):
        yield text
