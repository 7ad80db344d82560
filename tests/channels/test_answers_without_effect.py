"""The decider is told if a recorded answer did not reach the agent."""

from __future__ import annotations

from builders import MARA
from channels.conftest import Channels
from signoff.channels.pipeline.port import Kind
from signoff.core.approvals.lifecycle import Handoff
from signoff.worker import turn_results


async def test_the_decider_reads_that_the_answer_did_not_reach_the_agent(
    channels: Channels,
) -> None:
    """Only the decider gets one message with the reason, in the thread of the card."""
    approval, _ = await channels.ask()
    await channels.decider.approve(approval.id, MARA, channel="email")
    await channels.delivery.drain()
    run = await channels.ledger.run(approval.origin.run)
    decided = await channels.ledger.approval(approval.id)
    now = await channels.ledger.now()
    await channels.ledger.commit(
        turn_results.failed(run, "Session s1 is gone.", [decided], now=now)
    )
    before = len(channels.channel.delivered)
    await channels.delivery.drain()
    (told,) = channels.channel.delivered[before:]
    assert told.kind is Kind.OUTCOME
    assert told.person == "mara"
    assert told.headline == "The answer about reimburse did not reach the agent"
    assert "Session s1 is gone." in told.text
    assert not told.good
    assert told.thread == decided.asked[0].receipt
    assert (await channels.ledger.approval(approval.id)).handoff is Handoff.FAILED


async def test_request_without_a_decision_reports_no_lost_answer(channels: Channels) -> None:
    """Nobody decided, so nobody's answer was lost."""
    approval, _ = await channels.ask()
    await channels.decider.withdraw(approval.id, by="riley", reason="not needed")
    await channels.delivery.drain()
    run = await channels.ledger.run(approval.origin.run)
    ended = await channels.ledger.approval(approval.id)
    change = turn_results.failed(run, "gone", [ended], now=await channels.ledger.now())
    assert not [item for item in change.items if str(item["id"]).startswith("unheard:")]
