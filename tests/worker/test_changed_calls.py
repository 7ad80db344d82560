"""An approval is for one agent's call of a tool as declared: a later change asks again."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import FunctionNode, Workflow
from google.adk.workflow import node as as_node

from signoff.broker.ledger.change import Change
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import What
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from signoff.core.payloads.digest import digest
from signoff.worker.turn_results import MAX_QUESTIONS
from worker.office import AGENTS, MARA, Office

# ADK announces its experimental features by warning about them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True),
]

Deploy = Callable[[Office, pytest.MonkeyPatch, Approval], Awaitable[None]]
"""Changes something between the card and the run."""

PAY = json.dumps([["pay", {"iban": "DE-1"}]])


async def pay(iban: str, express: bool = False) -> dict[str, Any]:
    """Pay somebody, perhaps at once."""
    return {"it was called": iban}


async def declare_otherwise(office: Office, patch: pytest.MonkeyPatch, _: Approval) -> None:
    """Give the tool another parameter, as a new version does."""
    root = office.apps.runner("changing").agent
    assert isinstance(root, LlmAgent)
    tools = [FunctionTool(pay, require_confirmation=True), *root.tools[1:]]
    patch.setattr(root, "tools", tools)


async def ask_for_another(office: Office, _: pytest.MonkeyPatch, was: Approval) -> None:
    """Change the approval's agent to another one."""
    origin = was.origin.model_copy(update={"agent": "clerk"})
    other = was.digest_of(was.call.name, was.call.args, origin=origin)
    after = was.model_copy(update={"origin": origin, "digest": other})
    await office.ledger.commit(Change().put(after, was=was))


async def approved(office: Office) -> tuple[Run, Approval]:
    """Bring a run to its pause and approve the call."""
    run = await office.submit("changing", PAY)
    (approval,) = await office.ask(run)
    await office.decider.approve(approval.id, MARA, channel="cli")
    return run, await office.ledger.approval(approval.id)


def transfer() -> dict[str, Any]:
    """Transfer the money in another way."""
    return {"to": "B"}


def wire() -> dict[str, Any]:
    """Transfer the money under another name."""
    return {"to": "B"}


def tell(to: str, loud: bool = False) -> dict[str, Any]:
    """Tell somebody, perhaps loudly."""
    return {"told": to}


def put_workflow(office: Office, patch: pytest.MonkeyPatch, app: str, *nodes: Any) -> None:
    """Replace an app's workflow by one of these nodes, as a deployment does."""
    runner = office.apps.runner(app)
    workflow = Workflow(name=runner.agent.name, edges=[("START", *nodes)])
    patch.setattr(runner, "agent", workflow)


both_nodes = pytest.mark.parametrize("app", ["nodes", "nodes_resumable"])


async def first_node(office: Office, app: str) -> tuple[Run, Approval]:
    """Bring a workflow to its first node's question and approve it."""
    run = await office.submit(app, "go")
    await office.approve(run)
    (approval,) = await office.ledger.approvals(run.waiting)
    return run, approval


async def voided(office: Office, approval: Approval) -> list[str]:
    """Return the reason why an approval was voided."""
    assert (await office.ledger.approval(approval.id)).handoff is Handoff.VOID
    events = await office.ledger.history(approval.id)
    return [one.why for one in events if one.what is What.VOIDED]


@both_nodes
async def test_a_node_that_was_renamed_asks_by_its_new_name(
    office: Office, monkeypatch: pytest.MonkeyPatch, app: str
) -> None:
    """The approval of the old name does not count, and is not marked as used."""
    run, approval = await first_node(office, app)
    ask = FunctionNode(func=wire, require_confirmation=True, rerun_on_resume=True)
    put_workflow(office, monkeypatch, app, ask)
    run = await office.resume(run)
    assert run.state is RunState.PAUSED
    assert [
        "did not come to transfer() again" in one for one in await voided(office, approval)
    ] == [True]
    (question,) = await office.ledger.approvals(run.waiting)
    assert question.call.name == "wire"
    await office.approve(run)
    run = await office.resume(run)
    assert (run.state, run.text) == (RunState.COMPLETED, '{"to": "B"}')


@both_nodes
async def test_a_node_that_is_gone_fails_the_run(
    office: Office, monkeypatch: pytest.MonkeyPatch, app: str
) -> None:
    """No call is left to ask about."""
    run, approval = await first_node(office, app)
    put_workflow(office, monkeypatch, app, FunctionNode(func=wire))
    run = await office.resume(run)
    assert run.state is RunState.FAILED
    assert [run.problem] == await voided(office, approval)


@both_nodes
async def test_a_tool_of_a_node_that_declares_otherwise_asks_again(
    office: Office, monkeypatch: pytest.MonkeyPatch, app: str
) -> None:
    """This is for tools only: a function's parameters show in its arguments."""
    run, _ = await first_node(office, app)
    run = await office.resume(run)
    await office.approve(run)
    (approval,) = await office.ledger.approvals(run.waiting)
    ask = FunctionNode(func=transfer, require_confirmation=True, rerun_on_resume=True)
    tool = as_node(FunctionTool(tell, require_confirmation=True))
    put_workflow(office, monkeypatch, app, ask, tool)
    run = await office.resume(run)
    assert run.state is RunState.PAUSED
    assert await voided(office, approval) == ["tell() declares other parameters by now."]
    (question,) = await office.ledger.approvals(run.waiting)
    assert question.supersedes == approval.id
    assert (question.call, question.origin.nth) == (approval.call, 1)
    await office.approve(run)
    run = await office.resume(run)
    assert (run.state, run.text) == (RunState.COMPLETED, '{"told": "A"}')


