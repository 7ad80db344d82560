"""The OpenAI Agents SDK's own features: agents as tools, and states that contain approvals."""

from __future__ import annotations

import asyncio
import importlib
import json
from importlib.util import find_spec
from typing import Any

import pytest

from signoff.broker import stages
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import RunState
from worker.frameworks.script import Calls, paying, plan
from worker.frameworks.test_contract import (
    AGENTS,
    Machine,
    approvals_of,
    forge,
    forge_values,
    here,
    resume_again,
)
from worker.office import MARA

__all__ = ["here"]

pytestmark = pytest.mark.skipif(not find_spec("agents"), reason="openai-agents is not installed")

APP, CLERKS = "openai_office", "clerks_office"


async def test_a_call_inside_an_agent_that_is_a_tool(here: Machine) -> None:
    """It is asked about with its own agent's name, and runs once."""
    run = await here.submit(APP, plan([("ask_clerk", {"input": plan(paying("anna"))})]))
    assert run.state is RunState.PAUSED, run.problem
    (waiting,) = await here.ledger.approvals(run.waiting)
    assert (waiting.origin.agent, waiting.call.name) == ("clerk", "pay")
    assert waiting.declared.startswith("sha256:")
    await here.approve(run)
    await resume_again(here, await here.ledger.run(run.id), 10)
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert "anna" in run.text
    assert here.paid() == {"anna": 1}


async def test_the_reason_reaches_an_agent_that_is_a_tool(here: Machine) -> None:
    """The agent that made the call reads the rejection."""
    run = await here.submit(APP, plan([("ask_clerk", {"input": plan(paying("anna"))})]))
    (waiting,) = await here.ask(run)
    await here.decider.reject(waiting.id, MARA, channel="cli", reason="no")
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert "Reason: no" in run.text
    assert not here.executed()


async def test_agent_as_a_tool_may_need_its_own_approval(here: Machine) -> None:
    """Its own approval starts it; each of its calls needs another approval."""
    steps = plan(paying("anna"), paying("ben"))
    run = await here.submit(APP, plan([("order_clerk", {"input": steps})]))
    asked = []
    while run.state is RunState.PAUSED:
        asked += [one.call.name for one in await here.ledger.approvals(run.waiting)]
        await here.approve(run)
        run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert asked == ["order_clerk", "pay", "pay"]
    assert here.paid() == {"anna": 1, "ben": 1}


async def test_changed_arguments_are_detected_wherever_the_sdk_keeps_them(here: Machine) -> None:
    """The guard compares the tool's real arguments, wherever in the state they come from."""
    run = await here.submit(APP, plan(paying("anna")))
    await here.approve(run)
    old = '"functions": [{"tool_call": {"arguments": "{\\"to\\": \\"anna\\"'
    await forge(here, run, old, old.replace("anna", "eve"))
    run = await here.resume(run)
    assert run.state in {RunState.PAUSED, RunState.FAILED}
    assert not here.executed()


async def test_arguments_with_a_key_twice_are_shown_as_text(here: Machine) -> None:
    """Parsers differ in which of the two values they take, and the tool gets the text."""
    text = '{"to": "anna", "amount": 20, "to": "eve"}'
    run = await here.submit(APP, json.dumps([[("pay", text)]]))
    (waiting,) = await here.ledger.approvals(run.waiting)
    assert waiting.call.args == {"arguments": text}
    await here.approve(run)
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert here.paid() == {"eve": 1}


async def test_stored_state_alone_approves_no_call(here: Machine) -> None:
    """A call that only the stored state approves does not run."""
    run = await here.submit(APP, plan(paying("anna"), paying("ben")))
    await here.approve(run)
    everything = '"approvals": {"pay": {"approved": true, "rejected": []}}'
    await forge(here, run, '"approvals": {}', everything)
    run = await here.resume(run)
    assert "ben" not in here.paid()
    if run.state is RunState.PAUSED:
        assert [one.handoff for one in await approvals_of(here, run)] == [Handoff.NONE]


def asking_clerk(to: str, amount: Any) -> Calls:
    """Return the call that lets the clerk pay somebody."""
    return [("ask_clerk", {"input": plan([("pay", {"to": to, "amount": amount})])})]


