"""A clock that stands still until it is told to go on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class VirtualClock:
    """The present as a test wants it; give it to `Store` in place of the Redis server's clock.

    Args:
        start: The first present, with a time zone; the beginning of 2026 where none is given.
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start.astimezone(UTC)

    def now(self) -> datetime:
        """Return the present, in UTC."""
        return self._now

    def advance(self, duration: timedelta) -> datetime:
        """Go on, and return the new present.

        Raises:
            ValueError: The duration is negative; Redis's clock does not go back either.
        """
        if duration < timedelta(0):
            raise ValueError("A clock does not go back.")
        self._now += duration
        return self._now
