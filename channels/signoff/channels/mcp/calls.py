"""Calls of a client: asked about, waited for, run once, and answered.

Until a client has the answer, a call with the same arguments in the same session is the same call.
So a client that has given up waiting, or was restarted, does not make a second call: it gets the
answer of the one that is under way.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import structlog

from signoff.broker.decisions import Decisions
from signoff.broker.ledger.change import Change
from signoff.channels.aap.opening import opening
from signoff.channels.aap.requests import DecideUnasked, Hides
from signoff.channels.aap.waiting import Waiting
from signoff.channels.aap.wire import LONGEST
from signoff.channels.mcp import records
from signoff.channels.mcp.messages import Answer, Call
from signoff.channels.mcp.records import Caller, Record
from signoff.channels.mcp.running import OVER, Runner, Send, add_question
from signoff.core.approvals import programs, reopening
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.approvals.parts import Program, ToolCall
from signoff.core.base.errors import ApprovalNotFound, LedgerError, SignoffError

log = structlog.get_logger(__name__)

Tell = Callable[[str], Awaitable[None]]
"""Tells the client what it waits for; called repeatedly."""

_ENDS_WITHIN: Final = 5.0
_EVERY: Final = 10.0


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
        self._runner = Runner(decisions)
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
            runs_by = approvals if permission.handoff in OVER else [permission]
            if doubtful := [one for one in runs_by if one.handoff is Handoff.IN_DOUBT]:
                return call.failure(_in_doubt(doubtful[0]))
            if all(one.handoff in OVER for one in runs_by):
                # Somebody has settled what was in doubt.
                settled = call.failure(_settled(runs_by[-1]))
                return replace(settled, receipt=records.receipt_of(key, record))
            started = any(one.handoff is Handoff.STARTED for one in approvals)
            if tried and started and (self._closed or loop.time() >= ends):
                # Another process runs it, or the lease of a dead one has not run out yet.
                return call.failure(_runs(permission))
            tried, made = True, self._runner.run(caller, call, key, record, send)
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
            await add_question(self._ledger, change, question, others=others)
            await self._ledger.commit(records.put(change, key, updated, was=record))
            return True
        return False


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
