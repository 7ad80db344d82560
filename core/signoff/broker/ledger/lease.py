"""Leases that are prolonged during work, and cancel the work when they are lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog

from signoff.broker.ledger.change import Change, Item
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.monitoring import metrics
from signoff.core.base.errors import LeaseLost, LedgerError

log = structlog.get_logger(__name__)

_GIVE_UP = 0.9
"""The part of a lease after which it must be assumed lost if no beat has prolonged it."""


def session_key(app: str, user: str, session: str) -> str:
    """Return the lease key of an ADK session, which only the holder of the lease runs."""
    return f"lease:{app}\0{user}\0{session}"


@dataclass(slots=True)
class KeyLease:
    """A lease key that is held under a token.

    Attributes:
        ledger: The ledger.
        key: The lease key.
        token: The token.
        used: Whether a change has got the condition that it is held.
        ending: Whether a commit that releases it is under way.
        ended: Whether it was released.
    """

    ledger: Ledger
    key: str
    token: str
    used: bool = field(default=False, kw_only=True)
    ending: bool = field(default=False, kw_only=True)
    ended: bool = field(default=False, kw_only=True)

    @property
    def leased(self) -> Item | None:
        """The item that is held with it, if there is one."""
        return None

    @property
    def name(self) -> str:
        """What is held, for messages."""
        return self.leased.id if self.leased else self.key

    def fence(self, change: Change) -> Change:
        """Add to a change the condition that the key is still ours."""
        self.used = True
        return change.fence(self.key, self.token)


@dataclass(slots=True)
class ItemLease(KeyLease):
    """A lease key and an item that are held under one token.

    Attributes:
        item: The item.
    """

    item: Item

    @property
    def leased(self) -> Item | None:
        """The item."""
        return self.item

    async def end(self, change: Change) -> None:
        """Commit the last change, which acknowledges or puts back the item, and release the key.

        Raises:
            Conflict, LeaseLost, LedgerUnavailable: See `Ledger.commit`; the leases are kept.
        """
        self.ending = True
        try:
            await self.ledger.commit(change.fence(self.key, self.token, give_back=True))
            self.ended = True
        finally:
            self.ending = False


HoldT = TypeVar("HoldT", bound=KeyLease)


def held(
    ledger: Ledger, item: Item, key: str, *, lease: float, alive_at: float
) -> AbstractAsyncContextManager[ItemLease]:
    """Prolong the leases of an item and a lease key that were taken under one token.

    A heartbeat prolongs both after each third of the lease. If one of them is lost, the body is
    cancelled, because another process may do the work by then.

    Args:
        ledger: The ledger.
        item: The item.
        key: The lease key.
        lease: How many seconds both are held after each beat.
        alive_at: When the leases started, by the clock of the event loop.

    Raises:
        LeaseLost: One of the two was lost while the body ran, however the body reacted to its
            cancellation.
    """
    return _holding(ItemLease(ledger, key, item.token, item), lease=lease, alive_at=alive_at)


def kept(
    ledger: Ledger, key: str, token: str, *, lease: float, alive_at: float
) -> AbstractAsyncContextManager[KeyLease]:
    """Prolong a lease key that was taken under a token; otherwise the same as `held`."""
    return _holding(KeyLease(ledger, key, token), lease=lease, alive_at=alive_at)


@asynccontextmanager
async def _holding(hold: HoldT, *, lease: float, alive_at: float) -> AsyncIterator[HoldT]:
    body = asyncio.current_task()
    if body is None:
        raise RuntimeError("a lease needs a task to cancel.")
    cancelled_before = body.cancelling()
    beating = list[asyncio.Task[LedgerError]]()

    def begin() -> None:
        beat = _beat(hold, lease=lease, alive_at=alive_at, body=body)
        beating.append(asyncio.create_task(beat))

    # Most bodies end before the first beat, and a timer costs a fifth of a task.
    first = asyncio.get_running_loop().call_later(next_beat_in(lease, alive_at), begin)
    try:
        yield hold
    except BaseException:
        lost = _loss(beating)
        # As in asyncio.timeout: only our own cancellation is undone, any other one propagates.
        if lost is None or body.uncancel() > cancelled_before:
            raise
        raise LeaseLost(f"The lease of {hold.name} was lost while it ran.") from lost
    else:
        if (lost := _loss(beating)) is not None:
            body.uncancel()
            raise LeaseLost(f"The lease of {hold.name} was lost while it ran.") from lost
    finally:
        first.cancel()
        for beat in beating:
            beat.cancel()
            await asyncio.wait([beat])
        if not hold.ended:
            await _release(hold)


async def _beat(
    hold: KeyLease, *, lease: float, alive_at: float, body: asyncio.Task[Any]
) -> LedgerError:
    """Prolong until a lease is lost or must be assumed lost; then cancel the body."""
    loop, item = asyncio.get_running_loop(), hold.leased
    stage = item.stage if item else ""
    while True:
        give_up_at, sent_at = alive_at + lease * _GIVE_UP, loop.time()
        try:
            # If Redis does not answer, the body must stop before another process gets the lease.
            async with asyncio.timeout_at(give_up_at):
                await hold.ledger.extend(item, token=hold.token, lease=lease, keys=[hold.key])
            alive_at = sent_at
        except (LedgerError, TimeoutError) as error:
            lost = isinstance(error, LeaseLost)
            if lost and (hold.ending or hold.ended):
                # It was released by us, or the commit that releases it will report the loss.
                alive_at = sent_at
            elif lost or loop.time() >= give_up_at:
                metrics.record(metrics.LEASES_LOST)
                log.warning("lease.lost", item=hold.name, stage=stage, error=str(error))
                body.cancel()
                return (
                    error if isinstance(error, LedgerError) else LeaseLost("Redis did not answer.")
                )
        await asyncio.sleep(next_beat_in(lease, alive_at))


def next_beat_in(lease: float, alive_at: float) -> float:
    """Return the seconds until the next beat."""
    give_up_in = alive_at + lease * _GIVE_UP - asyncio.get_running_loop().time()
    return min(lease / 3, max(give_up_in, 0))


def _loss(beating: Iterable[asyncio.Task[LedgerError]]) -> LedgerError | None:
    ended = (beat for beat in beating if beat.done() and not beat.cancelled())
    return next((beat.result() for beat in ended), None)


async def _release(hold: KeyLease) -> None:
    # The body is done: a key that cannot be released now will expire.
    with contextlib.suppress(LedgerError):
        await hold.ledger.release_lease(hold.key, hold.token)
