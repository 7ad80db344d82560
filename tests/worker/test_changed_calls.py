"""A yes is for a call of one agent to a tool as it is declared: a change since asks again."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.function_tool import FunctionTool

from signoff.broker.ledger.change import Change
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import What
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from signoff.core.payloads.digest import digest
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
    """Give the tool another parameter, as the deployment of a new version does."""
    root = office.apps.runner("changing").agent
    assert isinstance(root, LlmAgent)
    tools = [FunctionTool(pay, require_confirmation=True), *root.tools[1:]]
    patch.setattr(root, "tools", tools)


async def ask_for_another(office: Office, _: pytest.MonkeyPatch, was: Approval) -> None:
    """Let the approval be for another agent than the one that calls."""
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
    """The old yes runs nothing, the audit says why, and so does the next card."""
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


async def test_the_answer_to_the_second_question_counts(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A yes runs the call once; a no reaches the model with its reason."""
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


async def test_what_the_last_release_has_opened_keeps_its_own_digest(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is over the tool and the arguments, and only a change of these asks again."""
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


async def test_the_digest_is_over_all_that_makes_the_call(office: Office) -> None:
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
