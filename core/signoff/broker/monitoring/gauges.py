"""Measures the work and the approvals in the ledger, for gateways' metrics and `signoff top`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from signoff.broker.heartbeat import alive
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import to_us
from signoff.broker.monitoring import metrics
from signoff.broker.monitoring.metrics import Sample
from signoff.broker.server.health import WRITES
from signoff.broker.timers.lag import lag

_PIECE = 500
"""Approvals in one call of the script, so that Redis serves other clients in between."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The work of a stage.

    Attributes:
        name: The stage.
        items: How many items it has, including leased and postponed ones.
        ready: How many items can be claimed.
        age: For how many seconds the oldest of these has been waiting.
    """

    name: str
    items: int
    ready: int
    age: float


@dataclass(frozen=True, slots=True)
class Gauges:
    """The state of the ledger at a moment.

    Attributes:
        stages: The stages, sorted by name.
        queues: The number of pending approvals by queue of people.
        pending: The number of pending approvals by policy; "" if they are not routed yet.
        oldest: The age in seconds of the oldest pending approval by policy.
        lag: How many seconds late the oldest timer is.
        processes: The number of processes that are alive, by kind.
        records: The number of runs, approvals and audit entries.
        redis: The reply of Redis to ``INFO memory`` and ``INFO persistence``.
    """

    stages: Sequence[Stage]
    queues: dict[str, int]
    pending: dict[str, int]
    oldest: dict[str, float]
    lag: float
    processes: dict[str, int]
    records: dict[str, int]
    redis: dict[str, Any] = field(repr=False)

    def samples(self) -> Iterator[Sample]:
        """Yield the samples of all metrics of the ledger but `LEDGER_UP`."""
        for stage in self.stages:
            yield metrics.DEPTH, (stage.name,), stage.items
            yield metrics.READY, (stage.name,), stage.ready
            yield metrics.AGE, (stage.name,), stage.age
        for queue, count in self.queues.items():
            yield metrics.QUEUED, (queue,), count
        for policy, count in self.pending.items():
            yield metrics.PENDING, (policy,), count
            yield metrics.OLDEST, (policy,), self.oldest.get(policy, 0)
        yield metrics.LAG, (), self.lag
        for kind, count in self.processes.items():
            yield metrics.PROCESSES, (kind,), count
        for kind, count in self.records.items():
            yield metrics.RECORDS, (kind,), count
        yield metrics.MEMORY, (), float(self.redis.get("used_memory", 0))
        yield metrics.MEMORY_LIMIT, (), float(self.redis.get("maxmemory", 0))
        yield metrics.REDIS_WRITES, (), all(self.redis.get(one, "ok") == "ok" for one in WRITES)


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names in the settings, which are listed even if their number is 0.

    Attributes:
        queues: The queues of people.
        policies: The policies, including the default.
        kinds: The kinds of processes.
    """

    queues: Sequence[str] = ()
    policies: Sequence[str] = ()
    kinds: Sequence[str] = ()


async def measure(ledger: Ledger, known: KnownNames) -> Gauges:
    """Measure the ledger, which takes a few milliseconds for 5,000 pending approvals.

    Args:
        ledger: The ledger.
        known: The names in the settings.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    store, now = ledger.store, await ledger.now()
    sizes, of_queues, *flat = await store.script("measure", store.now_ms(), *known.queues)
    waiting = int(sizes[0])
    pieces = [(first, first + _PIECE - 1) for first in range(0, waiting, _PIECE)]
    pending, opened = dict.fromkeys(known.policies, 0), dict[str, int]()
    for piece in await store.scripts("pending", pieces):
        for policy, count, at in zip(piece[::3], piece[1::3], piece[2::3], strict=True):
            pending[policy] = pending.get(policy, 0) + int(count)
            opened[policy] = min(opened.get(policy, int(at)), int(at))
    async with store.translated_client() as client:
        redis = await client.info("memory") | await client.info("persistence")
    living = {kind: len(names) for kind, names in (await alive(ledger)).items()}
    return Gauges(
        stages=[
            Stage(name, int(items), int(ready), int(age) / 1000)
            for name, items, ready, age in sorted(
                zip(flat[::4], flat[1::4], flat[2::4], flat[3::4], strict=True)
            )
        ],
        queues=dict(zip(known.queues, map(int, of_queues), strict=True)),
        pending=pending,
        oldest={policy: max(to_us(now) - at, 0) / 1e6 for policy, at in opened.items()},
        lag=(await lag(ledger)).late.total_seconds(),
        processes={**dict.fromkeys(known.kinds, 0), **living},
        records=dict(zip(("approvals", "runs", "audit"), map(int, sizes[1:]), strict=True)),
        redis=redis,
    )
