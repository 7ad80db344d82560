"""Limits the rate of calls to Slack, for all processes together.

https://docs.slack.dev/apis/web-api/rate-limits: each method has a tier with a limit per minute.
Messages are limited to about one a second in each conversation, and a few hundred a minute in
total.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.limits.slots import Limit, SlotRequest, Slots

POST: Final = "chat.postMessage"
UPDATE: Final = "chat.update"
WHISPER: Final = "chat.postEphemeral"
HISTORY: Final = "conversations.history"

_MINUTE: Final = timedelta(minutes=1)
_TIER_3, _TIER_4 = 50, 100
_A_MINUTE: Final = {
    UPDATE: _TIER_3,
    WHISPER: _TIER_4,
    "conversations.open": _TIER_3,
    HISTORY: _TIER_3,
    "users.lookupByEmail": _TIER_3,
}
"""Calls a minute of the methods that deliveries use."""

_IN_A_CONVERSATION: Final = timedelta(seconds=1)
_AT_ONCE: Final = 2
"""Slack allows short bursts; the second slot compensates for a worker that is slightly late."""

_POSTS: Final = Limit(f"slack:slots:{POST}", timedelta(milliseconds=200), 20)


class Call(NamedTuple):
    """A planned call of the Web API.

    Attributes:
        method: The method.
        channel: For a post: the conversation.
    """

    method: str
    channel: str = ""


class SlackRateLimit:
    """Gives out slots for calls of the Web API, counted in the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._slots = Slots(ledger.store)

    async def take(self, calls: Sequence[tuple[str, Call, datetime | None]]) -> list[float]:
        """Take slots for named calls, the earliest deadline (None for no deadline) first.

        Returns:
            For each call, in the same order: 0 if it may be made, else the seconds after which to
            ask again.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        return await self._slots.take(
            [SlotRequest(name, limits_of(call), deadline) for name, call, deadline in calls]
        )

    async def pause(self, call: Call, seconds: float) -> None:
        """Stop such calls for a number of seconds, because Slack asked for it.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        # Slack usually limits a post for its conversation only; the others continue.
        await self._slots.rest(limits_of(call)[0], seconds)


def limits_of(call: Call) -> tuple[Limit, ...]:
    """Return the limits of a call, the narrowest first."""
    if call.method == POST:
        key = f"slack:slots:{POST}:{call.channel}"
        return Limit(key, _IN_A_CONVERSATION, _AT_ONCE), _POSTS
    most = _A_MINUTE[call.method]
    return (Limit(f"slack:slots:{call.method}", _MINUTE / most, most),)
