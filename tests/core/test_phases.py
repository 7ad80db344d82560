"""Phases: each one has to approve, one after the other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from builders import NOON, make_approval, make_origin
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.base.errors import Escalated, GrantRefused, PayloadError
from signoff.core.directory.people import Directory, Person
from signoff.core.grants.grant import may_grant
from signoff.core.policies.levels import Earlier, Level
from signoff.core.policies.policy import Fallback, GrantRules, Policy
from signoff.core.routing.escalation import advance, pass_on
from signoff.core.routing.selection import choose

HOUR = timedelta(hours=1)
ADA, BO, CY, DEE, EVE = (
    Person(id=one, name=one.title(), email=f"{one}@example.com")
    for one in ("ada", "bo", "cy", "dee", "eve")
)
PEOPLE = Directory([ADA, BO, CY, DEE, EVE])


def level(*ask: str, phase: str = "", **rules: Any) -> Level:
    """Return a level with a deadline of an hour."""
    return Level(ask=ask, within="1h", phase=phase, **rules)


MANAGER = level("ada", phase="manager")
DEPUTY = level("bo", phase="manager")
BOARD = level("cy", "dee", "eve", phase="board", quorum=2)


def asked(*levels: Level, template: JsonValue = None, **rules: Any) -> Approval:
    """Return an approval whose first level begins at noon."""
    policy = Policy(name="p", levels=levels, **rules)
    opened = make_approval(origin=make_origin(user="stranger"), template=template)
    choice = choose([policy], Fallback(), PEOPLE, opened.facts, now=NOON)
    assert choice.start is not None
    return opened.ask(choice.terms, (), now=NOON, start=choice.start)[0]


def says(approval: Approval, person: Person, *, yes: bool = True, **parts: Any) -> Approval:
    """Return the approval after an answer, in the next phase if that is due."""
    parts = {"now": NOON + timedelta(minutes=5), "channel": "email", **parts}
    move = approval.approve if yes else approval.reject
    after, _ = move(person, PEOPLE, **parts)
    went = pass_on(after, PEOPLE, now=parts["now"])
    assert went is not None
    return went[0]


def test_the_manager_and_then_two_of_the_board() -> None:
    """The board is asked after the manager's approval; its second approval ends the request."""
    approval = asked(MANAGER, DEPUTY, BOARD)
    assert approval.ballot.own == ("ada",)
    approval = says(approval, ADA)
    assert (approval.state, approval.level) == (State.PENDING, 2)
    assert approval.ballot.own == ("cy", "dee", "eve")
    assert approval.deadline == NOON + timedelta(minutes=65)
    approval = says(approval, CY)
    assert approval.state is State.PENDING
    approval = says(approval, EVE)
    assert approval.state is State.APPROVED
    assert approval.decided_by == ("ada", "cy", "eve")


def test_silent_approver_escalates_within_the_same_phase() -> None:
    """The deputy replaces a silent manager; if both are silent, the board is not asked."""
    approval, _ = advance(asked(MANAGER, DEPUTY, BOARD), PEOPLE, now=NOON + HOUR)
    assert approval.ballot.own == ("bo",)
    board = says(approval, BO, now=NOON + HOUR)
    assert board.ballot.own == ("cy", "dee", "eve")
    ended, _ = advance(approval, PEOPLE, now=NOON + 2 * HOUR)
    assert ended.state is State.TIMED_OUT


def test_silence_of_a_later_phase_rejects() -> None:
    """If the board does not answer, the manager's approval is not enough."""
    board = says(asked(MANAGER, BOARD), ADA)
    ended, _ = advance(board, PEOPLE, now=NOON + 3 * HOUR)
    assert ended.state is State.TIMED_OUT


def test_rejection_in_any_phase_ends_the_request() -> None:
    """A rejection by the manager or by a board member ends the request."""
    assert says(asked(MANAGER, BOARD), ADA, yes=False).state is State.REJECTED
    assert says(says(asked(MANAGER, BOARD), ADA), DEE, yes=False).state is State.REJECTED


def test_approver_of_an_earlier_phase_cannot_vote_in_the_next() -> None:
    """`earlier = "stay"` keeps the levels of a phase open, not earlier phases."""
    stay = BOARD.model_copy(update={"earlier": Earlier.STAY})
    board = says(asked(MANAGER, stay), ADA)
    assert board.approvers == {"cy", "dee", "eve"}
    for yes in (True, False):
        with pytest.raises(Escalated, match="went on to"):
            says(board, ADA, yes=yes)


