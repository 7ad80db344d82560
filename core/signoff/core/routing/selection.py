"""Choosing: which policy rules a call, and who is asked at the level where it begins."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Final

from signoff.core.approvals.approval import Approval
from signoff.core.base.hiding import Hidden
from signoff.core.base.model import Value
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import QUEUE, Rotations
from signoff.core.directory.working_time import after
from signoff.core.policies.allowance import RateText
from signoff.core.policies.levels import Asking, Earlier, Group, Level, Seat, Start
from signoff.core.policies.matching import Match, consider, facts_at, weigh
from signoff.core.policies.policy import Effect, Facts, Fallback, Hold, Policy, Terms
from signoff.core.routing.chains import climb
from signoff.core.routing.resolve import find, informed

NO_ROTATIONS: Final[Rotations] = {}

UNMANNED: Final = "nobody of the next phase can be asked"
"""Why the default is asked in place of a phase."""


class Choice(Value):
    """The terms that were chosen, where they begin, and what stood in the way.

    Attributes:
        terms: The snapshot for the approval.
        start: The first level that has anybody, None when nobody can be asked.
        people: Who is asked there, those who may not decide excluded.
        notes: In words: policies that could not be evaluated, people who were left out.
        stranded: Whether a policy matched and has nobody at any level.
        refused: Why the call is refused without asking anybody, "" where somebody is asked.
        allowed: How many such calls run without asking anybody, None where somebody is asked.
    """

    terms: Terms
    start: Start | None
    people: tuple[Person, ...]
    notes: tuple[str, ...] = ()
    stranded: bool = False
    refused: str = ""
    allowed: RateText | None = None


def choose(
    policies: Sequence[Policy],
    fallback: Fallback,
    directory: Directory,
    facts: Facts,
    *,
    now: datetime,
    barred: Collection[str] = (),
    rotations: Rotations = NO_ROTATIONS,
    second_step: bool = False,
    not_allowed: Mapping[str, str] = MappingProxyType({}),
) -> Choice:
    """Choose whom to ask about one call.

    The first policy whose condition holds rules. A condition that cannot be evaluated ends the
    search at the fallback: guessing on would let a badly typed argument reach a weaker policy.
    The requester (``facts["user"]``) is never among those who are asked; when no level has anybody
    left, the fallback is asked instead. A second step that the policy wants is wanted there too,
    and so are as many yeses as the easiest of its levels takes.

    Args:
        policies: In order.
        fallback: Who is asked otherwise.
        directory: The people, with the absences that are known now.
        facts: What is known of the call.
        now: The present (UTC).
        barred: Identities of those who never decide, besides the requester.
        rotations: When the members of queues were last asked.
        second_step: Whether the call takes a second step in any case, as it did before.
        not_allowed: Policies with ``effect = "allow"`` that have to ask about this call all the
            same, by name, and why.
    """
    if why := directory.why_refused(str(facts.get("user", ""))):
        terms = fallback.terms(facts_at(facts, now, fallback.time_zone))
        return Choice(terms=terms, start=None, people=(), notes=(why,), refused=why)
    notes: list[str] = []
    stranded = False
    policy, barrier = _matching(policies, facts, now, notes)
    if barrier is not None:
        barrier = barrier.hiding(fallback.hide)
    chosen = barrier if policy is not None else None
    if policy is not None and chosen is not None and policy.effect is not Effect.ASK:
        why_not = not_allowed.get(policy.name, "")
        if policy.effect is Effect.DENY or not why_not:
            return _at_once(policy, chosen)
        notes.append(f"policy {policy.name}: {why_not}")
        chosen = chosen.model_copy(update={"effect": Effect.ASK})

    def begun(terms: Terms) -> tuple[Terms, Start | None]:
        """Return the terms, one phase for each manager, and where they begin: None for nowhere."""
        never = (str(facts.get("user", "")), *barred)
        up = climb(terms, directory, facts, never=never, notes=notes)
        if up is None:
            return terms, None
        start = first(
            up,
            directory,
            facts,
            now=now,
            barred=barred,
            rotations=rotations,
            notes=notes,
            among=up.after(-1, 0),
        )
        return up, start

    if chosen is not None and not chosen.ladder:
        notes.append(f"policy {chosen.policy} names nobody to ask; the default is asked")
    elif chosen is not None:
        terms, start = begun(chosen)
        if start is not None:
            people = _people(start, directory)
            return Choice(terms=terms, start=start, people=people, notes=tuple(notes))
        notes.append(f"policy {chosen.policy} leaves nobody to ask; the default is asked")
        stranded = True
    elif not notes:
        notes.append("no policy matches; the default is asked")
    terms = fallback.terms(facts_at(facts, now, fallback.time_zone))
    if second_step:
        terms = terms.model_copy(update={"second_step": True})
    if barrier is not None:
        # Without a policy it is not known which would have ruled: what any hides is hidden.
        hide = all_hidden(policies, fallback)
        alike = terms.shown_like(barrier) if policy is not None else terms.hiding(hide)
        terms = _instead_of(barrier, alike)
    if chosen is not None:
        terms = terms.telling_as(chosen)
    terms, start = begun(terms)
    if start is None:
        notes.append("nobody can be asked: name somebody in [default] ask but the requester")
    return Choice(
        terms=terms,
        start=start,
        people=_people(start, directory),
        notes=tuple(dict.fromkeys(notes)),
        stranded=stranded,
    )


def instead(
    approval: Approval,
    fallback: Fallback,
    directory: Directory,
    *,
    now: datetime,
    why: str,
    barred: Collection[str] = (),
    rotations: Rotations = NO_ROTATIONS,
) -> Choice:
    """Choose the default in place of people who cannot be asked about what waits already.

    Args:
        approval: What waits.
        fallback: The default.
        directory: The people.
        now: The present (UTC).
        why: Why the others cannot be asked, in words.
        barred: Identities of those who never decide, besides the requester.
        rotations: When the members of queues were last asked.
    """
    choice = choose(
        (),
        fallback,
        directory,
        approval.facts,
        now=now,
        barred=(*approval.barred, *barred),
        rotations=rotations,
        second_step=approval.in_two_steps,
    )
    # Without policies the first note only says that none of them matches.
    notes = (f"{why}; the default is asked", *choice.notes[1:])
    update: dict[str, object] = {"stranded": True, "notes": notes}
    if choice.start is not None:
        update["start"] = choice.start.in_round(approval.round + 1)
    return choice.model_copy(update=update)


def terms_for(
    policies: Sequence[Policy],
    directory: Directory,
    facts: Facts,
    *,
    now: datetime,
    barred: Collection[str] = (),
) -> Terms | None:
    """Return the terms that `choose` would choose, where that is plain without finding everybody.

    None where it takes more: no policy matches, the managers have to be gone up, or nobody is
    seen at once who can be asked.
    """
    policy, terms = _matching(policies, facts, now, [])
    if policy is None or terms is None or policy.effect is not Effect.ASK or terms.second_step:
        return None
    user = str(facts.get("user", ""))
    if directory.why_refused(user) or any(level.is_chain for level in terms.ladder):
        return None
    never = (user, *barred)
    for level in terms.ladder:
        for reference in level.references:
            queue = directory.queues.get(reference.removeprefix(QUEUE))
            members = queue.members if queue and reference.startswith(QUEUE) else (reference,)
            people = (directory.get(one) for one in members)
            for one in people:
                if one is None or one.absence(now) is not None:
                    continue
                if not any(directory.may_be(one, other) for other in never):
                    return terms
    return None


def holds_siblings(
    policies: Sequence[Policy], fallback: Fallback, facts: Facts, *, now: datetime
) -> bool:
    """Say whether calls of the same turn that need no approval wait for this one.

    Args:
        policies: In order.
        fallback: What rules where none of them matches.
        facts: What is known of the call.
        now: The present (UTC).
    """
    found = consider(policies, facts, now)
    last = policies[len(found) - 1] if found and found[-1].verdict is not Match.NO else None
    if last is None:
        return fallback.hold is Hold.SIBLINGS
    # In place of one that cannot be evaluated the default is asked, and made no weaker than it.
    rules = (last, fallback) if found[-1].verdict is Match.ERROR else (last,)
    return any(one.hold is Hold.SIBLINGS for one in rules)


def _matching(
    policies: Sequence[Policy], facts: Facts, now: datetime, notes: list[str]
) -> tuple[Policy | None, Terms | None]:
    """Return the policy that rules a call, None for none, and its terms.

    Without a policy the terms are those of one that could not be evaluated, which ends the search.
    """
    by_zone = dict[str, Facts]()
    for policy in policies:
        if (seen := by_zone.get(policy.time_zone)) is None:
            seen = by_zone[policy.time_zone] = facts_at(facts, now, policy.time_zone)
        verdict, problem = weigh(policy, seen)
        if verdict is Match.ERROR:
            notes.append(f"policy {policy.name}: {problem}; the default is asked")
            return None, policy.terms(seen)
        if verdict is Match.MATCHES:
            return policy, policy.terms(seen)
    return None, None


def _at_once(policy: Policy, terms: Terms) -> Choice:
    """Return what a policy says that asks nobody."""
    why = policy.reason.strip()
    notes = (why,) if why else ()
    return Choice(
        terms=terms, start=None, people=(), notes=notes, refused=why, allowed=policy.at_most
    )


def _instead_of(barrier: Terms, terms: Terms) -> Terms:
    """Return terms that are no easier to win over than those in whose place they stand."""
    second_step = terms.second_step or barrier.second_step
    return terms.model_copy(update={"second_step": second_step, "at_least": barrier.fewest_from(0)})


def all_hidden(policies: Sequence[Policy], fallback: Fallback) -> Hidden:
    """Return what may be hidden of a call of which it is not known yet which policy rules it."""
    names = (*fallback.hide, *(name for one in policies for name in one.hide))
    return tuple(dict.fromkeys(names))


def owners_of(owned: Mapping[str, str], facts: Facts) -> tuple[str, ...]:
    """Return who owns the agent of a call, and its app; they never decide what it asks for.

    Args:
        owned: The owner by the name of an agent or of its folder.
        facts: What is known of the call.
    """
    names = (str(facts.get(one, "")) for one in ("app", "agent"))
    return tuple(dict.fromkeys(owned[name] for name in names if name in owned))


def first(
    terms: Terms,
    directory: Directory,
    facts: Facts,
    *,
    now: datetime,
    barred: Collection[str],
    rotations: Rotations,
    notes: list[str],
    among: Iterable[tuple[int, int]],
    asked: Sequence[str] = (),
) -> Start | None:
    """Return the beginning of the first of some levels that has anybody to ask.

    Args:
        terms: The levels.
        directory: The people.
        facts: What is known of the call.
        now: The present (UTC).
        barred: Identities of those who never decide, besides the requester.
        rotations: When the members of queues were last asked.
        notes: Added to: who was left out, and which levels had nobody.
        among: The levels to look at: the index of each, and how often they were gone through.
        asked: The ids of those who were asked at the level before.
    """
    never = (str(facts.get("user", "")), *barred)
    everybody, short = directory, None
    if terms.second_step:
        directory = directory.proven()
    for index, nth in among:
        level = terms.ladder[index]
        found = find(
            level, directory, facts=facts, barred=never, now=now, rotations=rotations, asked=asked
        )
        asked = found.meant or asked
        notes += found.notes
        notes += _asked_all_the_same(found.seats, everybody, directory, now)
        people = [one for seat in found.seats if (one := directory.get(seat.person)) is not None]
        if not people:
            if called := terms.called(index):
                notes.append(f"{called} has nobody to ask and is passed over")
            continue
        here = {"level": index, "round": nth}
        seats = found.seats
        if (index, nth) != (0, 0):
            seats = tuple(seat.model_copy(update=here) for seat in seats)
        told = informed((*terms.inform, *terms.informs(index)), everybody, facts=facts, now=now)
        start = replace(_start(level, (index, nth), seats, people, now=now), informed=told)
        missing = list(_too_few(level, found.seats))
        if not missing or level.earlier is Earlier.STAY:
            notes += missing
            return start
        # It cannot approve: the next one that can is asked, and this one where there is none.
        notes += missing
        short = short or start
    return short


def _too_few(level: Level, seats: Sequence[Seat]) -> Iterator[str]:
    """Say where fewer can be asked than have to approve."""
    groups = level.all_of or (Group(ask=level.ask, quorum=level.quorum),)
    for number, group in enumerate(groups):
        able = {one.person for one in seats if not level.all_of or number in one.groups}
        if isinstance(group.quorum, int) and group.quorum > len(able):
            of = "them" if not level.all_of else ", ".join(group.ask)
            yield f"it takes {group.quorum} of {of}, and {len(able)} can be asked"


def _asked_all_the_same(
    seats: Iterable[Seat], everybody: Directory, proven: Directory, now: datetime
) -> Iterator[str]:
    """Say who is asked although they have reported to be away."""
    for one in dict.fromkeys(seat.person for seat in seats):
        reported, counts = everybody.get(one), proven.get(one)
        if reported and counts and reported.absence(now) and not counts.absence(now):
            yield (
                f"{reported.shown} is away, which was not said with a second factor, and is asked "
                "all the same: this takes one"
            )


def again(approval: Approval, directory: Directory, *, now: datetime) -> Start:
    """Return the present level as one that begins now, with the same people."""
    rules, ids = approval.ballot.rules, approval.ballot.own
    if approval.in_two_steps:
        directory = directory.proven()
    people = [one for name in ids if (one := directory.get(name)) is not None]
    here = (approval.level, approval.round)
    return _start(rules, here, approval.seats_here, people, now=now)


def _start(
    rules: Asking,
    here: tuple[int, int],
    seats: tuple[Seat, ...],
    people: Sequence[Person],
    *,
    now: datetime,
) -> Start:
    deadline = after(now, rules.within, people)
    reminders = sorted(after(now, one, people) for one in rules.remind)
    return Start(*here, seats, deadline, tuple(one for one in reminders if one < deadline))


def _people(start: Start | None, directory: Directory) -> tuple[Person, ...]:
    ids = dict.fromkeys(seat.person for seat in start.seats) if start is not None else ()
    return tuple(one for name in ids if (one := directory.get(name)) is not None)
