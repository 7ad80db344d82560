"""The shown call is the approved call and the executed call, whatever changes its arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import FunctionNode, Workflow
from google.adk.workflow import node as as_node

from signoff.broker import stages
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.input.long_running import LongRunning
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from signoff.core.payloads.digest import digest
from worker.office import AGENTS, MARA, Office

# ADK announces its experimental features by warning about them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning"),
    pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True),
]
both_apps = pytest.mark.parametrize(
    "app", ["changing", pytest.param("changing_resumable", marks=pytest.mark.soak)]
)

SHOWN, EVIL = "DE-SHOWN", "DE-EVIL"
TOOLS = ["pay", "pay_sync", "pay_asking", "pay_taking", "payer"]
NAMES = {"payer": "request"}
tools = pytest.mark.parametrize("tool", TOOLS)


@pytest.fixture
def long_running() -> tuple[LongRunning, ...]:
    """The long-running tool of the agent waits for an approval."""
    return (LongRunning(tool="order"),)


async def put(office: Office, run: Run, **state: Any) -> None:
    """Put a value into the state of a run's session, as a PATCH does."""
    session = await office.session(run)
    await office.apps.sessions.append_event(
        session,
        Event(author="user", invocation_id="p-1", actions=EventActions(state_delta=state)),
    )


async def begin(office: Office, app: str, *calls: Any, **state: Any) -> Run:
    """Submit a run in a session with some state."""
    session = await office.apps.sessions.create_session(
        app_name=app, user_id="riley@example.com", state=state
    )
    run = await office.decider.submit(
        app, json.dumps(calls), user="riley@example.com", session=session.id
    )
    await office.executor.drain(stages.run(app))
    return await office.ledger.run(run.id)


def call(tool: str, iban: str = SHOWN, **more: Any) -> list[Any]:
    """Return a call in the model's form."""
    return [tool, {NAMES.get(tool, "iban"): iban, **more}]


def ran(office: Office) -> list[Any]:
    """Return the recipients of payments."""
    return [one.get("iban", one.get("request")) for one in office.executed()]


async def only(office: Office, run: Run) -> Approval:
    """Return the only approval of a run."""
    (approval,) = await office.ledger.approvals(run.approvals)
    return approval


async def asked_again(office: Office, run: Run, approval: Approval) -> Approval:
    """Return the question that has replaced a voided approval."""
    assert run.state is RunState.PAUSED
    given_up = await office.ledger.approval(approval.id)
    assert given_up.handoff is Handoff.VOID
    (waits,) = run.waiting
    question = await office.ledger.approval(waits)
    assert question.supersedes == approval.id
    return question


async def said(office: Office, run: Run) -> list[Any]:
    """Return the results that the model got."""
    session = await office.session(run)
    return [
        one.response
        for event in session.events
        for one in event.get_function_responses()
        if event.author != "user"
    ]


@both_apps
@tools
@pytest.mark.parametrize("key", ["iban", "plugin_iban"])
async def test_a_state_that_changes_while_the_approval_waits_changes_no_call(
    office: Office, app: str, tool: str, key: str
) -> None:
    """A callback that puts the state into the arguments cannot run another call.

    The new call is asked about, with the changes, and its rejection counts.
    """
    if (tool, key) == ("payer", "plugin_iban"):
        key = "iban"
    run = await begin(office, app, call(tool))
    approval = await only(office, run)
    assert approval.call.args[NAMES.get(tool, "iban")] == SHOWN
    await office.approve(run)
    await put(office, run, **{key: EVIL})
    run = await office.resume(run)
    assert ran(office) == []
    question = await asked_again(office, run, approval)
    assert question.call.args[NAMES.get(tool, "iban")] == EVIL
    assert "has changed its arguments since it was asked about" in question.hint
    await office.ask(run)
    await office.decider.reject(question.id, MARA, channel="cli", reason="whose is that?")
    run = await office.resume(run)
    assert ran(office) == []
    assert run.state is RunState.COMPLETED
    assert "whose is that?" in json.dumps(await said(office, run), default=str)


