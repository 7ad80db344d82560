"""How often something may be tried: counted in Redis, for all processes together."""

from __future__ import annotations

from datetime import timedelta

from signoff.broker.store import Store


class Throttle:
    """Counts attempts in fixed windows of time.

    Args:
        store: Where they are counted.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def allow(self, key: str, most: int, window: timedelta) -> bool:
        """Count an attempt, and say whether it is one of the first so many of its window.

        The window begins with the first attempt and ends by itself; attempts that are refused do
        not prolong it.

        Args:
            key: What is counted, without the prefix.
            most: How many attempts a window has.
            window: How long it is.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        return await self._add(key, 1, window) <= most

    async def refund(self, key: str, window: timedelta) -> None:
        """Count one attempt less: it was none of those that are to be few.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        await self._add(key, -1, window)

    async def _add(self, key: str, count: int, window: timedelta) -> int:
        name, ttl = self._store.prefix + key, int(window / timedelta(milliseconds=1))
        async with (
            self._store.translated_client() as client,
            client.pipeline(transaction=True) as pipe,
        ):
            pipe.execute_command("SET", name, 0, "NX", "PX", ttl)
            pipe.execute_command("INCRBY", name, count)
            return int((await pipe.execute())[-1])
