"""The outboxes: work goes in once, is leased, comes back, and rings only when needed."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import Any

import pytest

from builders import paused
from signoff.broker.ledger.change import Change, Item, joined
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.work import CloseCard, RouteApproval
from signoff.core.base.errors import LeaseLost
from signoff.testing import VirtualClock


class CountingBell:
    """A bell that remembers its rings."""

    def __init__(self) -> None:
        self.rung: list[str] = []

    async def ring(self, *rung: str) -> None:
        """Remember the rings."""
        self.rung += rung


@pytest.fixture
def bell(still_ledger: Ledger) -> CountingBell:
    """Return the bell of `still_ledger`."""
    bell = CountingBell()
    still_ledger.bell = bell
    return bell


async def put(ledger: Ledger, *ids: str, after: float = 0) -> None:
    """Put items into the stage `route`, each in its own commit."""
    await ledger.commit_all(
        [Change().send_raw("route", one, {"id": one}, after=after) for one in ids]
    )


async def take(ledger: Ledger, **how: Any) -> list[Item]:
    """Claim the waiting items of the stage `route`."""
    return list((await ledger.claim("route", **how)).items)


async def test_an_item_is_added_once_per_id(still_ledger: Ledger) -> None:
    """An item is known by its id until it is acknowledged, leased or not."""
    await put(still_ledger, "a", "a")
    (item,) = await take(still_ledger)
    await put(still_ledger, "a")
    assert await take(still_ledger) == []
    await still_ledger.commit(Change().ack(item))
    await put(still_ledger, "a")
    assert [(one.id, one.attempts) for one in await take(still_ledger)] == [("a", 1)]


async def test_a_claim_reports_the_remaining_items(still_ledger: Ledger) -> None:
    """Batches have the requested size and keep the order of the items."""
    await put(still_ledger, *(f"i{number}" for number in range(7)))
    claim = await still_ledger.claim("route", limit=3)
    assert ([item.id for item in claim.items], claim.waiting) == (["i0", "i1", "i2"], 4)
    claim = await still_ledger.claim("route", limit=100, opening=False)
    assert (len(claim.items), claim.waiting) == (4, 0)


async def test_a_lease_that_runs_out_hands_the_work_on(
    still_ledger: Ledger, clock: VirtualClock
) -> None:
    """The holder of the expired lease can neither acknowledge nor extend it."""
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
    """A heartbeat counts from its own time."""
    await put(still_ledger, "a")
    (item,) = await take(still_ledger, lease=10)
    clock.advance(timedelta(seconds=9))
    await still_ledger.extend(item, token=item.token, lease=10, keys=())
    clock.advance(timedelta(seconds=9))
    assert await take(still_ledger) == []
    await still_ledger.commit(Change().ack(item))


async def test_a_returned_item_is_retried_after_its_pause(
    still_ledger: Ledger, clock: VirtualClock
) -> None:
    """It comes after its pause with one more attempt; a negative pause means none."""
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
    """No item is leased twice at the same time, and none is left over."""
    await put(ledger, *(f"i{number}" for number in range(500)))

    async def claimer() -> list[str]:
        mine = []
        while items := await take(ledger, limit=7):
            mine += [item.id for item in items]
        return mine

    shares = await asyncio.gather(*(claimer() for _ in range(4)))
    found = [one for share in shares for one in share]
    assert len(found) == len(set(found)) == 500


async def test_work_added_during_a_ring_does_not_ring_again(
    still_ledger: Ledger, bell: CountingBell
) -> None:
    """Work that arrives while a ring is under way does not ring again; after a claim it does."""
    await put(still_ledger, "a", "b", "c")
    assert bell.rung == ["route"]
    await take(still_ledger)
    await put(still_ledger, "d")
    assert bell.rung == ["route"] * 2
    await take(still_ledger, opening=False)
    await put(still_ledger, "e")
    assert bell.rung == ["route"] * 2


async def test_one_commit_rings_each_stage_once(still_ledger: Ledger, bell: CountingBell) -> None:
    """Each stage has its own bell."""
    change = Change().send_raw("a", "1", {}).send_raw("b", "1", {}).send_raw("a", "2", {})
    await still_ledger.commit(change.send_raw("later", "1", {}, after=60))
    assert bell.rung == ["a", "b"]


async def test_unanswered_doorbells_ring_at_growing_intervals(
    still_ledger: Ledger, bell: CountingBell, clock: VirtualClock
) -> None:
    """It rings again after 1, 2, 4 … seconds, and finally every minute, until a worker comes."""
    await put(still_ledger, "a")
    pauses, last = [], 0
    for second in range(1, 251):
        clock.advance(timedelta(seconds=1))
        if (await still_ledger.look()).rung:
            pauses.append(second - last)
            last = second
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert len(bell.rung) == 1 + len(pauses)
    await take(still_ledger, lease=1)
    clock.advance(timedelta(seconds=1))
    assert (await still_ledger.look()).rung == ["route"]
    assert (await still_ledger.look()).rung == []
    clock.advance(timedelta(seconds=1))
    assert (await still_ledger.look()).rung == ["route"]


async def test_leased_work_is_not_overdue(
    still_ledger: Ledger, bell: CountingBell, clock: VirtualClock
) -> None:
    """The reconciler rings after a lease has expired, and not before."""
    await put(still_ledger, "a")
    await take(still_ledger, lease=10)
    clock.advance(timedelta(seconds=9))
    assert (await still_ledger.look()).rung == []
    clock.advance(timedelta(seconds=1))
    assert (await still_ledger.look()).rung == ["route"]
    assert bell.rung == ["route"] * 2


async def test_a_check_returns_the_time_of_the_next_work(
    still_ledger: Ledger, clock: VirtualClock
) -> None:
    """It returns the time of the next bell, end of a lease or postponed item."""
    assert await still_ledger.look() == (False, [], math.inf)
    await put(still_ledger, "later", after=30)
    assert await still_ledger.look() == (False, [], 30)
    await put(still_ledger, "now")
    assert await still_ledger.look() == (False, [], 1)
    await take(still_ledger, lease=10)
    assert await still_ledger.look() == (False, [], 10)
    clock.advance(timedelta(seconds=10))
    assert await still_ledger.look() == (False, ["route"], 1)


async def test_a_check_returns_the_time_of_the_next_due_approval(
    still_ledger: Ledger, clock: VirtualClock
) -> None:
    """A claimed approval is due again when its claim expires."""
    await paused(still_ledger, within=timedelta(hours=1))
    clock.advance(timedelta(minutes=59))
    assert await still_ledger.look() == (False, [], 60)
    clock.advance(timedelta(minutes=1))
    assert (await still_ledger.look()).due
    assert len(await still_ledger.due(lease=10)) == 1
    assert await still_ledger.look() == (False, [], 10)


async def test_a_postponed_item_rings_at_its_time(
    still_ledger: Ledger, bell: CountingBell, clock: VirtualClock
) -> None:
    """This also holds for a stage that never had work before."""
    await put(still_ledger, "a", after=30)
    assert bell.rung == []
    assert await take(still_ledger) == []
    assert await still_ledger.backlog() == {"route": 1}
    clock.advance(timedelta(seconds=30))
    assert (await still_ledger.look()).rung == ["route"]
    assert [item.id for item in await take(still_ledger)] == ["a"]


async def test_a_broken_entry_does_not_block_its_stage(still_ledger: Ledger) -> None:
    """A broken entry is skipped, and the others are handed out."""
    await put(still_ledger, "a", "b", "c")
    store = still_ledger.store
    await store.client.hset(f"{store.prefix}items:route", "a", "garbage")
    await store.client.hdel(f"{store.prefix}items:route", "b")
    assert [item.id for item in await take(still_ledger)] == ["c"]
    assert (await still_ledger.backlog())["route"] == 1


async def test_lease_keys(ledger: Ledger) -> None:
    """There is one holder at a time; taking the lease again with the same token succeeds."""
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


def told(number: int = 1) -> RouteApproval:
    """Return work of the stage `route`."""
    return RouteApproval(approval=f"ap_{number}")


def leasing(*numbers: int, token: str = "mine") -> Change:
    """Return a change that adds work for its own sender."""
    change = Change()
    for number in numbers:
        change.send(told(number))
    change.lease(["route"], token, lease=10)
    return change


async def test_an_item_can_be_leased_by_its_creator_on_insertion(
    still_ledger: Ledger, bell: CountingBell, clock: VirtualClock
) -> None:
    """It is leased from the start and does not ring; others can claim it after the lease."""
    change = leasing(1, 2)
    await still_ledger.commit(change)
    one, other = change.leased
    assert [(item.work, item.attempts) for item in (one, other)] == [(told(1), 1), (told(2), 1)]
    assert (await take(still_ledger), bell.rung) == ([], [])

    await still_ledger.commit(Change().ack(one))
    clock.advance(timedelta(seconds=10))
    (again,) = await take(still_ledger)
    assert (again.id, again.body, again.attempts) == (other.id, other.body, 2)
    with pytest.raises(LeaseLost):
        await still_ledger.commit(Change().ack(other))


async def test_work_that_is_there_already_is_not_leased_again(
    still_ledger: Ledger, bell: CountingBell
) -> None:
    """The sender gets no lease for it; the worker that holds or claims it does the work."""
    await still_ledger.commit(Change().send(told()))
    change = leasing(1, 2)
    await still_ledger.commit(change)
    assert [item.work for item in change.leased] == [told(2)]
    assert [item.work for item in await take(still_ledger)] == [told()]


async def test_leasing_on_insertion_waits_behind_a_backlog(
    still_ledger: Ledger, bell: CountingBell
) -> None:
    """If more work waits than one claim takes, it is added behind that and rings the bell."""
    waiting = Change()
    for number in range(100):
        waiting.send(told(number))
    await still_ledger.commit(waiting)
    await still_ledger.claim("route", limit=0)
    bell.rung.clear()
    change = leasing(1000)
    await still_ledger.commit(change)
    assert (list(change.leased), bell.rung) == ([], ["route"])
    assert len(await take(still_ledger, limit=200)) == 101


async def test_a_commit_sent_again_knows_its_leases(still_ledger: Ledger) -> None:
    """The reply was lost, but the sender still holds the leases of items that are not done."""
    change = leasing(1, 2)
    await still_ledger.commit(change)
    first, _ = change.leased
    await still_ledger.commit(Change().ack(first))
    await still_ledger.commit(change)
    assert [item.work for item in change.leased] == [told(2)]


async def test_one_id_in_two_stages_is_two_items(still_ledger: Ledger) -> None:
    """A person with cards by email and in Slack gets both updates, each leased separately."""
    cards = [CloseCard(channel=one, approval="ap_1", person="mara") for one in ("email", "slack")]
    stages = [card.stage for card in cards]
    assert cards[0].id == cards[1].id
    change = Change().send(cards[0]).send(cards[1])
    change.lease(stages, "mine", lease=10)
    await still_ledger.commit(change)
    assert [(item.stage, item.work) for item in change.leased] == [*zip(stages, cards, strict=True)]

    await still_ledger.commit(Change().ack(next(change.leased)))
    again = Change().send(cards[0]).send(cards[1])
    again.lease(stages, "new", lease=10)
    await still_ledger.commit(again)
    assert [item.work for item in again.leased] == [cards[0]]

    await still_ledger.commit(Change().ack(next(again.leased)))
    partly = Change().send(cards[0]).send(cards[1])
    partly.lease(stages[1:], "late", lease=10)
    await still_ledger.commit(partly)
    assert list(partly.leased) == []


async def test_an_item_added_twice_is_leased_once(still_ledger: Ledger) -> None:
    """This holds within a change, in changes of one commit, and when a commit is sent again."""
    changes = [leasing(1, 1), leasing(1, 2)]
    together = joined(changes)
    for _ in range(2):
        await still_ledger.commit(together)
        leased = [[item.work for item in change.leased] for change in changes]
        assert leased == [[told(1)], [told(2)]]
