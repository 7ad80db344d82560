"""An approval is for the call that was shown: an edited history asks again, or says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from google.adk.events.event import Event

from signoff.broker import stages
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import What
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from signoff.core.policies.policy import InDoubt
from signoff.worker.adk.questions import CONFIRMATION
from worker.office import AGENTS, MARA, Office
from worker.test_changed_arguments import put
from worker.test_taken_up import Fuse, lay, work_until_death

# ADK announces its experimental features by warning about them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning"),
    pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True),
]
both_apps = pytest.mark.parametrize("app", ["changing", "changing_resumable"])

Edit = Callable[[list[Event]], list[Event]]

CHANGED = "The history of the session was changed since it was asked about."


async def edit_history(office: Office, run: Run, edit: Edit) -> None:
    """Replace the events of a session."""
    name: dict[str, Any] = {"app_name": run.app, "user_id": run.user, "session_id": run.session}
    service = office.apps.sessions
    session = await service.get_session(**name)
    assert session is not None
    events = [one.model_copy(deep=True) for one in session.events]
    await service.delete_session(**name)
    fresh = await service.create_session(**name, state=dict(session.state))
    for event in edit(events):
        await service.append_event(fresh, event)


def calls(event: Event) -> list[Any]:
    """Return an event's tool calls."""
    return [one for one in event.get_function_calls() if one.name != CONFIRMATION]


def asks(event: Event) -> list[Any]:
    """Return an event's questions."""
    return [one for one in event.get_function_calls() if one.name == CONFIRMATION]


def other_call(events: list[Event]) -> list[Event]:
    """Change the arguments of the call, but not those in the question."""
    for call in [call for event in events for call in calls(event)]:
        call.args = {"iban": "DE-EVIL"}
    return events


def other_question(events: list[Event]) -> list[Event]:
    """Change the arguments in the question, but not those of the call."""
    for ask in [ask for event in events for ask in asks(event)]:
        ask.args["originalFunctionCall"]["args"] = {"iban": "DE-EVIL"}
    return events


def both(events: list[Event]) -> list[Event]:
    """Change the arguments in both places, so that ADK would continue."""
    return other_question(other_call(events))


def other_tool(events: list[Event]) -> list[Event]:
    """Change the tool in both places."""
    for call in [call for event in events for call in calls(event)]:
        call.name = "pay_sync"
    for ask in [ask for event in events for ask in asks(event)]:
        ask.args["originalFunctionCall"]["name"] = "pay_sync"
    return events


def other_id(events: list[Event]) -> list[Event]:
    """Change the id of the question."""
    for event in events:
        for ask in asks(event):
            ask.id = "adk-other"
            event.long_running_tool_ids = {"adk-other"}
    return events


def no_question(events: list[Event]) -> list[Event]:
    """Remove the question."""
    return [event for event in events if not asks(event)]


def no_call(events: list[Event]) -> list[Event]:
    """Remove the call."""
    return [event for event in events if not calls(event)]


async def approved(office: Office, app: str, *made: Any) -> tuple[Run, list[Approval]]:
    """Bring a run to its pause and approve all requests."""
    run = await office.submit(app, json.dumps(made))
    await office.approve(run)
    return run, list(await office.ledger.approvals(run.waiting))


@pytest.mark.parametrize(
    "app", ["changing", pytest.param("changing_resumable", marks=pytest.mark.soak)]
)
@pytest.mark.parametrize(
    ("edit", "tool", "iban"),
    [
        (other_call, "pay", "DE-EVIL"),
        (other_question, "pay", "DE-1"),
        (both, "pay", "DE-EVIL"),
        (other_tool, "pay_sync", "DE-1"),
        (other_id, "pay", "DE-1"),
        (no_question, "pay", "DE-1"),
    ],
)
async def test_an_edited_history_asks_again(
    office: Office, app: str, edit: Edit, tool: str, iban: str
) -> None:
    """The old approval runs nothing; the card has the current call, whose approval runs it once."""
    run, (approval,) = await approved(office, app, ["pay", {"iban": "DE-1"}])
    await edit_history(office, run, edit)
    run = await office.resume(run)
    assert (run.state, office.executed()) == (RunState.PAUSED, [])
    assert (await office.ledger.approval(approval.id)).handoff is Handoff.VOID
    (question,) = await office.ledger.approvals(run.waiting)
    assert question.supersedes == approval.id
    assert (question.call.name, question.call.args) == (tool, {"iban": iban})
    assert question.hint.startswith(f"This was approved by mara. {CHANGED} Nothing was run.")
    events = await office.ledger.history(approval.id)
    assert [one.why for one in events if one.what is What.VOIDED] == [CHANGED]
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert [(one["tool"], one["iban"]) for one in office.executed()] == [(tool, iban)]
    assert await office.ledger.pending() == []


@both_apps
async def test_a_no_to_the_edited_call_is_heard(office: Office, app: str) -> None:
    """Nothing runs, and the reason reaches the model."""
    run, _ = await approved(office, app, ["pay", {"iban": "DE-1"}])
    await edit_history(office, run, other_call)
    run = await office.resume(run)
    (question,) = await office.ask(run)
    await office.decider.reject(question.id, MARA, channel="cli", reason="whose is that?")
    run = await office.resume(run)
    assert (run.state, office.executed()) == (RunState.COMPLETED, [])
    assert "whose is that?" in run.text


