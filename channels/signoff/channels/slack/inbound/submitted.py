"""What a submitted modal says, and what is wrong with it, at its fields."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from signoff.channels.form_fields import MOST_FIELDS, field_id, fields
from signoff.channels.slack.form import VALUE, read_values
from signoff.channels.slack.inbound.acks import Ack
from signoff.channels.slack.inbound.payloads import Submission
from signoff.channels.slack.outbound import views
from signoff.channels.slack.references import ASK, REJECT
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.moves import Move
from signoff.core.base.durations import parse_duration
from signoff.core.base.errors import PayloadError
from signoff.core.base.text import LONGEST_REASON, clean_text
from signoff.core.cards.card import one_line
from signoff.core.grants.moves import GiveGrant


class Misfilled(Exception):
    """What is wrong with a modal, at one of its blocks."""

    def __init__(self, block: str, text: str) -> None:
        super().__init__(text)
        self.block = block


def move_in(submission: Submission, approval: Approval) -> Move:
    """Return what the modal of a decision, or of a question to the requester, wants.

    Raises:
        PayloadErrors: Some fields do not hold what is asked for.
    """
    reason = text_in(submission, views.REASON)
    if submission.callback == ASK:
        return moves.AskBack(text=reason)
    if submission.callback == REJECT:
        return moves.Reject(reason=reason)
    values = read_values(fields(approval), submission.values)
    if (span := _span_of(submission)) is not None:
        return GiveGrant(span=span, reason=reason)
    return moves.Approve(reason=reason, values=values or None)


def _span_of(submission: Submission) -> timedelta | None:
    """Return for how long calls like it are approved, too; None where that was not chosen."""
    option = given(submission, views.SPAN, "selected_option")
    chosen = option.get("value") if isinstance(option, Mapping) else None
    try:
        span = parse_duration(chosen) if isinstance(chosen, str) else None
    except ValueError:
        # Slack sends what it was given; whatever else this is, it is no choice of ours.
        return timedelta(0)
    return span if isinstance(span, timedelta) else None


def text_in(submission: Submission, block: str) -> str:
    """Return what was written into a block, "" where nothing was."""
    text = given(submission, block, "value")
    return clean_text(text).strip()[:LONGEST_REASON] if isinstance(text, str) else ""


def given(submission: Submission, block: str, key: str) -> Any:  # noqa: ANN401 -- JSON of Slack's own making
    """Return what the input of a block holds under a key, None where it holds nothing."""
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
    """Return errors at the fields of a decision's modal."""
    names = [field.name for field in fields(approval)[:MOST_FIELDS]]
    return errors_at(
        {
            field_id(names.index(name)) if name in names else first_block(approval): why
            for name, why in problems.items()
        }
    )


def first_block(approval: Approval) -> str:
    """Return the first block of a decision's modal that takes anything."""
    return field_id(0) if fields(approval) else views.REASON
