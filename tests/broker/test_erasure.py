"""Erasure removes a person from ledger and archive, and the audit still verifies."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from pathlib import Path

import pytest

from archiving import DAYS, archiver, ended
from builders import CLEO, MARA, RILEY, make_approval, paused
from deciding import Decider
from leaks import text_in, words_in
from signoff.broker.archive import reading
from signoff.broker.archive.anchor import Anchor
from signoff.broker.archive.erasure import erase
from signoff.broker.archive.files import ArchiveFiles
from signoff.broker.archive.redaction import Redaction
from signoff.broker.ed25519 import Key
from signoff.broker.freezes import Freezes
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.policy_history import history, note_policies
from signoff.broker.receipts import Receipts
from signoff.broker.timers.packer import Packer
from signoff.core.approvals.approval import Approval, Decision, Handoff, State
from signoff.core.approvals.events import What
from signoff.core.approvals.run import Run
from signoff.core.base.errors import ArchiveBroken, ErasureRefused
from signoff.core.directory.people import Person
from signoff.core.policies.policy import Fallback, Policy
from signoff.testing import VirtualClock

PLACEHOLDER = "erased-0a1b2c3d"


@pytest.fixture
def files(tmp_path: Path) -> ArchiveFiles:
    """Return an empty archive."""
    return ArchiveFiles(tmp_path / "archive")


def redaction(person: Person, *also: str) -> Redaction:
    """Return the redaction that erases a person."""
    return Redaction(person.names, PLACEHOLDER, also)


def text_of(files: ArchiveFiles) -> str:
    """Return the whole text of the archive."""
    return "".join(one.read_text() for one in sorted(files.folder.iterdir()))


async def test_erasing_a_decider_keeps_the_call_the_digest_and_the_chain(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, files: ArchiveFiles
) -> None:
    """Her name, address and words are erased; the call, the digest and the chain stay."""
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
        assert words_in(text, "mara", "Mara", "m.lind", "hello", "private") == []
    assert await still_ledger.raw("absences") == (2, '{"cleo": {}}')
    for run, approval in ((old, first), (fresh, second)):
        kept, events = await reading.find(still_ledger, files, approval.id)
        assert isinstance(kept, Approval)
        assert (kept.digest, kept.call) == (approval.digest, approval.call)
        assert kept.decision is not None
        assert (kept.decision.by, kept.decision.reason) == (PLACEHOLDER, "")
        assert PLACEHOLDER in {one.by for one in events}
        assert (await reading.find(still_ledger, files, run.id))[0] == run
    verified = await reading.verify(still_ledger, files, expect_head=head)
    (last,) = [one async for _, one, _ in audit.entries(still_ledger.store) if "erased" in one]
    assert '"by":"ops"' in last
    # The lines also verify outside Redis.
    lines = [one async for one in reading.lines(still_ledger, files)]
    erased = sum(bool(audit.from_line(one)[3]) for one in lines)
    found = audit.verify_lines(lines, expect_head=head)
    assert found == (verified.entries, verified.head, erased)
    assert erased > 0


async def test_erasure_reaches_packed_entries(
    still_ledger: Ledger,
    still_decider: Decider,
    files: ArchiveFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Entries of other requests in the same blocks stay, and those that name her are gone."""
    monkeypatch.setattr(audit, "BLOCK", 3)
    other, _ = await paused(still_ledger, session="b", asked=[CLEO])
    _, (approval,) = await ended(still_ledger, still_decider, reason="Mara says hello")
    await paused(still_ledger, session="c", asked=[CLEO])
    packer = Packer(still_ledger, timedelta())
    assert await packer.once() > 3
    before = [one async for one in audit.entries(still_ledger.store)]
    assert any("hello" in text for _, text, _ in before)

    await erase(still_ledger, files, redaction(MARA, "Mara"), by="ops", why="asked")

    after = [text async for _, text, _ in audit.entries(still_ledger.store)]
    assert words_in("".join(after), "mara", "Mara", "m.lind", "hello") == []
    kept = [text for _, text, _ in before if other.id in text]
    assert kept
    assert set(kept) <= set(after)
    store = still_ledger.store
    assert await store.client.exists(store.prefix + audit.PACKED)
    events = (await reading.find(still_ledger, files, approval.id))[1]
    assert PLACEHOLDER in {one.by for one in events}
    await reading.verify(still_ledger, files)


async def test_erasing_a_requester_removes_the_contents_of_their_requests(
    still_ledger: Ledger, still_decider: Decider, files: ArchiveFiles
) -> None:
    """Of their requests, the tool, the end and the time stay."""
    run, (approval,) = await ended(still_ledger, still_decider)
    await erase(still_ledger, files, redaction(RILEY), by="ops", why="asked")
    for text in (text_of(files), await text_in(still_ledger)):
        assert words_in(text, "riley", "Riley", "2500", "conference") == []
    kept, _ = await reading.find(still_ledger, files, approval.id)
    assert isinstance(kept, Approval)
    assert (kept.call.name, kept.call.args, kept.state) == ("reimburse", {}, approval.state)
    assert kept.digest == approval.digest
    old, _ = await reading.find(still_ledger, files, run.id)
    assert isinstance(old, Run)
    assert (old.user, old.message, old.state) == (PLACEHOLDER, "[erased]", run.state)
    await reading.verify(still_ledger, files)


