"""From what a session says about a run to what the crew is told of it."""

from __future__ import annotations

from signoff.core.errors import PauseNotRoutable
from signoff.core.parts import Origin, ToolCall
from signoff.core.run import Run
from signoff.worker.adk.history import Confirmation, Invocation
from signoff.worker.port import Pause, Turn


def turn_of(run: Run, invocation: Invocation) -> Turn:
    """Return how a turn ended.

    Raises:
        PauseNotRoutable: The agent waits for something that is no confirmation.
    """
    if invocation.stuck_on:
        raise PauseNotRoutable(
            f"Run {run.id} of {run.app} waits for {', '.join(invocation.stuck_on)}, which no "
            "approver can answer yet: only confirmations of tool calls are routed. Nothing will "
            "happen in this session until somebody answers it there."
        )
    return Turn(pauses=tuple(_pause(run, one) for one in invocation.waiting), text=invocation.text)


def _pause(run: Run, asked: Confirmation) -> Pause:
    return Pause(
        origin=Origin(
            run=run.id,
            app=run.app,
            agent=asked.agent,
            user=run.user,
            session=run.session,
            invocation=asked.invocation,
            confirmation=asked.id,
        ),
        call=ToolCall(id=asked.call_id, name=asked.tool, args=asked.args),
        hint=asked.hint,
        template=asked.payload,
    )
