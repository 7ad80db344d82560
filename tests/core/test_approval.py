"""Rules of one approval on their own: what a level begins with, who counts, who sees it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from builders import NOON, make_approval, make_call, make_origin
from signoff.core.approvals import collaboration
from signoff.core.approvals.approval import Approval, Asked, Handoff, Kind, State
from signoff.core.approvals.collaboration import Operator
from signoff.core.approvals.parts import Assurance, Program
from signoff.core.base.errors import (
    ApprovalError,
    Escalated,
    IllegalMove,
    MoveRefused,
    NotAnApprover,
    NotShownInFull,
    OwnRequest,
    SecondFactorNeeded,
    TooLate,
)
from signoff.core.base.freezes import Freeze, covering
from signoff.core.directory.people import Directory, Person, Role
from signoff.core.directory.queues import Queue
from signoff.core.payloads.digest import digest
from signoff.core.policies.levels import STAYS, Earlier, Level, Seat, Start, Verdict
from signoff.core.policies.policy import Fallback, OnTimeout, Policy
from signoff.core.routing.escalation import advance, pass_on
from signoff.core.routing.selection import choose

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
ADA, BO, CY, DEE, EVE, RILEY = (
    Person(id=one, name=one.title(), email=f"{one}@example.com")
    for one in ("ada", "bo", "cy", "dee", "eve", "riley")
)
OPA = Person(id="opa", email="opa@example.com", roles=frozenset({Role.OPERATOR}))
MONEY = Queue(name="money", members=("ada", "bo"))
PEOPLE = Directory([ADA, BO, CY, DEE, EVE, RILEY, OPA], queues=[MONEY])
ROOT = Operator(name="root (cli)")
CARD = Asked(person="bo", channel="email", address="bo@example.com")


def level(*ask: str, **rules: Any) -> Level:
    """Return a level of an hour."""
    return Level(ask=ask, **{"within": "1h", **rules})


def asked(*levels: Level, opened: Approval | None = None, **rules: Any) -> Approval:
    """Return an approval of Riley's whose first level begins at noon."""
    policy = Policy(name="p", levels=levels, **rules)
    opened = opened or make_approval(origin=make_origin(user="riley"))
    choice = choose([policy], Fallback(), PEOPLE, opened.facts, now=NOON)
    assert choice.start is not None
    return opened.ask(choice.terms, (), now=NOON, start=choice.start)[0]


def says(approval: Approval, person: Person, *, yes: bool = True, **parts: Any) -> Approval:
    """Return the approval after an answer at the command line, a minute after noon."""
    move = approval.approve if yes else approval.reject
    parts = {"channel": "cli", "now": NOON + MINUTE, **parts}
    return move(person, PEOPLE, **parts)[0]


# Levels.


def test_a_level_begins_without_anything_of_the_one_before() -> None:
    """Claims, pauses, reminders and absences belong to one level; people are listed once."""
    first = asked(level("queue:money", remind=("10m",)), level("cy", "ada", remind=("10m",)))
    assert (first.queues, first.asked_here) == (("queue:money",), ("ada", "bo"))
    before = collaboration.claim(first, ADA, PEOPLE, now=NOON)[0].model_copy(
        update={
            "reminded": 1,
            "paused": NOON,
            "paused_due": (NOON + HOUR,),
            "absent": ("bo",),
        }
    )
    after, _ = advance(before.model_copy(update={"paused": None}), PEOPLE, now=NOON + HOUR)
    assert after.level == 1
    assert (after.claimed, after.paused, after.paused_due) == (None, None, ())
    assert (after.absent, after.reminded) == ((), 0)
    assert (after.since, after.deadline) == (NOON + HOUR, NOON + 2 * HOUR)
    assert after.reminders == (NOON + HOUR + 10 * MINUTE,)
    assert (after.queues, after.asked_here) == ((), ("cy", "ada"))
    assert [one.person for one in after.seats] == ["bo", "cy", "ada"]
    start = Start(1, 0, (Seat(level=1, person="cy"),), NOON + HOUR)
    again, _ = before.escalate(start, now=NOON)
    assert (again.paused, again.paused_due) == (None, ())