async def test_erasure_removes_records_that_are_waiting_to_expire(
    still_ledger: Ledger, still_decider: Decider, files: ArchiveFiles
) -> None:
    """Records with her name, her quarantined mail and undelivered results of her requests go."""
    _, (approval,) = await ended(still_ledger, still_decider)
    mail = base64.b64encode(b"From: Riley <riley@example.com>\r\n\r\nyes").decode()
    named = {
        "arguments:1": {"to": "riley@example.com"},
        "stuck:ap_1": {"problem": "the card for Riley Voss"},
        "mcp:1": {"approval": approval.id, "answer": "paid 2500"},
        "dead:route:1": {"stage": "route", "body": {"approval": approval.id, "remarks": "paid"}},
        "quarantine:1": {"sender": None, "raw": mail},
        "told:decided:ap_1:riley": {},
    }
    others = {
        "arguments:2": {"to": "cleo@example.com"},
        "arguments:3": {"approval": {"id": 1}, "raw": 7},
        "mcp:2": {"approval": "ap_2", "answer": "paid"},
        "quarantine:2": {"sender": None, "raw": base64.b64encode(b"\xff\xfe").decode()},
        "told:decided:ap_1:cleo": {},
    }
    change, day = Change(), timedelta(days=1)
    for key, record in (named | others).items():
        change.put_raw(key, json.dumps(record), ttl=day)
    await still_ledger.commit(change)
    await erase(still_ledger, files, redaction(RILEY), by="ops", why="asked")
    assert [key for key in named if await still_ledger.raw(key)] == []
    assert [key for key in others if await still_ledger.raw(key)] == [*others]


async def test_stored_settings_replace_an_erased_name_with_a_placeholder(
    still_ledger: Ledger, still_decider: Decider, files: ArchiveFiles
) -> None:
    """Her name is replaced in earlier policies, freezes and reported seats, which stay readable."""
    await note_policies(still_ledger, [Policy(name="all", ask=("mara",))], Fallback(), by="mara")
    fresh = await note_policies(
        still_ledger, [Policy(name="all", ask=("cleo",))], Fallback(), by="ops"
    )
    freezes = Freezes(still_ledger)
    await freezes.freeze(tool="reimburse", by="mara", why="Mara Lind has seen it twice")
    await freezes.freeze(tool="deploy", by="ops", why="Ask Mara Lind first")
    await still_ledger.commit(Change().put_raw("vacancies", '["mara", "queue:finance"]'))
    await erase(still_ledger, files, redaction(MARA), by="ops", why="asked")
    assert words_in(await text_in(still_ledger), "mara", "Mara") == []
    seen = await history(still_ledger)
    assert [one.content.get("ask") for one in seen if one.policy == "all"] == [
        [PLACEHOLDER],
        ["cleo"],
    ]
    assert seen[-1] == fresh[-1]
    assert [(one.by, one.why) for one in await freezes.all()] == [
        (PLACEHOLDER, ""),
        ("ops", f"Ask {PLACEHOLDER} first"),
    ]


async def test_erasure_leaves_records_of_other_people_unchanged(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, files: ArchiveFiles
) -> None:
    """Records without their name do not change, and younger records of others stay unarchived."""
    run, (approval,) = await paused(still_ledger, asked=(CLEO,))
    await still_decider.approve(approval.id, CLEO, channel="email", reason="it will do")
    nobody = Person(id="will", name="Will Fox", email="will@example.com")
    done = await erase(still_ledger, files, redaction(nobody), by="ops", why="asked")
    assert done.files == 0
    assert await still_ledger.run(run.id)
    assert (await still_ledger.approval(approval.id)).decision is not None
    await reading.verify(still_ledger, files)


@pytest.mark.parametrize("person", [MARA, RILEY], ids=lambda one: one.id)
async def test_erasure_is_refused_while_a_request_is_open(
    still_ledger: Ledger, still_decider: Decider, files: ArchiveFiles, person: Person
) -> None:
    """The error says what waits; neither the ledger nor the archive changes."""
    _, (approval,) = await paused(still_ledger)
    before = await text_in(still_ledger)
    with pytest.raises(ErasureRefused, match=rf"{approval.id} waits|not finished|not ended"):
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
    """Before its commit the archive is unchanged; after it, the next archiving finishes it."""
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
        with pytest.raises(ArchiveBroken, match="interrupted"):
            await reading.verify(still_ledger, files)
        await archiver(still_ledger, files).once()
    else:
        await reading.verify(still_ledger, files)
        await erase(still_ledger, files, redaction(MARA), by="ops", why="asked")
    assert "mara@example.com" not in text_of(files)
    await reading.verify(still_ledger, files)
    assert all(one.suffix == ".jsonl" for one in files.folder.iterdir())


async def test_a_repeated_erasure_knows_whose_requests_they_were(
    still_ledger: Ledger,
    still_decider: Decider,
    files: ArchiveFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Undelivered results of their requests are gone, even though the archive names nobody now."""
    _, (approval,) = await ended(still_ledger, still_decider)
    record = json.dumps({"approval": approval.id, "answer": "paid 2500"})
    await still_ledger.commit(Change().put_raw("mcp:1", record, ttl=timedelta(days=1)))
    await archiver(still_ledger, files, after=timedelta()).once()

    def place(*_: object, **options: object) -> None:
        if options.get("replaces"):
            raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(ArchiveFiles, "place", place)
        with pytest.raises(Crash):
            await erase(still_ledger, files, redaction(RILEY), by="ops", why="asked")
    await erase(still_ledger, files, redaction(RILEY), by="ops", why="asked")
    assert await still_ledger.raw("mcp:1") is None


def test_erasure_deletes_every_receipt_that_names_the_person() -> None:
    """Its signed text cannot be changed, so the whole receipt is deleted; others stay."""
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
