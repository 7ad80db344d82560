"""Ended runs move into the archive completely and once, and the audit still verifies."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from archiving import DAYS, archiver, drained, ended
from builders import MARA, paused, program_for
from deciding import Decider
from signoff.broker.archive import archiver as archiving
from signoff.broker.archive import reading
from signoff.broker.archive.anchor import Anchor, read_anchor
from signoff.broker.archive.archiver import Archiver
from signoff.broker.archive.files import ArchiveFiles
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.follow import latest
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.rebuild import rebuild
from signoff.broker.monitoring import metrics
from signoff.broker.work import SendNotice
from signoff.core.approvals.approval import Handoff
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.parts import Kind
from signoff.core.approvals.run import Run, RunState
from signoff.core.base.errors import (
    AlreadyDecided,
    ApprovalNotFound,
    ArchiveBroken,
    AuditBroken,
    NotArchived,
)
from signoff.core.grants.grant import Grant, GrantScope, grant_id
from signoff.testing import VirtualClock


@pytest.fixture
def files(tmp_path: Path) -> ArchiveFiles:
    """Return an empty archive."""
    return ArchiveFiles(tmp_path / "archive")


@dataclass
class Office:
    """A ledger on a virtual clock, and its archive."""

    ledger: Ledger
    decider: Decider
    clock: VirtualClock
    files: ArchiveFiles


@pytest.fixture
def office(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, files: ArchiveFiles
) -> Office:
    """Return an office with an empty archive."""
    return Office(still_ledger, still_decider, clock, files)


async def contents(ledger: Ledger) -> dict[str, Any]:
    """Return each key of the ledger without an expiry, with the number of its members."""
    client, prefix = ledger.store.client, ledger.store.prefix
    found: dict[str, Any] = {}
    counts: dict[str, Callable[[str], Awaitable[Any]]] = {
        "string": client.strlen,
        "zset": client.zcard,
        "hash": client.hlen,
        "set": client.scard,
        "stream": client.xlen,
    }
    for key in await ledger.store.keys(""):
        if await client.ttl(prefix + key) == -1:
            kind = await client.type(prefix + key)
            found[key] = await counts[str(kind)](prefix + key)
    return found


def names(files: ArchiveFiles) -> list[str]:
    """Return the names in the folder of the archive."""
    return sorted(one.name for one in files.folder.iterdir())


async def all_records(ledger: Ledger, files: ArchiveFiles) -> list[str]:
    """Return the keys of all records in the archive."""
    return [one.record.key async for one in reading.items(ledger, files)]


async def test_an_archived_run_is_read_from_files_and_removed_from_redis(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, files: ArchiveFiles
) -> None:
    """Run, approvals and audit are read from the files, and Redis has none of them."""
    run, approvals = await ended(still_ledger, still_decider, siblings=2)
    head = (await audit.verify(still_ledger.store))[1]
    clock.advance(DAYS + timedelta(seconds=1))
    done = await archiver(still_ledger, files).once()
    assert (done.files, done.runs, done.entries) == ([1], 1, 12)
    with pytest.raises(ApprovalNotFound):
        await still_ledger.approval(approvals[0].id)
    kept, events = await reading.find(still_ledger, files, approvals[0].id)
    assert kept == approvals[0]
    assert [one.what for one in events][-2:] == [What.FINISHED, What.RESUMED]
    assert (await reading.find(still_ledger, files, run.id))[0] == run
    found = await reading.verify(still_ledger, files, expect_head=head)
    assert (found.entries, found.archived, found.files) == (13, 12, 1)
    with pytest.raises(NotArchived):
        await reading.find(still_ledger, files, "run_none")


async def test_an_archived_run_leaves_nothing_in_redis(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, files: ArchiveFiles
) -> None:
    """However many runs have ended, Redis has the same keys with as many members."""
    counted = []
    for count in (1, 4):
        for _ in range(count):
            await ended(still_ledger, still_decider, siblings=2)
        clock.advance(DAYS + timedelta(seconds=1))
        await archiver(still_ledger, files).once()
        # The next archiving also archives the note of this one.
        counted.append(await contents(still_ledger))
    first, second = counted
    for both in counted:
        both.pop("archive")
    assert second == first
    assert set(first) == {"audit", "audit:head", "stages"} | {
        one for one in first if "bells" in one
    }
    assert first["audit"] == 1


async def test_archiving_without_new_events_writes_nothing(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, files: ArchiveFiles
) -> None:
    """If nothing but archiving has happened since, nothing is written."""
    await ended(still_ledger, still_decider)
    for _ in range(4):
        clock.advance(DAYS + timedelta(seconds=1))
        await archiver(still_ledger, files).once()
    assert names(files) == ["000001.jsonl"]


async def test_a_run_with_a_recent_event_is_not_archived(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, files: ArchiveFiles
) -> None:
    """The last event counts, even if it is the refusal of a late answer."""
    _, (approval,) = await ended(still_ledger, still_decider)
    clock.advance(DAYS - timedelta(days=1))
    with pytest.raises(AlreadyDecided):
        await still_decider.approve(approval.id, MARA, channel="email")
    await drained(still_ledger)
    clock.advance(timedelta(days=2))
    done = await archiver(still_ledger, files).once()
    assert (done.runs, done.entries) == (0, 7)
    assert await still_ledger.approval(approval.id)
    assert len(await still_ledger.history(approval.id)) == 6
    clock.advance(DAYS)
    assert (await archiver(still_ledger, files).once()).runs == 1
    assert (await reading.verify(still_ledger, files)).files == 2


async def waits(ledger: Ledger, decider: Decider) -> Run:
    """Make a run that waits for an answer."""
    return (await paused(ledger, within=timedelta(days=200)))[0]


async def half_waits(ledger: Ledger, decider: Decider) -> Run:
    """Make a run of which one of two approvals is answered."""
    run, (first, _) = await paused(ledger, siblings=2, within=timedelta(days=200))
    await decider.approve(first.id, MARA, channel="email")
    await drained(ledger)
    return run


async def queued(ledger: Ledger, decider: Decider) -> Run:
    """Make a run that waits for a worker."""
    return await decider.submit("finance", "hi", user="riley")


async def in_doubt(ledger: Ledger, decider: Decider) -> Run:
    """Make a run whose tool started and was not seen to finish."""
    run, (approval,) = await paused(ledger)
    await decider.approve(approval.id, MARA, channel="email")
    await drained(ledger)
    was = await ledger.run(run.id)
    await ledger.commit(Change().put(was.in_doubt("the worker died"), was=was))
    return run


async def started(ledger: Ledger, decider: Decider) -> Run:
    """Make a run that failed while its tool was running."""
    run, (approval,) = await paused(ledger)
    await decider.approve(approval.id, MARA, channel="email")
    await drained(ledger)
    now, change = await ledger.now(), Change()
    approved, was = await ledger.approval(approval.id), await ledger.run(run.id)
    change.put(approved.hand_on(Handoff.STARTED, now=now)[0], was=approved)
    await ledger.commit(change.put(was.failed("it fell", now=now)[0], was=was))
    return run


async def undelivered(ledger: Ledger, decider: Decider) -> Run:
    """Make a run with an undelivered message."""
    run, (approval,) = await ended(ledger, decider)
    notice = SendNotice(
        channel="email", approval=approval.id, person="mara", headline="Late.", cause="m1"
    )
    await ledger.commit(Change().send(notice, after=3600))
    return run


async def granted(ledger: Ledger, decider: Decider) -> Run:
    """Make a run with a grant that still covers other calls."""
    run, (approval,) = await ended(ledger, decider)
    now = await ledger.now()
    scope = GrantScope(
        app="finance",
        agent="",
        tool="reimburse",
        user="riley",
        kind=Kind.CONFIRMATION,
        policy="expenses",
        args={},
    )
    grant = Grant(
        id=grant_id(approval.id),
        scope=scope,
        by="mara",
        channel="email",
        at=now,
        expires_at=now + timedelta(days=200),
        uses=3,
        approval=approval.id,
        run=run.id,
    )
    await ledger.commit(Change().put(grant, was=None))
    return run


async def startable(ledger: Ledger, decider: Decider) -> Run:
    """Make the run of a program that has not started its approved call and still may."""
    run, (approval,) = await paused(ledger)
    program = program_for(approval, valid_for=timedelta(days=200))
    change = Change().put(approval.model_copy(update={"program": program}), was=approval)
    await ledger.commit(change.put(run.model_copy(update={"outside": True}), was=run))
    await decider.approve(approval.id, MARA, channel="inbox")
    await drained(ledger)
    return await ledger.run(run.id)


@pytest.mark.parametrize(
    "still",
    [waits, half_waits, queued, in_doubt, started, undelivered, granted, startable],
    ids=lambda one: one.__name__,
)
async def test_an_unfinished_run_is_not_archived(
    still_ledger: Ledger,
    still_decider: Decider,
    clock: VirtualClock,
    files: ArchiveFiles,
    still: Callable[[Ledger, Decider], Awaitable[Run]],
) -> None:
    """Records, work and timeline of the run stay; other ended runs are archived."""
    run = await still(still_ledger, still_decider)
    gone, _ = await ended(still_ledger, still_decider, session="other")
    before = await still_ledger.history(run.id)
    clock.advance(DAYS + timedelta(seconds=1))
    assert (await archiver(still_ledger, files).once()).runs == 1
    assert (await still_ledger.run(run.id)).id == run.id
    assert await still_ledger.history(run.id) == before
    assert gone.id not in [one.id for one in await still_ledger.recent_runs()]
    found = await reading.verify(still_ledger, files)
    assert found.entries == found.archived + 1
    await rebuild(still_ledger)
    assert await still_ledger.history(run.id) == before


async def test_a_run_in_doubt_is_archived_after_its_resolution(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, files: ArchiveFiles
) -> None:
    """The resolution of the doubt is in the audit, and counts as the run's last event."""
    run = await in_doubt(still_ledger, still_decider)
    now = await still_ledger.now()
    settled = Event(what=What.SETTLED, at=now, run=run.id, by="ops", why="it was not paid")
    await still_ledger.commit(Change().note([settled]))
    clock.advance(DAYS + timedelta(seconds=1))
    assert (await archiver(still_ledger, files).once()).runs == 1
    kept, events = await reading.find(still_ledger, files, run.id)
    assert isinstance(kept, Run)
    assert kept.state is RunState.IN_DOUBT
    assert events[-1] == settled


