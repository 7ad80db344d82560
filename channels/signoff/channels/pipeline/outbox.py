"""Working through a stage's outbox: drain it, commit the items one by one, give up visibly."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import lru_cache
from typing import Final

import structlog

from signoff.broker.ledger.change import Change, Item
from signoff.broker.ledger.ledger import Ledger, read_approval
from signoff.broker.work import Work
from signoff.core.approvals.approval import Approval
from signoff.core.base.errors import (
    ApprovalNotFound,
    Conflict,
    LeaseLost,
    LedgerError,
    LedgerUnavailable,
    RecordUnreadable,
)

log = structlog.get_logger(__name__)

BATCH: Final = 100
LEASE: Final = 10.0
"""Seconds for which items are somebody's; what a dead process held waits no longer than that."""

MOST_ATTEMPTS: Final = 13
"""With `backoff`, about an hour."""

_ROUNDS: Final = 20
_POSTED_AT_ONCE: Final = 8

_read: Final = lru_cache(maxsize=4 * BATCH)(read_approval)
"""What the stages read comes several times: a batch is read again when it is committed."""

Worker = Callable[[Sequence[Item]], Awaitable[None]]
"""Does the work of leased items; each is acknowledged, put back, or left to its lease."""

Build = Callable[[Item, Approval, datetime], Change]
"""Makes the change that does and acknowledges one item, from the approval as it stands."""

GiveUp = Callable[[Item, Approval | None, str, datetime], Change]
"""Makes the change that acknowledges an item which failed for the last time."""


def backoff(attempts: int) -> float:
    """Return how many seconds to wait after so many attempts: 5, 10, 20, ... 600.

    Give or take 20 %, so that what failed together does not come back together.
    """
    return float(min(5 * 2 ** (max(attempts, 1) - 1), 600)) * random.uniform(0.8, 1.2)  # noqa: S311 -- no secret


async def drain(ledger: Ledger, stage: str, work: Worker, *, lease: float = LEASE) -> int:
    """Work until a claim comes back empty, and return how many items there were.

    Raises:
        LedgerUnavailable: Redis cannot be reached; leased items are handed out again.
    """
    count, opening = 0, True
    while True:
        claim = await ledger.claim(stage, limit=BATCH, lease=lease, opening=opening)
        if not claim.items:
            return count
        async with kept(ledger, claim.items, lease=lease):
            await work(claim.items)
        count, opening = count + len(claim.items), False


@asynccontextmanager
async def kept(ledger: Ledger, items: Sequence[Item], *, lease: float) -> AsyncIterator[None]:
    """Prolong the leases of items while the body works on them.

    What is acknowledged on the way is no longer ours and is not prolonged; a lease that was lost
    shows when the item is committed.
    """

    async def heartbeat() -> None:
        mine = list(items)
        while mine:
            await asyncio.sleep(lease / 3)
            for item in tuple(mine):
                try:
                    await ledger.extend(item, token=item.token, lease=lease, keys=())
                except LeaseLost:
                    mine.remove(item)
                except LedgerUnavailable as error:
                    log.warning("outbox.heartbeat_failed", stage=item.stage, error=str(error))
                    break

    beating = asyncio.create_task(heartbeat())
    try:
        yield
    finally:
        beating.cancel()


