"""Each move as a value: who may make it, and what it checks before it decides."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import JsonValue

from builders import CLEO, MARA, NOON, RILEY, ask, make_approval, make_call
from signoff.core.approvals import collaboration, moves
from signoff.core.approvals.approval import Approval, Kind, State
from signoff.core.approvals.collaboration import Operator, Who
from signoff.core.approvals.moves import Actor, Move
from signoff.core.approvals.parts import Assurance, mark_of
from signoff.core.base.errors import (
    AlreadyDecided,
    ApprovalError,
    DecisionRefused,
    IllegalMove,
    NotAnApprover,
    ReasonContradicts,
    ReasonNeeded,
)
from signoff.core.directory.people import Directory, Person

DAN = Person(id="dan", name="Dan Roe", email="dan@example.com")
DIRECTORY = Directory([MARA, CLEO, RILEY, DAN])
ROOT = Operator(name="root (cli)")
ACTORS: dict[str, Who | None] = {
    "mara": MARA,
    "cleo": CLEO,
    "riley": RILEY,
    "dan": DAN,
    "root": ROOT,
    "": None,
}
"""Two approvers, the requester, somebody else, an operator, and somebody who is not proven."""

EVERY: dict[str, tuple[Move, set[str]]] = {
    "approve": (moves.Approve(), {"mara", "cleo"}),
    "approve together": (moves.Approve(together=True), {"mara", "cleo"}),
    "reject": (moves.Reject(), {"mara", "cleo"}),
    "break_glass": (moves.BreakGlass(reason="fire"), {"dan"}),
    "withdraw": (moves.Withdraw(), {"riley", "root"}),
    "claim": (moves.Claim(), {"mara", "cleo"}),
    "release": (moves.Release(), {"mara", "root"}),
    "reassign": (moves.Reassign(of=MARA, to=DAN, reason="x"), {"mara", "root"}),
    "ask": (moves.AskBack(text="why?"), {"mara", "cleo"}),
    "answer": (moves.AnswerBack(text="so"), {"riley"}),
    "comment": (moves.Comment(text="hm"), {"mara", "cleo", "riley", "root"}),
    "extend": (moves.Extend(by=timedelta(hours=1), reason="busy"), {"mara", "cleo", "root"}),
    "remind": (moves.Remind(), {"mara", "cleo", "riley", "root"}),
    "take_edit": (moves.TakeEdit(reason="as I said"), {"mara", "cleo"}),
}
"""Each move, and who may make it."""


def waiting(*, second_step: bool = False, args: dict[str, JsonValue] | None = None) -> Approval:
    """Return an approval that Mara and Cleo are asked about; Dan may break the glass."""
    call = make_call(**args) if args else None
    approval = ask(make_approval(call=call), second_step=second_step)
    assert approval.terms is not None
    update = {"break_glass": ("dan",), "batch": not second_step}
    return approval.model_copy(update={"terms": approval.terms.model_copy(update=update)})


def made(move: Move, who: Who | None, approval: Approval, channel: str = "inbox") -> Approval:
    """Return the approval after a move of somebody, who has given a second factor."""
    actor = Actor(who, channel, assurance=Assurance.SECOND_FACTOR)
    return move.make(approval, actor, DIRECTORY, NOON)[0]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("actor", ACTORS)
def test_only_the_listed_people_make_a_move(name: str, actor: str) -> None:
    """All others are refused; nobody makes a move without a proven identity."""
    move, may = EVERY[name]
    approval = waiting()
    if name == "release":
        approval = collaboration.claim(approval, MARA, DIRECTORY, now=NOON)[0]
    if actor in may:
        assert made(move, ACTORS[actor], approval) != approval
        return
    with pytest.raises(ApprovalError) as caught:
        made(move, ACTORS[actor], approval)
    assert actor or isinstance(caught.value, NotAnApprover)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("actor", ACTORS)
def test_nobody_makes_a_move_after_the_decision(name: str, actor: str) -> None:
    """A decision is final, for every move and everybody."""
    ended = made(moves.Reject(), MARA, waiting())
    with pytest.raises((ApprovalError, IllegalMove)):
        made(EVERY[name][0], ACTORS[actor], ended)


def test_every_move_is_listed_here() -> None:
    """A new move gets its row in the table; `Confirm` has tests of its own below."""
    known = {move.name for move, _ in EVERY.values()} | {moves.Confirm.name}
    kinds = [one for one in vars(moves).values() if isinstance(one, type) and issubclass(one, Move)]
    assert {one.name for one in kinds if one is not Move} == known


@pytest.mark.parametrize(
    ("reason", "as_it_is", "decides"),
    [
        ("", False, True),
        ("as agreed", False, True),
        ("only up to 500", False, False),
        ("reject this", False, False),
        ("only up to 500", True, True),
    ],
)
def test_a_reason_that_contradicts_decides_only_if_it_is_confirmed(
    reason: str, as_it_is: bool, decides: bool
) -> None:
    """This holds for one step and for the second of two; a rejection takes any reason."""
    first = waiting(second_step=True).approve(MARA, DIRECTORY, channel="email", now=NOON)[0]
    mark = mark_of(first.steps[0])
    both: tuple[tuple[Move, Approval], ...] = (
        (moves.Approve(reason=reason, as_it_is=as_it_is), waiting()),
        (moves.Confirm(mark=mark, reason=reason, as_it_is=as_it_is), first),
    )
    for move, approval in both:
        assert move.details == ({"as_it_is": True} if as_it_is else {})
        if decides:
            assert made(move, MARA, approval).state is State.APPROVED
        else:
            with pytest.raises(ReasonContradicts):
                made(move, MARA, approval)
    assert made(moves.Reject(reason=reason), MARA, waiting()).state is State.REJECTED


def test_a_proposal_and_an_answer_to_a_question_take_any_reason() -> None:
    """Other values reject the shown call, and the values of an answer say what it is."""
    proposes = moves.Approve(values={"amount": 500}, reason="only up to 500")
    assert made(proposes, MARA, waiting()).state is State.REJECTED
    same = moves.Approve(values={"amount": 2500}, reason="only up to 500")
    with pytest.raises(ReasonContradicts):
        made(same, MARA, waiting())
    question = waiting().model_copy(update={"kind": Kind.INPUT})
    moves.must_not_contradict(question, "only up to 500")


def test_an_approval_with_others_needs_a_policy_that_allows_it() -> None:
    """Everything that one click must not approve is refused, and counts alone."""
    together = moves.Approve(together=True)
    assert together.details == {"batch": True}
    batch = waiting()
    assert batch.batchable
    assert batch.terms is not None
    forbidden: dict[str, dict[str, object]] = {
        "policy": {"terms": batch.terms.model_copy(update={"batch": False})},
        "values": {"template": {"days": 5}},
        "second step": {"terms": batch.terms.model_copy(update={"second_step": True})},
        "input": {"kind": Kind.INPUT},
        "result": {"kind": Kind.LONG_RUNNING},
        "reason": {"terms": batch.terms.model_copy(update={"reasons": ("approve",)})},
    }
    for name, update in forbidden.items():
        approval = batch.model_copy(update=update)
        assert not approval.batchable, name
        with pytest.raises(DecisionRefused, match="together with others"):
            made(together, MARA, approval)
    assert not batch.model_copy(update={"terms": None}).batchable
    ended = made(moves.Reject(), CLEO, batch)
    assert not ended.batchable
    with pytest.raises(AlreadyDecided):
        made(together, MARA, ended)


def test_breaking_the_glass_needs_a_reason() -> None:
    """A blank one is none."""
    for reason in ("", " \n"):
        with pytest.raises(ReasonNeeded):
            made(moves.BreakGlass(reason=reason), DAN, waiting())


def test_the_actor_of_an_event_is_the_person_or_the_name_that_is_known() -> None:
    """The audit names the channel and the proof of each actor."""
    proof: dict[str, JsonValue] = {"token": "t1"}
    assert Actor(MARA, "api", proof).details == {"channel": "api", "token": "t1"}
    assert Actor(None).details == {}
    assert Actor(MARA, known_as="?").by == "mara"
    assert Actor(None, known_as="eve@example.com").by == "eve@example.com"
