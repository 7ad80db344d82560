"""Whom a move that decides nothing concerns, and what they are told."""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import JsonValue

from signoff.broker import stages
from signoff.broker.ledger.change import Change, Item
from signoff.channels.pipeline.reminders import remind
from signoff.channels.pipeline.reply_tokens import Holder, Role, issue
from signoff.channels.pipeline.targets import EMAIL, SLACK, TOKENS
from signoff.channels.words import collaboration
from signoff.channels.words.phrases import Words
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.approvals.parts import Sort
from signoff.core.directory.people import Directory, Person


def tell_move(item: Item, approval: Approval, directory: Directory, *, now: datetime) -> Change:
    """Return the change that tells everybody whom a move concerns.

    Args:
        item: What `signoff.broker.collaboration` has put before the stage `route`.
        approval: As it stands now.
        directory: The people.
        now: The present.
    """
    change = Change().ack(item)
    if approval.state is not State.PENDING:
        return change
    by, said = str(item.body.get("by", "")), str(item.body.get("why", ""))
    within = _lasts(approval, now)
    match item.body.get("moved"):
        case What.ASKED_BACK:
            if (requester := directory.find(approval.origin.user)) is not None:
                for channel in _channels_of_requester(approval, requester):
                    pressed = channel == SLACK
                    words = collaboration.question(approval, by, said, directory, pressed=pressed)
                    holder = Holder(approval.id, requester.id, channel, Role.REQUESTER)
                    _send(change, item, holder, words, within=within)
        case What.ANSWERED_BACK:
            if asker := _asker(approval):
                words = collaboration.answered(approval, by, said, directory)
                holder = Holder(approval.id, asker, channel_of(approval, asker))
                _send(change, item, holder, words, within=within)
        case What.REASSIGNED:
            _handed_on(change, item, approval, directory, within=within)
        case What.REMINDED:
            nth = f"now-{item.id.rpartition(':')[2]}"
            remind(change, approval, directory, nth=nth, now=now)
    return change


def _handed_on(
    change: Change, item: Item, approval: Approval, directory: Directory, *, within: timedelta
) -> None:
    """Tell whoever had a place, unless they gave it away; and who has it, where no card comes."""
    more, why = item.body.get("more") or {}, str(item.body.get("why", ""))
    of, to = str(more.get("of", "")), str(more.get("to", ""))
    if item.body.get("by") != of:
        words = collaboration.handed_on(approval, to, why, directory)
        channel = channel_of(approval, of)
        told: dict[str, JsonValue] = {"kind": "notice", "approval": approval.id, "person": of}
        told |= {"headline": words.headline, "text": words.text}
        change.send(stages.deliver(channel), f"notice:{item.id}:{of}", told)
    person = directory.get(to)
    if person is not None and any(not one.person for one in approval.asked):
        # The card stands in a place; there will be none of their own.
        words = collaboration.yours_now(approval, of, why, directory)
        channel = SLACK if person.slack else EMAIL
        holder = Holder(approval.id, to, channel, turn=approval.turn)
        _send(change, item, holder, words, within=within)


def _send(change: Change, item: Item, holder: Holder, words: Words, *, within: timedelta) -> None:
    token = issue(change, holder, within=within) if holder.channel in TOKENS else ""
    body: dict[str, JsonValue] = {
        "kind": "question" if holder.role is Role.REQUESTER else "notice",
        "approval": holder.approval,
        "person": holder.person,
        "token": token,
        "headline": words.headline,
        "text": words.text,
        "example": words.example,
    }
    change.send(stages.deliver(holder.channel), f"notice:{item.id}:{holder.person}", body)


def _channels_of_requester(approval: Approval, requester: Person) -> tuple[str, ...]:
    """Return how the requester is asked: by mail, and in Slack where the approval is asked there.

    The mail stays: a message in Slack that cannot be delivered would leave the question unheard.
    """
    there = any(one.channel == SLACK for one in approval.asked)
    return (EMAIL, SLACK) if requester.slack and there else (EMAIL,)


def _lasts(approval: Approval, now: datetime) -> timedelta:
    """Return how long an answer may still be given."""
    if approval.deadline is None:
        return timedelta(days=1)
    return max(approval.deadline - now, timedelta())


def _asker(approval: Approval) -> str:
    """Return who has asked the requester last."""
    asked = (one.by for one in reversed(approval.comments) if one.sort is Sort.QUESTION)
    return next(asked, "")


def channel_of(approval: Approval, person: str) -> str:
    """Return by which channel somebody who is asked is told."""
    mine = (one.channel for one in approval.asked if one.person == person and not one.problem)
    places = (one.channel for one in approval.asked if not one.person)
    return next(mine, next(places, EMAIL))
