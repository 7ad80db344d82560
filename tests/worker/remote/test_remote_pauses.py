"""Other pauses behind an API server: requests for input, nodes, long-running calls."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from signoff.broker.ledger import audit
from signoff.core.approvals.events import What
from signoff.core.approvals.input.long_running import LongRunning
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.approvals.parts import Kind
from signoff.core.approvals.run import Run, RunState
from worker.office import MARA
from worker.remote.far_office import FarOffice

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")

both_apps = pytest.mark.parametrize("suffix", ["", "_resumable"], ids=["plain", "resumable"])

RULES = (
    LongRunning(tool="ask_for_approval", when="result.status == 'pending'"),
    LongRunning(
        tool="wait_for_it",
        payload={"cap": 0},
        response="{'ok': approved, 'why': reason, 'cap': approved ? values.cap : 0, 'by': by}",
    ),
)


async def answer(office: FarOffice, run: Run, reason: str = "", **values: Any) -> Run:
    """Let Mara answer the only waiting question, and let the worker continue."""
    (approval,) = await office.ask(run)
    await office.decider.approve(
        approval.id, MARA, channel="cli", reason=reason, values=values or None
    )
    return await office.work(run)


async def refuse(office: FarOffice, run: Run, reason: str) -> Run:
    """Let Mara reject the only waiting question, and let the worker continue."""
    await office.reject(run, reason)
    return await office.work(run)


async def post(office: FarOffice, run: Run, part: dict[str, Any]) -> None:
    """Answer without Signoff, as an `adk web` does."""
    async with httpx.AsyncClient(timeout=60) as client:
        answered = await client.post(
            f"{office.there.url}/run",
            json={
                "app_name": run.app,
                "user_id": run.user,
                "session_id": run.session,
                "new_message": {"role": "user", "parts": [{"function_response": part}]},
            },
        )
    answered.raise_for_status()


@both_apps
async def test_a_form_is_filled_in_question_by_question(odd_agents: FarOffice, suffix: str) -> None:
    """An address, a yes, a number and a numeric text reach the workflow with their types."""
    run = await odd_agents.submit(f"forms{suffix}", "ship it")
    first = await odd_agents.approval(run)
    assert (first.kind, first.call.name) == (Kind.INPUT, "adk_request_input")
    run = await answer(odd_agents, run, street="Storgata 1", country="NO")
    run = await answer(odd_agents, run)
    run = await answer(odd_agents, run, value=3)
    run = await answer(odd_agents, run, value="0042")
    assert (run.state, run.text) == (RunState.COMPLETED, "Shipped under 0042.")
    assert odd_agents.there.lines() == [
        {"place": {"street": "Storgata 1", "floor": 0, "country": "NO"}},
        {"fragile": True},
        {"count": 3},
        {"code": "0042"},
    ]
    assert (await odd_agents.ledger.approval(first.id)).handoff is Handoff.RESUMED
    await audit.verify(odd_agents.ledger.store)


async def test_rejection_without_a_schema_value_ends_the_run(odd_agents: FarOffice) -> None:
    """The workflow gets no false value, and no answer is posted."""
    run = await odd_agents.submit("forms", "ship it")
    run = await refuse(odd_agents, run, "ask the customer")
    assert run.state is RunState.FAILED
    assert 'input ("Where to?") was rejected by the approver: ask the customer' in run.problem
    assert await odd_agents.said(run) == ["ship it"]
    assert (await odd_agents.approval(run)).handoff is Handoff.FAILED


async def test_a_fixed_id_is_counted_and_an_answer_never_goes_to_a_later_question(
    odd_agents: FarOffice,
) -> None:
    """Two runs in a session ask with one id: the older answer ends, the newer one is posted."""
    runs = []
    for _ in range(2):
        run = await odd_agents.submit("forms", "ship", session="shared-forms")
        run = await answer(odd_agents, run, street="x", country="NO")
        runs.append(await answer(odd_agents, run))
    nths = [(await odd_agents.approval(one)).origin.nth for one in runs]
    assert nths == [0, 1]
    older = await answer(odd_agents, runs[0], value=5)
    assert older.state is RunState.FAILED
    assert "was put again since" in older.problem
    assert {"count": 5} not in odd_agents.there.lines()
    assert (await answer(odd_agents, runs[1], value=6)).state is RunState.PAUSED


async def test_a_model_that_asks_is_answered(odd_agents: FarOffice) -> None:
    """A rejection fills `approved`, and the person's text fills `comment`."""
    run = await odd_agents.submit("asks_model", "go")
    run = await refuse(odd_agents, run, "not today")
    assert run.state is RunState.COMPLETED
    assert json.loads(run.text) == {"approved": False, "comment": "not today"}


async def test_call_answered_by_another_user_is_not_answered_again(
    odd_agents: FarOffice,
) -> None:
    """Another user answers in `adk web`: the run ends, and its approver is told."""
    run = await odd_agents.submit("asks_input", "go")
    origin = (await odd_agents.approval(run)).origin
    theirs = {"id": origin.confirmation, "name": "adk_request_input", "response": {"result": "x"}}
    await post(odd_agents, run, theirs)
    run = await answer(odd_agents, run, value="mine")
    assert run.state is RunState.FAILED
    assert "somebody else has answered" in run.problem