@pytest.mark.parametrize("approve", [True, False])
async def test_a_call_without_an_approval_that_has_the_id_of_another(
    here: Machine, approve: bool
) -> None:
    """It runs, and gets neither the result nor the rejection of the call that had the id before."""
    run = await here.submit(CLERKS, plan(asking_clerk("anna", 20.5), asking_clerk("ben", 5.5)))
    (asked,) = await here.ask(run)
    assert asked.call.args == {"to": "anna", "amount": 20.5}
    decide = here.decider.approve if approve else here.decider.reject
    await decide(asked.id, MARA, channel="cli", reason="because")
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert '"paid": "ben"' in run.text.replace("\\", "")
    assert here.paid() == ({"anna": 1, "ben": 1} if approve else {"ben": 1})


async def test_arguments_of_another_type_than_the_policy_reads(here: Machine) -> None:
    """The SDK asks about arguments that it would change: `needs_approval` may misread them."""
    run = await here.submit(CLERKS, plan(asking_clerk("anna", "20")))
    assert run.state is RunState.PAUSED, run.problem
    (waiting,) = await here.ledger.approvals(run.waiting)
    assert waiting.call.args == {"to": "anna", "amount": "20"}
    assert not here.executed()


async def test_tools_of_one_name_in_two_namespaces(here: Machine) -> None:
    """The card names the namespace, and the approved one of the tools runs."""
    args = {"to": "anna", "amount": 20}
    run = await here.submit(CLERKS, plan([("crm.pay", args), ("bank.pay", args)]))
    crm, bank = await here.ask(run)
    assert (crm.hint, bank.hint) == ("Namespace: crm", "Namespace: bank")
    await here.decider.reject(crm.id, MARA, channel="cli", reason="no")
    await here.decider.approve(bank.id, MARA, channel="cli")
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert here.executed() == [{"by bank": "anna"}]


async def test_a_call_that_is_moved_to_another_namespace(here: Machine) -> None:
    """The approval is for the tool of its namespace, also if both have the same parameters."""
    run = await here.submit(CLERKS, plan([("crm.pay", {"to": "anna", "amount": 20})]))
    await here.approve(run)
    await forge_values(here, run, "crm", "shop")
    run = await here.resume(run)
    assert run.state in {RunState.PAUSED, RunState.FAILED}
    assert not here.executed()


LETTER = plan([("ask_writer", {"input": plan([("send", {"to": "anna", "text": "hello"})])})])


@pytest.fixture
def letters(here: Machine, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the parameters with which the writer's MCP server starts."""
    monkeypatch.syspath_prepend(str(AGENTS))
    params = importlib.import_module("clerks_office.agent").letters.params
    monkeypatch.setitem(params.env, "SIGNOFF_EXAMPLE_JOURNAL", str(here.journal))
    return params


@pytest.mark.usefixtures("letters")
async def test_a_tool_of_an_mcp_server(here: Machine) -> None:
    """The servers of an agent are connected for each turn, and the approved call runs once."""
    run = await here.submit(CLERKS, LETTER)
    assert run.state is RunState.PAUSED, run.problem
    (waiting,) = await here.ledger.approvals(run.waiting)
    assert (waiting.origin.agent, waiting.call.name) == ("writer", "send")
    await here.approve(run)
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert here.executed() == [{"sent": "anna", "text": "hello"}]


@pytest.mark.soak
@pytest.mark.usefixtures("letters")
async def test_turns_share_the_connection_to_an_mcp_server(here: Machine) -> None:
    """The end of one turn does not disconnect the server of another."""
    runs = [await here.decider.submit(CLERKS, LETTER, user="riley@example.com") for _ in range(3)]
    await asyncio.gather(*(here.executor.drain(stages.run(CLERKS)) for _ in runs))
    for run in runs:
        await here.approve(await here.ledger.run(run.id))
    await asyncio.gather(*(here.executor.drain(stages.resume(CLERKS)) for _ in runs))
    ended = [await here.ledger.run(one.id) for one in runs]
    assert [one.state for one in ended] == [RunState.COMPLETED] * 3, ended
    assert here.executed() == [{"sent": "anna", "text": "hello"}] * 3


async def test_an_mcp_server_that_does_not_start(
    here: Machine, letters: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asked the writer reads the error, and the next run connects the server."""
    with monkeypatch.context() as patched:
        patched.setattr(letters, "command", "/no/such/program")
        run = await here.submit(CLERKS, LETTER)
        assert run.state is RunState.COMPLETED, run.problem
        assert "error" in run.text
    run = await here.submit(CLERKS, LETTER)
    assert run.state is RunState.PAUSED, run.problem
