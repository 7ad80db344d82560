"""A value that is not UTF-8 is an unreadable record of its own, and hides no other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

from builders import paused
from deciding import Decider
from services import plain_redis
from signoff.broker.archive import backup as backups
from signoff.broker.archive.backup import patient_store
from signoff.broker.ledger import audit
from signoff.broker.ledger.follow import since
from signoff.broker.ledger.ledger import Current, Ledger
from signoff.broker.ledger.rebuild import rebuild
from signoff.broker.timers.reconciler import Reconciler
from signoff.core.approvals.approval import State
from signoff.core.base.errors import AuditBroken, RecordUnreadable
from signoff.testing import VirtualClock

HOUR = timedelta(hours=1)

DAMAGED = (b'1 x {"id":"\xff"}', b"1 x \xff\x00\xfe", b"\xff\xfe", b"", b"1", b"one x {}")


@pytest.fixture
async def binary(redis_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    """A client that does not decode replies."""
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        yield client


@pytest.mark.parametrize("damaged", DAMAGED)
async def test_a_record_that_is_not_utf_8_is_named_and_hides_no_other(
    ledger: Ledger, binary: redis.asyncio.Redis, damaged: bytes
) -> None:
    """Its reader gets an error that names it; lists and batches contain the others."""
    _, (bad, good) = await paused(ledger, siblings=2)
    await binary.set(f"{ledger.store.prefix}approval:{bad.id}", damaged)
    assert [one.id for one in await ledger.pending()] == [good.id]
    with pytest.raises(RecordUnreadable, match=f"approval:{bad.id}"):
        await ledger.approval(bad.id)
    first, second = await ledger.current_all([bad.id, good.id])
    assert isinstance(first, RecordUnreadable)
    assert isinstance(second, Current)


async def test_a_due_record_that_is_not_utf_8_does_not_block_the_others(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, binary: redis.asyncio.Redis
) -> None:
    """The others time out; the record is tried again later."""
    _, (bad,) = await paused(still_ledger, within=HOUR)
    _, (good,) = await paused(still_ledger, within=HOUR)
    await binary.set(f"{still_ledger.store.prefix}approval:{bad.id}", DAMAGED[0])
    clock.advance(HOUR)
    assert await Reconciler(still_decider.roster).once() == 2
    assert (await still_ledger.approval(good.id)).state is State.TIMED_OUT


async def test_a_rebuild_leaves_a_record_that_is_not_utf_8_unchanged(
    ledger: Ledger, binary: redis.asyncio.Redis
) -> None:
    """The bytes and the index entries stay; a release that can read them finds them."""
    _, (bad, _) = await paused(ledger, siblings=2)
    key = f"{ledger.store.prefix}approval:{bad.id}"
    await binary.set(key, DAMAGED[0])
    assert await rebuild(ledger) == 2
    assert await binary.get(key) == DAMAGED[0]
    assert bad.id in await ledger.store.members("waiting")


async def test_an_audit_entry_that_is_not_utf_8_breaks_the_chain_and_hides_no_other(
    ledger: Ledger, binary: redis.asyncio.Redis
) -> None:
    """`signoff audit verify` names it; those who follow the audit get the others."""
    await paused(ledger)
    key = f"{ledger.store.prefix}audit"
    events = await since(ledger.store, "0", limit=100)
    rows: Any = await binary.xrange(key)
    last, fields = rows[-1]
    await binary.xdel(key, last)
    place = f"{int(last.split(b'-')[0]) + 1}-0"
    await binary.xadd(key, {"e": b"\xff", "h": fields[b"h"]}, id=place)
    with pytest.raises(AuditBroken) as caught:
        await audit.verify(ledger.store)
    assert caught.value.entry == place
    assert await since(ledger.store, "0", limit=100) == events[:-1]
    with pytest.raises(AuditBroken, match=f"{place} is not UTF-8"):
        assert [line async for line in audit.lines(ledger.store)]


async def test_a_backup_keeps_bytes_that_are_not_utf_8(
    ledger: Ledger, binary: redis.asyncio.Redis, tmp_path: Path
) -> None:
    """They are restored unchanged, for a release that can read them."""
    _, (bad,) = await paused(ledger)
    await binary.set(f"{ledger.store.prefix}approval:{bad.id}", DAMAGED[0])
    await backups.backup(ledger.store, tmp_path / "ledger.backup")
    (tmp_path / "other").mkdir()
    with plain_redis(tmp_path / "other") as url:
        copy = Ledger(patient_store(url, "{copy}:"))
        await backups.restore(copy, tmp_path / "ledger.backup")
        async with redis.asyncio.Redis.from_url(url) as client:
            assert await client.get(f"{{copy}}:approval:{bad.id}") == DAMAGED[0]
        await copy.close()


async def test_a_name_with_surrogates_is_not_the_name_that_its_bytes_spell(ledger: Ledger) -> None:
    """A command with surrogates is refused: as bytes, they would be the letter ü."""
    with pytest.raises(UnicodeEncodeError):
        await ledger.inbox("\udcc3\udcbc")
