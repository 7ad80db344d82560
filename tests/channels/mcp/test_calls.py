"""Calls of MCP clients: asked about once, run once, and never repeated silently."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import JsonValue

from archiving import archiver
from builders import CLEO, MARA, present
from channels.mcp.conftest import Gatehouse, call, said
from signoff.broker.archive.files import ArchiveFiles
from signoff.broker.ed25519 import Key
from signoff.broker.freezes import Freezes
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.receipts import Receipts
from signoff.channels.mcp.elicitation import MOST_QUESTIONS
from signoff.channels.mcp.messages import BadMessage
from signoff.channels.mcp.running import CallLost, NotSent
from signoff.core.approvals.approval import Handoff
from signoff.core.approvals.masking import masked
from signoff.core.approvals.parts import Kind
from signoff.core.base.hiding import HIDDEN
from signoff.core.directory.people import Person
from signoff.core.policies.policy import Fallback, Policy

FORM = {
    "type": "object",
    "properties": {"account": {"type": "string"}},
    "required": ["account"],
}
ASKS: Final[dict[str, Any]] = {
    "resultType": "input_required",
    "inputRequests": {
        "to": {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": "Which account?", "requestedSchema": FORM},
        }
    },
    "requestState": "sealed",
}


async def test_an_approved_call_runs_once(gatehouse: Gatehouse) -> None:
    """The response says that it waits; a repeated call attaches, and a later one is new."""
    first = await gatehouse.ask(call())
    waiting = await gatehouse.pending()
    assert waiting.id in said(first)
    assert "exactly the same arguments" in said(first)
    assert json.loads(first.text)["isError"] is True
    assert (waiting.call.name, waiting.call.args) == ("bank.refund", {"amount": 10.5})
    assert (waiting.origin.app, waiting.origin.user) == ("desk", "riley")
    assert said(await gatehouse.ask(call())) == said(first)
    await gatehouse.approve()
    assert gatehouse.server.got == []
    assert said(await gatehouse.ask(call())) == "done 1"
    done = await gatehouse.decider.ledger.approval(waiting.id)
    assert (done.handoff, done.starts) == (Handoff.RESUMED, 1)
    assert "done 1" in done.result
    assert (await gatehouse.pending_after(call())).id != waiting.id
    assert len(gatehouse.server.got) == 1
    await audit.verify(gatehouse.decider.ledger.store)


async def test_a_client_that_waits_gets_the_result(gatehouse: Gatehouse) -> None:
    """It gets progress messages, and the decision wakes it."""
    asked = asyncio.create_task(gatehouse.ask(call(), gatehouse.calls(60)))
    await gatehouse.waits.wait()
    await gatehouse.approve()
    assert said(await asked) == "done 1"


async def test_an_allow_or_deny_policy_answers_immediately(gatehouse: Gatehouse) -> None:
    """Nobody is asked, and the model reads the policy's reason."""
    assert said(await gatehouse.ask(call("read_rates"))) == "done 1"
    assert "nobody drops tables" in said(await gatehouse.ask(call("drop_rates")))
    assert len(gatehouse.server.got) == 1
    assert await gatehouse.decider.ledger.pending() == []


async def test_a_rejection_is_returned_to_the_model_once(gatehouse: Gatehouse) -> None:
    """It has its reason; the next such call asks again."""
    await gatehouse.ask(call())
    waiting = await gatehouse.pending()
    await gatehouse.decider.reject(waiting.id, MARA, channel="inbox", reason="over budget")
    answer = said(await gatehouse.ask(call()))
    assert "has not run" in answer
    assert "over budget" in answer
    assert (await gatehouse.pending_after(call())).id != waiting.id
    assert gatehouse.server.got == []


@pytest.mark.soak
async def test_concurrent_identical_calls_run_once(gatehouse: Gatehouse) -> None:
    """In one process or in several, all callers get the single result."""
    await gatehouse.ask(call())
    await gatehouse.approve()
    gatehouse.server.holds = asyncio.Event()
    processes = [gatehouse.calls(60) for _ in range(3)]
    asked = [
        asyncio.create_task(gatehouse.ask(call(), one, delivered=False))
        for one in processes
        for _ in range(5)
    ]
    await gatehouse.server.called.wait()
    gatehouse.server.holds.set()
    assert {said(one) for one in await asyncio.gather(*asked)} == {"done 1"}
    assert len(gatehouse.server.got) == 1