@pytest.mark.parametrize("state", [one for one in State if one is not State.PENDING])
@pytest.mark.parametrize("handoff", [Handoff.NONE, Handoff.RECORDED])
def test_an_ended_approval_asks_reminds_and_ends_nobody_again(
    state: State, handoff: Handoff
) -> None:
    """This holds for the last moment of a level that stays open, too."""
    policy = asked(level("ada", remind=("10m",)), level("bo"), on_timeout=OnTimeout.STAY)
    ended = policy.model_copy(update={"state": state, "handoff": handoff, "level": 1})
    assert ended.terms is not None
    terms, start = ended.terms, Start(1, 0, (Seat(level=1, person="bo"),), NOON + 2 * HOUR)
    moves: dict[str, Callable[[], object]] = {
        "ask": lambda: ended.ask(terms, (), now=NOON, start=start),
        "ask too": lambda: ended.asked_too([CARD], now=NOON),
        "escalate": lambda: ended.escalate(start, now=NOON),
        "remind": lambda: ended.remind(now=NOON + 30 * MINUTE),
        "time out": lambda: ended.time_out(now=NOON + 3 * HOUR),
        "pass on": lambda: ended.pass_on(start, PEOPLE, now=NOON),
        "allow": lambda: ended.allow(terms, now=NOON),
        "refuse": lambda: ended.refuse(reason="x", now=NOON),
        "withdraw": lambda: ended.withdraw(by="riley", reason="x", now=NOON),
    }
    for name, move in moves.items():
        try:
            move()
        except IllegalMove:
            continue
        pytest.fail(name)


def test_only_an_approval_before_routing_is_allowed_or_refused_by_the_settings() -> None:
    """Nobody is asked then; afterwards only people decide."""
    opened, waits = make_approval(), asked(level("ada"))
    assert waits.terms is not None
    assert opened.allow(waits.terms, now=NOON)[0].state is State.APPROVED
    assert opened.refuse(reason="no", now=NOON)[0].state is State.REJECTED
    moves: tuple[Callable[[], object], ...] = (
        lambda: waits.allow(present_terms(waits), now=NOON),
        lambda: waits.refuse(reason="no", now=NOON),
        lambda: waits.take_grant(present_terms(waits), by="ada", grant="g", reason="", now=NOON),
        lambda: opened.escalate(Start(0, 0, (), NOON), now=NOON),
    )
    for move in moves:
        with pytest.raises(IllegalMove):
            move()
    blank = make_approval(template={"days": 0})
    question = opened.model_copy(update={"kind": Kind.INPUT})
    doubtful = opened.model_copy(update={"origin": opened.origin.model_copy(update={"again": 1})})
    for one in (blank, question, doubtful):
        with pytest.raises(IllegalMove, match="cannot be allowed"):
            one.allow(waits.terms, now=NOON)


def present_terms(approval: Approval) -> Any:
    """Return the terms of a routed approval."""
    assert approval.terms is not None
    return approval.terms


def test_only_the_last_level_stays_open() -> None:
    """After the deadline of an earlier one, the next is asked, whatever the timer has recorded."""
    first = asked(level("ada"), level("bo"), on_timeout=OnTimeout.STAY)
    late = NOON + HOUR
    assert not first.is_last_level
    assert not first.stays_open
    with pytest.raises(Escalated):
        says(first, ADA, now=late)
    with pytest.raises(TooLate):
        collaboration.remind_now(first, ROOT, PEOPLE, now=late)
    last, _ = advance(first, PEOPLE, now=late)
    assert last.stays_open
    assert says(last, BO, now=NOON + 9 * HOUR).state is State.APPROVED
    overdue, _ = last.time_out(now=NOON + 2 * HOUR)
    assert (overdue.state, overdue.deadline, overdue.reminders) == (State.PENDING, None, ())
    assert overdue.next_due is None


def test_an_earlier_approver_may_answer_late_only_if_the_next_level_keeps_them() -> None:
    """It does not matter whether a timer has recorded the end of the level."""
    late = NOON + HOUR
    stays = asked(level("ada"), level("bo", earlier=Earlier.STAY))
    leaves = asked(level("ada"), level("bo"))
    assert says(stays, ADA, now=late).state is State.APPROVED
    with pytest.raises(Escalated, match="went on to level 2"):
        says(leaves, ADA, now=late)


