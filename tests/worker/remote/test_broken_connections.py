"""A connection that breaks at any event of a turn: no call is lost without a word.

A Python server notices it, and answers each call without a result itself: it "was aborted". When
the turn goes on, the model reads that, and nobody is ever asked about the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from signoff.broker.ledger import audit
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from signoff.core.policies.policy import Resume
from worker.office import MARA
from worker.remote.cutting_proxy import CuttingProxy
from worker.remote.far_office import FarOffice

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")


@pytest.fixture
async def proxy(patient: FarOffice) -> AsyncIterator[CuttingProxy]:
    """A proxy between the worker and the server."""
    async with CuttingProxy(patient.there.port).listening() as proxy:
        patient.runtime.apps = {
            name: remote.model_copy(update={"url": proxy.url})
            for name, remote in patient.runtime.apps.items()
        }
        yield proxy


async def until_aborted(office: FarOffice, run: Run) -> None:
    """Wait until the server has noticed that the connection is broken."""
    async with asyncio.timeout(300):
        # Only the session shows it.
        while (await office.session(run))["events"][-1].get("errorCode") != "INVOCATION_ABORTED":  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def break_at(office: FarOffice, proxy: CuttingProxy, run: Run, step: str) -> Run:
    """Break the connection when the agent reaches a step, and let the worker try again."""
    office.there.forget_steps()
    office.there.close_gate(step)
    work = asyncio.create_task(office.work(run))
    await office.until(step)
    await proxy.cut(until_aborted(office, run))
    await work
    office.there.open_gates()
    await office.let_leases_run_out()
    return await office.work(run)


def paid(office: FarOffice) -> list[str]:
    """Return the recipients of payments."""
    return [str(line["paid"]) for line in office.there.lines() if "paid" in line]


async def test_a_call_that_the_server_aborts_fails_the_run(
    patient: FarOffice, proxy: CuttingProxy
) -> None:
    """The model has made the call, and the question about it is not written yet."""
    run = await patient.decider.submit("patient", "pay", user="riley@example.com")
    run = await break_at(patient, proxy, run, "asked_A")
    assert run.state is RunState.FAILED
    assert "broke during pay(), and google-adk tells the agent that the call was" in run.problem
    assert "submit the rest again" in run.problem
    assert paid(patient) == []
    assert await patient.said(run) == ["pay"]


async def test_a_pause_is_asked_about(patient: FarOffice, proxy: CuttingProxy) -> None:
    """The server aborts the question itself, and still takes the answer to it."""
    run = await patient.decider.submit("patient", "pay", user="riley@example.com")
    run = await break_at(patient, proxy, run, "ended")
    assert run.state is RunState.PAUSED
    await patient.approve(run)
    run = await patient.work(run)
    assert (run.state, paid(patient)) == (RunState.COMPLETED, ["A"])


async def test_a_turn_before_the_first_call_goes_on(
    patient: FarOffice, proxy: CuttingProxy
) -> None:
    """Nothing was aborted but the turn itself."""
    run = await patient.decider.submit("patient", "pay", user="riley@example.com")
    run = await break_at(patient, proxy, run, "first_word")
    assert run.state is RunState.PAUSED
    assert await patient.said(run) == ["pay"]


async def test_a_call_after_an_approved_one_is_not_lost(
    patient: FarOffice, proxy: CuttingProxy
) -> None:
    """The approved call has run, and the run fails, because nobody was asked about the next."""
    run = await patient.submit("patient", "pay A B")
    first = await patient.approval(run)
    await patient.approve(run)
    run = await break_at(patient, proxy, run, "asked_B")
    assert run.state is RunState.FAILED
    assert "broke during pay()" in run.problem
    assert "pay() has run." in run.problem
    assert paid(patient) == ["A"]
    assert '"paid": "A"' in (await patient.ledger.approval(first.id)).result
    await audit.verify(patient.ledger.store)


async def test_a_call_that_still_waits_can_be_answered(
    patient: FarOffice, proxy: CuttingProxy
) -> None:
    """The server aborts the question about B too while A runs, and still takes the answer."""
    remote = patient.runtime.apps["patient_pair"].model_copy(update={"resumable": True})
    patient.runtime.apps = {"patient_pair": remote}
    run = await patient.submit("patient_pair", "pay")
    first, second = await patient.ask(run, resume=Resume.EACH)
    await patient.decider.approve(first.id, MARA, channel="cli")
    run = await break_at(patient, proxy, run, "paid")
    assert (await patient.ledger.approval(first.id)).handoff is Handoff.IN_DOUBT
    await patient.decider.approve(second.id, MARA, channel="cli")
    run = await patient.work(run)
    await patient.reject(run, "it went out")
    run = await patient.work(run)
    assert run.state is RunState.COMPLETED
    assert sorted(paid(patient)) == ["A", "B"]


async def test_a_call_after_the_reasons_of_a_refusal_is_not_lost(
    patient: FarOffice, proxy: CuttingProxy
) -> None:
    """The agent makes another call when it reads the reasons, and the connection breaks there."""
    remote = patient.runtime.apps["patient"].model_copy(update={"reasons": "auto"})
    patient.runtime.apps = {"patient": remote}
    run = await patient.submit("patient", "pay")
    await patient.reject(run, "pay B instead")
    run = await break_at(patient, proxy, run, "asked_B")
    assert run.state is RunState.FAILED
    assert "broke during pay()" in run.problem
    assert paid(patient) == []
