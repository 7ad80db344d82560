"""Cards on their way: a delivery for each who is asked, with a token where it takes one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import JsonValue

from signoff.broker import stages
from signoff.broker.ledger.change import Change
from signoff.channels.pipeline.reminders import time_left
from signoff.channels.pipeline.reply_tokens import Holder, card_item, issue
from signoff.channels.pipeline.targets import TOKENS
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
    turn = approval.turn
    for asked in approval.asked if only is None else only:
        holder = Holder(approval.id, asked.person, asked.channel, turn=turn)
        within = time_left(approval, now)
        token = issue(change, holder, within=within) if asked.channel in TOKENS else ""
        body: dict[str, JsonValue] = {"kind": "card", "approval": approval.id}
        body |= {"person": asked.key, "token": token}
        if turn:
            body["turn"] = turn
        change.send(stages.deliver(asked.channel), card_item(approval.id, asked.key, turn), body)
    return change
