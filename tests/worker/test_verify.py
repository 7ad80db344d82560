"""A tool's own check settles a call in doubt, before a person is asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from signoff.core.policies.policy import InDoubt
from signoff.worker import verification
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.verification import CallInDoubt, verify
from worker.office import Office
from worker.test_taken_up import CASES, die, work_until_death


@pytest.fixture(autouse=True)
def checks() -> Iterator[None]:
    """Remove the checks of other tests."""
    before = dict(verification.checks)
    yield
    verification.checks.clear()
    verification.checks.update(before)


async def in_doubt(
    office: Office, monkeypatch: pytest.MonkeyPatch, rule: InDoubt = InDoubt.ASK
) -> Run:
    """Return a run whose worker died after its tool."""
    run = await office.submit("finance", CASES["finance"][0])
    await office.approve(run, rule)
    with monkeypatch.context() as patch:
        patch.setattr(GuardPlugin, "finish", die)
        await work_until_death(office, stages.resume("finance"))
    assert len(office.executed()) == 1
    return run


async def test_a_call_that_happened_counts_as_finished(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is asked, the tool does not run again, and the agent reads that it is done."""
    asked: list[CallInDoubt] = []

    async def check(call: CallInDoubt) -> bool:
        asked.append(call)
        return True

    run = await in_doubt(office, monkeypatch)
    verify("reimburse", check, app="finance")
    done = await office.resume(run)
    assert done.state is RunState.COMPLETED
    assert len(office.executed()) == 1
    (call,) = asked
    assert (call.tool, call.user) == ("reimburse", "riley@example.com")
    assert len(call.idempotency_key) == 32
    (approval,) = await office.ledger.approvals(run.approvals)
    assert (approval.handoff, approval.starts) == (Handoff.RESUMED, 1)
    assert "check" in approval.result
    await audit.verify(office.ledger.store)


async def test_a_call_that_did_not_happen_runs_again(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs on the same approval, even if the policy would end the run."""
    run = await in_doubt(office, monkeypatch, InDoubt.FAIL)
    verify("reimburse", lambda _: False)
    done = await office.resume(run)
    assert done.state is RunState.COMPLETED
    assert len(office.executed()) == 2
    (approval,) = await office.ledger.approvals(run.approvals)
    assert (approval.handoff, approval.starts) == (Handoff.RESUMED, 2)


@pytest.mark.parametrize("way", ["unknown", "broken", "another app"])
async def test_inconclusive_check_asks_a_person(
    office: Office, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """This is the same as without a check."""

    def check(call: CallInDoubt) -> bool | None:
        if way == "broken":
            raise OSError(call.tool)
        return None if way == "unknown" else True

    run = await in_doubt(office, monkeypatch)
    verify("reimburse", check, app="travel" if way == "another app" else "")
    paused = await office.resume(run)
    assert paused.state is RunState.PAUSED
    (question,) = await office.ledger.approvals(paused.waiting)
    assert "may or may not have happened" in question.hint
    assert len(office.executed()) == 1