# Votes.


def test_a_rejection_is_of_the_person_who_made_it() -> None:
    """Earlier approvals do not make their people rejecters."""
    approval = says(asked(level("ada", "bo", "cy", quorum=2)), ADA)
    rejected = says(approval, BO, yes=False)
    assert (rejected.state, rejected.decided_by) == (State.REJECTED, ("bo",))
    assert [one.by for one in rejected.votes] == ["ada"]


def test_the_audit_names_everybody_who_approved() -> None:
    """One approver alone is already the actor of the event."""
    approval = says(asked(level("ada", "bo", quorum=2)), ADA)
    _, (event,) = approval.approve(BO, PEOPLE, channel="cli", now=NOON)
    assert event.more["approved_by"] == ["ada", "bo"]
    _, (event,) = asked(level("ada")).approve(ADA, PEOPLE, channel="cli", now=NOON)
    assert "approved_by" not in event.more


PHASES = (
    level("ada", "bo", "cy", phase="team", quorum=1, veto=False),
    level("cy", "dee", phase="board", quorum=2),
)


def test_a_rejection_of_an_earlier_phase_is_no_vote_in_the_next() -> None:
    """Cy was outvoted in the team, and is asked anew as a member of the board."""
    team = says(asked(*PHASES), CY, yes=False)
    passed = says(team, ADA)
    went = pass_on(passed, PEOPLE, now=NOON + MINUTE)
    assert went is not None
    board, _ = went
    assert (board.state, board.ballot.votes, board.given[0].by) == (State.PENDING, (), "ada")
    assert [one.by for one in board.given] == ["ada"]
    assert says(says(board, CY), DEE).decided_by == ("ada", "cy", "dee")


def test_an_approval_counts_in_the_next_phase_only_with_the_reason_that_it_wants() -> None:
    """It counts at the moment of the next phase, and decides it alone if that is enough."""
    wants = level("ada", phase="board", reasons=("approve",))
    for reason, state in (("", State.PENDING), ("as planned", State.APPROVED)):
        passed = says(asked(level("ada", phase="team"), wants), ADA, reason=reason)
        went = pass_on(passed, PEOPLE, now=NOON + 5 * MINUTE)
        assert went is not None
        assert went[0].state is state
        if went[0].decision is not None:
            assert went[0].decision.at == NOON + 5 * MINUTE


def test_a_phase_is_passed_only_by_its_approval() -> None:
    """The people of the next phase are not asked before."""
    team = asked(*PHASES)
    start = Start(1, 0, (Seat(level=1, person="dee"),), NOON + HOUR)
    with pytest.raises(IllegalMove, match="no phase to go on to"):
        team.pass_on(start, PEOPLE, now=NOON)
    assert not team.passed
    passed = says(team, ADA)
    assert passed.passed
    assert not passed.withdraw(by="riley", reason="", now=NOON)[0].passed
    assert (team.still_needed, says(team, ADA).still_needed) == (3, 2)
    assert make_approval().still_needed == 1


def test_people_who_could_not_be_reached_do_not_answer_in_another_phase() -> None:
    """They may answer at every later level of their own phase."""
    team = asked(level("ada", phase="team"), level("bo", phase="team"), PHASES[1])
    start = Start(1, 0, (Seat(level=1, person="bo"),), NOON + HOUR)
    deputy, _ = team.escalate(start, now=NOON, unreached=True)
    assert deputy.approvers == {"ada", "bo"}
    assert [one.level for one in deputy.seats] == [STAYS, 1]
    went = pass_on(says(deputy, BO), PEOPLE, now=NOON + MINUTE)
    assert went is not None
    assert went[0].approvers == {"cy", "dee"}
    with pytest.raises(NotAnApprover):
        says(went[0], ADA)


