"""Moves in Slack without a decision, by modal: comment, reassign, extend, withdraw, answer.

Permissions are checked when the modal is opened, and again when it is submitted.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import structlog
from slack_sdk.models.views import View

from signoff.broker.decisions import Decisions, Taken
from signoff.broker.ledger.ledger import Current
from signoff.broker.ledger.listing import requests
from signoff.channels.answers import Answers
from signoff.channels.incoming import Answer
from signoff.channels.slack.inbound.acks import ASK_OPERATOR, LATER, STRANGER, Ack, refusal_modal
from signoff.channels.slack.inbound.identity import Who
from signoff.channels.slack.inbound.payloads import SlackUser, ViewSubmission
from signoff.channels.slack.inbound.submitted import InvalidInput, errors_at, given, text_in
from signoff.channels.slack.outbound import views
from signoff.channels.slack.references import ANSWER, COMMENT, EXTEND, REASSIGN, WITHDRAW, Reference
from signoff.core.approvals import collaboration, moves
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.moves import Move
from signoff.core.base.durations import format_duration, parse_duration
from signoff.core.base.errors import ApprovalError, LedgerError, MoveRefused
from signoff.core.cards.card import awaited_by, card, shown
from signoff.core.directory.people import Person

log = structlog.get_logger(__name__)

MODALS: Final = frozenset({ANSWER, COMMENT, REASSIGN, EXTEND, WITHDRAW})
"""The modals that this module handles, and the clicks that open them."""

_MOST_READ: Final = 200
"""The most requests to read, the newest first; older ones are not shown."""

_AT: Final = {REASSIGN: views.TO, EXTEND: views.LENGTH}
"""The blocks that show why a move is not possible; other modals show it at the text."""


class CollaborationModals:
    """Handles the moves that decide nothing.

    Args:
        decisions: The ledger and the people.
        answers: Makes the moves.
        who: Finds the person behind a user of Slack; None for a stranger.
    """

    def __init__(self, decisions: Decisions, answers: Answers, who: Who) -> None:
        self._decisions = decisions
        self._answers = answers
        self._who = who

    async def requests(self, actor: SlackUser) -> View:
        """Return the modal with a person's own pending requests.

        Raises:
            SlackDeferred: The user cannot be identified at the moment.
            LedgerError: The requests could not be read.
        """
        person = await self._who(actor)
        if person is None:
            return views.notice_view(STRANGER, ASK_OPERATOR)
        found = await requests(self._decisions.ledger, person, limit=_MOST_READ)
        waiting = [one for _, one in found if one is not None and one.state is State.PENDING]
        directory = self._decisions.directory
        return views.requests_view(
            [
                (card(one, directory), awaited_by(one, directory))
                for one in waiting[: views.MOST_REQUESTS]
            ],
            more=len(waiting) > views.MOST_REQUESTS,
        )

    def view(self, action: str, seen: Current, person: Person, about: Reference) -> View:
        """Return the modal for a move.

        Raises:
            DecisionRefused: The person may not make the move.
        """
        approval = seen.approval
        self._require_permitted(action, approval, person, seen.now)
        shape = card(approval, self._decisions.directory)
        if action == COMMENT:
            return views.comment_view(shape, about)
        if action == REASSIGN:
            return views.reassign_view(shape, about)
        if action == EXTEND:
            return views.extend_view(
                shape, about, format_duration(collaboration.time_to_add(approval))
            )
        if action == WITHDRAW:
            return views.withdraw_view(shape, about)
        question = approval.open_question
        return views.answer_view(shape, about, shown(question.text) if question else "")

    async def take(
        self, submission: ViewSubmission, seen: Current, person: Person, answer: Answer
    ) -> Ack:
        """Make the move of a modal, or return its errors at their blocks.

        Raises:
            DecisionRefused: The person may not make the move, or not any more; nothing was done.
        """
        action = submission.callback
        self._require_permitted(action, seen.approval, person, seen.now)
        at = _AT.get(action, views.REASON)
        try:
            move = await self._move(submission, person)
            outcome = await self._answers.make(answer, person, move, is_final=_is_final, seen=seen)
        except InvalidInput as problem:
            return errors_at({problem.block: problem})
        except LedgerError as error:
            log.warning("slack.not_recorded", approval=seen.approval.id, problem=str(error))
            return errors_at({at: LATER})
        if isinstance(outcome, Taken):
            return None
        if not _is_final(outcome.error):
            return errors_at({at: outcome.error})
        return refusal_modal(outcome, person, self._decisions.directory)

    def _require_permitted(
        self, action: str, approval: Approval, person: Person, now: datetime
    ) -> None:
        """Refuse a person who may not make the move.

        Raises:
            DecisionRefused: The person may not make the move.
        """
        directory = self._decisions.directory
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

    async def _move(self, submission: ViewSubmission, person: Person) -> Move:
        """Return the move that a modal describes.

        Raises:
            InvalidInput: The modal is incomplete or invalid.
        """
        text = text_in(submission, views.REASON)
        if submission.callback == WITHDRAW:
            return moves.Withdraw(reason=text)
        if submission.callback == ANSWER:
            return moves.AnswerBack(text=text)
        if not text:
            raise InvalidInput(views.REASON, "There are no words in it.")
        if submission.callback == COMMENT:
            return moves.Comment(text=text)
        if submission.callback == EXTEND:
            return moves.Extend(reason=text, by=_length(submission))
        user = given(submission, views.TO, "selected_user")
        # Slack returns the team; the modal has only the id.
        found = await self._who(SlackUser(user, "")) if isinstance(user, str) and user else None
        if found is None:
            raise InvalidInput(
                views.TO,
                "Signoff does not know this person. Choose somebody else, or ask your operator to "
                "add them to the directory.",
            )
        return moves.Reassign(of=person, to=found, reason=text)


def _is_final(error: ApprovalError) -> bool:
    """Return whether a refusal closes the modal; otherwise the move can be corrected in it."""
    return not isinstance(error, MoveRefused)


def _length(submission: ViewSubmission) -> timedelta:
    """Return the additional time that a modal asks for.

    Raises:
        InvalidInput: It is not a duration.
    """
    text = text_in(submission, views.LENGTH)
    try:
        length = parse_duration(text)
    except ValueError as error:
        raise InvalidInput(views.LENGTH, "Write it like 30m, 4h or 1d.") from error
    if not isinstance(length, timedelta) or length <= timedelta():
        raise InvalidInput(views.LENGTH, "Write it like 30m, 4h or 1d.")
    return length
