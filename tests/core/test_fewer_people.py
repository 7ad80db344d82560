"""Where several yeses are wanted, fewer people never make it fewer."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import CLEO, MARA, NOON, RILEY, make_approval
from signoff.core.approvals.approval import Approval, State
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.routing.selection import choose

DAN = Person(id="dan", name="Dan Roe", email="dan@example.com")
DIRECTORY = Directory([MARA, CLEO, RILEY, DAN])
DEFAULT = Fallback(ask=("dan", "cleo"))


def routed(policy: Policy, default: Fallback = DEFAULT) -> tuple[Approval, tuple[str, ...]]:
    """Return an approval as it begins under a policy, and what was noted."""
    approval = make_approval()
    choice = choose((policy,), default, DIRECTORY, approval.facts, now=NOON)
    after, _ = approval.ask(choice.terms, (), now=NOON, start=choice.start)
    return after, choice.notes


def yes(approval: Approval, person: Person) -> Approval:
    """Return it after one more yes."""
    now = NOON + timedelta(minutes=1)
    return approval.approve(person, DIRECTORY, channel="email", now=now)[0]


def test_two_yeses_are_not_one_where_one_can_be_asked() -> None:
    """The requester cannot help, so the other one's yes waits for a second for ever."""
    policy = Policy(name="both", ask=("mara", "riley"), quorum=2)

    approval, notes = routed(policy)
    after = yes(approval, MARA)

    assert "it takes 2 of them, and 1 can be asked" in notes
    assert after.state is State.PENDING
    late = NOON + timedelta(days=2)
    assert after.time_out(now=late)[0].state is State.TIMED_OUT


@pytest.mark.parametrize("veto", [True, False])
def test_it_can_be_rejected(veto: bool) -> None:
    """A no ends what no yes can."""
    approval, _ = routed(Policy(name="both", ask=("mara", "riley"), quorum=2, veto=veto))

    now = NOON + timedelta(minutes=1)
    after, _ = approval.reject(MARA, DIRECTORY, channel="email", now=now)

    assert after.state is State.REJECTED


@pytest.mark.parametrize(
    ("levels", "count"),
    [
        ((Level(ask=("nobody",), quorum=2),), 2),
        ((Level(ask=("nobody",), quorum=2), Level(ask=("riley",), quorum=3)), 2),
        ((Level(ask=("nobody",), quorum=2), Level(ask=("riley",))), 1),
        ((Level(ask=("nobody",), quorum="all"),), 1),
    ],
)
def test_the_default_is_no_easier(levels: tuple[Level, ...], count: int) -> None:
    """In place of a policy that has nobody it takes as many as its easiest level does."""
    approval, _ = routed(Policy(name="gone", levels=levels))

    after = yes(approval, DAN)
    assert after.state is (State.APPROVED if count == 1 else State.PENDING)
    if count == 2:
        assert yes(after, CLEO).state is State.APPROVED


def test_nor_where_the_condition_cannot_be_evaluated() -> None:
    """A badly typed argument does not reach an easier question."""
    approval, _ = routed(Policy(name="odd", when="args.amount > 'x'", ask=("mara",), quorum=2))

    assert yes(approval, DAN).state is State.PENDING


def test_nor_where_mail_to_those_of_the_policy_comes_back() -> None:
    """The default, asked in place of people who cannot be reached, needs as many yeses."""
    policy = Policy(name="both", ask=("mara", "cleo"), quorum=2)
    approval, _ = routed(policy)
    choice = choose((), Fallback(ask=("dan",)), DIRECTORY, approval.facts, now=NOON)

    after, _ = approval.ask(choice.terms, (), now=NOON, start=choice.start)

    assert yes(after, DAN).state is State.PENDING
    assert yes(yes(after, DAN), MARA).state is State.APPROVED
