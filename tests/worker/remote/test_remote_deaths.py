"""A worker or a server that dies: no message or tool is repeated without asking."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from signoff.broker.ledger import audit
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from signoff.core.policies.policy import InDoubt, Resume
from worker.office import MARA
from worker.remote.far_office import FarOffice

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")

Death = Callable[[FarOffice, Run, str], Awaitable[None]]


async def server_dies(office: FarOffice, run: Run, step: str) -> None:
    """Kill the server when its agent reaches a step, and restart it later."""
    office.there.close_gate(step)
    work = asyncio.create_task(office.work(run))
    await office.until(step)
    office.there.kill()
    await work
    office.there.open_gates()
    office.there.start()
    await office.let_leases_run_out()


async def worker_dies(office: FarOffice, run: Run, step: str) -> None:
    """End the worker when the agent reaches a step; the server continues."""
    office.there.close_gate(step)
    work = asyncio.create_task(office.work(run))
    await office.until(step)
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
    office.there.open_gates()
    await office.let_leases_run_out()


each = pytest.mark.parametrize("death", [server_dies, worker_dies])
"""Restarting a server takes seconds, so most such tests only run in the soak."""

both = pytest.mark.parametrize(
    "death", [pytest.param(server_dies, marks=pytest.mark.soak), worker_dies]
)


def paid(office: FarOffice) -> list[str]:
    """Return the recipients of payments."""
    return [line["paid"] for line in office.there.lines() if "paid" in line]


@both
async def test_death_before_the_pause_sends_the_message_once(
    patient: FarOffice, death: Death
) -> None:
    """The next worker finds the message by its mark and continues the turn."""
    run = await patient.decider.submit("patient", "pay", user="riley@example.com")
    await death(patient, run, "first_word")
    assert (await patient.ledger.run(run.id)).state is RunState.QUEUED
    run = await patient.work(run)
    assert run.state is RunState.PAUSED
    assert await patient.said(run) == ["pay"]
    await patient.approve(run)
    assert (await patient.work(run)).state is RunState.COMPLETED
    assert paid(patient) == ["A"]


@each
@pytest.mark.parametrize(
    "again", [pytest.param(True, marks=pytest.mark.soak), False], ids=["run again", "leave it"]
)
async def test_a_death_in_the_tool_is_asked_about(
    patient: FarOffice, death: Death, again: bool
) -> None:
    """The answer is not posted again: a person decides if the tool may run again."""
    run = await patient.submit("patient", "pay")
    first = await patient.approval(run)
    await patient.approve(run)
    await death(patient, run, "paid")
    run = await patient.work(run)
    assert run.state is RunState.PAUSED
    assert paid(patient) == ["A"]
    assert await patient.said(run) == ["pay", "answer"]
    assert (await patient.ledger.approval(first.id)).handoff is Handoff.IN_DOUBT
    if again:
        await patient.approve(run)
    else:
        await patient.reject(run, "it went out")
    run = await patient.work(run)
    assert run.state is RunState.COMPLETED
    assert paid(patient) == (["A", "A"] if again else ["A"])
    assert await patient.said(run) == ["pay", "answer", "answer"]
    await audit.verify(patient.ledger.store)


async def test_death_in_an_idempotent_tool_asks_nobody(patient: FarOffice) -> None:
    """The policy says that the tool is idempotent, so the answer is posted once more."""
    run = await patient.submit("patient", "pay")
    (approval,) = await patient.ask(run, InDoubt.RETRY)
    await patient.decider.approve(approval.id, MARA, channel="cli")
    await worker_dies(patient, run, "paid")
    run = await patient.work(run)
    assert run.state is RunState.COMPLETED
    assert paid(patient) == ["A", "A"]


@both
async def test_death_before_the_last_message_repeats_no_tool(
    patient: FarOffice, death: Death
) -> None:
    """The session has the result: it is recorded, and the agent writes its last message."""
    run = await patient.submit("patient", "pay")
    await patient.approve(run)
    await death(patient, run, "last_word")
    run = await patient.work(run)
    assert run.state is RunState.COMPLETED
    assert run.text == '{"status": "ok", "paid": "A"}'
    assert paid(patient) == ["A"]
    assert await patient.said(run) == ["pay", "answer"]
    approval = await patient.approval(run)
    assert approval.handoff is Handoff.RESUMED
    assert approval.result == run.text


async def test_answer_waits_while_the_server_is_unavailable(
    patient: FarOffice,
) -> None:
    """No request was sent: the answer waits until the server is back."""
    run = await patient.submit("patient", "pay")
    await patient.approve(run)
    patient.there.kill()
    run = await patient.work(run)
    assert run.state is RunState.ANSWERED
    patient.there.start()
    await patient.let_leases_run_out()
    run = await patient.work(run)
    assert run.state is RunState.COMPLETED
    assert paid(patient) == ["A"]
    assert await patient.said(run) == ["pay", "answer"]


@both
async def test_death_between_two_answers_pays_each_once(patient: FarOffice, death: Death) -> None:
    """One answer was posted and the other just arrived: each has a note and runs once."""
    remote = patient.runtime.apps["patient_pair"].model_copy(update={"resumable": True})
    patient.runtime.apps = {"patient_pair": remote}
    run = await patient.submit("patient_pair", "pay")
    first, second = await patient.ask(run, resume=Resume.EACH)
    await patient.decider.approve(first.id, MARA, channel="cli")
    await death(patient, run, "paid")
    await patient.decider.approve(second.id, MARA, channel="cli")
    run = await patient.work(run)
    assert run.state is RunState.PAUSED
    assert (await patient.ledger.approval(first.id)).handoff is Handoff.IN_DOUBT
    assert paid(patient) == [first.call.args["to"]]
    await patient.reject(run, "it went out")
    run = await patient.work(run)
    assert run.state is RunState.COMPLETED
    assert sorted(paid(patient)) == ["A", "B"]
