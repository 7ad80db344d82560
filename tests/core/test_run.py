"""The life of a run."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from builders import NOON
from signoff.core.approvals.events import What
from signoff.core.approvals.run import RUN_TRANSITIONS, Run, RunState
from signoff.core.base.errors import IllegalMove


def make_run(state: RunState = RunState.QUEUED, **parts: object) -> Run:
    """Return a run of Riley's in this state."""
    usual: dict[str, object] = {
        "id": "run_1",
        "app": "finance",
        "user": "riley",
        "session": "s_1",
        "message": "hi",
        "submitted_at": NOON,
        "state": state,
    }
    return Run(**(usual | parts))


def move(run: Run, to: RunState) -> Run:
    """Bring a run into a state by the method for it."""
    match to:
        case RunState.PAUSED:
            return run.paused(["a"])
        case RunState.ANSWERED:
            return run.answered("a")
        case RunState.COMPLETED:
            return run.completed("done", now=NOON)[0]
        case RunState.FAILED:
            return run.failed("why", now=NOON)[0]
        case RunState.IN_DOUBT:
            return run.in_doubt("why")
        case _:
            raise IllegalMove("nothing leads back to the queue")


@pytest.mark.parametrize("to", RunState)
@pytest.mark.parametrize("start", RunState)
def test_the_table_rules(start: RunState, to: RunState) -> None:
    """A run moves to the table's state, and to no other."""
    before = make_run(start, waiting=("a",))
    if to in RUN_TRANSITIONS[start]:
        assert move(before, to).state is to
    else:
        with pytest.raises(IllegalMove):
            move(before, to)


@pytest.mark.parametrize("state", RunState)
def test_run_has_ended_in_a_state_without_moves(state: RunState) -> None:
    """A run has ended if its state has no further move."""
    assert make_run(state).ended is (not RUN_TRANSITIONS[state])


def test_run_is_ready_after_the_last_answer_of_its_pause() -> None:
    """A run waits until all sibling approvals are decided, in any order."""
    run = make_run().paused(["a", "b", "c", "a"])
    assert (run.approvals, run.waiting, run.pause) == (("a", "b", "c"), ("a", "b", "c"), 1)
    run = run.answered("b").answered("a")
    assert (run.state, run.waiting) == (RunState.PAUSED, ("c",))
    with pytest.raises(IllegalMove, match="does not wait for approval a"):
        run.answered("a")
    run = run.answered("c")
    assert (run.state, run.waiting) == (RunState.ANSWERED, ())
    assert run.paused(["d"]).pause == 2


def test_a_pause_waits_for_something() -> None:
    """A run that waits for no approval would wait forever."""
    with pytest.raises(IllegalMove, match="without an approval"):
        make_run().paused([])


def test_the_invocation_is_a_function_of_the_run() -> None:
    """A worker that resumes the run continues the same invocation."""
    assert make_run().invocation == make_run(RunState.ANSWERED).invocation
    assert make_run().invocation != make_run(id="run_2").invocation


@pytest.mark.parametrize(
    "part",
    [
        {"id": "a b"},
        {"id": ""},
        {"user": "a\0b"},
        {"session": "a\nb"},
        {"app": "../x"},
        {"message": ""},
    ],
)
def test_run_id_with_a_separator_is_refused(part: dict[str, object]) -> None:
    """Ids become parts of keys, so a character that could be a separator is refused."""
    with pytest.raises(ValidationError):
        make_run(RunState.QUEUED, **part)


def test_its_events() -> None:
    """Each change of a run has an event of its own."""
    (event,) = make_run().submitted()
    assert (event.what, event.by, event.run, event.approval) == (
        What.SUBMITTED,
        "riley",
        "run_1",
        "",
    )
    run, (event,) = make_run().failed("the tool raised", now=NOON)
    assert (event.what, event.why, run.problem) == (
        What.FAILED,
        "the tool raised",
        "the tool raised",
    )