@both_apps
@tools
async def test_changed_call_can_be_approved(office: Office, app: str, tool: str) -> None:
    """The approval of the second question runs the shown call once."""
    run = await begin(office, app, call(tool))
    await office.approve(run)
    await put(office, run, iban=EVIL)
    run = await office.resume(run)
    assert (run.state, ran(office)) == (RunState.PAUSED, [])
    await office.approve(run)
    run = await office.resume(run)
    assert (run.state, ran(office)) == (RunState.COMPLETED, [EVIL])


@both_apps
async def test_only_the_call_that_has_changed_is_asked_about_again(
    office: Office, app: str
) -> None:
    """The other calls of the step run once, on their own approvals."""
    run = await begin(office, app, call("pay", "DE-1"), call("pay_sync", "DE-2"))
    approval = next(
        one for one in await office.ledger.approvals(run.approvals) if one.call.name == "pay"
    )
    await office.approve(run)
    await put(office, run, only="pay", iban=EVIL)
    run = await office.resume(run)
    question = await asked_again(office, run, approval)
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert question.call.args["iban"] == EVIL
    assert sorted(ran(office)) == ["DE-2", EVIL]


@both_apps
@tools
async def test_approval_shows_arguments_changed_by_an_earlier_callback(
    office: Office, app: str, tool: str
) -> None:
    """The approver sees what the tool gets, and the approval runs that."""
    run = await begin(office, app, call(tool, "made up by the model"), iban="DE-KNOWN")
    approval = await only(office, run)
    name = NAMES.get(tool, "iban")
    assert approval.call.args == {name: "DE-KNOWN"}
    assert approval.digest == approval.digest_of(tool, {name: "DE-KNOWN"})
    assert approval.origin.made == digest(tool, {name: "made up by the model"})
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert ran(office) == ["DE-KNOWN"]
    assert (await office.ledger.approval(approval.id)).handoff is Handoff.RESUMED


@both_apps
async def test_unchanged_arguments_are_not_stored_twice(office: Office, app: str) -> None:
    """The arguments are not stored if they are the model's own."""
    run = await begin(office, app, call("pay"))
    assert (await only(office, run)).origin.made == ""
    kept = [await office.ledger.raw(key) for key in await office.ledger.store.keys("arguments:")]
    assert all("iban" not in str(one) for one in kept)


@both_apps
async def test_result_of_a_long_running_tool_is_approved_with_its_call(
    office: Office, app: str
) -> None:
    """The result of a long-running call is approved for the call that has begun."""
    run = await begin(office, app, call("order", "made up"), iban="DE-KNOWN")
    assert ran(office) == ["DE-KNOWN"]
    approval = await only(office, run)
    assert approval.call.args == {"iban": "DE-KNOWN"}
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED


@both_apps
@pytest.mark.parametrize("tool", ["pay", "pay_sync", "pay_greedy"])
async def test_nested_argument_changes_are_detected(office: Office, app: str, tool: str) -> None:
    """A nested change is a change, and a threshold gets its own copy."""
    lines = [{"to": SHOWN}]
    run = await begin(office, app, call(tool, lines=lines))
    assert (await only(office, run)).call.args["lines"] == lines
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert [one["lines"] for one in office.executed()] == [lines]


@both_apps
@pytest.mark.parametrize("tool", ["pay", "pay_sync"])
async def test_a_value_deep_inside_that_changes_is_not_run(
    office: Office, app: str, tool: str
) -> None:
    """The digest covers all of the arguments."""
    run = await begin(office, app, call(tool, lines=[{"to": SHOWN}]))
    await office.approve(run)
    await put(office, run, line=EVIL)
    run = await office.resume(run)
    assert run.state is RunState.PAUSED
    assert office.executed() == []


