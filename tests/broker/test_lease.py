"""Work under a lease: kept alive while it goes on, ended when the lease is lost."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from signoff.broker.ledger.change import Change, Item
from signoff.broker.ledger.lease import Hold, held, kept, session_key
from signoff.broker.ledger.ledger import Ledger
from signoff.core.base.errors import Conflict, LeaseLost, LedgerUnavailable

KEY = session_key("finance", "riley", "s_1")
LEASE = 0.3


@pytest.fixture
async def item(ledger: Ledger) -> Item:
    """An item that is leased to us for a minute, and the lease of its session with it."""
    await ledger.commit(Change().send_raw("run.finance", "r", {}))
    item = (await ledger.claim("run.finance")).items[0]
    await ledger.take_lease(KEY, item.token, lease=60)
    return item


def holding(
    ledger: Ledger, item: Item, *, lease: float = LEASE
) -> AbstractAsyncContextManager[Hold]:
    """Hold the item and the key from now on."""
    return held(ledger, item, KEY, lease=lease, alive_at=asyncio.get_running_loop().time())


async def lose(ledger: Ledger, item: Item) -> None:
    """Let the item be claimed by somebody else."""
    await ledger.store.client.hset(
        f"{ledger.store.prefix}items:{item.stage}", item.id, "2 somebody {}"
    )


async def test_it_is_kept_alive(
    ledger: Ledger, item: Item, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heartbeats come for as long as the body works, and the key is free afterwards."""
    beats = asyncio.Semaphore(0)
    extend = Ledger.extend

    async def counted(self: Ledger, *args: Any, **more: Any) -> None:
        await extend(self, *args, **more)
        beats.release()

    monkeypatch.setattr(Ledger, "extend", counted)
    async with holding(ledger, item):
        for _ in range(5):
            await beats.acquire()
        assert not await ledger.take_lease(KEY, "you", lease=LEASE)
        await ledger.commit(Change().fence(KEY, item.token).ack(item))
    assert await ledger.take_lease(KEY, "you", lease=LEASE)


async def test_the_last_commit_gives_both_back(ledger: Ledger, item: Item) -> None:
    """The key is free as soon as the item is done; who takes it then keeps it."""
    async with holding(ledger, item) as hold:
        await hold.end(Change().ack(item))
        assert await ledger.take_lease(KEY, "you", lease=60)
        await asyncio.sleep(LEASE)
    assert not await ledger.take_lease(KEY, "me", lease=60)


async def test_a_last_commit_that_was_disturbed_keeps_both(ledger: Ledger, item: Item) -> None:
    """After a conflict the work goes on under the same lease."""
    await ledger.commit(Change().put_raw("x", "1"))
    async with holding(ledger, item) as hold:
        with pytest.raises(Conflict):
            await hold.end(Change().put_raw("x", "2").ack(item))
        assert not await ledger.take_lease(KEY, "you", lease=60)
        await hold.end(Change().ack(item))
    assert await ledger.take_lease(KEY, "you", lease=60)


async def test_the_body_is_ended_when_the_lease_is_lost(ledger: Ledger, item: Item) -> None:
    """The cancellation is ours and becomes LeaseLost; the task lives on and can wait again."""

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


@pytest.mark.parametrize("makes", ["nothing", "another error"])
async def test_whatever_the_body_makes_of_it(ledger: Ledger, item: Item, makes: str) -> None:
    """A body that swallows or replaces the cancellation does not hide that the lease is lost."""

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


async def test_a_cancellation_from_outside_stays_one(ledger: Ledger, item: Item) -> None:
    """A worker that is stopped ends as cancelled, and gives the key back."""
    begun = asyncio.Event()

    async def work() -> None:
        async with holding(ledger, item, lease=60):
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert await ledger.take_lease(KEY, "you", lease=LEASE)


async def test_a_cancellation_from_outside_beside_a_lost_lease(ledger: Ledger, item: Item) -> None:
    """When both come together, the one from outside is not taken back."""
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


async def test_the_error_of_the_body_comes_through(ledger: Ledger, item: Item) -> None:
    """While the lease is ours, what the body raises is raised."""
    with pytest.raises(ZeroDivisionError):
        async with holding(ledger, item, lease=60):
            _ = 1 / 0
    assert await ledger.take_lease(KEY, "you", lease=LEASE)


async def test_a_redis_that_does_not_answer_is_a_lost_lease(
    ledger: Ledger, item: Item, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The body does not work on into a lease that somebody else may have by then."""

    async def hang(self: Ledger, *_: object, **__: Any) -> None:
        await asyncio.Event().wait()

    async def work() -> None:
        async with holding(ledger, item):
            monkeypatch.setattr(Ledger, "extend", hang)
            await asyncio.Event().wait()

    with pytest.raises(LeaseLost):
        await work()


async def test_a_heartbeat_that_fails_once_is_no_loss(
    ledger: Ledger, item: Item, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis may be away for a moment; the next beat makes up for it."""
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
    """What the body did is done: that Redis is away afterwards is no failure of it."""

    async def away(self: Ledger, *_: Sequence[str]) -> None:
        raise LedgerUnavailable("away")

    monkeypatch.setattr(Ledger, "release_lease", away)
    async with holding(ledger, item, lease=60):
        pass


async def test_the_lease_is_bound_to_the_claim(ledger: Ledger, item: Item) -> None:
    """The same work claimed anew has another token, and a fence on the old one refuses."""
    async with holding(ledger, item, lease=60):
        newer = dataclasses.replace(item, token="0123456789abcdef")
        with pytest.raises(LeaseLost):
            await ledger.commit(Change().fence(KEY, newer.token).put_raw("x", "1"))
        await ledger.commit(Change().fence(KEY, item.token).put_raw("x", "1"))


async def test_a_key_alone_is_kept_and_given_back(ledger: Ledger) -> None:
    """Without an item behind it: nobody else gets it while the body works."""
    assert await ledger.take_lease("lease:box", "me", lease=60)
    now = asyncio.get_running_loop().time()
    async with kept(ledger, "lease:box", "me", lease=LEASE, alive_at=now) as hold:
        await ledger.commit(hold.fence(Change().put_raw("cursor", "1")))
        assert not await ledger.take_lease("lease:box", "you", lease=LEASE)
    assert await ledger.take_lease("lease:box", "you", lease=LEASE)


async def test_a_key_alone_that_is_lost_ends_the_work(ledger: Ledger) -> None:
    """And nothing that is fenced by it is written any more."""
    assert await ledger.take_lease("lease:box", "you", lease=60)

    async def work() -> None:
        now = asyncio.get_running_loop().time()
        async with kept(ledger, "lease:box", "me", lease=LEASE, alive_at=now) as hold:
            with pytest.raises(LeaseLost):
                await ledger.commit(hold.fence(Change().put_raw("cursor", "1")))
            await asyncio.Event().wait()

    with pytest.raises(LeaseLost, match="lease:box"):
        await work()
