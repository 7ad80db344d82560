"""Voting: the votes, the number of approvals that a level needs, and the awaited approvers."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydantic import JsonValue, model_validator

from signoff.core.approvals.hidden import values_without_hidden
from signoff.core.approvals.parts import Decision
from signoff.core.base.errors import PayloadError
from signoff.core.base.hiding import HIDDEN
from signoff.core.base.model import Value
from signoff.core.base.numbers import json_text
from signoff.core.base.text import brief
from signoff.core.directory.people import Directory
from signoff.core.payloads.digest import digest
from signoff.core.policies.levels import STAYS, Asking, Order, Quorum, Seat, Verdict
from signoff.core.policies.policy import Terms

# It is not validated, because that would build its validator in every process.
_NOBODY = Asking.model_construct()


class Vote(Value):
    """An answer that counts and has not ended the approval.

    Attributes:
        stands_for: The id of the person whose seat it fills.
        level: The index of the level at which it was given.
        round: The number of earlier rounds through the levels.
        verdict: Approve or reject.
        decision: Who gave it, when, how and with which values.
    """

    stands_for: str = ""
    level: int = 0
    round: int = 0
    verdict: Verdict
    decision: Decision

    @property
    def by(self) -> str:
        """The id of the person."""
        return self.decision.by

    @model_validator(mode="before")
    @classmethod
    def _as_stored_before(cls, data: object) -> object:
        """Read a vote of the last release, which had the fields of its decision on the vote."""
        if not isinstance(data, dict) or "decision" in data:
            return data
        own = {name: one for name, one in data.items() if name in cls.model_fields}
        return {**own, "decision": {name: one for name, one in data.items() if name not in own}}


class Panel(NamedTuple):
    """A group that has to approve.

    Attributes:
        people: The ids of its people.
        quorum: How many of them have to approve.
        places: The number of places that they fill, which is smaller than the number of people if
            some share a place. None means a place for each person.
    """

    people: tuple[str, ...]
    quorum: Quorum
    places: int | None = None

    @property
    def need(self) -> int:
        """How many approvals the group needs."""
        return _need(self.quorum, len(self.people) if self.places is None else self.places)


class Ballot(NamedTuple):
    """The state of the vote at a level. A person counts once, even with several seats.

    Attributes:
        rules: How the level asks.
        own: The ids of the people with a seat at this level, in the order of `ask`.
        stay: The ids of the people of earlier levels who may still answer here.
        votes: The answers that count here, at most one from each person.
        at_least: The least number of approvals, whatever the quorum says.
        groups: The groups, which must all approve; empty without groups. People in several groups
            count in each of them. People of an earlier level do not count in any.
        shared: People who share one place, because one of them is absent and the others are
            delegates. The first of them who answers fills the place.
    """

    rules: Asking
    own: tuple[str, ...]
    stay: tuple[str, ...]
    votes: tuple[Vote, ...]
    at_least: int = 1
    groups: tuple[Panel, ...] = ()
    shared: tuple[frozenset[str], ...] = ()

    @property
    def need(self) -> int:
        """How many approvals the level needs; with groups, those given and those missing.

        A quorum of two never drops to one when somebody is away.
        """
        if self.groups:
            yes = self.yes
            missing = (one.need - len({*yes} & {*one.people}) for one in self.groups)
            return max(len(yes) + sum(max(one, 0) for one in missing), self.at_least)
        places = len(self._places(self.own)) if self.shared else len(self.own)
        return max(_need(self.rules.quorum, places), self.at_least)

    @property
    def yes(self) -> tuple[str, ...]:
        """The ids of the people who have approved."""
        return tuple(vote.by for vote in self.votes if vote.verdict is Verdict.APPROVE)

    @property
    def no(self) -> tuple[str, ...]:
        """The ids of the people who have rejected."""
        return tuple(vote.by for vote in self.votes if vote.verdict is Verdict.REJECT)

    @property
    def reached(self) -> bool:
        """Whether the level has approved."""
        return len(self.yes) >= self.need

    @property
    def lost(self) -> bool:
        """Whether the level has rejected: by a veto, or because its quorum is out of reach."""
        against = set(self.no)
        if self.rules.veto:
            return bool(against)
        return not self.can_reach(one for one in (*self.own, *self.stay) if one not in against)

    def can_reach(self, people: Iterable[str]) -> bool:
        """Say whether the level would approve if all of these people approved.

        People of an earlier level can add approvals, but do not raise the number that is needed.
        """
        able = {*people}
        if any(len(self._places(able & {*one.people})) < one.need for one in self.groups):
            return False
        wanted = self.at_least if self.groups else self.need
        return len(self._places(able)) >= wanted

    @property
    def filled(self) -> frozenset[str]:
        """The ids of the people whose place another person has filled by answering."""
        said = {vote.by for vote in self.votes}
        return frozenset(
            one for place in self.shared if place & said for one in place if one not in said
        )

    @property
    def answering(self) -> tuple[str, ...]:
        """The ids of the people who may answer now. People may change their answers."""
        said, filled = {vote.by for vote in self.votes}, self.filled
        own = self.own
        if self.rules.order is Order.SEQUENCE:
            done = said | filled
            next_one = next((at for at, one in enumerate(own) if one not in done), len(own))
            beside = self._beside(own[next_one]) if next_one < len(own) else frozenset()
            own = tuple(one for at, one in enumerate(own) if at <= next_one or one in beside)
        return tuple(dict.fromkeys(one for one in (*own, *self.stay) if one not in filled))

    @property
    def awaited(self) -> tuple[str, ...]:
        """The ids of the people whose answer is awaited now."""
        said = {vote.by for vote in self.votes}
        return tuple(one for one in self.answering if one not in said)

    def _beside(self, person: str) -> frozenset[str]:
        """Return the ids of the people who share a place with a person, including the person."""
        places = (one for one in self.shared if person in one)
        return next(places, frozenset({person}))

    def _places(self, people: Iterable[str]) -> set[frozenset[str]]:
        """Return the places that some people can fill."""
        return {self._beside(one) for one in people}


def _need(quorum: Quorum, places: int) -> int:
    """Return how many approvals a quorum of people with so many places needs."""
    match quorum:
        case "all":
            wanted = places
        case "majority":
            wanted = places // 2 + 1
        case str():
            # Rounded up: 50% of three people are two.
            wanted = -(-places * int(quorum.removesuffix("%")) // 100)
        case _:
            wanted = quorum
    return max(1, wanted)


def stands_for(person: str, seats: Sequence[Seat]) -> str:
    """Return whose seat a person's answer fills: their own seat before one that they represent."""
    mine = [seat.stands_for for seat in seats if seat.person == person]
    return person if person in mine or not mine else mine[0]