async def test_concurrent_identical_calls_wait_for_one_task(gatehouse: Gatehouse) -> None:
    """The clients of one process all wait for the call itself, as does its shutdown."""
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    await gatehouse.ask(call())
    await gatehouse.approve()
    process = gatehouse.calls(60)
    asked = [gatehouse.ask(call(), process, delivered=False) for _ in range(5)]
    assert {said(one) for one in await asyncio.gather(*asked)} == {"done 1"}
    assert len(gatehouse.server.got) == 1
    assert faults == []


async def test_a_client_is_told_that_another_process_runs_its_call(gatehouse: Gatehouse) -> None:
    """It does not wait longer than it may, and gets the result when it calls again."""
    await gatehouse.ask(call())
    await gatehouse.approve()
    gatehouse.server.holds = asyncio.Event()
    first = asyncio.create_task(gatehouse.ask(call(), gatehouse.calls(60), delivered=False))
    await gatehouse.server.called.wait()
    other = gatehouse.calls()
    async with asyncio.timeout(30):
        assert "is running" in said(await gatehouse.ask(call(), other))
    gatehouse.server.holds.set()
    assert said(await first) == "done 1"
    assert said(await gatehouse.ask(call(), other)) == "done 1"
    assert len(gatehouse.server.got) == 1


async def test_a_result_is_returned_after_its_approval_is_archived(
    gatehouse: Gatehouse, tmp_path: Path
) -> None:
    """The client still gets it, and nothing is asked or run again."""
    await gatehouse.ask(call())
    await gatehouse.approve()
    assert said(await gatehouse.ask(call(), delivered=False)) == "done 1"
    ledger, files = gatehouse.decider.ledger, ArchiveFiles(tmp_path / "archive")
    for stage in await ledger.backlog():
        # No result has been delivered by now.
        keys = (f"{ledger.store.prefix}{table}:{stage}" for table in ("items", "outbox"))
        await ledger.store.client.delete(*keys)
    await archiver(ledger, files, after=timedelta()).once()
    assert await ledger.store.members("approvals") == []
    assert said(await gatehouse.ask(call())) == "done 1"
    assert await ledger.pending() == []
    assert len(gatehouse.server.got) == 1


async def test_an_undelivered_result_is_kept_for_the_next_call(gatehouse: Gatehouse) -> None:
    """The client left while the call ran; a repeated call gets that result."""
    process = gatehouse.calls()
    await gatehouse.ask(call())
    await gatehouse.approve()
    gatehouse.server.holds = asyncio.Event()
    gone = asyncio.create_task(gatehouse.ask(call(), process))
    await gatehouse.server.called.wait()
    gone.cancel()
    gatehouse.server.holds.set()
    assert said(await gatehouse.ask(call(), process)) == "done 1"
    assert said(await gatehouse.ask(call("read_rates"))) == "done 2"


@pytest.mark.parametrize(("tool", "who"), [("refund", MARA), ("read_rates", CLEO)])
async def test_a_call_in_doubt_is_asked_about(gatehouse: Gatehouse, tool: str, who: Person) -> None:
    """The server died during the call: a person decides if it may run again."""
    gatehouse.server.answers = [CallLost("the server has ended")]
    if tool == "refund":
        await gatehouse.ask(call(tool))
        await gatehouse.approve()
    assert "not known whether bank" in said(await gatehouse.ask(call(tool)))
    again = await gatehouse.pending()
    assert "may or may not have happened" in again.hint
    assert again.id in said(await gatehouse.ask(call(tool)))
    assert len(gatehouse.server.got) == 1
    await gatehouse.decider.approve(again.id, who, channel="inbox")
    assert said(await gatehouse.ask(call(tool))) == "done 2"


async def test_a_gate_crash_leaves_its_call_in_doubt(gatehouse: Gatehouse) -> None:
    """Another process asks before it runs the call again."""
    await gatehouse.ask(call())
    await gatehouse.approve()
    gatehouse.server.holds = asyncio.Event()
    died = gatehouse.calls()
    asked = asyncio.create_task(gatehouse.ask(call(), died))
    await gatehouse.server.called.wait()
    running = present(gatehouse.server.running)
    running.cancel()
    await asyncio.gather(asked, running, return_exceptions=True)
    assert "still waits" in said(await gatehouse.ask(call()))
    assert "may or may not have happened" in (await gatehouse.pending()).hint
    assert len(gatehouse.server.got) == 1


