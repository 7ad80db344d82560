"""A frozen tool does not start, even after an approval, and continues after the freeze."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from signoff.broker import stages
from signoff.broker.freezes import Freezes
from signoff.core.approvals.approval import Approval, Handoff
from signoff.core.approvals.events import What
from signoff.core.approvals.run import WHOLE_APP, Run, RunState
from signoff.core.base.errors import Frozen
from signoff.core.base.freezes import Freeze
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.running_tools import TurnStopped
from signoff.worker.starting import ApprovedCalls
from worker.office import AGENTS, Office

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")

LARGE = "Reimburse me $2500"
SMALL = "Reimburse me $50"

scopes = pytest.mark.parametrize(
    "scope",
    [{"tool": "reimburse"}, {"app": "finance"}, {}, {"app": "finance", "tool": "reimburse"}],
    ids=["tool", "app", "all", "tool of an app"],
)


async def freeze(office: Office, *, app: str = "", tool: str = "") -> Freeze:
    """Freeze an app or a tool, as an operator does."""
    freezes = Freezes(office.ledger)
    return await freezes.freeze(by="ops", why="the bank called", app=app, tool=tool)


async def thaw(office: Office, *, app: str = "", tool: str = "") -> None:
    """End the freeze."""
    await Freezes(office.ledger).thaw(by="ops", why="all clear", app=app, tool=tool)


async def approved(office: Office) -> tuple[Run, Approval]:
    """Bring a run to its pause and let Mara approve the call."""
    run = await office.submit("finance", LARGE)
    await office.approve(run)
    (approval,) = await office.ledger.approvals(run.approvals)
    return run, approval


@scopes
async def test_an_approved_call_waits_for_the_thaw(office: Office, scope: dict[str, str]) -> None:
    """The model gets no refusal: the run waits, and then runs the call once."""
    run, approval = await approved(office)
    await freeze(office, **scope)
    run = await office.resume(run)
    assert (run.state, office.executed()) == (RunState.ANSWERED, [])
    assert run.held == ("reimburse" if "tool" in scope else WHOLE_APP)
    noted = [one for one in await office.ledger.history(approval.id) if one.what is What.FROZEN]
    assert [one.by for one in noted] == ["ops"]
    assert "the bank called" in noted[0].why

    run = await office.resume(run)
    assert office.executed() == []
    assert (await office.ledger.approval(approval.id)).handoff is Handoff.RECORDED

    await thaw(office, **scope)
    run = await office.resume(run)
    assert (run.state, run.held, len(office.executed())) == (RunState.COMPLETED, "", 1)


async def test_freeze_affects_only_its_tool_and_app(office: Office) -> None:
    """A freeze only concerns the tool, the app or both that it names."""
    run, _ = await approved(office)
    await freeze(office, tool="pay")
    await freeze(office, app="refunds")
    await freeze(office, app="refunds", tool="reimburse")
    run = await office.resume(run)
    assert (run.state, len(office.executed())) == (RunState.COMPLETED, 1)


@scopes
async def test_ungated_call_waits_during_a_freeze(office: Office, scope: dict[str, str]) -> None:
    """An amount below the limit needs no approval, and still does not run during a freeze."""
    await freeze(office, **scope)
    run = await office.submit("finance", SMALL)
    assert (run.state, office.executed()) == (RunState.QUEUED, [])
    assert run.held
    await office.executor.drain(stages.run("finance"))
    assert office.executed() == []
    await thaw(office, **scope)
    await office.executor.drain(stages.run("finance"))
    run = await office.ledger.run(run.id)
    assert (run.state, len(office.executed())) == (RunState.COMPLETED, 1)


async def test_people_are_asked_about_a_tool_that_is_frozen(office: Office) -> None:
    """Asking starts nothing: the decision is ready when the freeze ends."""
    await freeze(office, tool="reimburse")
    run, _ = await approved(office)
    run = await office.resume(run)
    assert (run.state, office.executed()) == (RunState.ANSWERED, [])
    await thaw(office, tool="reimburse")
    run = await office.resume(run)
    assert (run.state, len(office.executed())) == (RunState.COMPLETED, 1)


@contextmanager
def frozen_before_start(
    office: Office, monkeypatch: pytest.MonkeyPatch, **scope: str
) -> Iterator[None]:
    """Freeze it just before the guard commits the start of a call."""
    hand_on = ApprovedCalls.hand_on

    async def step(self: ApprovedCalls, *args: Any, **more: Any) -> None:
        if not await Freezes(office.ledger).all():
            await freeze(office, **scope)
        await hand_on(self, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(ApprovedCalls, "hand_on", step)
        yield


async def test_late_freeze_stops_the_tool_at_its_start(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit that records the start checks the freeze, so there is no gap."""
    run, approval = await approved(office)
    with frozen_before_start(office, monkeypatch, tool="reimburse"):
        run = await office.resume(run)
    assert (run.state, run.held, office.executed()) == (RunState.ANSWERED, "reimburse", [])
    assert (await office.ledger.approval(approval.id)).handoff is Handoff.RECORDED
    await thaw(office, tool="reimburse")
    run = await office.resume(run)
    assert (run.state, len(office.executed())) == (RunState.COMPLETED, 1)