@both_apps
async def test_other_calls_of_the_pause_keep_their_approval(office: Office, app: str) -> None:
    """Only the edited call is asked about again."""

    def one_of_them(events: list[Event]) -> list[Event]:
        for call in [call for event in events for call in calls(event) if call.name == "pay"]:
            call.args = {"iban": "DE-EVIL"}
        return events

    run, _ = await approved(office, app, ["pay", {"iban": "DE-1"}], ["pay_sync", {"iban": "DE-2"}])
    await edit_history(office, run, one_of_them)
    run = await office.resume(run)
    (question,) = await office.ledger.approvals(run.waiting)
    assert question.call.args == {"iban": "DE-EVIL"}
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert sorted(str(one["iban"]) for one in office.executed()) == ["DE-2", "DE-EVIL"]


@both_apps
async def test_a_call_that_is_gone_ends_the_run(office: Office, app: str) -> None:
    """No call can be asked about: the approval is void, and the run's error says why."""
    run, (approval,) = await approved(office, app, ["pay", {"iban": "DE-1"}])
    await edit_history(office, run, no_call)
    run = await office.resume(run)
    assert (run.state, office.executed()) == (RunState.FAILED, [])
    assert "is not in session" in run.problem
    assert (await office.ledger.approval(approval.id)).handoff is Handoff.VOID
    events = await office.ledger.history(approval.id)
    assert [one.why for one in events if one.what is What.VOIDED] == [run.problem]


@pytest.mark.parametrize("app", ["changing", "changing_resumable", "nodes", "nodes_resumable"])
async def test_a_call_that_was_rewound_does_not_run(office: Office, app: str) -> None:
    """The requester has taken back the message: nobody is asked again, and the error says why."""
    message = json.dumps([["pay", {"iban": "DE-1"}]]) if app.startswith("changing") else "go"
    run = await office.submit(app, message)
    await office.approve(run)
    await office.apps.runner(app).rewind_async(
        user_id=run.user, session_id=run.session, rewind_before_invocation_id=run.invocation
    )
    run = await office.resume(run)
    assert (run.state, office.executed()) == (RunState.FAILED, [])
    assert "was rewound to a moment before" in run.problem
    (approval,) = await office.ledger.approvals(run.approvals)
    assert approval.handoff is Handoff.VOID


async def test_an_edited_question_of_a_node_asks_again(office: Office) -> None:
    """The approval of a node's edited question runs nothing."""

    def edit(events: list[Event]) -> list[Event]:
        for call in [call for event in events for call in calls(event)]:
            call.args["payload"]["args"] = {"amount": 9}
        return events

    run = await office.submit("nodes", "go")
    await office.approve(run)
    (approval,) = await office.ledger.approvals(run.waiting)
    await edit_history(office, run, edit)
    run = await office.resume(run)
    assert (run.state, office.executed()) == (RunState.PAUSED, [])
    (question,) = await office.ledger.approvals(run.waiting)
    assert (question.supersedes, question.call.args) == (approval.id, {"amount": 9})
    # The function has no such argument, so its real call is asked about.
    await office.approve(run)
    run = await office.resume(run)
    (question,) = await office.ledger.approvals(run.waiting)
    assert (question.call.args, office.executed()) == ({}, [])
    await office.approve(run)
    await office.resume(run)
    assert len(office.executed()) == 1


@pytest.mark.soak
@pytest.mark.parametrize("at", range(1, 7))
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("app", ["changing", "changing_nodes"])
async def test_death_during_the_new_question_runs_no_old_approval(
    office: Office, monkeypatch: pytest.MonkeyPatch, app: str, at: int, after: bool
) -> None:
    """Wherever it dies, the old approval runs nothing, and the call runs at most once."""
    shown: dict[str, Any] = {"iban": "DE-1", "lines": []}
    session = await office.apps.sessions.create_session(
        app_name=app, user_id="riley@example.com", state=shown if app == "changing_nodes" else {}
    )
    message = json.dumps([["pay", {"iban": "DE-1"}]])
    run = await office.decider.submit(app, message, user="riley@example.com", session=session.id)
    await office.executor.drain(stages.run(app))
    run = await office.ledger.run(run.id)
    await office.approve(run, InDoubt.RETRY)
    if app == "changing":
        await edit_history(office, run, other_call)
    else:
        await put(office, run, iban="DE-EVIL")
    fuse = Fuse(at, after=after)
    with monkeypatch.context() as patch:
        lay(patch, office, fuse)
        await work_until_death(office, stages.resume(app))
    run = await office.resume(run)
    assert (run.state, office.executed()) == (RunState.PAUSED, []), run.problem
    (question,) = await office.ledger.approvals(run.waiting)
    assert question.call.args["iban"] == "DE-EVIL"
    await office.approve(run)
    await office.resume(run)
    assert [one["iban"] for one in office.executed()] == ["DE-EVIL"]
