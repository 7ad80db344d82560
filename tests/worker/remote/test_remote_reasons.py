"""The reason of a refusal, and how a remote agent reads it."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta

import httpx
import pytest

from signoff.core.approvals.run import Run, RunState
from signoff.worker.adk_remote.settings import RemoteApp
from worker.office import MARA
from worker.remote.far_office import FarOffice

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")

both_apps = pytest.mark.parametrize("app", ["heeds", "heeds_resumable"])


@pytest.fixture
def office(patient: FarOffice) -> FarOffice:
    """Return an office that sends the reason as a message if the server supports it."""
    names = ("heeds", "heeds_resumable", "pipeline", "patient")
    patient.runtime.apps = {name: RemoteApp(url=patient.there.url) for name in names}
    return patient


async def rejected(office: FarOffice, app: str) -> Run:
    """Bring a run to its pause, and reject the call."""
    run = await office.submit(app, "pay")
    await office.reject(run, "over budget")
    return await office.work(run)


@both_apps
async def test_the_reason_reaches_the_model(office: FarOffice, app: str) -> None:
    """A message after the refusal has it; the agent's answer is the run's last message."""
    run = await rejected(office, app)
    assert run.state is RunState.COMPLETED
    assert run.text.startswith("I was told:")
    assert "pay(): This tool call was rejected by the approver. Reason: over budget" in run.text
    assert office.there.lines() == []
    said = await office.said(run)
    assert said[:2] == ["pay", "answer"]
    assert len(said) == 3


@both_apps
async def test_proposal_leads_to_a_linked_call(office: FarOffice, app: str) -> None:
    """Other arguments are a rejection with a proposal; the call for it is linked to it."""
    run = await office.submit(app, "pay")
    (first,) = await office.ask(run)
    await office.decider.approve(first.id, MARA, channel="cli", values={"amount": 900})
    run = await office.work(run)
    assert run.state is RunState.PAUSED
    (second,) = await office.ledger.approvals(run.waiting)
    assert (second.call.args, second.supersedes) == ({"amount": 900}, first.id)
    await office.approve(run)
    run = await office.work(run)
    assert run.state is RunState.COMPLETED
    assert office.there.lines() == [{"paid": 900}]


async def test_approval_sends_no_extra_message(office: FarOffice) -> None:
    """No message is added to the answer."""
    run = await office.submit("heeds", "pay")
    await office.approve(run)
    run = await office.work(run)
    assert await office.said(run) == ["pay", "answer"]


async def test_rejection_without_a_reason_sends_no_extra_message(office: FarOffice) -> None:
    """ADK's own text is enough."""
    run = await office.submit("heeds", "pay")
    await office.reject(run, "")
    run = await office.work(run)
    assert run.state is RunState.COMPLETED
    assert await office.said(run) == ["pay", "answer"]


async def test_timeout_message_differs_from_a_rejection_message(office: FarOffice) -> None:
    """ADK treats both as refusals; the message says that nobody has answered."""
    run = await office.submit("heeds", "pay")
    (approval,) = await office.ask(run)
    office.clock.moment += timedelta(hours=25)
    await office.decider.time_out(approval.id)
    run = await office.work(run)
    assert "nobody answered in time" in run.text


async def test_sequential_agent_gets_the_reason_in_the_session_state_only(
    office: FarOffice,
) -> None:
    """A message would start it again, so the reason is only in the session's state."""
    run = await rejected(office, "pipeline")
    assert run.state is RunState.COMPLETED
    assert await office.said(run) == ["pay", "answer"]
    assert "over budget" in (await office.session(run))["state"]["signoff_refusal"]


async def test_rejection_reason_is_sent_once(office: FarOffice) -> None:
    """A worker that died after the message finds it by its mark."""
    run = await office.submit("heeds", "pay")
    await office.reject(run, "over budget")
    approvals = await office.ledger.approvals(run.approvals)
    run = await office.ledger.run(run.id)
    first = await office.runtime.resume(run, approvals, lambda change: change)
    assert await office.runtime.resume(run, approvals, lambda change: change) == first
    assert len(await office.said(run)) == 3


async def test_next_worker_resumes_after_a_death_during_the_reason_message(
    office: FarOffice,
) -> None:
    """The message is in the session without an answer, so the agent answers it then."""
    run = await office.submit("patient", "pay")
    await office.reject(run, "over budget")
    office.there.forget()
    office.there.close_gate("first_word")
    work = asyncio.create_task(office.work(run))
    await office.until("first_word")
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
    office.there.open_gates()
    await office.let_leases_run_out()
    run = await office.work(run)
    # The patient agent pays whatever it is told, so its call is asked about again.
    assert run.state is RunState.PAUSED
    said = await office.said(run)
    assert said[:2] == ["pay", "answer"]
    assert len(said) == 3


async def test_tool_that_asks_by_itself_gets_the_reason_in_its_payload(examples: FarOffice) -> None:
    """No guard protects it: the tool runs with a rejection and its reason."""
    run = await examples.submit("time_off", "I need 5 days off")
    await examples.reject(run, "quarter end")
    run = await examples.work(run)
    async with httpx.AsyncClient(timeout=60) as client:
        session = await client.get(examples.there.session(run.app, run.user, run.session))
    answers = [
        part["functionResponse"]["response"]
        for event in session.json()["events"]
        if event["author"] == "user"
        for part in event["content"]["parts"]
        if "functionResponse" in part
    ]
    assert answers == [{"confirmed": False, "payload": {"reason": "quarter end"}}]
