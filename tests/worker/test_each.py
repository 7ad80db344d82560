"""A pause that continues with each answer, if the policy says so and the app can."""

from __future__ import annotations

from typing import Any

import pytest

from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.core.approvals.input.long_running import LongRunning
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.approvals.parts import Kind
from signoff.core.approvals.run import RunState
from signoff.core.base.errors import IllegalMove
from signoff.core.policies.policy import InDoubt, Resume
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.executor import Executor
from worker.office import AGENTS, MARA, Office
from worker.test_taken_up import Fuse, lay, work_until_death

# ADK announces its experimental features by warning about them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True),
]


def paid(office: Office) -> list[str]:
    """Return the recipients of payments, in order."""
    return [str(line["paid"]) for line in office.executed()]


async def test_a_resumable_app_runs_each_tool_at_its_own_answer(office: Office) -> None:
    """The first is paid while the second waits; the model speaks after both."""
    run = await office.submit("siblings_resumable", "pay both")
    first, second = await office.ask(run, resume=Resume.EACH)
    await office.decider.approve(first.id, MARA, channel="cli")
    run = await office.resume(run)
    assert run.state is RunState.PAUSED
    assert run.waiting == (second.id,)
    assert paid(office) == [first.call.args["to"]]
    assert (await office.ledger.approval(first.id)).handoff is Handoff.RESUMED
    await office.decider.reject(second.id, MARA, channel="cli", reason="not B")
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert paid(office) == [first.call.args["to"]]
    assert "not B" in run.text
    await audit.verify(office.ledger.store)


async def test_another_app_waits_for_all_answers(office: Office) -> None:
    """Otherwise its model would run between two answers, and see an abandoned call."""
    run = await office.submit("siblings", "pay both")
    first, second = await office.ask(run, resume=Resume.EACH)
    await office.decider.approve(first.id, MARA, channel="cli")
    run = await office.resume(run)
    assert run.state is RunState.PAUSED
    assert run.waiting == (second.id,)
    assert paid(office) == []
    await office.decider.approve(second.id, MARA, channel="cli")
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert sorted(paid(office)) == ["A", "B"]


@pytest.mark.parametrize("app", ["siblings", "siblings_resumable"])
async def test_answer_during_a_resume_is_not_lost(
    office: Office, monkeypatch: pytest.MonkeyPatch, app: str
) -> None:
    """The second decision arrives during the first one's resume, and follows directly after."""
    run = await office.submit(app, "pay both")
    first, second = await office.ask(run, resume=Resume.EACH)
    await office.decider.approve(first.id, MARA, channel="cli")
    name = "resume" if app == "siblings_resumable" else "resumes_each"
    original = getattr(AdkRuntime, name)
    decided = False

    if name == "resume":

        async def resume(self: AdkRuntime, *args: object) -> object:
            nonlocal decided
            if not decided:
                decided = True
                await office.decider.approve(second.id, MARA, channel="cli")
            return await original(self, *args)

        monkeypatch.setattr(AdkRuntime, "resume", resume)
    else:
        settle = type(office.executor)._settle

        async def late(self: Executor, *args: Any) -> object:
            nonlocal decided
            if not decided:
                decided = True
                await office.decider.approve(second.id, MARA, channel="cli")
            return await settle(self, *args)

        monkeypatch.setattr(type(office.executor), "_settle", late)
    run = await office.resume(run)
    if run.state is RunState.ANSWERED:
        run = await office.resume(run)  # the second answer has rung the bell
    assert run.state is RunState.COMPLETED
    assert sorted(paid(office)) == ["A", "B"]
    for one in (first, second):
        assert (await office.ledger.approval(one.id)).handoff is Handoff.RESUMED
    assert (await office.ledger.backlog())[stages.resume(app)] == 0


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(1, 9))
async def test_death_between_two_answers_pays_nobody_twice(
    office: Office, monkeypatch: pytest.MonkeyPatch, step: int, after: bool
) -> None:
    """Wherever the worker dies in the first resume, the second answer arrives."""
    app = "siblings_resumable"
    run = await office.submit(app, "pay both")
    first, second = await office.ask(run, InDoubt.ASK, Resume.EACH)
    await office.decider.approve(first.id, MARA, channel="cli")
    with monkeypatch.context() as patch:
        lay(patch, office, Fuse(step, after=after))
        await work_until_death(office, stages.resume(app))
    run = await office.resume(run)
    await office.decider.approve(second.id, MARA, channel="cli")
    run = await office.resume(run)
    if run.state is RunState.PAUSED:
        (question,) = await office.ask(run)
        assert question.supersedes == first.id
        await office.decider.reject(question.id, MARA, channel="cli", reason="seen")
        run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert len(paid(office)) == len(set(paid(office)))
    assert str(second.call.args["to"]) in paid(office)


async def test_failed_run_withdraws_its_pending_approvals(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No open question remains whose answer would have no effect."""
    run = await office.submit("siblings_resumable", "pay both")
    first, second = await office.ask(run, resume=Resume.EACH)
    await office.decider.approve(first.id, MARA, channel="cli")
    await office.apps.sessions.delete_session(
        app_name=run.app, user_id=run.user, session_id=run.session
    )
    run = await office.resume(run)
    assert run.state is RunState.FAILED
    left = await office.ledger.approval(second.id)
    assert left.state is State.WITHDRAWN
    assert left.handoff is Handoff.FAILED
    with pytest.raises(IllegalMove):
        run.answered(second.id)


@pytest.mark.parametrize("long_running", [(LongRunning(tool="ask_for_approval"),)], ids=["opted"])
@pytest.mark.parametrize("first", [Kind.CONFIRMATION, Kind.INPUT, Kind.LONG_RUNNING])
@pytest.mark.parametrize("app", ["ticket_resumable", "beside_resumable"])
async def test_input_and_gated_calls_of_one_pause_are_answered_separately(
    office: Office, app: str, first: Kind
) -> None:
    """Each answer is given once, and the others continue to wait."""
    run = await office.submit(app, "ask:50 pay:A")
    asked = await office.ask(run, resume=Resume.EACH)
    asked.sort(key=lambda one: one.kind is not first)
    for number, one in enumerate(asked):
        values = {"value": 4711} if one.kind is Kind.INPUT else None
        await office.decider.approve(one.id, MARA, channel="cli", values=values)
        run = await office.resume(run)
        if number == 0:
            assert run.state is RunState.PAUSED, run.problem
            assert run.waiting == (asked[1].id,)
    assert run.state is RunState.COMPLETED, run.problem
    assert paid_once(office)
    assert ("4711" if app.startswith("beside") else "approved") in run.text
    await audit.verify(office.ledger.store)


def paid_once(office: Office) -> bool:
    """Return whether A was paid exactly once."""
    return [line["paid"] for line in office.executed() if "paid" in line] == ["A"]
