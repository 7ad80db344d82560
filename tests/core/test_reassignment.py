"""Reassignment, manual reminders, and claims of requests with several approvers."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import CLEO, MARA, NOON, RILEY, ask, asked_approval, make_approval
from signoff.core.approvals import collaboration, deliveries
from signoff.core.approvals.approval import Approval, Asked, State
from signoff.core.approvals.collaboration import Operator, Who
from signoff.core.approvals.events import What
from signoff.core.approvals.parts import Assurance
from signoff.core.base.errors import (
    ApprovalError,
    Claimed,
    DecisionRefused,
    MoveRefused,
    NotAnApprover,
    SecondFactorNeeded,
    TooLate,
)
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Queue
from signoff.core.policies.levels import Level, Seat, Start
from signoff.core.policies.policy import Terms
from signoff.core.routing.departures import stand_in
from signoff.core.routing.escalation import advance, is_due

DAN = Person(id="dan", name="Dan Roe", email="dan@example.com")
OLGA = Person(id="olga", name="Olga Hein", email="olga@example.com")
EVERYBODY = (MARA, CLEO, RILEY, DAN, OLGA)
FINANCE = Queue(name="finance", members=("mara", "cleo"), claim=timedelta(hours=1))
DIRECTORY = Directory(EVERYBODY, queues=[FINANCE])
ROOT = Operator(name="root (cli)")
HOUR = timedelta(hours=1)


def seated(quorum: int = 1) -> Approval:
    """Return an approval that asks the queue of Mara and Cleo, then Dan; Olga is barred."""
    terms = Terms(
        policy="expenses",
        levels=(
            Level(ask=("queue:finance",), within=4 * HOUR, quorum=quorum),
            Level(ask=("dan",), within=4 * HOUR),
        ),
    )
    start = Start(
        level=0,
        round=0,
        seats=tuple(Seat(person=one, via="queue:finance") for one in ("mara", "cleo")),
        deadline=NOON + 4 * HOUR,
        reminders=(),
    )
    asked = tuple(Asked(person=one.id, channel="email", address=one.email) for one in (MARA, CLEO))
    return make_approval().ask(terms, asked, now=NOON, start=start, barred=("olga",))[0]


def hand_on(approval: Approval, to: Person = DAN, of: Person = MARA) -> Approval:
    """Return the approval after a person has reassigned it."""
    return collaboration.reassign(
        approval, of, DIRECTORY, of=of, to=to, reason="knows it", now=NOON
    )[0]


@pytest.mark.parametrize("approval", [asked_approval(), seated()], ids=["plain", "seats"])
def test_a_place_goes_to_another_person(approval: Approval) -> None:
    """The new approver may answer; the old one is refused and reads who can; the reason stays."""
    after, (event,) = collaboration.reassign(
        approval, MARA, DIRECTORY, of=MARA, to=DAN, reason="he knows the vendor", now=NOON
    )
    assert (event.what, event.by, event.why) == (What.REASSIGNED, "mara", "he knows the vendor")
    assert event.more == {"of": "mara", "to": "dan"}
    assert after.approvers == {"dan", "cleo"}
    assert after.queues == approval.queues
    with pytest.raises(NotAnApprover, match="went to Dan Roe"):
        after.approve(MARA, DIRECTORY, channel="email", now=NOON)
    assert after.approve(DAN, DIRECTORY, channel="email", now=NOON)[0].state is State.APPROVED
    assert "he knows the vendor" in after.comments[-1].text
    again = Approval.model_validate_json(after.model_dump_json(exclude_defaults=True))
    assert again == after


def test_reassignment_removes_the_claim_and_first_step_of_the_old_approver() -> None:
    """Otherwise the new approver would wait for a claim of somebody who is not asked."""
    two = ask(make_approval(), second_step=True)
    two, _ = two.approve(MARA, DIRECTORY, channel="email", now=NOON)
    two, _ = collaboration.claim(two, MARA, DIRECTORY, now=NOON)
    after, _ = collaboration.reassign(
        two,
        MARA,
        DIRECTORY,
        of=MARA,
        to=DAN,
        reason="x",
        now=NOON,
        assurance=Assurance.SECOND_FACTOR,
    )
    assert (after.claimed, after.step_of("mara")) == (None, None)
    kept = hand_on(collaboration.claim(seated(), MARA, DIRECTORY, now=NOON)[0], of=MARA)
    assert kept.claimed is None


@pytest.mark.parametrize(
    ("who", "of", "to", "reason", "problem"),
    [
        (MARA, CLEO, DAN, "x", "only give away their own place"),
        (MARA, MARA, DAN, " ", "needs a reason"),
        (ROOT, DAN, RILEY, "x", "has no place"),
        (ROOT, MARA, RILEY, "x", "can never decide"),
        (ROOT, MARA, OLGA, "x", "can never decide"),
        (ROOT, MARA, CLEO, "x", "is asked about approval"),
        (RILEY, MARA, DAN, "x", "cannot decide it"),
        (DAN, MARA, DAN, "x", "is not asked"),
    ],
)
def test_reassignment_refuses_other_seats_and_ineligible_people(
    who: Who, of: Person, to: Person, reason: str, problem: str
) -> None:
    """Only one's own seat, with a reason, to a person who may decide and is not asked already."""
    with pytest.raises(DecisionRefused, match=problem):
        collaboration.reassign(seated(), who, DIRECTORY, of=of, to=to, reason=reason, now=NOON)


