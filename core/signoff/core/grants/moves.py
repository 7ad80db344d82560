"""The move that approves a call and calls like it for a while."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from signoff.core.approvals.approval import Approval, Moved, State
from signoff.core.approvals.events import Event
from signoff.core.approvals.moves import Actor, Move
from signoff.core.directory.people import Directory
from signoff.core.grants.grant import Grant


@dataclass(frozen=True, slots=True)
class GiveGrant(Move):
    """Approve a call that waits, and give a grant for calls like it; see `Grant.give`.

    A call that the same person has approved already stays as it is.

    Attributes:
        span: For how long.
        uses: How many calls it covers besides this one; None is as many as the policy allows.
        limit: A CEL expression, to cover less than the policy allows.
        reason: In the person's words.
    """

    name: ClassVar[str] = "grant"
    span: timedelta
    uses: int | None = None
    limit: str = ""
    reason: str = ""

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Approve the call, where it still waits."""
        decision = approval.decision
        if approval.state is State.APPROVED and decision and decision.by == actor.person.id:
            return approval, ()
        return approval.approve(
            actor.person, directory, channel=actor.channel, now=now, reason=self.reason
        )

    def grant(
        self, approval: Approval, actor: Actor, now: datetime
    ) -> tuple[Grant, tuple[Event, ...]]:
        """Return the grant that comes of the approval, once that is decided.

        Raises:
            GrantRefused: The person may not give it, or not as far as that.
        """
        return Grant.give(
            approval,
            by=actor.person.id,
            channel=actor.channel,
            now=now,
            span=self.span,
            uses=self.uses,
            limit=self.limit,
            reason=self.reason,
        )
