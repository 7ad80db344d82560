"""Slots under the rate limits of other services, shared by all processes in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from signoff.broker.ledger.change import FAR
from signoff.broker.ledger.store import Store, to_ms

_MS = timedelta(milliseconds=1)


class Limit(NamedTuple):
    """A rate limit.

    Attributes:
        key: The key in Redis, without the prefix.
        every: The time from one slot to the next.
        at_once: How many unused slots are saved up; 1 or more.
    """

    key: str
    every: timedelta
    at_once: int = 1


class SlotRequest(NamedTuple):
    """A request for one slot under each of several limits.

    Attributes:
        name: Identifies the request, so that it keeps its place when it is repeated.
        limits: The limits.
        deadline: Earlier deadlines go first; None goes last.
    """

    name: str
    limits: tuple[Limit, ...]
    deadline: datetime | None = None


class Slots:
    """Gives out slots by the ledger's clock."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def take(self, requests: Sequence[SlotRequest]) -> list[float]:
        """Take slots, the earliest deadline first. A request gets a slot of each limit, or none.

        Returns:
            For each request, in order, 0 if it has its slots, or the seconds after which to repeat
            it.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        order = sorted(range(len(requests)), key=lambda at: _deadline(requests[at]))
        calls = [self._call(requests[at]) for at in order]
        waits = await self._store.scripts("slots", calls) if calls else []
        found = dict(zip(order, waits, strict=True))
        return [int(found[at]) / 1000 for at in range(len(requests))]

    async def rest(self, limit: Limit, seconds: float) -> None:
        """Give out no slot of a limit for so many seconds.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        every, pause = limit.every // _MS, int(seconds * 1000)
        now = self._store.now_ms()
        await self._store.script("rest", now, limit.key, every, limit.at_once, pause)

    def _call(self, request: SlotRequest) -> list[str | int]:
        call: list[str | int] = [self._store.now_ms(), request.name, _deadline(request)]
        for limit in request.limits:
            call += (limit.key, limit.every // _MS, limit.at_once)
        return call


def _deadline(request: SlotRequest) -> int:
    return FAR if request.deadline is None else to_ms(request.deadline)
