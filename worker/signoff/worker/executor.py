"""The executor: claims runs and resumes from their outboxes, and commits the result of each."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import structlog

from signoff.broker import live
from signoff.broker.freezes import read_freezes
from signoff.broker.ledger.change import Change, Item
from signoff.broker.ledger.lease import ItemLease, held
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.runs import PUT_OFF, ClaimedRun, claim_runs, read_again
from signoff.broker.monitoring import metrics, tracing
from signoff.broker.work import ResumeRun, StartRun
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.run import Run, RunState
from signoff.core.base.errors import (
    ApprovalExpired,
    ApprovalNotFound,
    CallChanged,
    CallGone,
    Conflict,
    Frozen,
    KeyUnknown,
    LeaseLost,
    LedgerError,
    LedgerUnavailable,
    ReceiptRefused,
    RecordUnreadable,
    RemoteUnavailable,
    RunNotFound,
    SignoffError,
)
from signoff.core.base.freezes import Freeze
from signoff.core.base.hiding import Hidden
from signoff.core.payloads.digest import digest
from signoff.worker import turn_results
from signoff.worker.port import TRANSIENT, Pause, Runtime, TurnResult
from signoff.worker.verification import verified

log = structlog.get_logger(__name__)

_MAX_TRIES = 12
_UNAVAILABLE = ("08", "25006", "40", "53", "57P")
"""The beginnings of PostgreSQL's codes for errors that pass (PostgreSQL manual, appendix A).

