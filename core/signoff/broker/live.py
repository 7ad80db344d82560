"""Streams of the events of watched turns, from the workers that run them to the watchers.

Each turn has its own stream, ``events:<run>:<pause>``. The session has the events too, and the
record of the run shows whether the turn is over. So errors of the stream never stop a worker, and a
watcher that is not woken sees the end up to two seconds later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import structlog

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.core.approvals.run import Run
from signoff.core.base.errors import LedgerError, LedgerUnavailable

log = structlog.get_logger(__name__)

KEEP_S: Final = 900
"""Seconds for which a stream is stored after its last event."""

_MOST = 10_000
"""Events in a stream, roughly; the oldest are deleted."""

# Less than the socket timeout of the client: a longer blocking read would look like a dead server.
_BLOCK_MS: Final = 2000
_PATIENCE: Final = 30


async def publish(ledger: Ledger, run: Run, event_id: str, text: str) -> bool:
    """Publish an event of a run's current turn, if the run is watched; never raises.

    Watchers get an event of one `event_id` once, even if another worker repeats it. Parts of an
    unfinished message have the id "", and are never recognised as repeated.

    Returns:
        Whether it was published.
    """
    return bool(run.watched) and await _add(ledger.store, run, "id", event_id, "event", text)


async def wake_watchers(ledger: Ledger, run: Run) -> None:
    """Make the watchers of a run check now whether the turn is over; never raises."""
    if run.watched:
        await _add(ledger.store, run, "look", "1")


async def follow_turn(ledger: Ledger, run_id: str, pause: int) -> AsyncIterator[str]:
    """Yield the events of a turn as JSON until the turn is over.

    Args:
        ledger: The ledger. One of its connections is in use while this waits for events.
        run_id: The id of the run.
        pause: How many times the run had paused before the turn.

    Yields:
        An event, or "" if there was none for two seconds.

    Raises:
        RunNotFound: The run does not exist.
        LedgerUnavailable: Redis could not be reached for about a minute.
    """
    start, seen, failures = "0", set[str](), 0
    while True:
        try:
            # In this order: once the turn is over, the stream has all events.
            over = await _is_over(ledger, run_id, pause)
            rows = await _read(ledger.store, f"events:{run_id}:{pause}", start, wait=not over)
        except LedgerUnavailable:
            failures += 1
            if failures > _PATIENCE:
                raise
            # The turn continues meanwhile. Nothing signals that Redis is back.
            await asyncio.sleep(1)
            continue
        failures = 0
        for start, fields in rows:  # noqa: B007 -- the next read begins there
            if "event" in fields and fields["id"] not in seen:
                seen.update(filter(None, [fields["id"]]))
                yield fields["event"]
        if not rows:
            if over:
                return
            yield ""


async def _is_over(ledger: Ledger, run_id: str, pause: int) -> bool:
    run = await ledger.run(run_id)
    return run.pause != pause or not run.under_way


async def _read(
    store: Store, key: str, start: str, *, wait: bool
) -> list[tuple[str, dict[str, str]]]:
    block = _BLOCK_MS if wait else None
    async with store.translated_client() as client:
        streams = await client.xread({store.prefix + key: start}, count=100, block=block)
    return [row for _, rows in streams or [] for row in rows]


async def _add(store: Store, run: Run, *fields: str) -> bool:
    key = f"{store.prefix}events:{run.id}:{run.pause}"
    try:
        async with (
            store.translated_client() as client,
            client.pipeline(transaction=False) as pipe,
        ):
            pipe.execute_command("XADD", key, "MAXLEN", "~", _MOST, "*", *fields)
            pipe.execute_command("EXPIRE", key, KEEP_S)
            await pipe.execute()
    except LedgerError as error:
        log.warning("live.not_published", error=str(error))
        return False
    return True
