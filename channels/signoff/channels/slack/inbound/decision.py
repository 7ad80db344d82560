"""Decisions in Slack by modal: the form of an approval, the reason of a rejection, a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import structlog

from signoff.broker.decisions import Decisions, Refused, Taken
from signoff.broker.ledger.ledger import Current
from signoff.channels.answers import Answers, actor_of
from signoff.channels.form_fields import Field, PayloadErrors, fields
from signoff.channels.incoming import Answer
from signoff.channels.slack.form import fits, read_values
from signoff.channels.slack.inbound.acks import LATER, Ack, refusal_modal, replace_modal
from signoff.channels.slack.inbound.payloads import ViewSubmission
from signoff.channels.slack.inbound.submitted import (
    errors_at,
    errors_of,
    first_block,
    move_in,
    span_text,
    text_in,
)
from signoff.channels.slack.outbound import views
from signoff.channels.slack.outbound.channel import NAME
from signoff.channels.slack.references import APPROVE, Reference
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval
from signoff.core.base.errors import (
    ApprovalError,
    GrantRefused,
    LedgerError,
    NotShownInFull,
    PayloadError,
    ReasonContradicts,
    ReasonNeeded,
)
from signoff.core.base.text import reason_mark
from signoff.core.cards.card import Card, card
from signoff.core.directory.people import Directory, Person

log = structlog.get_logger(__name__)


class DecisionModals:
    """Handles the modals that decide, or that ask the requester."""

    def __init__(self, decisions: Decisions, answers: Answers) -> None:
        self._decisions = decisions
        self._answers = answers

    async def take(
        self,
        submission: ViewSubmission,
        seen: Current,
        person: Person,
        answer: Answer,
        reference: Reference,
    ) -> Ack:
        """Take the decision in a modal, or return the errors of its fields.

        Raises:
            DecisionRefused: The person may not decide.
        """
        approval, directory = seen.approval, self._decisions.directory
        approval.may_decide(person, directory, now=seen.now)
        if submission.callback == APPROVE:
            must_fit(approval, person, fields(approval))
        try:
            outcome = await self._answers.make(
                answer,
                person,
                move_in(submission, approval, reference.as_it_is),
                is_final=_is_final,
                seen=seen,
            )
        except PayloadErrors as error:
            await self._decisions.refuse(
                approval.id, error.first, actor_of(answer, person), wanted=moves.Approve.name
            )
            return errors_of(approval, error.problems)
        except LedgerError as error:
            log.warning("slack.not_recorded", approval=approval.id, problem=str(error))
            deciding = submission.callback == APPROVE
            return errors_at({first_block(approval) if deciding else views.REASON: LATER})
        if isinstance(outcome, Taken):
            return None
        if isinstance(outcome.error, ReasonContradicts):
            shown = card(approval, directory)
            may_grant = person.id in shown.offer.who
            return _ask_to_confirm(submission, outcome, shown, reference, may_grant=may_grant)
        return _refusal(outcome, person, directory)


def _is_final(error: ApprovalError) -> bool:
    """Return whether a refusal closes the modal; errors of fields can be corrected in it."""
    return not isinstance(error, PayloadError | GrantRefused)


def _refusal(refused: Refused, person: Person, directory: Directory) -> Ack:
    """Return why a modal was refused: as errors of fields, or as another modal."""
    match refused.error:
        case GrantRefused() as error:
            return errors_at({views.SPAN: error})
        case ReasonNeeded() as error:
            return errors_at({views.REASON: error})
        case PayloadError() as error:
            return errors_of(refused.approval, {error.key: error})
    return refusal_modal(refused, person, directory)


def _ask_to_confirm(
    submission: ViewSubmission,
    refused: Refused,
    shown: Card,
    reference: Reference,
    *,
    may_grant: bool,
) -> Ack:
    """Return the same modal with what was entered, and a button that confirms the reason."""
    approval, reason = refused.approval, text_in(submission, views.REASON)
    entered = read_values(fields(approval), submission.values)
    wanted = [replace(one, first=entered.get(one.name, one.first)) for one in fields(approval)]
    if not fits(wanted):
        # The new modal could not hold what was entered.
        return errors_at({views.REASON: refused.error})
    view = views.approve_view(
        shown,
        reference.model_copy(update={"as_it_is": reason_mark(reason)}),
        wanted,
        may_grant=may_grant,
        confirm=views.Confirmation(str(refused.error), reason, span_text(submission) or ""),
    )
    return replace_modal(view)


def must_fit(approval: Approval, person: Person, wanted: Sequence[Field]) -> None:
    """Refuse an approval of a call that Slack cannot show in full.

    Raises:
        NotShownInFull: Neither the card nor the modal shows all of it.
    """
    if approval.in_two_steps:
        return
    approval.may_approve_by(person.id, NAME)
    if not fits(wanted):
        raise NotShownInFull(
            f"The form of {approval.call.name}() does not fit into Slack. Fill it in on its page. "
            "A no counts here as well."
        )
