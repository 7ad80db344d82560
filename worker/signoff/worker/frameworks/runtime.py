"""The common runtime of the frameworks: starts and resumes runs, each to its next pause."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog
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
from signoff.worker.frameworks.adapter import Adapter, Answer, Outcome, Waiting
from signoff.worker.frameworks.gate import Call, Gates, changed, same_args
from signoff.worker.frameworks.loading import Agents
from signoff.worker.frameworks.sessions import FrameworkSessions, Held, Said, StoredTurn
from signoff.worker.port import Fence, Pause, Turn
from signoff.worker.refusals import input_value, refusal_text
from signoff.worker.turn_results import VALID_FOR

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FrameworkRuntime:
    """Runs agents of other frameworks than ADK in this process.

    Attributes:
        agents: The agents.
        gates: Check the calls of their tools.
        sessions: Store their states.
        inputs: What a plain yes or no means for requests for input without a schema.
    """

    agents: Agents
    gates: Gates
    sessions: FrameworkSessions
    inputs: Sequence[InputRule] = ()

    async def start(self, run: Run, fence: Fence) -> Turn:
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
            return Turn(text=end.text)
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
        with self.gates.of(run, (), fence) as gate:
            outcome = await adapter.begin(agent, run.message, held.stored.history, gate)
        return await self._keep(held, run, adapter, outcome, fence)

    async def resume(self, run: Run, approvals: Sequence[Approval], fence: Fence) -> Turn:
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
            return Turn(text=end.text)
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
            return Turn(pauses=tuple(_edited(run, one) for one in edits), kept=kept)
        _require_same(run, approvals, waiting)
        if not adapter.knows_gates:
            _require_untouched(run, approvals, turn.state)
        answers = {
            one.call.id: _answer(one, waiting[one.call.id], self.inputs) for one in approvals
        }
        earlier = await self.gates.ledger.approvals(turn.answered)
        with self.gates.of(run, [*earlier, *approvals], fence) as gate:
            gate.made |= {id_: digest(one.tool, one.args) for id_, one in waiting.items()}
            async with gate.holding(_in_no_tool(approvals, waiting)):
                outcome = await adapter.resume(agent, turn.state, answers, gate)
        await self._require_taken(run, approvals)
        return await self._keep(held, run, adapter, outcome, fence, answered=[*turn.answered, *ids])

    async def resumes_each(self, run: Run, approvals: Sequence[Approval]) -> bool:
        """Return False: the frameworks resume only when all calls of a pause are answered."""
        return False

    async def _keep(
        self,
        held: Held,
        run: Run,
        adapter: Adapter,
        outcome: Outcome,
        fence: Fence,
        *,
        answered: Sequence[str] = (),
    ) -> Turn:
        if outcome.paused:
            waiting = list(_by_id(run, adapter, outcome.state).values())
            after = held.pausing(run, outcome.state, answered)
            said = Said(run.app, waiting[0].said, waiting)
            await self.sessions.write(held, run, after, said, fence)
            return _paused(run, after.turns[run.id], waiting)
        history = adapter.longer(held.stored.history, outcome.state)
        after = held.ending(run, history, answered, outcome.text)
        await self.sessions.write(held, run, after, Said(run.app, outcome.text), fence)
        return Turn(text=outcome.text)

    async def _require_taken(self, run: Run, approvals: Sequence[Approval]) -> None:
        """Require that the tool of each approved call has run.

        Raises:
            AnswerNotTaken: A tool has not run.
        """
        approved = [one.id for one in approvals if one.lets_run]
        fresh = await self.gates.ledger.approvals(approved)
        if lost := [f"{one.call.name}()" for one in fresh if one.handoff is Handoff.RECORDED]:
            raise AnswerNotTaken(
                f"The agent of run {run.id} of {run.app} was given the answer, and has not run "
                f"{', '.join(dict.fromkeys(lost))}: the framework or the agent's own code has "
                "stopped it before the tool. Nothing was run; submit the run again."
            )


def _by_id(run: Run, adapter: Adapter, state: object) -> dict[str, Waiting]:
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


def _paused(run: Run, turn: StoredTurn, waiting: Sequence[Waiting]) -> Turn:
    """Return a turn that waits for these calls.

    The id of the request contains the number of the pause, because models reuse ids of calls. It
    also contains a digest of the state, so that the state is part of what is approved.
    """
    prefix = f"{run.invocation}/{turn.pause}/{_mark(turn.state)}"
    return Turn(
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


def _require_alone(held: Held, run: Run) -> None:
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


def _in_no_tool(approvals: Sequence[Approval], waiting: Mapping[str, Waiting]) -> list[Approval]:
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


def _is_edit(approval: Approval, waiting: Mapping[str, Waiting]) -> bool:
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


def _answer(approval: Approval, waiting: Waiting, inputs: Sequence[InputRule]) -> Answer:
    if waiting.kind is Kind.INPUT:
        return Answer(value=input_value(approval, inputs, as_words=waiting.takes_words))
    if approval.state is not State.APPROVED:
        return Answer(refusal=refusal_text(approval))
    same = same_args(approval.call.args, waiting.args)
    return Answer(args=None if same else dict(approval.call.args))


def _require_same(run: Run, approvals: Sequence[Approval], waiting: Mapping[str, Waiting]) -> None:
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
        call = Call(there.id, there.tool, there.args, there.agent or run.app, there.declared)
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
    gates = Gates(ledger, valid_for=valid_for)
    return FrameworkRuntime(Agents(folder), gates, FrameworkSessions(ledger), inputs)
