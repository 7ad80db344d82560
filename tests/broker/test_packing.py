"""What has waited for some time is packed: it reads as before, and a change always wins."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from archiving import DAYS, archiver, ended, seeded
from builders import CLEO, MARA, NOON, paused, people
from deciding import Decider
from services import plain_redis
from signoff.broker import stages
from signoff.broker.archive import backup as backups
from signoff.broker.archive import reading
from signoff.broker.archive.backup import patient_store
from signoff.broker.archive.files import ArchiveFiles
from signoff.broker.heartbeat import TTL, beat
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.follow import batches, since
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.packing import PACKED, pack, unpack
from signoff.broker.ledger.runs import claim_runs
from signoff.broker.ledger.store import Store
from signoff.broker.monitoring.gauges import KnownNames, measure
from signoff.broker.server.address import DECODE_ANY
from signoff.broker.timers import packer as packing
from signoff.broker.timers.packer import READS, Packer
from signoff.broker.work import ResumeRun
from signoff.channels.webhooks.feed import Feed
from signoff.channels.webhooks.settings import Webhook
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.run import Run
from signoff.core.base.errors import AuditBroken, RecordUnreadable
from signoff.testing import VirtualClock

GOLDEN = [
    json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    for kind in ("approvals", "runs", "grants")
    for record in json.loads(
        (Path(__file__).parents[1] / "core" / "golden" / f"{kind}.json").read_text("utf-8")
    ).values()
]
HEXES = st.text("0123456789abcdef-", min_size=14, max_size=70)
TIMES = st.datetimes().map(lambda one: f"{one:%Y-%m-%dT%H:%M:%S.%f}Z")
TEXTS = st.text(max_size=30) | HEXES | TIMES | st.uuids().map(str)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
OLD = timedelta(minutes=1)


def received(packed: bytes) -> str:
    """Return a packed text as a reply of Redis is decoded."""
    return packed.decode("utf-8", DECODE_ANY)


@given(st.sampled_from(GOLDEN) | VALUES.map(json.dumps), st.booleans())
def test_each_json_text_survives_packing_byte_for_byte(text: str, repeats: bool) -> None:
    """Whatever is in it, the text is the same after packing and unpacking."""
    assert unpack(received(pack(text, repeats=repeats))) == text


@given(
    st.sampled_from(GOLDEN) | VALUES.map(lambda one: json.dumps(one, ensure_ascii=False)),
    st.lists(TEXTS, max_size=9),
)
def test_texts_outside_are_legible_and_change_nothing(text: str, outside: list[str]) -> None:
    """Scripts can read them; if there is no such form, nothing is packed."""
    try:
        packed = received(pack(text, *outside))
    except ValueError:
        assert any(one < " " or "\ud800" <= one <= "\udfff" for one in "".join((text, *outside)))
        return
    assert unpack(packed) == text
    assert packed.startswith("\n".join((f"{PACKED}{len(outside)}", *outside, "")))


@given(st.text(st.characters(max_codepoint=0x7F), max_size=60), st.lists(TEXTS, max_size=2))
def test_no_text_is_ever_packed_into_another_one(text: str, outside: list[str]) -> None:
    """A text with control characters is either packed exactly, or refused."""
    try:
        packed = pack(text, *outside)
    except ValueError:
        return
    assert unpack(received(packed)) == text


def test_a_text_that_this_form_has_packed_stays_readable() -> None:
    """The form and its dictionary do not change: ledgers have such records for months."""
    text = (
        '{"id":"ap_4vsckqtboecvqdye","origin":{"run":"run_19fbb72683b250a3","app":"finance",'
        '"session":"s_0ee1469f7e328635"},"digest":"sha256:'
        '88960b3137cc7e83cf3a15f80b08d7e8eea6bb9b7f522f681594df7905e7572c",'
        '"opened_at":"2026-11-27T18:29:33.020116Z"}'
    )
    packed = bytes.fromhex(PACKED_EARLIER)
    assert unpack(received(packed)) == text
    assert pack(text, "run_19fbb72683b250a3", "payments") == packed


PACKED_EARLIER = (
    "7e320a72756e5f313966626237323638336232353061330a7061796d656e74730a2762f366432420"
    "93b2e2e4ecc292a4fcd4e4b2c294ca54bc092a2d330fdc36454f3638620d35c46a010ee1469f7e32"
    "863588960b3137cc7e83cf3a15f80b08d7e8eea6bb9b7f522f681594df7905e7572c0661463dd1ab"
    "d4"
)


@given(st.sampled_from(GOLDEN), st.data())
def test_a_damaged_packed_text_is_never_read_as_another_one(text: str, data: st.DataObject) -> None:
    """Any changed, missing or additional byte makes it unreadable."""
    packed = bytearray(pack(text, "run_19fbb72683b250a3", "payments"))
    place = data.draw(st.integers(1, len(packed) - 1))
    match data.draw(st.sampled_from(("change", "cut", "add"))):
        case "change":
            packed[place] ^= data.draw(st.integers(1, 255))
        case "cut":
            del packed[place:]
        case _:
            packed.insert(place, data.draw(st.integers(0, 255)))
    damaged = received(bytes(packed))
    # A changed text outside is not in the text, so nothing is lost with it.
    assert unpack(damaged) in {damaged, text}


async def stored(ledger: Ledger, key: str) -> str:
    """Return a stored record."""
    return str(await ledger.store.client.get(ledger.store.prefix + key))


async def is_packed(ledger: Ledger, *keys: str) -> list[bool]:
    """Say of each record whether it is packed."""
    texts = [await stored(ledger, key) for key in keys]
    return [text.split(" ", 2)[2].startswith(PACKED) for text in texts]


async def test_only_what_waits_is_packed_and_it_reads_as_before(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock
) -> None:
    """An approval is packed with its run after the age; ended and younger ones are not."""
    run, (approval,) = await paused(still_ledger)
    over, (other,) = await paused(still_ledger)
    await still_decider.approve(other.id, MARA, channel="email")
    packer = Packer(still_ledger, OLD)
    assert await packer.once() == 0
    clock.advance(OLD)
    _, (young,) = await paused(still_ledger)
    keys = [f"approval:{approval.id}", f"run:{run.id}"]
    before = await still_ledger.current(approval.id)
    plain = [await stored(still_ledger, key) for key in keys]
    assert await packer.once() == 2
    assert await is_packed(still_ledger, *keys) == [True, True]
    others = (f"approval:{other.id}", f"run:{over.id}", f"approval:{young.id}")
    assert await is_packed(still_ledger, *others) == [False, False, False]
    after = await still_ledger.current(approval.id)
    assert after == before
    assert (after.approval.version, after.run.version) == (approval.version, run.version)
    read = await still_ledger.store.read(keys)
    assert [one and one[1] for one in read] == [text.split(" ", 2)[2] for text in plain]
    assert await packer.once() == 0


async def test_nothing_is_packed_while_a_process_lives_that_cannot_read_it(
    still_ledger: Ledger, clock: VirtualClock
) -> None:
    """Those of the last release say nothing of the form; packing begins when they have ended."""
    _, (asked,) = await paused(still_ledger)
    packer, key = Packer(still_ledger, timedelta()), f"approval:{asked.id}"
    await beat(still_ledger, "worker", "new/1", json.dumps(READS))
    for state in ("", json.dumps({"settings": "abc"}), json.dumps({"reads": "json"})):
        await beat(still_ledger, "gateway", "old/2", state)
        await packer.again()
        assert await is_packed(still_ledger, key) == [False]
    clock.advance(timedelta(seconds=TTL + 1))
    await beat(still_ledger, "worker", "new/1", json.dumps(READS))
    await packer.again()
    assert await is_packed(still_ledger, key) == [True]


async def test_one_process_packs_at_a_time_and_goes_on_where_it_was(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds are bounded, and another process only takes over when the lease has ended."""
    monkeypatch.setattr(packing, "_PAGE", 2)
    monkeypatch.setattr(packing, "_MOST", 4)
    approvals = [(await paused(ledger))[1][0] for _ in range(7)]
    keys = [f"approval:{one.id}" for one in approvals]
    first, second = (Packer(ledger, timedelta()) for _ in range(2))
    for packed in (4, 7):
        await first.again()
        await second.again()
        assert sum(await is_packed(ledger, *keys)) == packed
    _, (late,) = await paused(ledger)
    await ledger.store.client.delete(f"{ledger.store.prefix}lease:packing")
    await second.again()
    await second.again()
    assert await is_packed(ledger, f"approval:{late.id}") == [True]


