"""What is simulated is what the router does: for random policies, people, absences and answers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from builders import NOON, make_call, make_origin
from deciding import Desk
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.timers.departures import Departures
from signoff.broker.work import RouteApproval
from signoff.channels.forecast import timeline_of
from signoff.channels.pipeline.route import Router
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.moves import Move
from signoff.core.approvals.run import Run
from signoff.core.base.errors import DecisionRefused
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Queue
from signoff.core.policies.levels import Group, Level
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.routing.departures import next_departure
from signoff.core.simulation.timeline import End, Says, SimulatedAnswer, Timeline
from signoff.testing import VirtualClock

NAMES = ("ada", "bo", "cy", "dee", "eve")
MINUTE = timedelta(minutes=1)
LIMIT = "limit.expenses >= args.amount"
NUMBERS = itertools.count()
TOMORROW = date(2026, 3, 3)
"""It begins an hour after noon, or two, where the people work."""
ZONES = ("UTC", "Pacific/Noumea", "Asia/Vladivostok")
MOVES: dict[Says, Move] = {
    Says.APPROVE: moves.Approve(reason="in this case"),
    Says.REJECT: moves.Reject(reason="in this case"),
    Says.CLAIM: moves.Claim(),
    Says.ASK: moves.AskBack(text="in this case"),
    Says.ANSWER: moves.AnswerBack(text="in this case"),
}
Happened = list[tuple[What, list[str]]]


@dataclass(frozen=True)
class World:
    """Everything that decides what happens to one call.

    It is a rulebook: see `signoff.channels.forecast.Rulebook`.
    """

    policies: tuple[Policy, ...]
    default: Fallback
    everybody: Directory
    answers: tuple[SimulatedAnswer, ...]
    owners: dict[str, str]
    channel_names: tuple[str, ...] = ("email",)


def absences(draw: st.DrawFn, name: str) -> tuple[Absence, ...]:
    """Draw whether somebody is away, or goes away while they are asked, and who decides instead."""
    start = draw(st.sampled_from([None, None, None, date(2026, 3, 1), TOMORROW, TOMORROW]))
    if start is None:
        return ()
    delegate = draw(st.sampled_from(["", *(one for one in NAMES if one != name)]))
    return (Absence(start=start, end=date(2026, 3, 31), delegate=delegate),)


@st.composite
def directories(draw: st.DrawFn) -> Directory:
    """Draw five people in a line of managers, with limits, and a queue."""
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
            )
        )
    riley = Person(id="riley", email="riley@example.com", manager=draw(st.sampled_from(NAMES)))
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
def levels(draw: st.DrawFn, stage: str) -> list[Level]:
    """Draw the levels of one stage."""
    form = draw(st.sampled_from(["plain", "plain", "plain", "until", "managers", "groups"]))
    within = f"{draw(st.integers(5, 60))}m"
    more = {"stage": stage, "within": within, "veto": draw(st.booleans())}
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
    stages = [draw(levels(stage=name)) for name in ("one", "two")[: draw(st.integers(1, 2))]]
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
            levels=tuple(one for stage in stages for one in stage),
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


async def routed(world: World, url: str, prefix: str) -> tuple[Approval, list[str], Happened]:
    """Let the router, the timers and the desk do it, on a clock of its own.

    Returns:
        The approval at its end, whose answers were refused, and what happened.
    """
    clock = VirtualClock(NOON)
    ledger = Ledger(Store.open(url, prefix=f"{prefix}{next(NUMBERS)}:", clock=clock))
    try:
        office = Office(world, ledger, clock)
        approval = await office.open()
        refused = []
        for said in world.answers:
            await office.wait(approval.id, said.at)
            if not await office.answer(approval.id, said):
                refused.append(said.by)
        await office.wait(approval.id)
        happened = noted(await ledger.history(approval.id))
        return await ledger.approval(approval.id), refused, happened
    finally:
        await ledger.close()


class Office:
    """The router, the timers and the desk, for one call."""

    def __init__(self, world: World, ledger: Ledger, clock: VirtualClock) -> None:
        self.ledger, self.clock, self.people = ledger, clock, world.everybody
        self.desk = Desk(ledger, world.everybody)
        self.departures = Departures(self.desk.roster)
        self.router = Router(
            ledger,
            policies=world.policies,
            fallback=world.default,
            directory=world.everybody,
            owners=world.owners,
        )

    async def open(self) -> Approval:
        """Put a run that waits for one call into the ledger, and route it."""
        origin = make_origin(user="riley")
        approval, events = Approval.open(
            origin, make_call(amount=500), hint="", template=None, now=NOON
        )
        run = Run(
            id=origin.run,
            app="finance",
            user="riley",
            session="s_1",
            message="go",
            submitted_at=NOON,
        ).paused([approval.id])
        change = Change().put(run, was=None).put(approval, was=None).note(events)
        await self.ledger.commit(change.send(RouteApproval(approval=approval.id)))
        await self.router.drain()
        return approval

    async def wait(self, approval_id: str, until: datetime | None = None) -> None:
        """Do what is due before a moment, or to the end."""
        while True:
            approval = await self.ledger.approval(approval_id)
            gone = next_departure(approval, self.people, self.clock.now())
            due = min((one for one in (approval.next_due, gone) if one), default=None)
            if approval.state is not State.PENDING or due is None or (until and until < due):
                return
            self.clock.advance(due - self.clock.now())
            if due == approval.next_due:
                await self.desk.time_out(approval_id)
                await self.router.drain()
            await self.departures.once()
            await self.router.drain()

    async def answer(self, approval_id: str, said: SimulatedAnswer) -> bool:
        """Let somebody answer, and say whether that counts; after the end nobody is heard."""
        person = self.people.get(said.by)
        if person is None or (await self.ledger.approval(approval_id)).state is not State.PENDING:
            return True
        self.clock.advance(said.at - self.clock.now())
        try:
            await self.desk.made(approval_id, MOVES[said.says], person)
        except DecisionRefused:
            return False
        await self.router.drain()
        return True


def noted(events: Sequence[Event]) -> Happened:
    """Return what the audit says, with who is asked; refusals are held to each other elsewhere."""
    skipped = {What.OPENED, What.REFUSED_ANSWER}
    return [(one.what, asked(one)) for one in events if one.what not in skipped]


def asked(event: Event) -> list[str]:
    """Return who gets a card."""
    people = event.more.get("people")
    if event.what is not What.ASKED or not isinstance(people, list):
        return []
    return sorted(map(str, people))


def foreseen(timeline: Timeline) -> Happened:
    """Return what is simulated, as the audit says it."""
    return [
        (step.what, sorted(one.person for one in step.asked) if step.what is What.ASKED else [])
        for step in timeline.steps
        if step.what is not What.REFUSED_ANSWER
    ]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(world=worlds())
def test_what_is_simulated_is_what_the_router_does(
    redis_url: str, prefix: str, world: World
) -> None:
    """The same things happen in the same order, to the same end at the same moment."""
    facts: dict[str, JsonValue] = {
        "app": "finance",
        "agent": "reimbursement_agent",
        "tool": "reimburse",
        "args": {"amount": 500},
        "user": "riley",
    }
    timeline = timeline_of(world, facts, start=NOON, answers=world.answers)
    approval, refused, happened = asyncio.run(routed(world, redis_url, prefix))
    ends = {State.APPROVED: End.APPROVE, State.PENDING: End.STAY}
    assert ends.get(approval.state, End.REJECT) is timeline.end
    assert happened == foreseen(timeline)
    assert list(timeline.refused) == refused
    assert timeline.informed == approval.informed
    assert (approval.decision.at if approval.decision else None) == timeline.end_at
