"""Grants at work: the router decides with them, exactly as often as they allow."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import datetime, timedelta

import pytest
from pydantic import JsonValue

from builders import CLEO, MARA, people
from channels.granting import EXPENSES, RULES, asked, given, opened, router
from deciding import Decider
from signoff.broker.directory.absences import People
from signoff.broker.grants import Grants
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.rebuild import rebuild
from signoff.broker.work import SendCard, SendNotice
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.approvals.run import RunState
from signoff.core.base.errors import AlreadyDecided, GrantNotFound, GrantRefused, NotAnApprover
from signoff.core.directory.hours import Absence
from signoff.core.policies.policy import Policy, Terms
from signoff.testing import VirtualClock

HOUR = timedelta(hours=1)


async def test_grant_approves_a_similar_call_without_a_card(ledger: Ledger) -> None:
    """The run continues, the audit names the grant's giver, and the use is listed."""
    grant = await given(ledger)
    await ledger.claim("deliver.email")
    done = await asked(ledger, "second", amount=499)
    assert done.state is State.APPROVED
    assert done.decision is not None
    assert (done.decision.by, done.decision.channel) == ("mara", "grant")
    assert (await ledger.run("run_second")).state is RunState.ANSWERED
    sent = (await ledger.claim("deliver.email")).items
    notices = [one.work.person for one in sent if isinstance(one.work, SendNotice)]
    assert notices == ["mara"]
    assert not [one for one in sent if isinstance(one.work, SendCard)]
    kinds = [event.what for event in await ledger.history(done.id)]
    assert kinds == [What.OPENED, What.APPROVED, What.GRANT_USED]
    grants = Grants(ledger)
    assert [one.id for one in await grants.uses(grant)] == [done.id]
    assert (await grants.get(done.decision.grant)).left == 9


async def test_one_commit_gives_the_grant_and_approves_the_pending_call(ledger: Ledger) -> None:
    """One commit gives the grant and approves the waiting call."""
    grant = await given(ledger)
    first = await ledger.approval(grant.approval)
    assert first.state is State.APPROVED
    assert first.decision is not None
    assert (first.decision.by, first.decision.grant) == ("mara", "")
    kinds = [event.what for event in await ledger.history(first.id)]
    assert kinds[-2:] == [What.APPROVED, What.GRANTED]


@pytest.mark.parametrize(
    "args", [{"amount": 501}, {"amount": "100"}, {"amount": 100, "to": "x"}, {"total": 100}]
)
async def test_call_outside_the_grant_waits_for_an_approver(
    ledger: Ledger, args: dict[str, JsonValue]
) -> None:
    """A call outside the grant waits for a person, as usual."""
    await given(ledger)
    waits = await asked(ledger, "second", **args)
    assert (waits.state, set(waits.approvers)) == (State.PENDING, {"mara"})


async def test_concurrent_calls_do_not_exceed_the_grant_limit(ledger: Ledger) -> None:
    """With any number of routers and calls, ten are approved and forty are asked about."""
    grant = await given(ledger, uses=10)
    calls = [await opened(ledger, str(number)) for number in range(50)]
    grants = [Grants(ledger) for _ in calls]
    rules = router(ledger).rules_of
    done = await asyncio.gather(
        *(one.decide(call.id, rules, people()) for one, call in zip(grants, calls, strict=True))
    )
    assert sum(one is not None for one in done) == 10
    assert (await grants[0].get(grant.id)).state(await ledger.now()) == "used up"
    assert len(await grants[0].uses(grant)) == 10
    await router(ledger).drain()
    states = [one.state for one in await ledger.approvals([call.id for call in calls])]
    assert (states.count(State.APPROVED), states.count(State.PENDING)) == (10, 40)


async def test_several_routers_share_a_grant(ledger: Ledger) -> None:
    """The same holds for routers that claim items like several processes."""
    await given(ledger, uses=10)
    calls = [await opened(ledger, str(number)) for number in range(50)]
    await asyncio.gather(*(router(ledger).drain() for _ in range(4)))
    states = [one.state for one in await ledger.approvals([call.id for call in calls])]
    assert (states.count(State.APPROVED), states.count(State.PENDING)) == (10, 40)


async def test_revoked_grant_decides_nothing(ledger: Ledger) -> None:
    """A use that races with the revocation comes before it, or is asked about."""
    grant = await given(ledger, uses=20)
    calls = [await opened(ledger, str(number)) for number in range(20)]
    grants = Grants(ledger)
    rules = router(ledger).rules_of
    done, revoked = await asyncio.gather(
        asyncio.gather(*(grants.decide(call.id, rules, people()) for call in calls[:10])),
        Decider(ledger, people()).take_back(grant.id, by="olga", why="enough"),
    )
    assert revoked.revoked_by == "olga"
    assert sum(one is not None for one in done) == revoked.used
    assert (await grants.get(grant.id)).used == revoked.used
    assert not any([await grants.decide(call.id, rules, people()) for call in calls[10:]])
    trail = [event.what for event in await ledger.history(grant.approval)]
    assert trail[-1] is What.GRANT_REVOKED
    with pytest.raises(GrantRefused, match="revoked already"):
        await Decider(ledger, people()).take_back(grant.id, by="olga", why="twice")


async def test_grant_expiry_is_checked_at_commit_time(
    still_ledger: Ledger, clock: VirtualClock
) -> None:
    """A grant that ends between lookup and commit decides nothing."""
    await given(still_ledger, span=HOUR)
    call = await opened(still_ledger, "second")
    grants = Grants(still_ledger)
    rules = router(still_ledger).rules_of

    def slowly(approval: Approval, now: datetime) -> tuple[Terms, Collection[str]]:
        clock.advance(HOUR)
        return rules(approval, now)

    assert await grants.decide(call.id, slowly, people()) is None
    assert (await still_ledger.approval(call.id)).state is State.PENDING


