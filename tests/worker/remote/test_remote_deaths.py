"""A worker or a server that dies in the middle: nothing is said or run twice unasked."""

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
    """Kill the server when its agent has reached a step, and start it again later."""
    office.there.close_gate(step)
    work = asyncio.create_task(office.work(run))
    await office.until(step)
    office.there.kill()
    await work
    office.there.open_gates()
    office.there.start()
    await office.let_leases_run_out()


async def worker_dies(office: FarOffice, run: Run, step: str) -> None:
    """End the worker when the agent has reached a step; the server goes on."""
    office.there.close_gate(step)
    work = asyncio.create_task(office.work(run))
    await office.until(step)
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
    office.there.open_gates()
    await office.let_leases_run_out()


both = pytest.mark.parametrize("death", [server_dies, worker_dies])


def paid(office: FarOffice) -> list[str]:
    """Return who was paid."""
    return [line["paid"] for line in office.there.lines() if "paid" in line]


@both
async def test_a_death_before_the_pause_says_the_message_once(
    patient: FarOffice, death: Death
) -> None:
    """The next worker finds the message by its mark and lets the turn go on behind it."""
    run = await patient.decider.submit("patient", "pay", user="riley@example.com")
    await death(patient, run, "first_word")
    assert (await patient.ledger.run(run.id)).state is RunState.QUEUED
    run = await patient.work(run)
    assert run.state is RunState.PAUSED
    assert await patient.said(run) == ["pay"]
    await patient.approve(run)
    assert (await patient.work(run)).state is RunState.COMPLETED
    assert paid(patient) == ["A"]


@both
@pytest.mark.parametrize("again", [True, False], ids=["run again", "leave it"])
async def test_a_death_in_the_tool_is_asked_about(
    patient: FarOffice, death: Death, again: bool
) -> None:
    """The answer is not posted again: a person says whether the tool shall run again."""
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


async def test_a_death_in_a_tool_that_may_run_twice_needs_nobody(patient: FarOffice) -> None:
    """By policy the tool is idempotent: the answer is posted once more, and the run goes on."""
    run = await patient.submit("patient", "pay")
    (approval,) = await patient.ask(run, InDoubt.RETRY)
    await patient.decider.approve(approval.id, MARA, channel="cli")
    await worker_dies(patient, run, "paid")
    run = await patient.work(run)
    assert run.state is RunState.COMPLETED
    assert paid(patient) == ["A", "A"]


@both
async def test_a_death_before_the_last_word_runs_nothing_again(
    patient: FarOffice, death: Death
) -> None:
    """The result is in the session: it is recorded, and the agent only says its last word."""
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


async def test_a_server_that_is_away_when_the_answer_comes_gets_it_later(
    patient: FarOffice,
) -> None:
    """Nothing has left: the answer waits, and is given once the server is back."""
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
async def test_a_death_between_two_single_answers_pays_each_once(
    patient: FarOffice, death: Death
) -> None:
    """One was posted and the other had just come: each has a note of its own, and runs once."""
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
