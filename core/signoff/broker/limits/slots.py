"""When something may be done that another side limits: slots, shared by all processes in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from signoff.broker.ledger.change import FAR
from signoff.broker.ledger.store import Store, to_ms

_MS = timedelta(milliseconds=1)


class Limit(NamedTuple):
    """How often something may be done.

    Attributes:
        key: What is limited, without the prefix.
        every: From one slot to the next.
        at_once: How many slots may be saved up and used together; 1 or more.
    """

    key: str
    every: timedelta
    at_once: int = 1


class Wish(NamedTuple):
    """Something that needs a slot under each of its limits.

    Attributes:
        name: Names it, so that it keeps its place in the line when it asks again.
        limits: The limits.
        deadline: Until when it is of use; None for ever. Who has less time goes first.
    """

    name: str
    limits: tuple[Limit, ...]
    deadline: datetime | None = None


class Slots:
    """Gives out slots, by the ledger's clock.

    Args:
        store: Where they are counted.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def take(self, wishes: Sequence[Wish]) -> list[float]:
        """Take a slot for each wish that can have one now, the earliest deadline first.

        Returns:
            For each wish, in their order, 0 where it has its slot, or in how many seconds it should
            ask again. What was refused has used up nothing.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        order = sorted(range(len(wishes)), key=lambda at: _deadline(wishes[at]))
        calls = [self._call(wishes[at]) for at in order]
        waits = await self._store.scripts("slots", calls) if calls else []
        found = dict(zip(order, waits, strict=True))
        return [int(found[at]) / 1000 for at in range(len(wishes))]

    async def rest(self, limit: Limit, seconds: float) -> None:
        """Give out no slot under a limit for so many seconds.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        every, pause = limit.every // _MS, int(seconds * 1000)
        now = self._store.now_ms()
        await self._store.script("rest", now, limit.key, every, limit.at_once, pause)

    def _call(self, wish: Wish) -> list[str | int]:
        call: list[str | int] = [self._store.now_ms(), wish.name, _deadline(wish)]
        for limit in wish.limits:
            call += (limit.key, limit.every // _MS, limit.at_once)
        return call


def _deadline(wish: Wish) -> int:
    return FAR if wish.deadline is None else to_ms(wish.deadline)
