"""The simulator matches the router for random policies, people, absences and answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
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
from signoff.core.directory.schedules import Override, Schedule
from signoff.core.policies.levels import Group, Level
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.simulation.forecast import End, Says, SimulatedAnswer

NAMES = ("ada", "bo", "cy", "dee", "eve")
TWIN = "bo.external"
"""Another id of Bo with the same Slack account."""
MINUTE = timedelta(minutes=1)
LIMIT = "limit.expenses >= args.amount"
TOMORROW = date(2026, 3, 3)
"""The people's next day, which begins an hour or two after noon."""
ZONES = ("UTC", "Pacific/Noumea", "Asia/Vladivostok")
REQUESTERS = ("riley", "riley", "riley@example.com", "ada", "Bo@example.com", TWIN, "stranger")
AMOUNTS: tuple[JsonValue, ...] = (500, 500, 50, 5000, 0.1, "500", None)
WHENS = (
    "",
    "args.amount <= 500",
    "args.amount > 100.5",
    "args.text > 1",
    "now.hour == 12",
    'user == "riley" || args.amount > 1000',
)


def absences(draw: st.DrawFn, name: str) -> tuple[Absence, ...]:
    """Draw absences, also ones that begin while the person is asked, and delegates."""
    delegates = st.sampled_from(["", TWIN, *(one for one in NAMES if one != name)])
    found = []
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
        start = draw(st.sampled_from([date(2026, 3, 1), TOMORROW, TOMORROW]))
        end = draw(st.sampled_from([start, TOMORROW, date(2026, 3, 31)]))
        found.append(Absence(start=start, end=max(start, end), delegate=draw(delegates)))
    return tuple(found)


@st.composite
def directories(draw: st.DrawFn) -> Directory:
    """Draw a directory: people with managers, limits and absences, a queue and a schedule."""
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
                slack="U0BO" if name == "bo" else "",
                time_zone=draw(st.sampled_from(ZONES)),
                hours=draw(st.sampled_from([(), ("Mon-Fri 09:00-17:00",)])),
                active=draw(st.sampled_from([True, True, True, True, False])),
            )
        )
    twin = Person(
        id=TWIN,
        email="bo@partner.example",
        slack="U0BO",
        limits={"expenses": 1000.0},
        away=absences(draw, TWIN),
        active=draw(st.sampled_from([True, True, True, False])),
    )
    riley = Person(
        id="riley",
        email="riley@example.com",
        manager=draw(st.sampled_from(NAMES)),
        active=draw(st.sampled_from([True, True, True, False])),
    )
    members = draw(st.lists(st.sampled_from([*NAMES, TWIN]), min_size=1, max_size=3, unique=True))
    pick = draw(st.sampled_from(["everyone", "round-robin", "least-recent"]))
    claim = timedelta(minutes=draw(st.sampled_from([3, 30])))
    most = draw(st.sampled_from([{}, {"expenses": 600.0}]))
    queue = Queue(name="q", members=members, pick=pick, claim=claim, limits=most)
    turns = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3))
    noon = NOON.replace(tzinfo=None)
    taken = [
        Override(
            start=noon + begins * MINUTE,
            end=noon + (begins + draw(st.sampled_from([5, 60]))) * MINUTE,
            person=draw(st.sampled_from([*NAMES, TWIN, "riley"])),
        )
        for begins in draw(st.lists(st.integers(-30, 60), max_size=2))
    ]
    rota = Schedule(
        name="rota", people=turns, start=noon, every=timedelta(hours=1), overrides=taken
    )
    return Directory([*people, twin, riley], queues=[queue], schedules=[rota])


REFERENCES = st.sampled_from(
    [
        *(*NAMES, TWIN, "riley"),
        *("requester.manager", "requester.manager.manager", "asked.manager", "queue:q"),
        *("asked.manager.manager", "schedule:rota", "gone"),
    ]
)
ASKED = st.lists(REFERENCES, min_size=1, max_size=3, unique=True).map(tuple)
INFORMED = st.lists(
    st.sampled_from([*NAMES, "riley", "requester.manager", "queue:q"]), max_size=2, unique=True
).map(tuple)
QUORUMS = st.sampled_from([1, 1, 2, "all", "majority", "60%"])


@st.composite
def levels(draw: st.DrawFn, phase: str) -> list[Level]:
    """Draw the levels of one phase."""
    form = draw(st.sampled_from(["plain", "plain", "until", "managers", "groups"]))
    within = draw(st.sampled_from(["5m", "17m", "30m", "1h", "2h", "12h"]))
    more = {"phase": phase, "veto": draw(st.booleans())}
    more["within"] = within + draw(st.sampled_from(["", "", " business"]))
    more["remind"] = draw(st.sampled_from([(), ("4m",), "every 7m"]))
    more["inform"] = draw(INFORMED)
    more["slack_channel"] = draw(st.sampled_from(["", "", "C0FINANCE"]))
    if form == "until":
        start = draw(st.sampled_from(["requester.manager", "requester.manager.manager", "ada"]))
        return [Level(ask=(start,), until=LIMIT, **more)]
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
def ladders(draw: st.DrawFn) -> tuple[Level, ...]:
    """Draw the levels of a policy, in one phase or two."""
    names = ("one", "two")[: draw(st.integers(1, 2))]
    return tuple(level for name in names for level in draw(levels(phase=name)))


