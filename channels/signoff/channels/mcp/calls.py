"""Calls of a client: asked about, waited for, run once, and answered.

Until a client has the answer, a call with the same arguments in the same session is the same call.
So a client that has given up waiting, or was restarted, does not make a second call: it gets the
answer of the one that is under way.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import structlog

from signoff.broker.decisions import Decisions, Extras, Outcome, Taken
from signoff.broker.effects import tell_failure, tell_result
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.lease import KeyLease, kept
from signoff.broker.work import RouteApproval
from signoff.channels.aap.opening import opening, require_proven, require_startable
from signoff.channels.aap.requests import DecideUnasked, Hides
from signoff.channels.aap.waiting import Waiting
from signoff.channels.aap.wire import LONGEST
from signoff.channels.mcp import elicitation, records
from signoff.channels.mcp.elicitation import Question
from signoff.channels.mcp.messages import Answer, Call
from signoff.channels.mcp.records import Caller, Record
from signoff.core.approvals import programs, reopening
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.approvals.parts import Program, ToolCall
from signoff.core.base.errors import (
    ApprovalNotFound,
    Frozen,
    LeaseLost,
    LedgerError,
    ProgramRefused,
    SignoffError,
)
from signoff.core.policies.policy import InDoubt

log = structlog.get_logger(__name__)

Send = Callable[[Mapping[str, str]], Awaitable[Answer]]
"""Sends a call to the server, with more members of its params, and returns the answer."""

Tell = Callable[[str], Awaitable[None]]
"""Tells the client what it waits for; called repeatedly."""

MOST_STARTS: Final = 3
"""How often a call is started on one approval if its policy has ``in_doubt = "retry"``."""

_ENDS_WITHIN: Final = 5.0
_LEASE: Final = 10.0
_EVERY: Final = 10.0
_LOOK_AGAIN: Final = 1.0
_MOST_ROUNDS: Final = 10
_LONGEST_NOTE: Final = 4_000
_LARGEST: Final = 256 * 1024
_OVER: Final = frozenset({Handoff.FINISHED, Handoff.RESUMED})
_RUNS: Final = frozenset({Handoff.STARTED, Handoff.IN_DOUBT})


class NotSent(Exception):
    """The server has not taken the call, so it has not run."""


class CallLost(Exception):
    """The server has the call, but its answer is lost: the call may have run or not."""


class Calls:
    """The calls of all clients of a gate.

    Args:
        decisions: Makes the moves.
        decide: Decides a call at once if nobody has to be asked.
        hides: Returns the arguments to hide in a call until its policy is known.
        valid_for: How long an approval is valid if its policy does not say.
        wait: How many seconds a client waits for a decision before it has to call again.
    """

    def __init__(
        self,
        decisions: Decisions,
        decide: DecideUnasked,
        hides: Hides,
        *,
        valid_for: timedelta,
        wait: float,
    ) -> None:
        self._decisions = decisions
        self._ledger = decisions.ledger
        self._decide = decide
        self._hides = hides
        self._valid_for = valid_for
        self._wait = wait
        self._running: dict[str, asyncio.Task[Answer | None]] = {}
        self._closed = False
        self.waiting = Waiting(decisions.ledger.store)

    async def answer(  # noqa: PLR0911 -- one for each way to end
        self, caller: Caller, call: Call, send: Send, tell: Tell
    ) -> Answer:
        """Return the answer for a client: the result, or why there is none.

        Args:
            caller: The client.
            call: The call.
            send: Sends it to the server. The call goes on if the client disconnects.
            tell: Tells the client that it waits.

        Raises:
            NotCanonical: The arguments cannot be kept.
            LedgerError: Redis cannot be reached.
        """
        key, loop = caller.key(call), asyncio.get_running_loop()
        ends, tried = loop.time() + self._wait, False
        while True:
            if (running := self._running.get(key)) is not None:
                # Cancelling one client that waits does not cancel the call.
                if (answer := await asyncio.shield(running)) is not None:
                    return answer
                continue
            record, approvals = await self._known(caller, call, key)
            if key in self._running:
                continue  # another client has started it meanwhile
            if record.answer:
                return record.answered(key)
            if waits := [one for one in approvals if one.state is State.PENDING]:
                if self._closed or loop.time() >= ends:
                    return call.failure(_still_waits(caller.tool(call), waits))
                names = ", ".join(one.id for one in waits)
                await tell(f"Waiting for a decision about {names}")
                within = min(_EVERY, ends - loop.time())
                read = partial(self._ledger.approval, waits[0].id)
                await self.waiting.decided(waits[0].id, read, within=within)
                continue
            permission = approvals[0]
            if permission.state is not State.APPROVED:
                receipt = records.receipt_of(key, record)
                return replace(call.failure(_why_not(permission)), receipt=receipt)
            # A call that has run goes on with the answers to the questions of its server.
            runs_by = approvals if permission.handoff in _OVER else [permission]
            if doubtful := [one for one in runs_by if one.handoff is Handoff.IN_DOUBT]:
                return call.failure(_in_doubt(doubtful[0]))
            if all(one.handoff in _OVER for one in runs_by):
                # Somebody has settled what was in doubt.
                settled = call.failure(_settled(runs_by[-1]))
                return replace(settled, receipt=records.receipt_of(key, record))
            started = any(one.handoff is Handoff.STARTED for one in approvals)
            if tried and started and (self._closed or loop.time() >= ends):
                # Another process runs it, or the lease of a dead one has not run out yet.
                return call.failure(_runs(permission))
            tried, made = True, self._run(caller, call, key, record, send)
            task = self._running[key] = asyncio.create_task(made)
            task.add_done_callback(partial(self._ended, key))
            if (answer := await asyncio.shield(task)) is not None:
                return answer

    async def answer_always(self, caller: Caller, call: Call, send: Send, tell: Tell) -> Answer:
        """Do what `answer` does; the model also gets errors of the gate as an answer."""
        try:
            return await self.answer(caller, call, send, tell)
        except SignoffError as error:
            log.warning("mcp.not_answered", tool=call.tool, error=str(error))
            return call.failure(f"{caller.tool(call)} could not be asked about: {error}")

    async def delivered(self, answer: Answer) -> None:
        """Forget a call once its client has the answer: the same call is then a new one."""
        if answer.receipt:
            try:
                await self._ledger.commit(records.release(answer.receipt))
            except LedgerError as error:
                log.info("mcp.not_released", why=str(error))

    def close(self) -> None:
        """End all waiting, because the process stops."""
        self._closed = True
        self.waiting.close()

    async def ended(self) -> None:
        """Wait a few seconds for the results of running calls, even if no client waits for them."""
        if self._running:
            await asyncio.wait(self._running.values(), timeout=_ENDS_WITHIN)

    def _ended(self, key: str, task: asyncio.Task[Answer | None]) -> None:
        del self._running[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("mcp.failed", error=str(error))

    # Asking.

    async def _known(self, caller: Caller, call: Call, key: str) -> tuple[Record, list[Approval]]:
        """Return the call that is under way and its approvals; open a new one if there is none."""

        async def attempt() -> tuple[Record, list[Approval]]:
            record = await records.load(self._ledger, key)
            if record is not None:
                try:
                    found = [await self._ledger.approval(one) for one in record.all]
                except ApprovalNotFound:
                    if record.answer:
                        return record, []  # archived before the client got it
                    log.warning("mcp.approval_is_gone", approval=record.approval)
                else:
                    if record.answer or not await self._is_spent(key, record, found):
                        return record, found
                    return await attempt()
            return await self._opened(caller, call, key, was=record)

        return await self._ledger.decide_again(attempt)

    async def _opened(
        self, caller: Caller, call: Call, key: str, *, was: Record | None
    ) -> tuple[Record, list[Approval]]:
        request = str(uuid.uuid4())
        origin = programs.origin_of(
            caller.session, request, app=caller.app, agent=caller.app, user=caller.user
        )
        now = await self._ledger.now()
        approval, change = await opening(
            self._ledger,
            origin,
            ToolCall(id=request, name=caller.tool(call), args=call.arguments),
            self._program(caller, call, request, now),
            hide=self._hides(),
        )
        record = Record(approval=approval.id)
        await self._ledger.commit(records.put(change, key, record, was=was))
        log.info("mcp.asked", approval=approval.id, tool=approval.call.name)
        try:
            await self._decide(approval.id)
        except LedgerError as error:
            # The stage `route` decides it later.
            log.info("mcp.not_decided_at_once", approval=approval.id, why=str(error))
        version = 1 if was is None else was.version + 1
        approvals = [await self._ledger.approval(approval.id)]
        return record.model_copy(update={"version": version}), approvals

    def _program(self, caller: Caller, call: Call, request: str, now: datetime) -> Program:
        return Program(
            instance="",
            request=request,
            tool=call.tool,
            server=caller.server,
            arguments=call.params.get("arguments", "{}"),
            timeout=f"{LONGEST // timedelta(hours=1)}h",
            until=now + LONGEST,
            valid_for=self._valid_for,
        )

    async def _is_spent(self, key: str, record: Record, approvals: Sequence[Approval]) -> bool:
        """Ask again if an approval has expired or is not proven; return whether that was done."""
        now, receipts = await self._ledger.now(), self._ledger.receipts
        permission, *inputs = approvals
        # The answers to a server's questions start the call again, once it has run.
        for one in [permission] if permission.is_to_run else inputs:
            if one.handoff is not Handoff.RECORDED:
                continue
            if receipts is not None and (why := receipts.why_refused(one, now)):
                again = reopening.void(one, why=why, now=now)
            elif one.has_expired(now, self._valid_for):
                again = reopening.expire(one, now=now, valid_for=self._valid_for)
            else:
                continue
            after, question, events = again
            change = Change().put(after, was=one).note(events)
            others = [other.id for other in inputs if other.state is State.PENDING]
            updated = record.replaced(one.id, question.id)
            await self._ask(change, key, record, question, updated, others=others)
            return True
        return False

    async def _ask(
        self,
        change: Change,
        key: str,
        record: Record,
        question: Approval,
        updated: Record,
        *,
        others: Sequence[str] = (),
    ) -> None:
        """Let a call wait for another approval, in the change that ends the earlier one.

        Args:
            change: The change.
            key: The key of the call.
            record: The record of the call.
            question: The other approval.
            updated: The record with that approval.
            others: The approvals that the call waits for besides.
        """
        run = await self._ledger.run(question.origin.run)
        waits = programs.waits_again(run, [*others, question.id])
        change.put(question, was=None).put(waits, was=run)
        change.send(RouteApproval(approval=question.id))
        await self._ledger.commit(records.put(change, key, updated, was=record))

    # Running.

    async def _run(
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
        if permission.handoff not in _OVER:
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
        await self._ask(change.note(events), held.key, held.record, question, updated)


@dataclass(frozen=True, slots=True)
class _Held:
    """A call that this process alone may run.

    Attributes:
        caller: The client.
        call: The call.
        key: See `Caller.key`.
        record: Its record.
        approvals: The approvals of the record.
        hold: The lease.
    """

    caller: Caller
    call: Call
    key: str
    record: Record
    approvals: Sequence[Approval]
    hold: KeyLease


async def _rounds(send: Send, more: Mapping[str, str]) -> Answer:
    """Make a call, and repeat it while the server only asks for the same call again.

    Args:
        send: Sends the call to the server.
        more: What the call goes on with if the server has asked for input; else empty.

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


def _still_waits(tool: str, approvals: Sequence[Approval]) -> str:
    names = ", ".join(one.id for one in approvals)
    return (
        f"{tool} still waits for the decision of a person ({names}). To wait on, and to get its "
        "result, call it again later with exactly the same arguments; nobody is asked twice."
    )


def _runs(approval: Approval) -> str:
    return (
        f"{approval.call.name} is running. To get its result, call it again later with exactly the "
        "same arguments."
    )


def _why_not(approval: Approval) -> str:
    note = programs.note_of(approval)
    return f"{approval.call.name} has not run: it was {approval.outcome()}." + (
        f"\n{note}" if note else ""
    )


def _in_doubt(approval: Approval) -> str:
    return (
        f"{approval.call.name} was started, and it is not known whether it has happened "
        f"({approval.id}). Its policy does not let it run again. A person has to look."
    )


def _settled(approval: Approval) -> str:
    said = f" Its recorded result: {approval.result}" if approval.result else ""
    return f"{approval.call.name} was in doubt, and is settled: it does not run again.{said}"
