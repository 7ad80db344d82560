"""What follows without an answer, as lists and pages show it, is what then happens."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime

from hypothesis import HealthCheck, given, settings
from pydantic import JsonValue

from builders import NOON
from channels.routed import NUMBERS, Office
from channels.test_simulated_is_routed import Case, worlds
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import Event, What
from signoff.core.simulation.forecast import Step
from signoff.core.simulation.timeline import OTHERS, simulate_rest
from signoff.testing import VirtualClock

Happened = list[tuple[datetime, What, list[str]]]
CALL = {"app": "finance", "agent": "reimbursement_agent", "tool": "reimburse"}


async def lived(world: Case, url: str, prefix: str) -> tuple[list[Step], Happened]:
    """Route a call, foresee the rest, and then live it; nobody answers.

    Returns:
        The steps of the forecast, and the events without those of cards.
    """
    clock = VirtualClock(NOON)
    ledger = Ledger(Store.open(url, prefix=f"{prefix}{next(NUMBERS)}:", clock=clock))
    try:
        office = Office(world, ledger, clock)
        facts: dict[str, JsonValue] = {**CALL, "args": {"amount": world.amount}}
        opened = await office.open({**facts, "user": world.user}, NOON)
        approval = await ledger.approval(opened.id)
        before, roster = len(await ledger.history(approval.id)), office.decider.roster
        await roster.refresh()
        steps = list[Step]()
        if approval.state is State.PENDING:
            known = roster.rotations.known
            steps += simulate_rest(approval, roster.directory, now=clock.now(), rotations=known)[0]
            await office.wait(approval.id)
        events = (await ledger.history(approval.id))[before:]
        return steps, [
            (one.at, one.what, _people(one)) for one in events if one.what is not What.ASKED
        ]
    finally:
        await ledger.close()


def _people(event: Event) -> list[str]:
    people = event.more.get("people")
    return sorted(map(str, people)) if isinstance(people, list) else []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(world=worlds())
def test_the_steps_that_are_shown_are_those_that_happen(
    redis_url: str, prefix: str, world: Case
) -> None:
    """Each reminder, escalation, departure and end happens as foreseen, up to the default."""
    quiet = replace(world, answers=())
    steps, happened = asyncio.run(lived(quiet, redis_url, prefix))
    foreseen = [(one.at, one.what, _asked(one)) for one in steps]
    if steps and steps[-1].why == OTHERS:
        foreseen.pop()
        assert len(happened) > len(foreseen)
        assert happened[len(foreseen)][:2] == (steps[-1].at, What.UNROUTABLE)
        happened = happened[: len(foreseen)]
    assert foreseen == happened


def _asked(step: Step) -> list[str]:
    """Return the people of a step, as the audit has them."""
    if step.what is What.ESCALATED:
        return sorted({seat.person for seat in step.seats})
    return sorted(step.reminded)
