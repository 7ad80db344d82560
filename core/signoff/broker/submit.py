"""Submits runs: messages for agents."""

from __future__ import annotations

import secrets

from pydantic import ValidationError

from signoff.broker.effects import send_work
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.monitoring import tracing
from signoff.core.approvals.run import Run, Watch
from signoff.core.base.errors import Conflict, InvalidRun, RunNotFound
from signoff.core.base.plain import plainly


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
        ledger: The ledger.
        app: The name of the agent's folder.
        message: The message.
        user: The ADK user id. This user can never decide the requests of the run.
        session: The ADK session id; "" starts a new session.
        run_id: The id of the run, so that submitting it again creates no second one; "" makes one.
        watched: How the caller watches the run; see `signoff.broker.live`.
        also: A change to commit together with the run.

    Returns:
        The run; the earlier one if the id was submitted before.

    Raises:
        InvalidRun: The message or the user is empty or too long, or an id has forbidden characters.
        Conflict: A record of `also` has changed since it was read.
        LeaseLost: Another process holds a lease that `also` needs.
    """
    if not user.strip():
        # Records of earlier releases may have spaces, so `Run` itself allows them.
        raise InvalidRun("This cannot be submitted: user: it is empty. Name the requester.")
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
            raise InvalidRun(f"This cannot be submitted: {name}: {plainly(first)}.") from error
        change = Change() if also is None else also.copy()
        change.put(run, was=None).note(run.submitted())
        send_work(change, run)
        try:
            await ledger.commit(change)
        except Conflict as conflict:
            try:
                return await ledger.run(run.id)
            except RunNotFound:
                raise conflict from None
        return run