@pytest.mark.parametrize("agents_folder", [AGENTS], indirect=True)
@pytest.mark.parametrize("app", ["siblings", "siblings_resumable"])
async def test_no_call_of_a_step_runs_twice_because_another_was_frozen(
    office: Office, app: str
) -> None:
    """The results of one model step are stored together, so all of its calls wait."""
    await freeze(office, tool="look")
    run = await office.submit(app, "pay both")
    assert (run.state, run.held, office.executed()) == (RunState.QUEUED, "look", [])
    await thaw(office, tool="look")
    await office.executor.drain(stages.run(app))
    run = await office.ledger.run(run.id)
    assert run.state is RunState.PAUSED
    assert len(run.waiting) == 2
    await office.approve(run)
    await freeze(office, tool="pay")
    run = await office.resume(run)
    assert office.executed() == []
    await thaw(office, tool="pay")
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert sorted(str(one["paid"]) for one in office.executed()) == ["A", "B"]


@pytest.mark.parametrize("agents_folder", [AGENTS], indirect=True)
@pytest.mark.parametrize("app", ["nodes", "nodes_resumable"])
async def test_a_node_of_a_workflow_waits_for_the_thaw(office: Office, app: str) -> None:
    """A function node starts with its answer, so the answer is held back."""
    run = await office.submit(app, "go")
    await office.approve(run)
    (approval, *_) = await office.ledger.approvals(run.approvals)
    before = office.executed()
    await freeze(office, tool=approval.call.name)
    run = await office.resume(run)
    assert (run.state, office.executed()) == (RunState.ANSWERED, before)
    await thaw(office, tool=approval.call.name)
    run = await office.resume(run)
    assert run.state in {RunState.COMPLETED, RunState.PAUSED}
    assert (await office.ledger.approval(approval.id)).handoff is Handoff.RESUMED


async def test_a_commit_that_starts_a_frozen_tool_is_refused_by_the_ledger(office: Office) -> None:
    """The script refuses it, and says who froze it and why."""
    _, approval = await approved(office)
    made = await freeze(office, tool="reimburse")
    guard = GuardPlugin(office.ledger)
    with pytest.raises(Frozen, match="ops has frozen reimburse\\(\\): the bank called") as refused:
        await guard.begin([approval], lambda change: change)
    assert refused.value.freeze == made


async def test_thaw_releases_held_work_immediately(office: Office) -> None:
    """Held work does not wait for the timers; leased work stays with its worker."""
    run, _ = await approved(office)
    await freeze(office, app="finance")
    await office.resume(run)
    later = await office.ledger.claim(stages.resume("finance"))
    assert later.items == ()
    await thaw(office, app="finance")
    claimed = await office.ledger.claim(stages.resume("finance"))
    assert [one.attempts for one in claimed.items] == [1]
    await Freezes(office.ledger).wake()
    assert (await office.ledger.claim(stages.resume("finance"))).items == ()


async def test_a_freeze_waits_for_the_tools_that_run(office: Office) -> None:
    """Other running tools are not interrupted; a tool that contains others does not wait."""
    session, tools = ("finance", "riley", "s"), GuardPlugin(office.ledger).running_tools
    made = Frozen(await freeze(office, tool="pay"))
    gate, told = asyncio.Event(), list[str]()

    async def tool() -> None:
        with tools.running(session):
            await gate.wait()
            told.append("ran to its end")

    async def frozen() -> None:
        # An agent tool that contains the frozen tool.
        with pytest.raises(TurnStopped), tools.running(session):
            await tools.stop_turn(session, made)
        told.append("stopped")

    running = [asyncio.create_task(one()) for one in (tool, frozen, frozen)]
    await asyncio.sleep(0)
    assert told == []
    gate.set()
    with pytest.raises(TurnStopped):
        await tools.require_not_stopping(session)
    await asyncio.gather(*running)
    assert told == ["ran to its end", "stopped", "stopped"]
    tools.forget_stop(session)
    await tools.require_not_stopping(session)
