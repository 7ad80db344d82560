"""Deliveries that wait for the working hours of their recipients."""

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
"""The longest time until a waiting message is checked again: meanwhile somebody may have ended an
absence or claimed the request."""


WITH_CARD: Final = timedelta(hours=1)
"""The shortest time between a card that has waited for working hours and its first reminder."""


def delivery_held_until(
    work: DeliveryWork,
    approval: Approval,
    asked: Asked,
    directory: Directory,
    *,
    now: datetime,
    rewrites: bool,
) -> datetime | None:
    """Return until when a delivery waits for working hours (UTC); None if it is delivered now.

    Cards, reminders and messages about outcomes wait. Changes of a card do not disturb anybody, and
    replies go to a person who has just written.
    """
    ids = (asked.person,) if asked.person else approval.ballot.awaited
    people = [one for name in ids if (one := directory.get(name)) is not None]
    if not all(one.quiet_hours for one in people):
        return None
    wants_answer = isinstance(work, SendCard | SendReminder)
    alarms = isinstance(work, ReportFailure)
    is_news = purpose_of(work) is Purpose.INFORM and not alarms
    is_news = is_news and not (isinstance(work, CloseCard | CloseLevel) and rewrites)
    if not (wants_answer or (is_news and asked.person)):
        return None
    return held_until(approval, people, now=now, answers=wants_answer)


def is_needless_reminder(
    work: DeliveryWork, approval: Approval, asked: Asked, until: datetime
) -> bool:
    """Return whether a waiting reminder is needless: the card or the next reminder comes then."""
    if not isinstance(work, SendReminder):
        return False
    following = approval.reminders[approval.reminded : approval.reminded + 1]
    return not asked.receipt or any(one <= until for one in following)


def comes_with_card(
    work: DeliveryWork, approval: Approval, asked: Asked, directory: Directory, now: datetime
) -> bool:
    """Return whether a reminder's card waited for working hours until less than an hour ago."""
    person = directory.get(asked.person)
    by_timer = isinstance(work, SendReminder) and work.nth.isdigit()
    if not by_timer or person is None or approval.since is None:
        return False
    came = held_until(approval, [person], now=approval.since)
    return came is not None and now < came + WITH_CARD


def pause(until: datetime, now: datetime) -> float:
    """Return the seconds until a waiting message is checked again."""
    return min(until - now, LOOK_AGAIN).total_seconds()
