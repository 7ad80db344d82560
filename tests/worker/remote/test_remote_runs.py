"""Agents behind the real `adk api_server`, with the real executor."""

from __future__ import annotations

import httpx
import pytest

from ports import free_port
from signoff.broker import stages
from signoff.broker.freezes import Freezes
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.events import What
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import WHOLE_APP, RunState
from signoff.core.policies.policy import Resume
from signoff.worker.adk_remote.answering import PostedAnswers
from signoff.worker.adk_remote.settings import RemoteApp
from signoff.worker.refusals import REFUSAL
from worker.office import MARA, HandClock
from worker.remote.conftest import make_far_office
from worker.remote.far_office import FarOffice

CONFERENCE = "Reimburse me $2500 for the conference"

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")


async def test_approved_call_runs_once_on_the_remote_server(examples: FarOffice) -> None:
    """Run, pause, approve, resume: the tool runs once, and the audit has every step."""
    run = await examples.submit("finance", CONFERENCE)
    assert run.state is RunState.PAUSED
    assert examples.there.lines() == []
    await examples.approve(run)
    run = await examples.work(run)
    assert run.state is RunState.COMPLETED
    assert "2,500" in run.text
    assert [line["amount"] for line in examples.there.lines()] == [2500]
    approval = await examples.approval(run)
    assert approval.handoff is Handoff.RESUMED
    assert '"reimbursed"' in approval.result
    trail = [event.what for event in await examples.ledger.history(approval.id)]
    assert trail[-3:] == [What.STARTED, What.FINISHED, What.RESUMED]
    await audit.verify(examples.ledger.store)


async def test_a_call_below_the_threshold_is_not_asked_about(examples: FarOffice) -> None:
    """The server's own gate allows the call, so nobody is asked."""
    run = await examples.submit("finance", "Reimburse me $50 for lunch")
    assert run.state is RunState.COMPLETED
    assert len(examples.there.lines()) == 1


async def test_a_rejected_call_does_not_run_and_the_reason_is_in_the_session(
    examples: FarOffice,
) -> None:
    """The gate only says that it was rejected; an instruction can quote the reason."""
    run = await examples.submit("finance_strict", "Reimburse me $20 for lunch")
    await examples.reject(run, "over budget")
    run = await examples.work(run)
    assert run.state is RunState.COMPLETED
    assert "This tool call is rejected." in run.text
    assert examples.there.lines() == []
    assert (await examples.approval(run)).handoff is Handoff.RESUMED
    assert (await examples.session(run))["state"][REFUSAL] == (
        "reimburse(): This tool call was rejected by the approver. Reason: over budget"
    )


async def test_the_payload_of_the_approver_reaches_the_tool(examples: FarOffice) -> None:
    """Three of five days are approved, and three are granted."""
    run = await examples.submit("time_off", "I need 5 days off")
    assert (await examples.approval(run)).template == {"approved_days": 0}
    await examples.approve(run, approved_days=3)
    run = await examples.work(run)
    assert run.state is RunState.COMPLETED
    assert run.text == "You may take 3 days off."


async def test_a_dynamic_request_that_is_rejected_enters_the_tool(examples: FarOffice) -> None:
    """There is no guard on a remote server, so the tool itself has to refuse."""
    run = await examples.submit("time_off", "I need 5 days off")
    await examples.reject(run, "quarter end")
    run = await examples.work(run)
    assert run.state is RunState.COMPLETED
    assert "rejected" in run.text


@pytest.mark.parametrize("app", ["siblings", "siblings_resumable"])
async def test_siblings_are_answered_together(odd_agents: FarOffice, app: str) -> None:
    """One answer resumes nothing; the second resumes both with their own decisions."""
    run = await odd_agents.submit(app, "pay both")
    first, second = await odd_agents.ask(run)
    await odd_agents.decider.approve(first.id, MARA, channel="cli")
    run = await odd_agents.work(run)
    assert run.state is RunState.PAUSED
    assert odd_agents.there.lines() == []
    await odd_agents.decider.reject(second.id, MARA, channel="cli", reason="not B")
    run = await odd_agents.work(run)
    assert run.state is RunState.COMPLETED
    assert [line["paid"] for line in odd_agents.there.lines()] == [first.call.args["to"]]
    assert '"found": "C"' in run.text
    assert await odd_agents.said(run) == ["pay both", "answer", "answer"]


