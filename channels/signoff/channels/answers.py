"""Handles an answer: makes the move that it asks for, and tells the person the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import structlog

from signoff.broker.decisions import REFUSALS, Decisions, Extras, Outcome, Refused, Taken, always
from signoff.broker.grants import Grants
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Current
from signoff.channels.absence import AbsenceReplies
from signoff.channels.collaboration import move_of
from signoff.channels.incoming import Answer, Notice, answer_back
from signoff.channels.pipeline.reply_tokens import Role
from signoff.channels.words import phrases
from signoff.channels.words.messages import RenderedMessage, say
from signoff.channels.words.outcomes import effect_of, refusal_of
from signoff.channels.words.phrases import About
from signoff.core.approvals import moves
from signoff.core.approvals.answers import asks_freely
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.approvals.moves import Actor, Move
from signoff.core.approvals.reply_context import context_of
from signoff.core.base.errors import (
    ApprovalError,
    GrantNotFound,
    GrantRefused,
    MoveRefused,
    NotAnApprover,
)
from signoff.core.directory.people import Person
from signoff.core.replies.free import read_free_reply
from signoff.core.replies.reading import read_reply
from signoff.core.replies.reply import Away, Back, Remind, Reply, Revoke, Unclear, Withdraw

log = structlog.get_logger(__name__)

ONCE_IN: Final = timedelta(days=1)
"""A person gets the same notice about one approval once in this time."""

# A person who answers unclearly again must be told again that nothing is decided. The limit ends a
# conversation with a program that answers mail without saying so.
_MOST_QUESTIONS: Final = 3

_UNCLEAR: Final = Unclear.__name__.lower()

IsFinal = Callable[[ApprovalError], bool]
"""Returns whether a refusal is final; otherwise the answer can be corrected and sent again."""


class Answers:
    """Takes answers. Each ends in one commit, or in an error without a commit.

    People set an absence on `absence_page`, "" if there is none.
    """

    def __init__(self, decisions: Decisions, *, absence_page: str = "") -> None:
        self._decisions = decisions
        self._ledger = decisions.ledger
        self._grants = Grants(decisions.ledger)
        self._absences = AbsenceReplies(decisions, absence_page)

    async def take(
        self, answer: Answer, text: str, *, problem: str = "", seen: Current | None = None
    ) -> None:
        """Carry out what a person's answer says.

        Args:
            answer: The answer: who gives it, and to which request.
            text: The person's own words.
            problem: Why this cannot count as an answer, regardless of the text.
            seen: The approval, if it was just read.

        Raises:
            ApprovalNotFound: There is no such approval.
            LedgerError: It could not be committed; nothing was done.
        """
        holder, directory = answer.holder, self._decisions.directory
        seen = seen or await self._ledger.current(holder.approval)
        approval = seen.approval
        person = directory.get(holder.person)
        if person is None:
            gone = f"{holder.person} is not among the configured people any more."
            await self.refuse(answer, NotAnApprover(gone), seen=seen)
            return
        read = read_free_reply if asks_freely(approval.kind, approval.call) else read_reply
        reply = read(text, context_of(approval, person, directory))
        if problem:
            reply = Unclear(problem=problem)
        try:
            if holder.role is Role.REQUESTER:
                if problem:
                    raise MoveRefused(problem)
                await self._take_from_requester(answer, person, text, reply, seen)
            else:
                await self._take_from_approver(answer, person, reply, seen)
        except REFUSALS as error:
            wanted = type(reply).__name__.lower()
            await self.refuse(answer, error, person, wanted=wanted, seen=seen)

    async def make(
        self,
        answer: Answer,
        person: Person,
        move: Move,
        *,
        is_final: IsFinal = always,
        seen: Current | None = None,
    ) -> Outcome:
        """Make a move, and tell the person its effect, or why it was refused.

        Args:
            answer: The answer: who gives it, and to which request.
            person: The person who makes the move.
            move: The move.
            is_final: Returns whether a refusal is final. The person gets a notice only about final
                refusals; the channel shows the others.
            seen: The approval, if it was just read.

        Raises:
            ApprovalNotFound: There is no such approval.
            LedgerError: It could not be committed; nothing was done.
        """
        before = seen.approval if seen is not None else None
        again = before is not None and before.step_of(person.id) is not None

        async def tell(change: Change, outcome: Outcome) -> None:
            if isinstance(outcome, Refused):
                if is_final(outcome.error):
                    await self._tell_refusal(change, answer, outcome, person)
                return
            notice = effect_of(move, outcome, person, self._decisions.directory, again=again)
            if notice is not None:
                answer_back(change, answer, Notice(person.id, *notice))

        outcome = await self._decisions.take(
            answer.holder.approval,
            move,
            actor_of(answer, person),
            Extras(also=answer.also, acknowledges=is_final, on_commit=tell, seen=seen),
        )
        if isinstance(outcome, Taken):
            log.info(
                "answer.recorded",
                approval=outcome.approval.id,
                run=outcome.approval.origin.run,
                person=person.id,
                channel=answer.holder.channel,
                move=move.name,
                state=outcome.approval.state.value,
            )
        return outcome

    async def revoke(
        self, answer: Answer, person: Person, *, reason: str = "", seen: Current | None = None
    ) -> None:
        """Revoke the grant that the same person gave with an approval, and tell them.

        Raises:
            LedgerError: It could not be committed; nothing was done.
        """
        about = answer.holder.approval
        if not await self._has_granted(person, about):
            problem = f"You have granted nothing with approval {about}."
            await self.refuse(answer, GrantRefused(problem), person, seen=seen)
            return

        async def tell(change: Change, outcome: Outcome) -> None:
            if isinstance(outcome, Refused):
                await self._tell_refusal(change, answer, outcome, person)
                return
            grant, directory = outcome.grant_or_raise(), self._decisions.directory
            words = say("revoked", outcome.approval, directory, person.id, grant=grant)
            answer_back(change, answer, Notice(person.id, About.REVOKED, words))

        await self._decisions.revoke(
            about,
            reason or "the person who gave it has revoked it",
            actor_of(answer, person),
            Extras(also=answer.also, acknowledges=always, on_commit=tell),
        )

    async def refuse(
        self,
        answer: Answer,
        error: ApprovalError,
        person: Person | None = None,
        *,
        wanted: str = "",
        seen: Current | None = None,
    ) -> None:
        """Refuse an answer before anything is decided, and tell its author why.

        Args:
            answer: The answer: who gives it, and to which request.
            error: The reason.
            person: The author, None for a stranger.
            wanted: The move that they wanted, "" if it is not known.
            seen: The approval, if it was just read.

        Raises:
            LedgerError: It could not be committed; nothing was done.
        """

        async def tell(change: Change, outcome: Outcome) -> None:
            if isinstance(outcome, Refused):
                await self._tell_refusal(change, answer, outcome, person, wanted)

        await self._decisions.refuse(
            answer.holder.approval,
            error,
            # The request was sent to this person, even if they have since left the directory.
            replace(actor_of(answer, person), known_as=answer.holder.person),
            Extras(also=answer.also, acknowledges=always, on_commit=tell, seen=seen),
            wanted=wanted,
        )

    async def refuse_stranger(
        self, answer: Answer, address: str, *, why: str, author: Person | None
    ) -> None:
        """Refuse an answer from a stranger who used a person's token; tell both, and the requester.

        Args:
            answer: The answer.
            address: The address that the mail claims to come from.
            why: Why the answer is refused.
            author: The person who used the token, if that is proven. They learn that forwarding a
                mail does not hand over the decision.

        Raises:
            ApprovalNotFound: There is no such approval.
            LedgerError: It could not be committed; nothing was done.
        """

        def notices(approval: Approval) -> Sequence[Notice]:
            holder, directory = answer.holder.person, self._decisions.directory
            requester = directory.find(approval.origin.user)
            about = {holder: About.STRANGER}
            if requester is not None:
                about.setdefault(requester.id, About.FORWARDED)
            found = [
                Notice(
                    one,
                    sort,
                    phrases.of_stranger(sort.value, approval, address, directory, one),
                )
                for one, sort in about.items()
            ]
            if author is not None and (requester is None or requester.id != author.id):
                words = say("not_handed_on", approval, directory, author.id)
                found.append(Notice(author.id, About.NOT_HANDED_ON, words))
            return found

        actor = actor_of(answer, None)
        actor = replace(actor, proof={**actor.proof, "from": address})
        why = why or "the sender is not the person who was asked"
        await self._refuse_other(answer, why, actor, notices)

    async def refuse_unproven(self, answer: Answer, why: str) -> None:
        """Refuse an answer whose author is not proven; tell the person at their known address.

        Raises:
            ApprovalNotFound: There is no such approval.
            LedgerError: It could not be committed; nothing was done.
        """

        def notices(approval: Approval) -> Sequence[Notice]:
            holder, directory = answer.holder.person, self._decisions.directory
            words = phrases.refusal("unproven", approval, why, directory, holder)
            return [Notice(holder, About.UNPROVEN, words)]

        problem = f"the sender is not proven: {why}"
        await self._refuse_other(answer, problem, actor_of(answer, None), notices)

    async def refuse_too_large(self, answer: Answer) -> None:
        """Refuse an answer that is too large to be read; tell the person at their known address.

        Raises:
            ApprovalNotFound: There is no such approval.
            LedgerError: It could not be committed; nothing was done.
        """

        def notices(approval: Approval) -> Sequence[Notice]:
            holder = answer.holder.person
            words = say("too_large", approval, self._decisions.directory, holder)
            return [Notice(holder, About.TOO_LARGE, words)]

        problem = "the mail is too large, so it was not read"
        await self._refuse_other(answer, problem, actor_of(answer, None), notices)

    # -- what an answer wants --------------------------------------------------------------------

    async def _take_from_requester(
        self, answer: Answer, person: Person, text: str, reply: Reply, seen: Current
    ) -> None:
        """Carry out an answer of the requester, who never decides: withdraw, remind, or reply."""
        if isinstance(reply, Withdraw | Remind):
            move = move_of(reply, person, self._decisions.directory)
        else:
            move = moves.AnswerBack(text=text)
        if move is not None:
            await self.make(answer, person, move, seen=seen)

    async def _take_from_approver(
        self, answer: Answer, person: Person, reply: Reply, seen: Current
    ) -> None:
        """Carry out an answer of an approver.

        Raises:
            ApprovalError: One of `REFUSALS`; nothing was done, and nobody was told.
        """
        approval, directory = seen.approval, self._decisions.directory
        match reply:
            case Revoke():
                await self.revoke(answer, person, reason=reply.reason, seen=seen)
            case Away() | Back():
                await self._absences.take(answer, person, reply)
            case Unclear():
                approval.may_decide(person, directory, now=seen.now)
                if reply.grants and (offer := phrases.example_of_offer(approval)):
                    problem = f"{reply.problem} {offer}"
                    words = phrases.no_grant(approval, problem, directory, person.id)
                    await self._not_understood(answer, problem, About.NO_GRANT, words)
                else:
                    await self._ask_again(answer, approval, person, reply.problem)
            case Withdraw():
                # From an approver, this may well be meant as a rejection.
                why = "Only the requester can withdraw a request. To say no, reply `reject`."
                await self._ask_again(answer, approval, person, why)
            case _:
                move = move_of(reply, person, directory)
                if move is not None:
                    await self.make(answer, person, move, seen=seen)

    async def _has_granted(self, person: Person, approval: str) -> bool:
        """Return whether a person gave a grant with an approval."""
        try:
            return (await self._grants.get(approval)).by == person.id
        except GrantNotFound:
            return False

    # -- what people are told --------------------------------------------------------------------

    async def _ask_again(
        self, answer: Answer, approval: Approval, person: Person, problem: str
    ) -> None:
        directory = self._decisions.directory
        words = phrases.not_understood(approval, problem, directory, person.id)
        await self._not_understood(answer, problem, About.NOT_UNDERSTOOD, words)

    async def _not_understood(
        self, answer: Answer, problem: str, about: About, words: RenderedMessage
    ) -> None:
        """Record an unclear answer, and tell the person."""
        holder = answer.holder

        async def attempt() -> None:
            approval, now = await self._ledger.approval(holder.approval), await self._ledger.now()
            more = {"channel": holder.channel, **answer.more}
            event = approval.note(
                What.NOT_UNDERSTOOD, now=now, by=holder.person, why=problem, more=more
            )
            change = answer.also.copy().note([event])
            await self._tell(change, answer, Notice(holder.person, about, words), now)
            await self._ledger.commit(change)

        await self._ledger.decide_again(attempt)
        log.info(
            "answer.not_understood", approval=holder.approval, person=holder.person, why=problem
        )

    async def _refuse_other(
        self,
        answer: Answer,
        why: str,
        actor: Actor,
        notices: Callable[[Approval], Sequence[Notice]],
    ) -> None:
        """Refuse an answer from somebody other than the person who was asked."""

        async def tell(change: Change, outcome: Outcome) -> None:
            if outcome.approval.state is not State.PENDING:
                return
            for notice in notices(outcome.approval):
                await self._tell(change, answer, notice, await self._ledger.now())

        extras = Extras(also=answer.also, acknowledges=always, on_commit=tell)
        await self._decisions.refuse(answer.holder.approval, NotAnApprover(why), actor, extras)

    async def _tell_refusal(
        self,
        change: Change,
        answer: Answer,
        refused: Refused,
        person: Person | None,
        wanted: str = "",
    ) -> None:
        about, words = refusal_of(refused, person, self._decisions.directory)
        decision = refused.approval.decision
        mine = decision is not None and person is not None and decision.by == person.id
        if about is About.DECIDED and mine and wanted == _UNCLEAR:
            return  # "thanks!" below one's own decision needs no answer
        notice = Notice(answer.holder.person, about, words)
        await self._tell(change, answer, notice, await self._ledger.now())

    async def _tell(self, change: Change, answer: Answer, notice: Notice, now: datetime) -> None:
        """Add a notice, unless it was sent often enough; the guard is part of the commit."""
        if not answer.to:
            guard = f"told:{notice.about}:{answer.holder.approval}:{notice.person}"
            record = await self._ledger.raw(guard)
            sent = 0 if record is None else record[0]
            if sent >= (_MOST_QUESTIONS if notice.about is About.NOT_UNDERSTOOD else 1):
                return
            change.put_raw(guard, now.isoformat(), was=sent, ttl=ONCE_IN)
        answer_back(change, answer, notice)


def actor_of(answer: Answer, person: Person | None) -> Actor:
    """Return the actor of an answer; pass no person if the author is not the one who was asked."""
    return Actor(person, answer.holder.channel, dict(answer.more))