@both_apps
async def test_nodes_are_confirmed_like_tools(odd_agents: FarOffice, suffix: str) -> None:
    """The card shows the node and its arguments; each runs once, and its end is recorded."""
    run = await odd_agents.submit(f"nodes{suffix}", "go")
    first = await odd_agents.approval(run)
    assert (first.kind, first.call.name) == (Kind.CONFIRMATION, "transfer")
    run = await answer(odd_agents, run)
    second = await odd_agents.approval(run)
    assert (second.call.name, second.call.args) == ("tell", {"to": "A"})
    run = await answer(odd_agents, run)
    assert run.state is RunState.COMPLETED
    assert odd_agents.there.lines() == [{"transferred": 50}, {"told": "A"}]
    fresh = [await odd_agents.ledger.approval(one.id) for one in (first, second)]
    assert [(one.handoff, one.starts) for one in fresh] == [(Handoff.RESUMED, 1)] * 2
    await audit.verify(odd_agents.ledger.store)


@both_apps
async def test_a_rejected_node_does_not_run(odd_agents: FarOffice, suffix: str) -> None:
    """ADK passes its refusal to the next node, which is asked about with that input."""
    run = await odd_agents.submit(f"nodes{suffix}", "go")
    run = await refuse(odd_agents, run, "no money")
    second = await odd_agents.approval(run)
    assert second.call.args == {"error": "This tool call is rejected."}
    await refuse(odd_agents, run, "still none")
    assert odd_agents.there.lines() == []


async def test_a_node_that_raises_has_run(odd_agents: FarOffice) -> None:
    """The run fails with the node's error, and the approval is used up."""
    run = await odd_agents.submit("raising_node", "go")
    run = await answer(odd_agents, run)
    assert run.state is RunState.FAILED
    assert "the bank hung up" in run.problem
    assert odd_agents.there.lines() == [{"transferred": 50}]
    approval = await odd_agents.approval(run)
    assert approval.handoff is Handoff.FAILED
    whats = [one.what for one in await odd_agents.ledger.history(approval.id)]
    assert What.FINISHED in whats


@both_apps
async def test_input_and_gated_call_of_one_pause_wait_for_both_answers(
    odd_agents: FarOffice, suffix: str
) -> None:
    """Both kinds belong to one pause, so both have to be answered first."""
    run = await odd_agents.submit(f"beside{suffix}", "go")
    asked = {one.kind: one for one in await odd_agents.ask(run)}
    assert set(asked) == {Kind.INPUT, Kind.CONFIRMATION}
    await odd_agents.decider.approve(
        asked[Kind.INPUT].id, MARA, channel="cli", values={"value": 4711}
    )
    run = await odd_agents.work(run)
    assert run.state is RunState.PAUSED
    assert odd_agents.there.lines() == []
    await odd_agents.decider.approve(asked[Kind.CONFIRMATION].id, MARA, channel="cli")
    run = await odd_agents.work(run)
    assert run.state is RunState.COMPLETED
    assert [line for line in odd_agents.there.lines() if "paid" in line] == [{"paid": "A"}]
    assert "4711" in run.text


class TestLongRunning:
    """`LongRunningFunctionTool` calls that wait for an approval."""

    @pytest.fixture
    def opted_in(self, odd_agents: FarOffice) -> FarOffice:
        """An office whose settings name the tools."""
        odd_agents.runtime.long_running = RULES
        return odd_agents

    @both_apps
    async def test_the_decision_is_the_final_result(self, opted_in: FarOffice, suffix: str) -> None:
        """The tool's result is kept, and the decision is merged into it."""
        run = await opted_in.submit(f"ticket{suffix}", "ask:50")
        approval = await opted_in.approval(run)
        assert (approval.kind, approval.call.args) == (Kind.LONG_RUNNING, {"amount": 50.0})
        assert "t-17" in approval.hint
        run = await answer(opted_in, run, "fine by me")
        assert run.state is RunState.COMPLETED
        assert run.text == '{"status": "approved", "ticket": "t-17", "reason": "fine by me"}'
        assert opted_in.there.lines() == [{"ticket": 50.0}]

    @both_apps
    async def test_an_expression_builds_the_result(self, opted_in: FarOffice, suffix: str) -> None:
        """A tool without a first result gets values that the approver entered."""
        run = await opted_in.submit(f"ticket{suffix}", "wait:50")
        run = await answer(opted_in, run, cap=40)
        assert run.state is RunState.COMPLETED
        assert '"cap": 40' in run.text
        assert '"by": "mara"' in run.text

    async def test_the_reason_of_a_no_reaches_the_model(self, opted_in: FarOffice) -> None:
        """Signoff writes the result, so the reason of a rejection is not lost."""
        run = await opted_in.submit("ticket", "ask:50")
        run = await refuse(opted_in, run, "too much")
        assert '"status": "rejected"' in run.text
        assert '"reason": "too much"' in run.text
        assert (await opted_in.approval(run)).state is State.REJECTED

    async def test_long_running_call_without_a_rule_stays_open(self, odd_agents: FarOffice) -> None:
        """The run ends, and its last entry names the open call."""
        run = await odd_agents.submit("ticket", "ask:50")
        assert run.state is RunState.COMPLETED
        last = (await odd_agents.ledger.history(run.id))[-1]
        assert "ask_for_approval()" in last.why

    @both_apps
    async def test_long_running_call_and_gated_call_are_both_asked_about(
        self, opted_in: FarOffice, suffix: str
    ) -> None:
        """Both are asked about; the result follows the approval in a message, and is used."""
        run = await opted_in.submit(f"ticket{suffix}", "ask:50 pay:A")
        kinds = {one.kind for one in await opted_in.ledger.approvals(run.approvals)}
        assert kinds == {Kind.LONG_RUNNING, Kind.CONFIRMATION}
        await opted_in.approve(run)
        run = await opted_in.work(run)
        assert run.state is RunState.COMPLETED
        assert [line for line in opted_in.there.lines() if "paid" in line] == [{"paid": "A"}]
        assert '"status": "approved"' in run.text
        assert await opted_in.said(run) == ["ask:50 pay:A", "answer", "answer"]
