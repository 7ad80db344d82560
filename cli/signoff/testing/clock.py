"""A clock that advances only when a test advances it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class VirtualClock:
    """A clock that a test controls; pass it to `Store` to replace the Redis server's clock.

    Args:
        start: The time at which it starts, with a time zone. The default is the start of 2026.
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start.astimezone(UTC)

    def now(self) -> datetime:
        """Return the current time, in UTC."""
        return self._now

    def advance(self, duration: timedelta) -> datetime:
        """Advance the clock, and return the new time.

        Raises:
            ValueError: The duration is negative, but Redis's clock does not go back.
        """
        if duration < timedelta(0):
            raise ValueError("A clock does not go back.")
        self._now += duration
        return self._now
