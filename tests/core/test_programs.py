"""Programs that run their own calls: the window, the single start and the report."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import MARA, NOON, ask, make_call, make_origin, people, present
from signoff.core.approvals import collaboration, programs, reopening
from signoff.core.approvals.approval import Approval, Handoff, State
from signoff.core.approvals.parts import Program
from signoff.core.approvals.run import RunState
from signoff.core.base.errors import MoveRefused, NotStartable, ReportRefused, TooLate
from signoff.core.policies.policy import OnTimeout
from signoff.core.routing.escalation import advance, is_due

REQUEST = "7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71"
PROGRAM = Program(
    instance="b29a43a7-1949-4b9f-9d61-b7ae66f85d31",
    request=REQUEST,
    tool="refund",
    arguments='{"amount":1.10}',
    timeout="30m",
    until=NOON + timedelta(minutes=30),
    valid_for=timedelta(minutes=5),
)
END = PROGRAM.until


def opened() -> Approval:
    """Return the approval of a program's request before anybody is asked."""
    call = make_call("refund", REQUEST, amount=1.1)
    return Approval.open(make_origin(), call, hint="", template=None, now=NOON, program=PROGRAM)[0]


def approved() -> Approval:
    """Return the approval after Mara's approval a minute later."""
    waits = ask(opened(), MARA)
    at = NOON + timedelta(minutes=1)
    return waits.approve(MARA, people(), channel="inbox", now=at)[0]


def consumed() -> Approval:
    """Return the approval after its call started a minute later."""
    return programs.consume(approved(), by="codex", key="c", now=NOON + timedelta(minutes=2))[0]


@pytest.mark.parametrize("on_timeout", [*OnTimeout])
def test_level_deadline_never_passes_the_programs_window(on_timeout: OnTimeout) -> None:
    """The deadline of a level never lies after the window, whatever the policy says."""
    waits = ask(opened(), MARA, within=timedelta(hours=4), on_timeout=on_timeout)
    assert waits.deadline == END
    assert waits.next_due == END
    with pytest.raises(TooLate):
        waits.approve(MARA, people(), channel="inbox", now=END)
    after, _ = advance(waits, people(), now=END)
    assert after.state is State.TIMED_OUT


def test_a_request_that_was_never_routed_expires() -> None:
    """The end of its window is due although it has no deadline."""
    assert is_due(opened(), END)
    assert advance(opened(), people(), now=END)[0].state is State.TIMED_OUT


def test_a_level_that_stays_open_ends_with_the_window() -> None:
    """An overdue request can still be decided until the window ends."""
    first = timedelta(minutes=10)
    waits = ask(opened(), MARA, within=first, on_timeout=OnTimeout.STAY)
    overdue, _ = advance(waits, people(), now=NOON + first)
    assert (overdue.state, overdue.deadline, overdue.next_due) == (State.PENDING, None, END)
    assert advance(overdue, people(), now=END)[0].state is State.TIMED_OUT


def test_more_time_never_goes_beyond_the_window() -> None:
    """The program waits no longer, even while its requester has an open question."""
    waits = ask(opened(), MARA, within=timedelta(minutes=20))
    with pytest.raises(MoveRefused, match="the program that asks waits"):
        collaboration.extend(
            waits, MARA, people(), more=timedelta(minutes=15), reason="lunch", now=NOON
        )
    asked, _ = collaboration.ask_back(waits, MARA, people(), text="why?", now=NOON)
    assert asked.deadline == waits.deadline


def test_key_starts_a_call_once() -> None:
    """The same key changes nothing; another key and a late start are refused."""
    started = consumed()
    assert (started.handoff, started.starts) == (Handoff.STARTED, 1)
    later = NOON + timedelta(days=1)
    assert programs.consume(started, by="codex", key="c", now=later) == (started, ())
    with pytest.raises(NotStartable) as again:
        programs.consume(started, by="codex", key="d", now=later)
    assert again.value.code == "already_consumed"


def test_a_yes_is_good_for_a_while() -> None:
    """It counts before that time only; the terms of the request hold if the settings change."""
    yes = approved()
    until = present(yes.good_until(timedelta(days=7)))
    assert until == NOON + timedelta(minutes=6)
    with pytest.raises(NotStartable) as late:
        programs.consume(yes, by="codex", key="c", now=until)
    assert late.value.code == "approval_expired"
    programs.consume(yes, by="codex", key="c", now=until - timedelta(microseconds=1))


def test_unapproved_call_is_not_started() -> None:
    """Pending, rejected and withdrawn calls are refused in the same way."""
    waits = ask(opened(), MARA)
    no, _ = waits.reject(MARA, people(), channel="inbox", now=NOON, reason="no")
    gone, _ = waits.withdraw(by="codex", reason="", now=NOON)
    for one in (waits, no, gone):
        with pytest.raises(NotStartable) as refused:
            programs.consume(one, by="codex", key="c", now=NOON)
        assert refused.value.code == "not_approved"


def test_started_call_is_in_doubt_until_its_report() -> None:
    """A late report resolves the doubt; nobody is asked again, and other reports are refused."""
    now = NOON + timedelta(hours=2)
    doubtful, events = programs.doubt(consumed(), now=now)
    assert (doubtful.handoff, len(events)) == (Handoff.IN_DOUBT, 1)
    done, _ = programs.report(doubtful, by="codex", succeeded=False, note="timeout", now=now)
    assert done.handoff is Handoff.RESUMED
    assert present(present(done.program).report).note == "timeout"
    with pytest.raises(ReportRefused):
        programs.report(done, by="codex", succeeded=True, note="", now=now)
    assert programs.doubt(done, now=now) == (done, ())
    with pytest.raises(ReportRefused):
        programs.report(approved(), by="codex", succeeded=True, note="", now=now)


def test_question_about_a_call_in_doubt_has_a_new_window_of_the_same_length() -> None:
    """Its approvers get as long as those of the first question, and the call can start anew."""
    now = NOON + timedelta(hours=2)
    doubtful, _ = programs.doubt(consumed(), now=now)
    question, _ = reopening.ask_again(doubtful, now=now)
    assert question.window == now + (END - NOON)
    assert present(question.program).consumed_by == ""
    yes, _ = ask(question, MARA, now=now).approve(MARA, people(), channel="inbox", now=now)
    assert present(programs.consume(yes, by="codex", key="d", now=now)[0].program).consumed_by


def test_its_run_ends_with_the_decision() -> None:
    """No run is left to resume."""
    run = programs.run_of(opened())
    assert run.state is RunState.PAUSED
    assert run.answered(opened().id).state is RunState.COMPLETED


def test_earlier_release_leaves_a_program_record_alone() -> None:
    """The record marks it, so an earlier release leaves it alone."""
    assert opened().needs == 2
    assert '"needs":2' in opened().model_dump_json(exclude_defaults=True)
