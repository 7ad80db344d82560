"""Work under a lease: heartbeats keep the lease, and a lost lease ends the work."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from signoff.broker.ledger import lease
from signoff.broker.ledger.change import Change, Item
from signoff.broker.ledger.lease import ItemLease, held, kept, session_key
from signoff.broker.ledger.ledger import Ledger
from signoff.core.base.errors import Conflict, LeaseLost, LedgerUnavailable

KEY = session_key("finance", "riley", "s_1")
LEASE = 600.0
"""Seconds; long enough for a machine that pauses for a while."""


@pytest.fixture
async def item(ledger: Ledger) -> Item:
    """Return an item that is leased to the test for a minute, with its session's lease."""
    await ledger.commit(Change().send_raw("run.finance", "r", {}))
    item = (await ledger.claim("run.finance")).items[0]
    await ledger.take_lease(KEY, item.token, lease=60)
    return item


def holding(
    ledger: Ledger, item: Item, *, lease: float = LEASE
) -> AbstractAsyncContextManager[ItemLease]:
    """Hold the item and the key from now on."""
    return held(ledger, item, KEY, lease=lease, alive_at=asyncio.get_running_loop().time())


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> asyncio.Semaphore:
    """Heartbeats without pauses; the semaphore counts the finished ones."""
    beats = asyncio.Semaphore(0)
    extend = Ledger.extend

    async def counted(self: Ledger, *args: Any, **more: Any) -> None:
        try:
            await extend(self, *args, **more)
        finally:
            beats.release()

    monkeypatch.setattr(lease, "next_beat_in", lambda *_: 0.0)
    monkeypatch.setattr(Ledger, "extend", counted)
    return beats


async def lose(ledger: Ledger, item: Item) -> None:
    """Let another claim take the item."""
    await ledger.store.client.hset(
        f"{ledger.store.prefix}items:{item.stage}", item.id, "2 somebody {}"
    )


async def test_heartbeats_extend_the_leases_while_the_body_runs(
    ledger: Ledger, item: Item, beats: asyncio.Semaphore
) -> None:
    """Each heartbeat extends the leases of item and key while the body runs; then both end."""
    client, prefix = ledger.store.client, ledger.store.prefix
    taken = await client.zscore(f"{prefix}outbox:{item.stage}", item.id)
    async with holding(ledger, item):
        for _ in range(5):
            await beats.acquire()
        # Before that, the key's lease had a minute left, and the item's had less.
        assert await client.pttl(prefix + KEY) > 60_000
        prolonged = await client.zscore(f"{prefix}outbox:{item.stage}", item.id)
        assert taken is not None
        assert prolonged is not None
        assert prolonged - taken > 60_000
        await ledger.commit(Change().fence(KEY, item.token).ack(item))
    assert await ledger.take_lease(KEY, "you", lease=LEASE)


async def test_the_last_commit_gives_both_back(
    ledger: Ledger, item: Item, beats: asyncio.Semaphore
) -> None:
    """The key is free when the item is done; a new holder keeps it."""
    async with holding(ledger, item) as hold:
        await hold.end(Change().ack(item))
        assert await ledger.take_lease(KEY, "you", lease=60)
        for _ in range(5):
            await beats.acquire()
    assert not await ledger.take_lease(KEY, "me", lease=60)


async def test_work_continues_under_its_lease_after_a_commit_conflict(
    ledger: Ledger, item: Item
) -> None:
    """After a conflict the work continues under the same lease."""
    await ledger.commit(Change().put_raw("x", "1"))
    async with holding(ledger, item) as hold:
        with pytest.raises(Conflict):
            await hold.end(Change().put_raw("x", "2").ack(item))
        assert not await ledger.take_lease(KEY, "you", lease=60)
        await hold.end(Change().ack(item))
    assert await ledger.take_lease(KEY, "you", lease=60)


@pytest.mark.usefixtures("beats")
async def test_the_body_is_ended_when_the_lease_is_lost(ledger: Ledger, item: Item) -> None:
    """The cancellation becomes LeaseLost; the task continues and can wait again."""

    async def work() -> None:
        async with holding(ledger, item):
            await lose(ledger, item)
            await asyncio.Event().wait()

    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(LeaseLost, match="lease of r was lost while it ran"):
        await work()
    assert task.cancelling() == 0
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await asyncio.sleep(0)


@pytest.mark.usefixtures("beats")
@pytest.mark.parametrize("makes", ["nothing", "another error"])
async def test_a_lost_lease_is_raised_even_if_the_body_swallows_it(
    ledger: Ledger, item: Item, makes: str
) -> None:
    """A body that swallows or replaces the cancellation cannot hide the lost lease."""

    async def work() -> None:
        async with holding(ledger, item):
            await lose(ledger, item)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if makes == "another error":
                    raise ValueError("the agent broke") from None

    with pytest.raises(LeaseLost):
        await work()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_an_outside_cancellation_is_raised_and_releases_the_key(
    ledger: Ledger, item: Item
) -> None:
    """A stopped worker ends as cancelled and gives the key back."""
    begun = asyncio.Event()

    async def work() -> None:
        async with holding(ledger, item):
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert await ledger.take_lease(KEY, "you", lease=LEASE)


@pytest.mark.usefixtures("beats")
async def test_an_outside_cancellation_wins_over_a_lost_lease(ledger: Ledger, item: Item) -> None:
    """If both come together, the cancellation from outside is kept."""
    begun, caught = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        async with holding(ledger, item):
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                caught.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await begun.wait()
    await lose(ledger, item)
    await caught.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_an_error_of_the_body_is_raised(ledger: Ledger, item: Item) -> None:
    """While the lease holds, an error of the body is raised."""
    with pytest.raises(ZeroDivisionError):
        async with holding(ledger, item):
            _ = 1 / 0
    assert await ledger.take_lease(KEY, "you", lease=LEASE)


