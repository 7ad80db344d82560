"""An approval expires: a call that could not start in time is asked about again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from signoff.broker import stages
from signoff.broker.ledger.change import Change
from signoff.core.approvals.approval import Approval, Handoff, State
from signoff.core.approvals.events import What
from signoff.core.approvals.run import Run, RunState
from signoff.worker.adk.apps import Apps
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.port import TurnResult
from worker.office import MARA, Office

WEEK = timedelta(days=7)


async def approved(office: Office, **terms: Any) -> tuple[Run, Approval]:
    """Bring a run to its pause, and let Mara approve it while no worker runs."""
    run = await office.submit("finance", "Reimburse me $2500")
    (approval,) = await office.ask(run)
    if terms:
        was = await office.ledger.approval(approval.id)
        assert was.terms is not None
        after = was.model_copy(update={"terms": was.terms.model_copy(update=terms)})
        await office.ledger.commit(Change().put(after, was=was))
    await office.decider.approve(approval.id, MARA, channel="cli")
    return run, await office.ledger.approval(approval.id)


@pytest.mark.parametrize(
    ("terms", "valid_for"),
    [({}, WEEK), ({"valid_for": timedelta(minutes=10)}, timedelta(minutes=10))],
    ids=["general", "of the policy"],
)
async def test_expired_approval_runs_nothing_and_is_requested_again(
    office: Office, terms: dict[str, timedelta], valid_for: timedelta
) -> None:
    """The call gets a second approval with the time of the first, and runs once."""
    run, first = await approved(office, **terms)
    office.clock.moment += valid_for
    routed = (await office.ledger.backlog())[stages.ROUTE]

    after = await office.resume(run)

    assert after.state is RunState.PAUSED
    assert not office.journal.exists()
    assert (await office.ledger.approval(first.id)).handoff is Handoff.EXPIRED
    (again,) = await office.ledger.approvals(after.waiting)
    assert (again.id != first.id, again.supersedes) == (True, first.id)
    assert (again.call, again.digest, again.state) == (first.call, first.digest, State.PENDING)
    assert "was approved by mara" in again.hint
    assert "Is it still wanted?" in again.hint
    assert [one.what for one in await office.ledger.history(first.id)][-1] is What.EXPIRED
    assert (await office.ledger.backlog())[stages.ROUTE] == routed + 1

    await office.approve(after)
    done = await office.resume(after)
    assert done.state is RunState.COMPLETED
    assert len(office.executed()) == 1


@pytest.mark.parametrize("answer", ["approve", "reject"])
async def test_approval_counts_until_its_expiry_and_a_rejection_never_expires(
    office: Office, answer: str
) -> None:
    """A rejection holds at any age; an approval holds until just before its expiry."""
    run = await office.submit("finance", "Reimburse me $2500")
    (approval,) = await office.ask(run)
    move = office.decider.approve if answer == "approve" else office.decider.reject
    await move(approval.id, MARA, channel="cli")
    office.clock.moment += WEEK * (1 if answer == "reject" else 0)
    office.clock.moment += WEEK - timedelta(milliseconds=1)
    done = await office.resume(run)
    assert done.state is RunState.COMPLETED
    assert office.journal.exists() is (answer == "approve")


async def test_guard_refuses_an_approval_that_expires_before_the_tool(office: Office) -> None:
    """The guard checks again just before the tool: the run fails with the reason."""
    guard = GuardPlugin(office.ledger, valid_for=timedelta(microseconds=1))
    apps = Apps(office.apps.folder, office.apps.sessions, lambda: guard)
    office.executor.runtime = AdkRuntime(apps, guard)
    run, first = await approved(office)
    office.clock.moment += timedelta(seconds=1)
    done = await office.resume(run)
    assert done.state is RunState.FAILED
    assert "has expired" in done.problem
    assert not office.journal.exists()
    assert (await office.ledger.approval(first.id)).handoff is Handoff.FAILED


async def test_approval_that_expires_during_its_turn_is_requested_again(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was valid when the worker resumed the run, and has expired at the tool's call."""
    run, first = await approved(office)
    plain = AdkRuntime.resume

    async def slow(self: AdkRuntime, *args: Any) -> TurnResult:
        office.clock.moment += WEEK
        return await plain(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(AdkRuntime, "resume", slow)
        after = await office.resume(run)
    assert (after.state, after.problem) == (RunState.PAUSED, "")
    assert not office.journal.exists()
    assert (await office.ledger.approval(first.id)).handoff is Handoff.EXPIRED
    await office.approve(after)
    assert (await office.resume(after)).state is RunState.COMPLETED
    assert len(office.executed()) == 1


async def test_a_no_to_the_second_question_undoes_the_yes(office: Office) -> None:
    """The first approval is void."""
    run, _ = await approved(office)
    office.clock.moment += WEEK
    paused = await office.resume(run)
    (again,) = await office.ask(paused)
    await office.decider.reject(again.id, MARA, channel="cli", reason="not now")
    done = await office.resume(paused)
    assert done.state is RunState.COMPLETED
    assert office.executed() == []


async def test_the_second_yes_may_expire_too(office: Office) -> None:
    """Each question has an approval of its own."""
    run, first = await approved(office)
    office.clock.moment += WEEK
    paused = await office.resume(run)
    await office.approve(paused)
    office.clock.moment += WEEK
    again = await office.resume(paused)
    assert again.state is RunState.PAUSED
    assert len({first.id, *paused.waiting, *again.waiting}) == 3
