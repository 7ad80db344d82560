"""Approving several calls at once, of those that a policy marks as harmless; each by itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pydantic import JsonValue

from signoff.broker.change import Change
from signoff.broker.desk import Desk
from signoff.core.approval import Approval
from signoff.core.errors import DecisionRefused
from signoff.core.events import Event
from signoff.core.people import Person


async def approve_together(
    desk: Desk,
    approval_id: str,
    person: Person,
    *,
    channel: str,
    also: Change | None = None,
    more: Mapping[str, JsonValue] | None = None,
) -> Approval:
    """Approve one of several calls.

    Args:
        desk: Decides.
        approval_id: Which.
        person: Who, as the channel has proven it.
        channel: How it came.
        also: What must happen in the same commit.
        more: What the audit shall know besides.

    Raises:
        DecisionRefused: The person may not decide, or it is to be answered by itself.
    """

    def step(approval: Approval, now: datetime) -> tuple[Approval, tuple[Event, ...]]:
        # Judged here, where it is decided: who may, first, and then whether at once.
        approval.may_decide(person, desk.directory, now=now)
        if not approval.batchable:
            raise DecisionRefused(
                f"Approval {approval.id} is not one of those that are approved together: open it, "
                "and answer it by itself."
            )
        return approval.approve(person, desk.directory, channel=channel, now=now)

    told = {"batch": True, "channel": channel, **(more or {})}
    return await desk.move(approval_id, step, by=person.id, also=also, more=told)