async def test_policy_without_grants_disables_existing_grants(
    ledger: Ledger,
) -> None:
    """The current settings rule: removing grants from the policy stops every grant of it."""
    await given(ledger)
    call = await opened(ledger, "second")
    await router(ledger, EXPENSES.model_copy(update={"grants": None})).drain()
    assert (await ledger.approval(call.id)).state is State.PENDING


async def test_grant_of_a_person_who_is_asked_second_decides_nothing(ledger: Ledger) -> None:
    """The policy now asks Cleo first, and Mara after her: Mara's grant does not skip Cleo."""
    await given(ledger)
    call = await opened(ledger, "second")
    both = {"ask": ("mara", "cleo"), "quorum": "all", "order": "sequence", "grants": RULES}
    first = Policy(name="expenses", when=EXPENSES.when, **both)
    second = Policy(name="expenses", when=EXPENSES.when, **(both | {"ask": ("cleo", "mara")}))
    at = await ledger.now()
    assert router(ledger, first).rules_of(call, at)[1] == ["mara"]
    assert router(ledger, second).rules_of(call, at)[1] == ["cleo"]
    await router(ledger, second).drain()
    after = await ledger.approval(call.id)
    assert (after.state, [one.person for one in after.asked]) == (State.PENDING, ["cleo"])


async def test_grant_of_a_delegate_decides_nothing_for_the_absent_person(ledger: Ledger) -> None:
    """Mara stands in for Cleo: her grant covers calls that she would be asked about herself."""
    await given(ledger)
    call = await opened(ledger, "second")
    policy = EXPENSES.model_copy(update={"ask": ("cleo",)})
    found = router(ledger, policy)
    today = CLEO.day(await ledger.now())
    away = Absence(start=today, end=today + timedelta(days=3), delegate="mara")
    await People(ledger, people()).leave(CLEO, away, by="test", more={})
    await found.drain()
    after = await ledger.approval(call.id)
    assert (after.state, [one.person for one in after.asked]) == (State.PENDING, ["mara"])


async def test_call_that_a_grant_decides_leaves_no_work(ledger: Ledger) -> None:
    """The commit of the decision acknowledges the work of the router."""
    await given(ledger)
    await asked(ledger, "second")
    assert (await ledger.backlog())["route"] == 0


async def test_unauthorized_person_or_call_creates_no_grant(ledger: Ledger) -> None:
    """For other people or calls nothing happens, and the call still waits."""
    first = await asked(ledger, "first")
    decider, grants = Decider(ledger, people()), Grants(ledger)
    with pytest.raises(NotAnApprover):
        await decider.give(first.id, CLEO, channel="cli", span=HOUR)
    with pytest.raises(GrantRefused, match="8h at most"):
        await decider.give(first.id, MARA, channel="cli", span=9 * HOUR)
    with pytest.raises(GrantRefused, match="limit"):
        await decider.give(first.id, MARA, channel="cli", span=HOUR, limit="args.amount <")
    assert (await ledger.approval(first.id)).state is State.PENDING
    assert await grants.all() == []
    with pytest.raises(GrantNotFound):
        await grants.get("gr_none")


async def test_repeated_requests_for_one_call_create_one_grant(ledger: Ledger) -> None:
    """However often it is requested, also at the same time, the count is not doubled."""
    first = await asked(ledger, "first")
    grants = Grants(ledger)
    tries = await asyncio.gather(
        *(
            Decider(ledger, people()).give(first.id, MARA, channel="cli", span=HOUR)
            for _ in range(5)
        ),
        return_exceptions=True,
    )
    assert len([one for one in tries if not isinstance(one, Exception)]) == 1
    refused = [one for one in tries if isinstance(one, Exception)]
    assert all(isinstance(one, GrantRefused | AlreadyDecided) for one in refused)
    assert len(await grants.all()) == 1


async def test_grant_can_follow_an_approval_but_not_a_rejection(ledger: Ledger) -> None:
    """The approver may add it later; a rejected call gives no grant."""
    decider = Decider(ledger, people())
    yes, no = await asked(ledger, "yes"), await asked(ledger, "no")
    await decider.approve(yes.id, MARA, channel="email")
    await decider.reject(no.id, MARA, channel="email", reason="too dear")
    assert (await decider.give(yes.id, MARA, channel="cli", span=HOUR)).uses == RULES.most
    with pytest.raises(AlreadyDecided, match="rejected by"):
        await decider.give(no.id, MARA, channel="cli", span=HOUR)


async def test_grant_indexes_can_be_rebuilt(ledger: Ledger) -> None:
    """Lost or wrong indexes are restored; an ended grant covers nothing."""
    grant = await given(ledger, uses=2)
    await asked(ledger, "second")
    store = ledger.store

    async def indexes() -> dict[str, object]:
        keys = [key for start in ("grants", "uses:", "scope:") for key in await store.keys(start)]
        return {
            key: await store.client.zrange(store.prefix + key, 0, -1, withscores=True)
            for key in keys
        }

    before = await indexes()
    assert len(before) == 3
    for key in before:
        await store.client.delete(store.prefix + key)
    await store.client.zadd(f"{store.prefix}uses:{grant.id}", {"stray": 1, grant.approval: 2})
    await store.client.zadd(f"{store.prefix}scope:none", {grant.id: 1})
    await rebuild(ledger)
    assert await indexes() == before
    await asked(ledger, "third")
    assert not await store.keys("scope:")