async def test_a_change_of_a_packed_approval_writes_it_plain_again(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock
) -> None:
    """A decision on it counts, with its version and mark, and the run goes on."""
    run, (first, second) = await paused(still_ledger, siblings=2)
    clock.advance(OLD)
    assert await Packer(still_ledger, OLD).once() == 3
    await still_decider.approve(first.id, MARA, channel="email")
    keys = [f"approval:{first.id}", f"approval:{second.id}", f"run:{run.id}"]
    assert await is_packed(still_ledger, *keys) == [False, True, False]
    await still_decider.reject(second.id, MARA, channel="email", reason="no")
    found = await still_ledger.approvals([first.id, second.id])
    assert [one.state for one in found] == [State.APPROVED, State.REJECTED]
    (claimed,) = (await claim_runs(still_ledger, "resume.finance", limit=5, lease=10)).runs
    assert [one.state for one in claimed.read(still_ledger.recent)[1]] == [
        State.APPROVED,
        State.REJECTED,
    ]


async def read_plain(ledger: Ledger) -> list[str | bytes]:
    """Return the arguments with which a packer would pack now."""
    _, *flat = await ledger.store.script("plain", ledger.store.now_ms(), 0, 0, 99)
    return packing._packed(flat)


async def test_packing_loses_against_an_answer_that_came_meanwhile(
    ledger: Ledger, decider: Decider
) -> None:
    """A record that changed after the packer read it stays as it was changed."""
    run, (approval, other) = await paused(ledger, siblings=2)
    arguments = await read_plain(ledger)
    await decider.approve(approval.id, MARA, channel="email")
    decided = await stored(ledger, f"approval:{approval.id}")
    assert await ledger.store.script("pack", *arguments) == 1
    assert await stored(ledger, f"approval:{approval.id}") == decided
    keys = [f"approval:{other.id}", f"run:{run.id}"]
    assert await is_packed(ledger, *keys) == [True, False]


