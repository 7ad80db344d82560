"""The batched processing of the due index while other processes change the same approvals."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest

from builders import paused, people
from deciding import Decider
from signoff.broker.ledger import audit
from signoff.broker.ledger.ledger import Current, Ledger
from signoff.broker.timers.due_approvals import DueApprovals
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.run import RunState
from signoff.core.base.errors import SignoffError
from signoff.testing import VirtualClock

HOUR = timedelta(hours=1)


async def ended(ledger: Ledger) -> Counter[str]:
    """Return how often each approval has timed out."""
    events = [Event.model_validate_json(text) async for _, text, _ in audit.entries(ledger.store)]
    return Counter(event.approval for event in events if event.what is What.TIMED_OUT)


@pytest.mark.parametrize("siblings", [1, 30])
async def test_concurrent_sweepers_end_each_due_approval_once(
    still_ledger: Ledger, clock: VirtualClock, siblings: int
) -> None:
    """Four share the due approvals, even if many of them belong to one run."""
    paused_ = [await paused(still_ledger, siblings=siblings, within=HOUR) for _ in range(3)]
    approvals = {one.id for _, opened in paused_ for one in opened}
    clock.advance(HOUR)
    sweeps = [DueApprovals(Decider(still_ledger, people()).roster, batch=7) for _ in range(4)]
    claimed = await asyncio.gather(*(sweep.once() for sweep in sweeps))
    assert sum(claimed) == len(approvals)
    assert await ended(still_ledger) == Counter(approvals)
    runs = await still_ledger.runs([run.id for run, _ in paused_])
    assert {run.state for run in runs} == {RunState.ANSWERED}
    assert {run.waiting for run in runs} == {()}


class Racing(Ledger):
    """Runs a function once between the reading of a batch and its commit."""

    withdraws = ""

    async def current_all(self, ids: Sequence[str]) -> list[Current | SignoffError]:
        """Read, and then let the requester withdraw first."""
        found = await super().current_all(ids)
        if loser := self.withdraws:
            self.withdraws = ""
            await Decider(Ledger(self.store), people()).withdraw(loser, by="riley", reason="enough")
        return found


async def test_a_lost_race_is_looked_at_again(still_ledger: Ledger, clock: VirtualClock) -> None:
    """The faster change wins; a sibling in the same commit still times out."""
    run, (faster, sibling) = await paused(still_ledger, siblings=2, within=HOUR)
    clock.advance(HOUR)
    racing = Racing(still_ledger.store)
    racing.withdraws = faster.id
    assert await DueApprovals(Decider(racing, people()).roster).once() == 2
    states = [one.state for one in await still_ledger.approvals([faster.id, sibling.id])]
    assert states == [State.WITHDRAWN, State.TIMED_OUT]
    assert await ended(still_ledger) == Counter([sibling.id])
    assert (await still_ledger.run(run.id)).state is RunState.ANSWERED


@pytest.mark.parametrize("text", ["9 x {}", "not a record"])
async def test_a_failing_due_approval_does_not_block_its_batch(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, text: str
) -> None:
    """The rest of its batch is processed; the failed one is tried again after its lease."""
    store = still_ledger.store
    bad, lost, good = [(await paused(still_ledger, within=HOUR))[1][0] for _ in range(3)]
    await store.client.set(f"{store.prefix}approval:{bad.id}", text)
    await store.client.delete(f"{store.prefix}run:{lost.origin.run}")
    clock.advance(HOUR)
    assert await DueApprovals(still_decider.roster).once() == 3
    assert await ended(still_ledger) == Counter([good.id])
    clock.advance(timedelta(seconds=10))
    assert set(await still_ledger.due()) == {bad.id, lost.id}
