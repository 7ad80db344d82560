"""The exported delay of the timers."""

from __future__ import annotations

from datetime import timedelta

from builders import paused
from deciding import Decider
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.timers.due_approvals import DueApprovals
from signoff.broker.timers.lag import BOUND, Lag, lag
from signoff.core.policies.policy import OnTimeout
from signoff.testing import VirtualClock

HOUR = timedelta(hours=1)


async def test_the_lag_is_the_age_of_the_oldest_due_entry(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock
) -> None:
    """Without due work the lag is zero; it grows with the oldest entry until that is done."""
    _, (first,) = await paused(still_ledger, within=HOUR, on_timeout=OnTimeout.STAY)
    await paused(still_ledger, within=2 * HOUR)
    assert await lag(still_ledger) == Lag()
    clock.advance(HOUR + BOUND)
    assert await lag(still_ledger) == Lag(BOUND, first.id)
    assert not (await lag(still_ledger)).problem
    clock.advance(HOUR)
    late = await lag(still_ledger)
    assert late == Lag(HOUR + BOUND, first.id)
    assert f"{first.id} has been due for 1h1m" in late.problem
    await DueApprovals(still_decider.roster).once()
    assert await lag(still_ledger) == Lag()


async def test_work_claimed_by_a_dead_process_still_counts_as_lag(
    still_ledger: Ledger, clock: VirtualClock
) -> None:
    """A claim does not end the lag, and an unreadable record hides no other."""
    _, (bad,) = await paused(still_ledger, within=HOUR / 2)
    _, (dead,) = await paused(still_ledger, within=HOUR)
    store = still_ledger.store
    await store.client.set(f"{store.prefix}approval:{bad.id}", "9 x {}")
    clock.advance(HOUR + timedelta(seconds=5))
    assert len(await still_ledger.due()) == 2
    assert await lag(still_ledger) == Lag(timedelta(seconds=5), dead.id)