async def test_a_redis_that_does_not_answer_is_a_lost_lease(
    ledger: Ledger, item: Item, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The body ends, because another process may hold the lease by then."""

    async def hang(self: Ledger, *_: object, **__: Any) -> None:
        await asyncio.Event().wait()

    async def work() -> None:
        async with holding(ledger, item, lease=0.3):
            monkeypatch.setattr(Ledger, "extend", hang)
            await asyncio.Event().wait()

    with pytest.raises(LeaseLost):
        await work()


async def test_a_holder_waits_for_redis_only_while_nobody_else_can_have_the_lease(
    ledger: Ledger, item: Item, beats: asyncio.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives up before the lease ends, which begins when the last good heartbeat is sent."""
    began, limits, sent = asyncio.get_running_loop().time(), list[float](), list[float]()
    timeout_at, extend = asyncio.timeout_at, Ledger.extend

    def limited(when: float) -> asyncio.Timeout:
        limits.append(when)
        return timeout_at(when)

    async def timed(self: Ledger, *args: Any, **more: Any) -> None:
        sent.append(asyncio.get_running_loop().time())
        await extend(self, *args, **more)

    monkeypatch.setattr(asyncio, "timeout_at", limited)
    monkeypatch.setattr(Ledger, "extend", timed)
    async with held(ledger, item, KEY, lease=LEASE, alive_at=began):
        for _ in range(3):
            await beats.acquire()
    patience = limits[0] - began
    assert 0 < patience < LEASE
    later = limits[1:3]
    assert len(later) == 2
    for limit, last in zip(later, sent, strict=False):
        assert limit <= last + patience


async def test_a_heartbeat_comes_before_the_holder_gives_up() -> None:
    """It comes after a third of the lease, or earlier if the last answer is older than that."""
    now = asyncio.get_running_loop().time()
    assert lease.next_beat_in(LEASE, now) == LEASE / 3
    assert 0 <= lease.next_beat_in(LEASE, now - 0.8 * LEASE) <= 0.1 * LEASE
    assert lease.next_beat_in(LEASE, now - 2 * LEASE) == 0


async def test_no_heartbeat_begins_after_the_work(
    ledger: Ledger, item: Item, beats: asyncio.Semaphore
) -> None:
    """It would find the lease gone, and cancel what its task does next."""
    async with holding(ledger, item):
        pass
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert beats.locked()


@pytest.mark.usefixtures("beats")
async def test_one_failed_heartbeat_does_not_lose_the_lease(
    ledger: Ledger, item: Item, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis may be unavailable for a moment; the next heartbeat succeeds."""
    done = asyncio.Event()
    extend = Ledger.extend
    failures: list[str] = []

    async with holding(ledger, item):

        async def flaky(self: Ledger, *args: Any, **more: Any) -> None:
            if not failures:
                failures.append("once")
                raise LedgerUnavailable("away")
            await extend(self, *args, **more)
            done.set()

        monkeypatch.setattr(Ledger, "extend", flaky)
        await done.wait()
    assert failures


async def test_a_key_that_cannot_be_given_back_runs_out(
    ledger: Ledger, item: Item, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The body has finished, so an unavailable Redis afterwards is not a failure of it."""

    async def away(self: Ledger, *_: Sequence[str]) -> None:
        raise LedgerUnavailable("away")

    monkeypatch.setattr(Ledger, "release_lease", away)
    async with holding(ledger, item):
        pass
    assert 0 < await ledger.store.client.pttl(ledger.store.prefix + KEY) <= LEASE * 1000


async def test_the_lease_is_bound_to_the_claim(ledger: Ledger, item: Item) -> None:
    """A new claim of the same work has another token, and a fence on the old one refuses."""
    async with holding(ledger, item):
        newer = dataclasses.replace(item, token="0123456789abcdef")
        with pytest.raises(LeaseLost):
            await ledger.commit(Change().fence(KEY, newer.token).put_raw("x", "1"))
        await ledger.commit(Change().fence(KEY, item.token).put_raw("x", "1"))


@pytest.mark.usefixtures("beats")
async def test_a_key_without_an_item_is_held_and_released(ledger: Ledger) -> None:
    """Without an item, the key is still held while the body runs."""
    assert await ledger.take_lease("lease:box", "me", lease=60)
    now = asyncio.get_running_loop().time()
    async with kept(ledger, "lease:box", "me", lease=LEASE, alive_at=now) as hold:
        await ledger.commit(hold.fence(Change().put_raw("cursor", "1")))
        assert not await ledger.take_lease("lease:box", "you", lease=LEASE)
    assert await ledger.take_lease("lease:box", "you", lease=LEASE)


@pytest.mark.usefixtures("beats")
async def test_a_lost_key_without_an_item_fences_later_writes(ledger: Ledger) -> None:
    """A write that is fenced by the key is refused afterwards."""
    assert await ledger.take_lease("lease:box", "you", lease=60)

    async def work() -> None:
        now = asyncio.get_running_loop().time()
        async with kept(ledger, "lease:box", "me", lease=LEASE, alive_at=now) as hold:
            with pytest.raises(LeaseLost):
                await ledger.commit(hold.fence(Change().put_raw("cursor", "1")))
            await asyncio.Event().wait()

    with pytest.raises(LeaseLost, match="lease:box"):
        await work()
