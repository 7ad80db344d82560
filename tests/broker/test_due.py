"""The due index and the reconciler that works through it."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta

import pytest

from builders import MARA, paused, people
from deciding import Decider
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.follow import follow
from signoff.broker.ledger.ledger import Bell, Ledger, Look
from signoff.broker.ledger.store import Store
from signoff.broker.timers.reconciler import Reconciler
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import What
from signoff.core.approvals.run import RunState
from signoff.core.base.errors import AlreadyDecided, LedgerUnavailable
from signoff.core.policies.policy import OnTimeout
from signoff.testing import VirtualClock

HOUR = timedelta(hours=1)


async def test_due_work_is_done_once_although_a_claimer_dies(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock
) -> None:
    """Of four claimers one dies with its batch; after the lease the others do all work once."""
    _, approvals = await paused(still_ledger, siblings=60, within=HOUR)
    clock.advance(HOUR)
    dead = await still_ledger.due(limit=20)
    assert len(dead) == 20

    async def claimer() -> list[str]:
        done = []
        while batch := await still_ledger.due(limit=9):
            done += [one for one in batch if await still_decider.time_out(one) is not None]
        return done

    async def together() -> list[str]:
        return [
            one for share in await asyncio.gather(*(claimer() for _ in range(3))) for one in share
        ]

    first = await together()
    assert sorted(first) == sorted({one.id for one in approvals} - set(dead))
    clock.advance(timedelta(seconds=10))
    second = await together()
    assert sorted(second) == sorted(dead)
    assert {one.state for one in await still_ledger.approvals(dead)} == {State.TIMED_OUT}


async def test_due_is_not_too_early(still_ledger: Ledger, clock: VirtualClock) -> None:
    """Each entry that is claimed is past its time, to the microsecond."""
    clock.advance(timedelta(microseconds=700))
    _, (approval,) = await paused(still_ledger, within=HOUR)
    clock.advance(HOUR - timedelta(microseconds=200))
    assert await still_ledger.due() == []
    clock.advance(timedelta(milliseconds=1))
    assert await still_ledger.due() == [approval.id]
    assert approval.is_late(clock.now())


async def test_the_reconciler_expires_due_approvals(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock
) -> None:
    """The deadline rejects the call, its run continues, and the cards are updated."""
    run, (approval,) = await paused(still_ledger, within=HOUR)
    reconciler = Reconciler(still_decider.roster)
    assert await reconciler.once() == 0
    clock.advance(HOUR)
    assert await reconciler.once() == 1
    assert await reconciler.once() == 0
    assert (await still_ledger.approval(approval.id)).state is State.TIMED_OUT
    assert (await still_ledger.run(run.id)).state is RunState.ANSWERED
    assert (await still_ledger.backlog())["deliver.email"] == 2
    with pytest.raises(AlreadyDecided, match="timed out"):
        await still_decider.approve(approval.id, MARA, channel="email")


async def test_an_approval_that_stays_open_is_marked_overdue_once(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock
) -> None:
    """The history says that it is overdue; it has no more deadline, and can be approved."""
    _, (approval,) = await paused(still_ledger, within=HOUR, on_timeout=OnTimeout.STAY)
    clock.advance(HOUR)
    assert await Reconciler(still_decider.roster).once() == 1
    clock.advance(HOUR)
    assert await Reconciler(still_decider.roster).once() == 0
    whats = [event.what for event in await still_ledger.history(approval.id)]
    assert whats.count(What.OVERDUE) == 1
    assert [one.id for one in await still_ledger.pending()] == [approval.id]
    await still_decider.approve(approval.id, MARA, channel="email")


async def test_an_unreadable_due_approval_does_not_block_the_others(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock
) -> None:
    """An unreadable record is skipped and tried again later."""
    _, (bad,) = await paused(still_ledger, within=HOUR)
    _, (good,) = await paused(still_ledger, within=HOUR * 2)
    store = still_ledger.store
    await store.client.set(f"{store.prefix}approval:{bad.id}", "9 x {}")
    clock.advance(HOUR * 2)
    assert await Reconciler(still_decider.roster).once() == 2
    assert (await still_ledger.approval(good.id)).state is State.TIMED_OUT
    clock.advance(timedelta(seconds=10))
    assert await still_ledger.due() == [bad.id]


async def test_a_decision_in_time_wins_over_a_concurrent_timeout(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock
) -> None:
    """An approval that is decided in time does not time out, even at the same moment."""
    _, (approval,) = await paused(still_ledger, within=HOUR)
    await still_decider.approve(approval.id, MARA, channel="email")
    clock.advance(HOUR)
    assert await still_decider.time_out(approval.id) is None
    assert (await still_ledger.approval(approval.id)).state is State.APPROVED


class FlakyLedger(Ledger):
    """A ledger whose first claim fails."""

    away = True

    async def due(self, *, limit: int = 100, lease: float = 10) -> list[str]:
        """Fail at the first call."""
        if self.away:
            self.away = False
            raise LedgerUnavailable("gone")
        return await super().due(limit=limit, lease=lease)


async def test_a_ledger_that_is_away_is_waited_for(
    still_ledger: Ledger, clock: VirtualClock
) -> None:
    """The timers continue when Redis is back."""
    run, _ = await paused(still_ledger, within=HOUR)
    clock.advance(HOUR)
    running = asyncio.create_task(
        Reconciler(Decider(FlakyLedger(still_ledger.store), people()).roster, cycle=0).run_forever()
    )
    async for event in follow(still_ledger.store, subject=run.id):
        if event.what is What.TIMED_OUT:
            break
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()


class WatchedLedger(Ledger):
    """A ledger that records the result of each look."""

    def __init__(self, store: Store, bell: Bell) -> None:
        super().__init__(store, bell)
        self.looks: asyncio.Queue[Look] = asyncio.Queue()

    async def look(self) -> Look:
        """Look, and record the result."""
        found = await super().look()
        self.looks.put_nowait(found)
        return found


async def test_the_reconciler_sleeps_until_there_is_more_to_do(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks after work in its process and when something is due; the tick is disabled here."""
    monkeypatch.setattr("signoff.broker.timers.reconciler.REST", 1e9)
    watched = WatchedLedger(ledger.store, ledger.bell)
    reconciler = Reconciler(Decider(watched, people()).roster, cycle=0)
    running = asyncio.create_task(reconciler.run_forever())
    assert await watched.looks.get() == (False, [], math.inf)
    await watched.commit(Change().send_raw("route", "a", {}, after=0.2))
    looks = [await watched.looks.get()]
    while not looks[-1].rung:
        looks.append(await watched.looks.get())
    assert looks[-1].rung == ["route"]
    # If this process paused until the work was due, there is no look before the last one.
    assert all(one.wait <= 0.2 for one in looks[:-1])
    running.cancel()
    await asyncio.wait([running])