async def test_resumable_app_continues_with_each_answer(odd_agents: FarOffice) -> None:
    """Its settings say so: A is paid while B still waits for its answer."""
    app = "siblings_resumable"
    remote = odd_agents.runtime.apps[app].model_copy(update={"resumable": True})
    odd_agents.runtime.apps = {app: remote}
    run = await odd_agents.submit(app, "pay both")
    first, second = await odd_agents.ask(run, resume=Resume.EACH)
    await odd_agents.decider.approve(first.id, MARA, channel="cli")
    run = await odd_agents.work(run)
    assert (run.state, run.waiting) == (RunState.PAUSED, (second.id,))
    assert [line["paid"] for line in odd_agents.there.lines()] == [first.call.args["to"]]
    assert (await odd_agents.ledger.approval(first.id)).handoff is Handoff.RESUMED
    await odd_agents.decider.approve(second.id, MARA, channel="cli")
    run = await odd_agents.work(run)
    assert run.state is RunState.COMPLETED
    assert sorted(line["paid"] for line in odd_agents.there.lines()) == ["A", "B"]
    assert await odd_agents.said(run) == ["pay both", "answer", "answer"]


async def test_a_gate_in_a_sub_agent_is_found_and_resumed(odd_agents: FarOffice) -> None:
    """The approval names the sub-agent, and the run continues in it."""
    run = await odd_agents.submit("nested", "pay")
    assert (await odd_agents.approval(run)).origin.agent == "cashier"
    await odd_agents.approve(run)
    run = await odd_agents.work(run)
    assert run.state is RunState.COMPLETED
    assert len(odd_agents.there.lines()) == 1


async def test_a_tool_that_raises_after_its_effect_is_in_doubt(odd_agents: FarOffice) -> None:
    """The server reports the error without a result, so a person has to check."""
    run = await odd_agents.submit("careless", "raises")
    first = await odd_agents.approval(run)
    await odd_agents.approve(run)
    run = await odd_agents.work(run)
    assert run.state is RunState.PAUSED
    doubtful, question = await odd_agents.ledger.approvals([first.id, *run.approvals])
    assert doubtful.handoff is Handoff.IN_DOUBT
    assert question.supersedes == doubtful.id
    (started,) = [
        event
        for event in await odd_agents.ledger.history(doubtful.id)
        if event.what is What.STARTED
    ]
    assert "the bank hung up" in started.why
    assert len(odd_agents.there.lines()) == 1


async def test_a_deleted_session_is_a_defined_end(examples: FarOffice) -> None:
    """The answer has no recipient: the run fails and says so."""
    run = await examples.submit("finance", CONFERENCE)
    await examples.approve(run)
    async with httpx.AsyncClient(timeout=60) as client:
        await client.delete(examples.there.session(run.app, run.user, run.session))
    run = await examples.work(run)
    assert run.state is RunState.FAILED
    assert "is gone from its server" in run.problem
    assert (await examples.approval(run)).handoff is Handoff.FAILED


async def test_changed_arguments_are_not_run(
    examples: FarOffice,
) -> None:
    """Shown = approved = executed: the server's history is compared with the approval."""
    run = await examples.submit("finance", CONFERENCE)
    await examples.approve(run)
    was = await examples.approval(run)
    other = was.model_copy(update={"digest": "sha256:" + "0" * 64})
    await examples.ledger.commit(Change().put(other, was=was))
    run = await examples.work(run)
    assert run.state is RunState.FAILED
    assert "Nothing was run" in run.problem
    assert await examples.said(run) == [CONFERENCE]


async def test_call_rejected_by_another_client_ends_the_run(
    examples: FarOffice,
) -> None:
    """An `adk web` on the same sessions rejected it: our approval is not sent."""
    run = await examples.submit("finance", CONFERENCE)
    await examples.approve(run)
    approval = await examples.approval(run)
    answer = {
        "id": approval.origin.confirmation,
        "name": "adk_request_confirmation",
        "response": {"confirmed": False},
    }
    async with httpx.AsyncClient(timeout=60) as client:
        await client.post(
            f"{examples.there.url}/run",
            json={
                "app_name": run.app,
                "user_id": run.user,
                "session_id": run.session,
                "new_message": {"role": "user", "parts": [{"function_response": answer}]},
            },
        )
    run = await examples.work(run)
    assert run.state is RunState.FAILED
    assert "went on without us" in run.problem
    assert examples.there.lines() == []


