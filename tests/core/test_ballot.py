"""Who fills which place of a level, who answers next, and what a level asks at its start."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import CLEO, MARA, NOON, RILEY, make_approval
from signoff.core.approvals.parts import Decision
from signoff.core.approvals.voting import Ballot, Vote, stands_for
from signoff.core.directory.people import Directory
from signoff.core.policies.levels import Asking, Group, Level, Order, Seat, Verdict
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.routing.selection import choose

PEOPLE = Directory([MARA, CLEO, RILEY])
DEFAULT = Fallback(ask=("cleo",))


def vote(person: str, verdict: Verdict = Verdict.APPROVE) -> Vote:
    """Return a person's vote."""
    return Vote(verdict=verdict, decision=Decision(by=person, channel="email", at=NOON))


def seat(person: str, instead_of: str = "") -> Seat:
    """Return a person's seat, for themselves unless they represent another person."""
    return Seat(person=person, instead_of=instead_of)


@pytest.mark.parametrize(
    ("seats", "place"),
    [
        ([seat("dan", "mara"), seat("dan")], "dan"),
        ([seat("dan"), seat("dan", "mara")], "dan"),
        ([seat("cleo"), seat("dan", "mara")], "mara"),
        ([seat("cleo", "mara"), seat("dan", "riley")], "riley"),
        ([seat("cleo")], "dan"),
    ],
)
def test_an_answer_fills_the_own_seat_before_one_that_is_represented(
    seats: list[Seat], place: str
) -> None:
    """A person with a seat who also represents somebody answers for themselves first."""
    assert stands_for("dan", seats) == place


def test_people_who_share_a_place_are_asked_at_once_in_a_sequence() -> None:
    """Both delegates of an absent person may answer, and the next person only after one of them."""
    ballot = Ballot(
        rules=Asking(order=Order.SEQUENCE, quorum=2),
        own=("ada", "bo", "cem"),
        stay=(),
        votes=(),
        shared=(frozenset({"ada", "bo"}),),
    )

    after = ballot._replace(votes=(vote("bo"),))

    assert (ballot.answering, after.answering) == (("ada", "bo"), ("bo", "cem"))
    assert (ballot.filled, after.filled) == (frozenset[str](), frozenset({"ada"}))


def test_only_the_place_of_the_person_who_answers_is_filled() -> None:
    """Delegates of another absent person may still answer, and a vote fills no place of its own."""
    ballot = Ballot(
        rules=Asking(quorum=2),
        own=("ada", "bo", "cem", "dee"),
        stay=(),
        votes=(vote("dee"),),
        shared=(frozenset({"ada", "bo"}), frozenset({"cem", "dee"})),
    )

    assert ballot.filled == {"cem"}
    assert ballot.answering == ("ada", "bo", "dee")
    assert ballot.can_reach(["ada", "dee"])
    assert not ballot.can_reach(["cem", "dee"])


def test_votes_for_and_against_are_counted_apart() -> None:
    """With a veto, only a rejection rejects, and an approval is no rejection."""
    ballot = Ballot(Asking(quorum=2), ("ada", "bo"), (), (vote("ada"),))

    assert (ballot.yes, ballot.no, ballot.lost) == (("ada",), (), False)
    against = ballot._replace(votes=(vote("ada"), vote("bo", Verdict.REJECT)))
    assert (against.yes, against.no, against.lost) == (("ada",), ("bo",), True)


def test_strangers_are_refused_before_any_policy_is_read() -> None:
    """A directory without strangers refuses unknown requesters, even if a policy allows it."""
    closed = Directory([MARA, CLEO], strangers=False)
    facts = make_approval().facts

    choice = choose(
        (Policy(name="all", effect="allow", at_most="20/h"),), DEFAULT, closed, facts, now=NOON
    )

    assert choice.refused
    assert (choice.start, choice.people) == (None, ())
    known = Directory([MARA, CLEO, RILEY], strangers=False)
    assert not choose((), DEFAULT, known, facts, now=NOON).refused


def test_a_second_step_that_was_needed_is_needed_under_the_default_too() -> None:
    """If no policy applies any more, the default does not drop the second step of before."""
    facts = make_approval().facts

    choice = choose((), DEFAULT, PEOPLE, facts, now=NOON, second_step=True)

    assert choice.terms.second_step
    assert not choose((), DEFAULT, PEOPLE, facts, now=NOON).terms.second_step


def test_reminders_after_the_deadline_are_not_planned() -> None:
    """A reminder at the deadline or after it would ask about what has ended."""
    level = Level(ask=("mara",), within="1h", remind=("20m", "50m", "1h", "2h"))
    shorter = Policy(name="all", levels=(level,))
    choice = choose((shorter,), DEFAULT, PEOPLE, make_approval().facts, now=NOON)

    assert choice.start is not None
    assert choice.start.deadline == NOON + timedelta(hours=1)
    assert choice.start.reminders == (
        NOON + timedelta(minutes=20),
        NOON + timedelta(minutes=50),
    )


def test_people_of_another_group_do_not_fill_a_group() -> None:
    """The note about a group that cannot approve counts only the people of that group."""
    both = Level(all_of=(Group(ask=("mara",)), Group(ask=("riley", "cleo"), quorum=2)))

    choice = choose(
        (Policy(name="all", levels=(both,)),), DEFAULT, PEOPLE, make_approval().facts, now=NOON
    )

    assert choice.stranded
    assert "2 of riley, cleo must approve, and only 1 can be asked" in choice.notes
