"""Agents of ADK for TypeScript behind their own API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.events import What
from signoff.core.approvals.input.long_running import LongRunning
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.parts import Kind
from signoff.core.approvals.run import RunState
from signoff.worker.adk_remote.settings import RemoteApp
from worker.office import MARA, HandClock
from worker.remote.conftest import make_far_office
from worker.remote.far_office import FarOffice
from worker.remote.typescript_server import TypeScriptServer, installed

# The packages are installed before the first test, once per machine.
pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def typescript_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TypeScriptServer]:
    """An API server of the agent in TypeScript."""
    server = TypeScriptServer(installed(), tmp_path_factory.mktemp("typescript"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def office(
    far_ledger: tuple[Ledger, HandClock], typescript_server: TypeScriptServer
) -> AsyncIterator[FarOffice]:
    """Return an office that uses it."""
    typescript_server.start()
    typescript_server.forget()
    apps = {
        "office": RemoteApp(url=typescript_server.url),
        "talkative": RemoteApp(url=typescript_server.url, app_name="office", reasons="message"),
        "nowhere": RemoteApp(url=typescript_server.url),
    }
    made = make_far_office(far_ledger, apps)
    made.server = typescript_server
    yield made
    await made.runtime.close()


async def test_an_approved_call_runs_once(office: FarOffice) -> None:
    """Run, pause, approve, resume."""
    run = await office.submit("office", "pay")
    assert (run.state, office.there.lines()) == (RunState.PAUSED, [])
    await office.approve(run)
    run = await office.work(run)
    assert (run.state, run.text) == (RunState.COMPLETED, '{"status":"ok","paid":"A"}')
    assert office.there.lines() == [{"paid": "A"}]
    assert (await office.approval(run)).handoff is Handoff.RESUMED


async def test_a_rejected_call_does_not_run(office: FarOffice) -> None:
    """The gate only says that it was rejected; the reason is in the session's state."""
    run = await office.submit("office", "pay")
    await office.reject(run, "over budget")
    run = await office.work(run)
    assert "This tool call is rejected." in run.text
    assert office.there.lines() == []
    assert "over budget" in (await office.session(run))["state"]["signoff_refusal"]


async def test_the_reason_reaches_the_model_by_message(office: FarOffice) -> None:
    """The settings say that the agent reads messages, because this server does not report it."""
    run = await office.submit("talkative", "pay")
    await office.reject(run, "over budget")
    run = await office.work(run)
    assert run.state is RunState.COMPLETED
    assert run.text.startswith("I was told:")
    assert "Reason: over budget" in run.text
    assert office.there.lines() == []


async def test_typescript_resumes_after_the_last_of_several_answers(office: FarOffice) -> None:
    """One answer resumes nothing; the second resumes both."""
    run = await office.submit("office", "pay both")
    first, second = await office.ask(run)
    await office.decider.approve(first.id, MARA, channel="cli")
    run = await office.work(run)
    assert (run.state, office.there.lines()) == (RunState.PAUSED, [])
    await office.decider.reject(second.id, MARA, channel="cli", reason="not B")
    run = await office.work(run)
    assert run.state is RunState.COMPLETED
    assert office.there.lines() == [{"paid": first.call.args["to"]}]


async def test_a_long_running_call_gets_its_result_from_an_approver(office: FarOffice) -> None:
    """The settings name the tool, and its result is the decision."""
    office.runtime.long_running = [LongRunning(tool="ask_for_approval")]
    run = await office.submit("office", "ticket")
    approval = await office.approval(run)
    assert (approval.kind, approval.call.args) == (Kind.LONG_RUNNING, {"amount": 50})
    await office.reject(run, "too much")
    run = await office.work(run)
    assert run.state is RunState.COMPLETED
    assert '"status":"rejected"' in run.text
    assert '"reason":"too much"' in run.text
    assert office.there.lines() == [{"ticket": 50}]


async def test_tool_that_asks_by_itself_is_in_doubt_on_typescript(office: FarOffice) -> None:
    """Version 2.0.0 refuses the answer after storing it; the audit has its message."""
    run = await office.submit("office", "5 days")
    approval = await office.approval(run)
    await office.approve(run, approved_days=3)
    run = await office.work(run)
    assert run.state is RunState.PAUSED
    history = await office.ledger.history(approval.id)
    (started,) = [event.why for event in history if event.what is What.STARTED]
    assert "confirmation_not_required" in started


async def test_a_deleted_session_is_a_defined_end(office: FarOffice) -> None:
    """The run fails and says so, and the approval records that it had no effect."""
    run = await office.submit("office", "pay")
    await office.approve(run)
    async with httpx.AsyncClient(timeout=60) as client:
        await client.delete(office.there.session("office", run.user, run.session))
    run = await office.work(run)
    assert run.state is RunState.FAILED
    assert "is gone from its server" in run.problem
    assert (await office.approval(run)).handoff is Handoff.FAILED


async def test_a_server_that_has_forgotten_its_sessions_is_a_defined_end(
    office: FarOffice,
) -> None:
    """Its sessions are in memory: after a restart the answer has no recipient."""
    run = await office.submit("office", "pay")
    await office.approve(run)
    office.there.kill()
    office.there.start()
    run = await office.work(run)
    assert run.state is RunState.FAILED
    assert office.there.lines() == []


async def test_unknown_app_fails_and_lists_the_known_apps(office: FarOffice) -> None:
    """The error names the server's apps."""
    run = await office.submit("nowhere", "pay")
    assert run.state is RunState.FAILED
    assert "has no app 'nowhere'. It has: office." in run.problem
