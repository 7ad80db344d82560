"""How fast Slack is called, for all processes together.

https://docs.slack.dev/apis/web-api/rate-limits: a method has a tier, so many calls a minute, and
messages are posted about once a second into each conversation, a few hundred times a minute in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.limits.slots import Limit, Slots, Wish

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
"""Slack takes short bursts; the second slot makes up for a worker that comes a little late."""

_POSTS: Final = Limit(f"slack:slots:{POST}", timedelta(milliseconds=200), 20)


class Call(NamedTuple):
    """A call of the Web API that is to be made.

    Attributes:
        method: The method.
        channel: For a post: the conversation.
    """

    method: str
    channel: str = ""


class Pace:
    """Gives out slots for calls of the Web API.

    Args:
        ledger: Where they are counted.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._slots = Slots(ledger.store)

    async def take(self, calls: Sequence[tuple[str, Call, datetime | None]]) -> list[float]:
        """Take slots, the earliest deadline first.

        Args:
            calls: For each its name, the call, and until when it is of use; None for ever.

        Returns:
            For each call, in their order, 0 where it may be made, or in how many seconds it should
            ask again.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        return await self._slots.take(
            [Wish(name, limits_of(call), deadline) for name, call, deadline in calls]
        )

    async def rest(self, call: Call, seconds: float) -> None:
        """Make no such call for so many seconds: Slack has asked for it.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        # A post is refused for its conversation as a rule; the others go on.
        await self._slots.rest(limits_of(call)[0], seconds)


def limits_of(call: Call) -> tuple[Limit, ...]:
    """Return the limits under which a call is made, the narrowest first."""
    if call.method == POST:
        key = f"slack:slots:{POST}:{call.channel}"
        return Limit(key, _IN_A_CONVERSATION, _AT_ONCE), _POSTS
    most = _A_MINUTE[call.method]
    return (Limit(f"slack:slots:{call.method}", _MINUTE / most, most),)
