"""A backup is one moment of a working ledger, and restores into an empty Redis unchanged."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from archiving import archiver, seeded
from builders import MARA, paused, people
from deciding import Decider
from services import plain_redis
from signoff.broker.archive import backup as backups
from signoff.broker.archive import reading
from signoff.broker.archive.backup import patient_store
from signoff.broker.archive.files import ArchiveFiles
from signoff.broker.ledger import audit
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.rebuild import rebuild
from signoff.core.approvals.run import RunState
from signoff.core.base.errors import BackupRefused


@pytest.fixture
async def empty(tmp_path: Path) -> AsyncIterator[Ledger]:
    """Return a ledger on an empty Redis."""
    (tmp_path / "other").mkdir()
    with plain_redis(tmp_path / "other") as url:
        ledger = Ledger(patient_store(url, "{copy}:"))
        yield ledger
        await ledger.close()


async def contents(ledger: Ledger) -> dict[str, str]:
    """Return each lasting key with a value that changes with its content."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "ledger.backup"
        await backups.backup(ledger.store, file)
        _, keys = backups.check(file)
    return {one.name: one.digest for one in keys if one.expires is None}


async def test_a_restore_brings_back_every_key_of_the_backup(
    ledger: Ledger, decider: Decider, empty: Ledger, tmp_path: Path
) -> None:
    """Every key is restored, with work, leases and expiry times; the audit still verifies."""
    await seeded(ledger, 5, waiting=3)
    run, (approval,) = await paused(ledger)
    await decider.approve(approval.id, MARA, channel="email", reason="bön\u2028\x00 appétit")
    await ledger.claim("resume.finance", limit=1)
    await archiver(ledger, ArchiveFiles(tmp_path / "archive"), after=timedelta()).once()
    before, file = await contents(ledger), tmp_path / "ledger.backup"
    count = await backups.backup(ledger.store, file)
    assert file.stat().st_mode & 0o077 == 0
    done = await backups.restore(empty, file)
    assert done.keys == count
    assert list(done.running) == [run.id]
    assert await contents(empty) == before
    head = (await reading.verify(ledger, ArchiveFiles(tmp_path / "archive"))).head
    found = await reading.verify(empty, ArchiveFiles(tmp_path / "archive"), expect_head=head)
    assert found.entries == done.entries
    # The ledger continues to work.
    other = Decider(empty, people())
    (waiting, *_) = await empty.pending()
    await other.approve(waiting.id, MARA, channel="email")
    assert (await empty.run(waiting.origin.run)).state is RunState.ANSWERED
    await reading.verify(empty, ArchiveFiles(tmp_path / "archive"), expect_head=head)


async def test_an_existing_file_or_link_at_the_temporary_path_is_not_written(
    ledger: Ledger, tmp_path: Path
) -> None:
    """A file or link under the name of the unfinished backup is not written to."""
    file, others = tmp_path / "ledger.backup", tmp_path / "others"
    others.write_text("")
    (tmp_path / "ledger.backup.part").symlink_to(others)
    await backups.backup(ledger.store, file)
    assert not others.read_text()
    assert not file.is_symlink()
    assert file.stat().st_mode & 0o077 == 0