async def test_packing_loses_against_another_record_of_the_same_version(ledger: Ledger) -> None:
    """After a failover a record may have the same version and another mark: it stays."""
    _, (approval,) = await paused(ledger)
    key = ledger.store.prefix + f"approval:{approval.id}"
    arguments = await read_plain(ledger)
    version, _, data = (await stored(ledger, f"approval:{approval.id}")).split(" ", 2)
    await ledger.store.client.set(key, f"{version} 0123456789ab {data}")
    await ledger.store.script("pack", *arguments)
    assert await is_packed(ledger, f"approval:{approval.id}") == [False]


async def test_an_answer_that_read_the_plain_form_counts_after_packing(
    ledger: Ledger, decider: Decider
) -> None:
    """Packing does not change the version: who has read the record may still commit."""
    run, (approval,) = await paused(ledger)
    assert await Packer(ledger, timedelta()).once() >= 2
    after, events = approval.reject(
        MARA, people(), now=await ledger.now(), channel="email", reason="no"
    )
    now = await ledger.run(run.id)
    await ledger.commit(Change().put(after, was=approval).note(events).unless_changed(now))
    assert (await ledger.approval(approval.id)).state is State.REJECTED


async def test_names_that_json_writes_differently_are_not_packed(ledger: Ledger) -> None:
    """Scripts would read them in another way, so such records stay plain."""
    run = await Decider(ledger, people()).submit(
        "finance", "hello", user='r"i', session="a\\b", run_id="run_odd"
    )
    _, (approval,) = await paused(ledger, run=run)
    await Packer(ledger, timedelta()).once()
    keys = [f"approval:{approval.id}", f"run:{run.id}"]
    assert await is_packed(ledger, *keys) == [True, False]
    assert (await ledger.run(run.id)).user == 'r"i'


# -- what scripts read of a record -----------------------------------------------------------------


