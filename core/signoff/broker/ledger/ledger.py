"""The ledger: approvals and runs, committed atomically, and the outboxes of the stages."""

from __future__ import annotations

import asyncio
import json
import math
import random
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import structlog

from signoff.broker.ledger import audit
from signoff.broker.ledger.change import (
    UNREACHABLE,
    Address,
    Change,
    Item,
    groups,
    joined,
    proposal_key,
)
from signoff.broker.ledger.records import (
    Recent,
    legible_approval,
    legible_run,
    read_approval,
    read_event,
    read_run,
)
from signoff.broker.ledger.store import Store, parse_record
from signoff.broker.monitoring import metrics
from signoff.core.approvals import deliveries
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import Event
from signoff.core.approvals.parts import Origin
from signoff.core.approvals.run import Run
from signoff.core.base.errors import (
    ApprovalNotFound,
    Conflict,
    Frozen,
    LeaseLost,
    LedgerError,
    LedgerUnavailable,
    RecordUnreadable,
    RunNotFound,
    SignoffError,
)
from signoff.core.base.freezes import Freeze

if TYPE_CHECKING:
    # Only processes that sign or verify need its JOSE library.
    from signoff.broker.receipts import Receipts

__all__ = [
    "Bell",
    "Current",
    "LeasedBatch",
    "Ledger",
    "Look",
    "SilentBell",
    "read_approval",
    "read_run",
]

T = TypeVar("T")

log = structlog.get_logger(__name__)

_ATTEMPTS = 50
_INSISTENCE = 30
_INSIST_AGAIN = 1.0

_LOOK = 1_000
"""How many waiting approvals to check for records of the last release."""

_RESULTS = {"lease": "lease_lost"}
"""The names in the metrics of outcomes for which the commit script has a shorter word."""


class Bell(Protocol):
    """Tells the workers of a stage that there is work. A lost ring only delays it."""

    async def ring(self, *stages: str) -> None:
        """Ring once for each of these stages; never raises."""


class SilentBell:
    """Rings nothing, for callers that drain the stages themselves."""

    async def ring(self, *stages: str) -> None:
        """Do nothing."""


class LeasedBatch(NamedTuple):
    """The result of a claim: the leased items, and how many more wait."""

    items: tuple[Item, ...]
    waiting: int


class Current(NamedTuple):
    """An approval, its run and the present time, read at the same moment."""

    approval: Approval
    run: Run
    now: datetime


class Look(NamedTuple):
    """The result of `Ledger.look`.

    Attributes:
        due: Whether approvals are due.
        rung: The stages whose bells were rung.
        wait: Seconds until something else becomes due; infinite if nothing will.
    """

    due: bool
    rung: list[str]
    wait: float


