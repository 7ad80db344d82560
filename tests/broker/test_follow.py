"""Following the audit as it grows."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from builders import paused
from deciding import Decider
from signoff.broker.ledger import follow as module
from signoff.broker.ledger.follow import follow
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.redis_types import Commands
from signoff.broker.ledger.store import Store
from signoff.core.approvals.events import Event, What


async def take(ledger: Ledger, count: int, **how: str) -> list[Event]:
    """Return so many of the entries that come."""
    found = []
    async for event in follow(ledger.store, **how):
        found.append(event)
        if len(found) == count:
            break
    return found


async def test_what_was_and_what_comes(ledger: Ledger, decider: Decider) -> None:
    """The old entries come first, then each new one, without being asked for."""
    run, _ = await paused(ledger)
    following = asyncio.create_task(take(ledger, 3))
    await decider.submit("finance", "hi", user="riley")
    assert [event.what for event in await following] == [
        What.SUBMITTED,
        What.OPENED,
        What.SUBMITTED,
    ]
    assert [event.run for event in await take(ledger, 2, subject=run.id)] == [run.id] * 2


@pytest.fixture
def waits(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> asyncio.Semaphore:
    """Released each time that something is about to be read; the waits are short."""
    monkeypatch.setattr(module, "_BLOCK_MS", 1)
    waits = asyncio.Semaphore(0)
    lend = type(ledger.store).translated_client

    def counted(self: Store) -> AbstractAsyncContextManager[Commands]:
        waits.release()
        return lend(self)

    monkeypatch.setattr(type(ledger.store), "translated_client", counted)
    return waits


async def test_from_now_on_means_from_now_on(
    ledger: Ledger, decider: Decider, waits: asyncio.Semaphore
) -> None:
    """Nothing is missed between two waits that both ended without news."""
    await paused(ledger)
    following = asyncio.create_task(take(ledger, 1, start="$"))
    for _ in range(4):
        await waits.acquire()
    run = await decider.submit("finance", "hi", user="riley")
    assert [event.run for event in await following] == [run.id]


async def test_from_the_beginning_of_nothing(
    ledger: Ledger, decider: Decider, waits: asyncio.Semaphore
) -> None:
    """Where there is no entry yet, the first is the next."""
    following = asyncio.create_task(take(ledger, 1, start="$"))
    await waits.acquire()
    await waits.acquire()
    run = await decider.submit("finance", "hi", user="riley")
    assert [event.run for event in await following] == [run.id]
