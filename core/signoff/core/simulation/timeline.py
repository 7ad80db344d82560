"""Simulates a call to its end: who is asked, when and how, if nobody or only some people answer.

The simulation uses the real rules. It opens an approval in memory, and routes and advances it like
the router and the timers. Only the clock differs: it jumps from one due moment to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final, NamedTuple

from pydantic import JsonValue

from signoff.core.approvals import collaboration, deliveries
from signoff.core.approvals.approval import Approval, Asked, Moved, Origin, Shown, State, ToolCall
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.parts import mark_of, with_cards
from signoff.core.base.errors import DecisionRefused, GrantRefused, PayloadError
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Pick, Rotations
from signoff.core.grants.grant import Grant
from signoff.core.policies.levels import Asking, Order, Start
from signoff.core.policies.matching import consider
from signoff.core.policies.policy import Facts, Fallback, Policy
from signoff.core.routing.departures import next_departure, stand_in, too_few
from signoff.core.routing.escalation import advance, go_past, pass_on
from signoff.core.routing.quiet_hours import card_held
from signoff.core.routing.resolve import take
from signoff.core.routing.selection import (
    NO_ROTATIONS,
    UNMANNED,
    Choice,
    choose,
    choose_default,
    holds_siblings,
)
from signoff.core.simulation.forecast import (
    ASKING,
    CardForecast,
    End,
    Says,
    SimulatedAnswer,
    Step,
    Timeline,
)

MOST_STEPS: Final = 10_000
"""The most steps of a timeline. More steps are an error, because every policy ends before."""

OTHERS: Final = "too few can still answer, and the default is asked, if it names anybody else"
"""The reason of the last step of `simulate_rest` if the default decides what follows."""

Reach = Callable[[Sequence[Person], Asking], tuple[Asked, ...]]
"""Returns the cards by which people are asked, through the configured channels."""


_SAID: Final = frozenset(
    {
        What.VOTED,
        What.APPROVED,
        What.REJECTED,
        What.REFUSED_ANSWER,
        What.CLAIMED,
        What.ASKED_BACK,
        What.ANSWERED_BACK,
    }
)
_END: Final = {
    State.TIMED_OUT: End.REJECT,
    State.REJECTED: End.REJECT,
    State.APPROVED: End.APPROVE,
}


def simulate(
    policies: Sequence[Policy],
    fallback: Fallback,
    directory: Directory,
    facts: Facts,
    *,
    start: datetime,
    reach: Reach,
    barred: tuple[str, ...] = (),
    rotations: Rotations = NO_ROTATIONS,
    grants: Sequence[Grant] = (),
    answers: Sequence[SimulatedAnswer] = (),
    approving: bool = False,
) -> Timeline:
    """Return what happens to a call that starts to wait, if nobody else answers.

    The simulation assumes that every card arrives.

    Args:
        policies: The policies, in order; the first that matches applies.
        fallback: The default, which is asked if no policy matches or its people cannot be asked.
        directory: The people.
        facts: The facts of the call.
        start: When it is routed (UTC).
        reach: Returns the cards by which people are asked.
        barred: Identities of people who never decide, besides the requester.
        rotations: When the members of queues were last asked.
        grants: The grants that may cover the call, in the order in which they are tried.
        answers: The answers of people. An answer that does not count is a step with the reason.
        approving: Whether every person who is asked approves immediately, until the end.

    Raises:
        NotCanonical: The arguments have no digest.
    """
    known = _rotations(directory, rotations)

    def chosen(not_allowed: Mapping[str, str]) -> Choice:
        return choose(
            policies,
            fallback,
            directory,
            facts,
            now=start,
            barred=barred,
            rotations=known,
            not_allowed=not_allowed,
        )

    choice = chosen({})
    policy, at_most = choice.terms.policy, choice.allowed
    above = chosen({policy: "it has allowed enough"}).people if at_most is not None else ()
    approval, steps = _opened(facts, start), list[Step]()
    ordered = tuple(sorted(answers, key=lambda one: one.at))
    world = _World(directory, reach, barred, known, ordered, fallback, approving)
    granted = _granted(approval, choice, directory, grants, start)
    if choice.refused:
        granted = [approval.refuse(reason=choice.refused, now=start, terms=choice.terms)]
    elif choice.allowed is not None:
        granted = [approval.allow(choice.terms, now=start)]
    for after, events in granted or _moves(approval, choice, world, start):
        steps += _steps(events, approval, after, directory)
        approval = after
    return Timeline(
        facts=dict(facts),
        start=start,
        considered=consider(policies, facts, start),
        terms=choice.terms,
        steps=tuple(steps),
        end=_END.get(approval.state, End.STAY),
        end_at=approval.decision.at if approval.decision is not None else None,
        allowed=choice.allowed,
        above=tuple(one.id for one in above),
        holds=holds_siblings(policies, fallback, facts, now=start),
    )


def simulate_rest(
    approval: Approval,
    directory: Directory,
    *,
    now: datetime,
    rotations: Rotations = NO_ROTATIONS,
    most: int = MOST_STEPS,
) -> tuple[tuple[Step, ...], Approval]:
    """Return what happens to a pending approval from now on, if nobody answers.

    It ends with a step `What.UNROUTABLE` that says `OTHERS` when too few people are left and no
    level follows: the router then asks the default, which is not known here.

    Args:
        approval: The pending approval.
        directory: The people.
        now: The present (UTC).
        rotations: When the members of queues were last asked.
        most: How many moves to simulate.

    Returns:
        The steps, and the approval after them. It has ended, stays open, or is still pending after
        `most` moves.
    """
    steps = list[Step]()
    for fresh, after in islice(
        steps_ahead(approval, directory, now=now, rotations=rotations), most
    ):
        steps += fresh
        approval = after
    return tuple(steps), approval


def steps_ahead(
    approval: Approval,
    directory: Directory,
    *,
    now: datetime,
    rotations: Rotations = NO_ROTATIONS,
) -> Iterator[tuple[tuple[Step, ...], Approval]]:
    """Yield the steps of each move of `simulate_rest`, and the approval after it."""
    world = _World(directory, lambda _people, _rules: (), (), _rotations(directory, rotations))
    for after, events in _onward(approval, world, now):
        yield tuple(_steps(events, approval, after, directory)), after
        approval = after


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
) -> list[Moved]:
    """Return the move of a call that a grant decides, empty if no grant covers the call."""
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


def _rotations(directory: Directory, rotations: Rotations) -> dict[str, dict[str, float]]:
    """Return a copy of the rotations of the queues that ask one member at a time."""
    queues = (one for one in directory.queues.values() if one.pick is not Pick.EVERYONE)
    return {one.name: dict(rotations.get(one.name, {})) for one in queues}


class _World(NamedTuple):
    """The environment of a simulation."""

    directory: Directory
    reach: Reach
    barred: tuple[str, ...]
    rotations: dict[str, dict[str, float]]
    answers: tuple[SimulatedAnswer, ...] = ()
    fallback: Fallback | None = None
    approving: bool = False


def _moves(approval: Approval, choice: Choice, world: _World, start: datetime) -> Iterator[Moved]:
    """Route an approval, and make due changes until there are no more."""
    after, events = _asked(approval, choice, world, start, barred=world.barred)
    yield _taken(approval, after, world, start), events
    yield from _onward(after, world, start)


def _asked(
    approval: Approval,
    choice: Choice,
    world: _World,
    now: datetime,
    *,
    barred: tuple[str, ...] = (),
) -> Moved:
    """Apply a choice, as the router does."""
    begun = choice.start or Start(0, 0, (), now + choice.terms.within.by_the_clock)
    rules = choice.terms.asking(begun.level)
    people = choice.people[:1] if rules.order is Order.SEQUENCE else choice.people
    return approval.ask(
        choice.terms,
        with_cards(approval.asked, world.reach(people, rules), begun.level_key),
        now=now,
        notes=choice.notes,
        start=begun,
        barred=barred,
        stranded=choice.stranded,
    )


def _onward(approval: Approval, world: _World, now: datetime) -> Iterator[Moved]:
    """Make the due changes and the simulated answers in order, until there are no more."""
    left, begun = list(world.answers), approval.since or approval.opened_at
    refused = set[str]()
    for _ in range(MOST_STEPS):
        due = _next_due(approval, world, now)
        if world.approving and not left:
            yes = next((one for one in approval.ballot.awaited if one not in refused), None)
            left = [SimulatedAnswer(by=yes, at=approval.since or begun)] if yes is not None else []
        if approval.state is not State.PENDING or (due is None and not left):
            return
        is_timer = due is not None and not (left and left[0].at < due)
        if due is not None and is_timer:
            now = max(now, due)
            if (timer := approval.next_due) is not None and timer <= now:
                after, events = advance(
                    approval, world.directory, now=now, rotations=world.rotations
                )
            else:
                after, events = approval, ()
        else:
            said = left.pop(0)
            now = max(said.at, begun)
            after, events = _answered(approval, said, world, now)
            refused |= {one.by for one in events if one.what is What.REFUSED_ANSWER}
        yield _taken(approval, after, world, now), events
        moved, events = after, ()
        if is_timer or _others_answer(approval, moved):
            after, events = _gone(approval, moved, world, now)
        if after is not moved or events:
            yield _taken(moved, after, world, now), events
        if events and events[-1].why == OTHERS:
            return
        if after.state is State.PENDING and (fresh := _cards(after, world)):
            after, events = after.asked_too(fresh, now=now)
            yield after, events
        approval = after
    raise AssertionError("A policy has no end.")


def _done(
    approval: Approval, person: Person, directory: Directory, says: Says, now: datetime
) -> Moved:
    """Make the move of a simulated answer.

    Raises:
        DecisionRefused, PayloadError: The answer does not count.
    """
    text = "in this case"
    match says:
        case Says.APPROVE:
            return approval.approve(person, directory, channel="email", now=now, reason=text)
        case Says.REJECT:
            return approval.reject(person, directory, channel="email", now=now, reason=text)
        case Says.CLAIM:
            return collaboration.claim(approval, person, directory, now=now)
        case Says.ASK:
            return collaboration.ask_back(approval, person, directory, text=text, now=now)
        case Says.ANSWER:
            return collaboration.answer_back(approval, person, directory, text=text, now=now)


def _others_answer(was: Approval, approval: Approval) -> bool:
    """Say whether the router looks for absent approvers after an answer."""
    began = approval.level_key != was.level_key
    others = approval.ballot.answering != was.ballot.answering
    return began or others or deliveries.is_short(was, approval)


def _next_due(approval: Approval, world: _World, now: datetime) -> datetime | None:
    """Return when the next timer is due or the next approver goes away, whichever is first."""
    leaves = next_departure(approval, world.directory, now)
    return min((one for one in (approval.next_due, leaves) if one is not None), default=None)


def _gone(was: Approval, approval: Approval, world: _World, now: datetime) -> Moved:
    """Ask the stand-ins of absent approvers, or go on if too few are left, as the router does.

    `was` is the approval before the last move.
    """
    if approval.state is not State.PENDING:
        return approval, ()
    after, events = stand_in(approval, world.directory, now=now, rotations=world.rotations)
    enough = deliveries.is_reachable(after) and deliveries.can_be_met(after)
    if enough or (after is approval and not deliveries.is_short(was, approval)):
        return after, events
    none, why = not deliveries.is_reachable(after), too_few(after, world.directory, now)
    alarm = after.note(What.UNROUTABLE, now=now, by="router", why=why)
    went = go_past(
        after,
        world.fallback or Fallback(),
        world.directory,
        now=now,
        why=why,
        barred=world.barred,
        rotations=world.rotations,
    )
    if went is None:
        others = after.note(What.UNROUTABLE, now=now, by="router", why=OTHERS)
        return after, (*events, alarm if world.fallback is not None else others)
    if isinstance(went, Choice):
        choice = went.model_copy(update={"stranded": went.stranded or not none})
        after, asked = _asked(after, choice, world, now)
        return after, (*events, *asked)
    return went[0], (*events, *(() if none else (alarm,)), *went[1])


def _answered(approval: Approval, said: SimulatedAnswer, world: _World, now: datetime) -> Moved:
    """Make the move of an answer; if the answer does not count, return an event that says why."""
    person, directory = world.directory.get(said.by), world.directory
    if person is None:
        why = directory.why_missing(said.by)
        return approval, (approval.note(What.REFUSED_ANSWER, now=now, by=said.by, why=why),)
    # Nothing is sent in a simulation, so nothing is cut.
    cards = (one.model_copy(update={"shown": Shown.COMPLETE}) for one in approval.asked)
    approval = approval.model_copy(update={"asked": tuple(cards)})
    try:
        after, events = _done(approval, person, directory, said.says, now)
        if world.approving and (step := after.step_of(person.id)) is not None:
            mark = mark_of(step)
            after, more = after.confirm(person, directory, channel="inbox", now=now, mark=mark)
            events = (*events, *more)
    except (DecisionRefused, PayloadError) as error:
        why = str(error)
        return approval, (approval.note(What.REFUSED_ANSWER, now=now, by=said.by, why=why),)
    went: Moved | None = after, ()
    if after.passed_since(approval):
        went = pass_on(after, directory, now=now, rotations=world.rotations)
    if went is not None:
        return went[0], (*events, *went[1])
    if world.fallback is None:
        why = f"{UNMANNED}; the default would be"
        return after, (*events, after.note(What.UNROUTABLE, now=now, by="router", why=why))
    choice = choose_default(
        after,
        world.fallback,
        directory,
        now=now,
        why=UNMANNED,
        barred=world.barred,
        rotations=world.rotations,
    )
    if choice.start is None:
        event = after.note(What.UNROUTABLE, now=now, by="router", why=UNMANNED)
        return after, (*events, event)
    after, asked = _asked(after, choice, world, now)
    return after, (*events, *asked)


def _taken(was: Approval, after: Approval, world: _World, now: datetime) -> Approval:
    """Record who was asked in the queues of a level that has begun."""
    if was.terms is None or after.level_key != was.level_key:
        for _ in take(world.rotations, after.seats_here, int(now.timestamp() * 1_000_000)):
            pass
    return after


def _cards(approval: Approval, world: _World) -> tuple[Asked, ...]:
    """Return the missing cards of the awaited approvers of a level that has begun."""
    ballot = approval.ballot
    here = {one.person for one in approval.asked if one.level_key == approval.level_key}
    if "" in here:
        return ()
    people = [
        person
        for one in ballot.awaited
        if one in ballot.own
        and one not in here
        and one not in approval.absent
        and (person := world.directory.get(one)) is not None
    ]
    return world.reach(people, ballot.rules)


def _steps(
    events: Sequence[Event], was: Approval, now: Approval, directory: Directory
) -> Iterator[Step]:
    """Yield the steps for the events of one move."""
    before = {(one.key, one.channel, one.level_key) for one in was.asked}
    fresh = [one for one in now.asked if (one.key, one.channel, one.level_key) not in before]
    seats = now.seats_here
    order = [one.person for one in seats]
    # In the order of the seats; common cards come first.
    fresh.sort(key=lambda one: order.index(one.person) if one.person in order else -1)
    cards = tuple(_card(one, now, directory, events[0].at) for one in fresh) if events else ()
    ladder = now.terms.ladder if now.terms is not None else ()
    informed = tuple(one for one in now.informed if one not in was.informed)
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
            by=event.by if event.what in _SAID else "",
            informed=informed if asking else (),
        )


def _card(asked: Asked, approval: Approval, directory: Directory, at: datetime) -> CardForecast:
    """Return a card, and until when it waits for working hours."""
    held = card_held(approval, asked, directory, at)
    return CardForecast(
        person=asked.person,
        channel=asked.channel,
        address=asked.address,
        held=held.until if held is not None else None,
        waits_for=str(held) if held is not None else "",
    )


def _ids(value: JsonValue) -> tuple[str, ...]:
    return tuple(str(one) for one in value) if isinstance(value, list) else ()
