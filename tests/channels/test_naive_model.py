"""Random policies, people and events: the router, the ledger and the timers match a naive model."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pydantic import JsonValue

from channels.naive import FIRST_TURN, FREE, MINUTE, Naive
from channels.routed import NUMBERS, Office, World
from deciding import Decider
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.timers.departures import Departures
from signoff.channels.pipeline.route import Router
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import What
from signoff.core.approvals.moves import Move
from signoff.core.base.errors import ApprovalError
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Queue
from signoff.core.directory.schedules import Schedule
from signoff.core.policies.levels import Group, Level
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.routing.escalation import advance
from signoff.testing import VirtualClock

T = TypeVar("T")
NAMES = ("ada", "bo", "cy", "dee", "eve")
TWIN = "bo.external"
"""Another id of Bo with the same Slack account."""
EVERYBODY = (*NAMES, TWIN, "riley")
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
STARTS = [
    datetime(2026, 3, 27, 15, 30, tzinfo=UTC),  # the Friday before the clocks change in Berlin
    datetime(2026, 3, 28, 23, 50, tzinfo=UTC),
    datetime(2026, 10, 25, 0, 10, tzinfo=UTC),  # and back
    datetime(2026, 3, 6, 20, 0, tzinfo=UTC),  # New York
    datetime(2026, 11, 1, 5, 5, tzinfo=UTC),
    datetime(2026, 4, 4, 13, 59, tzinfo=UTC),  # Lord Howe: half an hour
    datetime(2026, 6, 3, 12, 0, tzinfo=UTC),
]
REFERENCES = st.sampled_from(
    [
        *(*NAMES, TWIN, "riley", "gone"),
        *("requester.manager", "requester.manager.manager", "asked.manager"),
        *("queue:q", "schedule:rota"),
    ]
)
ASKED = st.lists(REFERENCES, min_size=1, max_size=4, unique=True).map(tuple)
QUORUMS = st.sampled_from([1, 1, 2, 3, "all", "majority", "60%"])
SPANS = ["7m", "30m", "2h", "13h", "40m business", "3h business", "9h business"]


@st.composite
def absences(draw: st.DrawFn, name: str, day: date) -> tuple[Absence, ...]:
    """Draw an absence around a day, with or without a delegate."""
    start = day + timedelta(days=draw(st.integers(-1, 2)))
    end = start + timedelta(days=draw(st.integers(0, 3)))
    others = ["", "gone", *(one for one in EVERYBODY if one != name)]
    return (Absence(start=start, end=end, delegate=draw(st.sampled_from(others))),)


@st.composite
def folk(draw: st.DrawFn, day: date) -> list[Person]:
    """Draw the people, with managers that may be in a circle."""
    return [
        Person(
            id=name,
            email=f"{name}@example.com",
            aliases=(f"{name}@old.example",),
            slack="U0BO" if name in {"bo", TWIN} else "",
            manager=draw(st.sampled_from(["", *EVERYBODY, "ada@old.example"])),
            time_zone=draw(st.sampled_from(ZONES)),
            hours=draw(st.sampled_from([(), *((one,) for one in FREE)])),
            away=draw(st.just(()) | st.just(()) | absences(name, day)),
            active=draw(st.sampled_from([True] * 7 + [False])),
        )
        for name in EVERYBODY
    ]


@st.composite
def ladders(draw: st.DrawFn) -> tuple[Level, ...]:
    """Draw levels in one phase or two."""
    found = []
    for phase in ("one", "two")[: draw(st.integers(1, 2))]:
        for _ in range(draw(st.integers(1, 2))):
            more: dict[str, Any] = {"phase": phase, "within": draw(st.sampled_from(SPANS))}
            more |= {
                "veto": draw(st.booleans()),
                "earlier": draw(st.sampled_from(["leave", "stay"])),
            }
            if draw(st.integers(0, 3)) == 0:
                groups = st.builds(Group, ask=ASKED, quorum=QUORUMS)
                found.append(
                    Level(all_of=tuple(draw(st.lists(groups, min_size=1, max_size=2))), **more)
                )
                continue
            order = draw(st.sampled_from(["any", "any", "sequence"]))
            found.append(Level(ask=draw(ASKED), quorum=draw(QUORUMS), order=order, **more))
    return tuple(found)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Draw a policy that matches every call."""
    levels = draw(ladders())
    single = len({one.phase for one in levels}) == 1
    return Policy(
        name="p",
        levels=levels,
        repeat=draw(st.integers(0, 1)),
        on_timeout=draw(st.sampled_from(["reject", "stay", *(["approve"] if single else [])])),
        ceiling=draw(st.sampled_from(["", "args.amount <= 500"])),
        ask_twice=draw(st.booleans()),
    )


