"""A call that a grant approves runs once with its own arguments."""

from __future__ import annotations

from datetime import timedelta

import pytest

from signoff.channels.pipeline.route import Router
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from signoff.core.policies.policy import Fallback, GrantRules, Policy
from worker.office import MARA, Office

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")

POLICY = Policy(
    name="expenses",
    ask=("mara",),
    grants=GrantRules(who=("mara",), vary=("amount",), limit="args.amount <= 3000.0"),
)


async def submit(office: Office, amount: int) -> Run:
    """Ask for money, and let the router and the worker do everything that needs no person."""
    run = await office.submit("finance", f"Reimburse me ${amount} for the conference")
    router = Router(
        office.ledger, policies=[POLICY], fallback=Fallback(), directory=office.decider.directory
    )
    await router.drain()
    return await office.resume(run)


async def test_granted_calls_run_without_asking_anybody(office: Office) -> None:
    """With the real Runner, one approval covers two payments; the third is too much and waits."""
    first = await submit(office, 2500)
    assert first.state is RunState.PAUSED
    await office.decider.give(
        first.waiting[0], MARA, channel="cli", span=timedelta(hours=4), uses=5
    )
    assert (await office.resume(first)).state is RunState.COMPLETED

    second = await submit(office, 1800)
    assert second.state is RunState.COMPLETED
    (done,) = await office.ledger.approvals(second.approvals)
    assert done.decision is not None
    assert (done.decision.channel, done.handoff) == ("grant", Handoff.RESUMED)
    assert [one["amount"] for one in office.executed()] == [2500, 1800]

    third = await submit(office, 3001)
    assert third.state is RunState.PAUSED
    assert len(office.executed()) == 2
