"""The requests of instances: submitted, waited for, cancelled, consumed and reported."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import structlog

from signoff.broker.decisions import Decisions, Extras, Outcome, Taken
from signoff.broker.effects import tell_result
from signoff.broker.ledger.change import Change
from signoff.broker.work import DoubtCall
from signoff.channels.aap import wire
from signoff.channels.aap.faults import Fault, not_found
from signoff.channels.aap.instances import Instance, load
from signoff.channels.aap.opening import opening, require_startable
from signoff.channels.aap.waiting import Waiting
from signoff.channels.aap.wire import Submission
from signoff.core.approvals import programs
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.moves import Move
from signoff.core.approvals.parts import Origin, Program, ToolCall, approval_id
from signoff.core.base.errors import ApprovalNotFound, Conflict, LedgerError
from signoff.core.base.hiding import Hidden

log = structlog.get_logger(__name__)

DecideUnasked = Callable[[str], Awaitable[bool]]
"""Decides an approval at once, if nobody has to be asked."""

Hides = Callable[[], Hidden]
"""Returns the arguments that any of the current policies hides."""


class Requests:
    """Handles the requests of instances.

    Args:
        decisions: Makes the moves.
        decide: Decides a request at once if nobody has to be asked.
        hides: Returns the arguments to hide in a call until its policy is known.
        valid_for: How long an approval is valid if its policy does not say.
        report_within: How long a started call may stay unreported before it is in doubt.
    """

    def __init__(
        self,
        decisions: Decisions,
        decide: DecideUnasked,
        hides: Hides,
        *,
        valid_for: timedelta,
        report_within: timedelta,
    ) -> None:
        self._decisions = decisions
        self._ledger = decisions.ledger
        self._decide = decide
        self._hides = hides
        self._valid_for = valid_for
        self._report_within = report_within
        self.waiting = Waiting(decisions.ledger.store)

    async def submit(self, instance: Instance, key: str, body: bytes) -> tuple[Approval, bool]:
        """Submit a request; return it, and whether it is new.

        Raises:
            Fault: It has the wrong form, its key belongs to another one, or the instance is gone.
            NotCanonical: The arguments cannot be kept.
        """
        submission = wire.read(Submission, body)
        request = programs.request_id(instance.id, key)
        origin = programs.origin_of(
            instance.id, request, app=instance.app, agent=instance.name, user=instance.user
        )
        found = await self._find(approval_id(origin))
        if found is None:
            found = await self._opened(instance, origin, submission, wire.members(body))
            if found is not None:
                return found, True
            found = await self._ledger.approval(approval_id(origin))
        if found.program is None or not wire.is_same_request(found.program, submission):
            raise Fault(
                409,
                "idempotency_conflict",
                "The idempotency key was already used for a different request.",
            )
        return found, False

    async def _opened(
        self, instance: Instance, origin: Origin, submission: Submission, raw: dict[str, str]
    ) -> Approval | None:
        """Open a request, and decide it if nobody has to be asked. None if it exists already."""
        now = await self._ledger.now()
        approval, change = await self._opening(origin, submission, raw, now)
        try:
            await self._ledger.commit(change)
        except Conflict:
            return None
        log.info("aap.submitted", approval=approval.id, instance=instance.id)
        there = await load(self._ledger, instance.id)
        if there is None or there.deleted_at is not None:
            # The instance was deleted meanwhile, perhaps without withdrawing this request.
            await self._decisions.take(approval.id, programs.Cancel(), instance.actor)
            raise unauthenticated()
        try:
            await self._decide(approval.id)
        except LedgerError as error:
            # The stage `route` decides it later.
            log.info("aap.not_decided_at_once", approval=approval.id, why=str(error))
        return await self._ledger.approval(approval.id)

    async def _opening(
        self, origin: Origin, submission: Submission, raw: dict[str, str], now: datetime
    ) -> tuple[Approval, Change]:
        sent = submission.model_fields_set
        program = Program(
            instance=origin.session,
            request=origin.confirmation,
            tool=submission.tool,
            server=submission.server,
            arguments=raw["arguments"],
            context=raw.get("context", ""),
            reasoning=submission.agent_reasoning if "agent_reasoning" in sent else None,
            timeout=submission.timeout,
            until=now + wire.length_of(submission.timeout),
            valid_for=self._valid_for,
        )
        args = {name: wire.shown(one) for name, one in submission.arguments.items()}
        call = ToolCall(id=origin.confirmation, name=tool_of(submission), args=args)
        return await opening(
            self._ledger,
            origin,
            call,
            program,
            hide=self._hides(),
            said=submission.agent_reasoning,
        )

    async def wait(self, instance: Instance, request: str, *, within: float) -> Approval:
        """Return a request once it is decided, or undecided after `within` seconds.

        Raises:
            Fault: The instance has no such request.
        """
        name = self._name(instance, request)

        async def read() -> Approval:
            return await self._seen(name)

        return await self.waiting.decided(name, read, within=within)

    async def cancel(self, instance: Instance, request: str) -> Approval:
        """Withdraw a request.

        Raises:
            Fault: The instance has no such request.
            IllegalMove: It has ended otherwise.
        """
        return await self._take(instance, request, programs.Cancel(), Extras())

    async def consume(self, instance: Instance, request: str, key: str) -> Approval:
        """Start the call of a request, once.

        Raises:
            Fault: The instance has no such request.
            NotStartable: It cannot be started, or was.
            Frozen: The tool is frozen.
        """

        async def on_commit(change: Change, outcome: Outcome) -> None:
            await require_startable(self._decisions, change, outcome)
            if isinstance(outcome, Taken) and outcome.events:
                work = DoubtCall(approval=outcome.approval.id)
                change.send(work, after=self._report_within.total_seconds())

        extras = Extras(on_commit=on_commit)
        return await self._take(instance, request, programs.Consume(key), extras)

    async def report(self, instance: Instance, request: str, body: bytes) -> Approval:
        """Record the result of the call of a request.

        Raises:
            Fault: The report has the wrong form, or the instance has no such request.
            ReportRefused: The call was not started, or something else was reported.
        """
        said = wire.read(wire.Outcome, body)

        async def on_commit(change: Change, outcome: Outcome) -> None:
            if isinstance(outcome, Taken) and outcome.events:
                tell_result(change, outcome.approval)

        move = programs.ReportOutcome(said.status == "succeeded", said.note)
        return await self._take(instance, request, move, Extras(on_commit=on_commit))

    async def _take(self, instance: Instance, request: str, move: Move, extras: Extras) -> Approval:
        name = self._name(instance, request)
        await self._seen(name)
        outcome = await self._decisions.take(name, move, instance.actor, extras)
        outcome.approval_or_raise()
        return await self._ledger.approval(name)

    def _name(self, instance: Instance, request: str) -> str:
        """Return the id of the approval of a request.

        The id depends on the instance, so no instance finds the requests of another one.
        """
        origin = programs.origin_of(
            instance.id, request, app=instance.app, agent="", user=instance.user
        )
        return approval_id(origin)

    async def _find(self, name: str) -> Approval | None:
        try:
            return await self._ledger.approval(name)
        except ApprovalNotFound:
            return None

    async def _seen(self, name: str) -> Approval:
        found = await self._find(name)
        if found is None or found.program is None:
            raise not_found()
        return found


def tool_of(submission: Submission) -> str:
    """Return a tool's name in policies: ``server.tool`` for the tool of an MCP server."""
    return f"{submission.server}.{submission.tool}" if submission.server else submission.tool


def unauthenticated() -> Fault:
    """Return the fault of a credential that is not valid."""
    return Fault(401, "invalid_credential", "The credential is missing, revoked or expired.")
