"""Chooses the policy for a call, and the approvers of the level at which it starts."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.collaboration import people_here
from signoff.core.approvals.voting import places_of
from signoff.core.base.hiding import Hidden
from signoff.core.base.model import Value
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import QUEUE, Rotations
from signoff.core.directory.working_time import after
from signoff.core.policies.allowance import RateText
from signoff.core.policies.levels import Asking, Earlier, Group, Level, Seat, Start
from signoff.core.policies.matching import MatchResult, consider, facts_at, weigh
from signoff.core.policies.policy import Effect, Facts, Fallback, Hold, Policy, Terms
from signoff.core.routing.chains import climb
from signoff.core.routing.resolve import find, informed

NO_ROTATIONS: Final[Rotations] = {}

UNMANNED: Final = "nobody of the next phase can be asked"
"""Why the default is asked instead of a phase."""


class Choice(Value):
    """The chosen terms, the level at which they start, and notes.

    Attributes:
        terms: The snapshot for the approval.
        start: The first level with anybody to ask, None if nobody can be asked.
        people: The approvers of that level, without people who may not decide.
        notes: In words: policies that could not be evaluated, people who were left out.
        stranded: Whether the matching policy has nobody to ask at any level, or too few to approve.
        refused: Why the call is refused without asking anybody, "" if people are asked.
        allowed: How many such calls run without asking anybody, None if people are asked.
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

    The first policy whose condition is true applies. If a condition cannot be evaluated, the
    fallback applies: otherwise an argument of the wrong type could lead to a weaker policy. The
    requester (``facts["user"]``) is never asked. If no level has anybody left, the fallback is
    asked instead. It then needs a second step if the policy needs one, and as many approvals as the
    level of the policy that needs the fewest.

    Args:
        policies: The policies, in order.
        fallback: Who is asked otherwise.
        directory: The people, with the current absences.
        facts: The facts of the call.
        now: The present (UTC).
        barred: Identities of people who never decide, besides the requester.
        rotations: When the members of queues were last asked.
        second_step: Whether the call needs a second step in any case, as before.
        not_allowed: Policies with ``effect = "allow"`` that must ask about this call nevertheless,
            by name, with the reason.
    """
    if why := directory.why_refused(str(facts.get("user", ""))):
        terms = fallback.terms(facts_at(facts, now, fallback.time_zone))
        return Choice(terms=terms, start=None, people=(), notes=(why,), refused=why)
    search = ApproverSearch(directory, facts, now, barred, rotations)
    policy, strictest = _matching(policies, facts, now, search.notes)
    if strictest is not None:
        strictest = strictest.hiding(fallback.hide)
    if policy is not None and strictest is not None:
        if policy.effect is not Effect.ASK:
            why_not = not_allowed.get(policy.name, "")
            if policy.effect is Effect.DENY or not why_not:
                return _at_once(policy, strictest)
            search.notes.append(f"policy {policy.name}: {why_not}")
            strictest = strictest.model_copy(update={"effect": Effect.ASK})
        terms, start = search.start(strictest)
        if start is not None:
            return search.choice(terms, start, notes=search.notes)
        leaves = "leaves" if strictest.ladder else "names"
        search.notes.append(f"policy {policy.name} {leaves} nobody to ask; the default is asked")
    elif not search.notes:
        search.notes.append("no policy matches; the default is asked")
    terms = fallback.terms(facts_at(facts, now, fallback.time_zone))
    if second_step:
        terms = terms.model_copy(update={"second_step": True})
    if strictest is not None and policy is not None:
        terms = _instead_of(strictest, terms.shown_like(strictest)).telling_as(strictest)
    elif strictest is not None:
        # It is not known which policy would apply, so everything that any policy hides is hidden.
        terms = _instead_of(strictest, terms.hiding(all_hidden(policies, fallback)))
    terms, start = search.start(terms)
    if start is None:
        search.notes.append("nobody can be asked: name somebody in [default] ask but the requester")
    stranded = policy is not None and strictest is not None and bool(strictest.ladder)
    return search.choice(terms, start, notes=dict.fromkeys(search.notes), stranded=stranded)


@dataclass(frozen=True, slots=True)
class ApproverSearch:
    """The search for the people to ask about one call.

    Attributes:
        directory: The people.
        facts: The facts of the call.
        now: The present (UTC).
        barred: Identities of people who never decide, besides the requester.
        rotations: When the members of queues were last asked.
        notes: In words: who was left out, and which levels had nobody.
    """

    directory: Directory
    facts: Facts
    now: datetime
    barred: Collection[str]
    rotations: Rotations
    notes: list[str] = field(default_factory=list)

    @property
    def never(self) -> tuple[str, ...]:
        """The identities of people who never decide, with that of the requester."""
        return (str(self.facts.get("user", "")), *self.barred)

    def start(self, terms: Terms) -> tuple[Terms, Start | None]:
        """Return the terms, with a phase for each manager, and their start or None."""
        up = climb(terms, self.directory, self.facts, never=self.never, notes=self.notes)
        return (terms, None) if up is None else (up, self.first(up, up.after(-1, 0)))

    def first(
        self, terms: Terms, among: Iterable[tuple[int, int]], asked: Sequence[str] = ()
    ) -> Start | None:
        """Return the start of the first of these levels with anybody to ask.

        Args:
            terms: The terms with the levels.
            among: The levels to try: the index and the round of each.
            asked: The ids of the approvers of the previous level.
        """
        directory, facts, now, notes = self.directory, self.facts, self.now, self.notes
        never, short, begun = self.never, None, bool(asked)
        if terms.second_step:
            directory = directory.proven()
        for index, nth in among:
            level = terms.ladder[index]
            found = find(
                level,
                directory,
                facts=facts,
                barred=never,
                now=now,
                rotations=self.rotations,
                asked=asked,
            )
            asked = found.meant or asked
            notes += found.notes
            notes += _asked_all_the_same(found.seats, self.directory, directory, now)
            people = [
                one for seat in found.seats if (one := directory.get(seat.person)) is not None
            ]
            if not people:
                if called := terms.called(index):
                    notes.append(f"{called} has nobody to ask and is passed over")
                continue
            here = {"level": index, "round": nth}
            seats = found.seats
            if (index, nth) != (0, 0):
                seats = tuple(seat.model_copy(update=here) for seat in seats)
            told = informed(
                (*terms.inform, *terms.informs(index)), self.directory, facts=facts, now=now
            )
            start = _start(level, (index, nth), seats, people, now=now)._replace(informed=told)
            missing = list(too_few_seats(level, found.seats, terms.at_least))
            is_helped = begun and (nth > 0 or (index > 0 and terms.same_phase(index - 1, index)))
            notes += missing
            if not missing or (level.earlier is Earlier.STAY and is_helped):
                return start
            # This level cannot approve, so it is only asked if no later level can approve either.
            short = short or start._replace(short="; ".join(missing))
        return short

    def choice(
        self, terms: Terms, start: Start | None, *, notes: Iterable[str], stranded: bool = False
    ) -> Choice:
        """Return the choice of the people of a start, or of nobody."""
        ids = dict.fromkeys(seat.person for seat in start.seats) if start is not None else ()
        return Choice(
            terms=terms,
            start=start,
            people=tuple(one for name in ids if (one := self.directory.get(name)) is not None),
            notes=tuple(notes),
            stranded=stranded or (start is not None and bool(start.short)),
        )


def choose_default(
    approval: Approval,
    fallback: Fallback,
    directory: Directory,
    *,
    now: datetime,
    why: str,
    barred: Collection[str] = (),
    rotations: Rotations = NO_ROTATIONS,
) -> Choice:
    """Choose the default for a pending approval whose approvers cannot be asked.

    Args:
        approval: The approval.
        fallback: The default.
        directory: The people.
        now: The present (UTC).
        why: Why the approvers cannot be asked, in words.
        barred: Identities of people who never decide, besides the requester.
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
    # Without policies, the first note only says that none matches.
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
    """Return the terms that `choose` would choose, if they can be found without all approvers.

    Returns None if more is needed: no policy matches, a level goes up the managers, or no approver
    who can be asked is found directly.
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
        policies: The policies, in order.
        fallback: The default, which applies if no policy matches.
        facts: The facts of the call.
        now: The present (UTC).
    """
    found = consider(policies, facts, now)
    last = policies[len(found) - 1] if found and found[-1].verdict is not MatchResult.NO else None
    if last is None:
        return fallback.hold is Hold.SIBLINGS
    # If a policy cannot be evaluated, the default is asked, and is not weaker than the policy.
    rules = (last, fallback) if found[-1].verdict is MatchResult.ERROR else (last,)
    return any(one.hold is Hold.SIBLINGS for one in rules)


