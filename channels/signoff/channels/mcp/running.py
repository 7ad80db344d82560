"""Runs approved calls: each once, by one process at a time, and records its answer."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

import structlog

from signoff.broker.decisions import Decisions, Extras, Outcome, Taken
from signoff.broker.effects import tell_failure, tell_result
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.lease import KeyLease, kept
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.work import RouteApproval
from signoff.channels.aap.opening import require_proven, require_startable
from signoff.channels.mcp import elicitation, records
from signoff.channels.mcp.elicitation import Question
from signoff.channels.mcp.messages import Answer, Call
from signoff.channels.mcp.records import Caller, Record
from signoff.core.approvals import programs, reopening
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.base.errors import Frozen, LeaseLost, ProgramRefused
from signoff.core.policies.policy import InDoubt

log = structlog.get_logger(__name__)

Send = Callable[[Mapping[str, str]], Awaitable[Answer]]
"""Sends a call to the server, with more members of its params, and returns the answer."""

MOST_STARTS: Final = 3
"""How often a call is started on one approval if its policy has ``in_doubt = "retry"``."""

OVER: Final = frozenset({Handoff.FINISHED, Handoff.RESUMED})
"""The states of a call that does not run any more."""

_LEASE: Final = 10.0
_LOOK_AGAIN: Final = 1.0
_MOST_ROUNDS: Final = 10
_LONGEST_NOTE: Final = 4_000
_LARGEST: Final = 256 * 1024
_RUNS: Final = frozenset({Handoff.STARTED, Handoff.IN_DOUBT})


class NotSent(Exception):
    """The server has not taken the call, so it has not run."""


class CallLost(Exception):
    """The server has the call, but its answer is lost: the call may have run or not."""


class Runner:
    """Runs approved calls."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._ledger = decisions.ledger

    async def run(
        self, caller: Caller, call: Call, key: str, seen: Record, send: Send
    ) -> Answer | None:
        """Run an approved call. Return None if another process runs it, or a question is open."""
        lease, token = f"lease:mcp\0{key}", secrets.token_hex(16)
        alive_at = asyncio.get_running_loop().time()
        if not await self._ledger.take_lease(lease, token, lease=_LEASE):
            await asyncio.sleep(_LOOK_AGAIN)
            return None
        try:
            async with kept(self._ledger, lease, token, lease=_LEASE, alive_at=alive_at) as hold:
                record = await records.load(self._ledger, key)
                if record is None or record != seen:
                    return None
                held = _Held(caller, call, key, record, await self._approvals(record), hold)
                if any(one.handoff is Handoff.STARTED for one in held.approvals):
                    # The process that started it has lost its lease.
                    await self._doubt(held)
                    return None
                return await self._sent(held, send)
        except LeaseLost as error:
            log.warning("mcp.lease_lost", approval=seen.approval, why=str(error))
            return call.failure(f"It is not known whether {caller.tool(call)} has run.")
        except (Frozen, ProgramRefused) as error:
            return call.failure(f"{caller.tool(call)} has not run. {error}")

    async def _approvals(self, record: Record) -> list[Approval]:
        return [await self._ledger.approval(one) for one in record.all]

    async def _sent(self, held: _Held, send: Send) -> Answer | None:
        """Start a call, send it to the server, and record its answer."""
        call, tool = held.call, held.caller.tool(held.call)
        await self._start(held)
        try:
            answer = await _rounds(send, _more(held.record, held.approvals))
        except NotSent as error:
            answer = call.failure(f"{tool} has not run: {error}")
        except CallLost as error:
            await self._doubt(replace(held, approvals=await self._approvals(held.record)))
            return call.failure(
                f"It is not known whether {tool} has run: {error}. If it is called again with the "
                "same arguments, its policy says whether a person is asked or it runs again."
            )
        questions = [] if call.answers_input else elicitation.questions(answer)
        if questions is None:
            answer = call.failure(f"{tool} asks for input that the gate cannot request.")
            questions = []
        attempt = partial(self._finish, held, answer, questions)
        return await self._ledger.insist(partial(self._ledger.decide_again, attempt))

    async def _start(self, held: _Held) -> None:
        """Mark a call as started, by its approval or by the answers that it goes on with.

        Raises:
            Frozen: Its tool is frozen.
            NotStartable: It may not be started.
        """
        permission, *inputs = held.approvals
        if permission.handoff not in OVER:
            check = partial(require_startable, self._decisions)
            extras = Extras(also=held.hold.fence(Change()), on_commit=check)
            move = programs.Consume(held.hold.token)
            outcome = await self._decisions.take(permission.id, move, held.caller.actor, extras)
            outcome.approval_or_raise()
            return
        now, change = await self._ledger.now(), held.hold.fence(Change())
        app, tool = permission.origin.app, permission.call.name
        change.starting(app, [tool], despite=permission.despite)
        for one in inputs:
            await require_proven(self._decisions, one)
            after, events = one.hand_on(Handoff.STARTED, now=now, by=held.caller.app)
            change.put(after, was=one).note(events)
        await self._ledger.commit(change)

    async def _finish(
        self, held: _Held, answer: Answer, questions: Sequence[Question]
    ) -> Answer | None:
        """Record the answer of a call, or ask the questions of the server before it goes on."""
        caller, key = held.caller, held.key
        record = await records.load(self._ledger, key)
        if record is None or record.version != held.record.version:
            # It was recorded, but the reply to that commit was lost.
            return record.answered(key) if record is not None and record.answer else None
        permission, *inputs = await self._approvals(record)
        now, change = await self._ledger.now(), held.hold.fence(Change())
        for one in inputs:
            if one.handoff in _RUNS:
                ended, noted = one.hand_on(Handoff.FINISHED, now=now, by=caller.app)
                ended, more = ended.hand_on(Handoff.RESUMED, now=now, by=caller.app)
                change.put(ended, was=one).note((*noted, *more))
        note = answer.words[:_LONGEST_NOTE]
        if questions:
            after = await self._question(change, held, questions, answer, now)
            note = f"It asks: {'; '.join(one.message for one in questions)}"
        else:
            stored = answer
            if len(answer.text) > _LARGEST:
                said = f"{permission.call.name} has run. Its result was too large to be kept."
                stored = held.call.failure(said)
            after = record.model_copy(update={"kind": stored.kind, "answer": stored.text})
        records.put(change, key, after, was=record)
        if permission.handoff is Handoff.STARTED:
            move = programs.ReportOutcome(not answer.failed, note)
            extras = Extras(also=change, on_commit=_tell)
            outcome = await self._decisions.take(permission.id, move, caller.actor, extras)
            outcome.approval_or_raise()
        else:
            await self._ledger.commit(change)
        if questions:
            return None
        # The client that waits gets all of it.
        return replace(answer, receipt=f"{record.version + 1}:{key}")

    async def _question(
        self,
        change: Change,
        held: _Held,
        questions: Sequence[Question],
        answer: Answer,
        now: datetime,
    ) -> Record:
        """Add the questions of a server to a change: people are asked them."""
        asked: dict[str, str] = {}
        permission = held.approvals[0]
        for one in questions:
            approval, events = elicitation.opened(permission, one, now)
            change.put(approval, was=None).note(events).send(RouteApproval(approval=approval.id))
            asked[one.name] = approval.id
        run = await self._ledger.run(permission.origin.run)
        change.put(programs.waits_again(run, list(asked.values())), was=run)
        state = elicitation.state_of(answer)
        update = {"inputs": asked, "state": "" if state is None else json.dumps(state)}
        return held.record.model_copy(update=update)

    async def _doubt(self, held: _Held) -> None:
        """Follow the policy for a call that was started and not seen to finish."""
        now, change = await self._ledger.now(), held.hold.fence(Change())
        permission = held.approvals[0]
        started = [one for one in held.approvals if one.handoff is Handoff.STARTED]
        rule = permission.terms.in_doubt if permission.terms is not None else InDoubt.ASK
        retries = rule is InDoubt.RETRY and max(one.starts for one in started) < MOST_STARTS
        doubtful = []
        for one in started:
            after, events = programs.doubt(one, now=now)
            change.note(events)
            if retries:
                after, _ = after.hand_on(Handoff.RECORDED, now=now)
                program = after.program.not_started(after.program.until) if after.program else None
                after = after.model_copy(update={"program": program, "reported": False})
            else:
                tell_failure(change, after, events[0].why)
            change.put(after, was=one)
            doubtful.append(after)
        log.error("mcp.in_doubt", approval=permission.id, tool=permission.call.name)
        if retries or rule is InDoubt.FAIL:
            await self._ledger.commit(change)
            return
        if permission.handoff is Handoff.STARTED:
            question, events = reopening.ask_again(doubtful[0], now=now)
        else:
            question, events = elicitation.may_run_again(permission, doubtful[0], now)
        updated = held.record.model_copy(update={"approval": question.id})
        change.note(events)
        await add_question(self._ledger, change, question)
        await self._ledger.commit(records.put(change, held.key, updated, was=held.record))


