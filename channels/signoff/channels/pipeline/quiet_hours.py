"""What waits for somebody's working hours before it is delivered."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from signoff.broker.work import (
    CloseCard,
    CloseLevel,
    DeliveryWork,
    Purpose,
    ReportFailure,
    SendCard,
    SendReminder,
    purpose_of,
)
from signoff.core.approvals.approval import Approval, Asked
from signoff.core.directory.people import Directory
from signoff.core.routing.quiet_hours import held_until

LOOK_AGAIN: Final = timedelta(minutes=10)
"""How long a message waits before it is looked at again: somebody may be back before their hours,
or may have claimed the request."""


WITH_CARD: Final = timedelta(hours=1)
"""Nobody is reminded of a card that has waited for their hours sooner than this after it came."""


def delivery_held_until(
    work: DeliveryWork,
    approval: Approval,
    asked: Asked,
    directory: Directory,
    *,
    now: datetime,
    rewrites: bool,
) -> datetime | None:
    """Return until when a delivery waits for working hours (UTC); None where it goes out now.

    Cards, reminders and news wait. What rewrites a card disturbs nobody, and what answers somebody
    answers one who is there.

    Args:
        work: The delivery.
        approval: What it is about.
        asked: Who gets it.
        directory: The people, with the absences that are known now.
        now: The present (UTC).
        rewrites: Whether the channel rewrites its cards.
    """
    wants_answer = isinstance(work, SendCard | SendReminder)
    alarms = isinstance(work, ReportFailure)
    is_news = purpose_of(work) is Purpose.INFORM and not alarms
    is_news = is_news and not (isinstance(work, CloseCard | CloseLevel) and rewrites)
    if not (wants_answer or (is_news and asked.person)):
        return None
    ids = (asked.person,) if asked.person else approval.ballot.awaited
    people = [one for name in ids if (one := directory.get(name)) is not None]
    return held_until(approval, people, now=now, answers=wants_answer)


def is_spared(work: DeliveryWork, approval: Approval, asked: Asked, until: datetime) -> bool:
    """Say whether a reminder that would wait is not needed: the card or another one comes then."""
    if not isinstance(work, SendReminder):
        return False
    following = approval.reminders[approval.reminded : approval.reminded + 1]
    return not asked.receipt or any(one <= until for one in following)


def comes_with_card(
    work: DeliveryWork, approval: Approval, asked: Asked, directory: Directory, now: datetime
) -> bool:
    """Say whether a reminder is of a card that has waited for working hours until just now."""
    person = directory.get(asked.person)
    by_timer = isinstance(work, SendReminder) and work.nth.isdigit()
    if not by_timer or person is None or approval.since is None:
        return False
    came = held_until(approval, [person], now=approval.since)
    return came is not None and now < came + WITH_CARD


def pause(until: datetime, now: datetime) -> float:
    """Return after how many seconds what waits is looked at again."""
    return min(until - now, LOOK_AGAIN).total_seconds()
