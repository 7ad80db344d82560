"""Only a person who is asked, is not the requester and answers in time ever decides."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import CLEO, MARA, NOON, RILEY, asked_approval, make_approval, make_origin, people
from signoff.core.approvals import deliveries
from signoff.core.approvals.approval import Approval, Asked, Handoff, Shown, State
from signoff.core.approvals.collaboration import Operator, reassign
from signoff.core.base.errors import ApprovalError, NotAnApprover
from signoff.core.directory.people import (
    Directory,
    Person,
    identity_key,
)
from signoff.core.policies.policy import OnTimeout, Terms

DAN = Person(id="dan", name="Dan Roe", email="dan@example.com")
EVERYBODY = (MARA, CLEO, RILEY, DAN)
DIRECTORY = Directory(EVERYBODY)

REQUESTERS = st.sampled_from(
    ["riley", "RILEY", "riley@example.com", "Riley@Example.COM", " r.voss@example.net ", "cleo"]
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["approve", "reject", "time_out", "withdraw", "deliver", "ask", "hand_on"]),
        st.sampled_from(EVERYBODY),
        st.sampled_from([0, 1, 20, 90]),
    ),
    min_size=3,
    max_size=12,
)


@pytest.mark.parametrize("renamed", [{}, {"email": "m@example.org"}, {"slack": "U0MARA"}])
def test_a_person_whose_id_has_changed_counts_once(renamed: dict[str, str]) -> None:
    """They have approved under the earlier id, and get the other approver's seat under the new."""
    mara = MARA.model_copy(update={"slack": "U0MARA"})
    terms = Terms(policy="two", ask=("mara", "cleo"), quorum=2)
    cards = [
        Asked(person="mara", channel="slack", address="U0MARA", shown=Shown.COMPLETE),
        Asked(person="mara", channel="email", address="Mara+x@example.com", shown=Shown.COMPLETE),
        Asked(person="cleo", channel="email", address=CLEO.email, shown=Shown.COMPLETE),
    ]
    approval, _ = make_approval().ask(terms, tuple(cards), now=NOON)
    approval, _ = approval.approve(mara, DIRECTORY, channel="email", now=NOON)
    fresh = mara.model_copy(update={"id": "mlind", "slack": "", "aliases": (), **renamed})
    if renamed.get("email"):
        fresh = fresh.model_copy(update={"aliases": ("mara",)})
    directory = Directory([fresh, CLEO, RILEY])
    approval, _ = reassign(
        approval, Operator(name="root"), directory, of=CLEO, to=fresh, reason="left", now=NOON
    )
    with pytest.raises(NotAnApprover, match="as mara"):
        approval.approve(fresh, directory, channel="inbox", now=NOON)


@given(
    STEPS,
    REQUESTERS,
    st.lists(st.sampled_from(EVERYBODY), unique=True, min_size=2),
    st.sampled_from(OnTimeout),
)
def test_over_any_sequence_of_moves(
    steps: list[tuple[str, Person, int]],
    requester: str,
    asked: list[Person],
    on_timeout: OnTimeout,
) -> None:
    """In any order of moves, an allowed person makes the decision, and it never changes."""
    approval = make_approval(origin=make_origin(user=requester))
    now = NOON
    # Before the first "ask" every answer is refused, so most examples begin with it.
    first = [] if steps[0][0] == "withdraw" else [("ask", MARA, 0)]
    for step, person, minutes in (*first, *steps):
        now += timedelta(minutes=minutes)
        before = approval
        try:
            approval = move(before, step, person, asked, now=now, on_timeout=on_timeout)
        except ApprovalError:
            continue  # a refusal changes nothing
        if before.state is not State.PENDING:
            assert approval.decision == before.decision
            assert approval.state is before.state
        elif approval.state in {State.APPROVED, State.REJECTED}:
            assert approval.decision is not None
            assert approval.decision.by == person.id
            assert person.id in {one.person for one in before.asked}
            assert not person.owns(requester)
            assert before.deadline is None or now < before.deadline or on_timeout is OnTimeout.STAY
        elif approval.state is State.TIMED_OUT:
            assert before.deadline is not None
            assert now >= before.deadline
            assert on_timeout is not OnTimeout.STAY


def move(
    approval: Approval,
    step: str,
    person: Person,
    asked: list[Person],
    *,
    now: datetime,
    on_timeout: OnTimeout,
) -> Approval:
    """Make one move; an error passes through."""
    match step:
        case "approve" | "reject":
            answer = approval.approve if step == "approve" else approval.reject
            return answer(person, DIRECTORY, channel="email", now=now)[0]
        case "time_out":
            return approval.time_out(now=now)[0]
        case "withdraw":
            return approval.withdraw(by="riley", reason="", now=now)[0]
        case "deliver":
            return deliveries.delivered(approval, person.id, "email", "<1>", now=now)[0]
        case "hand_on":
            return approval.hand_on(Handoff.STARTED, now=now)[0]
        case _:
            terms = Terms(
                policy="p",
                ask=tuple(one.id for one in asked),
                within=timedelta(hours=1),
                on_timeout=on_timeout,
            )
            entries = tuple(
                Asked(person=one.id, channel="email", address=one.email) for one in asked
            )
            return approval.ask(terms, entries, now=now)[0]


@given(REQUESTERS, st.sampled_from(EVERYBODY))
def test_the_requester_is_known_by_every_identity(requester: str, person: Person) -> None:
    """An id, an address and an alias, in any case, are one person."""
    same = DIRECTORY.same(person.id, requester)
    assert same is DIRECTORY.same(person.email.upper(), requester)
    assert same is person.owns(requester)
    assert same is (DIRECTORY.find(requester) is person)


def test_unknown_identities_are_only_themselves() -> None:
    """A user id that the directory does not know is not a person of the directory."""
    directory = people()
    assert directory.find("u-77") is None
    assert directory.same("u-77", "U-77")
    assert not directory.same("u-77", "mara")
    assert not directory.same("mara@ехample.com", "mara@example.com")  # a Cyrillic e


def test_a_look_alike_letter_is_another_address() -> None:
    """A letter of another script never folds to an ASCII letter."""
    directory = Directory([Person(id="kim", email="kim@example.com")])
    assert directory.find("KIM@Example.com") is not None
    assert directory.find("\N{KELVIN SIGN}im@example.com") is None
    others = [chr(point) for point in range(0x80, 0x110000) if not chr(point).isspace()]
    keys = identity_key(f"{'/'.join(others)}/").split("/")[:-1]
    assert len(keys) == len(others)
    assert [one for one, key in zip(others, keys, strict=True) if key.isascii()] == []


def test_vote_is_recounted_when_people_or_votes_change() -> None:
    """A cached count is only for the same people and votes, and never stored in a record."""
    asked = asked_approval()
    fresh = Approval.model_validate_json(asked.model_dump_json())
    kept = asked.ballot
    assert kept.answering
    assert asked.model_copy(update={"version": 7}).ballot == kept
    nobody = asked.model_copy(update={"asked": (), "seats": ()})
    assert not nobody.ballot.answering
    assert asked.ballot is kept
    assert asked == fresh
    assert asked.model_dump_json() == fresh.model_dump_json()