def test_silence_approves_nothing_that_a_person_has_to_fill_in_or_has_rejected() -> None:
    """Nor if an answer could not be read in time, or the call needs a second step."""
    rules: dict[str, Any] = {"on_timeout": OnTimeout.APPROVE, "ceiling": "true"}
    late = NOON + HOUR
    silent = asked(level("ada", "bo", veto=False), **rules)
    ended, _ = silent.time_out(now=late)
    assert ended.state is State.APPROVED
    assert ended.decision is not None
    assert "by its policy that approves" in ended.decision.reason
    unheard, _ = silent.time_out(now=late, unheard="an answer could not be read")
    assert unheard.state is State.TIMED_OUT
    assert unheard.decision is not None
    assert unheard.decision.reason == "an answer could not be read"
    terms = present_terms(silent)
    program = Program(
        instance="i",
        request="r",
        tool="reimburse",
        arguments="{}",
        timeout="1h",
        until=late,
        valid_for=HOUR,
    )
    for update in (
        {"program": program},
        {"kind": Kind.INPUT},
        {"template": {"days": 0}},
        {"terms": terms.model_copy(update={"second_step": True})},
        {"terms": terms.model_copy(update={"under_ceiling": False})},
        {"terms": terms.model_copy(update={"on_timeout": OnTimeout.REJECT})},
    ):
        assert silent.model_copy(update=update).time_out(now=late)[0].state is State.TIMED_OUT
    assert says(silent, BO, yes=False).time_out(now=late)[0].state is State.TIMED_OUT


def test_the_claim_of_a_decided_request_or_of_somebody_who_has_answered_holds_nobody() -> None:
    """It ends with the decision, with the answer of its holder, and at its end."""
    claimed, _ = collaboration.claim(asked(level("ada", "bo", quorum=2)), ADA, PEOPLE, now=NOON)
    assert claimed.claim_at(NOON) is not None
    assert claimed.claim_at(NOON + collaboration.CLAIM) is None
    assert says(claimed, ADA).claim_at(NOON) is None
    for state in State:
        ended = claimed.model_copy(update={"state": state})
        assert (ended.claim_at(NOON) is not None) is (state is State.PENDING)


def test_values_are_covered_by_the_limits_of_the_person_who_enters_them() -> None:
    """The delegate of an absent manager enters no more than both of them may approve."""
    boss = Person(id="boss", email="boss@example.com", limits={"money": 5_000})
    bo = BO.model_copy(update={"limits": {"money": 100}})
    people = Directory([boss, bo, RILEY])
    policy = Policy(name="p", ask=("boss",), until="limit.money >= args.amount")
    call = make_call(amount=50)
    opened = make_approval(
        origin=make_origin(user="riley"), call=call, template={"amount": 50, "note": "x"}
    )
    choice = choose([policy], Fallback(), people, opened.facts, now=NOON)
    assert choice.start is not None
    waits = opened.ask(choice.terms, (), now=NOON, start=choice.start)[0]
    shared = (*waits.seats, Seat(person="bo", instead_of="boss"))
    waits = waits.model_copy(update={"seats": shared})
    for person, amount, covers in ((boss, 3_000, True), (bo, 100, True), (bo, 3_000, False)):
        parts: dict[str, Any] = {"channel": "cli", "now": NOON, "values": {"amount": amount}}
        after, _ = waits.approve(person, people, **parts)
        said = after.decision or after.votes[-1].decision
        assert said.covers is covers
        assert (after.state is State.APPROVED) is covers


# Reminding.


def test_a_manual_reminder_comes_an_hour_after_an_automatic_one() -> None:
    """The reminders of the policy count like those of people."""
    approval = asked(level("ada", remind=("10m", "20m")))
    reminded, _ = approval.remind(now=NOON + 10 * MINUTE)
    assert reminded.next_due == NOON + 20 * MINUTE
    assert collaboration.remind_now(approval, ROOT, PEOPLE, now=NOON + 11 * MINUTE)[1]
    with pytest.raises(MoveRefused, match="an hour later"):
        collaboration.remind_now(reminded, ROOT, PEOPLE, now=NOON + 11 * MINUTE)


def test_a_place_goes_from_hand_to_hand_a_limited_number_of_times() -> None:
    """Then it has to be decided."""
    approval, people = asked(level("ada", within="1d")), (ADA, BO)
    for nth in range(20):
        of, to = people if nth % 2 == 0 else people[::-1]
        approval, _ = collaboration.reassign(
            approval, ROOT, PEOPLE, of=of, to=to, reason="x", now=NOON
        )
    with pytest.raises(MoveRefused, match="often enough"):
        collaboration.reassign(approval, ROOT, PEOPLE, of=ADA, to=BO, reason="x", now=NOON)