class Ledger:
    """The truth about all approvals and runs.

    Args:
        store: The store that holds it.
        bell: Rung after each commit that puts work into a stage.
        receipts: Signs decisions, and verifies them before calls run; None does neither.

    Attributes:
        active: Set whenever this process commits or claims something, because something else may
            then become due earlier.
        announcer: Addresses messages about milestones; None leaves it to the stage `route`.
    """

    def __init__(
        self, store: Store, bell: Bell | None = None, *, receipts: Receipts | None = None
    ) -> None:
        self.store = store
        self.receipts = receipts
        self.recent = Recent()
        self.bell: Bell = bell or SilentBell()
        self.active = asyncio.Event()
        self.announcer: Address | None = None

    async def close(self) -> None:
        """Close all connections."""
        await self.store.close()

    async def now(self) -> datetime:
        """Return the present by the ledger's clock (UTC), which all machines share."""
        return await self.store.now()

    # -- reading -------------------------------------------------------------------------------

    async def approval(self, approval_id: str) -> Approval:
        """Return one approval.

        Raises:
            ApprovalNotFound: No approval has this id.
        """
        return (await self.approvals([approval_id]))[0]

    async def approval_now(self, approval_id: str) -> tuple[Approval, datetime]:
        """Return one approval and the present, in one round trip.

        Raises:
            ApprovalNotFound: No approval has this id.
        """
        (record,), now = await self.store.read_now([f"approval:{approval_id}"])
        if record is None:
            raise ApprovalNotFound(approval_id)
        return legible_approval(approval_id, record), now

    async def approvals(self, ids: Sequence[str]) -> list[Approval]:
        """Return approvals in the order of their ids.

        Raises:
            ApprovalNotFound: One of them does not exist.
            RecordUnreadable: This version cannot read one of them.
        """
        return await self._all("approval", ids, legible_approval, ApprovalNotFound)

    async def run(self, run_id: str) -> Run:
        """Return one run.

        Raises:
            RunNotFound: No run has this id.
        """
        return (await self.runs([run_id]))[0]

    async def runs(self, ids: Sequence[str]) -> list[Run]:
        """Return runs in the order of their ids.

        Raises:
            RunNotFound: One of them does not exist.
            RecordUnreadable: This version cannot read one of them.
        """
        return await self._all("run", ids, legible_run, RunNotFound)

    async def current(self, approval_id: str) -> Current:
        """Return an approval, its run and the present time, read at the same moment.

        If they were read one after the other, a commit in between could show a run that does not
        wait for its approval. A retry could not tell this from a broken record.

        Raises:
            ApprovalNotFound, RunNotFound: One of them does not exist.
            RecordUnreadable: This version cannot read one of them.
        """
        (found,) = await self.current_all([approval_id])
        if isinstance(found, SignoffError):
            raise found
        return found

    async def current_all(self, ids: Sequence[str]) -> list[Current | SignoffError]:
        """Return the result of `current` for each id, or its error, all read at the same moment.

        Args:
            ids: At most a few hundred, because Redis serves no other client meanwhile.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        seconds, micros, *records = await self.store.script("pair", *ids)
        now = self.store.moment(seconds, micros)
        found: list[Current | SignoffError] = []
        pairs = zip(ids, records[::2], records[1::2], strict=True)
        for approval_id, approval, run in pairs:
            try:
                found.append(await self._current(approval_id, approval, run, now))
            except LedgerUnavailable:
                raise
            except SignoffError as error:
                found.append(error)
            except ValueError as error:
                found.append(RecordUnreadable(f"approval:{approval_id}", str(error)))
        return found

    async def pending(self, *, limit: int | None = None) -> list[Approval]:
        """Return the pending approvals that can be read, the next due first."""
        return await self.readable(await self.store.members("waiting", limit=limit))

    async def unreachable(self) -> list[Approval]:
        """Return the pending approvals for which nobody can be asked, the oldest first.

        Approvals that the last release wrote are not in the index until a rebuild. For these, the
        approvals that are due next are checked as well.
        """
        ids = await self.store.members(UNREACHABLE)
        known = set(ids)
        due = await self.store.members("waiting", limit=_LOOK)
        found = await self.readable(ids)
        found += await self.readable(
            [one for one in due if one not in known], may_be=_is_in_trouble
        )
        return [one for one in found if deliveries.is_stranded(one)]

    async def inbox(self, person: str) -> list[Approval]:
        """Return the approvals that wait for a person, the oldest first."""
        return await self.readable(await self.store.members(f"inbox:{person}"))

    async def decided(self, *, limit: int | None = None) -> list[Approval]:
        """Return the approvals that have ended, the latest first."""
        ids = await self.store.members("decided", newest_first=True, limit=limit)
        return await self.readable(ids)

    async def recent_runs(self) -> list[Run]:
        """Return the runs, the latest first."""
        return await self._existing_runs(await self.store.members("runs", newest_first=True))

    async def session_runs(self, app: str, user: str, session: str) -> list[Run]:
        """Return the runs of one ADK session."""
        return await self._existing_runs(await self.session_run_ids(app, user, session))

    async def user_runs(self, app: str, user: str) -> list[Run]:
        """Return the runs of all ADK sessions that a user has in an app."""
        return await self._existing_runs(await self._run_ids(f"{app}\0{user}\0"))

    async def session_run_ids(self, app: str, user: str, session: str) -> list[str]:
        """Return the ids of the runs of one ADK session, also of those that have been archived."""
        return await self._run_ids(f"{app}\0{user}\0{session}\0")

    async def _run_ids(self, start: str) -> list[str]:
        members = await self.store.prefixed("sessions", start)
        return [member.rpartition("\0")[2] for member in members]

    async def _existing_runs(self, ids: Sequence[str]) -> list[Run]:
        """Return runs in the order of their ids, without those that have been archived."""
        records = await self.store.read([f"run:{one}" for one in ids])
        return [
            legible_run(one, record)
            for one, record in zip(ids, records, strict=True)
            if record is not None
        ]

    async def proposer(self, origin: Origin, digest: str) -> Approval | None:
        """Return the latest rejection that proposed this call, if the proposal was not used yet."""
        members = await self.store.prefixed("proposals", proposal_key(origin, digest))
        found = await self.readable([member.rpartition("\0")[2] for member in members])
        return max(found, key=lambda one: one.opened_at, default=None)

    async def raw(self, key: str) -> tuple[int, str] | None:
        """Return the version and data of any other record."""
        return (await self.store.read([key]))[0]

    # -- writing -------------------------------------------------------------------------------

    async def commit(self, change: Change) -> None:
        """Commit a change as a whole, or not at all.

        Raises:
            Conflict: A record has changed since it was read.
            LeaseLost: Another process holds an item or a lease key.
            Frozen: A tool that it starts is frozen.
            LedgerUnavailable: Redis cannot be reached. The change may have been carried out;
                sending it again is safe.
        """
        (problem,) = await self.commit_all([change])
        if problem is not None:
            raise problem

    async def commit_all(self, changes: Sequence[Change]) -> list[LedgerError | None]:
        """Commit several changes in one round trip, each of them atomically.

        Returns:
            For each change None, or the `Conflict`, `LeaseLost` or `Frozen` that prevented it.
        """
        if not changes:
            return []
        self._address(changes)
        now = self.store.now_ms()
        replies = await self.store.scripts("commit", [one.arguments(now) for one in changes])
        problems: list[LedgerError | None] = []
        ring: dict[str, None] = {}
        for change, (outcome, *rest) in zip(changes, replies, strict=True):
            metrics.record(metrics.COMMITS, _RESULTS.get(outcome, outcome))
            if outcome == "ok":
                self.active.set()
                metrics.record_all(change.samples)
                problems.append(None)
                stages, unleased = rest
                ring.update(dict.fromkeys(stages))
                change.refuse_leases(unleased)
            elif outcome == "conflict":
                problems.append(Conflict(f"{rest[0]} was changed by another process."))
            elif outcome == "late":
                problems.append(Conflict("The deadline came before the commit."))
            elif outcome == "frozen":
                problems.append(Frozen(Freeze.model_validate_json(rest[0]), rest[1]))
            else:
                metrics.record(metrics.LEASES_LOST)
                problems.append(LeaseLost(f"The lease of {rest[0]} is not ours any more."))
        if ring:
            await self.bell.ring(*ring)
        return problems

    async def commit_together(self, changes: Sequence[Change]) -> list[LedgerError | None]:
        """Commit several changes like `commit_all`, in fewer commits.

        Several changes become one commit. If it is refused, each of them is tried alone after all
        other commits. A change may build on an earlier one; see `Change.upon`.
        """
        self._address(changes)
        together = list(groups(changes))
        problems = await self.commit_all([joined(group) for group in together])
        refused = {at for at, problem in enumerate(problems) if problem and len(together[at]) > 1}
        again = [change for at in sorted(refused) for change in together[at]]
        alone = iter(await self.commit_all(again))
        return [
            next(alone) if at in refused else problems[at]
            for at, group in enumerate(together)
            for _ in group
        ]

    def _address(self, changes: Iterable[Change]) -> None:
        for change in changes:
            change.address(self.announcer)

    async def decide_again(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat an attempt to read, decide and commit until it has no conflict.

        Raises:
            Conflict: There was a conflict at each of many attempts.
        """
        for round_ in range(1, _ATTEMPTS):
            try:
                return await attempt()
            except Conflict:
                # Without jitter, concurrent attempts on one run would collide again and again.
                await asyncio.sleep(random.uniform(0, 0.002 * round_))  # noqa: S311 -- jitter
        return await attempt()

    async def insist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat an attempt for half a minute until Redis is available.

        It is for commits about what cannot be undone: a tool that ends during a failover, which
        takes some seconds, would otherwise be in doubt. A lost lease ends the waiting.

        Raises:
            LedgerUnavailable: Redis has not come back.
        """
        for _ in range(_INSISTENCE):
            try:
                return await attempt()
            except LedgerUnavailable as error:
                log.warning("ledger.unavailable", error=str(error))
                await asyncio.sleep(_INSIST_AGAIN)
        return await attempt()

    def sealed(self, approval: Approval, events: Iterable[Event]) -> Approval:
        """Return an approval, with its receipt if it was just decided; see `Receipts.seal`.

        Raises:
            CannotSign: This process may not decide.
        """
        return approval if self.receipts is None else self.receipts.seal(approval, events)

    # -- outboxes and leases -------------------------------------------------------------------

    async def claim(
        self, stage: str, *, limit: int = 100, lease: float = 60, opening: bool = True
    ) -> LeasedBatch:
        """Lease waiting work of a stage.

        Args:
            stage: The stage.
            limit: The most items to take.
            lease: How many seconds the leases last.
            opening: Whether this is the first claim after a ring. It resets the bell, so that work
                that is added from now on rings again.
        """
        self.active.set()
        token = secrets.token_hex(8)
        waiting, *flat = await self.store.script(
            "claim",
            stage,
            self.store.now_ms(),
            limit,
            int(lease * 1000),
            token,
            "1" if opening else "0",
        )
        items = tuple(
            Item(stage, flat[i], json.loads(flat[i + 2]), int(flat[i + 1]), token)
            for i in range(0, len(flat), 3)
        )
        return LeasedBatch(items, int(waiting))

    async def extend(
        self, item: Item | None, *, token: str, lease: float, keys: Iterable[str]
    ) -> None:
        """Prolong the leases of an item and of lease keys that are held under the same token.

        Raises:
            LeaseLost: Another process holds one of them.
        """
        held = await self.store.script(
            "extend",
            int(lease * 1000),
            token,
            self.store.now_ms(),
            item.stage if item else "",
            item.id if item else "",
            *keys,
        )
        if not held:
            raise LeaseLost("The lease ran out, and another process took the work.")

    async def take_lease(self, key: str, token: str, *, lease: float) -> bool:
        """Take a lease key for so many seconds, unless it is held under another token."""
        return bool(await self.store.script("take", key, token, int(lease * 1000)))

    async def release_lease(self, key: str, token: str) -> None:
        """Release a lease key, if it is still ours."""
        await self.store.script("release", key, token)

    async def due(self, *, limit: int = 100, lease: float = 10) -> list[str]:
        """Claim approvals that are due. Those that stay unchanged are due again after the lease."""
        found = await self.store.script("due", self.store.now_ms(), limit, int(lease * 1000))
        return list(found)

    async def look(self) -> Look:
        """Ring for each stage that has waiting work and was not rung for, or whose ring was lost.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        wait, due, *stages = await self.store.script("overdue", self.store.now_ms())
        if stages:
            await self.bell.ring(*stages)
        return Look(bool(due), list(stages), math.inf if wait < 0 else wait / 1000)

    async def backlog(self) -> dict[str, int]:
        """Return how many items each stage has, including leased ones."""
        async with self.store.translated_client() as client:
            stages = sorted(await client.smembers(self.store.prefix + "stages"))
            async with client.pipeline(transaction=False) as pipe:
                for stage in stages:
                    pipe.zcard(f"{self.store.prefix}outbox:{stage}")
                counts = await pipe.execute()
        return dict(zip(stages, counts, strict=True))

    async def history(self, subject: str) -> list[Event]:
        """Return the events of an approval or a run, the oldest first."""
        trail = audit.about(self.store, await self.run_of(subject))
        events = [read_event(text) async for _, text, _ in trail]
        return [one for one in events if one and subject in {one.approval, one.run}]

    async def run_of(self, subject: str) -> str:
        """Return the id of an approval's run, whose trail has the approval's events.

        Args:
            subject: The id of an approval; any other id is returned unchanged.
        """
        (record,) = await self.store.read([f"approval:{subject}"])
        return subject if record is None else legible_approval(subject, record).origin.run

    # -- inside --------------------------------------------------------------------------------

    async def _current(
        self, approval_id: str, stored: str | None, of_run: str | None, now: datetime
    ) -> Current:
        record, run = parse_record(stored), parse_record(of_run)
        if record is None:
            raise ApprovalNotFound(approval_id)
        approval = legible_approval(approval_id, record)
        run_id = approval.origin.run
        if run is None:
            # The run is gone, or the record has another form and the script did not find the run.
            record, run = await self.store.read([f"approval:{approval_id}", f"run:{run_id}"])
            if record is None or run is None:
                raise RunNotFound(run_id)
            approval = legible_approval(approval_id, record)
        return Current(approval, legible_run(run_id, run), now)

    async def _all(
        self,
        kind: str,
        ids: Sequence[str],
        legible: Callable[[str, tuple[int, str]], T],
        missing: Callable[[str], Exception],
    ) -> list[T]:
        records = await self.store.read([f"{kind}:{one}" for one in ids])
        found = []
        for one, record in zip(ids, records, strict=True):
            if record is None:
                raise missing(one)
            found.append(legible(one, record))
        return found

    async def readable(
        self, ids: Sequence[str], *, may_be: Callable[[str], bool] = bool
    ) -> list[Approval]:
        """Return approvals in the order of their ids, without those that cannot be read.

        Args:
            ids: The ids.
            may_be: Returns whether to read a record, given its text.
        """
        records = await self.store.read([f"approval:{one}" for one in ids])
        wanted = [one if one is not None and may_be(one[1]) else None for one in records]
        return [one for one in all_legible(legible_approval, ids, wanted) if one is not None]


def all_legible(
    legible: Callable[[str, tuple[int, str]], T],
    ids: Iterable[str],
    records: Iterable[tuple[int, str] | None],
) -> Iterator[T | None]:
    """Yield the values of records, None for one that is gone or cannot be read.

    A record that cannot be read is logged and does not affect the others.
    """
    for name, record in zip(ids, records, strict=True):
        try:
            yield None if record is None else legible(name, record)
        except RecordUnreadable as error:
            log.error("ledger.unreadable", record=name, error=str(error))  # noqa: TRY400 -- the message says it all
            yield None


def _is_in_trouble(record: str) -> bool:
    """Return whether a stored approval may have no cards, or a card that did not arrive.

    Fields with default values are not stored.
    """
    return '"asked":' not in record or any(
        f'"{field}":' in record for field in ("problem", "away", "absent")
    )
