"""Draining the outbox of a stage: commit the items one by one, and give up visibly."""

from __future__ import annotations

import asyncio
import random
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import structlog

from signoff.broker.ledger.change import Change, Item
from signoff.broker.ledger.ledger import Ledger
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
"""Seconds for which items are leased. The items of a dead process wait no longer than that."""

MOST_ATTEMPTS: Final = 13
"""The most attempts; with `backoff`, they take about an hour."""

_ROUNDS: Final = 20
_POSTED_AT_ONCE: Final = 8
MOST_LOCAL_BATCHES: Final = 2
"""How many batches of a stage a process does at once after routing; more wait in the outbox."""

Worker = Callable[[Sequence[Item]], Awaitable[None]]
"""Does the work of leased items. Each is acknowledged, put back, or left until its lease ends."""

Build = Callable[[Item, Approval, datetime], Change]
"""Makes the change that does and acknowledges one item, from the approval as it stands."""

GiveUp = Callable[[Item, Approval | None, str, datetime], Change]
"""Makes the change that acknowledges an item which failed for the last time."""


def backoff(attempts: int) -> float:
    """Return the seconds to wait after this many attempts: 5, 10, 20, ... 600.

    They vary by 20 %, so that items that failed together are not all tried again together.
    """
    return float(min(5 * 2 ** (max(attempts, 1) - 1), 600)) * random.uniform(0.8, 1.2)  # noqa: S311 -- no secret


async def drain(ledger: Ledger, stage: str, work: Worker) -> int:
    """Work until nothing waits, and return how many items there were.

    Raises:
        LedgerUnavailable: Redis cannot be reached. Leased items come again when their lease ends.
    """
    count, opening = 0, True
    while True:
        claim = await ledger.claim(stage, limit=BATCH, lease=LEASE, opening=opening)
        if not claim.items:
            return count
        async with renewed_leases(ledger, claim.items, lease=LEASE):
            await work(claim.items)
        count, opening = count + len(claim.items), False


class StageWork(ABC):
    """The work of one stage: `work` does leased items, and `drain` all that wait."""

    def __init__(self, ledger: Ledger, stage: str) -> None:
        self._ledger = ledger
        self._stage = stage

    @abstractmethod
    async def work(self, items: Sequence[Item]) -> None:
        """Do the work of leased items; see `Worker`."""

    async def drain(self) -> int:
        """Work until nothing waits, and return how many items there were.

        Raises:
            LedgerUnavailable: Redis cannot be reached. Leased items come again later.
        """
        return await drain(self._ledger, self._stage, self.work)


@asynccontextmanager
async def renewed_leases(
    ledger: Ledger, items: Sequence[Item], *, lease: float
) -> AsyncIterator[None]:
    """Renew the leases of items while the body works on them.

    The lease of an acknowledged item is not renewed. A lost lease is detected when the item is
    committed.
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


class LocalWork:
    """Does work in this process as soon as it is committed to the outboxes of some stages.

    The items are in the outbox, leased, before the work begins: if this process dies, others get
    them when the lease ends. The work needs no doorbell, and its items are not read again.
    """

    def __init__(self, ledger: Ledger, workers: Mapping[str, Worker]) -> None:
        self._ledger = ledger
        self._workers = workers
        self._under_way: dict[str, set[asyncio.Task[None]]] = {one: set() for one in workers}

    def lease(self, changes: Iterable[Change]) -> None:
        """Request leases for the work that changes add to these stages, unless they are busy."""
        free = [one for one, tasks in self._under_way.items() if len(tasks) < MOST_LOCAL_BATCHES]
        token = secrets.token_hex(8)
        for change in changes:
            change.lease(free, token, lease=LEASE)

    def take(self, items: Iterable[Item]) -> None:
        """Begin leased work."""
        by_stage: dict[str, list[Item]] = {}
        for item in items:
            by_stage.setdefault(item.stage, []).append(item)
        for stage, batch in by_stage.items():
            tasks = self._under_way[stage]
            task = asyncio.create_task(self._do(stage, batch), name=f"local {stage}")
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _do(self, stage: str, items: Sequence[Item]) -> None:
        try:
            async with renewed_leases(self._ledger, items, lease=LEASE):
                await self._workers[stage](items)
        except LedgerError as error:
            log.warning("stage.ledger_unavailable", stage=stage, error=str(error))
        except Exception:
            # The items come again when their lease ends, as in `drain`.
            log.exception("stage.broken", stage=stage)

    @asynccontextmanager
    async def finishing(self) -> AsyncIterator[None]:
        """After the body, wait for the work that has begun."""
        try:
            yield
        finally:
            await asyncio.gather(*(one for some in self._under_way.values() for one in some))


async def read_each(
    ledger: Ledger, ids: Sequence[str]
) -> tuple[dict[str, Approval | Exception], datetime]:
    """Return approvals by id, and the time; for an unreadable approval, its error.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    wanted = list(dict.fromkeys(ids))
    found: dict[str, Approval | Exception] = {}
    records, now = await ledger.store.read_now([f"approval:{one}" for one in wanted])
    for approval_id, record in zip(wanted, records, strict=True):
        if record is None:
            found[approval_id] = ApprovalNotFound(approval_id)
            continue
        try:
            # A batch is read again when it is committed, so it is kept parsed.
            found[approval_id] = ledger.recent.approval(approval_id, record)
        except RecordUnreadable as error:
            found[approval_id] = error
    return found, now


