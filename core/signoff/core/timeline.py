"""What will happen if nobody answers: who is asked, when and how, to the end.

A timeline is not computed beside the rules but by them: an approval is opened in memory, routed and
ticked as the router and the clockwork do it, only that the clock jumps from one due moment to the
next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from pydantic import JsonValue

from signoff.core.approval import Approval, Asked, Origin, State, ToolCall
from signoff.core.choosing import NO_TURNS, Choice, choose
from signoff.core.errors import GrantRefused
from signoff.core.escalation import advance
from signoff.core.events import Event, What
from signoff.core.grants import Grant
from signoff.core.levels import Asking, Order, Seat, Start
from signoff.core.matching import Considered, consider
from signoff.core.model import Value
from signoff.core.people import Directory, Person
from signoff.core.policy import Facts, Fallback, Policy, Terms
from signoff.core.queues import Pick, Turns
from signoff.core.turns import take

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
    """It is approved: by a grant, or because the ceiling of its policy allows that."""


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
        need: How many yeses it takes then.
        reminded: The ids of those who are reminded.
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
    need: int = 1
    reminded: tuple[str, ...] = ()
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
        need: How many yeses it takes.
        seats: Who may decide.
        asked: The cards.
    """

    level: int
    round: int
    name: str
    at: datetime
    until: datetime | None
    need: int
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
                need=step.need,
                seats=tuple(dict.fromkeys((*seats, *step.seats))),
                asked=(*asked, *step.asked),
            )
        return tuple(found.values())

    @property
    def reminders(self) -> int:
        """How often people are reminded."""
        return sum(step.what is What.REMINDED for step in self.steps)


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
    barred: tuple[str, ...] = (),
    turns: Turns = NO_TURNS,
    grants: Sequence[Grant] = (),
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
        barred: Identities of those who never decide, besides the requester.
        turns: When the members of queues were last asked.
        grants: Those that may cover the call, in the order in which they are tried.

    Raises:
        NotCanonical: The arguments have no digest.
    """
    known = _turns(directory, turns)
    choice = choose(policies, fallback, directory, facts, now=start, barred=barred, turns=known)
    approval, steps = _opened(facts, start), list[Step]()
    world = _World(directory, reach, barred, known)
    granted = _granted(approval, choice, directory, grants, start)
    for after, events in granted or _moves(approval, choice, world, start):
        steps += _steps(events, approval, after)
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


def foresee_rest(
    approval: Approval,
    directory: Directory,
    *,
    turns: Turns = NO_TURNS,
    most: int = MOST_STEPS,
) -> tuple[tuple[Step, ...], Approval]:
    """Return what happens to an approval from where it stands, if nobody answers.

    Args:
        approval: One that waits.
        directory: The people.
        turns: When the members of queues were last asked.
        most: How many moves to look ahead.

    Returns:
        The steps, and how it then stands: ended, open without an end, or waiting for more to come
        than was looked at.
    """
    world = _World(directory, lambda _people, _rules: (), (), _turns(directory, turns))
    steps = list[Step]()
    for after, events in islice(_onward(approval, world), most):
        steps += _steps(events, approval, after)
        approval = after
    return tuple(steps), approval


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


def _granted(
    approval: Approval,
    choice: Choice,
    directory: Directory,
    grants: Sequence[Grant],
    start: datetime,
) -> list[tuple[Approval, tuple[Event, ...]]]:
    """Return the one move of a call that a grant covers, and nothing where none does."""
    if choice.terms.grants is None:
        return []
    asked = [person.id for person in choice.people]
    for grant in grants:
        try:
            _, after, events = grant.use(approval, choice.terms, asked, directory, now=start)
        except GrantRefused:
            continue
        return [(after, events)]
    return []


def _turns(directory: Directory, turns: Turns) -> dict[str, dict[str, float]]:
    """Return the turns of the queues that ask one member at a time, to be gone on with."""
    queues = (one for one in directory.queues.values() if one.pick is not Pick.EVERYONE)
    return {one.name: dict(turns.get(one.name, {})) for one in queues}


class _World(NamedTuple):
    """What the moves of one approval depend on."""

    directory: Directory
    reach: Reach
    barred: tuple[str, ...]
    turns: dict[str, dict[str, float]]


def _moves(
    approval: Approval, choice: Choice, world: _World, start: datetime
) -> Iterator[tuple[Approval, tuple[Event, ...]]]:
    """Route an approval, and do whatever is due until nothing is."""
    begun = choice.start or Start(0, 0, (), start + choice.terms.within.by_the_clock)
    rules = choice.terms.asking(begun.level)
    people = choice.people[:1] if rules.order is Order.SEQUENCE else choice.people
    after, events = approval.ask(
        choice.terms,
        approval.also_asked(world.reach(people, rules), begun.turn),
        now=start,
        notes=choice.notes,
        start=begun,
        barred=world.barred,
        stranded=choice.stranded,
    )
    yield _taken(approval, after, world, start), events
    yield from _onward(after, world)


def _onward(approval: Approval, world: _World) -> Iterator[tuple[Approval, tuple[Event, ...]]]:
    """Do whatever becomes due, one after the other, until nothing is."""
    for _ in range(MOST_STEPS):
        if approval.state is not State.PENDING or (due := approval.next_due) is None:
            return
        after, events = advance(approval, world.directory, now=due, turns=world.turns)
        yield _taken(approval, after, world, due), events
        if after.turn != approval.turn and (fresh := _cards(after, world)):
            after, events = after.asked_too(fresh, now=due)
            yield after, events
        approval = after
    raise AssertionError("A policy has no end.")


def _taken(was: Approval, after: Approval, world: _World, now: datetime) -> Approval:
    """Note whose turn it was in the queues of a level that has begun."""
    if was.terms is None or after.turn != was.turn:
        here = [one for one in after.seats if (one.level, one.round) == (after.level, after.round)]
        for _ in take(world.turns, here, int(now.timestamp() * 1_000_000)):
            pass
    return after


def _cards(approval: Approval, world: _World) -> tuple[Asked, ...]:
    """Return the cards of those whose answer is awaited at a level that has begun."""
    ballot = approval.ballot
    people = [
        person
        for one in ballot.awaited
        if one in ballot.own and (person := world.directory.get(one)) is not None
    ]
    return world.reach(people, ballot.rules)


def _steps(events: Sequence[Event], was: Approval, now: Approval) -> Iterator[Step]:
    """Yield what events of one move have changed."""
    before = {(one.key, one.channel, one.turn) for one in was.asked}
    fresh = [one for one in now.asked if (one.key, one.channel, one.turn) not in before]
    here = (now.level, now.round)
    seats = tuple(one for one in now.seats if (one.level, one.round) == here)
    order = [one.person for one in seats]
    # In the order in which they are asked for; a place is before all of them.
    fresh.sort(key=lambda one: order.index(one.person) if one.person in order else -1)
    cards = tuple(
        Turn(person=one.person, channel=one.channel, address=one.address) for one in fresh
    )
    ladder = now.terms.ladder if now.terms is not None else ()
    for event in events:
        asking = event.what in ASKING
        yield Step(
            at=event.at,
            what=event.what,
            level=now.level,
            round=now.round,
            name=ladder[now.level].name if now.level < len(ladder) else "",
            seats=seats if asking else (),
            asked=cards if event.what is What.ASKED else (),
            need=now.ballot.need if asking else 1,
            reminded=_ids(event.more.get("people")) if event.what is What.REMINDED else (),
            until=now.deadline if asking else None,
            why=event.why,
        )


def _ids(value: JsonValue) -> tuple[str, ...]:
    return tuple(str(one) for one in value) if isinstance(value, list) else ()
