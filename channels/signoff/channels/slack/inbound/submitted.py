"""Reads a submitted modal, and reports errors at its fields."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from signoff.channels.form_fields import MOST_FIELDS, field_id, fields
from signoff.channels.slack.form import VALUE, read_values
from signoff.channels.slack.inbound.acks import Ack
from signoff.channels.slack.inbound.payloads import ViewSubmission
from signoff.channels.slack.outbound import views
from signoff.channels.slack.references import ASK, REJECT
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.moves import Move
from signoff.core.base.durations import parse_duration
from signoff.core.base.errors import PayloadError
from signoff.core.base.text import LONGEST_REASON, clean_text, reason_mark
from signoff.core.cards.card import one_line
from signoff.core.grants.moves import GiveGrant


class InvalidInput(Exception):
    """An error in one block of a modal."""

    def __init__(self, block: str, text: str) -> None:
        super().__init__(text)
        self.block = block


def move_in(submission: ViewSubmission, approval: Approval, confirmed: str) -> Move:
    """Return the move of a modal for a decision or a question to the requester.

    `confirmed` is the `reason_mark` of the reason that the modal asked to confirm, "" for none.

    Raises:
        PayloadErrors: Some fields are invalid.
    """
    reason = text_in(submission, views.REASON)
    if submission.callback == ASK:
        return moves.AskBack(text=reason)
    if submission.callback == REJECT:
        return moves.Reject(reason=reason)
    as_it_is = bool(confirmed) and reason_mark(reason) == confirmed
    values = read_values(fields(approval), submission.values)
    if (span := _span_of(submission)) is not None:
        return GiveGrant(span=span, reason=reason, as_it_is=as_it_is)
    return moves.Approve(reason=reason, values=values or None, as_it_is=as_it_is)


def _span_of(submission: ViewSubmission) -> timedelta | None:
    """Return the chosen duration of a grant for similar calls; None if there is none."""
    chosen = span_text(submission)
    try:
        span = parse_duration(chosen) if chosen is not None else None
    except ValueError:
        # Slack returns only the options that it was given, so this is not one of ours.
        return timedelta(0)
    return span if isinstance(span, timedelta) else None


def span_text(submission: ViewSubmission) -> str | None:
    """Return the chosen duration of a grant as Slack sends it, None if there is none."""
    option = given(submission, views.SPAN, "selected_option")
    chosen = option.get("value") if isinstance(option, Mapping) else None
    return chosen if isinstance(chosen, str) else None


def text_in(submission: ViewSubmission, block: str) -> str:
    """Return the text of a block, "" if it is empty."""
    text = given(submission, block, "value")
    return clean_text(text).strip()[:LONGEST_REASON] if isinstance(text, str) else ""


def given(submission: ViewSubmission, block: str, key: str) -> Any:  # noqa: ANN401 -- Slack's JSON
    """Return the value under a key of a block's input, None if there is none."""
    element = submission.values.get(block)
    held = element.get(VALUE) if isinstance(element, Mapping) else None
    return held.get(key) if isinstance(held, Mapping) else None


def errors_at(problems: Mapping[str, object]) -> Ack:
    """Return errors at their blocks (https://docs.slack.dev/surfaces/modals#displaying_errors)."""
    return {
        "response_action": "errors",
        "errors": {block: one_line(str(why)) for block, why in problems.items()},
    }


def errors_of(approval: Approval, problems: Mapping[str, PayloadError]) -> Ack:
    """Return the errors at the fields of a decision's modal."""
    names = [field.name for field in fields(approval)[:MOST_FIELDS]]
    return errors_at(
        {
            field_id(names.index(name)) if name in names else first_block(approval): why
            for name, why in problems.items()
        }
    )


def first_block(approval: Approval) -> str:
    """Return the first input block of a decision's modal."""
    return field_id(0) if fields(approval) else views.REASON
