"""Decisions of people, timers, policies and grants are all signed."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from builders import MARA, make_approval, people
from deciding import Decider
from signoff.broker.ed25519 import Key
from signoff.broker.grants import Grants
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.limits.allowances import Allowances
from signoff.broker.receipts import Receipts, keys_text, read_keys
from signoff.broker.timers.due import DueChanges
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.parts import Asked
from signoff.core.policies.policy import (
    Effect,
    Fallback,
    GrantRules,
    OnTimeout,
    Policy,
    Terms,
)
from signoff.core.routing.selection import Choice, choose
from signoff.testing import VirtualClock

KEY = Key.generate()
SIGNS = Receipts(lambda: read_keys(keys_text([KEY])), lambda: KEY)
VERIFIES = Receipts(lambda: read_keys(keys_text([KEY])))

GRANTS = Terms(policy="expenses", ask=("mara",), grants=GrantRules(who=("mara",)))


@pytest.fixture
def signing(still_ledger: Ledger) -> Ledger:
    """Return the ledger of a process that holds the private key."""
    still_ledger.receipts = SIGNS
    return still_ledger


async def opened(ledger: Ledger, terms: Terms | None = None) -> Approval:
    """Return an approval that a run waits for, routed by these terms if there are any."""
    run = await Decider(ledger, people()).submit("finance", "Reimburse me", user="riley")
    fresh = make_approval(now=await ledger.now())
    origin = fresh.origin.model_copy(update={"run": run.id, "session": run.session})
    approval, events = Approval.open(
        origin, fresh.call, hint="", template=None, now=await ledger.now()
    )
    if terms is not None:
        mara = Asked(person="mara", channel="email", address=MARA.email)
        approval, more = approval.ask(terms, (mara,), now=await ledger.now())
        events = (*events, *more)
    stands = await ledger.run(run.id)
    change = Change().put(approval, was=None).note(events)
    await ledger.commit(change.put(stands.paused([approval.id]), was=stands))
    return await ledger.approval(approval.id)


async def test_an_approval_by_timeout_is_signed_by_a_process_with_the_key(
    signing: Ledger, clock: VirtualClock
) -> None:
    """A worker's timers leave it to a process that holds the key."""
    terms = Terms(
        policy="expenses",
        ask=("mara",),
        within="1h",
        on_timeout=OnTimeout.APPROVE,
        under_ceiling=True,
    )
    approval = await opened(signing, terms)
    clock.advance(timedelta(hours=2))
    decider = Decider(signing, people())
    signing.receipts = VERIFIES
    standing = await signing.current(approval.id)
    assert DueChanges(decider.roster).change(*standing) is None
    signing.receipts = SIGNS
    await decider.time_out(approval.id)
    done = await signing.approval(approval.id)
    assert (done.state, done.decided_by) == (State.APPROVED, ())
    assert VERIFIES.why_refused(done, await signing.now()) == ""


async def test_a_receipt_for_a_policy_decision_names_the_policy_and_no_person(
    signing: Ledger,
) -> None:
    """The receipt names the policy and its version, and no person."""
    allows = Policy(name="allows", effect=Effect.ALLOW, at_most="5/1h")
    for policy in (allows, Policy(name="denies", effect=Effect.DENY, reason="no")):
        approval = await opened(signing)

        def chosen(one: Approval, now: datetime, policy: Policy = policy) -> Choice:
            return choose((policy,), Fallback(), people(), one.facts, now=now)

        done = await Allowances(signing).decide(approval.id, chosen)
        assert done is not None
        said = SIGNS.read(done.receipt)
        assert (said["policy"], said["policy_version"]) == (policy.name, policy.version)
        assert VERIFIES.why_refused(done, await signing.now()) == ""


async def test_the_use_of_a_grant_is_signed(signing: Ledger) -> None:
    """The receipt names the grant, and the decision names its giver."""
    decider = Decider(signing, people())
    first = await opened(signing, GRANTS)
    await decider.approve(first.id, MARA, channel="cli")
    grant = await decider.give(first.id, MARA, channel="cli", span=timedelta(hours=1))
    second = await opened(signing)
    done = await Grants(signing).decide(second.id, lambda *_: (GRANTS, ["mara"]), people())
    assert done is not None
    assert (SIGNS.read(done.receipt)["grant"], done.state) == (grant.id, State.APPROVED)
    assert VERIFIES.why_refused(done, await signing.now()) == ""


def test_a_policy_version_depends_on_its_effective_content() -> None:
    """Another text is another version; writing out a default value changes nothing."""
    first = Policy(name="expenses", ask=("mara",))
    assert first.version == Policy(name="expenses", ask=("mara",), repeat=0).version
    assert first.version != Policy(name="expenses", ask=("mara",), repeat=1).version
    assert len(first.version) == 16
