"""Last messages that were lost with a worker: each has a defined end."""

from __future__ import annotations

import pytest
from google.adk.events.event import Event
from google.adk.sessions.session import Session

from signoff.broker import stages
from signoff.core.approvals.run import RunState
from signoff.core.policies.policy import InDoubt
from signoff.worker.adk.sessions.ledger import LedgerSessionService
from worker.office import AGENTS, Office
from worker.test_taken_up import Fuse, lay, work_until_death

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")


@pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(1, 9))
async def test_failure_of_an_unresumable_turn_names_the_executed_call(
    office: Office, monkeypatch: pytest.MonkeyPatch, step: int, after: bool
) -> None:
    """A plain custom root cannot continue: the run fails and names the call that has run."""
    run = await office.submit("relay", "pay")
    await office.approve(run, InDoubt.FAIL)
    with monkeypatch.context() as patch:
        lay(patch, office, Fuse(step, after=after))
        await work_until_death(office, stages.resume("relay"))
    run = await office.resume(run)
    assert len(office.executed()) <= 1
    if run.state is RunState.IN_DOUBT:
        return
    if run.state is RunState.COMPLETED:
        assert run.text.startswith("I paid")
        return
    assert run.state is RunState.FAILED
    why = (await office.ledger.history(run.id))[-1].why
    assert "cut off in the middle of a turn" in why
    assert ("pay() has run" in why) is bool(office.executed())


async def test_a_call_whose_result_adk_loses_is_reported_as_run(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ADK cancels a single-turn agent when another one pauses, also just after its tool has run."""
    append = LedgerSessionService.append_event

    async def lose(self: LedgerSessionService, session: Session, event: Event) -> Event:
        if office.executed() and event.get_function_responses():
            return event
        return await append(self, session, event)

    run = await office.submit("finance", "Reimburse me $2500 for the conference")
    await office.approve(run)
    monkeypatch.setattr(LedgerSessionService, "append_event", lose)
    run = await office.resume(run)
    assert len(office.executed()) == 1
    assert run.state is RunState.FAILED
    assert "reimburse() of finance has run" in run.problem
    assert "not run" not in run.problem
