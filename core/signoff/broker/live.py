"""The events of a watched turn, on their way from the worker that runs it to those who look on.

Each turn has a stream of its own, ``events:<run>:<pause>``. It is a copy for the eye: nothing
depends on it, the session has the events, and whether the turn is over stands in the run's record.
So a worker never fails because nobody can be shown anything, and a mark that is lost only makes
the onlooker see the end a moment later.
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
"""For how long after its last event a stream is kept."""

_MOST = 10_000
# Under the socket timeout of the client: a longer blocking read would be taken for a dead server.
_BLOCK_MS: Final = 2000
_PATIENCE: Final = 30


async def show(ledger: Ledger, run: Run, event_id: str, text: str) -> bool:
    """Show one event of a run's present turn; never raises, and does nothing for an unwatched run.

    Args:
        ledger: The ledger.
        run: The run.
        event_id: Who sees the same id again, after a take-over, sees it once; "" for an event that
            is seen each time, such as a part of what a model is saying.
        text: The event as JSON.

    Returns:
        Whether it was shown.
    """
    return bool(run.watched) and await _add(ledger.store, run, "id", event_id, "event", text)


async def look_up(ledger: Ledger, run: Run) -> None:
    """Let onlookers look into the run's record now; never raises."""
    if run.watched:
        await _add(ledger.store, run, "look", "1")


async def follow_turn(ledger: Ledger, run_id: str, pause: int) -> AsyncIterator[str]:
    """Yield the events of one turn, as JSON, to the end of the turn.

    Args:
        ledger: The ledger; its connection is held while there is nothing to see.
        run_id: The run.
        pause: How many times it had paused before the turn.

    Yields:
        An event, or "" where for two seconds there was none.

    Raises:
        RunNotFound: There is no such run.
        LedgerUnavailable: Redis could not be reached for a minute or so.
    """
    start, seen, failures = "0", set[str](), 0
    while True:
        try:
            # In this order: what was shown before the turn was over is in the stream by then.
            over = await _is_over(ledger, run_id, pause)
            rows = await _read(ledger.store, f"events:{run_id}:{pause}", start, wait=not over)
        except LedgerUnavailable:
            failures += 1
            if failures > _PATIENCE:
                raise
            # The turn goes on without us; there is no signal for a Redis that is back.
            await asyncio.sleep(1)
            continue
        failures = 0
        for start, fields in rows:  # noqa: B007 -- where the next reading begins
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
        log.warning("live.not_shown", error=str(error))
        return False
    return True