async def test_scripts_read_a_packed_approval_with_its_run_in_one_round_trip(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision on a packed approval needs no further read."""
    pairs = [await paused(ledger) for _ in range(2)]
    await Packer(ledger, timedelta()).once()
    monkeypatch.delattr(Store, "read")
    ids = [approval.id for _, (approval,) in pairs]
    found = [one for one in await ledger.current_all(ids) if not isinstance(one, Exception)]
    assert [(one.run.id, one.approval) for one in found] == [(run.id, one) for run, (one,) in pairs]


async def test_metrics_count_packed_approvals_by_their_policies(ledger: Ledger) -> None:
    """They are the same in both forms, and so is the number of audit entries."""
    for _ in range(3):
        await paused(ledger)
    await ledger.commit(Change().note([event(number) for number in range(200)]))
    before = await measure(ledger, KnownNames())
    assert await Packer(ledger, timedelta()).once() >= 6
    after = await measure(ledger, KnownNames())
    assert after.pending == before.pending == {"expenses": 3}
    assert after.records == before.records


async def test_a_claim_of_a_packed_run_has_its_session_and_approvals(ledger: Ledger) -> None:
    """Work about a run that still waits finds the same records as in the plain form."""
    run, approvals = await paused(ledger, siblings=2)
    work = ResumeRun(app=run.app, run=run.id, pause=run.pause)
    await ledger.commit(Change().send(work))
    assert await Packer(ledger, timedelta()).once() >= 3
    (claimed,) = (await claim_runs(ledger, "resume.finance", limit=5, lease=10)).runs
    assert claimed.read(ledger.recent) == (run, approvals)
    assert claimed.lease_key == f"lease:{run.app}\0{run.user}\0{run.session}"


async def test_a_damaged_packed_record_is_unreadable_and_blocks_no_other(
    ledger: Ledger, decider: Decider
) -> None:
    """It is reported as any other damaged record, and the others are decided."""
    (_, (bad,)), (_, (good,)) = [await paused(ledger) for _ in range(2)]
    await Packer(ledger, timedelta()).once()
    key = ledger.store.prefix + f"approval:{bad.id}"
    await ledger.store.client.setrange(key, 80, "damaged")
    with pytest.raises(RecordUnreadable):
        await ledger.approval(bad.id)
    assert [one.id for one in await ledger.pending()] == [good.id]
    await decider.approve(good.id, MARA, channel="email")


# -- the audit -------------------------------------------------------------------------------------


def event(number: int) -> Event:
    """Return an entry about no run."""
    return Event(what=What.QUARANTINED, at=NOON, by=f"mail {number} ❄", why="\x00 \\ \"'\n")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Make small blocks, and few in one read; return the number of entries in one."""
    monkeypatch.setattr(audit, "BLOCK", 4)
    monkeypatch.setattr(audit, "_BLOCKS", 2)
    return 4


async def written(ledger: Ledger, decider: Decider) -> list[Run]:
    """Write an audit of several runs, some of which are over."""
    runs = []
    for number in range(5):
        run, (approval,) = await paused(ledger)
        if number % 2:
            await decider.approve(approval.id, MARA, channel="email", reason=f"{number} \u2028")
        await ledger.commit(Change().note([event(number)]))
        runs.append(run)
    return runs


async def blocks(store: Store) -> list[tuple[str, float]]:
    """Return the blocks with their scores, in their order."""
    found: Any = await store.client.zrange(store.prefix + audit.PACKED, 0, -1, withscores=True)
    return [(block, score) for block, score in found]


async def everything(store: Store, *, page: int = 1000) -> list[audit.Entry]:
    """Return all entries."""
    return [one async for one in audit.entries(store, page=page)]


async def test_a_packed_audit_reads_as_before(ledger: Ledger, decider: Decider, small: int) -> None:
    """Pages of any size, entries of a run, lines, and the verified chain are the same."""
    runs, store = await written(ledger, decider), ledger.store
    before, proof = await everything(store), await audit.verify(store)
    trails = [[one async for one in audit.about(store, run.id)] for run in runs]
    lines = [one async for one in audit.lines(store)]
    later = await since(store, before[2][0], limit=7)
    count = await audit.pack_entries(store, age=timedelta())
    assert count == (len(before) - 1) // small * small
    assert await store.client.xlen(f"{store.prefix}audit") == len(before) - count
    for page in (1, 2, 3, small, 5, 100):
        assert await everything(store, page=page) == before
    for place, (entry_id, _, _) in enumerate(before):
        assert await audit.following(store, entry_id, limit=3) == before[place + 1 : place + 4]
    assert [[one async for one in audit.about(store, run.id)] for run in runs] == trails
    assert [one async for one in audit.lines(store)] == lines
    assert await since(store, before[2][0], limit=7) == later
    assert await audit.verify(store) == proof
    middle = before[len(before) // 2][2]
    assert await audit.verify(store, expect_head=middle) == proof
    # New entries continue the chain.
    await ledger.commit(Change().note([event(99)]))
    assert (await audit.verify(store))[0] == proof[0] + 1
    assert [entry async for entry in audit.entries(store, after=before[3][0])][:-1] == before[4:]


async def test_young_entries_and_the_newest_one_stay(ledger: Ledger, small: int) -> None:
    """Without an older entry nothing is packed, and the newest one is never packed."""
    await ledger.commit(Change().note([event(number) for number in range(small)]))
    assert await audit.pack_entries(ledger.store, age=timedelta()) == 0
    await ledger.commit(Change().note([event(9)]))
    assert await audit.pack_entries(ledger.store, age=timedelta(hours=1)) == 0
    assert await audit.pack_entries(ledger.store, age=timedelta()) == small


def other_text(rows: list[audit.Entry]) -> list[audit.Entry]:
    """Change an entry."""
    entry_id, text, link = rows[1]
    return [rows[0], (entry_id, text.replace("mail", "Mail"), link), *rows[2:]]


TAMPERED: dict[str, Callable[[list[audit.Entry]], list[audit.Entry]]] = {
    "changed": other_text,
    "removed": lambda rows: [rows[0], *rows[2:]],
    "first": lambda rows: rows[1:],
    "last": lambda rows: rows[:-1],
    "swapped": lambda rows: [rows[0], rows[2], rows[1], *rows[3:]],
    "added": lambda rows: [rows[0], (rows[0][0] + "1", *rows[1][1:]), *rows[1:]],
    "dropped": lambda _: [],
}


@pytest.mark.parametrize("derived", [True, False], ids=["anew", "as stored"])
@pytest.mark.parametrize("how", TAMPERED)
@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a_change_within_a_block_is_found(
    ledger: Ledger, small: int, how: str, place: int, derived: bool
) -> None:
    """Nobody can change, remove, insert or move an entry in a block without breaking the chain."""
    store = ledger.store
    await ledger.commit(Change().note([event(number) for number in range(3 * small + 2)]))
    assert await audit.pack_entries(store, age=timedelta()) == 3 * small
    key = store.prefix + audit.PACKED
    block, score = (await blocks(store))[place]
    rows = TAMPERED[how](audit.read_block(block))
    if derived and rows:
        # The links in between follow from the changed texts.
        rows = [rows[0], *((one[0], one[1], "") for one in rows[1:-1]), rows[-1]]
    await store.client.zrem(key, block.encode("utf-8", "surrogateescape"))
    if rows:
        text = json.dumps(rows)
        await store.client.zadd(key, {pack(text): score})
    with pytest.raises(AuditBroken):
        await audit.verify(store)


async def test_a_damaged_block_is_missing_entries_and_stops_no_reader(
    ledger: Ledger, small: int
) -> None:
    """The chain is broken there; readers get the other entries."""
    store = ledger.store
    await ledger.commit(Change().note([event(number) for number in range(5 * small + 2)]))
    before = await everything(store)
    await audit.pack_entries(store, age=timedelta())
    key = store.prefix + audit.PACKED
    for block, score in (await blocks(store))[:3]:
        await store.client.zrem(key, block.encode("utf-8", "surrogateescape"))
        await store.client.zadd(key, {f"~0\nnot packed {score}": score})
    assert await everything(store) == before[3 * small :]
    assert await audit.following(store, "0", limit=3) == before[3 * small :][:3]
    with pytest.raises(AuditBroken):
        await audit.verify(store)


async def test_two_packers_pack_each_entry_once(
    ledger: Ledger, decider: Decider, small: int
) -> None:
    """Any number may pack at the same time."""
    await written(ledger, decider)
    before = await everything(ledger.store)
    packers = [Packer(ledger, timedelta()) for _ in range(4)]
    await asyncio.gather(*(one.once() for one in packers))
    assert await everything(ledger.store) == before
    assert (await audit.verify(ledger.store))[0] == len(before)


async def test_followers_get_each_entry_once_however_much_is_packed_meanwhile(
    ledger: Ledger, small: int
) -> None:
    """A follower that was slow also gets the entries that were packed before it read them."""
    store, got = ledger.store, list[str]()
    reader = batches(store, start="0", block=200)
    for first in range(0, 60, 10):
        await ledger.commit(Change().note([event(number) for number in range(first, first + 10)]))
        await audit.pack_entries(store, age=timedelta())
        got += [entry_id for entry_id, _ in await anext(reader)]
    while batch := await anext(reader):
        got += [entry_id for entry_id, _ in batch]
    assert got == [one for one, _, _ in await everything(store)]


async def test_webhooks_get_each_entry_once_however_much_is_packed_meanwhile(
    ledger: Ledger, decider: Decider, small: int
) -> None:
    """The feed reads on where it was, also if the next entries are packed."""
    secrets = [SecretStr(f"whsec_{base64.b64encode(b's' * 32).decode()}")]
    hook = Webhook(name="one", url="https://example.com/", secrets=secrets, events=(What.OPENED,))
    feed = Feed(ledger, [hook])
    await feed.once()
    for _ in range(6):
        await paused(ledger)
        await audit.pack_entries(ledger.store, age=timedelta())
    while await feed.once():
        await audit.pack_entries(ledger.store, age=timedelta())
    items = (await ledger.claim(stages.webhook("one"))).items
    opened = [one for one, text, _ in await everything(ledger.store) if '"opened"' in text]
    assert len(opened) == 6
    assert sorted((str(one.body["entry"]) for one in items), key=audit.order) == opened


# -- the archive and backups -----------------------------------------------------------------------


async def test_packed_entries_move_into_the_archive(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, tmp_path: Path, small: int
) -> None:
    """Entries of archived runs leave their blocks, those of waiting runs stay, and all verifies."""
    store, files = still_ledger.store, ArchiveFiles(tmp_path / "archive")
    waits, (approval,) = await paused(still_ledger, within=timedelta(days=200))
    over = [(await ended(still_ledger, still_decider))[0] for _ in range(3)]
    head = (await audit.verify(store))[1]
    await Packer(still_ledger, timedelta()).once()
    trail = [one async for one in audit.about(store, waits.id)]
    clock.advance(DAYS + timedelta(seconds=1))
    await Packer(still_ledger, timedelta()).once()
    done = await archiver(still_ledger, files).once()
    assert done.runs == 3
    left = await everything(store)
    assert not [text for _, text, _ in left if any(run.id in text for run in over)]
    assert [one async for one in audit.about(store, waits.id)] == trail
    assert [one for one in left if waits.id in one[1]] == trail
    packed = sum(len(audit.read_block(one)) for one, _ in await blocks(store))
    assert await store.client.get(store.prefix + audit.COUNT) == str(packed)
    found = await reading.verify(still_ledger, files, expect_head=head)
    assert found.archived == done.entries
    kept, _ = await reading.find(still_ledger, files, over[0].id)
    assert isinstance(kept, Run)
    await still_decider.approve(approval.id, MARA, channel="email")
    await reading.verify(still_ledger, files, expect_head=head)


async def test_a_backup_has_the_plain_form(
    ledger: Ledger, decider: Decider, tmp_path: Path, small: int
) -> None:
    """It is the same with and without packing, so any release can restore it."""
    await seeded(ledger, 3, waiting=3)
    await written(ledger, decider)
    plain, packed = tmp_path / "plain.backup", tmp_path / "packed.backup"
    await backups.backup(ledger.store, plain)
    before = {one.name: one for one in backups.check(plain)[1] if one.expires is None}
    assert await Packer(ledger, timedelta()).once() > 20
    await backups.backup(ledger.store, packed)
    after = {one.name: one for one in backups.check(packed)[1] if one.expires is None}
    assert after == before
    (tmp_path / "other").mkdir()
    with plain_redis(tmp_path / "other") as url:
        restored = Ledger(patient_store(url, "{copy}:"))
        await backups.restore(restored, packed)
        assert await restored.pending() == await ledger.pending()
        assert await everything(restored.store) == await everything(ledger.store)
        await restored.close()


async def test_a_backup_is_complete_however_much_is_packed_meanwhile(
    ledger: Ledger, decider: Decider, tmp_path: Path, small: int
) -> None:
    """Entries that are packed between the pages and the last read are in it once."""
    await written(ledger, decider)
    packing = asyncio.Event()

    async def pack_again() -> None:
        while not packing.is_set():
            await ledger.commit(Change().note([event(number) for number in range(3)]))
            await audit.pack_entries(ledger.store, age=timedelta())

    task = asyncio.create_task(pack_again())
    for number in range(8):
        file = tmp_path / f"{number}.backup"
        await backups.backup(ledger.store, file)
        (rows,) = [one.value[1] for one in backups.check(file)[1] if one.name == "audit"]
        chain = audit.Chain()
        for entry_id, (_, text, _, link) in rows:
            chain.follow(entry_id, text, link)
        assert chain.count >= 20
    packing.set()
    await task


# -- real processes --------------------------------------------------------------------------------


async def process(redis_url: str, prefix: str) -> asyncio.subprocess.Process:
    """Start a process that packs all the time, and return when it has packed once."""
    program = Path(__file__).parent / "packing_process.py"
    started = await asyncio.create_subprocess_exec(
        sys.executable, program, redis_url, prefix, stdout=asyncio.subprocess.PIPE
    )
    await next_round(started)
    return started


async def next_round(packer: asyncio.subprocess.Process) -> None:
    """Return when the process has done one more round."""
    assert packer.stdout is not None
    assert await packer.stdout.readline()


@pytest.mark.soak
async def test_processes_that_die_while_packing_lose_nothing(
    ledger: Ledger, decider: Decider, redis_url: str, prefix: str
) -> None:
    """However often packers are killed, each answer counts once and the audit is complete."""
    approvals = [one for _ in range(40) for one in (await paused(ledger, siblings=3))[1]]
    random.shuffle(approvals)
    packers = [await process(redis_url, prefix) for _ in range(2)]
    answered = asyncio.Event()

    async def kill(place: int) -> int:
        kills = 0
        while not answered.is_set():
            await next_round(packers[place])
            await asyncio.sleep(random.uniform(0, 0.1))
            packers[place].kill()
            await packers[place].wait()
            packers[place], kills = await process(redis_url, prefix), kills + 1
        return kills

    async def decide(some: list[Approval], by: Any) -> None:
        for one in some:
            await asyncio.sleep(random.uniform(0, 0.2))
            await decider.approve(one.id, by, channel="email")

    killers = [asyncio.create_task(kill(place)) for place in range(2)]
    await asyncio.gather(
        *(decide(approvals[start::4], (MARA, CLEO)[start % 2]) for start in range(4))
    )
    answered.set()
    assert sum(await asyncio.gather(*killers)) > 0
    for one in packers:
        one.kill()
        await one.wait()
    found = await ledger.approvals([one.id for one in approvals])
    assert {one.state for one in found} == {State.APPROVED}
    rows = await everything(ledger.store)
    approved = [json.loads(text)["approval"] for _, text, _ in rows if '"approved"' in text]
    assert sorted(approved) == sorted(one.id for one in approvals)
    assert (await audit.verify(ledger.store))[0] == len(rows)
    assert await ledger.store.client.zcard(ledger.store.prefix + audit.PACKED) > 5
    items = (await claim_runs(ledger, "resume.finance", limit=100, lease=10)).runs
    assert len(items) == 40
    assert all(one.lease_key for one in items)
