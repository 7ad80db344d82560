"""The life of an approval: every legal move works, and every other move is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic import JsonValue

from builders import (
    CLEO,
    MARA,
    NOON,
    RILEY,
    ask,
    asked_approval,
    make_approval,
    make_call,
    make_origin,
    people,
)
from signoff.core.approvals import deliveries, reopening
from signoff.core.approvals.approval import (
    HANDOFFS,
    TRANSITIONS,
    Approval,
    Handoff,
    Kind,
    State,
    Transition,
)
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import (
    AlreadyDecided,
    IllegalMove,
    NotAnApprover,
    NotCanonical,
    OwnRequest,
    PayloadError,
    TooLate,
)
from signoff.core.base.model import stored_json
from signoff.core.policies.policy import OnTimeout

LATER = NOON + timedelta(minutes=5)
LATE = NOON + timedelta(hours=4)

Made = tuple[Approval, tuple[Event, ...]]

MOVES: dict[Transition, Callable[[Approval], Made]] = {
    Transition.APPROVE: lambda one: one.approve(MARA, people(), channel="email", now=LATER),
    Transition.REJECT: lambda one: one.reject(
        MARA, people(), channel="email", now=LATER, reason="no"
    ),
    Transition.TIME_OUT: lambda one: one.time_out(now=LATE),
    Transition.WITHDRAW: lambda one: one.withdraw(by="riley", reason="not needed", now=LATER),
}


def in_state(state: State) -> Approval:
    """Return an approval in a state, reached by a legal move if there is one."""
    approval = asked_approval()
    for (source, move), to in TRANSITIONS.items():
        if source is State.PENDING and to is state:
            return MOVES[move](approval)[0]
    return approval.model_copy(update={"state": state})


def test_copied_approval_recounts_its_votes() -> None:
    """A count from before a move does not hold after it, and is not stored."""
    approval = asked_approval()
    assert approval.ballot.own == ("mara", "cleo")
    text = stored_json(approval)
    assert "ballot" not in approval.model_dump()
    assert text == stored_json(asked_approval())
    assert approval.terms is not None
    assert len(approval.terms.ladder) == 1
    fewer = approval.model_copy(update={"asked": approval.asked[:1]})
    assert fewer.ballot.own == ("mara",)
    assert not approval.terms.model_copy(update={"ask": ()}).ladder


def test_every_move_has_a_method() -> None:
    """Each move of the enumeration has a method."""
    assert set(MOVES) == set(Transition)


@pytest.mark.parametrize("move", Transition)
@pytest.mark.parametrize("state", State)
def test_the_table_rules(state: State, move: Transition) -> None:
    """A move leads to the table's state; a move without an entry is refused."""
    before = in_state(state)
    assert before.state is state
    to = TRANSITIONS.get((state, move))
    if to is None:
        with pytest.raises((IllegalMove, AlreadyDecided)):
            MOVES[move](before)
        return
    after, events = MOVES[move](before)
    assert after.state is to
    assert after.handoff is Handoff.RECORDED
    assert after.decision is not None
    assert [event.what for event in events] == [What(to.value)]
    assert events[0].more["digest"] == before.digest
    assert before.state is state


@pytest.mark.parametrize("to", Handoff)
@pytest.mark.parametrize("start", Handoff)
def test_handoff_takes_the_steps_of_its_table_only(start: Handoff, to: Handoff) -> None:
    """The answer takes the steps of the second table only."""
    before = asked_approval().model_copy(update={"handoff": start})
    if to not in HANDOFFS[start]:
        with pytest.raises(IllegalMove, match=f"is {start} and cannot become {to}"):
            before.hand_on(to, now=LATER)
        return
    after, events = before.hand_on(to, now=LATER, result='{"ok": true}')
    assert after.handoff is to
    assert after.result == '{"ok": true}'
    assert len(events) == (0 if to is Handoff.RECORDED else 1)


def test_a_result_is_not_forgotten_by_the_next_step() -> None:
    """A step without a result keeps the existing result."""
    approval = asked_approval().model_copy(update={"handoff": Handoff.FINISHED, "result": "7"})
    assert approval.hand_on(Handoff.RESUMED, now=LATER)[0].result == "7"


def test_publishing_a_pause_twice_opens_one_approval() -> None:
    """The id is a function of the origin of the call."""
    assert make_approval().id == make_approval(now=LATER).id
    assert make_approval().id.startswith("ap_")
    assert len(make_approval().id) == 19


