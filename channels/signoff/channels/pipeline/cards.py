"""Cards on their way: a delivery for each who is asked, with a token where it takes one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from signoff.broker.ledger.change import Change
from signoff.broker.work import SendCard
from signoff.channels.pipeline.reminders import time_left
from signoff.channels.pipeline.reply_tokens import Holder, issue
from signoff.core.approvals.approval import Approval, Asked


def send_cards(
    change: Change,
    approval: Approval,
    *,
    now: datetime,
    only: Sequence[Asked] | None = None,
) -> Change:
    """Add to a change the deliveries of cards.

    Args:
        change: Added to.
        approval: As it stands, with those who are asked.
        now: The present.
        only: Whose cards; None for all who are asked.
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
                token=issue(change, holder, within=time_left(approval, now)),
            )
        )
    return change
