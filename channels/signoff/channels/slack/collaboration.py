"""Moves in Slack that decide nothing, by modals: comment, reassign, extend, withdraw, answer.

Who may is judged when the modal is opened, and again when it is sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

import structlog
from slack_sdk.models.views import View

from signoff.broker.decisions import Desk
from signoff.broker.ledger.listing import requests
from signoff.channels.collaboration import Asides
from signoff.channels.incoming import Answer
from signoff.channels.slack import views
from signoff.channels.slack.acks import ASK_OPERATOR, STRANGER, Ack
from signoff.channels.slack.payloads import Actor, Submission
from signoff.channels.slack.references import (
    ANSWER,
    COMMENT,
    EXTEND,
    REASSIGN,
    REMIND,
    WITHDRAW,
    Reference,
)
from signoff.channels.slack.submitted import Misfilled, errors_at, given, text_in
from signoff.core.approvals import collaboration
from signoff.core.approvals.approval import Approval, State
from signoff.core.base.durations import format_duration, parse_duration
from signoff.core.base.errors import LedgerError, MoveRefused
from signoff.core.cards.card import awaited_by, card, shown
from signoff.core.directory.people import Person
from signoff.core.replies.reply import Comment, Extend, Reassign, Remind, Reply, Withdraw

log = structlog.get_logger(__name__)

Who = Callable[[Actor], Awaitable[Person | None]]

MODALS: Final = frozenset({ANSWER, COMMENT, REASSIGN, EXTEND, WITHDRAW})
"""The modals that are taken here, and the clicks that open them."""

_LOOKED_AT: Final = 200
"""Requests, the newest first; what waits for longer than so many others is not shown."""

_AT: Final = {REASSIGN: views.TO, EXTEND: views.LENGTH}
"""Where it is said that a move is not possible; elsewhere at the words."""

_LATER: Final = "This could not be recorded just now, and nothing was done. Send it again."


class SlackMenu:
    """Takes the moves that decide nothing.

    Args:
        desk: The ledger and the people.
        who: Finds the person behind a user of Slack; None for a stranger.
    """

    def __init__(self, desk: Desk, who: Who) -> None:
        self._desk = desk
        self._asides = Asides(desk)
        self._who = who

    async def requests(self, actor: Actor) -> View:
        """Return the modal that shows somebody what they have asked for and is not decided.

        Raises:
            SlackDeferred: Nobody can say who it was just now.
            LedgerError: Nobody can say what they have asked for.
        """
        person = await self._who(actor)
        if person is None:
            return views.notice_view(STRANGER, ASK_OPERATOR)
        found = await requests(self._desk.ledger, person, limit=_LOOKED_AT)
        waiting = [one for _, one in found if one is not None and one.state is State.PENDING]
        directory = self._desk.directory
        return views.requests_view(
            [
                (card(one, directory), awaited_by(one, directory))
                for one in waiting[: views.MOST_REQUESTS]
            ],
            more=len(waiting) > views.MOST_REQUESTS,
        )

    async def chosen(
        self, action: str, approval: Approval, person: Person, about: Reference, answer: Answer
    ) -> View | None:
        """Do what was chosen, or return the modal that it needs.

        Raises:
            DecisionRefused: The person may not; nothing was done.
            LedgerError: It could not be committed; nothing was done.
        """
        if action == REMIND:
            await self._asides.do(answer, person, Remind())
            return None
        self._judge(action, approval, person, await self._desk.ledger.now())
        seen = card(approval, self._desk.directory)
        if action == COMMENT:
            return views.comment_view(seen, about)
        if action == REASSIGN:
            return views.reassign_view(seen, about)
        if action == EXTEND:
            return views.extend_view(
                seen, about, format_duration(collaboration.time_to_add(approval))
            )
        if action == WITHDRAW:
            return views.withdraw_view(seen, about)
        question = approval.open_question
        return views.answer_view(seen, about, shown(question.text) if question else "")

    async def take(
        self, submission: Submission, approval: Approval, person: Person, answer: Answer
    ) -> Ack:
        """Do what a modal says, or return what is wrong with it, at its blocks.

        Raises:
            DecisionRefused: The person may not, or may not any more; nothing was done.
        """
        action = submission.callback
        self._judge(action, approval, person, await self._desk.ledger.now())
        at = _AT.get(action, views.REASON)
        try:
            if action == ANSWER:
                text = text_in(submission, views.REASON)
                await self._asides.answer_back(answer, person, text)
            else:
                await self._asides.do(answer, person, await self._said(submission))
        except Misfilled as problem:
            return errors_at({problem.block: problem})
        except MoveRefused as error:
            return errors_at({at: error})
        except LedgerError as error:
            log.warning("slack.not_recorded", approval=approval.id, problem=str(error))
            return errors_at({at: _LATER})
        return None

    def _judge(self, action: str, approval: Approval, person: Person, now: datetime) -> None:
        """Refuse whoever may not do this.

        Raises:
            DecisionRefused: The person may not.
        """
        directory = self._desk.directory
        if action == COMMENT:
            collaboration.may_comment(approval, person, directory)
        elif action == REASSIGN:
            collaboration.may_reassign(approval, person, directory, of=person, now=now)
        elif action == EXTEND:
            collaboration.may_extend(approval, person, directory, now=now)
        elif action == WITHDRAW:
            approval.may_withdraw(person, directory)
        else:
            collaboration.may_answer_back(approval, person, directory, now=now)

    async def _said(self, submission: Submission) -> Reply:
        """Return what a modal says.

        Raises:
            Misfilled: It does not say it.
        """
        text = text_in(submission, views.REASON)
        if submission.callback == WITHDRAW:
            return Withdraw(reason=text)
        if not text:
            raise Misfilled(views.REASON, "There are no words in it.")
        if submission.callback == COMMENT:
            return Comment(text=text)
        if submission.callback == EXTEND:
            return Extend(reason=text, length=_length(submission))
        user = given(submission, views.TO, "selected_user")
        # Whose team it is, Slack says; the modal has the id alone.
        found = await self._who(Actor(user, "")) if isinstance(user, str) and user else None
        if found is None:
            raise Misfilled(
                views.TO,
                "Signoff does not know this person. Choose somebody else, or ask your operator to "
                "add them to the directory.",
            )
        return Reassign(reason=text, to=found.id)


def _length(submission: Submission) -> timedelta:
    """Return how much more time is wanted.

    Raises:
        Misfilled: It is no duration.
    """
    text = text_in(submission, views.LENGTH)
    try:
        length = parse_duration(text)
    except ValueError as error:
        raise Misfilled(views.LENGTH, "Write it like 30m, 4h or 1d.") from error
    if not isinstance(length, timedelta) or length <= timedelta():
        raise Misfilled(views.LENGTH, "Write it like 30m, 4h or 1d.")
    return length
