"""What follows without an answer, as lists and pages show it, is what then happens."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from builders import NOON
from channels.routed import NUMBERS, Office
from channels.test_simulated_is_routed import Case, directories, worlds
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import Event, What
from signoff.core.directory.people import Directory
from signoff.core.simulation.forecast import Step
from signoff.core.simulation.timeline import OTHERS, simulate_rest
from signoff.testing import VirtualClock

Happened = list[tuple[datetime, What, list[str]]]
CALL = {"app": "finance", "agent": "reimbursement_agent", "tool": "reimburse"}


async def lived(
    world: Case, url: str, prefix: str, *, change: tuple[timedelta, Directory] | None = None
) -> tuple[list[Step], Happened]:
    """Route a call, foresee the rest, and then live it; nobody answers.

    Args:
        world: The world.
        url: The URL of Redis.
        prefix: A prefix of its own.
        change: When other people, queues and schedules are loaded, and these; None for never. The
            rest is then foreseen after that.

    Returns:
        The steps of the forecast, and the events.
    """
    clock = VirtualClock(NOON)
    ledger = Ledger(Store.open(url, prefix=f"{prefix}{next(NUMBERS)}:", clock=clock))
    try:
        office = Office(world, ledger, clock)
        facts: dict[str, JsonValue] = {**CALL, "args": {"amount": world.amount}}
        opened = await office.open({**facts, "user": world.user}, NOON)
        approval = await ledger.approval(opened.id)
        if change is not None:
            await office.wait(approval.id, NOON + change[0])
            clock.advance(max(NOON + change[0] - clock.now(), timedelta()))
            world.everybody.become(change[1])
            await office.departures.once()
            await office.router.drain()
            approval = await ledger.approval(approval.id)
        before, roster = len(await ledger.history(approval.id)), office.decider.roster
        await roster.refresh()
        steps = list[Step]()
        if approval.state is State.PENDING:
            known = roster.rotations.known
            steps += simulate_rest(approval, roster.directory, now=clock.now(), rotations=known)[0]
            await office.wait(approval.id)
        events = (await ledger.history(approval.id))[before:]
        return steps, [(one.at, one.what, _people(one)) for one in events]
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
    _compare(*asyncio.run(lived(quiet, redis_url, prefix)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(world=worlds(), minutes=st.integers(0, 900), other=directories())
def test_the_steps_after_a_reload_are_those_that_happen(
    redis_url: str, prefix: str, world: Case, minutes: int, other: Directory
) -> None:
    """Other people, managers, absences, members of queues and rotations, while a request waits."""
    quiet = replace(world, answers=())
    change = (minutes * timedelta(minutes=1), other)
    _compare(*asyncio.run(lived(quiet, redis_url, prefix, change=change)))


def _compare(steps: list[Step], happened: Happened) -> None:
    """Check that the steps have happened, up to the one in which the default is asked."""
    foreseen = [(one.at, one.what, _asked(one)) for one in steps]
    # Cards are not foreseen here.
    lived = [one for one in happened if one[1] is not What.ASKED]
    if steps and steps[-1].why == OTHERS:
        foreseen.pop()
        lived = lived[: len(foreseen)]
        default = {What.ASKED, What.UNROUTABLE}
        assert any(at == steps[-1].at and what in default for at, what, _ in happened)
    assert foreseen == lived


def _asked(step: Step) -> list[str]:
    """Return the people of a step, as the audit has them."""
    if step.what is What.ESCALATED:
        return sorted({seat.person for seat in step.seats})
    return sorted(step.reminded)