def _matching(
    policies: Sequence[Policy], facts: Facts, now: datetime, notes: list[str]
) -> tuple[Policy | None, Terms | None]:
    """Return the policy that applies to a call, None for none, and its terms.

    If a policy cannot be evaluated, the search ends. Then the policy is None, and the terms are
    those of that policy.
    """
    by_zone = dict[str, Facts]()
    for policy in policies:
        if (seen := by_zone.get(policy.time_zone)) is None:
            seen = by_zone[policy.time_zone] = facts_at(facts, now, policy.time_zone)
        verdict, problem = weigh(policy, seen)
        if verdict is MatchResult.ERROR:
            notes.append(f"policy {policy.name}: {problem}; the default is asked")
            return None, policy.terms(seen)
        if verdict is MatchResult.MATCHES:
            return policy, policy.terms(seen)
    return None, None


def _at_once(policy: Policy, terms: Terms) -> Choice:
    """Return the choice of a policy that asks nobody."""
    why = policy.reason.strip()
    notes = (why,) if why else ()
    return Choice(
        terms=terms, start=None, people=(), notes=notes, refused=why, allowed=policy.at_most
    )


def _instead_of(barrier: Terms, terms: Terms) -> Terms:
    """Return terms that are at least as strict as the terms that they replace."""
    terms = terms.no_weaker_than(barrier)
    return terms.model_copy(update={"at_least": barrier.fewest_from(0)})


