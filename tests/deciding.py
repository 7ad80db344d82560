"""`Decisions` with one method per move, so that tests read well."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from pydantic import JsonValue

from signoff.broker.decisions import Decisions, Extras
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.submit import submit
from signoff.broker.timers.due import DueChanges
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.collaboration import Operator, Who
from signoff.core.approvals.moves import Actor, Move
from signoff.core.approvals.run import Run, Watch
from signoff.core.directory.people import Directory, Person
from signoff.core.grants.grant import Grant
from signoff.core.grants.moves import GiveGrant


class Decider(Decisions):
    """Makes each move with one call; a refusal is raised."""

    def __init__(self, ledger: Ledger, directory: Directory) -> None:
        super().__init__(ledger, directory)
        self.due = DueChanges(self.roster)

    async def made(
        self,
        approval: str,
        move: Move,
        who: Who,
        *,
        channel: str = "cli",
        also: Change | None = None,
        more: Mapping[str, JsonValue] | None = None,
        watched: Watch = Watch.NO,
    ) -> Approval:
        """Make a move, and return the approval after it."""
        actor = Actor(who, channel, more or {})
        outcome = await self.take(approval, move, actor, Extras(also=also, watched=watched))
        return outcome.approval_or_raise()

    async def approve(
        self,
        approval: str,
        who: Person,
        *,
        channel: str,
        reason: str = "",
        values: Mapping[str, JsonValue] | None = None,
        also: Change | None = None,
        more: Mapping[str, JsonValue] | None = None,
        watched: Watch = Watch.NO,
    ) -> Approval:
        """Approve."""
        move = moves.Approve(values=values, reason=reason)
        return await self.made(
            approval, move, who, channel=channel, also=also, more=more, watched=watched
        )

    async def reject(
        self,
        approval: str,
        who: Person,
        *,
        channel: str,
        reason: str = "",
        values: Mapping[str, JsonValue] | None = None,
        also: Change | None = None,
    ) -> Approval:
        """Reject."""
        move = moves.Reject(reason=reason, values=values)
        return await self.made(approval, move, who, channel=channel, also=also)

    async def confirm(self, approval: str, who: Person, *, channel: str, mark: str) -> Approval:
        """Confirm the second step."""
        return await self.made(approval, moves.Confirm(mark=mark), who, channel=channel)

    async def withdraw(
        self, approval: str, *, by: str, reason: str, requester: Person | None = None
    ) -> Approval:
        """Withdraw, as the requester or as an operator."""
        who = requester or Operator(name=by)
        return await self.made(approval, moves.Withdraw(reason=reason), who, channel="")

    async def give(
        self,
        approval: str,
        who: Person,
        *,
        channel: str,
        span: timedelta,
        uses: int | None = None,
        limit: str = "",
        reason: str = "",
    ) -> Grant:
        """Give a grant."""
        move = GiveGrant(span=span, uses=uses, limit=limit, reason=reason)
        return (await self.take(approval, move, Actor(who, channel))).grant_or_raise()

    async def take_back(self, grant: str, *, by: str, why: str) -> Grant:
        """Revoke a grant."""
        return (await self.revoke(grant, why, Actor(Operator(name=by)))).grant_or_raise()

    async def submit(
        self,
        app: str,
        message: str,
        *,
        user: str,
        session: str = "",
        run_id: str = "",
        watched: Watch = Watch.NO,
        also: Change | None = None,
    ) -> Run:
        """Submit a run."""
        return await submit(
            self.ledger,
            app,
            message,
            user=user,
            session=session,
            run_id=run_id,
            watched=watched,
            also=also,
        )

    async def time_out(self, approval_id: str) -> Approval | None:
        """Do what is due for one approval, as the timers do; return None if nothing is due."""

        async def attempt() -> Approval | None:
            await self.roster.refresh()
            approval, run, now = await self.ledger.current(approval_id)
            change = self.due.change(approval, run, now)
            if change is None:
                return None
            await self.ledger.commit(change)
            return change.leaves(approval)

        return await self.ledger.decide_again(attempt)


def over(decisions: Decisions) -> Decider:
    """Return the same decisions with one method per move."""
    return Decider(decisions.ledger, decisions.directory)
