"""Submitting a run: the message for an agent, and the work that it waits for."""

from __future__ import annotations

import secrets

from pydantic import ValidationError

from signoff.broker.effects import send_work
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.monitoring import tracing
from signoff.core.approvals.run import Run, Watch
from signoff.core.base.errors import Conflict, InvalidRun


async def submit(
    ledger: Ledger,
    app: str,
    message: str,
    *,
    user: str,
    session: str = "",
    run_id: str = "",
    watched: Watch = Watch.NO,
    also: Change | None = None,
) -> Run:
    """Queue a message for an agent.

    Args:
        ledger: Where it is kept.
        app: The name of the agent's folder.
        message: What the user says.
        user: The ADK user id; who it is can never decide what this run asks for.
        session: The ADK session id; a new one is made where none is given.
        run_id: An id of the caller's own, so that submitting again is the same run.
        watched: How the caller looks on; see `signoff.broker.live`.
        also: What must happen in the same commit.

    Returns:
        The run; the earlier one if the id was submitted before.

    Raises:
        InvalidRun: The message is empty or too long, or an id has forbidden characters.
        LeaseLost: What `also` needs is held by somebody else.
    """
    with tracing.span("submit", app=app):
        now = await ledger.now()
        try:
            run = Run(
                id=run_id or f"run_{secrets.token_hex(8)}",
                app=app,
                user=user,
                session=session or f"s_{secrets.token_hex(8)}",
                message=message,
                submitted_at=now,
                trace=tracing.trace_id() or secrets.token_hex(16),
                watched=watched,
            )
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            name = ".".join(str(part) for part in first["loc"])
            raise InvalidRun(f"This cannot be submitted: {name}: {first['msg']}.") from error
        change = Change() if also is None else also.copy()
        change.put(run, was=None).note(run.submitted())
        send_work(change, run)
        try:
            await ledger.commit(change)
        except Conflict:
            return await ledger.run(run.id)
        return run