async def test_a_backup_is_consistent_under_concurrent_writes(
    ledger: Ledger, decider: Decider, empty: Ledger, tmp_path: Path
) -> None:
    """Records, work and audit in it agree, however much is decided meanwhile."""
    approvals = [(await paused(ledger, siblings=10))[1] for _ in range(3)]

    async def decide() -> None:
        for one in [one for some in approvals for one in some]:
            await decider.approve(one.id, MARA, channel="email")

    deciding, files = asyncio.create_task(decide()), list[Path]()
    while not deciding.done():
        files.append(tmp_path / f"{len(files)}.backup")
        await backups.backup(ledger.store, files[-1])
    await deciding
    await backups.restore(empty, files[len(files) // 2])
    decided = await empty.decided()
    assert len(decided) + len(await empty.pending()) == 30
    events = [text async for _, text, _ in audit.entries(empty.store) if '"approved"' in text]
    assert len(events) == len(decided)
    for run in await empty.recent_runs():
        read = await empty.approvals(run.approvals)
        assert {*run.waiting} == {one.id for one in read if one.decision is None}
    before = await contents(empty)
    await rebuild(empty)
    after = await contents(empty)
    # A rebuilt record has another version and is otherwise the same.
    assert {*after} == {*before}


async def test_a_restore_into_a_non_empty_ledger_is_refused(
    ledger: Ledger, empty: Ledger, tmp_path: Path
) -> None:
    """The existing data stays as it is."""
    await seeded(ledger, 1)
    file = tmp_path / "ledger.backup"
    await backups.backup(ledger.store, file)
    await empty.store.client.set("somebody's", "1")
    with pytest.raises(BackupRefused, match="1 key"):
        await backups.restore(empty, file)
    assert await empty.store.client.dbsize() == 1
    await empty.store.client.flushdb()
    await backups.restore(empty, file)
    before = await contents(empty)
    with pytest.raises(BackupRefused, match="not empty"):
        await backups.restore(empty, file)
    assert await contents(empty) == before


async def test_a_damaged_backup_is_refused(ledger: Ledger, empty: Ledger, tmp_path: Path) -> None:
    """A truncated, changed or missing backup leaves Redis empty; no file is overwritten."""
    await seeded(ledger, 2)
    file, broken = tmp_path / "ledger.backup", tmp_path / "broken.backup"
    await backups.backup(ledger.store, file)
    with pytest.raises(BackupRefused, match="already"):
        await backups.backup(ledger.store, file)
    whole = file.read_bytes()
    lines = gzip.decompress(whole)
    for data in (
        whole[: len(whole) // 2],
        gzip.compress(lines.replace(b"riley", b"rilex")),
        gzip.compress(b"".join(lines.splitlines(keepends=True)[:-1])),
        gzip.compress(lines + b"{}\n"),
        gzip.compress(b"5\n"),
        sealed(b"[]\n"),
        sealed(b'{"backup": 1}\n'),
        sealed(b'{"backup": 1, "at": 1}\n{"name": "run:1"}\n'),
        *(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :] for at in (12, 40, 200)),
        b"no backup",
        b"",
    ):
        broken.write_bytes(data)
        with pytest.raises(BackupRefused):
            await backups.restore(empty, broken)
    assert await empty.store.client.dbsize() == 0


def sealed(lines: bytes) -> bytes:
    """Return lines with their checksum, as in a backup."""
    end = json.dumps({"sha256": hashlib.sha256(lines).hexdigest()}).encode()
    return gzip.compress(lines + end + b"\n")


async def test_a_full_disk_leaves_no_partial_file(ledger: Ledger, tmp_path: Path) -> None:
    """An unfinished backup or archive file is deleted, and the next attempt succeeds."""
    await seeded(ledger, 100)
    file, files = tmp_path / "ledger.backup", ArchiveFiles(tmp_path / "archive")
    with full_disk():
        with pytest.raises(BackupRefused, match="cannot be written: File too large"):
            await backups.backup(ledger.store, file)
        with pytest.raises(OSError, match="File too large"):
            await archiver(ledger, files, after=timedelta()).once()
    assert files_in(tmp_path) == []
    await backups.backup(ledger.store, file)
    await archiver(ledger, files, after=timedelta()).once()
    await reading.verify(ledger, files)


def files_in(folder: Path) -> list[Path]:
    """Return the files in a folder and in its subfolders."""
    return [one for one in folder.rglob("*") if one.is_file()]


@contextmanager
def full_disk() -> Iterator[None]:
    """Limit the files of this process to 10,000 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.soak
async def test_ten_thousand_approvals(ledger: Ledger, empty: Ledger, tmp_path: Path) -> None:
    """They are indexed again, backed up, restored and archived, and leave nothing behind."""
    await seeded(ledger, 9_000, waiting=1_000)
    store = ledger.store
    indexes = {name: await store.members(name) for name in ("approvals", "waiting", "runs")}
    for name in indexes:
        await store.client.delete(store.prefix + name)
    assert await rebuild(ledger) == 20_000
    assert {name: await store.members(name) for name in indexes} == indexes
    file, files = tmp_path / "ledger.backup", ArchiveFiles(tmp_path / "archive")
    await backups.backup(store, file)
    done = await backups.restore(empty, file)
    assert done.entries == 9_000 * 6 + 1_000
    assert await contents(empty) == await contents(ledger)
    assert (await archiver(empty, files, after=timedelta()).once()).runs == 9_000
    assert len(await empty.recent_runs()) == 1_000
    assert (await reading.verify(empty, files)).entries >= done.entries


@pytest.mark.soak
async def test_redis_does_not_grow(empty: Ledger, tmp_path: Path) -> None:
    """Runs that end and are archived do not change the size of Redis."""
    files, sizes = ArchiveFiles(tmp_path / "archive"), list[int]()
    client = empty.store.client
    for start in range(0, 5_000, 500):
        await seeded(empty, 500, start=start)
        await archiver(empty, files, after=timedelta()).once()
        # Drop the keys with an expiry; they would expire later.
        for key in await client.keys("*"):
            if await client.pttl(key) >= 0:
                await client.delete(key)
        sizes.append(sum([await client.memory_usage(key) or 0 for key in await client.keys("*")]))
    assert max(sizes[1:]) - min(sizes[1:]) < 1_000, sizes