class Crash(BaseException):
    """The end of a process; no handler catches it."""


def crashing(real: Any, *, at: int = 1) -> Any:
    """Return a function that does the same, but ends the process at its nth call."""
    calls = 0

    def call(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            raise Crash
        return real(*args, **options)

    return call


@pytest.mark.parametrize("packed", [False, True], ids=["stream", "blocks"])
@pytest.mark.parametrize(
    "step",
    [
        (Anchor, "put", 1),
        (ArchiveFiles, "place", 1),
        (archiving, "_prune", 1),
        (archiving, "_removal", 2),
        (archiving, "_prune_rest", 1),
        (Anchor, "put", 2),
        (Anchor, "put", 3),
        (archiving, "_removal", 4),
    ],
    ids=["written", "committed", "placed", "one_removed", "removed", "all_gone", "2nd", "2nd_half"],
)
async def test_a_crash_while_archiving_neither_loses_nor_duplicates_records(
    office: Office, step: tuple[Any, str, int], packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash at any step, the next archiving leaves each record in exactly one place."""
    still_ledger, still_decider = office.ledger, office.decider
    clock, files = office.clock, office.files
    kept = [(await ended(still_ledger, still_decider))[0].id for _ in range(5)]
    if packed:
        monkeypatch.setattr(audit, "BLOCK", 8)
        assert await audit.pack_entries(still_ledger.store, age=timedelta()) == 32
    monkeypatch.setattr(archiving, "_RUNS", 2)
    monkeypatch.setattr(archiving, "_AT_ONCE", 1)
    clock.advance(DAYS + timedelta(seconds=1))
    owner, name, at = step
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, crashing(getattr(owner, name), at=at))
        with pytest.raises(Crash):
            await archiver(still_ledger, files).once()
    assert not (await archiver(still_ledger, files).once()).busy
    assert {*await contents(still_ledger)} <= {"archive", "audit", "audit:head", "stages", "bells"}
    found = await all_records(still_ledger, files)
    assert sorted(one for one in found if one.startswith("run:")) == sorted(
        f"run:{one}" for one in kept
    )
    assert len(found) == len(set(found)) == 10
    assert all(one.endswith(".jsonl") for one in names(files))
    verified = await reading.verify(still_ledger, files)
    assert verified.archived == 35


async def test_a_record_changed_during_archiving_stays_in_the_ledger(
    still_ledger: Ledger,
    still_decider: Decider,
    clock: VirtualClock,
    files: ArchiveFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A record that is written between the file and its removal stays in the ledger."""
    run, (approval,) = await ended(still_ledger, still_decider)
    clock.advance(DAYS + timedelta(seconds=1))
    real = archiving._prune

    async def prune(*args: Any) -> Any:
        was = await still_ledger.approval(approval.id)
        after = was.model_copy(update={"reported": True})
        await still_ledger.commit(Change().put(after, was=was))
        return await real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(archiving, "_prune", prune)
        # Only one round: the next one would archive the record in its new form.
        patch.setattr(archiving._Batch, "is_empty", property(lambda one: not one.entries))
        await archiver(still_ledger, files).once()
    assert (await still_ledger.approval(approval.id)).reported
    assert await all_records(still_ledger, files) == []
    await reading.verify(still_ledger, files)
    await archiver(still_ledger, files).once()
    assert await all_records(still_ledger, files) == [f"run:{run.id}", f"approval:{approval.id}"]
    kept, _ = await reading.find(still_ledger, files, approval.id)
    assert getattr(kept, "reported", False)


@pytest.mark.parametrize("adds", ["work", "an entry"])
async def test_a_run_that_goes_on_during_archiving_stays_in_the_ledger(
    still_ledger: Ledger,
    still_decider: Decider,
    clock: VirtualClock,
    files: ArchiveFiles,
    monkeypatch: pytest.MonkeyPatch,
    *,
    adds: str,
) -> None:
    """Its records are unchanged, but work needs them, or the file lacks an entry of its trail."""
    run, (approval,) = await ended(still_ledger, still_decider)
    clock.advance(DAYS + timedelta(seconds=1))
    change = Change()
    if adds == "work":
        change.send(
            SendNotice(
                channel="email", approval=approval.id, person="mara", headline="Late.", cause="m1"
            )
        )
    else:
        now = await still_ledger.now()
        change.note([approval.note(What.REFUSED_ANSWER, now=now, by="mara", why="late")])
    real = archiving._prune

    async def prune(*args: Any) -> Any:
        await still_ledger.commit(change)
        return await real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(archiving, "_prune", prune)
        # Only one round: the next one would look at the run again.
        patch.setattr(archiving._Batch, "is_empty", property(lambda one: not one.entries))
        await archiver(still_ledger, files).once()
    assert (await still_ledger.run(run.id)).id == run.id
    assert (await still_ledger.approval(approval.id)).id == approval.id
    refused = [one.what is What.REFUSED_ANSWER for one in await still_ledger.history(run.id)]
    assert any(refused) == (adds == "an entry")
    await reading.verify(still_ledger, files)


async def test_only_one_process_archives_at_a_time(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, files: ArchiveFiles
) -> None:
    """Of several that start together, one archives and the others do nothing."""
    for _ in range(3):
        await ended(still_ledger, still_decider)
    clock.advance(DAYS + timedelta(seconds=1))
    done = await asyncio.gather(*(archiver(still_ledger, files).once() for _ in range(5)))
    assert sorted(one.runs for one in done) == [0, 0, 0, 0, 3]
    assert len(await all_records(still_ledger, files)) == 6


async def test_entries_unread_by_webhooks_are_not_archived(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, files: ArchiveFiles
) -> None:
    """The archive stops at the position of the feed."""
    await ended(still_ledger, still_decider)
    await still_ledger.commit(Change().put_raw("webhooks", await latest(still_ledger.store)))
    await ended(still_ledger, still_decider, session="later")
    clock.advance(DAYS + timedelta(seconds=1))
    done = await Archiver(still_ledger, files, after=DAYS, feeds=True).once()
    assert (done.runs, done.entries) == (1, 7)


async def rewritten(files: ArchiveFiles, change: Callable[[str], str], *, sums: bool) -> None:
    """Change a file of the archive and the checksum in its last line."""
    path = files.path(1)
    *lines, _ = change(path.read_text()).splitlines(keepends=True)
    whole = hashlib.sha256("".join(lines).encode()).hexdigest()
    last = (
        json.dumps({"sha256": whole}) + "\n" if sums else path.read_text().splitlines()[-1] + "\n"
    )
    path.write_text("".join([*lines, last]))


@pytest.mark.parametrize("sums", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("riley", "rilex"),
        lambda text: text.replace('"what":"approved"', '"what":"rejected"'),
        lambda text: "".join(
            text.splitlines(keepends=True)[:2] + text.splitlines(keepends=True)[3:]
        ),
        lambda text: "".join(
            one for one in text.splitlines(keepends=True) if '"approval:' not in one
        ),
    ],
    ids=["person", "decision", "entry", "records"],
)
async def test_a_changed_archive_is_found_out(
    office: Office, change: Callable[[str], str], sums: bool
) -> None:
    """The chain shows changed entries, and the audit's checksums show changed records."""
    await ended(office.ledger, office.decider)
    office.clock.advance(DAYS + timedelta(seconds=1))
    await archiver(office.ledger, office.files).once()
    await rewritten(office.files, change, sums=sums)
    with pytest.raises((ArchiveBroken, AuditBroken)):
        await reading.verify(office.ledger, office.files)


async def test_a_missing_file_stops_archiving(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, tmp_path: Path
) -> None:
    """Without the folder, another machine archives nothing and removes nothing."""
    for _ in range(2):
        await ended(still_ledger, still_decider)
        clock.advance(DAYS + timedelta(seconds=1))
        if not (tmp_path / "one").exists():
            await archiver(still_ledger, ArchiveFiles(tmp_path / "one")).once()
    elsewhere = ArchiveFiles(tmp_path / "two")
    with pytest.raises(ArchiveBroken, match="share one folder"):
        await archiver(still_ledger, elsewhere).once()
    with pytest.raises(ArchiveBroken):
        await reading.verify(still_ledger, elsewhere)
    assert len(await still_ledger.recent_runs()) == 1


async def test_failed_and_successful_archiving_are_counted(ledger: Ledger, tmp_path: Path) -> None:
    """Redis grows while nothing is archived, so an alert has to see each failure."""
    taken = tmp_path / "taken"
    taken.touch()
    await ledger.commit(Change().note([Event(what=What.COMMENTED, at=await ledger.now(), by="x")]))
    samples: asyncio.Queue[metrics.Sample] = asyncio.Queue()
    metrics.record_to(samples.put_nowait)
    try:
        for folder, result in ((taken, "failed"), (tmp_path / "free", "ok")):
            files = ArchiveFiles(folder)
            task = asyncio.create_task(Archiver(ledger, files, after=timedelta()).run_forever())
            async with asyncio.timeout(60):
                while (sample := await samples.get())[0] is not metrics.ARCHIVE_ATTEMPTS:
                    pass
            assert sample == (metrics.ARCHIVE_ATTEMPTS, (result,), 1)
            task.cancel()
    finally:
        metrics.record_to(None)


async def test_an_entry_cut_out_of_the_ledger_is_found_out(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, files: ArchiveFiles
) -> None:
    """The chain continues after the archive, so missing and inserted entries show."""
    await paused(still_ledger, within=timedelta(days=200))
    await ended(still_ledger, still_decider, session="b")
    clock.advance(DAYS + timedelta(seconds=1))
    await archiver(still_ledger, files).once()
    await paused(still_ledger, session="c")
    store = still_ledger.store
    key = f"{store.prefix}audit"
    anchor = await read_anchor(still_ledger)
    after = [one async for one, _, _ in audit.entries(store, after=anchor.entry)]
    await reading.verify(still_ledger, files)
    await store.client.xdel(key, after[0])
    with pytest.raises(AuditBroken):
        await reading.verify(still_ledger, files)
