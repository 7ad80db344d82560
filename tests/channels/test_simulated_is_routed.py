"""What is simulated is what the router does: for random policies, people, absences and answers."""

from __future__ import annotations

import asyncio
from datetime import date, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from builders import NOON
from channels.routed import World, foreseen, routed
from signoff.channels.forecast import timeline_of
from signoff.core.approvals.approval import State
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Queue
from signoff.core.policies.levels import Group, Level
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.simulation.forecast import End, Says, SimulatedAnswer

NAMES = ("ada", "bo", "cy", "dee", "eve")
MINUTE = timedelta(minutes=1)
LIMIT = "limit.expenses >= args.amount"
TOMORROW = date(2026, 3, 3)
"""It begins an hour after noon, or two, where the people work."""
ZONES = ("UTC", "Pacific/Noumea", "Asia/Vladivostok")


def absences(draw: st.DrawFn, name: str) -> tuple[Absence, ...]:
    """Draw whether somebody is away, or goes away while they are asked, and who decides instead."""
    start = draw(st.sampled_from([None, None, None, date(2026, 3, 1), TOMORROW, TOMORROW]))
    if start is None:
        return ()
    delegate = draw(st.sampled_from(["", *(one for one in NAMES if one != name)]))
    return (Absence(start=start, end=date(2026, 3, 31), delegate=delegate),)


@st.composite
def directories(draw: st.DrawFn) -> Directory:
    """Draw five people in a line of managers, some of whom have left, with limits, and a queue."""
    people = []
    for at, name in enumerate(NAMES):
        boss = draw(st.sampled_from(["", *NAMES[at + 1 :]]))
        limits = draw(st.sampled_from([{}, {"expenses": 100.0}, {"expenses": 1000.0}]))
        away = absences(draw, name)
        mail = f"{name}@example.com"
        people.append(
            Person(
                id=name,
                email=mail,
                manager=boss,
                limits=limits,
                away=away,
                time_zone=draw(st.sampled_from(ZONES)),
                active=draw(st.sampled_from([True, True, True, True, False])),
            )
        )
    riley = Person(
        id="riley",
        email="riley@example.com",
        manager=draw(st.sampled_from(NAMES)),
        active=draw(st.sampled_from([True, True, True, False])),
    )
    members = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    pick = draw(st.sampled_from(["everyone", "round-robin"]))
    claim = timedelta(minutes=draw(st.sampled_from([3, 30])))
    queue = Queue(name="q", members=members, pick=pick, claim=claim)
    return Directory([*people, riley], queues=[queue])


REFERENCES = st.sampled_from(
    [*NAMES, "requester.manager", "requester.manager.manager", "asked.manager", "queue:q"]
)
ASKED = st.lists(REFERENCES, min_size=1, max_size=3, unique=True).map(tuple)
INFORMED = st.lists(
    st.sampled_from([*NAMES, "riley", "requester.manager", "queue:q"]), max_size=2, unique=True
).map(tuple)
QUORUMS = st.sampled_from([1, 1, 2, "all", "majority", "60%"])


@st.composite
def levels(draw: st.DrawFn, phase: str) -> list[Level]:
    """Draw the levels of one phase."""
    form = draw(st.sampled_from(["plain", "plain", "plain", "until", "managers", "groups"]))
    within = f"{draw(st.integers(5, 60))}m"
    more = {"phase": phase, "within": within, "veto": draw(st.booleans())}
    more["inform"] = draw(INFORMED)
    if form == "until":
        return [Level(ask=("requester.manager",), until=LIMIT, **more)]
    if form == "managers":
        return [Level(ask=("requester.managers",), **more)]
    if form == "groups":
        groups = draw(st.lists(st.builds(Group, ask=ASKED, quorum=QUORUMS), min_size=1, max_size=2))
        return [Level(all_of=tuple(groups), **more)]
    earlier = draw(st.sampled_from(["leave", "stay"]))
    order = draw(st.sampled_from(["any", "sequence"]))
    return [
        Level(ask=draw(ASKED), quorum=draw(QUORUMS), order=order, earlier=earlier, **more)
        for _ in range(draw(st.integers(1, 2)))
    ]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw policies, people, and what they answer and when."""
    phases = [draw(levels(phase=name)) for name in ("one", "two")[: draw(st.integers(1, 2))]]
    effect = draw(st.sampled_from(["ask", "ask", "ask", "ask", "allow", "deny"]))
    when = draw(st.sampled_from(["", "args.amount <= 500", "args.text > 1", "now.hour == 12"]))
    if effect == "deny":
        policy = Policy(name="p", when=when, effect="deny", reason="No.")
    else:
        policy = Policy(
            name="p",
            when=when,
            effect=effect,
            at_most="5/h" if effect == "allow" else None,
            levels=tuple(one for phase in phases for one in phase),
            repeat=draw(st.integers(0, 1)),
            on_timeout=draw(st.sampled_from(["reject", "stay"])),
            ask_twice=draw(st.booleans()),
            inform=draw(INFORMED),
            clock=draw(st.sampled_from(["run", "pause"])),
        )
    asked = draw(st.sampled_from([("eve",), ("ada", "eve"), ("riley",), ()]))
    default = Fallback(ask=asked, inform=draw(INFORMED))
    said = st.builds(
        SimulatedAnswer,
        by=st.sampled_from([*NAMES, "riley"]),
        at=st.integers(0, 240).map(lambda one: NOON + one * MINUTE + MINUTE / 2),
        says=st.sampled_from([Says.APPROVE, Says.APPROVE, *Says]),
    )
    answers = draw(st.lists(said, max_size=8, unique_by=lambda one: one.at))
    ordered = tuple(sorted(answers, key=lambda one: one.at))
    owners = draw(st.sampled_from([{}, {}, {"finance": "dee"}]))
    return World((policy,), default, draw(directories()), ordered, owners)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=worlds())
def test_what_is_simulated_is_what_the_router_does(
    redis_url: str, prefix: str, world: World
) -> None:
    """The same things happen in the same order, to the same end at the same moment."""
    call = {"app": "finance", "agent": "reimbursement_agent", "tool": "reimburse"}
    facts: dict[str, JsonValue] = {**call, "args": {"amount": 500}, "user": "riley"}
    timeline = timeline_of(world, facts, start=NOON, answers=world.answers)
    approval, refused, happened = asyncio.run(routed(world, facts, redis_url, prefix, start=NOON))
    ends = {State.APPROVED: End.APPROVE, State.PENDING: End.STAY}
    assert ends.get(approval.state, End.REJECT) is timeline.end
    assert happened == foreseen(timeline)
    assert list(timeline.refused) == refused
    assert timeline.informed == approval.informed
    assert (approval.decision.at if approval.decision else None) == timeline.end_at
