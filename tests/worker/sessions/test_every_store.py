"""The same promises for every session store of ADK."""

from __future__ import annotations

import asyncio

import pytest

from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import RunState
from worker.office import AGENTS, MARA, Office
from worker.test_taken_up import Fuse, lay, user_messages, work_until_death

CONFERENCE = "Reimburse me $2500 for the conference"
STEPS = [pytest.param(one, marks=() if one % 2 else pytest.mark.soak) for one in range(1, 9)]
"""Most tests keep sessions in the ledger; other files kill those at every step."""

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")


async def test_an_approved_call_runs_once(office: Office) -> None:
    """Run, pause, approve, resume: the call runs once as shown, and the last message arrives."""
    run = await office.submit("finance", CONFERENCE)
    assert run.state is RunState.PAUSED
    assert office.executed() == []
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert "2,500" in run.text
    assert [line["amount"] for line in office.executed()] == [2500]
    assert await user_messages(office, run) == [CONFERENCE]
    (approval,) = await office.ledger.approvals(run.approvals)
    assert approval.handoff is Handoff.RESUMED
    await audit.verify(office.ledger.store)


async def test_the_payload_of_the_approver_reaches_the_tool(office: Office) -> None:
    """A tool that asks in its own code is found by its question in the store."""
    run = await office.submit("time_off", "I need 5 days off")
    await office.approve(run, approved_days=3)
    run = await office.resume(run)
    assert "3 days" in run.text


@pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True)
@pytest.mark.parametrize("app", ["siblings", "siblings_resumable"])
async def test_siblings_are_answered_together(office: Office, app: str) -> None:
    """One answer resumes nothing; the second resumes both with their own decisions."""
    run = await office.submit(app, "pay both")
    first, second = await office.ask(run)
    await office.decider.approve(first.id, MARA, channel="cli")
    assert (await office.resume(run)).state is RunState.PAUSED
    assert office.executed() == []
    await office.decider.reject(second.id, MARA, channel="cli", reason="not B")
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert [line["paid"] for line in office.executed()] == [first.call.args["to"]]
    assert "not B" in run.text
    assert '"found": "C"' in run.text


@pytest.mark.parametrize("step", STEPS)
async def test_repeated_run_adds_the_message_once(
    office: Office, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Wherever the worker dies, the next one reaches the same pause, which can be answered."""
    run = await office.decider.submit("finance", CONFERENCE, user="riley@example.com")
    with monkeypatch.context() as patch:
        lay(patch, office, Fuse(step, after=True))
        await work_until_death(office, stages.run("finance"))
    await office.executor.drain(stages.run("finance"))
    run = await office.ledger.run(run.id)
    assert run.state is RunState.PAUSED
    assert await user_messages(office, run) == [CONFERENCE]
    await office.approve(run)
    assert (await office.resume(run)).state is RunState.COMPLETED
    assert len(office.executed()) == 1


@pytest.mark.parametrize("step", STEPS)
async def test_repeated_resume_never_runs_the_tool_twice(
    office: Office, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Wherever the worker dies in a resume, the tool runs once or is in doubt."""
    run = await office.submit("finance", CONFERENCE)
    (first,) = run.approvals
    await office.approve(run)
    with monkeypatch.context() as patch:
        lay(patch, office, Fuse(step, after=True))
        await work_until_death(office, stages.resume("finance"))
    run = await office.resume(run)
    assert len(office.executed()) <= 1
    if run.state is RunState.COMPLETED:
        assert len(office.executed()) == 1
    else:
        assert run.state is RunState.IN_DOUBT
        assert (await office.ledger.approval(first)).handoff is Handoff.IN_DOUBT
    assert await user_messages(office, run) == [CONFERENCE]
    await audit.verify(office.ledger.store)


async def test_two_runs_share_a_session(office: Office) -> None:
    """The second pauses while the first waits; each is resumed by its own answer."""
    runs = []
    for _ in range(2):
        run = await office.decider.submit(
            "finance", CONFERENCE, user="riley@example.com", session="shared"
        )
        await office.executor.drain(stages.run("finance"))
        runs.append(await office.ledger.run(run.id))
    for run in runs:
        await office.approve(run)
        assert (await office.resume(run)).state is RunState.COMPLETED
    assert len(office.executed()) == 2
    await office.apps.sessions.delete_session(
        app_name="finance", user_id="riley@example.com", session_id="shared"
    )


@pytest.mark.soak
async def test_thirty_two_runs_pause_and_resume_together(office: Office) -> None:
    """As many runs pause and resume together; none is lost or runs twice."""
    runs = [
        await office.decider.submit("finance", CONFERENCE, user=f"user{n}@example.com")
        for n in range(32)
    ]
    await asyncio.gather(*(office.executor.drain(stages.run("finance")) for _ in runs))
    # On a slow disk SQLite may have refused some for a moment: they run again.
    office.pass_time()
    await office.executor.drain(stages.run("finance"))
    paused = await office.ledger.runs([run.id for run in runs])
    assert {run.state for run in paused} == {RunState.PAUSED}
    for run in paused:
        await office.approve(run)
    await asyncio.gather(*(office.executor.drain(stages.resume("finance")) for _ in runs))
    office.pass_time()
    await office.executor.drain(stages.resume("finance"))
    ended = await office.ledger.runs([run.id for run in runs])
    assert {run.state for run in ended} == {RunState.COMPLETED}
    assert len(office.executed()) == 32
