"""Streams of the events of watched turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

from structlog.testing import capture_logs

from ports import free_port
from signoff.broker import live
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.core.approvals.run import Run, Watch

WATCHED = Run(
    id="run_1",
    app="finance",
    user="riley",
    session="s",
    message="hello",
    submitted_at=datetime(2026, 3, 2, tzinfo=UTC),
    watched=Watch.EVENTS,
)


async def submit(ledger: Ledger, run: Run = WATCHED) -> Run:
    """Put a run into the ledger, and return its record."""
    await ledger.commit(Change().put(run, was=None))
    return await ledger.run(run.id)


async def complete(ledger: Ledger, run: Run) -> None:
    """End a run."""
    after, _ = run.completed("done", now=run.submitted_at)
    await ledger.commit(Change().put(after, was=run))


async def seen(ledger: Ledger, run: Run) -> list[str]:
    """Return the events of a turn up to its end."""
    return [text async for text in live.follow_turn(ledger, run.id, run.pause) if text]


async def test_events_come_in_order_and_once(ledger: Ledger) -> None:
    """An event that a second worker repeats is not seen twice."""
    run = await submit(ledger)
    for event_id in ("a", "b", "a", "b", "c"):
        await live.publish(ledger, run, event_id, f'"{event_id}"')
    await complete(ledger, run)
    assert await seen(ledger, run) == ['"a"', '"b"', '"c"']


async def test_an_early_watcher_gets_each_event_at_once(ledger: Ledger) -> None:
    """A watcher does not wait for the end of the turn."""
    run = await submit(ledger)
    events = live.follow_turn(ledger, run.id, run.pause)
    coming = asyncio.ensure_future(anext(events))
    await live.publish(ledger, run, "a", "first")
    while (text := await coming) == "":
        coming = asyncio.ensure_future(anext(events))
    assert text == "first"
    await complete(ledger, run)
    await live.wake_watchers(ledger, run)
    assert [text async for text in events if text] == []


async def test_a_woken_watcher_waits_for_the_end(ledger: Ledger) -> None:
    """Only the record of the run says that a turn is over: a worker may try again."""
    run = await submit(ledger)
    await live.wake_watchers(ledger, run)
    events = live.follow_turn(ledger, run.id, run.pause)
    assert await anext(events) == ""
    assert isinstance(events, AsyncGenerator)
    await events.aclose()


async def test_a_watcher_that_is_not_woken_sees_the_end(ledger: Ledger) -> None:
    """A worker that dies after its commit wakes nobody."""
    run = await submit(ledger)
    following = asyncio.create_task(seen(ledger, run))
    await live.publish(ledger, run, "a", "last")
    await complete(ledger, run)
    assert await following == ["last"]


async def test_events_of_an_unwatched_run_are_not_published(ledger: Ledger) -> None:
    """Such a run leaves no keys in Redis."""
    run = await submit(ledger, WATCHED.model_copy(update={"watched": Watch.NO}))
    await live.publish(ledger, run, "a", "x")
    await live.wake_watchers(ledger, run)
    assert await ledger.store.keys("events:") == []


async def test_streams_expire(ledger: Ledger) -> None:
    """A stream has an expiry from its first event on."""
    run = await submit(ledger)
    await live.publish(ledger, run, "a", "x")
    (key,) = await ledger.store.keys("events:")
    left = await ledger.store.client.ttl(ledger.store.prefix + key)
    assert 0 < left <= live.KEEP_S


async def test_a_turn_does_not_fail_without_its_stream() -> None:
    """Without Redis, a warning is logged and the agent continues."""
    nowhere = Ledger(Store.open(f"redis://127.0.0.1:{free_port()}/0"))
    with capture_logs() as logged:
        await live.publish(nowhere, WATCHED, "a", "x")
        await live.wake_watchers(nowhere, WATCHED)
    await nowhere.close()
    assert [one["event"] for one in logged] == ["live.not_published"] * 2
