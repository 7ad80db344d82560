"""One call through the router, the timers and the people, compared with the simulator."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from builders import make_origin, waiting
from deciding import Decider
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.timers.departures import Departures
from signoff.channels.pipeline.route import Router
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval, State, ToolCall
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.moves import Move
from signoff.core.base.errors import DecisionRefused
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import Facts, Fallback, Policy
from signoff.core.routing.departures import next_departure
from signoff.core.simulation.forecast import Says, SimulatedAnswer, Step, Timeline
from signoff.testing import VirtualClock

NUMBERS = itertools.count()
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
    """Everything that determines the outcome of one call.

    It is a rulebook: see `signoff.channels.forecast.Rulebook`.
    """

    policies: tuple[Policy, ...]
    default: Fallback
    everybody: Directory
    answers: tuple[SimulatedAnswer, ...]
    owners: Mapping[str, str]
    channel_names: Collection[str] = ("email",)


async def routed(
    world: World, facts: Facts, url: str, prefix: str, *, start: datetime
) -> tuple[Approval, list[str], Happened]:
    """Run the call through the router, the timers and the decisions on a virtual clock.

    Returns:
        The ended approval, the people whose answers were refused, and the events.
    """
    clock = VirtualClock(start)
    ledger = Ledger(Store.open(url, prefix=f"{prefix}{next(NUMBERS)}:", clock=clock))
    try:
        office = Office(world, ledger, clock)
        approval = await office.open(facts, start)
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
    """The router, the timers and the decisions, for one call."""

    def __init__(self, world: World, ledger: Ledger, clock: VirtualClock) -> None:
        self.ledger, self.clock, self.people = ledger, clock, world.everybody
        self.decider = Decider(ledger, world.everybody)
        self.departures = Departures(self.decider.roster)
        self.router = Router(
            ledger,
            policies=world.policies,
            fallback=world.default,
            directory=world.everybody,
            owners=world.owners,
            channels=world.channel_names,
        )

    async def open(self, facts: Facts, now: datetime) -> Approval:
        """Put a run with one waiting call into the ledger, and route the call."""
        app, agent, tool, user = (str(facts[one]) for one in ("app", "agent", "tool", "user"))
        args = facts["args"]
        assert isinstance(args, dict)
        origin = make_origin(user=user).model_copy(update={"app": app, "agent": agent})
        call = ToolCall(id="adk-1", name=tool, args=args)
        approval, events = Approval.open(origin, call, hint="", template=None, now=now)
        await self.ledger.commit(waiting(approval).note(events))
        await self.router.drain()
        return approval

    async def wait(self, approval_id: str, until: datetime | None = None) -> None:
        """Do all due work before a moment, or until the end."""
        while True:
            approval = await self.ledger.approval(approval_id)
            gone = next_departure(approval, self.people, self.clock.now())
            due = min((one for one in (approval.next_due, gone) if one), default=None)
            if approval.state is not State.PENDING or due is None or (until and until < due):
                return
            self.clock.advance(due - self.clock.now())
            if due == approval.next_due:
                await self.decider.time_out(approval_id)
                await self.router.drain()
            await self.departures.once()
            await self.router.drain()

    async def answer(self, approval_id: str, said: SimulatedAnswer) -> bool:
        """Let a person answer, and return whether it counts; after the end no answer does."""
        person = self.people.record(said.by)
        if person is None or (await self.ledger.approval(approval_id)).state is not State.PENDING:
            return True
        self.clock.advance(max(said.at - self.clock.now(), timedelta()))
        try:
            await self.decider.made(approval_id, MOVES[said.says], person, channel="email")
        except DecisionRefused:
            return False
        await self.router.drain()
        return True


def noted(events: Sequence[Event]) -> Happened:
    """Return the audit's events with the people asked; refusals are compared elsewhere."""
    skipped = {What.OPENED, What.REFUSED_ANSWER}
    return [(one.what, asked(one)) for one in events if one.what not in skipped]


def asked(event: Event) -> list[str]:
    """Return the recipients of cards."""
    people = event.more.get("people")
    if event.what is not What.ASKED or not isinstance(people, list):
        return []
    return sorted(map(str, people))


def foreseen(timeline: Timeline) -> Happened:
    """Return the simulated events in the form of the audit."""
    return [
        (step.what, cards(step) if step.what is What.ASKED else [])
        for step in timeline.steps
        if step.what is not What.REFUSED_ANSWER
    ]


def cards(step: Step) -> list[str]:
    """Return the recipients of cards; a channel's card by its address."""
    return sorted(one.person or f"#{one.address}" for one in step.asked)
