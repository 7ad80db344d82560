"""Approved calls start once, also if two ask at the same time, or if a reply of Redis is lost."""

import asyncio
from datetime import datetime

import pytest

from builders import MARA, paused
from deciding import Decider
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.base.errors import LedgerUnavailable, ToolInDoubt
from signoff.worker.starting import ApprovedCalls
from signoff.worker.turn_results import VALID_FOR


def no_fence(change: Change) -> Change:
    """Return the change without a condition, as if the lease were held."""
    return change


async def approved(ledger: Ledger, decider: Decider) -> Approval:
    """Return an approval that Mara has given."""
    _, (asked,) = await paused(ledger)
    await decider.approve(asked.id, MARA, channel="cli")
    return await ledger.approval(asked.id)


async def test_a_call_that_is_started_twice_at_once_starts_once(
    ledger: Ledger, decider: Decider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second start waits for the first: while Redis is away, each would take it for its own."""
    approval = await approved(ledger, decider)
    calls, commit = ApprovedCalls(ledger, VALID_FOR), ledger.commit
    away = [LedgerUnavailable("the commit did not reach Redis")]
    tried: list[int] = []

    async def committed(change: Change) -> None:
        if away:
            raise away.pop()
        await commit(change)

    async def start(number: int) -> bool:
        async def prepare(found: Approval, now: datetime) -> tuple[str, ...]:
            tried.append(number)
            calls.require_startable(found, now)
            return (found.call.name,)

        return await calls.start(approval.id, no_fence, prepare)

    monkeypatch.setattr(ledger, "commit", committed)
    monkeypatch.setattr("signoff.broker.ledger.ledger._INSIST_AGAIN", 0)
    ended = await asyncio.gather(start(1), start(2), return_exceptions=True)
    assert [type(one) for one in ended] == [bool, ToolInDoubt]
    assert tried == [1, 1, 2]
    started = await ledger.approval(approval.id)
    assert (started.handoff, started.starts) == (Handoff.STARTED, 1)


async def test_a_start_whose_reply_was_lost_counts_once(
    ledger: Ledger, decider: Decider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis has carried out the commit: the call is started, and not in doubt."""
    approval = await approved(ledger, decider)
    calls, commit = ApprovedCalls(ledger, VALID_FOR), ledger.commit
    lost = [LedgerUnavailable("the reply was lost")]

    async def committed(change: Change) -> None:
        await commit(change)
        if lost:
            raise lost.pop()

    async def prepare(found: Approval, now: datetime) -> tuple[str, ...]:
        calls.require_startable(found, now)
        return (found.call.name,)

    monkeypatch.setattr(ledger, "commit", committed)
    monkeypatch.setattr("signoff.broker.ledger.ledger._INSIST_AGAIN", 0)
    assert await calls.start(approval.id, no_fence, prepare)
    started = await ledger.approval(approval.id)
    assert (started.handoff, started.starts, lost) == (Handoff.STARTED, 1, [])
    finished = await calls.finish(approval.id, no_fence, result='"paid"')
    assert finished == started
    assert await calls.finish(approval.id, no_fence, result='"again"') is None
    assert (await ledger.approval(approval.id)).result == '"paid"'
