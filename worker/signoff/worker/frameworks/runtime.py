"""The common runtime of the frameworks: starts and resumes runs, each to its next pause."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pydantic import JsonValue

from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.input.rules import InputRule
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.approvals.parts import Kind, Origin, ToolCall
from signoff.core.approvals.run import Run
from signoff.core.base.errors import AnswerNotTaken, InvalidRun, SessionGone
from signoff.core.payloads.digest import digest
from signoff.core.policies.policy import Edits
from signoff.worker.frameworks.adapter import Adapter, CallAnswer, FrameworkTurn, WaitingCall
from signoff.worker.frameworks.guard import FrameworkCall, Guards, changed, same_args
from signoff.worker.frameworks.loading import Agents
from signoff.worker.frameworks.sessions import FrameworkSessions, LeasedSession, Said, StoredTurn
from signoff.worker.port import Fence, Pause, TurnResult
from signoff.worker.refusals import input_value, refusal_text
from signoff.worker.turn_results import VALID_FOR


@dataclass(frozen=True, slots=True)
class FrameworkRuntime:
    """Runs agents of other frameworks than ADK in this process.

    Attributes:
        agents: The agents.
        guards: Check the calls of their tools.
        sessions: Store their states.
        inputs: What a plain yes or no means for requests for input without a schema.
    """

    agents: Agents
    guards: Guards
    sessions: FrameworkSessions
    inputs: Sequence[InputRule] = ()

    async def start(self, run: Run, fence: Fence) -> TurnResult:
        """Send the user's message; a retry sends it again, unless the agent has paused.

        Raises:
            AppNotFound: The agent does not load.
            SessionGone: The session belongs to another framework.
            InvalidRun: Another run of the session waits, and the framework has one state for all.
            LeaseLost: Another worker runs the session by now.
            Frozen: A tool that it comes to is frozen; it was not started.
            Exception: Whatever the agent raises.
        """
        agent, adapter = self.agents.load(run.app)
        held = await self.sessions.open(run, adapter.name)
        if end := held.stored.ended.get(run.id):
            return TurnResult(text=end.text)
        turn = held.stored.turns.get(run.id)
        if turn is None or not turn.pause:
            await self.sessions.forget_ended(held, run)
            if not adapter.forks:
                _require_alone(held, run)
        if turn is None:
            said = Said("user", run.message)
            await self.sessions.write(held, run, held.begun(run), said, fence)
        elif turn.pause:
            return _paused(run, turn, list(_by_id(run, adapter, turn.state).values()))
        with self.guards.of(run, (), fence) as guard:
            outcome = await adapter.begin(agent, run.message, held.stored.history, guard)
        return await self._keep(held, run, adapter, outcome, fence)

    async def resume(self, run: Run, approvals: Sequence[Approval], fence: Fence) -> TurnResult:
        """Answer a whole pause; a retry does not answer twice.

        If approvers have changed calls, and are allowed to, nothing is answered yet: the changed
        calls become new approvals, and wait.

        Raises:
            SessionGone: The session, or a call in it, no longer exists.
            CallChanged: A call is not the approved one; it is asked about again.
            DigestMismatch: It is a call of another tool.
            ToolInDoubt: A tool was started before and not seen to finish.
            AnswerNotTaken: The framework got an approval, and has not run the tool.
            InputRefused: A request for input was rejected, and it has no form of refusal.
            TurnLost: Code of the agent has run, and the worker died before its state was stored.
            LeaseLost: Another worker runs the session by now; the tool was not started here.
            Frozen: A tool that it comes to is frozen; it was not started.
            Exception: Whatever the agent raises.
        """
        agent, adapter = self.agents.load(run.app)
        held = await self.sessions.open(run, adapter.name)
        ids = [one.id for one in approvals]
        end, turn = held.stored.ended.get(run.id), held.stored.turns.get(run.id)
        if end is not None and set(ids) <= set(end.answered):
            return TurnResult(text=end.text)
        if turn is None or not turn.pause:
            raise SessionGone(
                f"Session {run.session} of {run.user} in {run.app} does not have the pause of run "
                f"{run.id} any more; the answer cannot be given to anybody. Submit the run again."
            )
        waiting = _by_id(run, adapter, turn.state)
        if set(ids) <= set(turn.answered):
            return _paused(run, turn, list(waiting.values()))
        if edits := [one for one in approvals if _is_edit(one, waiting)]:
            kept = tuple(one.id for one in approvals if one not in edits)
            return TurnResult(pauses=tuple(_edited(run, one) for one in edits), kept=kept)
        _require_same(run, approvals, waiting)
        if not adapter.knows_gates:
            _require_untouched(run, approvals, turn.state)
        answers = {
            one.call.id: _answer(one, waiting[one.call.id], self.inputs) for one in approvals
        }
        earlier = await self.guards.ledger.approvals(turn.answered)
        with self.guards.of(run, [*earlier, *approvals], fence) as guard:
            guard.made |= {id_: digest(one.tool, one.args) for id_, one in waiting.items()}
            async with guard.holding(_in_no_tool(approvals, waiting)):
                outcome = await adapter.resume(agent, turn.state, answers, guard)
        await self._require_taken(run, approvals)
        return await self._keep(held, run, adapter, outcome, fence, answered=[*turn.answered, *ids])

    async def resumes_each(self, run: Run, approvals: Sequence[Approval]) -> bool:
        """Return False: the frameworks resume only when all calls of a pause are answered."""
        return False

    async def _keep(
        self,
        held: LeasedSession,
        run: Run,
        adapter: Adapter,
        outcome: FrameworkTurn,
        fence: Fence,
        *,
        answered: Sequence[str] = (),
    ) -> TurnResult:
        if outcome.paused:
            waiting = list(_by_id(run, adapter, outcome.state).values())
            after = held.pausing(run, outcome.state, answered)
            said = Said(run.app, waiting[0].said, waiting)
            await self.sessions.write(held, run, after, said, fence)
            return _paused(run, after.turns[run.id], waiting)
        history = adapter.longer(held.stored.history, outcome.state)
        after = held.ending(run, history, answered, outcome.text)
        await self.sessions.write(held, run, after, Said(run.app, outcome.text), fence)
        return TurnResult(text=outcome.text)

    async def _require_taken(self, run: Run, approvals: Sequence[Approval]) -> None:
        """Require that the tool of each approved call has run.

        Raises:
            AnswerNotTaken: A tool has not run.
        """
        approved = [one.id for one in approvals if one.lets_run]
        fresh = await self.guards.ledger.approvals(approved)
        if lost := [f"{one.call.name}()" for one in fresh if one.handoff is Handoff.RECORDED]:
            raise AnswerNotTaken(
                f"The agent of run {run.id} of {run.app} was given the answer, and has not run "
                f"{', '.join(dict.fromkeys(lost))}: the framework or the agent's own code has "
                "stopped it before the tool. Nothing was run; submit the run again."
            )


def _by_id(run: Run, adapter: Adapter, state: object) -> dict[str, WaitingCall]:
    """Return the calls that wait in a state, by their ids.

    Raises:
        SessionGone: The state cannot be read, or two calls have one id.
    """
    try:
        waiting = adapter.waiting(state)  # type: ignore[arg-type] # JSON, as it was stored
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise SessionGone(
            f"The stored state of run {run.id} of {run.app} cannot be read: {error}. Submit the "
            "run again."
        ) from error
    found = {one.id: one for one in waiting}
    if not found or len(found) < len(waiting):
        raise SessionGone(
            f"The stored state of run {run.id} of {run.app} does not say which calls wait: no "
            "call, or two with one id. Submit the run again."
        )
    return found


def _paused(run: Run, turn: StoredTurn, waiting: Sequence[WaitingCall]) -> TurnResult:
    """Return a turn that waits for these calls.

    The id of the request contains the number of the pause, because models reuse ids of calls. It
    also contains a digest of the state, so that the state is part of what is approved.
    """
    prefix = f"{run.invocation}/{turn.pause}/{_mark(turn.state)}"
    return TurnResult(
        pauses=tuple(
            Pause(
                origin=Origin(
                    run=run.id,
                    app=run.app,
                    agent=one.agent or run.app,
                    user=run.user,
                    session=run.session,
                    invocation=run.invocation,
                    confirmation=f"{prefix}/{one.id}",
                ),
                kind=one.kind,
                call=ToolCall(id=one.id, name=one.tool, args=one.args),
                hint=one.hint,
                said=one.said,
                declared=one.declared,
            )
            for one in waiting
        )
    )


def _mark(state: JsonValue) -> str:
    """Return a digest of a state: 32 hex digits."""
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:32]


def _require_alone(held: LeasedSession, run: Run) -> None:
    """Refuse to begin a run in a session in which another run waits.

    Raises:
        InvalidRun: Another run waits.
    """
    others = [id_ for id_, one in held.stored.turns.items() if id_ != run.id and one.pause]
    if others:
        raise InvalidRun(
            f"Run {others[0]} in session {run.session} still waits for approvals, and {run.app} "
            "has one state for the whole session. Wait for it, or submit this one in another "
            "session."
        )


def _in_no_tool(
    approvals: Sequence[Approval], waiting: Mapping[str, WaitingCall]
) -> list[Approval]:
    return [
        one for one in approvals if one.state is State.APPROVED and not waiting[one.call.id].in_tool
    ]


def _require_untouched(run: Run, approvals: Sequence[Approval], state: JsonValue) -> None:
    """Require that a state is unchanged since its calls were asked about.

    Raises:
        SessionGone: It was changed.
    """
    mark = _mark(state)
    if any(one.origin.confirmation.split("/")[2:3] != [mark] for one in approvals):
        raise SessionGone(
            f"The stored state of run {run.id} of {run.app} was changed by somebody else; nothing "
            "was run. Submit the run again."
        )


def _is_edit(approval: Approval, waiting: Mapping[str, WaitingCall]) -> bool:
    """Return whether an approver has changed a call, and is allowed to."""
    call = waiting.get(approval.call.id)
    if call is None or not call.edits:
        return False
    proposal = approval.decision.proposal if approval.decision is not None else None
    allowed = approval.terms is not None and approval.terms.edits is Edits.APPROVE
    return approval.state is State.REJECTED and proposal is not None and allowed


def _edited(run: Run, approval: Approval) -> Pause:
    """Return the call as an approver has changed it."""
    proposal = approval.decision.proposal if approval.decision is not None else None
    origin, call = approval.origin, approval.call
    made = origin.made or digest(call.name, call.args)
    return Pause(
        origin=origin.model_copy(
            update={"nth": origin.nth + 1, "made": made, "again": 0, "expired": 0}
        ),
        call=call.model_copy(update={"args": proposal or {}}),
        hint=approval.hint,
        said=approval.said,
        declared=approval.declared,
    )


def _answer(approval: Approval, waiting: WaitingCall, inputs: Sequence[InputRule]) -> CallAnswer:
    if waiting.kind is Kind.INPUT:
        return CallAnswer(value=input_value(approval, inputs, as_words=waiting.takes_words))
    if approval.state is not State.APPROVED:
        return CallAnswer(refusal=refusal_text(approval))
    same = same_args(approval.call.args, waiting.args)
    return CallAnswer(args=None if same else dict(approval.call.args))


def _require_same(
    run: Run, approvals: Sequence[Approval], waiting: Mapping[str, WaitingCall]
) -> None:
    """Compare the calls of a stored state with the approvals, before anything runs.

    Raises:
        SessionGone: The waiting calls are not those that were asked about.
        CallChanged: A call is not the approved one.
        DigestMismatch: It is a call of another tool.
    """
    if {one.call.id for one in approvals} != set(waiting):
        raise SessionGone(
            f"Other calls wait in the stored state of run {run.id} of {run.app} than were asked "
            "about. It was changed by somebody else; nothing was run. Submit the run again."
        )
    for one in approvals:
        there = waiting[one.call.id]
        made = digest(there.tool, there.args)
        same = same_args(there.args, one.call.args) or made == one.origin.made
        call = FrameworkCall(
            there.id, there.tool, there.args, there.agent or run.app, there.declared
        )
        if one.is_to_run and (change := changed(one, call, run, same=same, made=made)):
            raise change


def framework_runtime(
    folder: Path,
    ledger: Ledger,
    *,
    valid_for: timedelta = VALID_FOR,
    inputs: Sequence[InputRule] = (),
) -> FrameworkRuntime:
    """Return the runtime for the agents of a folder that are not ADK's.

    Args:
        folder: The folder.
        ledger: Stores approvals and sessions.
        valid_for: How long an approval is valid if its policy does not say.
        inputs: What a plain yes or no means for requests for input without a schema.
    """
    guards = Guards(ledger, valid_for=valid_for)
    return FrameworkRuntime(Agents(folder), guards, FrameworkSessions(ledger), inputs)