@dataclass(frozen=True, slots=True)
class _Held:
    """A call that this process alone may run; for the key, see `Caller.key`."""

    caller: Caller
    call: Call
    key: str
    record: Record
    approvals: Sequence[Approval]
    hold: KeyLease


async def add_question(
    ledger: Ledger, change: Change, question: Approval, *, others: Sequence[str] = ()
) -> None:
    """Add to a change that a run waits for a new approval, besides others; the router gets it."""
    run = await ledger.run(question.origin.run)
    waits = programs.waits_again(run, [*others, question.id])
    change.put(question, was=None).put(waits, was=run)
    change.send(RouteApproval(approval=question.id))


async def _rounds(send: Send, more: Mapping[str, str]) -> Answer:
    """Make a call, and repeat it while the server only asks for the same call again.

    `more` is what it goes on with if the server has asked for input; else it is empty.

    Raises:
        NotSent: The server has not taken the call.
        CallLost: The server has the call. It has it from the first round on.
    """
    rounds = 0
    while True:
        try:
            answer = await send(more)
        except NotSent as error:
            if more:
                raise CallLost(str(error)) from error
            raise
        state = elicitation.bare_state(answer)
        if state is None or rounds == _MOST_ROUNDS:
            return answer
        await asyncio.sleep(min(0.05 * 2**rounds, _LOOK_AGAIN))
        more = {"requestState": json.dumps(state)}
        rounds += 1


async def _tell(change: Change, outcome: Outcome) -> None:
    if isinstance(outcome, Taken) and outcome.events:
        tell_result(change, outcome.approval)


def _more(record: Record, approvals: Sequence[Approval]) -> dict[str, str]:
    """Return the params that a call goes on with, once people have answered its server."""
    more: dict[str, str] = {}
    if record.inputs:
        given: dict[str, Any] = {
            name: elicitation.response(one)
            for name, one in zip(record.inputs, approvals[1:], strict=True)
        }
        more["inputResponses"] = json.dumps(given)
    if record.state:
        more["requestState"] = record.state
    return more