def legible(approval: Approval | Exception) -> Approval:
    """Return an approval from `read_each`, or raise the error in its place."""
    if isinstance(approval, Exception):
        raise approval
    return approval


async def commit_each(
    ledger: Ledger,
    items: Sequence[Item],
    build: Build,
    give_up: GiveUp,
    *,
    local: LocalWork | None = None,
) -> None:
    """Build and commit a change for each item about an approval, in few round trips.

    An item whose commit conflicts with another one is read and built again. An item that cannot
    be built is put back, and given up after `MOST_ATTEMPTS`; the others are committed. An item
    whose lease was lost is left to its new owner.

    Args:
        ledger: The ledger.
        items: Leased items with the id of an approval in their bodies.
        build: Makes the change, including its acknowledgement.
        give_up: Makes the last change, including its acknowledgement.
        local: Does the work that the changes add to its stages, in this process.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    left = list(items)
    # Several changes of one approval take a round each.
    for _ in range(_ROUNDS + len(left)):
        if not left:
            return
        ids = [approval_of(item) for item in left]
        approvals, now = await read_each(ledger, ids)
        changes, written = [], set[str]()
        this_round, later = [], []
        for item, approval_id in zip(left, ids, strict=True):
            if approval_id in written:
                # It would be built on what the other change replaces, and always conflict.
                later.append(item)
                continue
            change = _built(item, approvals[approval_id], build=build, give_up=give_up, now=now)
            if change.writes_approval(approval_id):
                written.add(approval_id)
            this_round.append(item)
            changes.append(change)
        if local is not None:
            local.lease(changes)
        problems = await ledger.commit_together(changes)
        if local is not None:
            done = [one for one, bad in zip(changes, problems, strict=True) if bad is None]
            # The local work reads them next, and they are not parsed for it.
            ledger.recent.keep(record for change in done for record in change.approvals)
            local.take([item for change in done for item in change.leased])
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
    """Post each leased item to a server, a few at a time, and commit each separately.

    `post` makes the change that acknowledges an item or puts it back.

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
                # The item comes again when its lease ends.
                log.info("outbox.lease_lost", stage=item.stage, item=item.id, error=str(error))

    # All posts end before an error is raised: another server has seen each of them.
    results = await asyncio.gather(*map(one, items), return_exceptions=True)
    for error in filter(None, results):
        raise error


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
    """Add to a change that an item becomes a dead letter, which operators can look at."""
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
) -> Change:
    try:
        return build(item, legible(approval), now)
    except Exception as error:  # noqa: BLE001 -- one bad item must not stop the others
        problem = f"{type(error).__name__}: {error}"
        if item.attempts < MOST_ATTEMPTS and not isinstance(error, ApprovalNotFound):
            log.warning("outbox.failed", stage=item.stage, item=item.id, error=problem)
            return Change().retry(item, after=backoff(item.attempts))
        return give_up(item, approval if isinstance(approval, Approval) else None, problem, now)


def _disturbed(item: Item, problem: LedgerError | None) -> bool:
    if isinstance(problem, LeaseLost):
        log.info("outbox.lease_lost", stage=item.stage, item=item.id)
    return isinstance(problem, Conflict)
