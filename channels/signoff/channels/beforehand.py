"""An answer that approves calls like one too: done, and told to whoever gave it."""

from __future__ import annotations

from datetime import timedelta

from signoff.broker import stages
from signoff.broker.change import Change
from signoff.broker.desk import Desk
from signoff.broker.grants import Grants
from signoff.channels.answer import Answer, Notice, answer_back
from signoff.channels.phrases import About, Words, moment, one_paragraph
from signoff.core.approval import Approval, State
from signoff.core.beforehand import read_wish
from signoff.core.card import one_line, topic
from signoff.core.errors import GrantRefused
from signoff.core.grants import Grant, givers
from signoff.core.people import Person


class Beforehand:
    """Takes answers that say more than a yes to one call.

    Args:
        desk: The ledger and the people.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._grants = Grants(desk)

    async def take(self, answer: Answer, person: Person, text: str, approval: Approval) -> bool:
        """Approve calls like one, if that is what the answer says.

        Args:
            answer: Whose answer it is, to what.
            person: Who.
            text: Their own words.
            approval: What it is about.

        Returns:
            Whether it said so. If not, nothing was done.

        Raises:
            GrantRefused: It is unclear, or may not be: nothing was done, and nobody was told.
            DecisionRefused: The person may not decide; nothing was done, and nobody was told.
            LedgerError: It could not be committed; nothing was done.
        """
        wish = read_wish(text)
        # Where nobody may give a grant, words that only sound like one are read as ever.
        if wish is None or (wish.problem and not givers(approval)):
            return False
        decision = approval.decision
        if approval.state is not State.APPROVED or decision is None or decision.by != person.id:
            now = await self._desk.ledger.now()
            approval.may_decide(person, self._desk.directory, now=now)
        if wish.problem:
            raise GrantRefused(wish.problem)

        await self.give(answer, person, span=wish.span, uses=wish.uses, reason=wish.reason)
        return True

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
            answer_back(change, answer, Notice(person.id, About.GRANTED, granted(after, grant)))

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


def granted(approval: Approval, grant: Grant) -> Words:
    """Return to whoever gave a grant what it covers, and how it is taken back."""
    vary, limits = grant.scope.vary, grant.scope.limits
    differ = f"{', '.join(map(one_line, vary))} may differ; " if vary else ""
    within = f" It must hold that {' and '.join(map(one_line, limits))}." if limits else ""
    calls = "call" if grant.uses == 1 else "calls"
    return Words(
        f"Granted: calls like this of {topic(approval)} until {moment(grant.expires_at)}",
        f"The next {grant.uses} {calls} like it, for the same requester, will be approved in your "
        f"name, and you will not be asked: {differ}everything else has to be the same.{within}"
        f"\n\nWhoever runs Signoff can show and revoke it: it is {grant.id}.",
    )


def tell_used_up(change: Change, approval: Approval, grant: Grant) -> None:
    """Add to a change that whoever gave a grant is told of its last use, where they were asked."""
    asked = next(
        (one for one in approval.asked if one.person == grant.by and not one.problem), None
    )
    if asked is None:
        return
    words = Words(
        f"Used up: what you granted for {topic(approval)} has approved {grant.uses} of "
        f"{grant.uses} calls",
        f"You are asked about the next one again. `signoff grants show {grant.id}` lists them.",
    )
    change.send(
        stages.deliver(asked.channel),
        f"notice:used_up:{grant.id}",
        {
            "kind": "notice",
            "approval": approval.id,
            "person": asked.person,
            "headline": words.headline,
            "text": words.text,
        },
    )


def no_grant(approval: Approval, problem: str) -> Words:
    """Return that no grant was given, and what became of the call itself."""
    if approval.state is State.PENDING:
        return Words(
            f"Nothing is decided yet: {topic(approval)} waits, and calls like it too",
            one_paragraph(f"{problem} You can approve this call by itself."),
            "approve",
        )
    return Words(f"No grant was given for calls like {topic(approval)}", one_paragraph(problem))