@both_nodes
async def test_ungated_node_with_changed_arguments_needs_another_approval(
    office: Office, monkeypatch: pytest.MonkeyPatch, app: str
) -> None:
    """The approval was for other arguments, so the new ones need another."""

    def transfer(to: str = "B") -> dict[str, Any]:
        return {"to": to}

    run, approval = await first_node(office, app)
    put_workflow(office, monkeypatch, app, FunctionNode(func=transfer, rerun_on_resume=True))
    run = await office.resume(run)
    assert run.state is RunState.PAUSED
    assert len(await voided(office, approval)) == 1
    (question,) = await office.ledger.approvals(run.waiting)
    assert question.supersedes == approval.id
    await office.approve(run)
    assert (await office.resume(run)).text == '{"to": "B"}'


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (declare_otherwise, "pay() declares other parameters by now."),
        (ask_for_another, "It was asked for by the agent clerk, and changing would call it now."),
    ],
)
async def test_a_change_between_the_card_and_the_run_asks_again(
    office: Office, monkeypatch: pytest.MonkeyPatch, change: Deploy, why: str
) -> None:
    """The old approval runs nothing, and the audit and the next card have the reason."""
    run, approval = await approved(office)
    await change(office, monkeypatch, approval)
    run = await office.resume(run)
    assert (run.state, office.executed()) == (RunState.PAUSED, [])
    assert (await office.ledger.approval(approval.id)).handoff is Handoff.VOID
    (question,) = await office.ledger.approvals(run.waiting)
    assert question.supersedes == approval.id
    assert question.digest != (await office.ledger.approval(approval.id)).digest
    assert (question.call, question.origin.agent) == (approval.call, "changing")
    assert question.hint.startswith(f"This was approved by mara. {why} Nothing was run.")
    events = await office.ledger.history(approval.id)
    assert [one.why for one in events if one.what is What.VOIDED] == [why]


@pytest.mark.parametrize("app", ["changing", "nodes"])
async def test_a_call_that_changes_each_time_is_not_asked_about_for_ever(
    office: Office, monkeypatch: pytest.MonkeyPatch, app: str
) -> None:
    """A policy or a grant may approve each question; in the end the run fails."""
    run = await office.submit(app, PAY)
    (was,) = await office.ledger.approvals(run.waiting)
    origin = was.origin.model_copy(update={"expired": MAX_QUESTIONS})
    await office.ledger.commit(Change().put(was.model_copy(update={"origin": origin}), was=was))
    await office.approve(run)
    if app == "changing":
        await declare_otherwise(office, monkeypatch, was)
    else:
        ask = FunctionNode(
            func=lambda to="B": {"to": to},
            name="transfer",
            require_confirmation=True,
            rerun_on_resume=True,
        )
        put_workflow(office, monkeypatch, app, ask)
    run = await office.resume(run)
    assert (run.state, office.executed()) == (RunState.FAILED, [])
    assert len(await voided(office, was)) == 1
    assert await office.ledger.pending() == []


async def test_the_answer_to_the_second_question_counts(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An approval runs the call once; the model reads a rejection's reason."""
    for answer, executed in (("approve", 1), ("reject", 1)):
        run, approval = await approved(office)
        await ask_for_another(office, monkeypatch, approval)
        run = await office.resume(run)
        (question,) = await office.ask(run)
        give = getattr(office.decider, answer)
        await give(question.id, MARA, channel="cli", reason="as I say")
        run = await office.resume(run)
        assert (run.state, len(office.executed())) == (RunState.COMPLETED, executed)
    assert "as I say" in run.text


async def test_approval_of_the_last_release_keeps_its_own_digest(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It covers the tool and the arguments; only their changes ask again."""
    run = await office.submit("changing", PAY)
    (was,) = await office.ledger.approvals(run.waiting)
    narrow = digest(was.call.name, was.call.args)
    old = was.model_copy(update={"needs": 0, "declared": "", "digest": narrow})
    await office.ledger.commit(Change().put(old, was=was))
    await office.approve(run)
    await declare_otherwise(office, monkeypatch, old)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert "it was called" in run.text


async def test_digest_covers_agent_app_requester_and_declaration(office: Office) -> None:
    """Another agent, app, requester or declaration gives another digest."""
    run = await office.submit("changing", PAY)
    (one,) = await office.ledger.approvals(run.waiting)
    assert one.declared.startswith("sha256:")
    assert one.digest == one.digest_of("pay", {"iban": "DE-1"})
    others = [
        one.digest_of(
            "pay", {"iban": "DE-1"}, origin=one.origin.model_copy(update={field: "other"})
        )
        for field in ("agent", "app", "user")
    ]
    others.append(one.digest_of("pay", {"iban": "DE-1"}, declared="sha256:0"))
    assert len({one.digest, *others}) == 5