def all_hidden(policies: Sequence[Policy], fallback: Fallback) -> Hidden:
    """Return everything that may have to be hidden while the policy of a call is not known."""
    names = (*fallback.hide, *(name for one in policies for name in one.hide))
    return tuple(dict.fromkeys(names))


def owners_of(owned: Mapping[str, str], facts: Facts) -> tuple[str, ...]:
    """Return the owners of a call's agent and app, who never decide its requests.

    Args:
        owned: The owners by the name of an agent or of its folder.
        facts: The facts of the call.
    """
    names = (str(facts.get(one, "")) for one in ("app", "agent"))
    return tuple(dict.fromkeys(owned[name] for name in names if name in owned))


def too_few_seats(level: Level, seats: Sequence[Seat], at_least: int = 1) -> Iterator[str]:
    """Yield a note for each quorum that is larger than the number of people who can be asked.

    Args:
        level: The level.
        seats: The seats of the people who can be asked.
        at_least: The least number of approvals; see `Terms.at_least`.
    """
    people = places_of(seats)
    if at_least > people:
        yield f"{at_least} people must approve, and only {people} can be asked"
        return
    groups = level.all_of or (Group(ask=level.ask, quorum=level.quorum),)
    for number, group in enumerate(groups):
        able = places_of([one for one in seats if not level.all_of or number in one.groups])
        of = "them" if not level.all_of else ", ".join(group.ask)
        if not able:
            yield f"{group.quorum} of {of} must approve, and nobody can be asked"
        elif isinstance(group.quorum, int) and group.quorum > able:
            yield f"{group.quorum} of {of} must approve, and only {able} can be asked"


def _asked_all_the_same(
    seats: Iterable[Seat], everybody: Directory, proven: Directory, now: datetime
) -> Iterator[str]:
    """Yield a note for each person who is asked although they reported an absence."""
    for one in dict.fromkeys(seat.person for seat in seats):
        reported, counts = everybody.get(one), proven.get(one)
        if reported and counts and reported.absence(now) and not counts.absence(now):
            yield (
                f"{reported.shown} is away but is asked: the absence was set without a second "
                "factor, which this request needs"
            )


def restart(approval: Approval, directory: Directory, *, now: datetime) -> Start:
    """Return a start of the present level at this moment, with the same people."""
    people, here = people_here(approval, directory), (approval.level, approval.round)
    return _start(approval.ballot.rules, here, approval.seats_here, people, now=now)


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
