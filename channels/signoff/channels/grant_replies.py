"""Answers that approve calls like one too, or take that back: done, and told to the giver."""

from __future__ import annotations

from datetime import timedelta

from signoff.broker.decisions import Desk
from signoff.broker.grants import Grants
from signoff.broker.ledger.change import Change
from signoff.channels.incoming import Answer, Notice, answer_back
from signoff.channels.words import grants
from signoff.channels.words.phrases import About
from signoff.core.approvals.approval import Approval, State
from signoff.core.base.errors import GrantNotFound, GrantRefused
from signoff.core.directory.people import Person
from signoff.core.grants.grant import Grant
from signoff.core.replies.reply import Approve, Revoke


class Beforehand:
    """Takes answers that say more than a yes to one call.

    Args:
        desk: The ledger and the people.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._grants = Grants(desk)

    async def take(
        self, answer: Answer, person: Person, reply: Approve | Revoke, approval: Approval
    ) -> None:
        """Approve a call and calls like it, or take that back.

        Args:
            answer: Whose answer it is, to what.
            person: Who.
            reply: Their own words, read.
            approval: What it is about.

        Raises:
            GrantRefused: It may not be: nothing was done, and nobody was told.
            DecisionRefused: The person may not decide; nothing was done, and nobody was told.
            LedgerError: It could not be committed; nothing was done.
        """
        if isinstance(reply, Revoke):
            await self.revoke(answer, person, why=reply.reason)
            return
        decision = approval.decision
        if approval.state is not State.APPROVED or decision is None or decision.by != person.id:
            now = await self._desk.ledger.now()
            approval.may_decide(person, self._desk.directory, now=now)
        if reply.grant is not None:
            span, uses = reply.grant.span, reply.grant.uses
            await self.give(answer, person, span=span, uses=uses, reason=reply.note)

    async def give(
        self,
        answer: Answer,
        person: Person,
        *,
        span: timedelta,
        uses: int | None = None,
        reason: str = "",
    ) -> None:
        """Approve a call and calls like it, and tell whoever does what was granted.

        Raises:
            GrantRefused: It may not be: nothing was done, and nobody was told.
            DecisionRefused: The person may not decide; nothing was done, and nobody was told.
            PayloadError: It needs a reason; nothing was done, and nobody was told.
            LedgerError: It could not be committed; nothing was done.
        """

        def told(change: Change, after: Approval, grant: Grant) -> None:
            notice = Notice(person.id, About.GRANTED, grants.granted(after, grant))
            answer_back(change, answer, notice)

        await self._grants.give(
            answer.holder.approval,
            person,
            channel=answer.holder.channel,
            span=span,
            uses=uses,
            reason=reason,
            also=answer.also,
            more=answer.more,
            told=told,
        )

    async def revoke(self, answer: Answer, person: Person, *, why: str = "") -> None:
        """Take back what the same person has granted with an approval, and tell them.

        Raises:
            GrantRefused: There is nothing of theirs to revoke, or it has ended.
            LedgerError: It could not be committed; nothing was done.
        """
        approval = await self._desk.ledger.approval(answer.holder.approval)
        if not await self._gave(person, approval):
            raise GrantRefused(f"You have granted nothing with approval {approval.id}.")

        def told(change: Change, after: Approval, grant: Grant) -> None:
            notice = Notice(person.id, About.REVOKED, grants.revoked(after, grant))
            answer_back(change, answer, notice)

        await self._grants.revoke(
            approval.id,
            by=person.id,
            why=why or "whoever gave it has revoked it",
            also=answer.also,
            more={"channel": answer.holder.channel, **answer.more},
            told=told,
        )

    async def _gave(self, person: Person, approval: Approval) -> bool:
        """Say whether a person has given a grant with an approval."""
        try:
            return (await self._grants.get(approval.id)).by == person.id
        except GrantNotFound:
            return False