class Life(RuleBasedStateMachine):
    """One approval in the ledger beside the same one in the model."""

    url = ""
    prefix = ""
    clock: VirtualClock
    ledger: Ledger
    world: World
    model: Naive
    id: str
    rota: tuple[str, ...]
    members: tuple[str, ...]
    looked = False
    final: Approval | None = None

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.office: Office | None = None

    @initialize(start=st.sampled_from(STARTS), policy=policies(), data=st.data())
    def opens(self, start: datetime, policy: Policy, data: st.DataObject) -> None:
        """A call is routed."""
        people = data.draw(folk(start.date()))
        asked = st.sampled_from([("eve",), ("ada", "eve"), ("riley",), ()])
        default = Fallback(ask=data.draw(asked))
        members = data.draw(
            st.lists(st.sampled_from([*NAMES, TWIN]), min_size=1, max_size=3, unique=True)
        )
        users = ["riley", "riley", "RILEY@old.example ", "ada", TWIN, "stranger"]
        user, owner = data.draw(st.sampled_from(users)), data.draw(st.sampled_from(["", "", "dee"]))
        amount = data.draw(st.sampled_from([100, 900]))
        self.rota, self.members = tuple(members), tuple(reversed(members))
        self.clock = VirtualClock(start)
        self.ledger = Ledger(
            Store.open(self.url, prefix=f"{self.prefix}{next(NUMBERS)}:", clock=self.clock)
        )
        owners = {"finance": owner} if owner else {}
        self.world = World((policy,), default, self.directory(people), (), owners)
        self.office = Office(self.world, self.ledger, self.clock)
        self.model = Naive(
            {one.id: one for one in people},
            policy,
            default,
            self.members,
            self.rota,
            user,
            owner,
            amount,
        )
        facts: dict[str, JsonValue] = {
            "app": "finance",
            "agent": "a",
            "tool": "pay",
            "args": {"amount": amount},
        }
        opened = self.run(self.office.open({**facts, "user": user}, start))
        self.id = opened.id
        self.model.open(start)
        self.look()

    def directory(self, people: Iterable[Person]) -> Directory:
        """Return a directory of these people, with the queue and the schedule."""
        rota = Schedule(
            name="rota",
            people=self.rota,
            start=FIRST_TURN,
            every=timedelta(hours=12),
            time_zone="Europe/Berlin",
        )
        return Directory(people, queues=[Queue(name="q", members=self.members)], schedules=[rota])

    def run(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run a coroutine to its end."""
        return self.loop.run(coroutine)

    @property
    def now(self) -> datetime:
        """The present."""
        return self.clock.now()

    def approval(self) -> Approval:
        """Return the approval as the ledger has it."""
        return self.run(self.ledger.approval(self.id))

    async def _looked(self) -> None:
        assert self.office is not None
        await Departures(self.office.decider.roster).once()
        await self.office.router.drain()

    def look(self) -> None:
        """Notice who has left."""
        self.run(self._looked())
        self.model.look(self.now)
        self.looked = True

    def made(self, name: str, move: Move) -> bool:
        """Let a person make a move, and return whether it was taken."""
        person = self.world.everybody.record(name)
        assert person is not None
        assert self.office is not None

        async def make() -> bool:
            assert self.office is not None
            try:
                await self.office.decider.made(self.id, move, person, channel="api")
            except ApprovalError:
                return False
            await self.office.router.drain()
            return True

        return self.run(make())

    @rule(minutes=st.sampled_from([1, 3, 20, 31, 100, 600, 1500]))
    def passes(self, minutes: int) -> None:
        """Time passes, and the timers run."""
        assert self.office is not None
        until = self.now + minutes * MINUTE
        while True:
            model = self.model
            claim = model.claimed[1] if model.claimed else None
            moments = [one for one in (model.deadline, model.leaves(self.now), claim) if one]
            due = min(moments, default=None)
            if model.state != "pending" or due is None or due > until:
                break
            self.clock.advance(max(due - self.now, timedelta()))
            self.run(self.office.decider.time_out(self.id))
            self.run(self.office.router.drain())
            if model.claimed and self.now >= model.claimed[1]:
                model.claimed = None
            model.late(self.now)
            self.look()
            self.same()
        self.clock.advance(max(until - self.now, timedelta()))

    @rule(minutes=st.sampled_from([1, 8, 45, 700]))
    def sleeps(self, minutes: int) -> None:
        """Time passes, and no process runs."""
        self.looked = False
        self.clock.advance(minutes * MINUTE)

    @rule(name=st.sampled_from(EVERYBODY), yes=st.sampled_from([True, True, False]))
    def answers(self, name: str, yes: bool) -> None:
        """Somebody answers."""
        move = moves.Approve(reason="ok") if yes else moves.Reject(reason="no")
        expected = self.model.answer(name, self.now, yes=yes)
        assert self.made(name, move) is expected

    @rule(data=st.data(), yes=st.sampled_from([True, True, False]))
    def allowed_answers(self, data: st.DataObject, yes: bool) -> None:
        """Somebody who may answer does."""
        able = [one for one in EVERYBODY if self.model.may(one, self.now)]
        if able:
            self.answers(data.draw(st.sampled_from(able)), yes)

    @rule(name=st.sampled_from(EVERYBODY))
    def claims(self, name: str) -> None:
        """Somebody claims it."""
        expected = self.model.claim(name, self.now)
        assert self.made(name, moves.Claim(length=timedelta(minutes=30))) is expected

    @rule(name=st.sampled_from(EVERYBODY))
    def releases(self, name: str) -> None:
        """Somebody releases it."""
        expected = self.model.release(name, self.now)
        assert self.made(name, moves.Release()) is expected

    @rule(name=st.sampled_from(EVERYBODY), to=st.sampled_from(EVERYBODY))
    def hands_over(self, name: str, to: str) -> None:
        """Somebody gives their place away."""
        if not self.model.people[to].active:
            return
        expected = self.model.reassign(name, to, self.now)
        of, other = (self.world.everybody.record(one) for one in (name, to))
        assert of is not None
        assert other is not None
        assert self.made(name, moves.Reassign(of=of, to=other, reason="you know it")) is expected

    @precondition(lambda self: self.now.minute % 4 == 0)
    @rule(name=st.sampled_from(EVERYBODY))
    def withdraws(self, name: str) -> None:
        """Somebody withdraws it."""
        expected = self.model.withdraw(name)
        assert self.made(name, moves.Withdraw(reason="a mistake")) is expected

    @rule(name=st.sampled_from(EVERYBODY), data=st.data(), noticed=st.booleans())
    def changes(self, name: str, data: st.DataObject, noticed: bool) -> None:
        """Somebody leaves, comes back, goes away or gets another manager."""
        what = data.draw(st.sampled_from(["active", "away", "manager", "back"]))
        person = self.model.people[name]
        match what:
            case "active":
                update: dict[str, object] = {"active": not person.active}
            case "away":
                update = {"away": (*person.away, *data.draw(absences(name, self.now.date())))}
            case "manager":
                update = {"manager": data.draw(st.sampled_from(["", *EVERYBODY]))}
            case _:
                update = {"away": ()}
        self.model.people[name] = person.model_copy(update=update)
        self.world.everybody.become(self.directory(self.model.people.values()))
        self.looked = False
        if noticed:
            self.look()

    @rule(policy=policies())
    def restarts(self, policy: Policy) -> None:
        """All processes start again, with another policy, which pending approvals do not get."""
        assert self.office is not None
        self.office.decider = Decider(self.ledger, self.world.everybody)
        self.office.router = Router(
            self.ledger,
            policies=[policy],
            fallback=self.world.default,
            directory=self.world.everybody,
            owners=self.world.owners,
            channels=("email",),
        )
        self.look()

    @invariant()
    def same(self) -> None:
        """Both are in the same state, wait for the same people, and end at the same time."""
        if self.office is None:
            return
        real, model = self.approval(), self.model
        assert real.state.value == model.state
        if self.final is not None:
            assert (real.decision, real.votes) == (self.final.decision, self.final.votes)
        if real.state.value != "pending":
            self.final = real
            by = real.decision.by if real.decision is not None else ""
            assert model.decided_by in {"", by}
            self.nobody_twice(real)
            return
        assert (real.level, real.round) == model.here
        assert real.deadline == model.deadline
        assert [one.person for one in real.seats_here] == [one.person for one in model.own]
        assert {*real.ballot.yes} == {*model.yes}
        assert {*real.ballot.no} == {*model.no}
        assert {*real.ballot.awaited} == {*model.awaited}
        self.nobody_twice(real)
        self.allowed(real)
        if self.looked and not any(self.can_answer(one) for one in model.awaited):
            history = self.run(self.ledger.history(self.id))
            assert any(one.what in {What.UNROUTABLE, What.ABSENT} for one in history), "silent"

    def can_answer(self, name: str) -> bool:
        """Say whether somebody is here to answer."""
        return not self.model.gone(name, self.now)

    def nobody_twice(self, real: Approval) -> None:
        """Check that nobody counts twice in a phase, or is the requester or the owner."""
        directory = self.world.everybody
        assert real.terms is not None or real.state.value == "withdrawn"
        seen = set()
        for vote in real.votes:
            assert real.terms is not None
            key = (real.terms.phase_of(vote.level), directory.one_id(vote.by))
            assert key not in seen
            seen.add(key)
        for one in (*(vote.by for vote in real.votes), *real.decided_by):
            for never in filter(None, (self.model.user, self.model.owner)):
                person = directory.record(one)
                assert person is not None
                assert real.state.value == "withdrawn" or not directory.may_be(person, never)

    def allowed(self, real: Approval) -> None:
        """Check for everybody whether they may decide now."""
        directory, now = self.world.everybody, self.now
        late = self.model.deadline is not None and now >= self.model.deadline
        if late:
            return  # an answer first does what is due; `answers` compares that
        here, _ = advance(real, directory, now=now)
        for person in directory:
            try:
                here.may_decide(person, directory, now=now)
                may = True
            except ApprovalError:
                may = False
            assert may is self.model.may(person.id, now), person.id

    def teardown(self) -> None:
        """Close the ledger."""
        if self.office is not None:
            self.run(self.ledger.close())
        self.loop.close()


def test_router_ledger_and_timers_match_a_naive_model(redis_url: str, prefix: str) -> None:
    """Who may decide, when it escalates and how it ends are as in the model, for any events."""
    Life.url, Life.prefix = redis_url, prefix
    run_state_machine_as_test(Life, settings=settings(stateful_step_count=20))