def test_approver_who_has_answered_cannot_reassign_the_seat() -> None:
    """An approval that counts towards the quorum is not reassigned."""
    voted, _ = seated(quorum=2).approve(MARA, DIRECTORY, channel="email", now=NOON)
    with pytest.raises(MoveRefused, match="has answered"):
        hand_on(voted)
    with pytest.raises(MoveRefused, match="has answered"):
        collaboration.claim(voted, MARA, DIRECTORY, now=NOON)
    late = NOON + 4 * HOUR
    with pytest.raises(TooLate):
        collaboration.reassign(
            asked_approval(), ROOT, DIRECTORY, of=MARA, to=DAN, reason="x", now=late
        )


def test_claim_ends_with_its_time_the_answer_or_the_level() -> None:
    """A claim ends when its holder has answered."""
    taken, _ = collaboration.claim(seated(quorum=2), MARA, DIRECTORY, now=NOON)
    assert taken.claimed is not None
    assert taken.claimed.until == NOON + HOUR
    with pytest.raises(Claimed):
        taken.approve(CLEO, DIRECTORY, channel="email", now=NOON)
    voted, _ = taken.approve(MARA, DIRECTORY, channel="email", now=NOON)
    assert voted.claim_at(NOON) is None
    assert voted.approve(CLEO, DIRECTORY, channel="email", now=NOON)[0].state is State.APPROVED
    up, _ = advance(taken, DIRECTORY, now=NOON + 4 * HOUR)
    assert (up.level, up.claimed) == (1, None)


def test_due_index_has_the_end_of_a_claim_once() -> None:
    """The due index has its end first, and the deadline afterwards."""
    taken, _ = collaboration.claim(seated(), MARA, DIRECTORY, now=NOON)
    assert taken.next_due == NOON + HOUR
    assert not is_due(taken, NOON + HOUR - timedelta.resolution)
    free, (event,) = advance(taken, DIRECTORY, now=NOON + HOUR)
    assert (event.what, free.claimed, free.next_due) == (What.RELEASED, None, NOON + 4 * HOUR)
    assert advance(free, DIRECTORY, now=NOON + HOUR) == (free, ())


def test_concerned_people_may_remind_once_an_hour() -> None:
    """The requester, approvers and the operator may; the event says who was reminded."""
    with pytest.raises(MoveRefused, match="nothing to do with"):
        collaboration.remind_now(seated(), DAN, DIRECTORY, now=NOON)
    for who in (RILEY, MARA, ROOT):
        after, (event,) = collaboration.remind_now(seated(), who, DIRECTORY, now=NOON)
        assert (event.what, event.by) == (What.REMINDED, who.id)
        assert event.more["people"] == ["mara", "cleo"]
        with pytest.raises(MoveRefused, match="were reminded on Mon 2 Mar 2026, 12:00"):
            collaboration.remind_now(after, ROOT, DIRECTORY, now=NOON + HOUR - timedelta.resolution)
        assert collaboration.remind_now(after, ROOT, DIRECTORY, now=NOON + HOUR)[1]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*EVERYBODY, ROOT]),
            st.sampled_from(EVERYBODY),
            st.sampled_from(EVERYBODY),
        ),
        max_size=10,
    )
)
def test_reassignment_keeps_the_seat_count_and_excludes_barred_people(
    steps: list[tuple[Who, Person, Person]],
) -> None:
    """After any reassignments there are two approvers, never the requester or the owner."""
    approval = seated(quorum=2)
    for who, of, to in steps:
        try:
            approval, _ = collaboration.reassign(
                approval,
                who,
                DIRECTORY,
                of=of,
                to=to,
                reason="x",
                now=NOON,
            )
        except ApprovalError:
            continue  # a refusal changes nothing
    assert len(approval.approvers) == 2
    assert not approval.approvers & {"riley", "olga"}
    assert (approval.ballot.need, approval.deadline) == (2, NOON + 4 * HOUR)


