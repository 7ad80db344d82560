"""The approver learns what the agent did after the decision."""

from __future__ import annotations

from typing import Any

import pytest

from builders import MARA
from channels.conftest import Channels
from signoff.broker.ledger.change import Change
from signoff.channels.pipeline.port import Kind, Message
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.approval import Kind as ApprovalKind
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run
from signoff.worker import turn_results
from signoff.worker.port import TurnResult


async def decided(
    channels: Channels, *, yes: bool = True, result: str = "", **parts: Any
) -> tuple[Approval, Run]:
    """Ask, decide, deliver and run the tool; return the approval and the run."""
    approval, _ = await channels.ask(**parts)
    if yes:
        await channels.decider.approve(approval.id, MARA, channel="email")
    else:
        await channels.decider.reject(approval.id, MARA, channel="email", reason="too much")
    await channels.delivery.drain()
    approval = await channels.ledger.approval(approval.id)
    for step in (Handoff.STARTED, Handoff.FINISHED) if yes else ():
        after, _ = approval.hand_on(step, now=await channels.ledger.now(), result=result)
        await channels.ledger.commit(Change().put(after, was=approval))
        approval = await channels.ledger.approval(approval.id)
    return approval, await channels.ledger.run(approval.origin.run)


async def told_at_the_end(
    channels: Channels, approval: Approval, run: Run, text: str
) -> list[Message]:
    """End the turn with this text, and return the messages to people."""
    now = await channels.ledger.now()
    change = turn_results.turn_ended(
        run, TurnResult(text=text), [approval], {approval.id}, {}, now=now
    )
    await channels.ledger.commit(change)
    channels.channel.delivered.clear()
    await channels.delivery.drain()
    return list(channels.channel.delivered)


async def test_card_thread_shows_the_result_and_the_agent_message(
    channels: Channels,
) -> None:
    """The card's thread has decider, time, the tool's result and the agent's last message."""
    approval, run = await decided(channels, result='{"paid": 250}')
    (told,) = await told_at_the_end(channels, approval, run, "Paid.\n\nAnything else?")
    assert (told.kind, told.person, told.good) == (Kind.END, "mara", True)
    assert told.headline == "reimburse has run"
    assert told.text.startswith("You approved it on ")
    assert 'It returned: {"paid": 250}' in told.text
    assert told.text.endswith("The agent's final message:\n\nPaid.\n\nAnything else?")
    assert told.thread == approval.asked[0].receipt


async def test_a_rejection_has_an_end_as_well(channels: Channels) -> None:
    """It has the agent's message after the rejection."""
    approval, run = await decided(channels, yes=False)
    (told,) = await told_at_the_end(channels, approval, run, "I am sorry to hear that.")
    assert told.headline == "reimburse was not run"
    assert "Reason: too much" in told.text
    assert "I am sorry to hear that." in told.text
    assert not told.good


@pytest.mark.parametrize("yes", [True, False])
async def test_decision_about_a_long_running_call_names_the_decision(
    channels: Channels, *, yes: bool
) -> None:
    """The tool has run before anybody was asked, so only the decision is news."""
    approval, run = await decided(channels, yes=yes, kind=ApprovalKind.LONG_RUNNING)
    (told,) = await told_at_the_end(channels, approval, run, "Done.")
    verb = "approved" if yes else "rejected"
    assert told.headline == f"The agent was told that reimburse was {verb}"


async def test_turn_without_text_or_result_sends_no_message(channels: Channels) -> None:
    """A turn without text, after a call without a result, sends no message."""
    approval, run = await decided(channels)
    assert await told_at_the_end(channels, approval, run, "") == []


async def test_other_approvers_get_only_the_outcome(channels: Channels) -> None:
    """The other approvers read who decided, and get no further message."""
    channels.policies = (channels.policies[0].model_copy(update={"ask": ("mara", "cleo")}),)
    approval, run = await decided(channels, result="{}")
    assert [one.person for one in await told_at_the_end(channels, approval, run, "Done.")] == [
        "mara"
    ]


@pytest.mark.parametrize("text", ["x" * 100_000, "\u202eevil", "approve\n\nreject"])
async def test_agent_message_is_shortened_and_escaped(channels: Channels, text: str) -> None:
    """It is shortened, and hidden or reordering characters are written out."""
    approval, run = await decided(channels, result="{}")
    (told,) = await told_at_the_end(channels, approval, run, text)
    assert len(told.text) < 5_000
    assert "\u202e" not in told.text
