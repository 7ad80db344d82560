"""The move that approves a call and gives a grant for similar calls."""

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
    """Approve a pending call, and give a grant for calls like it; see `Grant.give`.

    A call that the same person has already approved does not change.

    Attributes:
        span: How long the grant is valid.
        uses: How many further calls it covers; None for as many as the policy allows.
        limit: A CEL expression, to cover less than the policy allows.
        reason: The reason in the person's own words.
    """

    name: ClassVar[str] = "grant"
    span: timedelta
    uses: int | None = None
    limit: str = ""
    reason: str = ""

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Approve the call, if it is still pending."""
        decision = approval.decision
        if approval.state is State.APPROVED and decision and decision.by == actor.person.id:
            return approval, ()
        return approval.approve(
            actor.person, directory, channel=actor.channel, now=now, reason=self.reason
        )

    def grant(
        self, approval: Approval, actor: Actor, now: datetime
    ) -> tuple[Grant, tuple[Event, ...]]:
        """Return the grant and its events, after the call was approved.

        Raises:
            GrantRefused: The person may not give it, or not within these limits.
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