async def test_the_policy_decides_how_a_call_in_doubt_continues(gatehouse: Gatehouse) -> None:
    """`fail` does not run it again, and `retry` runs it again without asking."""
    for tool in ("once", "safe"):
        gatehouse.server.answers = [CallLost("the server has ended")]
        await gatehouse.ask(call(tool))
        await gatehouse.approve()
        await gatehouse.ask(call(tool))
    assert "A person has to look" in said(await gatehouse.ask(call("once")))
    assert said(await gatehouse.ask(call("safe"))) == "done 3"


async def test_a_call_that_was_settled_does_not_run_again(gatehouse: Gatehouse) -> None:
    """The client reads the resolution, and the next call is a new one."""
    gatehouse.server.answers = [CallLost("the server has ended")]
    await gatehouse.ask(call("once"))
    waiting = await gatehouse.approve()
    await gatehouse.ask(call("once"))
    ledger = gatehouse.decider.ledger
    doubtful, now = await ledger.approval_now(waiting.id)
    after, events = doubtful.hand_on(Handoff.FINISHED, now=now, result='"paid"')
    await ledger.commit(Change().put(after, was=doubtful).note(events))
    assert "paid" in said(await gatehouse.ask(call("once")))
    assert (await gatehouse.pending_after(call("once"))).id != waiting.id
    assert len(gatehouse.server.got) == 1


async def test_a_call_to_an_unreachable_server_fails_and_asks_again(gatehouse: Gatehouse) -> None:
    """The call is recorded as failed, and asks again."""
    gatehouse.server.answers = [NotSent("the server cannot be reached")]
    await gatehouse.ask(call())
    waiting = await gatehouse.approve()
    assert "has not run" in said(await gatehouse.ask(call()))
    assert "failed" in (await gatehouse.decider.ledger.approval(waiting.id)).result


async def test_a_yes_that_has_expired_is_asked_again(gatehouse: Gatehouse) -> None:
    """If the client repeats the call too late, the old approval does not count."""
    gatehouse.valid_for = type(gatehouse.valid_for)(microseconds=1)
    await gatehouse.ask(call())
    waiting = await gatehouse.approve()
    assert "still waits" in said(await gatehouse.ask(call()))
    assert (await gatehouse.pending()).supersedes == waiting.id
    assert gatehouse.server.got == []


async def test_a_frozen_tool_does_not_run(gatehouse: Gatehouse) -> None:
    """It runs with the same approval after the freeze ends."""
    await gatehouse.ask(call())
    await gatehouse.approve()
    freezes = Freezes(gatehouse.decider.ledger)
    await freezes.freeze(tool="bank.refund", why="stolen card", by="ops")
    assert "stolen card" in said(await gatehouse.ask(call()))
    await freezes.thaw(tool="bank.refund", by="ops")
    assert said(await gatehouse.ask(call())) == "done 1"


async def test_a_frozen_tool_does_not_continue_with_its_answers(gatehouse: Gatehouse) -> None:
    """The server has asked a question before the freeze, and gets the answer after it."""
    gatehouse.server.answers = [ASKS]
    await gatehouse.ask(call())
    await gatehouse.approve()
    await gatehouse.ask(call())
    question = await gatehouse.approve(account="DE12")
    freezes = Freezes(gatehouse.decider.ledger)
    await freezes.freeze(tool="bank.refund", why="stolen card", by="ops")
    assert "stolen card" in said(await gatehouse.ask(call()))
    assert len(gatehouse.server.got) == 1
    answered = await gatehouse.decider.ledger.approval(question.id)
    assert answered.handoff is Handoff.RECORDED
    await freezes.thaw(tool="bank.refund", by="ops")
    assert said(await gatehouse.ask(call())) == "done 2"