def test_asking_somebody_sets_the_deadline() -> None:
    """The deadline counts from the time of asking, not of opening."""
    approval = ask(make_approval(), MARA, now=LATER, within=timedelta(hours=1))
    assert approval.deadline == LATER + timedelta(hours=1)
    assert [asked.person for asked in approval.asked] == ["mara"]


def test_approval_without_approvers_is_unroutable() -> None:
    """An approval that asks nobody records this in its history."""
    terms = asked_approval().terms
    assert terms is not None
    _, (event,) = make_approval().ask(terms, (), now=NOON, notes=("nobody", "at all"))
    assert (event.what, event.why) == (What.UNROUTABLE, "nobody; at all")


def test_ended_approval_is_not_asked_again() -> None:
    """People are asked about pending approvals only."""
    ended = in_state(State.APPROVED)
    assert ended.terms is not None
    with pytest.raises(IllegalMove, match="is approved and cannot ask"):
        ended.ask(ended.terms, ended.asked, now=LATER)


def test_deliveries_are_noted_person_by_person() -> None:
    """An undeliverable card of one person does not make the others unreachable."""
    approval, _ = deliveries.undelivered(
        asked_approval(), "mara", "email", "no such mailbox", now=LATER
    )
    assert deliveries.is_reachable(approval)
    approval, _ = deliveries.undelivered(approval, "cleo", "email", "refused", now=LATER)
    assert not deliveries.is_reachable(approval)
    approval, (event,) = deliveries.delivered(approval, "cleo", "email", "<1@x>", now=LATER)
    assert deliveries.is_reachable(approval)
    assert approval.asked[1].receipt == "<1@x>"
    assert approval.asked[1].problem == ""
    assert (event.what, event.more) == (What.DELIVERED, {"to": "cleo"})


def test_answer_at_the_deadline_is_too_late() -> None:
    """An answer counts until the last moment before the deadline, whenever the timer runs."""
    approval = asked_approval()
    approval.may_decide(MARA, people(), now=LATE - timedelta(microseconds=1))
    with pytest.raises(TooLate, match="expired on Mon 2 Mar 2026, 16:00 UTC"):
        approval.may_decide(MARA, people(), now=LATE)


def test_approval_never_times_out_before_its_deadline() -> None:
    """A timer with a fast clock ends nothing too early."""
    with pytest.raises(IllegalMove, match="not due yet"):
        asked_approval().time_out(now=LATE - timedelta(microseconds=1))


def test_approval_with_policy_stay_accepts_answers_after_its_deadline() -> None:
    """If the policy says "stay", the deadline marks it overdue once, and ends nothing."""
    approval = ask(make_approval(), MARA, on_timeout=OnTimeout.STAY)
    decided, _ = approval.approve(MARA, people(), channel="email", now=LATE)
    assert decided.state is State.APPROVED
    overdue, (event,) = approval.time_out(now=LATE)
    assert (overdue.state, overdue.deadline) == (State.PENDING, None)
    assert event.what is What.OVERDUE
    assert overdue.approve(MARA, people(), channel="email", now=LATE)[0].state is State.APPROVED


def test_person_who_is_not_asked_cannot_decide() -> None:
    """A person of the directory who is not asked is refused by name."""
    approval = ask(make_approval(), MARA)
    with pytest.raises(NotAnApprover, match="Cleo Park is not asked"):
        approval.approve(CLEO, people(), channel="email", now=LATER)


def test_the_requester_never_decides() -> None:
    """The requester is refused even with a place among the approvers."""
    approval = ask(make_approval(), MARA, RILEY)
    with pytest.raises(OwnRequest, match="Riley Voss asked for reimburse"):
        approval.approve(RILEY, people(), channel="email", now=LATER)


def test_refusal_for_a_decided_approval_names_the_decider() -> None:
    """The second person to answer learns who decided."""
    approval = in_state(State.REJECTED)
    with pytest.raises(AlreadyDecided, match="already rejected by Mara Lind"):
        approval.approve(CLEO, people(), channel="email", now=LATER)
    assert in_state(State.TIMED_OUT).outcome() == "timed out"
    assert approval.outcome() == "rejected by mara"


def test_changed_values_on_a_gate_are_a_rejection_with_a_proposal() -> None:
    """An answer cannot change the displayed arguments, but it can propose others."""
    approval, (event,) = asked_approval().approve(
        MARA, people(), channel="email", now=LATER, values={"amount": 100}
    )
    assert approval.state is State.REJECTED
    assert approval.decision is not None
    assert approval.decision.proposal == {**approval.call.args, "amount": 100}
    assert event.more["proposal"] == approval.decision.proposal


