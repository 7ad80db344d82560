"""Leases that are kept alive while work is done, and that end the work when they are lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from signoff.broker.change import Item
from signoff.broker.ledger import Ledger
from signoff.core.errors import LeaseLost, LedgerError

log = structlog.get_logger(__name__)


def session_key(app: str, user: str, session: str) -> str:
    """Return the lease key of an ADK session: whoever holds it alone runs the session."""
    return "lease:" + "\x00".join((app, user, session))


@asynccontextmanager
async def held(ledger: Ledger, item: Item, key: str, *, lease: float) -> AsyncIterator[bool]:
    """Hold a lease key under the token of an item, and keep both alive.

    Yields whether the key could be taken. A heartbeat prolongs both every third of the lease; if
    one of them is lost, the body is cancelled, because somebody else is doing the work by then.

    Raises:
        LeaseLost: A lease was lost while the body ran.
    """
    if not await ledger.take_lease(key, item.token, lease=lease):
        yield False
        return
    body = asyncio.current_task()
    lost: list[LedgerError] = []

    async def heartbeat() -> None:
        last = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(lease / 3)
            try:
                await ledger.extend(item, token=item.token, lease=lease, keys=[key])
                last = asyncio.get_running_loop().time()
            except LedgerError as error:
                gone = isinstance(error, LeaseLost)
                if not gone and asyncio.get_running_loop().time() - last < lease * 2 / 3:
                    continue
                lost.append(error)
                log.warning("lease.lost", item=item.id, stage=item.stage, error=str(error))
                if body is not None:
                    body.cancel()
                return

    beating = asyncio.create_task(heartbeat())
    try:
        yield True
    except asyncio.CancelledError:
        if lost:
            raise LeaseLost(f"The lease of {item.id} was lost while it ran.") from lost[0]
        raise
    finally:
        beating.cancel()
        await ledger.release_lease(key, item.token)