# Breaking the glass.


def frozen(tool: str = "", app: str = "", name: str = "fz_1") -> Freeze:
    """Return a freeze."""
    return Freeze(id=name, tool=tool, app=app, by="opa", why="incident", at=NOON)


@pytest.mark.parametrize(
    ("app", "tool", "stops"),
    [
        ("", "", True),
        ("finance", "", True),
        ("", "reimburse", True),
        ("finance", "reimburse", True),
        ("other", "", False),
        ("", "other", False),
        ("finance", "other", False),
        ("other", "reimburse", False),
    ],
)
def test_a_freeze_stops_the_calls_that_it_covers(app: str, tool: str, *, stops: bool) -> None:
    """It covers one tool or all, of one app or of all; an override names the freezes it ignores."""
    freeze = frozen(tool, app)
    assert freeze.covers("finance", "reimburse") is stops
    assert freeze.stops_app("finance") is (stops and not tool)
    found = covering([freeze, frozen("x", name="fz_2")], "finance", ("pay", "reimburse"))
    assert found == ((freeze,) if stops else ())
    assert covering([freeze], "finance", ("reimburse",), despite=("fz_1",)) == ()
    waits = asked(level("ada"))
    approved = says(waits, ADA)
    rejected = says(waits, ADA, yes=False)
    started, _ = approved.hand_on(Handoff.STARTED, now=NOON)
    assert waits.frozen_by([freeze]) == approved.frozen_by([freeze]) == found
    assert rejected.frozen_by([freeze]) == started.frozen_by([freeze]) == ()


def test_the_glass_is_broken_for_a_pending_or_frozen_call_where_all_of_it_is_shown() -> None:
    """Only the freezes of that moment are ignored; a later one stops the call."""
    policy: dict[str, Any] = {"break_glass": ("eve",)}
    freeze, later = frozen("reimburse"), frozen("reimburse", name="fz_2")
    there = PEOPLE.with_freezes((freeze,))
    parts: dict[str, Any] = {"channel": "inbox", "now": NOON + MINUTE, "reason": "fire"}
    waits = asked(level("ada"), **policy)
    approved = says(waits, ADA)
    for directory, approval, despite in ((PEOPLE, waits, ()), (there, waits, ("fz_1",))):
        after, events = approval.break_glass(EVE, directory, **parts)
        assert after.glass is not None
        assert (after.state, after.glass.despite) == (State.APPROVED, despite)
        assert after.outcome(PEOPLE) == "approved by Eve alone, who broke the glass"
        assert events[0].more.get("despite", []) == list(despite)
        assert after.frozen_by([freeze, later]) == ((later,) if despite else (freeze, later))
    after, _ = approved.break_glass(EVE, there, **parts)
    assert after.decision == approved.decision
    assert after.despite == ("fz_1",)
    assert after.outcome(PEOPLE) == "approved by Ada"
    for directory, approval in (
        (PEOPLE, approved),
        (there, says(waits, ADA, yes=False)),
        (there, approved.hand_on(Handoff.STARTED, now=NOON)[0]),
    ):
        with pytest.raises(ApprovalError):
            approval.break_glass(EVE, directory, **parts)
    with pytest.raises(TooLate):
        waits.break_glass(EVE, there, **{**parts, "now": NOON + HOUR})
    own = asked(level("ada"), break_glass=("riley",))
    with pytest.raises(OwnRequest):
        own.break_glass(RILEY, PEOPLE, **parts)
    with pytest.raises(NotShownInFull):
        waits.break_glass(EVE, PEOPLE, **{**parts, "channel": "slack"})
    with pytest.raises(TooLate):
        waits.break_glass(EVE, PEOPLE, **{**parts, "now": NOON + HOUR})
    two = asked(level("ada"), second_step="true", **policy)
    with pytest.raises(SecondFactorNeeded):
        two.break_glass(EVE, PEOPLE, **parts)
    done, _ = two.break_glass(EVE, PEOPLE, **parts, assurance=Assurance.SECOND_FACTOR)
    assert done.state is State.APPROVED


