"""What will happen if nobody answers: who is asked, when and how, to the end.

A timeline is not computed beside the rules but by them: an approval is opened in memory, routed and
ticked as the router and the clockwork do it, only that the clock jumps from one due moment to the
next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from signoff.core.approval import Approval, Asked, Origin, State, ToolCall
from signoff.core.choosing import Choice, choose
from signoff.core.escalation import advance
from signoff.core.events import Event, What
from signoff.core.levels import Asking, Seat
from signoff.core.matching import Considered, consider
from signoff.core.model import Value
from signoff.core.people import Directory, Person
from signoff.core.policy import Facts, Fallback, Policy, Terms

MOST_STEPS: Final = 10_000
"""A timeline with more steps is refused: no policy that ends has as many."""

Reach = Callable[[Sequence[Person], Asking], tuple[Asked, ...]]
"""By which channels people are asked; the channels know."""


class End(StrEnum):
    """What the end of a timeline means; the words are those of `on_timeout`."""

    REJECT = "reject"
    """The call is rejected, and the agent is told that nobody answered in time."""
    STAY = "stay"
    """It stays open until somebody answers."""
    APPROVE = "approve"
    """It is approved, because the ceiling of its policy allows that."""


class Turn(Value):
    """One card: to a person, or to a place where all who are asked see it.

    Attributes:
        person: The id; "" for a place.
        channel: By which channel.
        address: Where to, in its terms.
    """

    person: str
    channel: str
    address: str


class Step(Value):
    """One thing that happens.

    Attributes:
        at: When (UTC).
        what: What kind of event it is in the audit.
        level: The index of the level at which it happens.
        round: How often the levels have been gone through before.
        name: What the level is called, "" where it has no name.
        seats: Who may decide from now on and could not before.
        asked: Who gets a card, in the order in which they are asked.
        until: The moment up to which those who are asked may answer (UTC); None where there is
            none.
        why: In words: who was left out and why, or what the end means.
    """

    at: datetime
    what: What
    level: int = 0
    round: int = 0
    name: str = ""
    seats: tuple[Seat, ...] = ()
    asked: tuple[Turn, ...] = ()
    until: datetime | None = None
    why: str = ""


class Rung(Value):
    """One level as it would be asked.

    Attributes:
        level: Its index.
        round: How often the levels have been gone through before.
        name: What it is called, "" where it has no name.
        at: When it begins (UTC).
        until: When it ends (UTC); None where it does not.
        seats: Who may decide.
        asked: The cards.
    """

    level: int
    round: int
    name: str
    at: datetime
    until: datetime | None
    seats: tuple[Seat, ...]
    asked: tuple[Turn, ...]

    @property
    def people(self) -> tuple[str, ...]:
        """The ids of those who may decide, each once."""
        return tuple(dict.fromkeys(one.person for one in self.seats))


class Timeline(Value):
    """What happens to one call if nobody answers.

    Attributes:
        facts: The call: app, agent, tool, args and user.
        start: When it waits for the first time (UTC).
        considered: The policies that were looked at, and what came of each.
        terms: The snapshot that would rule it.
        steps: What happens, in order.
        end: What the end means.
        end_at: When that is (UTC); None where it never ends by itself.
    """

    facts: dict[str, JsonValue]
    start: datetime
    considered: tuple[Considered, ...]
    terms: Terms
    steps: tuple[Step, ...]
    end: End
    end_at: datetime | None

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """The levels that are asked, in the order in which they are; also one without anybody."""
        found: dict[tuple[int, int], Rung] = {}
        for step in self.steps:
            if step.what not in ASKING:
                continue
            key = (step.round, step.level)
            before = found.get(key)
            seats, asked = (before.seats, before.asked) if before else ((), ())
            found[key] = Rung(
                level=step.level,
                round=step.round,
                name=step.name,
                at=before.at if before else step.at,
                until=step.until,
                seats=(*seats, *step.seats),
                asked=(*asked, *step.asked),
            )
        return tuple(found.values())

    @property
    def reminders(self) -> int:
        """How often people are reminded."""
        return 0


ASKING: Final = frozenset({What.ASKED, What.ESCALATED, What.UNROUTABLE})
"""What stands in the audit where people are asked, or should have been."""

_END: Final = {
    State.TIMED_OUT: End.REJECT,
    State.REJECTED: End.REJECT,
    State.APPROVED: End.APPROVE,
}


def foresee(
    policies: Sequence[Policy],
    fallback: Fallback,
    directory: Directory,
    facts: Facts,
    *,
    start: datetime,
    reach: Reach,
) -> Timeline:
    """Return what happens to a call that waits from a moment on, if nobody answers.

    Every card is taken to arrive.

    Args:
        policies: In order; the first that matches rules.
        fallback: Who is asked when no policy matches, or nobody of it can be asked.
        directory: The people.
        facts: The call.
        start: When it is routed (UTC).
        reach: By which channels people are asked.

    Raises:
        NotCanonical: The arguments have no digest.
    """
    choice = choose(policies, fallback, directory, facts, now=start)
    approval, steps = _opened(facts, start), list[Step]()
    for after, events in _moves(approval, choice, directory, reach, start):
        steps += [_step(event, approval, after) for event in events]
        approval = after
    return Timeline(
        facts=dict(facts),
        start=start,
        considered=consider(policies, facts),
        terms=choice.terms,
        steps=tuple(steps),
        end=_END.get(approval.state, End.STAY),
        end_at=approval.decision.at if approval.decision is not None else None,
    )


def _opened(facts: Facts, start: datetime) -> Approval:
    app, agent, tool, user = (str(facts.get(one, "")) for one in ("app", "agent", "tool", "user"))
    args = facts.get("args")
    origin = Origin(
        run="",
        app=app,
        agent=agent,
        user=user,
        **dict.fromkeys(("session", "invocation", "confirmation"), ""),
    )
    call = ToolCall(id="", name=tool, args=args if isinstance(args, dict) else {})
    return Approval.open(origin, call, hint="", template=None, now=start)[0]


def _moves(
    approval: Approval, choice: Choice, directory: Directory, reach: Reach, start: datetime
) -> Iterator[tuple[Approval, tuple[Event, ...]]]:
    """Route an approval, and do whatever is due until nothing is."""
    level = choice.start.level if choice.start is not None else 0
    asked = reach(choice.people, choice.terms.asking(level))
    approval, events = approval.ask(
        choice.terms,
        approval.also_asked(asked, choice.start.turn if choice.start is not None else ""),
        now=start,
        notes=choice.notes,
        start=choice.start,
        stranded=choice.stranded,
    )
    yield approval, events
    for _ in range(MOST_STEPS):
        if approval.state is not State.PENDING or approval.next_due is None:
            return
        after, events = advance(approval, directory, now=approval.next_due)
        if after.turn != approval.turn:
            ids = after.ballot.awaited
            people = [one for name in ids if (one := directory.get(name)) is not None]
            asked = after.also_asked(reach(people, after.ballot.rules), after.turn)
            after = after.model_copy(update={"asked": asked})
        yield after, events
        approval = after
    raise AssertionError("A policy has no end.")


def _step(event: Event, was: Approval, now: Approval) -> Step:
    """Return what an event has changed."""
    asking = event.what in ASKING and (event.what is not What.UNROUTABLE or not now.asked)
    before = {(one.key, one.channel, one.turn) for one in was.asked}
    cards = [one for one in now.asked if asking and (one.key, one.channel, one.turn) not in before]
    return Step(
        at=event.at,
        what=event.what,
        level=now.level,
        round=now.round,
        seats=tuple(Seat(person=one) for one in sorted(now.approvers)) if asking else (),
        asked=tuple(
            Turn(person=one.person, channel=one.channel, address=one.address) for one in cards
        ),
        until=now.deadline if asking else None,
        why=event.why,
    )
