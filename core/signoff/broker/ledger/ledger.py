"""The ledger: approvals and runs, committed atomically, and the outboxes of the stages."""

from __future__ import annotations

import asyncio
import json
import random
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import structlog

from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change, Item, groups, joined, proposal_key
from signoff.broker.ledger.records import (
    legible_approval,
    legible_run,
    read_approval,
    read_event,
    read_run,
)
from signoff.broker.ledger.store import Store, parse_record
from signoff.broker.monitoring import metrics
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
    # Its JOSE library is for those alone that sign or verify.
    from signoff.broker.receipts import Receipts

__all__ = ["Bell", "Claim", "Current", "Ledger", "SilentBell", "read_approval", "read_run"]

T = TypeVar("T")

log = structlog.get_logger(__name__)

_INSISTENCE = 30
_INSIST_AGAIN = 1.0

_RESULTS = {"lease": "lease_lost"}
"""What metrics call an outcome of the commit script that says less than they do."""


class Bell(Protocol):
    """Tells the workers of a stage that there is work. Losing a ring costs nothing but time."""

    async def ring(self, stage: str) -> None:
        """Ring once; never raises."""


class SilentBell:
    """Rings nowhere: its user drains the stages."""

    async def ring(self, stage: str) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claim brought: leased items, and how many more wait."""

    items: tuple[Item, ...]
    waiting: int


class Current(NamedTuple):
    """An approval, its run and the present, all of one moment."""

    approval: Approval
    run: Run
    now: datetime


class Ledger:
    """The truth about all approvals and runs.

    Args:
        store: Where it is kept.
        bell: Rung after each commit that put work into a stage.
        receipts: Signs what is decided and verifies what is run; None signs and verifies nothing.
    """

    def __init__(
        self, store: Store, bell: Bell | None = None, *, receipts: Receipts | None = None
    ) -> None:
        self.store = store
        self.receipts = receipts
        self.bell: Bell = bell or SilentBell()

    async def close(self) -> None:
        """Close all connections."""
        await self.store.close()

    async def now(self) -> datetime:
        """Return the present by the ledger's clock (UTC): the one that all machines share."""
        return await self.store.now()

    # -- reading -------------------------------------------------------------------------------

    async def approval(self, approval_id: str) -> Approval:
        """Return one approval.

        Raises:
            ApprovalNotFound: There is none with this id.
        """
        return (await self.approvals([approval_id]))[0]

    async def approval_now(self, approval_id: str) -> tuple[Approval, datetime]:
        """Return one approval and the present, in one round trip.

        Raises:
            ApprovalNotFound: There is none with this id.
        """
        (record,), now = await self.store.read_now([f"approval:{approval_id}"])
        if record is None:
            raise ApprovalNotFound(approval_id)
        return legible_approval(approval_id, record), now

    async def approvals(self, ids: Sequence[str]) -> list[Approval]:
        """Return approvals in the order of their ids.

        Raises:
            ApprovalNotFound: There is none with one of the ids.
            RecordUnreadable: One of them does not hold what this version can read.
        """
        return await self._all("approval", ids, legible_approval, ApprovalNotFound)

    async def run(self, run_id: str) -> Run:
        """Return one run.

        Raises:
            RunNotFound: There is none with this id.
        """
        return (await self.runs([run_id]))[0]

    async def runs(self, ids: Sequence[str]) -> list[Run]:
        """Return runs in the order of their ids.

        Raises:
            RunNotFound: There is none with one of the ids.
            RecordUnreadable: One of them does not hold what this version can read.
        """
        return await self._all("run", ids, legible_run, RunNotFound)

    async def current(self, approval_id: str) -> Current:
        """Return an approval, its run and the present, all of one moment.

        Read one after the other, another commit in between would show a run that does not wait for
        its approval, which no retry could tell from a broken one.

        Raises:
            ApprovalNotFound, RunNotFound: One of them is not there.
            RecordUnreadable: One of them does not hold what this version can read.
        """
        (found,) = await self.current_all([approval_id])
        if isinstance(found, SignoffError):
            raise found
        return found

    async def current_all(self, ids: Sequence[str]) -> list[Current | SignoffError]:
        """Return what `current` does for each id, in one round trip; an error in its place.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        replies = await self.store.scripts("pair", [(one,) for one in ids])
        found: list[Current | SignoffError] = []
        for approval_id, reply in zip(ids, replies, strict=True):
            try:
                found.append(await self._current(approval_id, *reply))
            except LedgerUnavailable:
                raise
            except SignoffError as error:
                found.append(error)
            except ValueError as error:
                found.append(RecordUnreadable(f"approval:{approval_id}", str(error)))
        return found

    async def pending(self, *, limit: int | None = None) -> list[Approval]:
        """Return the approvals that wait and can be read, the next due first."""
        return await self.readable(await self.store.members("waiting", limit=limit))

    async def in_trouble(self) -> list[Approval]:
        """Return the approvals that wait, where a card was not delivered or somebody has gone.

        Of thousands that wait these are few: the records of all others are not parsed.
        """
        ids = await self.store.members("waiting")
        return await self.readable(ids, may_be=_is_in_trouble)

    async def inbox(self, person: str) -> list[Approval]:
        """Return the approvals that wait for one person, the oldest first."""
        return await self.readable(await self.store.members(f"inbox:{person}"))

    async def decided(self, *, limit: int | None = None) -> list[Approval]:
        """Return the approvals that have ended, the latest first."""
        ids = await self.store.members("decided", newest_first=True, limit=limit)
        return await self.readable(ids)

    async def recent_runs(self, *, limit: int | None = None) -> list[Run]:
        """Return the runs, the latest first."""
        ids = await self.store.members("runs", newest_first=True, limit=limit)
        return await self._existing_runs(ids)

    async def session_runs(self, app: str, user: str, session: str) -> list[Run]:
        """Return the runs of one ADK session."""
        return await self._runs_below(f"{app}\0{user}\0{session}\0")

    async def user_runs(self, app: str, user: str) -> list[Run]:
        """Return the runs of all ADK sessions that a user has in an app."""
        return await self._runs_below(f"{app}\0{user}\0")

    async def _runs_below(self, start: str) -> list[Run]:
        members = await self.store.prefixed("sessions", start)
        return await self._existing_runs([member.rpartition("\0")[2] for member in members])

    async def _existing_runs(self, ids: Sequence[str]) -> list[Run]:
        """Return runs in the order of their ids, without those that were archived meanwhile."""
        records = await self.store.read([f"run:{one}" for one in ids])
        return [
            legible_run(one, record)
            for one, record in zip(ids, records, strict=True)
            if record is not None
        ]

    async def proposer(self, origin: Origin, digest: str) -> Approval | None:
        """Return the latest rejection that said it would approve this call, if not taken up yet."""
        members = await self.store.prefixed("proposals", proposal_key(origin, digest))
        found = await self.readable([member.rpartition("\0")[2] for member in members])
        return max(found, key=lambda one: one.opened_at, default=None)

    async def raw(self, key: str) -> tuple[int, str] | None:
        """Return version and data of a record of another kind."""
        return (await self.store.read([key]))[0]

    # -- writing -------------------------------------------------------------------------------

    async def commit(self, change: Change) -> None:
        """Do all of a change, or nothing.

        Raises:
            Conflict: A record is not at the version it was read at.
            LeaseLost: An item or a lease key is held by somebody else.
            Frozen: A tool that it starts is frozen.
            LedgerUnavailable: Redis cannot be reached. The change may have been carried out;
                to send it again is safe.
        """
        (problem,) = await self.commit_all([change])
        if problem is not None:
            raise problem

    async def commit_all(self, changes: Sequence[Change]) -> list[LedgerError | None]:
        """Do several changes in one round trip, each of them atomic.

        Returns:
            For each change None, or the `Conflict`, `LeaseLost` or `Frozen` that kept it from being
            done.
        """
        if not changes:
            return []
        now = self.store.now_ms()
        replies = await self.store.scripts("commit", [(one.to_json(), now) for one in changes])
        problems: list[LedgerError | None] = []
        ring: dict[str, None] = {}
        for change, (outcome, *rest) in zip(changes, replies, strict=True):
            metrics.record(metrics.COMMITS, _RESULTS.get(outcome, outcome))
            if outcome == "ok":
                metrics.record_all(change.samples)
                problems.append(None)
                ring.update(dict.fromkeys(rest))
            elif outcome == "conflict":
                problems.append(Conflict(f"{rest[0]} was changed by somebody else meanwhile."))
            elif outcome == "late":
                problems.append(Conflict("The deadline came before the commit."))
            elif outcome == "frozen":
                problems.append(Frozen(Freeze.model_validate_json(rest[0]), rest[1]))
            else:
                metrics.record(metrics.LEASES_LOST)
                problems.append(LeaseLost(f"The lease of {rest[0]} is not ours any more."))
        for stage in ring:
            await self.bell.ring(stage)
        return problems

    async def commit_together(self, changes: Sequence[Change]) -> list[LedgerError | None]:
        """Do what `commit_all` does, in fewer commits.

        Several changes are one commit, and where that is refused for one of them, each is tried
        alone, after the others: the changes must not build on each other.
        """
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

    async def decide_again(self, attempt: Callable[[], Awaitable[T]], *, times: int = 50) -> T:
        """Run a read-decide-commit attempt until it is not disturbed by a conflict.

        Raises:
            Conflict: It was disturbed this many times in a row.
        """
        for round_ in range(1, times):
            try:
                return await attempt()
            except Conflict:
                # Many who decide about one run would go on disturbing each other in step.
                await asyncio.sleep(random.uniform(0, 0.002 * round_))  # noqa: S311 -- jitter
        return await attempt()

    async def insist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Run an attempt until Redis takes it, for half a minute: it notes what cannot be undone.

        A failover takes some seconds; a tool that ends meanwhile would be in doubt afterwards. A
        lease that runs out on the way ends the waiting.

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
        """Return an approval with its receipt, if it was just decided; see `Receipts.seal`.

        Raises:
            CannotSign: This process may not decide.
        """
        return approval if self.receipts is None else self.receipts.seal(approval, events)

    # -- outboxes and leases -------------------------------------------------------------------

    async def claim(
        self, stage: str, *, limit: int = 100, lease: float = 60, opening: bool = True
    ) -> Claim:
        """Lease waiting work of a stage.

        Args:
            stage: The stage.
            limit: The most items to take.
            lease: For how many seconds nobody else gets them.
            opening: Whether this is the first claim since a ring: it then silences the bell, so
                that work put in from now on rings again.
        """
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
        return Claim(items, int(waiting))

    async def extend(
        self, item: Item | None, *, token: str, lease: float, keys: Iterable[str]
    ) -> None:
        """Prolong an item's lease and lease keys that are held under the same token.

        Raises:
            LeaseLost: One of them is held by somebody else.
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
            raise LeaseLost("The lease ran out and the work was handed to somebody else.")

    async def take_lease(self, key: str, token: str, *, lease: float) -> bool:
        """Take a lease key for so many seconds, unless it is held under another token."""
        return bool(await self.store.script("take", key, token, int(lease * 1000)))

    async def release_lease(self, key: str, token: str) -> None:
        """Give a lease key back, if it is still ours."""
        await self.store.script("release", key, token)

    async def due(self, *, limit: int = 100, lease: float = 10) -> list[str]:
        """Claim approvals whose deadline has come; they come again if nothing is done to them."""
        found = await self.store.script("due", self.store.now_ms(), limit, int(lease * 1000))
        return list(found)

    async def ring_overdue(self) -> list[str]:
        """Ring for every stage where work waits and nobody was called, or nobody came."""
        stages = list(await self.store.script("overdue", self.store.now_ms()))
        for stage in stages:
            await self.bell.ring(stage)
        return stages

    async def backlog(self) -> dict[str, int]:
        """Return how many items each stage holds, leased ones included."""
        async with self.store.translated_client() as client:
            stages = sorted(await client.smembers(self.store.prefix + "stages"))
            async with client.pipeline(transaction=False) as pipe:
                for stage in stages:
                    pipe.zcard(f"{self.store.prefix}outbox:{stage}")
                counts = await pipe.execute()
        return dict(zip(stages, counts, strict=True))

    async def history(self, subject: str) -> list[Event]:
        """Return what happened to an approval or a run, the oldest first."""
        trail = audit.about(self.store, await self.run_of(subject))
        events = [read_event(text) async for _, text, _ in trail]
        return [one for one in events if one and subject in {one.approval, one.run}]

    async def run_of(self, subject: str) -> str:
        """Return the id of an approval's run; what happened to it stands in the trail of that.

        Args:
            subject: The id of an approval; every other one is returned as it is.
        """
        (record,) = await self.store.read([f"approval:{subject}"])
        return subject if record is None else legible_approval(subject, record).origin.run

    # -- inside --------------------------------------------------------------------------------

    async def _current(
        self, approval_id: str, stored: str | None, of_run: str | None, *clock: str
    ) -> Current:
        record, run = parse_record(stored), parse_record(of_run)
        if record is None:
            raise ApprovalNotFound(approval_id)
        approval = legible_approval(approval_id, record)
        run_id = approval.origin.run
        if run is None:
            # Gone, or the record was written in another form than ours, and the script missed it.
            record, run = await self.store.read([f"approval:{approval_id}", f"run:{run_id}"])
            if record is None or run is None:
                raise RunNotFound(run_id)
            approval = legible_approval(approval_id, record)
        return Current(approval, legible_run(run_id, run), self.store.moment(*clock))

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
            ids: Their ids.
            may_be: Says of the text of a record whether it is to be read.
        """
        records = await self.store.read([f"approval:{one}" for one in ids])
        wanted = [one if one is not None and may_be(one[1]) else None for one in records]
        return [one for one in all_legible(legible_approval, ids, wanted) if one is not None]


def all_legible(
    legible: Callable[[str, tuple[int, str]], T],
    ids: Iterable[str],
    records: Iterable[tuple[int, str] | None],
) -> Iterator[T | None]:
    """Yield what records hold, None in the place of one that is gone or cannot be read.

    One that cannot be read is logged, and does not hide the others.
    """
    for name, record in zip(ids, records, strict=True):
        try:
            yield None if record is None else legible(name, record)
        except RecordUnreadable as error:
            log.error("ledger.unreadable", record=name, error=str(error))  # noqa: TRY400 -- the message says it all
            yield None


def _is_in_trouble(record: str) -> bool:
    """Say whether a record may be of an approval with a card that did not arrive, or with none.

    Fields with their defaults are not written.
    """
    return '"asked":' not in record or any(
        f'"{field}":' in record for field in ("problem", "away", "absent")
    )
