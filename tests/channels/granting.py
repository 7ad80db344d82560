"""Fixtures of the tests of grants: a policy that allows them, and waiting calls."""

from __future__ import annotations

from datetime import timedelta

from pydantic import JsonValue

from builders import MARA, make_call, make_origin, people, waiting
from deciding import Decider
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.pipeline.route import Router
from signoff.core.approvals.approval import Approval
from signoff.core.grants.grant import Grant
from signoff.core.policies.policy import Fallback, GrantRules, Policy

RULES = GrantRules(
    who=("mara",), longest=timedelta(hours=8), vary=("amount",), limit="args.amount <= 500"
)
EXPENSES = Policy(name="expenses", when="tool == 'reimburse'", ask=("mara",), grants=RULES)


def router(ledger: Ledger, policy: Policy = EXPENSES) -> Router:
    """Return a router with one policy; all other calls go to Cleo."""
    return Router(ledger, policies=[policy], fallback=Fallback(ask=("cleo",)), directory=people())


async def opened(ledger: Ledger, name: str, **args: JsonValue) -> Approval:
    """Put a run of Riley's that waits for one unrouted call into the ledger."""
    now = await ledger.now()
    origin = make_origin(run=f"run_{name}", session=f"s_{name}", confirmation=f"adk-{name}")
    call = make_call("reimburse", **(args or {"amount": 100}))
    approval, events = Approval.open(origin, call, hint="", template=None, now=now)
    await ledger.commit(waiting(approval).note(events))
    return approval


async def asked(ledger: Ledger, name: str, **args: JsonValue) -> Approval:
    """Route a call until it waits for a person or a grant decides it."""
    approval = await opened(ledger, name, **args)
    await router(ledger).drain()
    return await ledger.approval(approval.id)


async def given(ledger: Ledger, *, uses: int = 10, span: timedelta = timedelta(hours=4)) -> Grant:
    """Return a grant of Mara's for reimbursements that are similar to one of 100."""
    first = await asked(ledger, "first")
    return await Decider(ledger, people()).give(first.id, MARA, channel="cli", span=span, uses=uses)
