"""The deliveries of an approval's cards: delivered, refused, found again, rewritten.

A card is identified by its channel and the key of its recipient (`Asked.key`).
"""

from __future__ import annotations

from datetime import datetime

from pydantic import JsonValue

from signoff.core.approvals.approval import Approval, Asked, Moved, Shown, State
from signoff.core.approvals.events import Event, What
from signoff.core.policies.levels import Order
from signoff.core.policies.policy import OnOutOfOffice


def is_reachable(approval: Approval) -> bool:
    """Say whether an awaited approver has the card, or may still get it, and is not away.

    An out-of-office reply only counts as an absence if the policy says so.
    """
    terms = approval.terms
    awaited = [one for one in approval.ballot.awaited if one not in approval.absent]
    moves_on = terms is not None and terms.on_out_of_office is OnOutOfOffice.DEFAULT
    has, ballot = {one.person for one in approval.asked}, approval.ballot
    later = {one for place in ballot.shared for one in place}
    later |= {*ballot.own} if ballot.rules.order is Order.SEQUENCE else set()
    if any(one in later and one not in has for one in awaited):
        # Their card is created when it is their turn, or when they get the seat.
        return True
    if approval.absent and not awaited:
        return False
    return any(
        not (asked.problem or (moves_on and asked.away))
        for asked in approval.asked
        if asked.is_for(awaited, approval.level_key)
    )


def is_stranded(approval: Approval) -> bool:
    """Say whether a routed approval is pending and nobody can be asked.

    An approval whose cards are all being delivered is not stranded.
    """
    if approval.state is not State.PENDING or approval.terms is None:
        return False
    smooth = approval.asked and not approval.absent
    if smooth and not any(one.problem or one.away for one in approval.asked):
        return False
    return not is_reachable(approval)


def unreached(approval: Approval) -> tuple[str, ...]:
    """Return the ids of awaited approvers who got no card, or have left since.

    An approver got no card if every delivery was refused. An out-of-office reply only counts as a
    refusal if the policy says so.
    """
    terms = approval.terms
    moves_on = terms is not None and terms.on_out_of_office is OnOutOfOffice.DEFAULT
    place = [
        one for one in approval.asked if not one.person and one.level_key == approval.level_key
    ]
    found = []
    for person in approval.ballot.awaited:
        cards = [*(one for one in approval.asked if one.person == person), *place]
        refused = cards and all(one.problem or (moves_on and one.away) for one in cards)
        if refused or person in approval.absent:
            found.append(person)
    return tuple(found)


def is_wanted(approval: Approval, asked: Asked) -> bool:
    """Say whether a card that has not been delivered is still tried.

    One that was given up after an outage is, as long as its recipient has no other card.
    """
    return not asked.problem or asked.key in unreached(approval)


def can_be_met(approval: Approval) -> bool:
    """Say whether the people who can still answer at this level are enough to approve it."""
    ballot = approval.ballot
    gone = {*unreached(approval), *ballot.no}
    return ballot.can_reach(one for one in (*ballot.own, *ballot.stay) if one not in gone)


def is_short(was: Approval, approval: Approval) -> bool:
    """Say whether too few people can answer after an event at the level, such as a rejection."""
    return was.level_key == approval.level_key and can_be_met(was) and not can_be_met(approval)


def delivered(
    approval: Approval,
    key: str,
    channel: str,
    receipt: str,
    *,
    now: datetime,
    copy_state: str = "",
    shown: Shown = Shown.UNKNOWN,
    bundle: str = "",
) -> Moved:
    """Record that a card has reached its channel.

    Args:
        approval: The approval.
        key: The key of the recipient; see `Asked.key`.
        channel: The name of the channel.
        receipt: The channel's receipt for the card.
        now: The present.
        copy_state: See `Asked`.
        shown: How much of the call the card shows.
        bundle: The id of the bundle that lists it, "" if it has a card of its own.
    """
    more: dict[str, JsonValue] = {"to": key}
    if bundle:
        more["bundle"] = bundle
    if copy_state:
        more["copy"] = copy_state
    if shown is Shown.CUT:
        more["shown"] = shown.value
    event = approval.note(What.DELIVERED, now=now, by=channel, more=more)
    changed = _with_card(
        approval,
        key,
        channel,
        receipt=receipt,
        problem="",
        copy_state=copy_state,
        shown=shown,
        bundle=bundle,
    )
    return changed, (event,)


def held(approval: Approval, key: str, channel: str, until: datetime, *, now: datetime) -> Event:
    """Return the audit event of a card that waits for the recipient's working hours."""
    more: dict[str, JsonValue] = {"to": key, "until": until.isoformat()}
    return approval.note(What.HELD, now=now, by=channel, more=more)


def found_copy(approval: Approval, key: str, channel: str, receipt: str, *, now: datetime) -> Moved:
    """Record a card that exists although its delivery was never confirmed."""
    cards = (one for one in approval.asked if (one.key, one.channel) == (key, channel))
    card = next(cards, None)
    if card is None or receipt in (card.receipt, *card.copies):
        return approval, ()
    if not card.receipt:
        return delivered(approval, key, channel, receipt, now=now, copy_state="reconciled")
    event = approval.note(What.DELIVERED, now=now, by=channel, more={"to": key, "copy": "second"})
    return _with_card(approval, key, channel, copies=(*card.copies, receipt)), (event,)


def rewritten(
    approval: Approval,
    key: str,
    channel: str,
    copy_state: str = "",
    shown: Shown = Shown.UNKNOWN,
) -> Approval:
    """Return the approval with a new state of a card; an unset argument changes nothing."""
    states: dict[str, str] = {"copy_state": copy_state, "shown": shown}
    return _with_card(approval, key, channel, **{name: one for name, one in states.items() if one})


def undelivered(
    approval: Approval, key: str, channel: str, problem: str, *, now: datetime
) -> Moved:
    """Record that a card can never reach this person or place by this channel."""
    event = approval.note(What.UNDELIVERED, now=now, by=channel, why=problem, more={"to": key})
    return _with_card(approval, key, channel, problem=problem), (event,)


def informed(
    approval: Approval,
    person: str,
    channel: str,
    notice: str,
    *,
    now: datetime,
    problem: str = "",
) -> Event:
    """Return the event of a message to somebody who does not decide; the approval is unchanged.

    Args:
        approval: The approval.
        person: The id, or the address of somebody who is not in the directory.
        channel: The name of the channel.
        notice: The milestone; see `signoff.core.approvals.milestones.Milestone`.
        now: The present.
        problem: Why the message could not be delivered, "" if it was.
    """
    what = What.UNDELIVERED if problem else What.DELIVERED
    more: dict[str, JsonValue] = {"to": person, "notice": str(notice)}
    return approval.note(what, now=now, by=channel, why=problem, more=more)


def away(approval: Approval, person: str, channel: str, why: str, *, now: datetime) -> Moved:
    """Record an out-of-office reply. The terms say what it means; the person may still answer."""
    event = approval.note(What.AWAY, now=now, by=person, why=why, more={"channel": channel})
    return _with_card(approval, person, channel, away=why), (event,)


def _with_card(
    approval: Approval, key: str, channel: str, **update: str | tuple[str, ...]
) -> Approval:
    asked = tuple(
        one.model_copy(update=update) if (one.key, one.channel) == (key, channel) else one
        for one in approval.asked
    )
    return approval.model_copy(update={"asked": asked})
