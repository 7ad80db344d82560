"""An answer that has reached us, whatever it came by: decide, and tell the person what it did."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import structlog
from pydantic import JsonValue

from signoff.broker.decisions import Desk
from signoff.broker.ledger.change import Change
from signoff.channels.absence import Leavings
from signoff.channels.collaboration import Asides
from signoff.channels.grant_replies import Beforehand
from signoff.channels.incoming import Answer, Notice, answer_back
from signoff.channels.pipeline.reply_tokens import Role
from signoff.channels.words import levels, phrases
from signoff.channels.words.grants import example_of_offer, no_grant
from signoff.channels.words.phrases import About
from signoff.core.approvals.answers import asks_freely, example_of_yes
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.approvals.reply_context import context_of
from signoff.core.base.errors import (
    AlreadyDecided,
    Claimed,
    DecisionRefused,
    Escalated,
    GrantRefused,
    MoveRefused,
    NotAnApprover,
    NotShownInFull,
    PayloadError,
    ReasonNeeded,
    TooLate,
)
from signoff.core.directory.people import Person
from signoff.core.payloads.payload import fields_of
from signoff.core.replies.free import read_free_reply
from signoff.core.replies.reading import read_reply
from signoff.core.replies.reply import (
    Approve,
    Away,
    Back,
    Reject,
    Reply,
    Revoke,
    Unclear,
    Withdraw,
)

log = structlog.get_logger(__name__)

ONCE_IN: Final = timedelta(days=1)
"""Nobody is told the same about one approval more often than this."""


class Answers:
    """Takes answers; each ends in one commit, or in an error and no commit.

    Args:
        desk: Decides.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._ledger = desk.ledger
        self._asides = Asides(desk)
        self._beforehand = Beforehand(desk)
        self._leavings = Leavings(desk)

    async def take(self, answer: Answer, text: str, *, problem: str = "") -> None:
        """Do what the person who was asked says.

        Args:
            answer: Whose answer it is, to what.
            text: The person's own words.
            problem: Why the answer is none, whatever the words are.

        Raises:
            ApprovalNotFound: There is no such approval.
            LedgerError: It could not be committed; nothing was done.
        """
        holder = answer.holder
        approval = await self._ledger.approval(holder.approval)
        person = self._desk.directory.get(holder.person)
        if person is None:
            gone = f"{holder.person} is not among the configured people any more."
            await self.refused(answer, None, NotAnApprover(gone))
            return
        read = read_free_reply if asks_freely(approval.kind, approval.call) else read_reply
        reply = read(text, context_of(approval, person, self._desk.directory))
        if problem:
            reply = Unclear(problem=problem)
        try:
            if holder.role is Role.REQUESTER:
                if problem:
                    raise MoveRefused(problem)
                await self._asides.of_requester(answer, person, text, reply)
            else:
                await self._do(answer, person, reply, approval)
        except PayloadError as error:
            example = example_of_yes(approval.kind, approval.call, approval.template)
            fixed = error.key in approval.call.args
            fixed = fixed and error.key not in fields_of(approval.template)
            if isinstance(error, ReasonNeeded) or fixed:
                example = error.example
            elif error.key and error.key not in example and error.example != example:
                example = f"{example}\n{error.example}"
            await self._not_understood(answer, str(error), example=example)
        except GrantRefused as error:
            await self.not_granted(answer, str(error))
        except DecisionRefused as error:
            await self.refused(answer, person, error, reply)

    async def _do(self, answer: Answer, person: Person, reply: Reply, approval: Approval) -> None:
        """Do what a reply means that was read.

        Raises:
            PayloadError: The values do not fit; nothing was done, and nobody was told.
            DecisionRefused: It does not count; nothing was done, and nobody was told.
            LedgerError: It could not be committed; nothing was done.
        """
        match reply:
            case Approve(grant=None) | Reject():
                await self.decide(answer, person, reply)
            case Approve() | Revoke():
                await self._beforehand.take(answer, person, reply, approval)
            case Away() | Back():
                await self._leavings.take(answer, person, reply)
            case Unclear():
                now = await self._ledger.now()
                approval.may_decide(person, self._desk.directory, now=now)
                if reply.grants and (offer := example_of_offer(approval)):
                    await self.not_granted(answer, f"{reply.problem} {offer}")
                else:
                    await self._not_understood(answer, reply.problem)
            case Withdraw():
                # From somebody who was asked it may well be a no.
                why = "Only the requester can withdraw a request. To say no, reply `reject`."
                await self._not_understood(answer, why)
            case _:
                await self._asides.do(answer, person, reply)

    async def aside(self, answer: Answer, person: Person, aside: Reply) -> None:
        """Do what somebody wants who pressed a button for it; see `Asides.do`.

        Raises:
            DecisionRefused: It is not possible; nothing was done, and nobody was told.
            LedgerError: It could not be committed; nothing was done.
        """
        await self._asides.do(answer, person, aside)

    async def stranger(
        self, answer: Answer, address: str, *, why: str = "", author: Person | None = None
    ) -> None:
        """Note that somebody else used a person's token; tell the person, and the requester.

        Args:
            answer: What was answered.
            address: Whose mail it says it is.
            why: Why it is not taken.
            author: Who has used it, where that is proven; told that forwarding hands nothing on.

        Raises:
            ApprovalNotFound: There is no such approval.
            LedgerError: It could not be committed; nothing was done.
        """
        why = why or "the sender is not the person who was asked"

        def build(approval: Approval) -> list[Notice]:
            if approval.state is not State.PENDING:
                return []
            told = [
                Notice(answer.holder.person, About.STRANGER, phrases.stranger(approval, address))
            ]
            requester = self._desk.directory.find(approval.origin.user)
            if requester is not None and requester.id != answer.holder.person:
                words = phrases.forwarded(approval, address)
                told.append(Notice(requester.id, About.FORWARDED, words))
            if author is not None and (requester is None or requester.id != author.id):
                words = phrases.not_handed_on(approval)
                told.append(Notice(author.id, About.NOT_HANDED_ON, words))
            return told

        await self._answer_back(
            answer,
            lambda one: (What.REFUSED_ANSWER, why, build(one)),
            by="",
            more={"from": address},
        )

    async def unproven(self, answer: Answer, why: str) -> None:
        """Note that nothing proves whose answer it is; tell the person, at the address we know.

        Raises:
            ApprovalNotFound: There is no such approval.
            LedgerError: It could not be committed; nothing was done.
        """

        def build(approval: Approval) -> list[Notice]:
            if approval.state is not State.PENDING:
                return []
            words = phrases.unproven(approval, why)
            return [Notice(answer.holder.person, About.UNPROVEN, words)]

        told = f"who has sent it is not proven: {why}"
        await self._answer_back(answer, lambda one: (What.REFUSED_ANSWER, told, build(one)), by="")

    async def decide(self, answer: Answer, person: Person, reply: Approve | Reject) -> None:
        """Commit a clear answer.

        Raises:
            PayloadError: The values do not fit; nothing was done, and nobody was told.
            DecisionRefused: It does not count; nothing was done, and nobody was told.
            LedgerError: It could not be committed; nothing was done.
        """
        holder, also = answer.holder, answer.also
        if isinstance(reply, Approve):
            before = await self._ledger.approval(holder.approval)
            again = before.step_of(person.id) is not None

            def noted(change: Change, after: Approval) -> None:
                if (step := after.step_of(person.id)) is not None:
                    words = phrases.first_step(after, step, again=again)
                    answer_back(change, answer, Notice(person.id, About.FIRST_STEP, words))
                else:
                    self._voted(change, answer, person, after)

            approval = await self._desk.approve(
                holder.approval,
                person,
                channel=holder.channel,
                reason=reply.note,
                values=reply.values,
                also=also,
                noted=noted,
                more=answer.more,
            )
        else:
            approval = await self._desk.reject(
                holder.approval,
                person,
                channel=holder.channel,
                reason=reply.reason,
                values=reply.values,
                also=also,
                noted=lambda change, after: self._voted(change, answer, person, after),
                more=answer.more,
            )
        log.info(
            "answer.recorded",
            approval=approval.id,
            run=approval.origin.run,
            person=person.id,
            channel=holder.channel,
            state=approval.state.value,
        )

    def _voted(self, change: Change, answer: Answer, person: Person, after: Approval) -> None:
        """Tell whoever has said yes or no that it counts, where it has not ended it."""
        if after.state is not State.PENDING:
            return
        words = levels.voted(after, person.id, self._desk.directory)
        answer_back(change, answer, Notice(person.id, About.VOTED, words))

    async def _not_understood(self, answer: Answer, problem: str, *, example: str = "") -> None:
        def build(approval: Approval) -> tuple[What, str, list[Notice]]:
            words = phrases.not_understood(approval, problem, example=example)
            notice = Notice(answer.holder.person, About.NOT_UNDERSTOOD, words)
            return What.NOT_UNDERSTOOD, problem, [notice]

        await self._answer_back(answer, build, by=answer.holder.person)

    async def not_granted(self, answer: Answer, problem: str) -> None:
        """Note a grant that cannot be given or taken back, and tell whoever wanted it why.

        Raises:
            LedgerError: It could not be committed; nothing was done.
        """

        def build(approval: Approval) -> tuple[What, str, list[Notice]]:
            notice = Notice(answer.holder.person, About.NO_GRANT, no_grant(approval, problem))
            return What.NOT_UNDERSTOOD, problem, [notice]

        await self._answer_back(answer, build, by=answer.holder.person)

    async def refused(
        self,
        answer: Answer,
        person: Person | None,
        error: DecisionRefused,
        reply: Reply | None = None,
    ) -> None:
        """Note an answer that does not count, and tell whoever gave it why.

        Raises:
            LedgerError: It could not be committed; nothing was done.
        """
        directory = self._desk.directory

        def build(approval: Approval) -> tuple[What, str, list[Notice]]:
            about: About | None
            match error:
                case AlreadyDecided() if person is not None:
                    about = About.DECIDED
                    words = phrases.already_decided(approval, person, directory)
                    mine = approval.decision is not None and approval.decision.by == person.id
                    if mine and isinstance(reply, Unclear):
                        about = None  # "thanks!" below one's own decision needs no answer
                case TooLate():
                    about, words = About.LATE, phrases.late(approval)
                case Escalated():
                    about, words = About.LATE, phrases.escalated(approval, str(error))
                case Claimed():
                    about, words = About.CLAIMED, phrases.not_done(approval, str(error))
                case MoveRefused():
                    about, words = About.NOT_DONE, phrases.not_done(approval, str(error))
                case NotShownInFull():
                    about, words = About.NOT_SHOWN, phrases.not_shown(approval, str(error))
                case _:
                    about, words = About.NOT_YOURS, phrases.not_yours(approval, str(error))
            told = [] if about is None else [Notice(answer.holder.person, about, words)]
            return What.REFUSED_ANSWER, str(error), told

        verdict = type(reply).__name__.lower() if reply is not None else ""
        await self._answer_back(answer, build, by=answer.holder.person, more={"verdict": verdict})

    async def _answer_back(
        self,
        answer: Answer,
        build: Callable[[Approval], tuple[What, str, list[Notice]]],
        *,
        by: str,
        more: dict[str, JsonValue] | None = None,
    ) -> None:
        """Commit an event and, once in a while, notices about it."""
        holder = answer.holder

        async def attempt() -> None:
            approval = await self._ledger.approval(holder.approval)
            what, why, notices = build(approval)
            now = await self._ledger.now()
            details: dict[str, JsonValue] = {
                "channel": holder.channel,
                **answer.more,
                **(more or {}),
            }
            event = approval.note(what, now=now, by=by, why=why, more=details)
            change = answer.also.copy().note([event])
            for notice in notices:
                await self._tell(change, answer, notice, now)
            await self._ledger.commit(change)
            log.info(
                "answer.not_taken",
                approval=approval.id,
                run=approval.origin.run,
                person=holder.person,
                what=what.value,
                why=why,
            )

        await self._ledger.decide_again(attempt)

    async def _tell(self, change: Change, answer: Answer, notice: Notice, now: datetime) -> None:
        """Add a notice, unless this was told before; the guard is part of the same commit."""
        if not answer.to:
            guard = f"told:{notice.about}:{answer.holder.approval}:{notice.person}"
            if await self._ledger.raw(guard) is not None:
                return
            change.put_raw(guard, now.isoformat(), ttl=ONCE_IN)
        answer_back(change, answer, notice)