def test_person_asked_twice_counts_once_per_phase() -> None:
    """With `ask_twice`, Ada's approval as the manager is not one of the board's two."""
    board = level("ada", "cy", phase="board", quorum=2)
    approval = says(asked(MANAGER, board, ask_twice=True), ADA)
    assert (approval.ballot.yes, approval.ballot.awaited) == ((), ("ada", "cy"))
    approval = says(approval, ADA)
    assert approval.state is State.PENDING
    assert len(approval.votes) == 2
    approval = says(approval, CY)
    assert (approval.state, approval.decided_by) == (State.APPROVED, ("ada", "cy"))


def test_later_phase_must_approve_the_same_values() -> None:
    """Values that differ from those of the earlier phase are refused."""
    approval = asked(MANAGER, BOARD, template={"days": 0})
    approval = says(approval, ADA, values={"days": 3})
    with pytest.raises(PayloadError, match="Ada has approved this with"):
        says(approval, CY, values={"days": 5})
    approval = says(approval, CY, values={"days": 3})
    assert says(approval, DEE, values={"days": 3}).state is State.APPROVED


def test_a_phase_without_people_is_not_passed_over() -> None:
    """The phase is marked as vacant, and the quorum stays as high."""
    approval = asked(MANAGER, level("nobody", phase="board", quorum=2))
    after, events = approval.approve(ADA, PEOPLE, channel="cli", now=NOON)
    assert (after.passed, after.state) == (True, State.PENDING)
    assert [one.what for one in events] == [What.VOTED]
    assert pass_on(after, PEOPLE, now=NOON) is None
    assert (after.still_needed, approval.still_needed) == (2, 3)


def test_invalid_phase_settings_are_refused() -> None:
    """The levels of a phase have to be adjacent, and silence cannot approve."""
    with pytest.raises(ValidationError, match="not adjacent"):
        Policy(name="p", levels=(MANAGER, BOARD, DEPUTY))
    with pytest.raises(ValidationError, match="a timeout cannot approve"):
        Policy(name="p", levels=(MANAGER, BOARD), on_timeout="approve", ceiling="true")


def test_grant_does_not_replace_phases() -> None:
    """A grant stands for one approval, and phases need several."""
    rules = GrantRules(who=("ada",))
    approval = asked(MANAGER, level("cy", phase="board"), grants=rules)
    with pytest.raises(GrantRefused, match="more than one approval"):
        may_grant(approval, "ada")


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    # Mostly approvals in time, because otherwise hardly any example ends in one.
    votes=st.lists(
        st.tuples(st.sampled_from(list(PEOPLE)), st.sampled_from([True] * 9 + [False])),
        min_size=12,
        max_size=24,
    ),
    waits=st.lists(st.sampled_from([0] * 18 + [5, 70]), min_size=24, max_size=24),
)
def test_every_approved_request_has_the_quorum_of_each_phase(
    *, sizes: list[int], votes: list[tuple[Person, bool]], waits: list[int]
) -> None:
    """In any order of answers, an approved request has each phase's quorum of its own people."""
    ids = [one.id for one in PEOPLE]
    levels = tuple(
        level(*ids[number : number + 3] or ids[:1], phase=f"s{number}", quorum=min(size, 2))
        for number, size in enumerate(sizes)
        if number + 2 <= len(ids)
    )
    approval, now = asked(*levels), NOON
    for (person, yes), wait in zip(votes, waits, strict=False):
        now += timedelta(minutes=wait)
        approval, _ = advance(approval, PEOPLE, now=now)
        if approval.state is State.PENDING and person.id in approval.approvers:
            approval = says(approval, person, yes=yes, now=now)
    if approval.state is State.APPROVED:
        final = approval.decision
        assert final is not None
        given_ = [(one.level, one.by) for one in approval.votes if one.verdict == "approve"]
        given_.append((approval.level, final.by))
        for number, rules in enumerate(levels):
            mine = {by for at, by in given_ if at == number}
            assert mine <= set(rules.ask)
            assert isinstance(rules.quorum, int)
            assert len(mine) >= rules.quorum
