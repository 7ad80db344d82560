"""A person's data goes from ledger and archive, and the audit's chain stays verifiable."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from archiving import DAYS, archiver, ended
from builders import CLEO, MARA, RILEY, make_approval, paused
from deciding import Decider
from signoff.broker.archive import reading
from signoff.broker.archive.anchor import Anchor
from signoff.broker.archive.erasure import erase
from signoff.broker.archive.files import ArchiveFiles
from signoff.broker.archive.redaction import Redaction
from signoff.broker.ed25519 import Key
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.receipts import Receipts
from signoff.core.approvals.approval import Approval, Decision, Handoff, State
from signoff.core.approvals.events import What
from signoff.core.approvals.run import Run
from signoff.core.base.errors import ArchiveBroken, ErasureRefused
from signoff.core.directory.people import Person
from signoff.testing import VirtualClock

PLACEHOLDER = "erased-0a1b2c3d"


@pytest.fixture
def files(tmp_path: Path) -> ArchiveFiles:
    """An empty archive."""
    return ArchiveFiles(tmp_path / "archive")


def redaction(person: Person, *also: str) -> Redaction:
    """Return what erases a person."""
    return Redaction(person.names, PLACEHOLDER, also)


def text_of(files: ArchiveFiles) -> str:
    """Return all that is in the archive."""
    return "".join(one.read_text() for one in sorted(files.folder.iterdir()))


async def text_in(ledger: Ledger) -> str:
    """Return all that is in Redis, keys included."""
    client, found = ledger.store.client, []
    for key in await ledger.store.keys(""):
        found += [key, repr(await client.dump(ledger.store.prefix + key))]
    return "\n".join(found)


async def test_who_decided_is_gone_and_what_was_decided_stays(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, files: ArchiveFiles
) -> None:
    """Old and new: her name, address and words go; the call, the digest and the chain stay."""
    old, (first,) = await ended(still_ledger, still_decider, reason="Mara says hello")
    clock.advance(DAYS + timedelta(seconds=1))
    await archiver(still_ledger, files).once()
    fresh, (second,) = await ended(still_ledger, still_decider, session="b", reason="private words")
    head = (await reading.verify(still_ledger, files)).head
    token = Change().put_raw("token:abc", '{"person": "mara"}', ttl=timedelta(days=1))
    await still_ledger.commit(token.put_raw("absences", '{"mara": {}, "cleo": {}}'))

    done = await erase(still_ledger, files, redaction(MARA, "Mara"), by="ops", why="asked")

    assert (done.placeholder, done.files) == (PLACEHOLDER, 2)
    for text in (text_of(files), await text_in(still_ledger)):
        for name in ("mara", "Mara", "m.lind", "hello", "private"):
            assert name not in text
    assert await still_ledger.raw("absences") == (2, '{"cleo": {}}')
    for run, approval in ((old, first), (fresh, second)):
        kept, events = await reading.show(still_ledger, files, approval.id)
        assert isinstance(kept, Approval)
        assert (kept.digest, kept.call) == (approval.digest, approval.call)
        assert kept.decision is not None
        assert (kept.decision.by, kept.decision.reason) == (PLACEHOLDER, "")
        assert PLACEHOLDER in {one.by for one in events}
        assert (await reading.show(still_ledger, files, run.id))[0] == run
    verified = await reading.verify(still_ledger, files, expect_head=head)
    (last,) = [one async for _, one, _ in audit.entries(still_ledger.store) if "erased" in one]
    assert '"by":"ops"' in last
    # The lines are verified outside of Redis, too.
    lines = [one async for one in reading.lines(still_ledger, files)]
    assert audit.verify_lines(lines, expect_head=head) == (verified.entries, verified.head)


async def test_who_asked_is_gone_with_what_they_asked_for(
    still_ledger: Ledger, still_decider: Decider, files: ArchiveFiles
) -> None:
    """Of their requests there stays what tool was called, how it ended, and when."""
    run, (approval,) = await ended(still_ledger, still_decider)
    await erase(still_ledger, files, redaction(RILEY), by="ops", why="asked")
    for text in (text_of(files), await text_in(still_ledger)):
        for name in ("riley", "Riley", "2500", "conference"):
            assert name not in text
    kept, _ = await reading.show(still_ledger, files, approval.id)
    assert isinstance(kept, Approval)
    assert (kept.call.name, kept.call.args, kept.state) == ("reimburse", {}, approval.state)
    assert kept.digest == approval.digest
    old, _ = await reading.show(still_ledger, files, run.id)
    assert isinstance(old, Run)
    assert (old.user, old.message, old.state) == (PLACEHOLDER, "[erased]", run.state)
    await reading.verify(still_ledger, files)


async def test_others_stay_as_they_are(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, files: ArchiveFiles
) -> None:
    """What does not name them is not touched, and what is young and not theirs is not archived."""
    run, (approval,) = await paused(still_ledger, asked=(CLEO,))
    await still_decider.approve(approval.id, CLEO, channel="email", reason="it will do")
    nobody = Person(id="will", name="Will Fox", email="will@example.com")
    done = await erase(still_ledger, files, redaction(nobody), by="ops", why="asked")
    assert done.files == 0
    assert await still_ledger.run(run.id)
    assert (await still_ledger.approval(approval.id)).decision is not None
    await reading.verify(still_ledger, files)


@pytest.mark.parametrize("person", [MARA, RILEY], ids=lambda one: one.id)
async def test_while_something_waits_nothing_is_erased(
    still_ledger: Ledger, still_decider: Decider, files: ArchiveFiles, person: Person
) -> None:
    """It is said what, and neither ledger nor archive are touched."""
    _, (approval,) = await paused(still_ledger)
    before = await text_in(still_ledger)
    with pytest.raises(ErasureRefused, match=rf"{approval.id} waits|not done|has not ended"):
        await erase(still_ledger, files, redaction(person), by="ops", why="asked")
    assert await text_in(still_ledger) == before
    assert not files.folder.exists()


class Crash(BaseException):
    """The end of a process."""


@pytest.mark.parametrize("counts", [False, True])
async def test_an_erasure_that_was_broken_off_is_finished(
    still_ledger: Ledger,
    still_decider: Decider,
    files: ArchiveFiles,
    counts: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before it counts it is as if nothing had been; after that the next archiving finishes it."""
    await ended(still_ledger, still_decider)
    await archiver(still_ledger, files, after=timedelta()).once()
    real = Anchor.put

    def put(self: Anchor, change: Change, after: Anchor) -> Change:
        if after.swaps:
            raise Crash
        return real(self, change, after)

    def place(*_: object, **options: object) -> None:
        if options.get("replaces"):
            raise Crash

    with monkeypatch.context() as patch:
        if counts:
            patch.setattr(ArchiveFiles, "place", place)
        else:
            patch.setattr(Anchor, "put", put)
        with pytest.raises(Crash):
            await erase(still_ledger, files, redaction(MARA), by="ops", why="asked")
    if counts:
        with pytest.raises(ArchiveBroken, match="broken off"):
            await reading.verify(still_ledger, files)
        await archiver(still_ledger, files).once()
    else:
        await reading.verify(still_ledger, files)
        await erase(still_ledger, files, redaction(MARA), by="ops", why="asked")
    assert "mara@example.com" not in text_of(files)
    await reading.verify(still_ledger, files)
    assert all(one.suffix == ".jsonl" for one in files.folder.iterdir())


def test_a_receipt_that_names_somebody_goes_whole() -> None:
    """Its text is signed, so nothing of it can be taken out; a receipt of others stays."""
    key = Key.generate()
    signs = Receipts(lambda: [key], lambda: key)
    for person, left in (("mara", 0), ("cleo", 1)):
        asked = make_approval()
        decision = Decision(by=person, at=asked.opened_at, channel="cli")
        update = {"state": State.APPROVED, "handoff": Handoff.RECORDED, "decision": decision}
        done = asked.model_copy(update=update)
        done = signs.seal(done, [done.note(What.APPROVED, now=asked.opened_at, by=person)])
        text = redaction(MARA).record(done.model_dump_json(exclude_defaults=True))
        assert len(json.loads(text).get("receipt", "")) == left * len(done.receipt)
        assert redaction(MARA).is_in(json.dumps({"x": done.receipt})) is (person == "mara")
