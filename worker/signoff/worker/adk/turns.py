"""From what a session says about a run to what the crew is told of it."""

from __future__ import annotations

from collections.abc import Sequence

from signoff.core.approval import Approval
from signoff.core.errors import PauseNotRoutable
from signoff.core.lifecycle import State
from signoff.core.parts import Origin, ToolCall
from signoff.core.run import Run
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
    )


def silent(turn: Turn, approvals: Sequence[Approval]) -> Turn:
    """Return a turn whose last word was lost with a worker: what the tools gave stands for it."""
    results = [
        f"{one.call.name}() finished{f': {one.result}' if one.result else ''}"
        for one in approvals
        if one.state is State.APPROVED
    ]
    done = ", ".join(results) or "The refusal was handed on"
    text = f"({done}. The agent's last word was lost with the worker that waited for it.)"
    note = "the agent's last word was lost with a worker that died"
    return turn.model_copy(update={"text": text, "note": note})