@st.composite
def policies(draw: st.DrawFn, name: str) -> Policy:
    """Draw a policy that asks, allows or denies."""
    effect = draw(st.sampled_from(["ask", "ask", "ask", "ask", "allow", "deny"]))
    when = draw(st.sampled_from(WHENS))
    if effect == "deny":
        return Policy(name=name, when=when, effect="deny", reason="No.")
    parts = draw(ladders())
    plain = len({one.phase for one in parts}) == 1 and not any(one.is_chain for one in parts)
    ends = ["reject", "stay", *(["approve"] if plain else [])]
    return Policy(
        name=name,
        when=when,
        effect=effect,
        at_most="5/h" if effect == "allow" else None,
        levels=parts,
        repeat=draw(st.integers(0, 1)),
        on_timeout=draw(st.sampled_from(ends)),
        ceiling=draw(st.sampled_from(["", "args.amount <= 500"])),
        second_step=""
        if effect == "allow"
        else draw(st.sampled_from(["", "", "args.amount > 60"])),
        ask_twice=draw(st.booleans()),
        inform=draw(INFORMED),
        clock=draw(st.sampled_from(["run", "pause"])),
    )


@dataclass(frozen=True)
class Case(World):
    """A directory, policies, a requester and an amount."""

    user: str = "riley"
    amount: JsonValue = 500


@st.composite
def worlds(draw: st.DrawFn) -> Case:
    """Draw policies, people, a call, and the answers with their times."""
    ruling = tuple(draw(policies(f"p{at}")) for at in range(draw(st.sampled_from([1, 1, 2, 3]))))
    asked = draw(st.sampled_from([("eve",), ("ada", "eve"), ("riley",), ()]))
    if draw(st.booleans()):
        default = Fallback(ask=asked, inform=draw(INFORMED))
    else:
        default = Fallback(levels=draw(ladders()), repeat=draw(st.integers(0, 1)))
    said = st.builds(
        SimulatedAnswer,
        by=st.sampled_from([*NAMES, TWIN, "riley"]),
        at=st.integers(0, 900).map(lambda one: NOON + one * MINUTE + MINUTE / 2),
        says=st.sampled_from([Says.APPROVE, Says.APPROVE, *Says]),
    )
    answers = draw(st.lists(said, max_size=8, unique_by=lambda one: one.at))
    ordered = tuple(sorted(answers, key=lambda one: one.at))
    return Case(
        ruling,
        default,
        draw(directories()),
        ordered,
        draw(st.sampled_from([{}, {}, {"finance": "dee"}])),
        draw(st.sampled_from([("email",), ("email", "slack")])),
        draw(st.sampled_from(REQUESTERS)),
        draw(st.sampled_from(AMOUNTS)),
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(world=worlds())
def test_simulator_and_router_agree_on_events_and_end(
    redis_url: str, prefix: str, world: Case
) -> None:
    """The same events happen in the same order, with the same end at the same time."""
    call = {"app": "finance", "agent": "reimbursement_agent", "tool": "reimburse"}
    facts: dict[str, JsonValue] = {**call, "args": {"amount": world.amount}, "user": world.user}
    timeline = timeline_of(world, facts, start=NOON, answers=world.answers)
    approval, refused, happened = asyncio.run(routed(world, facts, redis_url, prefix, start=NOON))
    ends = {State.APPROVED: End.APPROVE, State.PENDING: End.STAY}
    assert ends.get(approval.state, End.REJECT) is timeline.end
    assert happened == foreseen(timeline)
    assert list(timeline.refused) == refused
    assert timeline.informed == approval.informed
    assert (approval.decision.at if approval.decision else None) == timeline.end_at


def test_an_answer_of_an_absent_person_raises_no_second_alarm(redis_url: str, prefix: str) -> None:
    """One of two approvers is missing and the other goes away: that is one alarm, not another."""
    away = Absence(start=TOMORROW, end=TOMORROW)
    zone = "Asia/Vladivostok"
    eve = Person(id="eve", email="eve@example.com", time_zone=zone, away=(away,))
    world = Case(
        (Policy(name="p", ask=("gone",), quorum=2),),
        Fallback(ask=("eve",)),
        Directory([eve]),
        (SimulatedAnswer(by="eve", at=NOON + 131 * MINUTE + MINUTE / 2),),
        {},
        ("email",),
    )
    call = {"app": "finance", "agent": "reimbursement_agent", "tool": "reimburse"}
    facts: dict[str, JsonValue] = {**call, "args": {"amount": 500}, "user": "riley"}
    timeline = timeline_of(world, facts, start=NOON, answers=world.answers)
    _, _, happened = asyncio.run(routed(world, facts, redis_url, prefix, start=NOON))
    assert happened == foreseen(timeline)
