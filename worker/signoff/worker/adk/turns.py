"""Builds what the executor needs from the state of an invocation: a turn, or an error."""

from __future__ import annotations

from collections.abc import Sequence

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.parts import Origin, ToolCall
from signoff.core.approvals.run import Run
from signoff.core.base.errors import AnswerNotTaken, PauseNotRoutable, TurnLost
from signoff.worker.adk.history import CREDENTIAL, Confirmation, Invocation
from signoff.worker.adk.questions import SessionRequest
from signoff.worker.port import Pause, TurnResult

_REMEDIES = {
    CREDENTIAL: "give the tool a credential of its own (a service account, an API key), or sign in "
    "once where the agent keeps its credentials, and then ask again",
}


def turn_of(run: Run, invocation: Invocation) -> TurnResult:
    """Return how a turn ended.

    Raises:
        PauseNotRoutable: The agent waits for something that no approver can give.
    """
    if invocation.stuck_on:
        names = tuple(dict.fromkeys(invocation.stuck_on))
        remedies = "; ".join(_REMEDIES[name] for name in names if name in _REMEDIES)
        raise PauseNotRoutable(
            f"Run {run.id} of {run.app} waits for {', '.join(names)}, which no approver can give. "
            "Nothing will happen in this session until somebody answers it there"
            f"{f': {remedies}' if remedies else ''}."
        )
    return TurnResult(
        pauses=(
            *(_pause(run, one, invocation) for one in invocation.waiting),
            *(_pause(run, one, invocation) for one in invocation.requests),
        ),
        text=invocation.text,
        left_open=invocation.left_open,
    )


def _pause(run: Run, asked: Confirmation | SessionRequest, invocation: Invocation) -> Pause:
    return Pause(
        origin=Origin(
            run=run.id,
            app=run.app,
            agent=asked.agent,
            user=run.user,
            session=run.session,
            invocation=asked.invocation,
            confirmation=asked.id,
            nth=asked.nth,
            again=int(isinstance(asked, Confirmation) and asked.doubtful),
            made=asked.made,
        ),
        kind=asked.kind,
        call=ToolCall(id=asked.call_id, name=asked.tool, args=asked.args),
        hint=asked.hint,
        template=asked.payload,
        said=invocation.said.get(asked.call_id, ""),
        declared=asked.declared,
    )


NOT_RESUMABLE = (
    "its root agent runs others in an order of its own, and google-adk resumes such an agent only "
    "in resumable apps (ResumabilityConfig(is_resumable=True))"
)


def turn_lost(run: Run, approvals: Sequence[Approval], why: str = NOT_RESUMABLE) -> TurnLost:
    """Return the error for a turn that was cut off and cannot be resumed.

    Args:
        run: The run.
        approvals: The approvals whose answers the turn resumed from, in their current state.
        why: Why it cannot be resumed.
    """
    ran = [f"{one.call.name}()" for one in approvals if one.handoff is Handoff.FINISHED]
    return TurnLost(
        f"Run {run.id} of {run.app} was cut off in the middle of a turn, and the agent cannot go "
        f"on from there: {why}. {f'{_listed(ran)} has run. ' if ran else ''}What the agent had "
        "still to do was not done. Look at what was done, and submit the rest again."
    )


def answer_not_taken(run: Run, approvals: Sequence[Approval]) -> AnswerNotTaken:
    """Return the error for answers that ADK got but has not resumed from.

    Args:
        run: The run.
        approvals: The approvals without a result in the session, in their current state. Their
            tools may have run: ADK cancels a single-turn agent when another one pauses.
    """
    names: dict[bool, list[str]] = {False: [], True: []}
    for one in approvals:
        ran = one.handoff is Handoff.FINISHED
        names[ran].append(f"{one.call.name}() of {one.origin.agent}")
    told = f"{_listed(names[False])} was not run. " if names[False] else ""
    if names[True]:
        told += f"{_listed(names[True])} has run, and the agent did not get its result. "
    return AnswerNotTaken(
        f"google-adk got the answer to run {run.id} of {run.app}, but did not resume from it: "
        f"{told}`signoff doctor` lists the agents that cannot receive answers."
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names))
