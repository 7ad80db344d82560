"""Heartbeats of processes, for health checks and `signoff doctor`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.search_index import SearchIndex
from signoff.broker.ledger.store import to_ms

TTL: Final = 15
"""Seconds for which a process counts as alive after a heartbeat; send one every five."""

_REPAIRING: Final = frozenset({"channels", "gateway"})
"""The kinds of processes that may write all keys; a Redis user of a worker may not."""


class HeartbeatReply(NamedTuple):
    """What a process learns from its heartbeat.

    Attributes:
        set_back: By how many seconds the ledger's clock was set back; 0 for less than five.
        channels: What each living channels process says of itself; see `states`.
    """

    set_back: float
    channels: list[str]


async def beat(ledger: Ledger, kind: str, name: str, state: str = "") -> HeartbeatReply:
    """Record that a process is alive, and return what it learns.

    A heartbeat of `channels` or `gateway` finds out if the ledger's clock was set back since the
    last one, for example by a failover to a server with another clock. Work, leases and counters
    would then wait until the clock is where it was. So they are moved.

    Args:
        ledger: The ledger.
        kind: ``worker``, ``channels`` or ``gateway``; without a colon.
        name: The host and the process id.
        state: A JSON object with details for `states`, "" for none.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    store = ledger.store
    pattern = store.pattern() if kind in _REPAIRING else ""
    back, *channels = await store.script(
        "beat", f"{kind}:{name}", TTL * 1000, store.now_ms(), state or "1", pattern
    )
    if back:
        # The script has dropped only the head, without which the rest is not used.
        await SearchIndex(ledger).drop()
    return HeartbeatReply(float(back) / 1000, channels)


async def alive(ledger: Ledger) -> dict[str, list[str]]:
    """Return the names of the processes that are alive, by kind.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    now = to_ms(await ledger.now())
    (scores,) = await ledger.store.scored(["processes"])
    found: dict[str, list[str]] = {}
    for process, until in scores.items():
        kind, name = process.split(":", 1)
        # A later end is of a process that died before the clock was set back.
        if now < until <= now + 2 * TTL * 1000:
            found.setdefault(kind, []).append(name)
    return found


async def states(ledger: Ledger) -> dict[str, Mapping[str, str]]:
    """Return the details of the processes that are alive, by kind and name (``worker host/17``).

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    living = await alive(ledger)
    keys = [f"alive:{kind}:{name}" for kind in sorted(living) for name in sorted(living[kind])]
    async with (
        ledger.store.translated_client() as client,
        client.pipeline(transaction=False) as pipe,
    ):
        for key in keys:
            pipe.get(ledger.store.prefix + key)
        texts = await pipe.execute()
    found: dict[str, Mapping[str, str]] = {}
    for key, text in zip(keys, texts, strict=True):
        _, kind, name = key.split(":", 2)
        state = json.loads(text or "1")
        found[f"{kind} {name}"] = state if isinstance(state, dict) else {}
    return found
