"""The moves that do not decide: who may make them, what they change, what they never change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import (
    CLEO,
    MARA,
    NOON,
    RILEY,
    ask,
    asked_approval,
    make_approval,
    make_origin,
    present,
)
from signoff.core.approvals import collaboration
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.collaboration import MOST_COMMENTS, Operator
from signoff.core.approvals.events import What
from signoff.core.approvals.parts import CommentKind
from signoff.core.base.errors import (
    AlreadyDecided,
    ApprovalError,
    Claimed,
    DecisionRefused,
    MoveRefused,
    NotAnApprover,
    OwnRequest,
    TooLate,
)
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.policy import Fallback, OnQuestion, OnTimeout, Policy
from signoff.core.routing.selection import choose

DAN = Person(id="dan", name="Dan Roe", email="dan@example.com")
EVERYBODY = (MARA, CLEO, RILEY, DAN)
DIRECTORY = Directory(EVERYBODY)
ROOT = Operator(name="root (cli)")
HOUR = timedelta(hours=1)


def claimed(by: Person = MARA, *, now: datetime = NOON, **parts: Any) -> Approval:
    """Return an approval that Mara and Cleo are asked about, claimed by one of them."""
    return collaboration.claim(asked_approval(), by, DIRECTORY, now=now, **parts)[0]


def approve(approval: Approval, person: Person, now: datetime = NOON) -> Approval:
    """Return the approval after an approval by a person."""
    return approval.approve(person, DIRECTORY, channel="email", now=now)[0]


def test_claim_blocks_other_approvers_until_it_ends() -> None:
    """The others learn who holds the claim and until when; after its end everybody may decide."""
    approval, (event,) = collaboration.claim(
        asked_approval(), MARA, DIRECTORY, now=NOON, length=HOUR
    )
    assert (event.what, event.by) == (What.CLAIMED, "mara")
    assert approval.deadline == asked_approval().deadline
    with pytest.raises(Claimed, match=r"Mara Lind has claimed .* until Mon 2 Mar 2026, 13:00 UTC"):
        approve(approval, CLEO)
    with pytest.raises(Claimed):
        approval.reject(CLEO, DIRECTORY, channel="email", now=NOON + HOUR - timedelta.resolution)
    assert approve(approval, MARA).state is State.APPROVED
    assert approve(approval, CLEO, NOON + HOUR).state is State.APPROVED


def test_a_claim_ends_at_the_deadline_and_after_a_day_at_the_latest() -> None:
    """A claim does not extend the deadline, and ends after a day if the request stays open."""
    assert present(claimed(length=9 * HOUR).claimed).until == NOON + 4 * HOUR
    open_still = ask(make_approval(), on_timeout=OnTimeout.STAY)
    long, _ = collaboration.claim(
        open_still, MARA, DIRECTORY, now=NOON + 5 * HOUR, length=90 * HOUR
    )
    assert long.claimed is not None
    assert long.claimed.until == NOON + 29 * HOUR
    with pytest.raises(MoveRefused, match="needs a length"):
        collaboration.claim(asked_approval(), MARA, DIRECTORY, now=NOON, length=-HOUR)


def test_claim_is_renewed_only_by_its_holder() -> None:
    """A second claim of the holder starts again from now; other people wait for its end."""
    again, _ = collaboration.claim(claimed(), MARA, DIRECTORY, now=NOON + timedelta(minutes=20))
    assert again.claimed is not None
    assert again.claimed.until == NOON + timedelta(minutes=50)
    with pytest.raises(Claimed):
        collaboration.claim(again, CLEO, DIRECTORY, now=NOON + timedelta(minutes=49))
    taken, _ = collaboration.claim(again, CLEO, DIRECTORY, now=NOON + timedelta(minutes=50))
    assert taken.claimed is not None
    assert taken.claimed.by == "cleo"


def test_a_claim_is_given_back_by_its_owner_or_the_operator() -> None:
    """Other people cannot release it, and a claim that does not exist cannot be released."""
    with pytest.raises(MoveRefused, match="only they or an operator can release it"):
        collaboration.release(claimed(), CLEO, DIRECTORY, now=NOON)
    for who in (MARA, ROOT):
        free, (event,) = collaboration.release(claimed(), who, DIRECTORY, now=NOON, reason="ill")
        assert (event.what, event.by, event.why) == (What.RELEASED, who.id, "ill")
        assert event.more["of"] == "mara"
        assert approve(free, CLEO).state is State.APPROVED
    with pytest.raises(MoveRefused, match="Nobody has claimed"):
        collaboration.release(asked_approval(), MARA, DIRECTORY, now=NOON)
    with pytest.raises(MoveRefused, match="Nobody has claimed"):
        collaboration.release(claimed(), MARA, DIRECTORY, now=NOON + HOUR)


def test_expired_claim_is_removed_once() -> None:
    """Nothing changes while the claim holds; its end is recorded in exactly one event."""
    approval = claimed()
    assert collaboration.end_claim(approval, now=NOON) == (approval, ())
    free, (event,) = collaboration.end_claim(approval, now=NOON + HOUR)
    assert (free.claimed, event.what, event.why) == (None, What.RELEASED, "the claim ran out")
    assert collaboration.end_claim(free, now=NOON + HOUR) == (free, ())


def test_only_current_approvers_can_claim_or_ask_back() -> None:
    """The requester and strangers may not, and nobody may after the deadline or the end."""
    late, over = NOON + 4 * HOUR, approve(asked_approval(), MARA)
    for approval, person, now, error in (
        (asked_approval(), RILEY, NOON, OwnRequest),
        (asked_approval(), DAN, NOON, NotAnApprover),
        (asked_approval(), MARA, late, TooLate),
        (over, CLEO, NOON, AlreadyDecided),
        (claimed(), CLEO, NOON, Claimed),
    ):
        with pytest.raises(error):
            collaboration.claim(approval, person, DIRECTORY, now=now)
        with pytest.raises(error):
            collaboration.ask_back(approval, person, DIRECTORY, text="why?", now=now)


def test_question_and_the_requester_answer_join_the_card() -> None:
    """Question and answer keep their order; an answer without a question is a comment."""
    asked, (event,) = collaboration.ask_back(
        asked_approval(), MARA, DIRECTORY, text="Which team?", now=NOON
    )
    assert (event.what, event.by, event.why) == (What.ASKED_BACK, "mara", "Which team?")
    assert asked.open_question == asked.comments[0]
    answered, (event,) = collaboration.answer_back(
        asked, RILEY, DIRECTORY, text=" Sales\x07 ", now=NOON
    )
    assert (event.what, event.by, event.why) == (What.ANSWERED_BACK, "riley", "Sales")
    more, (event,) = collaboration.answer_back(
        answered, RILEY, DIRECTORY, text="and Support", now=NOON
    )
    assert event.what is What.COMMENTED
    assert [(one.by, one.text, one.sort) for one in more.comments] == [
        ("mara", "Which team?", CommentKind.QUESTION),
        ("riley", "Sales", CommentKind.ANSWER),
        ("riley", "and Support", CommentKind.COMMENT),
    ]
    assert (more.state, more.deadline) == (State.PENDING, asked_approval().deadline)


def test_only_the_requester_answers_and_withdraws() -> None:
    """An approver cannot answer for the requester, and cannot withdraw the request."""
    with pytest.raises(MoveRefused, match="only the requester can answer"):
        collaboration.answer_back(asked_approval(), MARA, DIRECTORY, text="Sales", now=NOON)
    with pytest.raises(MoveRefused, match="only the requester can withdraw"):
        asked_approval().may_withdraw(MARA, DIRECTORY)
    with pytest.raises(AlreadyDecided):
        approve(asked_approval(), MARA).may_withdraw(RILEY, DIRECTORY)
    with pytest.raises(TooLate):
        collaboration.answer_back(
            asked_approval(), RILEY, DIRECTORY, text="Sales", now=NOON + 4 * HOUR
        )
    asked_approval().may_withdraw(RILEY, DIRECTORY)


def test_unknown_requester_cannot_be_asked() -> None:
    """The approver is told immediately that no answer can come, and what to do instead."""
    approval = ask(make_approval(origin=make_origin(user="u-17")))
    with pytest.raises(MoveRefused, match="'u-17' is not in"):
        collaboration.ask_back(approval, MARA, DIRECTORY, text="why?", now=NOON)


def test_comments_are_limited_to_involved_people_and_a_size() -> None:
    """A stranger cannot comment; each text is cut, and the number of comments is limited."""
    approval = asked_approval()
    with pytest.raises(MoveRefused, match="nothing to do with"):
        collaboration.comment(approval, DAN, DIRECTORY, text="hello", now=NOON)
    with pytest.raises(MoveRefused, match="no words"):
        collaboration.comment(approval, MARA, DIRECTORY, text=" \x00 ", now=NOON)
    for who in (MARA, RILEY, ROOT):
        approval, _ = collaboration.comment(approval, who, DIRECTORY, text="x" * 5_000, now=NOON)
    assert {len(one.text) for one in approval.comments} == {2_000}
    for _ in range(MOST_COMMENTS - 3):
        approval, _ = collaboration.comment(approval, MARA, DIRECTORY, text="more", now=NOON)
    with pytest.raises(MoveRefused, match="no room"):
        collaboration.comment(approval, MARA, DIRECTORY, text="more", now=NOON)


def test_deadline_extension_needs_a_reason_and_has_a_limit() -> None:
    """Approvers and administrators extend it with a reason; the requester cannot."""
    approval, (event,) = collaboration.extend(
        asked_approval(), MARA, DIRECTORY, more=3 * HOUR, reason="vendor is slow", now=NOON
    )
    assert approval.deadline == NOON + 7 * HOUR
    assert (event.what, event.why, event.more["by"]) == (What.EXTENDED, "vendor is slow", "3h")
    assert approve(approval, CLEO, NOON + 6 * HOUR).state is State.APPROVED
    with pytest.raises(MoveRefused, match="1h is the most"):
        collaboration.extend(approval, ROOT, DIRECTORY, more=2 * HOUR, reason="more", now=NOON)
    full, _ = collaboration.extend(approval, ROOT, DIRECTORY, more=HOUR, reason="more", now=NOON)
    with pytest.raises(MoveRefused, match="prolonged enough"):
        collaboration.extend(full, MARA, DIRECTORY, more=HOUR, reason="more", now=NOON)
    for person, reason, more, now, error in (
        (RILEY, "please", HOUR, NOON, OwnRequest),
        (DAN, "please", HOUR, NOON, NotAnApprover),
        (MARA, " ", HOUR, NOON, MoveRefused),
        (MARA, "less", -HOUR, NOON, MoveRefused),
        (MARA, "late", HOUR, NOON + 4 * HOUR, TooLate),
        (ROOT, "late", HOUR, NOON + 4 * HOUR, TooLate),
    ):
        with pytest.raises(error):
            collaboration.extend(
                asked_approval(), person, DIRECTORY, more=more, reason=reason, now=now
            )


MOVES: dict[str, Callable[[Approval, Person, datetime], tuple[Approval, object]]] = {
    "claim": lambda one, who, now: collaboration.claim(one, who, DIRECTORY, now=now),
    "release": lambda one, who, now: collaboration.release(one, who, DIRECTORY, now=now),
    "end_claim": lambda one, _, now: collaboration.end_claim(one, now=now),
    "comment": lambda one, who, now: collaboration.comment(one, who, DIRECTORY, text="hm", now=now),
    "ask_back": lambda one, who, now: collaboration.ask_back(
        one, who, DIRECTORY, text="why?", now=now
    ),
    "answer_back": lambda one, who, now: collaboration.answer_back(
        one, who, DIRECTORY, text="so", now=now
    ),
    "extend": lambda one, who, now: collaboration.extend(
        one, who, DIRECTORY, more=HOUR, reason="busy", now=now
    ),
}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(MOVES)),
            st.sampled_from(EVERYBODY),
            st.integers(min_value=0, max_value=90),
        ),
        max_size=15,
    ),
    st.sampled_from(EVERYBODY),
    st.sampled_from([OnTimeout.REJECT, OnTimeout.STAY]),
)
def test_no_sequence_of_moves_decides_or_adds_an_approver(
    steps: list[tuple[str, Person, int]], decider: Person, on_timeout: OnTimeout
) -> None:
    """It stays pending with the same call, and nobody else becomes able to decide."""
    plain = approval = ask(make_approval(), on_timeout=on_timeout)
    now = NOON
    for name, person, minutes in steps:
        now += timedelta(minutes=minutes)
        try:
            approval, _ = MOVES[name](approval, person, now)
        except ApprovalError:
            continue  # a refusal changes nothing
    assert (approval.state, approval.digest, approval.decision) == (
        State.PENDING,
        plain.digest,
        None,
    )
    assert approval.deadline is not None
    assert NOON + 4 * HOUR <= approval.deadline <= NOON + 8 * HOUR
    again = Approval.model_validate_json(approval.model_dump_json(exclude_defaults=True))
    assert again == approval
    try:
        approval.may_decide(decider, DIRECTORY, now=now)
    except DecisionRefused:
        return
    assert decider in (MARA, CLEO)
    assert now < approval.deadline or on_timeout is OnTimeout.STAY
    claim = approval.claim_at(now)
    assert claim is None or claim.by == decider.id


def test_no_renewal_passes_the_end_of_a_claim() -> None:
    """A claim ends a day after it began, even if its holder renews it."""
    open_still = ask(make_approval(), on_timeout=OnTimeout.STAY, within=timedelta(days=9))
    approval, _ = collaboration.claim(open_still, MARA, DIRECTORY, now=NOON, length=20 * HOUR)
    approval, _ = collaboration.claim(
        approval, MARA, DIRECTORY, now=NOON + 19 * HOUR, length=20 * HOUR
    )
    assert approval.claimed is not None
    assert approval.claimed.until == NOON + 24 * HOUR
    approval, _ = collaboration.claim(
        approval, MARA, DIRECTORY, now=NOON + 23 * HOUR, length=20 * HOUR
    )
    with pytest.raises(Claimed):
        approve(approval, CLEO, NOON + 24 * HOUR - timedelta.resolution)
    assert approve(approval, CLEO, NOON + 24 * HOUR).state is State.APPROVED


@given(st.lists(st.integers(0, 30), max_size=12), st.integers(1, 40))
def test_claims_hold_a_request_for_a_day_at_most(pauses: list[int], length: int) -> None:
    """However often a person claims a request, they hold it for a day at most."""
    approval = ask(make_approval(), on_timeout=OnTimeout.STAY, within=timedelta(days=90))
    now, first = NOON, NOON
    approval, _ = collaboration.claim(approval, MARA, DIRECTORY, now=now, length=length * HOUR)
    for pause in pauses:
        now += pause * HOUR
        if approval.claim_at(now) is None:
            first = now
        approval, _ = collaboration.claim(approval, MARA, DIRECTORY, now=now, length=length * HOUR)
        assert approval.claimed is not None
        assert now < approval.claimed.until <= first + 24 * HOUR


def paused() -> Approval:
    """Return an approval of four hours, from noon, whose policy lets questions stop the clock."""
    approval = asked_approval()
    assert approval.terms is not None
    terms = approval.terms.model_copy(update={"clock": OnQuestion.PAUSE})
    reminders = (NOON + HOUR, NOON + 3 * HOUR)
    return approval.model_copy(update={"terms": terms, "reminders": reminders, "reminded": 1})


def test_question_pauses_the_deadline_when_the_policy_sets_it() -> None:
    """The clock stops until the answer; later reminders move, a sent reminder does not."""
    asked, _ = collaboration.ask_back(paused(), MARA, DIRECTORY, text="Which?", now=NOON + 2 * HOUR)
    assert asked.deadline == NOON + 8 * HOUR
    again, _ = collaboration.ask_back(asked, CLEO, DIRECTORY, text="And when?", now=NOON + 3 * HOUR)
    assert again.deadline == NOON + 8 * HOUR
    answered, _ = collaboration.answer_back(
        again, RILEY, DIRECTORY, text="That.", now=NOON + 5 * HOUR
    )
    assert answered.deadline == NOON + 7 * HOUR
    assert answered.reminders == (NOON + HOUR, NOON + 6 * HOUR)
    plain, _ = collaboration.ask_back(asked_approval(), MARA, DIRECTORY, text="Which?", now=NOON)
    assert plain.deadline == asked_approval().deadline


@given(st.integers(0, 239), st.integers(0, 2000))
def test_pause_preserves_the_time_to_decide(at: int, waited: int) -> None:
    """The time to decide stays the same; without an answer the pause is as long as the level."""
    minute = timedelta(minutes=1)
    asked, _ = collaboration.ask_back(
        paused(), MARA, DIRECTORY, text="Which?", now=NOON + at * minute
    )
    now = NOON + (at + waited) * minute
    assert asked.deadline == NOON + 8 * HOUR
    if asked.is_late(now):
        with pytest.raises(TooLate):
            collaboration.answer_back(asked, RILEY, DIRECTORY, text="That.", now=now)
        return
    after, _ = collaboration.answer_back(asked, RILEY, DIRECTORY, text="That.", now=now)
    assert after.deadline == NOON + 4 * HOUR + min(waited * minute, 4 * HOUR)
    assert (after.paused, after.open_question) == (None, None)


@pytest.mark.parametrize(
    ("asked_at", "answered_at", "deadline"),
    [
        # Two working days from Thursday at noon end on Monday at noon.
        ("05T13:00", None, "11T12:00"),
        ("05T13:00", "05T15:00", "09T14:00"),
        # Thursday from three, Friday, and Monday until ten: 11 hours.
        ("05T15:00", "09T10:00", "10T15:00"),
        # Nobody works at the weekend, so the deadline does not change.
        ("06T17:00", "08T20:00", "09T12:00"),
    ],
)
def test_question_pauses_only_working_time(
    asked_at: str, answered_at: str | None, deadline: str
) -> None:
    """A level in working time counts only working time, before and after the pause."""

    def at(text: str) -> datetime:
        return datetime.fromisoformat(f"2026-03-{text}").replace(tzinfo=UTC)

    mara = MARA.model_copy(update={"hours": ("Mon-Fri 09:00-17:00",)})
    directory = Directory([mara, RILEY])
    policy = Policy(name="p", ask=("mara",), within="2d business", remind=("1d business",))
    choice = choose((policy,), Fallback(), directory, make_approval().facts, now=at("05T12:00"))
    terms = choice.terms.model_copy(update={"clock": OnQuestion.PAUSE})
    asked, _ = make_approval().ask(terms, (), now=at("05T12:00"), start=choice.start)
    assert asked.deadline == at("09T12:00")
    asked, _ = collaboration.ask_back(asked, mara, directory, text="Which?", now=at(asked_at))
    if answered_at is not None:
        asked, _ = collaboration.answer_back(
            asked, RILEY, directory, text="That.", now=at(answered_at)
        )
    assert asked.deadline == at(deadline)
    assert all(one < at(deadline) for one in asked.reminders)


def test_more_time_that_is_given_meanwhile_stays() -> None:
    """An extension during the pause is added to the remaining time."""
    asked, _ = collaboration.ask_back(paused(), MARA, DIRECTORY, text="Which?", now=NOON + 2 * HOUR)
    longer, _ = collaboration.extend(
        asked, MARA, DIRECTORY, more=HOUR, reason="it takes long", now=NOON + 3 * HOUR
    )
    assert longer.deadline == NOON + 9 * HOUR
    answered, _ = collaboration.answer_back(
        longer, RILEY, DIRECTORY, text="That.", now=NOON + 5 * HOUR
    )
    assert answered.deadline == NOON + 8 * HOUR
