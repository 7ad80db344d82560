"""The results of deliveries: done, tried again, given up, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from signoff.broker.ledger.change import Change, Item
from signoff.broker.monitoring import metrics
from signoff.broker.work import Bundling, SendBundle, SendCard
from signoff.channels.pipeline.outbox import MOST_ATTEMPTS, backoff
from signoff.channels.pipeline.port import Channel, Delivered, Message, Refused, Result, Retry
from signoff.channels.pipeline.route import route_again
from signoff.core.approvals import deliveries
from signoff.core.approvals.approval import Approval, State
from signoff.core.routing.targets import EMAIL

log = structlog.get_logger(__name__)

MOST_ATTEMPTS_OF_A_DAY: Final = 150
"""The most attempts for a message that has no other way; with `backoff`, they take about a day."""

_LONGEST_WAIT: Final = timedelta(hours=1)
_PART_OF_TIME: Final = 4
"""A card waits at most for this part of the time that is left, a quarter."""


async def deliver_each(channel: Channel, messages: Sequence[Message]) -> list[Result]:
    """Return the results of delivering messages; see `Channel.deliver`."""
    if not messages:
        return []
    try:
        results = list(await channel.deliver(messages))
    except Exception as error:
        # The port forbids errors, but those of one channel must not stop the others.
        log.exception("delivery.channel_failed", channel=channel.name)
        results = [Retry(0, f"{type(error).__name__}: {error}")] * len(messages)
    for result in results:
        metrics.record(metrics.DELIVERIES, channel.name, _name_of(result))
    return results


def _name_of(result: Result) -> str:
    match result:
        case Delivered():
            return "delivered"
        case Refused():
            return "refused"
        case Retry(counted=counted):
            return "retry" if counted else "waits"


def tried_again(
    item: Item, result: Retry, most: int = MOST_ATTEMPTS, /, **about: str
) -> Change | Refused:
    """Return the change that puts an item back, or a refusal after the last attempt.

    Args:
        item: The item.
        result: Why it was not delivered.
        most: The most attempts.
        about: Fields for the log.
    """
    if not result.counted:
        log.info("delivery.waits", **about, problem=result.problem, after=result.after)
        body = _body(item, result, attempts=item.attempts - 1)
        return Change().retry(item, after=result.after, counted=False, body=body)
    if item.attempts < most:
        return put_back(item, result, **about)
    # The channel itself failed, not the recipient: an operator has to fix it.
    log.error("delivery.given_up", **about, attempts=item.attempts, problem=result.problem)
    return Refused(f"{result.problem} (given up after {item.attempts} attempts)")


def waits_too_long(
    item: Item, result: Retry, deadline: datetime | None, *, now: datetime
) -> tuple[Item, bool]:
    """Return whether people have to be asked by another channel now, as this one takes no cards.

    That happens once: if the next attempt comes more than an hour after the first one, or after
    more than a quarter of the time that was left then.

    Args:
        item: Delivers a card, or a bundle of cards.
        result: Why it was not delivered.
        deadline: When the people have to answer (UTC), None if they have any time.
        now: The present (UTC).

    Returns:
        The item with a body that says since when it waits, and whether others are asked.
    """
    work = item.work
    if "work" not in item.body or not isinstance(work, SendCard | SendBundle):
        return item, False
    since = work.waits_since or now
    longest = _LONGEST_WAIT
    if deadline is not None and deadline > since:
        longest = min(longest, (deadline - since) / _PART_OF_TIME)
    again = now + timedelta(seconds=_pause(item, result))
    now_elsewhere = not work.elsewhere and again > since + longest
    waits = {"waits_since": since.isoformat(), "elsewhere": work.elsewhere or now_elsewhere}
    return replace(item, body={**item.body, **waits}), now_elsewhere


def _pause(item: Item, result: Retry) -> float:
    """Return the seconds until the next attempt."""
    return max(result.after, backoff(item.attempts)) if result.counted else result.after


def put_back(item: Item, result: Retry, /, **about: str) -> Change:
    """Return the change that puts an item back after an attempt that counts; see `tried_again`."""
    after = _pause(item, result)
    log.warning("delivery.retry", **about, problem=result.problem, after=round(after))
    return Change().retry(item, after=after, body=_body(item, result, attempts=item.attempts))


def _body(item: Item, result: Retry, *, attempts: int) -> dict[str, Any] | None:
    """Return the body of an item that is put back after this many counted attempts.

    An attempt in which a process died has not certainly failed.
    """
    if "work" not in item.body:
        return None
    # It goes out alone now, and is not counted again.
    body = dict(item.body)
    if "bundling" in body:
        body["bundling"] = Bundling.ALONE.value
    return body if result.unsure else {**body, "failed": attempts}


def refuse(
    change: Change, approval: Approval, person: str, *, channel: str, reason: str, now: datetime
) -> None:
    """Add to a change that a card can never reach a person.

    A person without another card is asked by mail. When those who can still answer are too few, the
    next level is asked, or the default.
    """
    after, events = deliveries.undelivered(approval, person, channel, reason, now=now)
    change.put(after, was=approval).note(events)
    if after.state is not State.PENDING:
        return
    mailed = any((one.person, one.channel) == (person, EMAIL) for one in after.asked)
    by_mail = person in deliveries.unreached(after) and not mailed
    if by_mail or not (deliveries.is_reachable(after) and deliveries.can_be_met(after)):
        route_again(change, after)
