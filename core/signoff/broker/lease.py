"""Leases that are kept alive while work is done, and that end the work when they are lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from signoff.broker.change import Change, Item
from signoff.broker.ledger import Ledger
from signoff.core.errors import LeaseLost, LedgerError

log = structlog.get_logger(__name__)


def session_key(app: str, user: str, session: str) -> str:
    """Return the lease key of an ADK session: whoever holds it alone runs the session."""
    return f"lease:{app}\0{user}\0{session}"


@dataclass(slots=True)
class Hold:
    """An item and a lease key that are held under one token.

    Attributes:
        ledger: Where.
        item: The item.
        key: The lease key.
        ending: Whether a commit is under way that gives both back.
        ended: Whether both were given back.
    """

    ledger: Ledger
    item: Item
    key: str
    ending: bool = False
    ended: bool = False

    def fence(self, change: Change) -> Change:
        """Add to a change the condition that the key is still ours."""
        return change.fence(self.key, self.item.token)

    async def end(self, change: Change) -> None:
        """Commit the last change, which acknowledges the item or puts it back, and the key with it.

        Raises:
            Conflict, LeaseLost, LedgerUnavailable: See `Ledger.commit`; the hold goes on.
        """
        self.ending = True
        try:
            await self.ledger.commit(change.fence(self.key, self.item.token, give_back=True))
            self.ended = True
        finally:
            self.ending = False


@asynccontextmanager
async def held(
    ledger: Ledger, item: Item, key: str, *, lease: float, alive_at: float
) -> AsyncIterator[Hold]:
    """Keep an item and a lease key alive that were taken under one token.

    A heartbeat prolongs both every third of the lease; if one of them is lost, the body is
    cancelled, because somebody else is doing the work by then.

    Args:
        ledger: The ledger.
        item: The item.
        key: The lease key.
        lease: For how many seconds both are held after each beat.
        alive_at: From when on they were held so long, by the loop's clock.

    Raises:
        LeaseLost: One of the two was lost while the body ran. Whatever the body made of its
            cancellation, this is what comes out.
    """
    hold = Hold(ledger, item, key)
    body = asyncio.current_task()
    if body is None:
        raise RuntimeError("held() needs a task to cancel.")
    cancelled_before = body.cancelling()
    beating = asyncio.create_task(_beat(hold, lease=lease, alive_at=alive_at, body=body))
    try:
        yield hold
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
        if not hold.ended:
            await _release(ledger, key, item.token)


async def _beat(
    hold: Hold, *, lease: float, alive_at: float, body: asyncio.Task[Any]
) -> LedgerError:
    """Prolong until a lease is lost or must be taken for lost; then cancel the body."""
    loop, item = asyncio.get_running_loop(), hold.item
    while True:
        give_up_at = alive_at + lease * 0.9
        await asyncio.sleep(min(lease / 3, max(give_up_at - loop.time(), 0)))
        sent_at = loop.time()
        try:
            # A Redis that does not answer must not let the body work on into somebody else's lease.
            async with asyncio.timeout_at(give_up_at):
                await hold.ledger.extend(item, token=item.token, lease=lease, keys=[hold.key])
        except (LedgerError, TimeoutError) as error:
            if not isinstance(error, LeaseLost) and loop.time() < give_up_at:
                continue
            if isinstance(error, LeaseLost) and (hold.ending or hold.ended):
                # We have given it back ourselves, or the commit that tries to will say so.
                alive_at = sent_at
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
