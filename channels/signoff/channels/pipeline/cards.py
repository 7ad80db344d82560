"""Queues cards and reminders: one delivery for each approver and channel, with a token."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from signoff.broker.ledger.change import Change
from signoff.broker.work import SendCard, SendReminder
from signoff.channels.pipeline.reply_tokens import Holder, issue_token
from signoff.channels.words.phrases import reminder
from signoff.core.approvals.approval import Approval, Asked
from signoff.core.directory.people import Directory

_WITHOUT_DEADLINE: Final = timedelta(days=365)
"""How long the token of a card is valid if the approval stays open after its deadline."""


def send_cards(
    change: Change,
    approval: Approval,
    *,
    now: datetime,
    only: Sequence[Asked] | None = None,
) -> Change:
    """Add the deliveries of cards to a change, and return it.

    Args:
        change: The change.
        approval: The current approval, with the people who are asked.
        now: The current time.
        only: The cards to send; None for all.
    """
    level_key = approval.level_key
    for asked in approval.asked if only is None else only:
        holder = Holder(approval.id, asked.person, asked.channel, level_key=level_key)
        change.send(
            SendCard(
                channel=asked.channel,
                approval=approval.id,
                person=asked.key,
                level_key=level_key,
                token=issue_token(change, holder, within=time_left(approval, now)),
            )
        )
    return change


def remind(
    change: Change, approval: Approval, directory: Directory, *, nth: str, now: datetime
) -> Change:
    """Add to a change a reminder for each card whose answer is awaited, and return it.

    Each is sent once; `nth` identifies it among those of this level.
    """
    awaited = approval.ballot.awaited
    for asked in approval.asked:
        if asked.problem or not asked.is_for(awaited, approval.level_key):
            continue
        words = reminder(approval, directory, asked.person)
        holder = Holder(approval.id, asked.person, asked.channel, level_key=asked.level_key)
        change.send(
            SendReminder(
                channel=asked.channel,
                approval=approval.id,
                person=asked.key,
                level_key=approval.level_key,
                nth=nth,
                headline=words.headline,
                text=words.text,
                example=words.example,
                token=issue_token(change, holder, within=time_left(approval, now)),
            )
        )
    return change


def time_left(approval: Approval, now: datetime) -> timedelta:
    """Return how long an answer can count at most, or a year for an approval that stays open.

    Each level can be extended by its length, and a question to the requester can stop its clock for
    as long. At later levels, the policy may let the same people answer.
    """
    if approval.deadline is None or approval.stays_open or approval.terms is None:
        return _WITHOUT_DEADLINE
    levels = approval.terms.ladder[approval.level :]
    length = sum((one.within.by_the_clock for one in levels), timedelta())
    return max(approval.deadline - now, timedelta()) + 3 * length