async def test_another_process_answers_a_question_of_a_server(gatehouse: Gatehouse) -> None:
    """The question reaches an approver, and the call continues once with the answer."""
    gatehouse.server.answers = [ASKS]
    await gatehouse.ask(call())
    await gatehouse.approve()
    waits = said(await gatehouse.ask(call()))
    question = await gatehouse.pending()
    assert question.id in waits
    assert (question.kind, question.call.args["message"]) == (Kind.INPUT, "Which account?")
    await gatehouse.approve(account="DE12")
    assert said(await gatehouse.ask(call(), gatehouse.calls())) == "done 2"
    assert gatehouse.server.got[1] == {
        "inputResponses": '{"to": {"action": "accept", "content": {"account": "DE12"}}}',
        "requestState": '"sealed"',
    }
    answered = await gatehouse.decider.ledger.approval(question.id)
    assert answered.handoff is Handoff.RESUMED


async def test_a_declined_question_returns_a_refusal_to_the_server(gatehouse: Gatehouse) -> None:
    """The server continues with a refusal."""
    gatehouse.server.answers = [ASKS]
    await gatehouse.ask(call("read_rates"))
    question = await gatehouse.pending()
    await gatehouse.decider.reject(question.id, CLEO, channel="inbox", reason="no")
    assert said(await gatehouse.ask(call("read_rates"))) == "done 2"
    assert json.loads(gatehouse.server.got[1]["inputResponses"]) == {"to": {"action": "decline"}}


@pytest.mark.parametrize("lost", [CallLost, NotSent])
async def test_a_call_in_doubt_after_its_answers_needs_an_approval(
    gatehouse: Gatehouse, lost: type[Exception]
) -> None:
    """The server has begun it, so it continues with the same answers only after an approval."""
    gatehouse.server.answers = [ASKS, lost("the server has ended")]
    await gatehouse.ask(call())
    await gatehouse.approve()
    await gatehouse.ask(call())
    await gatehouse.approve(account="DE12")
    await gatehouse.ask(call())
    again = await gatehouse.pending()
    assert again.kind is Kind.CONFIRMATION
    assert "may or may not have happened" in again.hint
    await gatehouse.approve()
    assert said(await gatehouse.ask(call())) == "done 3"
    assert gatehouse.server.got[2] == gatehouse.server.got[1]


async def test_a_server_cannot_flood_people_with_questions(gatehouse: Gatehouse) -> None:
    """A call that asks too much at once fails, and nobody is asked."""
    one = ASKS["inputRequests"]["to"]
    many = {f"to{number}": one for number in range(MOST_QUESTIONS + 1)}
    gatehouse.server.answers = [ASKS | {"inputRequests": many}]
    assert "cannot request" in said(await gatehouse.ask(call("read_rates")))
    await gatehouse.router.drain()
    assert [*await gatehouse.decider.ledger.pending()] == []


async def test_a_client_with_elicitation_is_asked_directly(gatehouse: Gatehouse) -> None:
    """The gate does not ask on behalf of a client that declares the capability."""
    gatehouse.server.answers = [ASKS]
    declared: dict[str, JsonValue] = {"elicitation": {}}
    able = call("read_rates", **{"io.modelcontextprotocol/clientCapabilities": declared})
    assert json.loads((await gatehouse.ask(able)).text) == ASKS


async def test_the_answers_of_a_client_are_approved_with_its_call(gatehouse: Gatehouse) -> None:
    """A yes to a payment without a target, or to one target, is not a yes to another."""
    await gatehouse.ask(call("pay"))
    await gatehouse.approve()
    for number, account in enumerate(["DE12", "DE66"], 1):
        answers: JsonValue = {"to": {"action": "accept", "content": {"account": account}}}
        answered = call("pay", inputResponses=answers, requestState=f"sealed {number}")
        asked = await gatehouse.pending_after(answered)
        assert asked.call.args == {"amount": 10.5, "inputResponses": answers}
        assert len(gatehouse.server.got) == number - 1
        await gatehouse.approve()
        again = call("pay", inputResponses=answers, requestState="sealed again")
        assert said(await gatehouse.ask(again)) == f"done {number}"


def test_arguments_without_a_digest_are_refused() -> None:
    """A call without a canonical form cannot be compared and so cannot be approved."""
    with pytest.raises(BadMessage):
        call(args={"n": "\ud800"})


