"""Slots share the rate limit of another service among all processes, most urgent first."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.limits.slots import Limit, SlotRequest, Slots
from signoff.testing import VirtualClock

SECOND = timedelta(seconds=1)
ROOM = Limit("slots:room", SECOND)
ALL = Limit("slots:all", timedelta(milliseconds=200), 3)


@pytest.fixture
def slots(still_ledger: Ledger) -> Slots:
    """Return slots on the virtual clock."""
    return Slots(still_ledger.store)


def wish(name: str, clock: VirtualClock, hours: float | None = None, *limits: Limit) -> SlotRequest:
    """Return a wish whose deadline is this many hours away."""
    deadline = None if hours is None else clock.now() + timedelta(hours=hours)
    return SlotRequest(name, limits or (ROOM,), deadline)


async def test_each_caller_gets_its_own_slot_and_time(slots: Slots, clock: VirtualClock) -> None:
    """Each caller learns the time of its slot, and has the slot at that time."""
    names = ["a", "b", "c"]
    assert await slots.take([wish(name, clock) for name in names]) == [0, 1, 2]
    clock.advance(SECOND)
    assert await slots.take([wish("b", clock)]) == [0]
    assert await slots.take([wish("c", clock)]) == [1]


async def test_the_earliest_deadline_goes_first(slots: Slots, clock: VirtualClock) -> None:
    """It goes before others of the same call and before those that wait already."""
    later = [wish("a", clock, 3), wish("b", clock, 2), wish("c", clock, 1), wish("d", clock)]
    assert await slots.take(later) == [2, 1, 0, 3]
    assert await slots.take([wish("urgent", clock, 0.5)]) == [1]
    clock.advance(SECOND)
    assert await slots.take([later[1], wish("urgent", clock, 0.5)]) == [1, 0]


async def test_processes_share_the_slots(
    slots: Slots, still_ledger: Ledger, clock: VirtualClock
) -> None:
    """A slot that one process has taken is not available to the other."""
    other = Slots(still_ledger.store)
    assert await slots.take([wish("a", clock)]) == [0]
    assert await other.take([wish("b", clock)]) == [1]


async def test_a_narrow_limit_leaves_the_shared_slots_to_others(
    slots: Slots, clock: VirtualClock
) -> None:
    """Many wishes for one room leave the shared slots to the other rooms."""
    crowd = [wish(f"{number:02}", clock, 1, ROOM, ALL) for number in range(50)]
    assert (await slots.take(crowd)).count(0) == 1
    other = Limit("slots:other", SECOND)
    assert await slots.take([wish("other", clock, 9, other, ALL)]) == [0]


async def test_an_overdue_holder_loses_its_place_in_the_queue(
    slots: Slots, clock: VirtualClock
) -> None:
    """A place in the queue ends when its holder is long overdue."""
    await slots.take([wish(f"gone {number}", clock, 1) for number in range(20)])
    clock.advance(timedelta(minutes=2))
    assert await slots.take([wish("a", clock, 5), wish("b", clock, 6)]) == [0, 1]


async def test_a_rest_is_exact(slots: Slots, clock: VirtualClock) -> None:
    """No slot is free during the rest, even saved ones; a shorter rest does not end it."""
    saved = Limit("slots:saved", SECOND, 5)
    await slots.rest(saved, 7)
    await slots.rest(saved, 3)
    clock.advance(timedelta(seconds=7, milliseconds=-1))
    assert await slots.take([wish("a", clock, None, saved)]) == [0.001]
    clock.advance(timedelta(milliseconds=1))
    assert await slots.take([wish("a", clock, None, saved)]) == [0]


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=20,
)
@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 5)), min_size=1, max_size=15))
async def test_never_more_than_the_limit(
    still_ledger: Ledger, clock: VirtualClock, arrivals: list[tuple[int, int]]
) -> None:
    """Any period has at most as many slots as the limit, plus the saved ones."""
    key, most = f"slots:{clock.now().timestamp()}:{id(arrivals)}", 2
    slots, limit = Slots(still_ledger.store), Limit(key, SECOND, most)
    taken: list[float] = []
    for number, (pause, wishes) in enumerate(arrivals):
        clock.advance(timedelta(milliseconds=pause))
        found = await slots.take(
            [wish(f"{number}.{one}", clock, 1, limit) for one in range(wishes)]
        )
        taken += [clock.now().timestamp()] * found.count(0)
    for first, start in enumerate(taken):
        for last, end in enumerate(taken[first:], start=first):
            assert last - first + 1 <= (end - start) + most + 1e-6
