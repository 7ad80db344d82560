"""Follow the audit while it grows."""

from __future__ import annotations

import asyncio

import pytest

from builders import paused
from deciding import Decider
from signoff.broker.ledger.follow import batches, follow
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.events import Event, What


async def take(ledger: Ledger, count: int, **how: str) -> list[Event]:
    """Return this number of the next entries."""
    found = []
    async for event in follow(ledger.store, **how):
        found.append(event)
        if len(found) == count:
            break
    return found


async def test_following_returns_old_entries_before_new_ones(
    ledger: Ledger, decider: Decider
) -> None:
    """The old entries come first, and each new one follows without another request."""
    run, _ = await paused(ledger)
    following = asyncio.create_task(take(ledger, 3))
    await decider.submit("finance", "hi", user="riley")
    assert [event.what for event in await following] == [
        What.SUBMITTED,
        What.OPENED,
        What.SUBMITTED,
    ]
    assert [event.run for event in await take(ledger, 2, subject=run.id)] == [run.id] * 2


@pytest.mark.parametrize("earlier", [0, 1])
async def test_from_now_on_means_from_now_on(
    ledger: Ledger, decider: Decider, earlier: int
) -> None:
    """No entry is missed that comes between two reads, also if the audit was empty."""
    for _ in range(earlier):
        await paused(ledger)
    following = batches(ledger.store, start="$", block=1)
    for _ in range(2):
        assert await anext(following) == []
    run = await decider.submit("finance", "hi", user="riley")
    assert [event.run for _, event in await anext(following)] == [run.id]