# Who sees it.


def test_an_operator_acts_as_such_except_for_their_own_requests() -> None:
    """The role gives no power over a request or an agent of one's own."""
    approval = asked(level("ada"))
    acts = collaboration.acting(approval, OPA, PEOPLE)
    assert (isinstance(acts, Operator), acts.id) == (True, "opa")
    assert collaboration.acting(approval, ADA, PEOPLE) is ADA
    for own in (
        make_approval(origin=make_origin(user="opa")),
        approval.model_copy(update={"barred": ("opa@example.com",)}),
    ):
        assert collaboration.acting(own, OPA, PEOPLE) is OPA


def test_who_a_request_concerns() -> None:
    """Everybody who has or had a part in it, and nobody else."""
    approval = asked(level("queue:money"), level("cy"), break_glass=("eve",), inform=("dee",))
    assert {one.id for one in PEOPLE if approval.concerns(one, PEOPLE)} == {
        "ada",
        "bo",
        "dee",
        "eve",
        "riley",
    }
    alone = make_approval(origin=make_origin(user="riley"))
    assert [one.id for one in PEOPLE if alone.concerns(one, PEOPLE)] == ["riley"]
    given = collaboration.reassign(
        asked(level("ada")), ROOT, PEOPLE, of=ADA, to=BO, reason="x", now=NOON
    )[0]
    assert {one.id for one in PEOPLE if given.concerns(one, PEOPLE)} == {"ada", "bo", "riley"}
    assert given.decision is None
    grant = alone.take_grant(
        present_terms(asked(level("ada"))), by="cy", grant="g", reason="", now=NOON
    )[0]
    assert {one.id for one in PEOPLE if grant.concerns(one, PEOPLE)} == {"cy", "riley"}
    card = alone.model_copy(update={"asked": (CARD,)})
    assert {one.id for one in PEOPLE if card.concerns(one, PEOPLE)} == {"bo", "riley"}


def test_who_sees_the_deliveries_of_a_request() -> None:
    """The requester and people who are only informed do not, unless their role shows everything."""
    approval = asked(level("ada"), inform=("dee", "ada", "opa"))
    assert [one.id for one in PEOPLE if approval.only_informs(one.id)] == ["dee", "opa"]
    outside = {one.id for one in PEOPLE if not approval.is_inside(one, PEOPLE)}
    assert outside == {"dee", "riley"}
    assert OPA.sees_all
    own = asked(level("ada"), opened=make_approval(origin=make_origin(user="opa")))
    assert own.is_inside(OPA, PEOPLE)


def test_the_requester_is_known_by_each_identity() -> None:
    """The ADK user may be an id or an address; another entry of the same person counts."""
    twin = Person(id="riley2", email="r2@example.com", aliases=("riley@example.com",))
    for user in ("riley", "riley@example.com", "RILEY@EXAMPLE.COM"):
        approval = make_approval(origin=make_origin(user=user))
        assert approval.is_requester(RILEY, PEOPLE), user
        assert not approval.is_requester(ADA, PEOPLE), user
    by_address = make_approval(origin=make_origin(user="riley@example.com"))
    assert by_address.is_requester(twin, Directory([twin]))


def test_a_record_of_an_earlier_release_keeps_its_digest() -> None:
    """It covers the tool and the arguments alone."""
    old = make_approval().model_copy(update={"needs": 0})
    assert old.digest_of("pay", {"to": "x"}, declared="d") == digest("pay", {"to": "x"})
    assert make_approval().digest_of("pay", {"to": "x"}) != digest("pay", {"to": "x"})


def test_a_reason_is_needed_where_the_level_says_so() -> None:
    """A request that is not routed yet needs none."""
    approval = asked(level("ada", reasons=("reject",)), level("bo"))
    assert approval.needs_reason(Verdict.REJECT)
    assert not approval.needs_reason(Verdict.APPROVE)
    assert not approval.model_copy(update={"level": 1}).needs_reason(Verdict.REJECT)
    assert not make_approval(call=make_call()).needs_reason(Verdict.REJECT)
