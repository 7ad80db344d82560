"""Leases that are kept alive while work is done, and that end the work when they are lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import structlog

from signoff.broker.change import Item
from signoff.broker.ledger import Ledger
from signoff.core.errors import LeaseLost, LedgerError

log = structlog.get_logger(__name__)


def session_key(app: str, user: str, session: str) -> str:
    """Return the lease key of an ADK session: whoever holds it alone runs the session."""
    return f"lease:{app}\0{user}\0{session}"


@asynccontextmanager
async def held(ledger: Ledger, item: Item, key: str, *, lease: float) -> AsyncIterator[bool]:
    """Hold a lease key under the token of an item, and keep both alive.

    Yields whether the key could be taken. A heartbeat prolongs both every third of the lease; if
    one of them is lost, the body is cancelled, because somebody else is doing the work by then.

    Raises:
        LeaseLost: The item's lease was lost before, or one of the two while the body ran. Whatever
            the body made of its cancellation, this is what comes out.
        LedgerUnavailable: Redis cannot be reached.
    """
    taken_at = asyncio.get_running_loop().time()
    # With the item's own lease, some of which has gone by while it waited for a free slot.
    if not await ledger.take_lease(key, item.token, lease=lease, item=item):
        yield False
        return
    body = asyncio.current_task()
    if body is None:
        raise RuntimeError("held() needs a task to cancel.")
    cancelled_before = body.cancelling()
    beating = asyncio.create_task(
        _beat(ledger, item, key, lease=lease, alive_at=taken_at, body=body)
    )
    try:
        yield True
    except BaseException:
        lost = _loss(beating)
        # As asyncio.timeout does: only our own cancellation is taken back, another one goes on.
        if lost is None or body.uncancel() > cancelled_before:
            raise
        raise LeaseLost(f"The lease of {item.id} was lost while it ran.") from lost
    else:
        if (lost := _loss(beating)) is not None:
            body.uncancel()
            raise LeaseLost(f"The lease of {item.id} was lost while it ran.") from lost
    finally:
        beating.cancel()
        await asyncio.wait([beating])
        await _release(ledger, key, item.token)


async def _beat(
    ledger: Ledger,
    item: Item,
    key: str,
    *,
    lease: float,
    alive_at: float,
    body: asyncio.Task[Any],
) -> LedgerError:
    """Prolong until a lease is lost or must be taken for lost; then cancel the body."""
    loop = asyncio.get_running_loop()
    while True:
        give_up_at = alive_at + lease * 0.9
        await asyncio.sleep(min(lease / 3, max(give_up_at - loop.time(), 0)))
        sent_at = loop.time()
        try:
            # A Redis that does not answer must not let the body work on into somebody else's lease.
            async with asyncio.timeout_at(give_up_at):
                await ledger.extend(item, token=item.token, lease=lease, keys=[key])
        except (LedgerError, TimeoutError) as error:
            if not isinstance(error, LeaseLost) and loop.time() < give_up_at:
                continue
            log.warning("lease.lost", item=item.id, stage=item.stage, error=str(error))
            body.cancel()
            return error if isinstance(error, LedgerError) else LeaseLost("Redis did not answer.")
        alive_at = sent_at


def _loss(beating: asyncio.Task[LedgerError]) -> LedgerError | None:
    return beating.result() if beating.done() and not beating.cancelled() else None


async def _release(ledger: Ledger, key: str, token: str) -> None:
    # What the body did is done: a key that cannot be given back now runs out by itself.
    with contextlib.suppress(LedgerError):
        await ledger.release_lease(key, token)
