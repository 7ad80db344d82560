"""The outboxes: work goes in once, is leased, comes back, and rings no more than it has to."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from signoff.broker.ledger.change import Change, Item
from signoff.broker.ledger.ledger import Ledger
from signoff.core.base.errors import LeaseLost
from signoff.testing import VirtualClock


class CountingBell:
    """Remembers what was rung."""

    def __init__(self) -> None:
        self.rung: list[str] = []

    async def ring(self, stage: str) -> None:
        """Remember it."""
        self.rung.append(stage)


@pytest.fixture
def bell(still_ledger: Ledger) -> CountingBell:
    """The bell of `still_ledger`."""
    bell = CountingBell()
    still_ledger.bell = bell
    return bell


async def put(ledger: Ledger, *ids: str, after: float = 0) -> None:
    """Put items into the stage `route`, each by a commit of its own."""
    await ledger.commit_all(
        [Change().send_raw("route", one, {"id": one}, after=after) for one in ids]
    )


async def take(ledger: Ledger, **how: Any) -> list[Item]:
    """Claim what waits in the stage `route`."""
    return list((await ledger.claim("route", **how)).items)


async def test_the_same_cause_puts_work_in_once(still_ledger: Ledger) -> None:
    """An item is known by its id until it is acknowledged, leased or not."""
    await put(still_ledger, "a", "a")
    (item,) = await take(still_ledger)
    await put(still_ledger, "a")
    assert await take(still_ledger) == []
    await still_ledger.commit(Change().ack(item))
    await put(still_ledger, "a")
    assert [(one.id, one.attempts) for one in await take(still_ledger)] == [("a", 1)]


async def test_a_claim_says_how_much_more_waits(still_ledger: Ledger) -> None:
    """Batches are as large as asked for, in the order in which they were put in."""
    await put(still_ledger, *(f"i{number}" for number in range(7)))
    claim = await still_ledger.claim("route", limit=3)
    assert ([item.id for item in claim.items], claim.waiting) == (["i0", "i1", "i2"], 4)
    claim = await still_ledger.claim("route", limit=100, opening=False)
    assert (len(claim.items), claim.waiting) == (4, 0)


async def test_a_lease_that_runs_out_hands_the_work_on(
    still_ledger: Ledger, clock: VirtualClock
) -> None:
    """The holder of the older lease can neither acknowledge nor prolong it any more."""
    await put(still_ledger, "a")
    (first,) = await take(still_ledger, lease=10)
    clock.advance(timedelta(seconds=10) - timedelta(milliseconds=1))
    assert await take(still_ledger) == []
    clock.advance(timedelta(milliseconds=1))
    (second,) = await take(still_ledger)
    assert second.attempts == 2
    for change in (Change().ack(first), Change().retry(first, after=0)):
        with pytest.raises(LeaseLost):
            await still_ledger.commit(change)
    with pytest.raises(LeaseLost):
        await still_ledger.extend(first, token=first.token, lease=10, keys=())
    await still_ledger.commit(Change().ack(second))
    with pytest.raises(LeaseLost):
        await still_ledger.commit(Change().ack(second))


async def test_a_lease_that_is_prolonged_stays(still_ledger: Ledger, clock: VirtualClock) -> None:
    """A heartbeat counts from the moment it comes."""
    await put(still_ledger, "a")
    (item,) = await take(still_ledger, lease=10)
    clock.advance(timedelta(seconds=9))
    await still_ledger.extend(item, token=item.token, lease=10, keys=())
    clock.advance(timedelta(seconds=9))
    assert await take(still_ledger) == []
    await still_ledger.commit(Change().ack(item))


async def test_work_that_is_put_back_comes_again(still_ledger: Ledger, clock: VirtualClock) -> None:
    """After its pause, and with one more attempt on its count; less than no pause is none."""
    await put(still_ledger, "a")
    (item,) = await take(still_ledger)
    await still_ledger.commit(Change().retry(item, after=5))
    assert await take(still_ledger) == []
    clock.advance(timedelta(seconds=5))
    (item,) = await take(still_ledger)
    assert item.attempts == 2
    await still_ledger.commit(Change().retry(item, after=-1))
    assert [one.attempts for one in await take(still_ledger)] == [3]


async def test_four_claimers_share_without_overlap(ledger: Ledger) -> None:
    """No item is leased twice at a time, and none is left."""
    await put(ledger, *(f"i{number}" for number in range(500)))

    async def claimer() -> list[str]:
        mine = []
        while items := await take(ledger, limit=7):
            mine += [item.id for item in items]
        return mine

    shares = await asyncio.gather(*(claimer() for _ in range(4)))
    found = [one for share in shares for one in share]
    assert len(found) == len(set(found)) == 500


async def test_one_ring_is_enough(still_ledger: Ledger, bell: CountingBell) -> None:
    """Work that comes while a ring is on its way rings no second time; after a claim it does."""
    await put(still_ledger, "a", "b", "c")
    assert bell.rung == ["route"]
    await take(still_ledger)
    await put(still_ledger, "d")
    assert bell.rung == ["route"] * 2
    await take(still_ledger, opening=False)
    await put(still_ledger, "e")
    assert bell.rung == ["route"] * 2


async def test_one_commit_rings_each_of_its_stages(
    still_ledger: Ledger, bell: CountingBell
) -> None:
    """Stages have bells of their own."""
    change = Change().send_raw("a", "1", {}).send_raw("b", "1", {}).send_raw("a", "2", {})
    await still_ledger.commit(change.send_raw("later", "1", {}, after=60))
    assert bell.rung == ["a", "b"]


async def test_if_nobody_comes_the_pauses_grow(
    still_ledger: Ledger, bell: CountingBell, clock: VirtualClock
) -> None:
    """It is rung again after 1, 2, 4 … seconds, and at last every minute, until somebody comes."""
    await put(still_ledger, "a")
    pauses, last = [], 0
    for second in range(1, 251):
        clock.advance(timedelta(seconds=1))
        if await still_ledger.ring_overdue():
            pauses.append(second - last)
            last = second
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert len(bell.rung) == 1 + len(pauses)
    await take(still_ledger, lease=1)
    clock.advance(timedelta(seconds=1))
    assert await still_ledger.ring_overdue() == ["route"]
    assert await still_ledger.ring_overdue() == []
    clock.advance(timedelta(seconds=1))
    assert await still_ledger.ring_overdue() == ["route"]


async def test_leased_work_is_not_overdue(
    still_ledger: Ledger, bell: CountingBell, clock: VirtualClock
) -> None:
    """The reconciler rings for a lease that ran out, and not before."""
    await put(still_ledger, "a")
    await take(still_ledger, lease=10)
    clock.advance(timedelta(seconds=9))
    assert await still_ledger.ring_overdue() == []
    clock.advance(timedelta(seconds=1))
    assert await still_ledger.ring_overdue() == ["route"]
    assert bell.rung == ["route"] * 2


async def test_work_for_later_is_rung_for_when_its_time_comes(
    still_ledger: Ledger, bell: CountingBell, clock: VirtualClock
) -> None:
    """Also in a stage that never had any work before."""
    await put(still_ledger, "a", after=30)
    assert bell.rung == []
    assert await take(still_ledger) == []
    assert await still_ledger.backlog() == {"route": 1}
    clock.advance(timedelta(seconds=30))
    assert await still_ledger.ring_overdue() == ["route"]
    assert [item.id for item in await take(still_ledger)] == ["a"]


async def test_what_is_no_item_does_not_stop_the_stage(still_ledger: Ledger) -> None:
    """A broken entry is passed over, and the others are handed out."""
    await put(still_ledger, "a", "b", "c")
    store = still_ledger.store
    await store.client.hset(f"{store.prefix}items:route", "a", "garbage")
    await store.client.hdel(f"{store.prefix}items:route", "b")
    assert [item.id for item in await take(still_ledger)] == ["c"]
    assert (await still_ledger.backlog())["route"] == 1


async def test_lease_keys(ledger: Ledger) -> None:
    """One holder at a time; taking it again under one's own token is no failure."""
    assert await ledger.take_lease("lease:s", "me", lease=60)
    assert await ledger.take_lease("lease:s", "me", lease=60)
    assert not await ledger.take_lease("lease:s", "you", lease=60)
    await ledger.release_lease("lease:s", "you")
    assert not await ledger.take_lease("lease:s", "you", lease=60)
    await ledger.extend(None, token="me", lease=60, keys=["lease:s"])
    with pytest.raises(LeaseLost):
        await ledger.extend(None, token="you", lease=60, keys=["lease:s"])
    await ledger.release_lease("lease:s", "me")
    assert await ledger.take_lease("lease:s", "you", lease=60)