A lost connection, a server without writes, a conflict of transactions, too few resources, and an
operator's intervention.
"""
_BATCH = 8
"""The maximum number of items in one claim, so that other processes get some too."""
_UNREADABLE_AGAIN = 60.0
"""Seconds until an unreadable record is retried: a worker of a newer version may read it."""
_THAWED_BY = 60.0
"""Seconds until a frozen run is retried; `signoff thaw` retries it at once."""
_KEY_BY = 30.0
"""Seconds until a receipt with an unknown key is checked again: the key may arrive meanwhile."""


Build = Callable[[Run, Sequence[Approval], datetime], Awaitable[Change | None]]
"""Builds a change from a run, its approvals and the time; None if there is nothing to do."""


Records = tuple[Run, Sequence[Approval], datetime]
"""A run, the approvals of its pause, and the time at which they were so."""


@dataclass(slots=True)
class Executor:
    """Works on the `run` and `resume` stages.

    Attributes:
        ledger: The ledger.
        runtime: Runs the agents.
        lease: Seconds without a heartbeat after which a worker counts as dead.
        slots: How many items of all stages may be processed at once.
        valid_for: How long an approval is valid if its policy does not say.
        hide: The arguments to hide in a call until its policy is known.
        closing: Set to stop the process: running items are finished, and no new ones are started.
    """

    ledger: Ledger
    runtime: Runtime
    lease: float = 30.0
    slots: int = 128
    valid_for: timedelta = turn_results.VALID_FOR
    hide: Hidden = ()
    closing: bool = False
    _free: asyncio.Semaphore = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._free = asyncio.Semaphore(self.slots)

    def stop_claiming(self) -> None:
        """Finish running items, and leave the rest to other workers; for signal handlers."""
        self.closing = True

    async def drain(self, stage: str) -> int:
        """Work on a stage until no items wait or run; return the number of items.

        As many items run at once as there are free slots. Stages that wait for a slot get one in
        turn. An unexpected error in one item does not stop the others.

        Raises:
            LedgerUnavailable: No more items can be claimed; all running items have ended.
        """
        working: set[asyncio.Task[bool]] = set()
        try:
            count = await self._begin_all(stage, working)
            while working:
                ended, left = await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
                working.intersection_update(left)
                again = [one.result() for one in ended]
                if any(again):
                    count += await self._begin_all(stage, working)
        except Exception:
            # A cancelled item would leave its tools in doubt.
            if working:
                await asyncio.wait(working)
            raise
        finally:
            for one in working:
                one.cancel()
            if working:
                await asyncio.wait(working)
        return count

    async def _begin_all(self, stage: str, working: set[asyncio.Task[bool]]) -> int:
        """Start all waiting items; each holds a slot until it is done."""
        count = 0
        while True:
            slots = await self._take_slots()
            try:
                if self.closing:
                    return count
                claim = await claim_runs(
                    self.ledger, stage, limit=slots, lease=self.lease, opening=not count
                )
                for claimed in claim.runs:
                    task = asyncio.create_task(self._work(claimed), name=f"item {claimed.item.id}")
                    task.add_done_callback(lambda _: self._free.release())
                    working.add(task)
                    slots -= 1
            finally:
                for _ in range(slots):
                    self._free.release()
            if claim.waiting and not count:
                await self.ledger.bell.ring(stage)
            count += len(claim.runs)
            if claim.put_off:
                # The reconciler rings when they are due; this only shortens the wait.
                await asyncio.sleep(PUT_OFF)
            elif not claim.waiting:
                return count

    async def _take_slots(self) -> int:
        """Wait for a free slot, and take a few more if they are free; return their number."""
        await self._free.acquire()
        count = 1
        while count < _BATCH and not self._free.locked():
            await self._free.acquire()
            count += 1
        return count

    async def _work(self, claimed: ClaimedRun) -> bool:
        """Work on an item; return whether it was put back to be claimed again at once."""
        item, key = claimed.item, claimed.lease_key
        try:
            run, approvals = claimed.read(self.ledger.recent)
            phase = _phase(claimed.work)
            # This task has a context of its own, so nothing has to be unbound.
            structlog.contextvars.bind_contextvars(run=run.id, trace=run.trace, app=run.app)
            async with held(
                self.ledger, item, key, lease=self.lease, alive_at=claimed.alive_at
            ) as hold:
                with tracing.span(phase, run, follows=approvals):
                    again = await self._advance(claimed, run, approvals, hold)
                await live.wake_watchers(self.ledger, run)
                return again
        except RunNotFound as error:
            log.error("work.without_run", item=item.id, error=str(error))  # noqa: TRY400 -- says all
            await self._drop(item)
        except (RecordUnreadable, ApprovalNotFound) as error:
            log.error("work.unreadable", item=item.id, error=str(error))  # noqa: TRY400 -- says all
            change = Change().retry(item, after=_UNREADABLE_AGAIN)
            with contextlib.suppress(LedgerError):
                await self.ledger.commit(
                    change.fence(key, item.token, give_back=True) if key else change
                )
        except (LeaseLost, Conflict) as error:
            log.warning("work.taken_over", item=item.id, error=str(error))
        except LedgerUnavailable as error:
            # When the lease expires, another worker claims the item and continues from here.
            log.warning("work.interrupted", item=item.id, error=str(error))
        except Exception:
            # It must not stop the others; the item is claimed again when its lease expires.
            log.exception("work.broken", item=item.id)
        return False

    async def _drop(self, item: Item) -> None:
        with contextlib.suppress(LedgerError):
            await self.ledger.commit(Change().ack(item))

    async def _advance(  # noqa: PLR0911 -- one for each reason not to begin a turn
        self, claimed: ClaimedRun, run: Run, approvals: Sequence[Approval], hold: ItemLease
    ) -> bool:
        """Advance a run to its next pause or its end; return whether it continues at once."""
        item, work, now = claimed.item, claimed.work, claimed.now
        resuming = isinstance(work, ResumeRun)
        expected = RunState.ANSWERED if resuming else RunState.QUEUED
        if run.state is not expected or (isinstance(work, ResumeRun) and run.pause != work.pause):
            await hold.end(Change().ack(item))
            return False
        if turn_results.started_and_not_finished(approvals):
            # The worker that started it held this session's lease, and has lost it.
            return await self._in_doubt(run, hold)
        freezes = read_freezes(claimed.frozen)
        unproven = resuming and self._is_unproven(run, approvals, now)
        if unproven and await self._ask_anew(run, hold):
            return False
        if freezes and (stopped := turn_results.stopped_by(run, approvals, freezes)):
            return await self._freeze(run, hold, *stopped)
        answered = [one for one in approvals if one.id not in run.waiting]
        log.info("run.resuming" if resuming else "run.started", attempt=item.attempts)
        try:
            if run.waiting and not await self.runtime.resumes_each(run, approvals):
                return await self._wait_for_the_rest(run, hold)
            with _measured(run, _phase(work)) as turns:
                turn = await (
                    self.runtime.resume(run, answered, hold.fence)
                    if resuming
                    else self.runtime.start(run, hold.fence)
                )
                turns.append(turn)
            handed = {one.id for one in answered}.difference(turn.kept)
            # A short turn that has committed nothing has probably left the records as they were.
            short = not hold.used and claimed.age < self.lease
            records = (run, approvals, claimed.present(self.ledger)) if short else None
            return await self._turn_ended(run, hold, turn, handed, records)
        except (LeaseLost, Conflict):
            raise
        except Exception as error:  # noqa: BLE001 -- an agent may raise anything
            return await self._failed(run, hold, error)

    def _is_unproven(self, run: Run, approvals: Sequence[Approval], now: datetime) -> bool:
        """Return whether an approval had expired, or was not proven, when the item was claimed."""
        why_refused = partial(self._why_refused, now=now)
        try:
            change = turn_results.asked_anew(run, approvals, self.valid_for, why_refused, now=now)
        except KeyUnknown:
            return True
        return change is not None

    def _why_refused(self, approval: Approval, now: datetime) -> str:
        """Return why no receipt proves an approval; "" if one does, or none is needed."""
        receipts = self.ledger.receipts
        return receipts.why_refused(approval, now) if receipts is not None else ""

    async def _ask_anew(self, run: Run, hold: ItemLease) -> bool:
        """Ask again about expired or unproven approvals; return whether the run waits."""

        async def build(run: Run, approvals: Sequence[Approval], now: datetime) -> Change | None:
            def why_refused(approval: Approval) -> str:
                if why := self._why_refused(approval, now):
                    log.critical("receipt.refused", approval=approval.id, why=why)
                    metrics.record(metrics.RESUMES, "unverified")
                return why

            try:
                change = turn_results.asked_anew(
                    run, approvals, self.valid_for, why_refused, now=now
                )
            except KeyUnknown as error:
                log.critical("receipt.key_unknown", error=str(error))
                metrics.record(metrics.RESUMES, "unverified")
                return Change().retry(hold.item, after=_KEY_BY, counted=False)
            if change is None:
                return None
            log.warning("run.asked_anew", approvals=run.approvals)
            return change.ack(hold.item)

        return await self._settle(run, hold, build)

    async def _freeze(self, run: Run, hold: ItemLease, freeze: Freeze, tool: str) -> bool:
        """Put a run back whose tool is frozen; after the thaw it continues where it was."""

        async def build(run: Run, approvals: Sequence[Approval], now: datetime) -> Change | None:
            change = turn_results.frozen(run, approvals, freeze, tool, now=now)
            return change.retry(hold.item, after=_THAWED_BY, counted=False)

        log.warning("run.frozen", freeze=freeze.id, tool=tool, by=freeze.by, why=freeze.why)
        await self._settle(run, hold, build)
        return False

    async def _wait_for_the_rest(self, run: Run, hold: ItemLease) -> bool:
        """Put a partly answered run back into its pause, unless all its answers are there now."""
        whole = False

        async def build(run: Run, approvals: Sequence[Approval], now: datetime) -> Change | None:
            nonlocal whole
            whole = not run.waiting
            if whole:
                return Change().retry(hold.item, after=0)
            return turn_results.waits_for_the_rest(run, approvals).ack(hold.item)

        await self._settle(run, hold, build)
        return whole

    async def _turn_ended(
        self, run: Run, hold: ItemLease, turn: TurnResult, handed: set[str], records: Records | None
    ) -> bool:
        async def build(run: Run, approvals: Sequence[Approval], now: datetime) -> Change | None:
            known = [one for one in approvals if one.id not in turn.changed]
            if turn_results.started_and_not_finished(known):
                return None
            proposers = {
                index: found
                for index, pause in enumerate(turn.pauses)
                if (found := await self._proposer(pause))
            }
            change = turn_results.turn_ended(
                run, turn, approvals, handed, proposers, now=now, hide=self.hide
            )
            return change.ack(hold.item)

        if turn.left_open:
            log.warning("run.left_open", calls=turn.left_open)
        if not await self._settle(run, hold, build, records):
            return await self._in_doubt(run, hold)
        if turn.pauses:
            log.info("run.paused", calls=[pause.call.name for pause in turn.pauses])
        else:
            log.info("run.completed")
        return False

    async def _proposer(self, pause: Pause) -> Approval | None:
        return await self.ledger.proposer(pause.origin, digest(pause.call.name, pause.call.args))

    async def _failed(self, run: Run, hold: ItemLease, error: Exception) -> bool:
        problem = _in_words(error)
        tracing.failed(error)
        cause = _cause(error)
        approvals = await self.ledger.approvals(run.approvals)
        if turn_results.started_and_not_finished(approvals):
            return await self._in_doubt(run, hold)
        if isinstance(cause, Frozen):
            return await self._freeze(run, hold, cause.freeze, cause.tool)
        if isinstance(cause, CallChanged):
            return await self._ask_about_change(run, hold, cause)
        if isinstance(cause, ReceiptRefused):
            # The record was changed since the turn began; the next turn asks about the call again.
            log.critical("receipt.refused", error=str(cause))
            metrics.record(metrics.RESUMES, "unverified")
            await hold.end(Change().retry(hold.item, after=0))
            return True
        gone = cause.approval if isinstance(cause, CallGone) else ""

        async def build(run: Run, approvals: Sequence[Approval], now: datetime) -> Change | None:
            if turn_results.started_and_not_finished(approvals):
                return None
            return turn_results.failed(run, problem, approvals, now=now, gone=gone).ack(hold.item)

        # The approval was still valid when the turn began.
        expired = isinstance(cause, ApprovalExpired) and await self._ask_anew(run, hold)
        if not expired and not await self._try_later(hold, error):
            log.error("run.failed", problem=problem, exc_info=error)
            if not await self._settle(run, hold, build):
                return await self._in_doubt(run, hold)
        return False

    async def _ask_about_change(self, run: Run, hold: ItemLease, found: CallChanged) -> bool:
        """Ask again about a call that would run differently than approved."""

        async def build(run: Run, approvals: Sequence[Approval], now: datetime) -> Change | None:
            change = turn_results.asked_about_change(run, approvals, found, now=now)
            problem = str(found)
            return (
                change or turn_results.failed(run, problem, approvals, now=now, gone=found.approval)
            ).ack(hold.item)

        log.warning("run.call_changed", approval=found.approval, why=found.why)
        await self._settle(run, hold, build)
        return False

    async def _in_doubt(self, run: Run, hold: ItemLease) -> bool:
        """Mark calls in doubt that were started and not seen to finish, and apply their policies.

        Returns:
            Whether the run continues at once.
        """
        continues = False
        happened = await verified(await self.ledger.approvals(run.approvals))

        async def build(run: Run, approvals: Sequence[Approval], now: datetime) -> Change | None:
            nonlocal continues
            change = turn_results.in_doubt(run, approvals, now=now, happened=happened)
            if change is None:
                return None
            continues = all(write["key"] != f"run:{run.id}" for write in change.writes)
            return change.retry(hold.item, after=0) if continues else change.ack(hold.item)

        log.error("run.in_doubt", approvals=run.approvals)
        return await self._settle(run, hold, build) and continues

    async def _settle(
        self, run: Run, hold: ItemLease, build: Build, records: Records | None = None
    ) -> bool:
        """Build a change from the current approvals and commit it; retry if they have changed.

        Other processes write to an approval too, even after its end. A delivery that is recorded
        late must not lose the result of a turn.

        Args:
            run: The run when it was claimed.
            hold: The leases.
            build: Builds the change.
            records: The records as they were claimed, and the present, to try first: the commit is
                refused if one of them has changed. None reads them again.

        Returns:
            False if `build` has returned None.

        Raises:
            LeaseLost: Another worker has continued the run.
        """
        known = [] if records is None else [records]

        async def attempt() -> bool:
            fresh = not known
            stands, approvals, now = await read_again(self.ledger, run) if fresh else known.pop()
            # New answers change neither of these; a worker that continues the run does.
            if (stands.state, stands.pause) != (run.state, run.pause):
                raise LeaseLost(f"Run {run.id} was taken on by somebody else.")
            change = await build(stands, approvals, now)
            if change is None:
                return False
            if not fresh:
                change.unless_changed(stands)
                for one in approvals:
                    change.unless_changed(one)
            await hold.end(change)
            return True

        return await self.ledger.decide_again(attempt)

    async def _try_later(self, hold: ItemLease, error: Exception) -> bool:
        cause = _cause(error)
        if isinstance(cause, LedgerError):
            raise cause
        item = hold.item
        if item.attempts >= _MAX_TRIES or not _is_transient(error):
            return False
        after = min(0.5 * 2**item.attempts, 60) * random.uniform(0.5, 1)  # noqa: S311 -- jitter
        log.warning("work.again", item=item.id, after=round(after, 1), error=_in_words(error))
        # The reconciler rings when it is due.
        await hold.end(Change().retry(item, after=after))
        return True


def _phase(work: StartRun | ResumeRun) -> str:
    return "resume" if isinstance(work, ResumeRun) else "start"


@contextlib.contextmanager
def _measured(run: Run, phase: str) -> Iterator[list[TurnResult]]:
    """Measure a turn; the body adds it to the list when it has ended."""
    began, turns = time.monotonic(), list[TurnResult]()
    metrics.record(metrics.TURNS)
    try:
        yield turns
    finally:
        result = "failed" if not turns else "paused" if turns[0].pauses else "completed"
        took = time.monotonic() - began
        metrics.record(metrics.TURNS, value=-1)
        metrics.record(metrics.TURN_SECONDS, run.app, phase, result, value=took)


def _cause(error: BaseException) -> BaseException:
    """Return our error that ADK has wrapped into its own, or the error itself."""
    step: BaseException | None = error
    while step is not None:
        if isinstance(step, SignoffError):
            return step
        step = step.__cause__
    return error


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, sqlite3.OperationalError | ConnectionError | RemoteUnavailable):
        return True
    # SQLAlchemy has no class of its own for what asyncpg reports of a server that stops or starts.
    state = str(getattr(getattr(error, "orig", None), "sqlstate", None) or "")
    if state.startswith(_UNAVAILABLE):
        return True
    names = {kind.__name__ for kind in type(error).__mro__}
    statuses = {getattr(error, name, None) for name in ("code", "status_code")}
    busy = statuses & {408, 429, 500, 502, 503, 504}
    return bool(names & TRANSIENT or busy)


def _in_words(error: BaseException) -> str:
    cause = _cause(error)
    return str(cause) if isinstance(cause, SignoffError) else f"{type(error).__name__}: {error}"
