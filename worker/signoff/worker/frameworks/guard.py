"""The guard: no call that needs an approval runs unapproved, with other arguments, or twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NoReturn

import structlog
from pydantic import JsonValue

from signoff.broker.freezes import Freezes
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.approvals.run import Run
from signoff.core.base.errors import (
    CallChanged,
    DigestMismatch,
    Frozen,
    NotCanonical,
    PauseNotRoutable,
    SignoffError,
    ToolInDoubt,
    TurnLost,
)
from signoff.core.base.freezes import covering
from signoff.core.payloads.digest import digest, require_canonical
from signoff.worker.frameworks.idempotency import running
from signoff.worker.port import Fence
from signoff.worker.refusals import refusal
from signoff.worker.running_tools import RunningTools, TurnStopped, keeping_process
from signoff.worker.starting import ApprovedCalls
from signoff.worker.turn_results import NOT_KEPT, VALID_FOR, kept_result

log = structlog.get_logger(__name__)

UNKNOWN: Final = "No approval is on record for this tool call."


@dataclass(frozen=True, slots=True)
class FrameworkCall:
    """A call that a framework is about to make.

    Attributes:
        id: The framework's id of the call.
        tool: The name of the tool, as the model calls it.
        args: The arguments that the tool would get.
        agent: The agent that makes the call.
        declared: The digest of what the tool declares.
        approved: Whether the framework considers the call approved.
        free: Whether the tool needs no approval for it, so that an approval with its id may be for
            another call.
        again: Whether the call enters its tool again each time it resumes, because the tool pauses
            itself. Such a tool has no effect of its own, and its calls go through the guard.
    """

    id: str
    tool: str
    args: dict[str, JsonValue]
    agent: str
    declared: str = ""
    approved: bool = False
    free: bool = False
    again: bool = False


class Guards:
    """Creates the guards of turns.

    Args:
        ledger: Stores the approvals.
        valid_for: How long an approval is valid if its policy does not say.
    """

    def __init__(self, ledger: Ledger, *, valid_for: timedelta = VALID_FOR) -> None:
        self.ledger = ledger
        self.calls = ApprovedCalls(ledger, valid_for)
        self.freezes = Freezes(ledger)
        self.running_tools = RunningTools()

    @contextmanager
    def of(self, run: Run, approvals: Sequence[Approval], fence: Fence) -> Iterator[CallGuard]:
        """Yield the guard of a turn, which lets the calls of these approvals run.

        Args:
            run: The run.
            approvals: The approvals whose answers the run has been given, the latest last.
            fence: Adds to a change the condition that we still hold the session's lease.

        Raises:
            SignoffError: The error that has stopped the turn, once all its tools have ended.
        """
        guard = CallGuard(self, run, approvals, fence)
        try:
            yield guard
        except TurnStopped as end:
            raise end.error from None
        finally:
            self.running_tools.forget_stop(guard.session)
        # The framework or the agent's own code may have caught the error.
        if guard.stopped is not None:
            raise guard.stopped


class CallGuard:
    """Checks every tool call of one turn, right before the tool's own code.

    Args:
        guards: What all guards share.
        run: The run.
        approvals: The approvals whose answers the run has been given, the latest last.
        fence: Adds to a change the condition that we still hold the session's lease.

    Attributes:
        made: The digests of the waiting calls in the stored state, by call id.
        stopped: The error that has stopped the turn, if any.
    """

    def __init__(
        self, guards: Guards, run: Run, approvals: Sequence[Approval], fence: Fence
    ) -> None:
        self._guards = guards
        self._ledger = guards.ledger
        self.run = run
        self.fence = fence
        self.session = (run.app, run.user, run.session)
        self.made: dict[str, str] = {}
        self.stopped: SignoffError | None = None
        self._expected = {one.call.id: one.id for one in approvals}

    def expects(self, call_id: str) -> bool:
        """Return whether a call was asked about."""
        return call_id in self._expected

    async def enter(
        self,
        call: FrameworkCall,
        same: Callable[[Approval], bool],
        inner: Callable[[], Awaitable[Any]],
        kept: Callable[[Any], JsonValue],
    ) -> Any:  # noqa: ANN401 -- a tool may return anything
        """Run a call, return its stored result, or return why it may not run.

        Args:
            call: The call.
            same: Returns whether the tool would get the arguments of an approval.
            inner: Runs the tool's own code; raises `ToolInDoubt` if it stops waiting for the tool,
                and `PauseNotRoutable` if the tool pauses and cannot be resumed.
            kept: Converts the tool's result to JSON.

        Returns:
            The result of the tool, or its stored result as JSON.

        Raises:
            TurnStopped: The call may not start now. All other tools of this turn have ended.
            LeaseLost: Another worker runs the session by now; the call was not started here.
            Exception: Whatever the tool raises.
        """
        tools, inner = self._guards.running_tools, partial(_own_code, inner)
        await tools.require_not_stopping(self.session)
        approval_id = self._expected.get(call.id) if call.approved else None
        if approval_id is not None and call.free and await self._is_other(approval_id, call, same):
            approval_id = None
        if approval_id is None:
            if call.approved and not call.free:
                log.error("guard.unknown_approval", tool=call.tool)
                return {"status": "rejected", "error": UNKNOWN}
            await self._require_thawed(call.tool)
            with tools.running(self.session):
                try:
                    return await inner()
                except Exception:
                    await tools.let_others_end(self.session)
                    raise
        with tools.running(self.session):
            return await self._enter(approval_id, call, same, inner, kept)

    async def _is_other(
        self, approval_id: str, call: FrameworkCall, same: Callable[[Approval], bool]
    ) -> bool:
        """Return whether an approval is for another call, because a model uses its ids again."""
        approval = await self._ledger.approval(approval_id)
        if (approval.call.name, approval.origin.agent) != (call.tool, call.agent):
            return True
        # Until it has run, other arguments mean that the call has changed.
        return not approval.is_to_run and not same(approval)

    async def _enter(
        self,
        approval_id: str,
        call: FrameworkCall,
        same: Callable[[Approval], bool],
        inner: Callable[[], Awaitable[Any]],
        kept: Callable[[Any], JsonValue],
    ) -> Any:  # noqa: ANN401 -- a tool may return anything
        approval = await self._ledger.approval(approval_id)
        if approval.state is not State.APPROVED:
            return refusal(approval)
        if approval.handoff is Handoff.FINISHED or (call.again and _has_run(approval)):
            log.info("tool.already_finished", approval=approval.id, tool=call.tool)
            return await inner() if call.again else json.loads(approval.result)
        try:
            await self._start(approval.id, call, same)
        except SignoffError as error:
            await self._stop(error)
        if call.again:
            await self._finish(approval.id, None)
            return await inner()
        try:
            with running(approval.origin):
                result = await inner()
        except ToolInDoubt as error:
            await self._stop(error)
        except Exception as error:
            # The tool has run. A cancelled tool may or may not have: it stays in doubt.
            problem = f"{type(error).__name__}: {error}"
            await self._finish(approval.id, {"error": problem}, why=f"it raised {problem}")
            if isinstance(error, PauseNotRoutable):
                await self._stop(error)
            await self._guards.running_tools.let_others_end(self.session)
            raise
        try:
            stored = kept(result)
        except Exception:  # noqa: BLE001 -- a class may raise anything; the tool has run anyway
            stored = NOT_KEPT
        await self._finish(approval.id, stored)
        return result

    @asynccontextmanager
    async def holding(self, approvals: Sequence[Approval]) -> AsyncIterator[None]:
        """Mark code of the agent as started, and as finished when the body ends.

        Raises:
            TurnLost: The code has run before, and its result was not kept.
            SignoffError: The code may not start; see `signoff.worker.starting`.
        """
        fresh = await self._ledger.approvals([one.id for one in approvals])
        if ran := [f"{one.call.name}()" for one in fresh if one.handoff is Handoff.FINISHED]:
            raise TurnLost(
                f"Run {self.run.id} of {self.run.app} was cut off when {', '.join(ran)} had run: "
                "what the agent came to by it was not kept. What it had still to do was not done. "
                "Look at what was done, and submit the rest again."
            )
        for one in approvals:
            call = FrameworkCall(one.call.id, one.call.name, dict(one.call.args), one.origin.agent)
            call = replace(call, declared=one.declared)
            await self._start(one.id, call, lambda _: True)
        try:
            yield
        except Exception as error:
            for one in approvals:
                problem = f"{type(error).__name__}: {error}"
                await self._finish(one.id, {"error": problem}, why=f"it raised {problem}")
            raise
        for one in approvals:
            await self._finish(one.id, None)

    async def _stop(self, error: SignoffError) -> NoReturn:
        """End the turn with an error, even if the framework handles it."""
        self.stopped = self.stopped or error
        await self._guards.running_tools.stop_turn(self.session, error)

    async def _require_thawed(self, tool: str) -> None:
        found = covering(await self._guards.freezes.all(), self.run.app, (tool,))
        if found:
            await self._stop(Frozen(found[0], tool))

    async def _start(
        self, approval_id: str, call: FrameworkCall, same: Callable[[Approval], bool]
    ) -> None:
        async def prepare(approval: Approval, now: datetime) -> Sequence[str]:
            self._guards.calls.require_startable(approval, now)
            made = self.made.get(call.id, "")
            if change := changed(approval, call, self.run, same=same(approval), made=made):
                raise change
            return (call.tool,)

        await self._guards.calls.start(approval_id, self.fence, prepare)

    async def _finish(self, approval_id: str, result: JsonValue, *, why: str = "") -> None:
        try:
            await self._guards.calls.finish(
                approval_id, self.fence, why=why, result=kept_result(result)
            )
        except SignoffError as error:
            await self._stop(error)


async def _own_code(inner: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 -- a tool may return anything
    with keeping_process():
        return await inner()


def _has_run(approval: Approval) -> bool:
    """Return whether a call was started in an earlier turn of the run, and has finished."""
    return approval.handoff is Handoff.RESUMED and bool(approval.starts)


def changed(
    approval: Approval, call: FrameworkCall, run: Run, *, same: bool, made: str
) -> CallChanged | None:
    """Return what has changed since a call was asked about; None if nothing has.

    Args:
        approval: The approval.
        call: The call that would run.
        run: The run that makes the call.
        same: Whether its arguments are equivalent to the approved ones.
        made: The digest of the call in the stored state.

    Raises:
        DigestMismatch: Another tool would run, or the arguments have no digest.
    """
    if call.tool != approval.call.name:
        raise DigestMismatch(
            f"Approval {approval.id} is for {approval.call.name}(), not {call.tool}()."
        )
    # If the declaration of the tool was not recorded, it is not compared.
    declared = call.declared if approval.declared else ""
    was = approval.origin.agent
    here = approval.origin.model_copy(
        update={"app": run.app, "user": run.user, "agent": call.agent}
    )
    args = approval.call.args if same else call.args
    try:
        if approval.digest_of(call.tool, args, origin=here, declared=declared) == approval.digest:
            return None
        would_be = digest(call.tool, args)
        changed_args = would_be != digest(approval.call.name, approval.call.args)
    except NotCanonical as error:
        raise DigestMismatch(f"Approval {approval.id}: {error}") from error
    why = {
        f"It was asked for by the agent {was}, and {call.agent} would call it now.": call.agent
        != was,
        f"{call.tool}() declares other parameters by now.": declared != approval.declared,
    }
    reasons = [reason for reason, holds in why.items() if holds]
    if changed_args or not reasons:
        reasons.insert(0, "Its arguments have changed since it was asked about.")
    return CallChanged(
        approval.id,
        " ".join(reasons),
        tool=call.tool,
        arguments=args,
        origin={"agent": call.agent, "made": "" if made == would_be else made},
        declared=declared,
    )


def declared_by(schema: object) -> str:
    """Return ``sha256:`` and 64 hex digits over the JSON schema of a tool's parameters."""
    try:
        canonical = require_canonical(schema, "What a tool declares")  # type: ignore[arg-type] # it raises NotCanonical itself
    except NotCanonical:
        return ""
    return "sha256:" + hashlib.sha256(canonical).hexdigest()


def same_args(one: dict[str, JsonValue], other: dict[str, JsonValue]) -> bool:
    """Return whether the arguments of two calls of a tool have the same digest."""
    try:
        return digest("", one) == digest("", other)
    except NotCanonical:
        return False