async def test_two_runs_may_send_equal_messages_in_one_session(examples: FarOffice) -> None:
    """Their messages have different marks, so each is sent and has its own approval."""
    first = await examples.submit("finance", CONFERENCE, session="shared")
    second = await examples.submit("finance", CONFERENCE, session="shared")
    assert first.approvals != second.approvals
    await examples.approve(first)
    first = await examples.work(first)
    assert first.state is RunState.COMPLETED
    assert (await examples.ledger.run(second.id)).state is RunState.PAUSED
    await examples.approve(second)
    assert (await examples.work(second)).state is RunState.COMPLETED
    assert len(examples.there.lines()) == 2


async def test_repeated_run_sends_its_message_once(examples: FarOffice) -> None:
    """If a worker died after the pause, the next one finds it in the session."""
    run = await examples.decider.submit("finance", CONFERENCE, user="riley@example.com")
    before = await examples.runtime.start(run, lambda one: one)
    assert await examples.runtime.start(run, lambda one: one) == before
    assert await examples.said(run) == [CONFERENCE]


async def test_unknown_app_fails_the_run_and_lists_the_known_apps(
    examples: FarOffice, far_ledger: tuple[Ledger, HandClock]
) -> None:
    """The error names the server's apps and the setting."""
    apps = {"finanse": RemoteApp(url=examples.there.url)}
    office = make_far_office(far_ledger, apps)
    run = await office.submit("finanse", "Reimburse me $50")
    await office.runtime.close()
    assert run.state is RunState.FAILED
    there = sorted(one.parent.name for one in examples.there.agents.glob("*/agent.py"))
    assert {"finance", "time_off"} < set(there)
    assert f"It has: {', '.join(there)}. " in run.problem
    assert "[agents.remote.finanse] app_name" in run.problem


async def test_an_app_may_have_another_name_there(
    examples: FarOffice, far_ledger: tuple[Ledger, HandClock]
) -> None:
    """Runs are submitted with our name of it, and the server gets its own name."""
    apps = {"expenses": RemoteApp(url=examples.there.url + "/", app_name="finance")}
    office = make_far_office(far_ledger, apps)
    run = await office.submit("expenses", CONFERENCE)
    await office.approve(run)
    run = await office.work(run)
    await office.runtime.close()
    assert run.state is RunState.COMPLETED


async def test_a_server_that_is_away_is_tried_again(
    far_ledger: tuple[Ledger, HandClock],
) -> None:
    """Nobody listens: the run stays in its outbox and has attempts left."""
    office = make_far_office(
        far_ledger, {"finance": RemoteApp(url=f"http://127.0.0.1:{free_port()}")}
    )
    run = await office.submit("finance", CONFERENCE)
    await office.runtime.close()
    assert run.state is RunState.QUEUED
    assert (await office.ledger.backlog())[stages.run("finance")] == 1


async def test_no_answer_is_posted_while_its_tool_is_frozen(
    examples: FarOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note before posting an answer checks the freezes, as a start does."""
    freezes = Freezes(examples.ledger)
    run = await examples.submit("finance", CONFERENCE)
    await examples.approve(run)
    note = PostedAnswers.note

    async def frozen_first(self: PostedAnswers) -> None:
        await freezes.freeze(tool="reimburse", by="ops", why="the bank called")
        await note(self)

    with monkeypatch.context() as patch:
        patch.setattr(PostedAnswers, "note", frozen_first)
        run = await examples.work(run)
    assert (run.state, run.held) == (RunState.ANSWERED, "reimburse")
    run = await examples.work(run)
    assert examples.there.lines() == []
    assert "answer" not in await examples.said(run)
    await freezes.thaw(tool="reimburse", by="ops")
    run = await examples.work(run)
    assert run.state is RunState.COMPLETED
    assert [line["amount"] for line in examples.there.lines()] == [2500]


async def test_frozen_app_gets_no_message(examples: FarOffice) -> None:
    """Its tools run without our guard, so its turns do not begin."""
    freezes = Freezes(examples.ledger)
    await freezes.freeze(app="finance", by="ops", why="the bank called")
    run = await examples.submit("finance", "Reimburse me $50 for lunch")
    assert (run.state, run.held, examples.there.lines()) == (RunState.QUEUED, WHOLE_APP, [])
    await freezes.thaw(app="finance", by="ops")
    run = await examples.work(run)
    assert (run.state, len(examples.there.lines())) == (RunState.COMPLETED, 1)