def test_the_values_that_were_shown_are_an_approval() -> None:
    """Repeating the displayed amount changes nothing."""
    shown = asked_approval().call.args
    approval, _ = asked_approval().approve(
        MARA, people(), channel="email", now=LATER, values=dict(shown)
    )
    assert approval.state is State.APPROVED


def test_values_for_an_argument_that_is_not_there_are_refused() -> None:
    """The message names the argument."""
    with pytest.raises(PayloadError) as caught:
        asked_approval().approve(MARA, people(), channel="email", now=LATER, values={"color": 1})
    assert caught.value.key == "color"


def test_a_call_in_doubt_is_asked_about_as_another_approval() -> None:
    """The new approval has the same call, names the earlier one, and says what happened."""
    approval = in_state(State.APPROVED)
    with pytest.raises(IllegalMove, match="not in doubt"):
        reopening.ask_again(approval, now=LATER)
    for step in (Handoff.STARTED, Handoff.IN_DOUBT):
        approval, _ = approval.hand_on(step, now=LATER)
    question, (event,) = reopening.ask_again(approval, now=LATER)
    assert question.id != approval.id
    assert question.digest == approval.digest
    assert question.supersedes == approval.id == event.more["supersedes"]
    assert "may or may not have happened" in question.hint
    assert question.state is State.PENDING


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("state", [one for one in State if one is not State.PENDING])
@pytest.mark.parametrize("start", [Handoff.RECORDED, Handoff.FINISHED])
def test_agent_goes_on_without_an_approved_call_only_after_it_finished(
    start: Handoff, state: State, kind: Kind
) -> None:
    """An approved confirmation is not handed on as long as its tool was not seen to finish."""
    before = in_state(state).model_copy(update={"handoff": start, "kind": kind})
    runs = (state, kind) == (State.APPROVED, Kind.CONFIRMATION)
    assert before.lets_run is runs
    assert before.is_to_run is (runs and start is Handoff.RECORDED)
    if runs and start is Handoff.RECORDED:
        with pytest.raises(IllegalMove, match="went on without reimburse"):
            before.hand_on(Handoff.RESUMED, now=LATER)
    else:
        assert before.hand_on(Handoff.RESUMED, now=LATER)[0].handoff is Handoff.RESUMED


DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("own", "state", "kind", "valid"),
    [
        (None, State.APPROVED, Kind.CONFIRMATION, DAY),
        (2 * DAY, State.APPROVED, Kind.CONFIRMATION, 2 * DAY),
        (DAY / 2, State.APPROVED, Kind.CONFIRMATION, DAY / 2),
        (None, State.APPROVED, Kind.INPUT, None),
        (None, State.REJECTED, Kind.CONFIRMATION, None),
        (None, State.PENDING, Kind.CONFIRMATION, None),
    ],
)
def test_approved_call_is_started_within_its_validity_or_asked_again(
    own: timedelta | None, state: State, kind: Kind, valid: timedelta | None
) -> None:
    """The policy may set the validity; at its last moment the approval has expired."""
    approval = in_state(state).model_copy(update={"kind": kind})
    assert approval.terms is not None
    terms = approval.terms.model_copy(update={"valid_for": own})
    approval = approval.model_copy(update={"terms": terms})
    if valid is None:
        assert approval.good_until(DAY) is None
        assert not approval.has_expired(LATER + 9 * DAY, DAY)
        with pytest.raises(IllegalMove, match="has not expired"):
            reopening.expire(approval, now=LATER + 9 * DAY, valid_for=DAY)
        return
    end = LATER + valid
    assert approval.good_until(DAY) == end
    for moment in (LATER, end - timedelta.resolution):
        assert not approval.has_expired(moment, DAY)
        with pytest.raises(IllegalMove, match="has not expired"):
            reopening.expire(approval, now=moment, valid_for=DAY)
    assert approval.has_expired(end, DAY)
    assert reopening.expire(approval, now=end, valid_for=DAY)[0].handoff is Handoff.EXPIRED