def require_same_values(
    said: Decision, votes: Iterable[Vote], directory: Directory, *, hide: Sequence[str]
) -> None:
    """Refuse an approval whose values differ from those of earlier approvals.

    Raises:
        PayloadError: The values differ; the message names both, except for hidden ones.
    """
    if said.proposal is not None:
        return
    for vote in votes:
        theirs = vote.decision.payload
        if vote.verdict is not Verdict.APPROVE or vote.by == said.by or _same(theirs, said.payload):
            continue
        key, mine, standing = _difference(said.payload, theirs)
        if hide:
            seen = [values_without_hidden(one, hide) for one in (said.payload, theirs)]
            _, mine, standing = _difference(*seen)
            if seen[0] == seen[1]:
                mine = standing = f"{key}: {HIDDEN}" if key else HIDDEN
        raise PayloadError(
            f"{directory.shown(vote.by)} has approved this with {standing}, and you say "
            f"{mine}. All who approve have to say the same: approve it with the same values, "
            "reject it, or ask them to change theirs.",
            key=key,
            read=mine,
            example=standing,
        )


def _difference(mine: JsonValue, theirs: JsonValue) -> tuple[str, str, str]:
    """Return the first field in which two payloads differ, and the line of each for that field.

    A line looks as in an answer: ``days: 3``. The field is "" if the payloads are not objects.
    """
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in {**theirs, **mine}:
            if mine.get(key) != theirs.get(key) or (key in mine) is not (key in theirs):
                return key, f"{key}: {_line(mine.get(key))}", f"{key}: {_line(theirs.get(key))}"
    return "", _line(mine), _line(theirs)


def _line(value: JsonValue) -> str:
    text = value if isinstance(value, str) else json_text(value)
    return brief(text) if value is not None else "nothing"


def _same(one: JsonValue, other: JsonValue) -> bool:
    return digest("", {"of": one}) == digest("", {"of": other})


def count(
    terms: Terms | None,
    here: tuple[int, int],
    *,
    seats: Sequence[Seat],
    votes: Sequence[Vote],
    own: Sequence[str],
) -> Ballot:
    """Return the state of the vote at a level.

    Args:
        terms: The rules; None before the approval is routed.
        here: The index of the level, and the round.
        seats: The seats of this level and of earlier ones.
        votes: The votes of all levels, at most one for each person and phase.
        own: The ids of the people who are asked, if there are no seats.
    """
    level = here[0]
    stays = terms is not None and terms.stays(level)

    def counts(other: int) -> bool:
        return stays and terms is not None and other >= 0 and terms.same_phase(other, level)

    ours, others = list[Seat](), list[Seat]()
    for one in seats:
        (ours if (one.level, one.round) == here else others).append(one)
    mine = [one.person for one in ours] or list(own)
    rules = terms.asking(level) if terms is not None else None
    groups = tuple(
        _panel([one for one in ours if at in one.groups], group.quorum)
        for at, group in enumerate(rules.all_of if rules is not None else ())
    )
    stay = tuple(one.person for one in others if one.level == STAYS or counts(one.level))
    found = [one for one in votes if (one.level, one.round) == here or counts(one.level)]
    able = {*mine, *stay}
    # People who are asked at this level answer for themselves, whosever place they shared before.
    before = (one.difference(mine) for one in _shared(others))
    shared = (*_shared(ours), *(one for one in before if len(one) > 1))
    return Ballot(
        rules=rules or _NOBODY,
        own=tuple(dict.fromkeys(mine)),
        stay=stay,
        votes=tuple(vote for vote in found if vote.by in able),
        at_least=terms.at_least if terms is not None else 1,
        groups=groups,
        shared=shared,
    )


def places_of(seats: Sequence[Seat]) -> int:
    """Return how many answers the people of some seats can give; a shared place counts once."""
    people = {one.person for one in seats}
    shared = _shared(seats)
    return len({next((one for one in shared if name in one), name) for name in people})


def _panel(seats: Sequence[Seat], quorum: Quorum) -> Panel:
    people = tuple(dict.fromkeys(one.person for one in seats))
    shared = _shared(seats)
    spare = sum(len(one) - 1 for one in shared)
    return Panel(people, quorum, len(people) - spare)


def _shared(seats: Sequence[Seat]) -> tuple[frozenset[str], ...]:
    """Return the groups of people who share a place.

    A person with two places at one level fills both.
    """
    if len(seats) < 2:
        return ()
    places: dict[tuple[int, int, str], set[str]] = {}
    for one in seats:
        places.setdefault((one.level, one.round, one.stands_for), set()).add(one.person)
    return tuple(dict.fromkeys(frozenset(one) for one in places.values() if len(one) > 1))