@pytest.mark.parametrize("who", [MARA, ROOT, Operator(name="olga")])
def test_seat_with_a_second_factor_requires_it_for_reassignment(who: Who) -> None:
    """This holds in every role and for every account, unless with the factor or in a terminal."""
    two = ask(make_approval(), second_step=True)

    def given(assurance: Assurance) -> Approval:
        return collaboration.reassign(
            two,
            who,
            DIRECTORY,
            of=MARA,
            to=DAN,
            reason="x",
            now=NOON,
            assurance=assurance,
        )[0]

    with pytest.raises(SecondFactorNeeded):
        given(Assurance.ACCOUNT)
    with pytest.raises(SecondFactorNeeded):
        collaboration.may_reassign(two, who, DIRECTORY, of=MARA, now=NOON)
    for enough in (Assurance.SECOND_FACTOR, Assurance.TERMINAL):
        assert given(enough).approvers == {"dan", "cleo"}
        assert given(enough).in_two_steps


def two_of_a_shared_place() -> Approval:
    """Return an approval that needs two: Dan stands in for Mara, who is away, and Cleo."""
    terms = Terms(
        policy="expenses", levels=(Level(ask=("mara", "cleo"), within=4 * HOUR, quorum=2),)
    )
    seats = (
        Seat(person="mara", via="mara"),
        Seat(person="dan", instead_of="mara", via="mara"),
        Seat(person="cleo", via="cleo"),
    )
    start = Start(level=0, round=0, seats=seats, deadline=NOON + 4 * HOUR, reminders=())
    return make_approval().ask(terms, (), now=NOON, start=start)[0]


@pytest.mark.parametrize(("of", "other"), [(DAN, MARA), (MARA, DAN)])
def test_a_shared_place_counts_once_after_it_was_handed_over(of: Person, other: Person) -> None:
    """Two people who share a place are one approval, also if one of them hands it over."""
    handed, _ = collaboration.reassign(
        two_of_a_shared_place(), of, DIRECTORY, of=of, to=OLGA, reason="knows it", now=NOON
    )
    assert handed.ballot.need == 2
    after, _ = handed.approve(OLGA, DIRECTORY, channel="inbox", now=NOON)
    with pytest.raises(NotAnApprover):
        after.approve(other, DIRECTORY, channel="inbox", now=NOON)
    after, _ = after.approve(CLEO, DIRECTORY, channel="inbox", now=NOON)
    assert after.decided_by == ("olga", "cleo")


@pytest.mark.parametrize(("of", "to"), [(DAN, MARA), (MARA, DAN)])
def test_a_shared_place_may_go_to_the_one_who_shares_it(of: Person, to: Person) -> None:
    """The person who shares a place then has it alone, with one seat."""
    handed, _ = collaboration.reassign(
        two_of_a_shared_place(), of, DIRECTORY, of=of, to=to, reason="back", now=NOON
    )
    assert [one.person for one in handed.seats] == [to.id, "cleo"]
    assert handed.ballot.need == 2


TWIN = Person(id="mara.ext", email="mara@partner.example", slack="U0MARA")
TWINS = Directory([MARA.model_copy(update={"slack": "U0MARA"}), TWIN, CLEO, DAN, RILEY])


def test_second_id_of_an_approver_takes_no_second_place() -> None:
    """Mara counts once, so with both places the quorum of two would be out of reach."""
    with pytest.raises(MoveRefused, match="asked about"):
        collaboration.reassign(
            seated(quorum=2), CLEO, TWINS, of=CLEO, to=TWIN, reason="knows it", now=NOON
        )


def test_operator_takes_no_place_under_a_second_id() -> None:
    """Operators decide only what they are asked, under none of their ids."""
    who = Operator(name="mara.ext")
    handed = hand_on(seated())
    with pytest.raises(MoveRefused, match="cannot take one"):
        collaboration.reassign(
            handed, who, TWINS, of=DAN, to=TWINS.record("mara") or MARA, reason="r", now=NOON
        )


def test_second_id_of_an_approver_is_no_stand_in() -> None:
    """Cleo is away and her delegate is asked already, so too few are left, which is said."""
    away = Absence(start=NOON.date(), end=NOON.date(), delegate="mara.ext")
    people = [*TWINS, CLEO.model_copy(update={"away": (away,)})]
    after, events = stand_in(seated(quorum=2), Directory(people), now=NOON)
    assert after.approvers == {"mara", "cleo"}
    assert after.absent == ("cleo",)
    assert "to" not in events[0].more
    assert not deliveries.can_be_met(after)


def test_second_id_replaces_an_id_that_is_not_active_any_more() -> None:
    """The queue has both ids of Mara, and the first one is closed."""
    queue = Queue(name="finance", members=("mara", "mara.ext", "cleo"), pick="round-robin")
    people = [MARA.model_copy(update={"slack": "U0MARA", "active": False}), TWIN, CLEO, DAN, RILEY]
    before = seated().model_copy(update={"seats": seated().seats[:1]})
    after, _ = stand_in(before, Directory(people, queues=[queue]), now=NOON)
    assert after.approvers == {"mara", "mara.ext"}