@both_apps
async def test_change_during_the_tool_does_not_affect_its_arguments(
    office: Office, app: str
) -> None:
    """A callback that keeps the dictionary and changes it later does not have the tool's copy."""
    run = await begin(office, app, call("pay", lines=[{"to": SHOWN}]))
    await office.approve(run)
    await put(office, run, later=EVIL)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert office.executed() == [{"tool": "pay", "iban": SHOWN, "lines": [{"to": SHOWN}]}]


@both_apps
@tools
async def test_error_callback_cannot_hide_an_unexecuted_call(
    office: Office, app: str, tool: str
) -> None:
    """A callback that reports success to the model does not prevent the new question."""
    run = await begin(office, app, call(tool))
    await office.approve(run)
    await put(office, run, iban=EVIL, swallow=True)
    run = await office.resume(run)
    assert ran(office) == []
    assert run.state is RunState.PAUSED
    assert "has changed its arguments" in (await only(office, run)).hint


@both_apps
@pytest.mark.parametrize("tool", ["pay", "pay_sync", "pay_asking", "pay_taking"])
async def test_plugin_that_replaces_a_result_leaves_no_call_in_doubt(
    office: Office, app: str, tool: str
) -> None:
    """The end of the tool is recorded, although ADK then calls no further plugin."""
    run = await begin(office, app, call(tool))
    await office.approve(run)
    await put(office, run, replace=True)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert ran(office) == [SHOWN]
    approval = (await office.ledger.approvals([one.id for one in await office.ledger.decided()]))[0]
    assert approval.handoff is Handoff.RESUMED
    assert json.loads(approval.result)["paid"] == SHOWN


@both_apps
@pytest.mark.parametrize("who", ["answered", "plugin_answered"])
async def test_a_callback_may_answer_in_the_place_of_an_approved_tool(
    office: Office, app: str, who: str
) -> None:
    """The tool does not run, and the audit says so."""
    run = await begin(office, app, call("pay"))
    approval = await only(office, run)
    await office.approve(run)
    await put(office, run, **{who: True})
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert office.executed() == []
    assert (await office.ledger.approval(approval.id)).handoff is Handoff.RESUMED
    assert any("in the tool's place" in one.why for one in await office.ledger.history(approval.id))


@both_apps
async def test_parallel_calls_run_only_with_their_own_approvals(office: Office, app: str) -> None:
    """Two calls of one step each run with the arguments that were shown."""
    run = await begin(office, app, call("pay", "DE-1"), call("pay_sync", "DE-2"))
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert sorted(ran(office)) == ["DE-1", "DE-2"]


async def test_workflow_nodes_run_with_the_shown_arguments(office: Office) -> None:
    """A function and a tool take their arguments from the state, and both are unchanged."""
    run = await begin(office, "changing_nodes", iban=SHOWN, lines=[{"to": SHOWN}])
    approval = await only(office, run)
    assert approval.call.args == {"iban": SHOWN, "lines": [{"to": SHOWN}]}
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.PAUSED
    assert (await only(office, run)).call.args["iban"] == SHOWN
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert ran(office) == [SHOWN, SHOWN]


@pytest.mark.parametrize("change", [{"iban": EVIL}, {"lines": [{"to": EVIL}]}])
async def test_a_node_that_is_a_function_does_not_run_with_another_state(
    office: Office, change: dict[str, Any]
) -> None:
    """It takes its arguments when it runs; the new ones are asked about."""
    run = await begin(office, "changing_nodes", iban=SHOWN, lines=[{"to": SHOWN}])
    approval = await only(office, run)
    await office.approve(run)
    await put(office, run, **change)
    run = await office.resume(run)
    assert office.executed() == []
    question = await asked_again(office, run, approval)
    assert question.call.args == {**approval.call.args, **change}
    assert "has changed its arguments" in question.hint
    await office.approve(run)
    run = await office.resume(run)
    assert ran(office) == [question.call.args["iban"]]
    assert (await office.ledger.approval(question.id)).handoff is Handoff.RESUMED


