"""The move that approves a call and gives a grant for similar calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from pydantic import JsonValue

from signoff.core.approvals.approval import Approval, Moved, State
from signoff.core.approvals.events import Event
from signoff.core.approvals.moves import Actor, Move, as_it_is_details, must_not_contradict
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
        as_it_is: As of `moves.Approve`.
    """

    name: ClassVar[str] = "grant"
    gives_grant: ClassVar[bool] = True
    span: timedelta
    uses: int | None = None
    limit: str = ""
    reason: str = ""
    as_it_is: bool = False

    @property
    def details(self) -> Mapping[str, JsonValue]:
        """The details that the audit records about the move, even if it is refused."""
        return as_it_is_details(as_it_is=self.as_it_is)

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Approve the call, if it is still pending."""
        decision = approval.decision
        moved: Moved
        if approval.state is State.APPROVED and decision and decision.by == actor.person.id:
            moved = approval, ()
        else:
            moved = approval.approve(
                actor.person, directory, channel=actor.channel, now=now, reason=self.reason
            )
        if not self.as_it_is:
            must_not_contradict(approval, self.reason)
        return moved

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
