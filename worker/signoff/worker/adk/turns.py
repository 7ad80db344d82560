"""From what a session says about a run to what the executor is told of it."""

from __future__ import annotations

from collections.abc import Sequence

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.parts import Origin, ToolCall
from signoff.core.approvals.run import Run
from signoff.core.base.errors import AnswerNotTaken, PauseNotRoutable, TurnLost
from signoff.worker.adk.history import CREDENTIAL, Confirmation, Invocation
from signoff.worker.adk.questions import Request
from signoff.worker.port import Pause, Turn

_REMEDIES = {
    CREDENTIAL: "give the tool a credential of its own (a service account, an API key), or sign in "
    "once where the agent keeps its credentials, and then ask again",
}


def turn_of(run: Run, invocation: Invocation) -> Turn:
    """Return how a turn ended.

    Raises:
        PauseNotRoutable: The agent waits for something that nobody can be asked for.
    """
    if invocation.stuck_on:
        names = tuple(dict.fromkeys(invocation.stuck_on))
        remedies = "; ".join(_REMEDIES[name] for name in names if name in _REMEDIES)
        raise PauseNotRoutable(
            f"Run {run.id} of {run.app} waits for {', '.join(names)}, which no approver can give. "
            "Nothing will happen in this session until somebody answers it there"
            f"{f': {remedies}' if remedies else ''}."
        )
    return Turn(
        pauses=(
            *(_pause(run, one, invocation) for one in invocation.waiting),
            *(_pause(run, one, invocation) for one in invocation.requests),
        ),
        text=invocation.text,
        left_open=invocation.left_open,
    )


def _pause(run: Run, asked: Confirmation | Request, invocation: Invocation) -> Pause:
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
    "its root agent runs others in an order of its own, and google-adk takes that up in resumable "
    "apps alone (ResumabilityConfig(is_resumable=True))"
)


def turn_lost(run: Run, approvals: Sequence[Approval], why: str = NOT_RESUMABLE) -> TurnLost:
    """Return the error for a turn that was cut off, and that nobody can take up.

    Args:
        run: The run.
        approvals: Those whose answers the turn went on from, as they are by now.
        why: Why it cannot be taken up.
    """
    ran = [f"{one.call.name}()" for one in approvals if one.handoff is Handoff.FINISHED]
    return TurnLost(
        f"Run {run.id} of {run.app} was cut off in the middle of a turn, and the agent cannot go "
        f"on from there: {why}. {f'{_listed(ran)} has run. ' if ran else ''}What the agent had "
        "still to do was not done. Look at what was done, and submit the rest anew."
    )


def answer_not_taken(run: Run, approvals: Sequence[Approval]) -> AnswerNotTaken:
    """Return the error for answers that ADK was given, and has not gone on from."""
    names = _listed([f"{one.call.name}() of {one.origin.agent}" for one in approvals])
    return AnswerNotTaken(
        f"google-adk was given the answer to run {run.id} of {run.app}, and did not go on from it: "
        f"{names} was not run. `signoff doctor` says which agents cannot be asked where they are."
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names))