async def test_an_approval_without_a_receipt_starts_nothing(
    gatehouse: Gatehouse, ledger: Ledger
) -> None:
    """A record that a process without the key has written starts nothing."""
    await gatehouse.ask(call())
    forged = await gatehouse.approve()
    key = Key.generate()
    ledger.receipts = Receipts(lambda: [key], lambda: key)
    assert "still waits" in said(await gatehouse.ask(call()))
    again = await gatehouse.pending()
    assert again.supersedes == forged.id
    assert "nothing proves it" in again.hint
    await gatehouse.approve()
    assert said(await gatehouse.ask(call())) == "done 1"


async def test_an_answer_without_a_receipt_is_asked_for_again(
    gatehouse: Gatehouse, ledger: Ledger
) -> None:
    """An answer that a process without the key has written does not reach the server."""
    key = Key.generate()
    receipts = Receipts(lambda: [key], lambda: key)
    two = dict.fromkeys(("to", "from"), ASKS["inputRequests"]["to"])
    gatehouse.server.answers = [ASKS | {"inputRequests": two}]
    ledger.receipts = receipts
    await gatehouse.ask(call())
    await gatehouse.approve()
    await gatehouse.ask(call())
    ledger.receipts = None
    await gatehouse.router.drain()
    forged, other = await ledger.pending()
    for one, account in ((forged, "DE66"), (other, "DE77")):
        values: dict[str, JsonValue] = {"account": account}
        await gatehouse.decider.approve(one.id, MARA, channel="inbox", values=values)
    ledger.receipts = receipts
    assert "still waits" in said(await gatehouse.ask(call()))
    await gatehouse.router.drain()
    again = await ledger.pending()
    assert {one.supersedes for one in again} == {forged.id, other.id}
    for one in again:
        assert "nothing proves it" in one.hint
        assert len(gatehouse.server.got) == 1
        values = {"account": "DE12"}
        await gatehouse.decider.approve(one.id, MARA, channel="inbox", values=values)
    assert said(await gatehouse.ask(call())) == "done 2"
    sent = json.loads(gatehouse.server.got[1]["inputResponses"])
    assert [one["content"] for one in sent.values()] == [{"account": "DE12"}] * 2


@pytest.mark.parametrize(("tool", "starts"), [("once", 2), ("safe", 3)])
async def test_the_policy_decides_how_an_answered_call_in_doubt_continues(
    gatehouse: Gatehouse, tool: str, starts: int
) -> None:
    """They work as for a server that asks no questions."""
    gatehouse.server.answers = [ASKS, CallLost("the server has ended")]
    await gatehouse.ask(call(tool))
    await gatehouse.approve()
    await gatehouse.ask(call(tool))
    await gatehouse.approve(account="DE12")
    await gatehouse.ask(call(tool))
    answer = said(await gatehouse.ask(call(tool)))
    assert len(gatehouse.server.got) == starts
    assert ("A person has to look" if tool == "once" else "done 3") in answer
    if tool == "once":
        ledger = gatehouse.decider.ledger
        (doubtful,) = [one for one in await ledger.decided() if one.handoff is Handoff.IN_DOUBT]
        after, events = doubtful.hand_on(
            Handoff.FINISHED, now=await ledger.now(), result='"paid by hand"'
        )
        await ledger.commit(Change().put(after, was=doubtful).note(events))
        assert "paid by hand" in said(await gatehouse.ask(call("once")))
        assert len(gatehouse.server.got) == starts


async def test_hidden_values_are_hidden_before_routing(
    gatehouse: Gatehouse,
) -> None:
    """Rules of reloaded settings count too, because the matching policy is not known yet."""
    hiding = Policy(name="refunds", ask=("mara",), hide=("amount",))
    gatehouse.router.use((hiding,), Fallback(ask=(CLEO.id,)))
    await gatehouse.ask(call())
    (waiting,) = await gatehouse.decider.ledger.pending()
    assert (waiting.terms, masked(waiting).call.args["amount"]) == (None, HIDDEN)


async def test_a_server_that_is_gone_between_two_rounds_has_the_call(gatehouse: Gatehouse) -> None:
    """It has received the call again, so no message says that the call did not run."""
    again = {"resultType": "input_required", "requestState": "s"}
    gatehouse.server.answers = [again, NotSent("the server cannot be reached")]
    assert "It is not known" in said(await gatehouse.ask(call("read_rates")))
    assert len(gatehouse.server.got) == 2