async def test_unchanged_sibling_nodes_run_on_their_own_approval(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run once; only the changed one is asked about again."""

    def note(tool: str, iban: str) -> None:
        with office.journal.open("a", encoding="utf-8") as journal:
            journal.write(json.dumps({"tool": tool, "iban": iban}) + "\n")

    def first(iban: str) -> None:
        note("first", iban)

    def second(other: str) -> None:
        note("second", other)

    def tell(other: str) -> None:
        note("tell", other)

    nodes = [
        FunctionNode(func=first, require_confirmation=True, rerun_on_resume=True),
        FunctionNode(func=second, require_confirmation=True, rerun_on_resume=True),
        as_node(FunctionTool(tell, require_confirmation=True)),
    ]
    workflow = Workflow(name="changing_nodes", edges=[("START", node) for node in nodes])
    monkeypatch.setattr(office.apps.runner("changing_nodes"), "agent", workflow)
    run = await begin(office, "changing_nodes", iban=SHOWN, other="DE-2")
    approvals = {one.call.name: one for one in await office.ledger.approvals(run.approvals)}
    assert set(approvals) == {"first", "second", "tell"}
    await office.approve(run)
    await put(office, run, iban=EVIL)
    run = await office.resume(run)
    question = await asked_again(office, run, approvals["first"])
    assert question.call.args["iban"] == EVIL
    assert sorted(str(one["tool"]) for one in office.executed()) == ["second", "tell"]
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert sorted(str(one["tool"]) for one in office.executed()) == ["first", "second", "tell"]
    assert EVIL in ran(office)


async def test_a_node_that_is_a_tool_does_not_run_with_another_state(office: Office) -> None:
    """The same holds for a tool in a workflow, and its rejection counts."""
    run = await begin(office, "changing_nodes", iban=SHOWN, lines=[])
    await office.approve(run)
    run = await office.resume(run)
    approval = await only(office, run)
    for one in await office.ask(run):
        await office.decider.approve(one.id, MARA, channel="cli")
    await put(office, run, iban=EVIL)
    run = await office.resume(run)
    assert ran(office) == [SHOWN]
    question = await asked_again(office, run, approval)
    assert question.call.args["iban"] == EVIL
    await office.ask(run)
    await office.decider.reject(question.id, MARA, channel="cli", reason="whose is that?")
    run = await office.resume(run)
    assert (run.state, ran(office)) == (RunState.COMPLETED, [SHOWN])


@both_apps
@pytest.mark.parametrize("tool", ["pay", "pay_sync", "pay_asking", "grant"])
async def test_callback_cannot_confirm_a_call(office: Office, app: str, tool: str) -> None:
    """A confirmation that nobody has given starts nothing, also if it comes last."""
    made = ["grant", {"days": 5}] if tool == "grant" else call(tool)
    run = await begin(office, app, made, confirm=True)
    assert office.executed() == []
    assert run.state is RunState.COMPLETED
    assert "No approval is on record" in run.text


@both_apps
async def test_the_values_of_the_approver_reach_the_tool(office: Office, app: str) -> None:
    """A callback that changes them changes its own copy."""
    run = await begin(office, app, ["grant", {"days": 5}])
    await office.approve(run, days=3)
    await put(office, run, payload=True)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert office.executed() == [{"tool": "grant", "granted": 3, "asked": 5}]


@both_apps
async def test_approved_tool_may_call_another_tool(office: Office, app: str) -> None:
    """The calls that an approved tool makes in its own context are not checked."""
    run = await begin(office, app, call("pay", "DE-0"))
    await office.approve(run)
    assert (await office.resume(run)).state is RunState.COMPLETED
    run = await begin(office, app, call("pay_twice"))
    assert (await only(office, run)).call.args == {"iban": SHOWN}
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert ran(office) == ["DE-0", f"{SHOWN}-first", f"{SHOWN}-second"]