def test_every_question_about_a_call_again_is_another_approval() -> None:
    """No id comes twice, however often and why a call is asked about; it starts undecided."""
    template: JsonValue = {"days": 5}
    approval, _ = Approval.open(
        make_origin(),
        make_call(),
        hint="Look at the receipt.",
        template=template,
        said="I pay it.",
        request="Pay it",
        hide=("purpose",),
        declared="d1",
        now=NOON,
    )
    origin, now, ids = approval.origin, NOON, [approval.id]
    for why in ("expired", "in doubt", "void", "changed", "expired", "changed", "void", "in doubt"):
        before = ask(approval, MARA, now=now)
        yes, _ = before.approve(MARA, people(), channel="email", now=now)
        now += DAY
        args, declared = before.call.args, before.declared
        match why:
            case "expired":
                after, approval, _ = reopening.expire(yes, now=now, valid_for=DAY)
                assert after.handoff is Handoff.EXPIRED
            case "void":
                after, approval, _ = reopening.void(yes, why="no receipt", now=now)
                assert after.handoff is Handoff.VOID
            case "changed":
                args, declared = {**args, "amount": len(ids)}, f"d{len(ids)}"
                changed = before.call.model_copy(update={"args": args})
                after, approval, _ = reopening.ask_about_change(
                    yes, changed, origin={}, declared=declared, why="It has changed.", now=now
                )
                assert after.handoff is Handoff.VOID
            case _:
                for step in (Handoff.STARTED, Handoff.IN_DOUBT):
                    yes, _ = yes.hand_on(step, now=now)
                approval, _ = reopening.ask_again(yes, now=now)
                template = None
        assert (approval.state, approval.handoff) == (State.PENDING, Handoff.NONE)
        assert (approval.supersedes, approval.decision, approval.terms) == (before.id, None, None)
        assert (approval.call.args, approval.declared) == (args, declared)
        assert approval.template == template
        assert approval.digest == approval.digest_of(approval.call.name, args)
        assert (approval.digest == before.digest) is (why != "changed")
        assert (approval.said, approval.request, approval.hide) == (
            "I pay it.",
            "Pay it",
            ("purpose",),
        )
        assert (approval.origin.confirmation, approval.origin.run) == (
            origin.confirmation,
            origin.run,
        )
        assert approval.origin.again - before.origin.again == (why == "in doubt")
        assert approval.origin.expired - before.origin.expired == (why != "in doubt")
        ids.append(approval.id)
    assert len({*ids}) == len(ids) == 9


def test_digest_covers_the_caller_and_what_the_tool_declares() -> None:
    """A call of another agent, app or requester, or with other declared parameters, is another."""
    approval = make_approval()
    same = approval.digest_of("reimburse", approval.call.args)
    assert same == approval.digest
    others = {
        approval.digest_of("reimburse", {**approval.call.args, "amount": 2501}),
        approval.digest_of("refund", approval.call.args),
        approval.digest_of("reimburse", approval.call.args, declared="d1"),
        *(
            approval.digest_of(
                "reimburse",
                approval.call.args,
                origin=approval.origin.model_copy(update={name: "other"}),
            )
            for name in ("agent", "app", "user")
        ),
    }
    assert len(others - {same}) == 6


def test_a_template_wants_its_blanks_filled() -> None:
    """A zero that nobody chose does not become the answer."""
    approval = asked_approval(template={"approved_days": 0})
    with pytest.raises(PayloadError, match="needs a value for approved_days") as caught:
        approval.approve(MARA, people(), channel="email", now=LATER)
    assert caught.value.example == "approved_days: 3"
    decided, (event,) = approval.approve(
        MARA, people(), channel="email", now=LATER, values={"approved_days": 3}
    )
    assert decided.decision is not None
    assert decided.decision.payload == {"approved_days": 3}
    assert event.more["payload"] == {"approved_days": 3}


@pytest.mark.parametrize("template", [{"x": float("nan")}, {"x": "\ud800"}, {1: "x"}])
def test_template_that_the_ledger_cannot_store_is_refused(template: Any) -> None:
    """A value that the ledger cannot write and read back is never stored."""
    with pytest.raises(NotCanonical, match="payload template of reimburse"):
        make_approval(template=template)


def test_a_hint_in_broken_unicode_is_mended() -> None:
    """A hint is only text, so broken Unicode in it does not prevent the question."""
    assert make_approval(hint="over \ud800 budget").hint == "over ? budget"


@pytest.mark.parametrize("state", State)
def test_approval_json_without_defaults_reads_back_equal(state: State) -> None:
    """JSON without the default values reads back as an equal approval."""
    approval = in_state(state)
    text = approval.model_dump_json(exclude_defaults=True, exclude={"version"})
    assert Approval.model_validate_json(text) == approval
