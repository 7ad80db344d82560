"""The crew: takes runs and resumes out of their outboxes, one by one, and commits the outcome."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Sequence
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
    ToolInDoubt,
)
from signoff.core.lifecycle import Handoff
from signoff.core.policy import InDoubt
from signoff.core.run import Run, RunState
from signoff.worker.port import Pause, Runtime, Turn

log = structlog.get_logger(__name__)

_MAX_TRIES = 12
_MAX_STARTS = 3
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
        except RunNotFound:
            log.error("work.without_run", item=item.id, stage=item.stage)  # noqa: TRY400 -- its id says all
            await self.ledger.commit(Change().ack(item))
            return
        with structlog.contextvars.bound_contextvars(run=run.id, trace=run.trace, app=run.app):
            try:
                async with held(
                    self.ledger, item, session_key(run.app, run.user, run.session), lease=self.lease
                ) as ours:
                    if not ours:
                        # Somebody runs this session right now: theirs first, then this.
                        await self._put_back(item, after=0.2)
                    elif item.stage.startswith(f"{stages.RUN}."):
                        await self._start(run, item)
                    else:
                        await self._resume(run, item)
                    await live.look_up(self.ledger, run)
            except (LeaseLost, Conflict) as error:
                log.warning("work.taken_over", item=item.id, error=str(error))
            except LedgerUnavailable as error:
                # The lease will run out, and whoever claims the item then goes on from here.
                log.warning("work.interrupted", item=item.id, error=str(error))

    async def _start(self, run: Run, item: Item) -> None:
        if run.state is not RunState.QUEUED:
            await self.ledger.commit(Change().ack(item))
            return
        log.info("run.started", attempt=item.attempts)
        try:
            turn = await self.runtime.start(run)
        except Exception as error:  # noqa: BLE001 -- an agent may raise anything
            await self._start_failed(run, item, error)
            return
        await self._commit_turn(run, item, turn)

    async def _start_failed(self, run: Run, item: Item, error: Exception) -> None:
        if await self._try_later(item, error):
            return
        after, events = run.failed(_in_words(error), now=await self.ledger.now())
        log.error("run.failed", problem=after.problem, exc_info=error)
        change = Change().put(after, was=run).note(events).ack(item)
        await self.ledger.commit(_fenced(run, item, change))

    async def _resume(self, run: Run, item: Item) -> None:
        if run.state is not RunState.ANSWERED or run.pause != item.body["pause"]:
            await self.ledger.commit(Change().ack(item))
            return
        approvals = await self.ledger.approvals(run.approvals)
        if any(one.handoff is Handoff.STARTED for one in approvals):
            # Whoever started it held this session's lease, and has lost it.
            await self._in_doubt(run, item, approvals)
            return
        log.info("run.resuming", attempt=item.attempts)
        try:
            turn = await self.runtime.resume(
                run, approvals, lambda change: _fenced(run, item, change)
            )
        except Exception as error:  # noqa: BLE001 -- an agent may raise anything
            await self._resume_failed(run, item, error)
            return
        fresh = await self.ledger.approvals(run.approvals)
        if any(one.handoff is Handoff.STARTED for one in fresh):
            await self._in_doubt(run, item, fresh)
            return
        await self._commit_turn(run, item, turn, fresh)

    async def _resume_failed(self, run: Run, item: Item, error: Exception) -> None:
        fresh = await self.ledger.approvals(run.approvals)
        in_doubt = isinstance(_cause(error), ToolInDoubt)
        if in_doubt or any(one.handoff is Handoff.STARTED for one in fresh):
            await self._in_doubt(run, item, fresh)
            return
        if await self._try_later(item, error):
            return
        now = await self.ledger.now()
        problem = _in_words(error)
        change = _all_failed(fresh, problem, now=now)
        after, events = run.failed(problem, now=now)
        log.error("run.failed", problem=problem, exc_info=error)
        change.put(after, was=run).note(events).ack(item)
        await self.ledger.commit(_fenced(run, item, change))

    async def _in_doubt(self, run: Run, item: Item, approvals: Sequence[Approval]) -> None:
        """Mark what was started and not seen to finish, and do what its policy says then."""
        now = await self.ledger.now()
        change = Change()
        marked = [_doubt(change, one, now=now) for one in approvals]
        doubtful = [one for one in marked if one.handoff is Handoff.IN_DOUBT]
        log.error("run.in_doubt", approvals=[one.id for one in doubtful])
        if not doubtful or any(_rule(one) is InDoubt.FAIL for one in doubtful):
            names = ", ".join(f"{one.call.name}()" for one in doubtful) or "A tool"
            change.put(
                run.in_doubt(
                    f"{names} was started by a worker that was not seen to finish it: it may or "
                    "may not have happened. Look, and then ask the agent anew."
                ),
                was=run,
            )
            await self.ledger.commit(_fenced(run, item, change.ack(item)))
            return
        asked = [self._ask_again(change, one, now=now) for one in doubtful if _asks(one)]
        if asked:
            settled = [one.id for one in marked if one not in doubtful or not _asks(one)]
            change.put(run.paused(asked, decided=settled), was=run).ack(item)
        else:
            change.retry(item, after=0)
        await self.ledger.commit(_fenced(run, item, change))

    def _ask_again(self, change: Change, doubtful: Approval, *, now: datetime) -> str:
        question, events = doubtful.ask_again(now=now)
        change.put(question, was=None).note(events)
        change.send(stages.ROUTE, f"route:{question.id}", {"approval": question.id})
        return question.id

    async def _commit_turn(
        self, run: Run, item: Item, turn: Turn, answered: Sequence[Approval] = ()
    ) -> None:
        """Commit what a turn came to: answers resumed, and approvals opened or the last word."""
        now = await self.ledger.now()
        change = Change()
        after: dict[str, Approval] = {}
        for approval in answered:
            after[approval.id], noted = approval.hand_on(Handoff.RESUMED, now=now)
            change.note(noted)
        if turn.pauses:
            before = {one.id: one for one in answered}
            opened = [
                await self._open(pause, change, before, after, now=now) for pause in turn.pauses
            ]
            run_after = run.paused(opened)
            log.info("run.paused", approvals=opened)
            for approval_id, approval in after.items():
                change.put(approval, was=before[approval_id])
        else:
            for approval in answered:
                change.put(after[approval.id], was=approval)
            run_after, ended = run.completed(turn.text, now=now)
            change.note(ended)
            log.info("run.completed")
        change.put(run_after, was=run).ack(item)
        await self.ledger.commit(_fenced(run, item, change))

    async def _open(
        self,
        pause: Pause,
        change: Change,
        before: dict[str, Approval],
        after: dict[str, Approval],
        *,
        now: datetime,
    ) -> str:
        """Open the approval of a call that waits, linked to the rejection that proposed it."""
        proposer = await self.ledger.proposer(
            pause.origin, digest(pause.call.name, pause.call.args)
        )
        if proposer is not None and after.get(proposer.id, proposer).superseded_by:
            proposer = None  # a proposal is taken up once, also by two calls of one turn
        approval, noted = Approval.open(
            pause.origin,
            pause.call,
            hint=pause.hint,
            template=pause.template,
            now=now,
            supersedes=proposer.id if proposer else "",
        )
        if proposer is not None:
            # The rejection may be the very answer that this turn has resumed.
            before.setdefault(proposer.id, proposer)
            latest = after.get(proposer.id, proposer)
            after[proposer.id] = latest.model_copy(update={"superseded_by": approval.id})
        change.put(approval, was=None).note(noted)
        change.send(stages.ROUTE, f"route:{approval.id}", {"approval": approval.id})
        return approval.id

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


def _doubt(change: Change, approval: Approval, *, now: datetime) -> Approval:
    """Mark an approval in doubt if its tool was started; where the policy says so, for a retry."""
    if approval.handoff is not Handoff.STARTED:
        return approval
    marked, events = approval.hand_on(
        Handoff.IN_DOUBT,
        now=now,
        why=f"{approval.call.name}() was started and not seen to finish: "
        "it may or may not have happened",
    )
    change.note(events)
    after = marked
    if _rule(marked) is InDoubt.RETRY and not _asks(marked):
        after, _ = marked.hand_on(Handoff.RECORDED, now=now)
    change.put(after, was=approval)
    return marked


def _rule(approval: Approval) -> InDoubt:
    return approval.terms.in_doubt if approval.terms is not None else InDoubt.ASK


def _asks(approval: Approval) -> bool:
    """Whether a person is asked: by policy, or because retrying has not helped."""
    rule = _rule(approval)
    return rule is InDoubt.ASK or (rule is InDoubt.RETRY and approval.starts >= _MAX_STARTS)


def _all_failed(approvals: Sequence[Approval], why: str, *, now: datetime) -> Change:
    """Return a change that says of each answer of a pause that it did not get into the agent."""
    change = Change()
    for approval in approvals:
        after, events = approval.hand_on(Handoff.FAILED, now=now, why=why)
        change.put(after, was=approval).note(events)
    return change


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
