"""The router delivers through its own process's channels without a doorbell."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from structlog.testing import LogCapture

from channels.conftest import Channels
from signoff.broker import stages
from signoff.broker.ledger import records
from signoff.broker.ledger.change import Change, Item
from signoff.broker.ledger.ledger import read_approval
from signoff.channels.pipeline.outbox import (
    LEASE,
    MOST_LOCAL_BATCHES,
    Worker,
    legible,
    read_each,
)
from signoff.channels.pipeline.route import Router
from signoff.core.approvals.approval import Approval
from signoff.core.base.errors import LedgerUnavailable

DELIVER = stages.deliver("email")


def handing(channels: Channels, work: Worker) -> Router:
    """Return a router with a channel in its process."""
    router = channels.router
    router.work_locally({DELIVER: work})
    return router


async def test_local_delivery_records_the_card_and_leaves_the_outbox_empty(
    channels: Channels,
) -> None:
    """The outbox is empty, and the approval records the delivery."""
    approval = await channels.open()
    await handing(channels, channels.delivery.work).drain()
    (card,) = channels.channel.delivered
    (asked,) = (await channels.ledger.approval(approval.id)).asked
    assert (card.card.approval, bool(asked.receipt)) == (approval.id, True)
    assert (await channels.ledger.backlog())[DELIVER] == 0


@pytest.mark.parametrize("error", [LedgerUnavailable("it is away"), ValueError("a defect")])
async def test_undelivered_card_is_delivered_by_others_after_the_lease(
    still_channels: Channels, log_output: LogCapture, error: Exception
) -> None:
    """If the process dies, fails or loses Redis, others deliver the card after the lease."""
    channels = still_channels

    async def fail(items: Sequence[Item]) -> None:
        raise error

    await channels.open()
    await handing(channels, fail).drain()
    assert await channels.delivery.drain() == 0
    channels.clock.advance(timedelta(seconds=LEASE))
    await channels.delivery.drain()
    (card,) = channels.channel.delivered
    # It may have been sent already, so Slack is searched for it first.
    assert (card.attempt, card.unsure) == (2, True)


class SlowChannel:
    """Reports the start of each delivery, and waits until the test lets it continue."""

    def __init__(self, channels: Channels) -> None:
        self.channels = channels
        self.begun = asyncio.Queue[Sequence[Item]]()
        self.ends = asyncio.Event()

    async def work(self, items: Sequence[Item]) -> None:
        """Deliver."""
        self.begun.put_nowait(items)
        await self.ends.wait()
        await self.channels.delivery.work(items)


class DeliveryBell:
    """Sets an event when the delivery stage is rung."""

    def __init__(self) -> None:
        self.rung = asyncio.Event()

    async def ring(self, *rung: str) -> None:
        """Report the ring."""
        if DELIVER in rung:
            self.rung.set()


async def test_slow_channel_does_not_block_routing(channels: Channels) -> None:
    """Routing continues during a slow delivery; while it is busy, cards go to the outbox.

    A drain ends when all its handed-over deliveries have ended.
    """
    slow, bell = SlowChannel(channels), DeliveryBell()
    channels.ledger.bell = bell
    router, drains = handing(channels, slow.work), list[asyncio.Task[int]]()
    for _ in range(MOST_LOCAL_BATCHES):
        await channels.open()
        drains.append(asyncio.create_task(router.drain()))
        await slow.begun.get()
    assert not bell.rung.is_set()
    last = await channels.open()
    drains.append(asyncio.create_task(router.drain()))
    await bell.rung.wait()
    await channels.delivery.drain()
    assert [one.card.approval for one in channels.channel.delivered] == [last.id]
    assert not any(one.done() for one in drains)
    slow.ends.set()
    await asyncio.gather(*drains)
    assert len(channels.channel.delivered) == len(drains)
    assert slow.begun.empty()


async def test_local_delivery_gets_the_approval_as_it_would_be_read(channels: Channels) -> None:
    """The kept approval equals its record, and it is not kept if another process has changed it."""
    opened = await channels.open()
    seen = list[tuple[Approval, Approval]]()

    async def look(items: Sequence[Item]) -> None:
        for hint in (opened.hint, "of another process"):
            was = await channels.ledger.approval(opened.id)
            if was.hint != hint:
                after = was.model_copy(update={"hint": hint})
                await channels.ledger.commit(Change().put(after, was=was))
            (record,) = await channels.ledger.store.read([f"approval:{opened.id}"])
            assert record is not None
            found = channels.ledger.recent.approval(opened.id, record)
            seen.append((found, read_approval(*record)))

    await handing(channels, look).drain()
    assert [one for one, _ in seen] == [other for _, other in seen]
    assert [one.hint for one, _ in seen] == [opened.hint, "of another process"]
    assert all(one.asked for one, _ in seen)


async def test_local_delivery_does_not_parse_the_approval(
    channels: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The approval that the router has written is not parsed again."""
    opened, seen = await channels.open(), list[Approval]()

    async def look(items: Sequence[Item]) -> None:
        monkeypatch.setattr(records, "read_approval", None)
        found, _ = await read_each(channels.ledger, [opened.id])
        seen.append(legible(found[opened.id]))

    await handing(channels, look).drain()
    assert [bool(one.asked) for one in seen] == [True]
