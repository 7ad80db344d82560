"""The people and policies of the benchmarks, and the pauses that they open themselves."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from signoff.broker.announcements import Announcer
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Bell, Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.work import RouteApproval
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.parts import Kind, Origin, ToolCall
from signoff.core.approvals.run import Run
from signoff.core.base.durations import Span
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.routing.targets import Reach

APP = "finance_strict"
AGENTS = Path(__file__).parents[1] / "examples" / "agents"
USER = "riley@example.com"
MARA = Person(id="mara", name="Mara Lind", email="mara@example.com")
OLGA = Person(id="olga", name="Olga Ruiz", email="olga@example.com")
DIRECTORY = Directory([MARA, OLGA, Person(id="riley", name="Riley Chen", email=USER)])
POLICIES = (Policy(name="payments", when='tool == "reimburse" && args.amount > 0', ask=("mara",)),)
ESCALATING = (
    Policy(
        name="payments",
        when='tool == "reimburse" && args.amount > 0',
        levels=(
            Level(ask=("mara",), within=Span(timedelta(seconds=1))),
            Level(ask=("olga",), within=Span(timedelta(days=1))),
        ),
    ),
)
DEFAULT = Fallback(ask=("mara",))
MESSAGE = "Reimburse me $2500 for the conference"
HINT = "Please approve or reject the tool call reimburse() by responding with a FunctionResponse."


@dataclass(frozen=True, slots=True)
class Opened:
    """A paused run, its approval, and the commit that creates them."""

    run: Run
    approval: Approval
    change: Change


def open_ledger(store: Store, bell: Bell) -> Ledger:
    """Return the ledger of a process that has heard the heartbeats of the channels processes."""
    ledger = Ledger(store, bell)
    ledger.announcer = announcer = Announcer(DIRECTORY)
    announcer.listen([json.dumps({"rules": "", "reach": Reach(["email"]).text})], "")
    return ledger


def open_pause(now: datetime, *, route: bool = True) -> Opened:
    """Return the commit of a worker whose run pauses.

    Args:
        now: The current time.
        route: Whether the approval goes to the router.
    """
    submitted = Run(
        id=f"run_{secrets.token_hex(8)}",
        app=APP,
        user=USER,
        session=f"s_{secrets.token_hex(8)}",
        message=MESSAGE,
        submitted_at=now,
        trace=secrets.token_hex(16),
    )
    origin = Origin(
        run=submitted.id,
        app=APP,
        agent=APP,
        user=USER,
        session=submitted.session,
        invocation=submitted.invocation,
        confirmation=f"adk-{secrets.token_hex(16)}",
    )
    call = ToolCall(
        id=f"adk-{secrets.token_hex(16)}",
        name="reimburse",
        args={"amount": 2500.0, "purpose": "the conference"},
    )
    # No agent and no tool runs: for this kind, no result is expected.
    approval, events = Approval.open(
        origin, call, kind=Kind.LONG_RUNNING, hint=HINT, template=None, now=now
    )
    run = submitted.paused([approval.id])
    change = Change().put(run, was=None).note(submitted.submitted())
    change.put(approval, was=None).note(events)
    if route:
        change.send(RouteApproval(approval=approval.id))
    return Opened(run, approval, change)
