"""Policies that allow or deny, with the real router and ledger."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from builders import people
from channels.granting import opened
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.pipeline.route import Router
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.run import RunState
from signoff.core.policies.policy import Fallback, Policy
from signoff.testing import VirtualClock

POLICIES = (
    Policy(name="never", when="args.amount > 9000", effect="deny", reason="Too much at once."),
    Policy(name="small", when="args.amount <= 50", effect="allow", at_most="3/h", ask=("mara",)),
)


def router(ledger: Ledger) -> Router:
    """Return a router with a policy that denies and one that allows."""
    fallback = Fallback(ask=("cleo",))
    return Router(ledger, policies=POLICIES, fallback=fallback, directory=people())


async def decided(ledger: Ledger, name: str, amount: int) -> Approval:
    """Route a call until it waits for a person or a policy decides it."""
    approval = await opened(ledger, name, amount=amount)
    await router(ledger).drain()
    return await ledger.approval(approval.id)


async def test_allowed_or_denied_call_resumes_its_run_without_cards(ledger: Ledger) -> None:
    """Nobody gets a card, and the run resumes with the answer."""
    for name, amount, state, policy in (
        ("a", 50, State.APPROVED, "small"),
        ("b", 9001, State.REJECTED, "never"),
    ):
        done = await decided(ledger, name, amount)
        assert done.terms is not None
        assert (done.state, done.terms.policy, done.asked) == (state, policy, ())
        assert (await ledger.run(done.origin.run)).state is RunState.ANSWERED
        (item,) = (await ledger.claim("resume.finance", limit=10)).items
        assert item.body["run"] == done.origin.run
    assert (await ledger.backlog())["route"] == 0
    assert done.decision is not None
    assert done.decision.reason == "Too much at once."


async def test_several_routers_allow_no_more_than_the_ceiling(
    still_ledger: Ledger, clock: VirtualClock
) -> None:
    """Of ten concurrent calls, three run and seven go to Mara; an hour later three more run."""
    calls = [await opened(still_ledger, f"n{at}", amount=10) for at in range(10)]
    await asyncio.gather(*(router(still_ledger).drain() for _ in range(4)))
    found = await still_ledger.approvals([one.id for one in calls])
    states = sorted(one.state for one in found)
    assert states == [State.APPROVED] * 3 + [State.PENDING] * 7
    assert {one.person for found_one in found for one in found_one.asked} == {"mara"}
    clock.advance(timedelta(minutes=59))
    assert (await decided(still_ledger, "soon", 10)).state is State.PENDING
    clock.advance(timedelta(minutes=1))
    assert (await decided(still_ledger, "later", 10)).state is State.APPROVED
