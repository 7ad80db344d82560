"""The crew: takes runs and resumes out of their outboxes, one by one, and commits the outcome."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from signoff.broker import live, stages
from signoff.broker.change import Change, Item
from signoff.broker.lease import held, session_key
from signoff.broker.ledger import Ledger
from signoff.core.approval import Approval
from signoff.core.digest import digest
from signoff.core.errors import (
    Conflict,
    LeaseLost,
    LedgerError,
    LedgerUnavailable,
    RemoteUnavailable,
    RunNotFound,
    SignoffError,
)
from signoff.core.run import Run, RunState
from signoff.worker import outcomes
from signoff.worker.port import Pause, Runtime, Turn

log = structlog.get_logger(__name__)

_MAX_TRIES = 12
_TRANSIENT = frozenset(
    {
        "ConnectionError",  # of redis-py, which is not the builtin
        "InterfaceError",
        "OperationalError",
        "ServerError",
        "StaleSessionError",
        "TimeoutError",
    }
)
"""Names of foreign errors that say "not now": a locked or restarting database, a busy model."""


Build = Callable[[Sequence[Approval], datetime], Awaitable[Change | None]]
"""Makes a change of the approvals of a run and the present; None if there is nothing to do."""


@dataclass(slots=True)
class Crew:
    """Works on the `run` and `resume` stages.

    Attributes:
        ledger: The truth.
        runtime: Runs the agents.
        lease: Seconds after which a worker that shows no sign of life is taken for dead.
        closing: Set when the process is to stop: what is in work is finished, and no more begun.
    """

    ledger: Ledger
    runtime: Runtime
    lease: float = 30.0
    closing: bool = False

    def begin_nothing_more(self) -> None:
        """Let what is in work be finished, and leave the rest to others; for signal handlers."""
        self.closing = True

    async def drain(self, stage: str) -> int:
        """Work on a stage until nothing waits, one item at a time; return how many there were.

        As many of these run at once as the worker has free slots. Each one that finds more work
        than its own rings for the next.
        """
        count = 0
        while not self.closing:
            claim = await self.ledger.claim(stage, limit=1, lease=self.lease)
            if not claim.items:
                return count
            if claim.waiting and not count:
                await self.ledger.bell.ring(stage)
            await self._work(claim.items[0])
            count += 1
        return count

    async def _work(self, item: Item) -> None:
        try:
            run = await self.ledger.run(str(item.body["run"]))
            with structlog.contextvars.bound_contextvars(run=run.id, trace=run.trace, app=run.app):
                key = session_key(run.app, run.user, run.session)
                async with held(self.ledger, item, key, lease=self.lease) as ours:
                    if ours:
                        await self._advance(run, item)
                    else:
                        # Somebody runs this session right now: theirs first, then this.
                        await self._put_back(item, after=0.2)
                    await live.look_up(self.ledger, run)
        except RunNotFound as error:
            log.error("work.without_run", item=item.id, error=str(error))  # noqa: TRY400 -- says all
            await self._drop(item)
        except (LeaseLost, Conflict) as error:
            log.warning("work.taken_over", item=item.id, error=str(error))
        except LedgerUnavailable as error:
            # The lease will run out, and whoever claims the item then goes on from here.
            log.warning("work.interrupted", item=item.id, error=str(error))

    async def _drop(self, item: Item) -> None:
        with contextlib.suppress(LedgerError):
            await self.ledger.commit(Change().ack(item))

    async def _advance(self, run: Run, item: Item) -> None:
        """Take a run to its next pause or its end."""
        resuming = item.stage.startswith(f"{stages.RESUME}.")
        expected = RunState.ANSWERED if resuming else RunState.QUEUED
        if run.state is not expected or (resuming and run.pause != item.body["pause"]):
            await self.ledger.commit(Change().ack(item))
            return
        approvals = await self.ledger.approvals(run.approvals)
        if outcomes.started_and_not_finished(approvals):
            # Whoever started it held this session's lease, and has lost it.
            await self._in_doubt(run, item)
            return
        log.info("run.resuming" if resuming else "run.started", attempt=item.attempts)
        try:
            turn = await (
                self.runtime.resume(run, approvals, lambda change: _fenced(run, item, change))
                if resuming
                else self.runtime.start(run)
            )
            await self._turn_ended(run, item, turn)
        except (LeaseLost, Conflict):
            raise
        except Exception as error:  # noqa: BLE001 -- an agent may raise anything
            await self._failed(run, item, error)

    async def _turn_ended(self, run: Run, item: Item, turn: Turn) -> None:
        async def build(approvals: Sequence[Approval], now: datetime) -> Change | None:
            if outcomes.started_and_not_finished(approvals):
                return None
            proposers = {
                index: found
                for index, pause in enumerate(turn.pauses)
                if (found := await self._proposer(pause))
            }
            return outcomes.turn_ended(run, turn, approvals, proposers, now=now).ack(item)

        if not await self._settle(run, item, build):
            await self._in_doubt(run, item)
        elif turn.pauses:
            log.info("run.paused", calls=[pause.call.name for pause in turn.pauses])
        else:
            log.info("run.completed")

    async def _proposer(self, pause: Pause) -> Approval | None:
        return await self.ledger.proposer(pause.origin, digest(pause.call.name, pause.call.args))

    async def _failed(self, run: Run, item: Item, error: Exception) -> None:
        problem = _in_words(error)

        async def build(approvals: Sequence[Approval], now: datetime) -> Change | None:
            if outcomes.started_and_not_finished(approvals):
                return None
            return outcomes.failed(run, problem, approvals, now=now).ack(item)

        approvals = await self.ledger.approvals(run.approvals)
        if outcomes.started_and_not_finished(approvals):
            await self._in_doubt(run, item)
        elif not await self._try_later(item, error):
            log.error("run.failed", problem=problem, exc_info=error)
            if not await self._settle(run, item, build):
                await self._in_doubt(run, item)

    async def _in_doubt(self, run: Run, item: Item) -> None:
        """Mark what was started and not seen to finish, and do what its policy says then."""

        async def build(approvals: Sequence[Approval], now: datetime) -> Change | None:
            change = outcomes.in_doubt(run, approvals, now=now)
            if change is None:
                return None
            goes_on = all(write["key"] != f"run:{run.id}" for write in change.writes)
            return change.retry(item, after=0) if goes_on else change.ack(item)

        log.error("run.in_doubt", approvals=run.approvals)
        await self._settle(run, item, build)

    async def _settle(self, run: Run, item: Item, build: Build) -> bool:
        """Build a change from the approvals as they are, commit it, and again if they have moved.

        Others write to an approval too, also after its end: a delivery that is noted late must not
        cost what a turn has come to.

        Returns:
            False if `build` has found that there is nothing to commit.

        Raises:
            LeaseLost: Somebody else has taken the run on.
        """

        async def attempt() -> bool:
            if (await self.ledger.run(run.id)).version != run.version:
                raise LeaseLost(f"Run {run.id} was taken on by somebody else.")
            approvals = await self.ledger.approvals(run.approvals)
            change = await build(approvals, await self.ledger.now())
            if change is None:
                return False
            await self.ledger.commit(_fenced(run, item, change))
            return True

        return await self.ledger.decide_again(attempt)

    async def _try_later(self, item: Item, error: Exception) -> bool:
        cause = _cause(error)
        if isinstance(cause, LedgerError):
            raise cause
        if item.attempts >= _MAX_TRIES or not _is_transient(error):
            return False
        after = min(0.5 * 2**item.attempts, 60) * random.uniform(0.5, 1)  # noqa: S311 -- jitter
        log.warning("work.again", item=item.id, after=round(after, 1), error=_in_words(error))
        await self._put_back(item, after=after)
        return True

    async def _put_back(self, item: Item, *, after: float) -> None:
        await self.ledger.commit(Change().retry(item, after=after))
        # The reconciler rings when it is due; this one only shortens the wait.
        if after < 1:
            await asyncio.sleep(after)


def _fenced(run: Run, item: Item, change: Change) -> Change:
    return change.fence(session_key(run.app, run.user, run.session), item.token)


def _cause(error: BaseException) -> BaseException:
    """Return the error of ours that ADK wrapped into one of its own, or the error itself."""
    step: BaseException | None = error
    while step is not None:
        if isinstance(step, SignoffError):
            return step
        step = step.__cause__
    return error


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, sqlite3.OperationalError | ConnectionError | RemoteUnavailable):
        return True
    names = {kind.__name__ for kind in type(error).__mro__}
    busy = getattr(error, "code", None) in {408, 429, 500, 502, 503, 504}
    return bool(names & _TRANSIENT) or busy


def _in_words(error: BaseException) -> str:
    cause = _cause(error)
    return str(cause) if isinstance(cause, SignoffError) else f"{type(error).__name__}: {error}"