async def read_each(ledger: Ledger, ids: Sequence[str]) -> dict[str, Approval | Exception]:
    """Return approvals by id; one that is missing or cannot be read stands as its error.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    wanted = list(dict.fromkeys(ids))
    found: dict[str, Approval | Exception] = {}
    records = await ledger.store.read([f"approval:{one}" for one in wanted])
    for approval_id, record in zip(wanted, records, strict=True):
        if record is None:
            found[approval_id] = ApprovalNotFound(approval_id)
            continue
        try:
            found[approval_id] = _read(*record)
        except ValueError as error:
            found[approval_id] = error
    return found


def legible(approval: Approval | Exception) -> Approval:
    """Return an approval that `read_each` brought, or raise the error that stands in its place."""
    if isinstance(approval, Exception):
        raise approval
    return approval


async def commit_each(
    ledger: Ledger,
    items: Sequence[Item],
    build: Build,
    give_up: GiveUp,
    *,
    most: int = MOST_ATTEMPTS,
) -> None:
    """Build and commit a change for each item about an approval, in as few round trips as can be.

    An item that another commit disturbed is read and built again. An item whose building fails is
    put back, and given up after `most` attempts; it never keeps the others from their commits. One
    whose lease was lost is somebody else's by now.

    Args:
        ledger: The ledger.
        items: Leased items with the id of an approval in their bodies.
        build: Makes the change, its acknowledgement included.
        give_up: Makes the last change, its acknowledgement included.
        most: How many attempts an item has.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    left = list(items)
    # Several items about one approval take a round each.
    for _ in range(_ROUNDS + len(left)):
        if not left:
            return
        ids = [approval_of(item) for item in left]
        approvals = await read_each(ledger, ids)
        now = await ledger.now()
        changes, taken = [], set[str]()
        this_round, later = [], []
        for item, approval_id in zip(left, ids, strict=True):
            if approval_id in taken:
                # Two changes of one approval in one round would be sure to collide.
                later.append(item)
                continue
            taken.add(approval_id)
            this_round.append(item)
            changes.append(
                _built(
                    item,
                    approvals[approval_id],
                    build=build,
                    give_up=give_up,
                    now=now,
                    most=most,
                )
            )
        problems = await ledger.commit_together(changes)
        left = [
            item
            for item, problem in zip(this_round, problems, strict=True)
            if _disturbed(item, problem)
        ] + later
    for item in left:
        log.warning("outbox.disturbed", stage=item.stage, item=item.id)


async def post_each(
    ledger: Ledger, items: Sequence[Item], post: Callable[[Item], Awaitable[Change]]
) -> None:
    """Post each item to a server, a few at a time, and commit each separately.

    Args:
        ledger: The ledger.
        items: Leased items.
        post: Posts one, and makes the change that acknowledges it or puts it back.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    window = asyncio.Semaphore(_POSTED_AT_ONCE)

    async def one(item: Item) -> None:
        async with window:
            change = await post(item)
            try:
                await ledger.commit(change)
            except (Conflict, LeaseLost) as error:
                # It comes again by its lease.
                log.info("outbox.lease_lost", stage=item.stage, item=item.id, error=str(error))

    async with asyncio.TaskGroup() as group:
        for item in items:
            group.create_task(one(item))


def approval_of(item: Item) -> str:
    """Return the id of the approval that an item is about, "" if its body does not say."""
    return str(item.body.get("approval", ""))


def work_of(item: Item) -> Work | None:
    """Return the work of an item, None if this version cannot read it."""
    try:
        return item.work
    except RecordUnreadable:
        return None


def dead_letter(change: Change, item: Item, problem: str) -> Change:
    """Add to a change that an item is taken out for good, and kept where it can be looked at."""
    body = {name: value for name, value in item.body.items() if name != "token"}
    log.error(
        "outbox.dead_letter", stage=item.stage, item=item.id, attempts=item.attempts, error=problem
    )
    record = {"stage": item.stage, "id": item.id, "body": body, "problem": problem}
    return change.put_dead(item.stage, f"{item.id}:{item.token}", record).ack(item)


def _built(
    item: Item,
    approval: Approval | Exception,
    *,
    build: Build,
    give_up: GiveUp,
    now: datetime,
    most: int,
) -> Change:
    try:
        return build(item, legible(approval), now)
    except Exception as error:  # noqa: BLE001 -- one bad item must not stop the others
        problem = f"{type(error).__name__}: {error}"
        if item.attempts < most and not isinstance(error, ApprovalNotFound):
            log.warning("outbox.failed", stage=item.stage, item=item.id, error=problem)
            return Change().retry(item, after=backoff(item.attempts))
        return give_up(item, approval if isinstance(approval, Approval) else None, problem, now)


def _disturbed(item: Item, problem: LedgerError | None) -> bool:
    if isinstance(problem, LeaseLost):
        log.info("outbox.lease_lost", stage=item.stage, item=item.id)
    return isinstance(problem, Conflict)
