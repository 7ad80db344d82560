"""Counting: how many yeses a level takes, whose answers count, and whose turn it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from signoff.core.policies.levels import STAYS, Asking, Order, Outcome, Quorum, Seat, Vote
from signoff.core.policies.policy import Terms

_NOBODY = Asking()


@dataclass(frozen=True, slots=True)
class Panel:
    """A group that has to approve.

    Attributes:
        people: The ids of those who are in it.
        quorum: How many of them have to approve.
    """

    people: tuple[str, ...]
    quorum: Quorum

    @property
    def need(self) -> int:
        """How many yeses it takes."""
        people, quorum = len(self.people), self.quorum
        match quorum:
            case "all":
                wanted = people
            case "majority":
                wanted = people // 2 + 1
            case str():
                # Rounded up: 50% of three are two.
                wanted = -(-people * int(quorum.removesuffix("%")) // 100)
            case _:
                wanted = quorum
        return max(1, wanted)


@dataclass(frozen=True, slots=True)
class Ballot:
    """Where a level stands. A person counts once, however many seats and channels they have.

    Attributes:
        rules: How the level asks.
        own: The ids of those with a seat of this level, in the order of `ask`.
        stay: The ids of those of earlier levels who may still answer here.
        votes: The answers that count here, at most one of each person.
        at_least: How many yeses it takes in any case.
        groups: The groups that all have to approve, where there are any. Who is in several counts
            in each; who may still answer from an earlier level counts in none.
    """

    rules: Asking
    own: tuple[str, ...]
    stay: tuple[str, ...]
    votes: tuple[Vote, ...]
    at_least: int = 1
    groups: tuple[Panel, ...] = ()

    @property
    def need(self) -> int:
        """How many yeses it takes; with groups, those that there are and those that are missing.

        A number stays what it is where there are fewer people: two wanted yeses are never one
        because somebody is away.
        """
        if self.groups:
            yes = self.yes
            missing = (one.need - len({*yes} & {*one.people}) for one in self.groups)
            return max(len(yes) + sum(max(one, 0) for one in missing), self.at_least)
        return max(Panel(self.own, self.rules.quorum).need, self.at_least)

    @property
    def yes(self) -> tuple[str, ...]:
        """The ids of those who have said yes."""
        return tuple(vote.by for vote in self.votes if vote.verdict is Outcome.APPROVE)

    @property
    def no(self) -> tuple[str, ...]:
        """The ids of those who have said no."""
        return tuple(vote.by for vote in self.votes if vote.verdict is Outcome.REJECT)

    @property
    def reached(self) -> bool:
        """Whether it is approved."""
        return len(self.yes) >= self.need

    @property
    def lost(self) -> bool:
        """Whether it is rejected: by a veto, or because the quorum cannot be reached any more."""
        against = set(self.no)
        if self.rules.veto:
            return bool(against)
        return not self.can_reach(one for one in (*self.own, *self.stay) if one not in against)

    def can_reach(self, people: Iterable[str]) -> bool:
        """Say whether it would be approved if all of these said yes.

        One of an earlier level may still help, and never stands in the way.
        """
        able = {*people}
        if any(len(able & {*one.people}) < one.need for one in self.groups):
            return False
        wanted = self.at_least if self.groups else self.need
        return len(able) >= wanted

    @property
    def answering(self) -> tuple[str, ...]:
        """The ids of those who may answer now; whoever has answered may change their mind."""
        said = {vote.by for vote in self.votes}
        own = self.own
        if self.rules.order is Order.SEQUENCE:
            next_one = next((at for at, one in enumerate(own) if one not in said), len(own))
            own = own[: next_one + 1]
        return tuple(dict.fromkeys((*own, *self.stay)))

    @property
    def awaited(self) -> tuple[str, ...]:
        """The ids of those from whom an answer is waited for now."""
        said = {vote.by for vote in self.votes}
        return tuple(one for one in self.answering if one not in said)


def stands_for(person: str, seats: Sequence[Seat]) -> str:
    """Return whose seat a person's answer fills: their own before that of somebody absent."""
    mine = [seat.stands_for for seat in seats if seat.person == person]
    return person if person in mine or not mine else mine[0]


def count(
    terms: Terms | None,
    here: tuple[int, int],
    *,
    seats: Sequence[Seat],
    votes: Sequence[Vote],
    own: Sequence[str],
) -> Ballot:
    """Return where a level stands.

    Args:
        terms: The rules; None before it was routed.
        here: The index of the level, and how often the levels have been gone through.
        seats: Of this level and of earlier ones.
        votes: Of all levels, at most one of each person and stage.
        own: The ids of those who are asked where there are no seats.
    """
    level = here[0]
    stays = terms is not None and terms.stays(level)

    def counts(other: int) -> bool:
        return stays and terms is not None and terms.same_stage(other, level)

    ours = [one for one in seats if (one.level, one.round) == here]
    mine = [one.person for one in ours] or list(own)
    wanted = terms.ladder[level].all_of if terms and level < len(terms.ladder) else ()
    groups = tuple(
        Panel(tuple(dict.fromkeys(one.person for one in ours if at in one.groups)), group.quorum)
        for at, group in enumerate(wanted)
    )
    others = [one for one in seats if (one.level, one.round) != here]
    stay = tuple(one.person for one in others if one.level == STAYS or counts(one.level))
    found = [one for one in votes if (one.level, one.round) == here or counts(one.level)]
    able = {*mine, *stay}
    return Ballot(
        rules=terms.asking(level) if terms is not None else _NOBODY,
        own=tuple(dict.fromkeys(mine)),
        stay=stay,
        votes=tuple(vote for vote in found if vote.by in able),
        at_least=terms.at_least if terms is not None else 1,
        groups=groups,
    )
