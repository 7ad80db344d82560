"""Ticks: periodic tasks run at the same moments, so that the machine wakes up less often."""

from __future__ import annotations

import asyncio


def until_tick(every: float) -> float:
    """Return the seconds until the next tick, which is at a multiple of `every` seconds.

    Ticks follow the monotonic clock, which all processes of a machine share. So their ticks
    coincide, and Redis wakes up once for all of them.
    """
    return every - asyncio.get_running_loop().time() % every


async def tick(every: float) -> None:
    """Sleep until the next tick.

    Tasks that wake at the same tick send their commands to Redis in one round trip.
    """
    await asyncio.sleep(until_tick(every))
