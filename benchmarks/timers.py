"""``python -m benchmarks.timers``: many approvals fall due at once, and a process dies.

All approvals wait at the first of two levels. Four processes like `signoff channels`, but without
deliveries, escalate them to the second level, until its cards are in the outbox of the mail
channel. When a quarter is done, one process is killed; the others take over its claims when its
lease expires. Each approval must escalate exactly once, and get one card.

For comparison, the benchmark also measures the ledger alone: one process commits prepared changes.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from rich.console import Console

from benchmarks.copies import Template
from benchmarks.fleet import Child, Fleet
from benchmarks.machine import describe
from benchmarks.office import DEFAULT, DIRECTORY, ESCALATING, open_pause
from benchmarks.process import quieten
from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store, to_ms
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.broker.timers.due_approvals import LEASE
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.outbox import drain
from signoff.channels.pipeline.route import Router
from signoff.core.approvals.events import Event, What
from signoff.core.routing.targets import EMAIL
from signoff.testing import FakeChannel

MANY = 100_000
FEW = 2_000
PROCESSES = 4
AIM = 30.0
"""Seconds for `MANY`."""

_DIES_AT = 0.25


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one run.

    Attributes:
        count: The number of approvals that fell due.
        raw: The number of prepared changes that one process commits per second.
        seconds: The time from the first claim to the last card in the outbox.
        cpu: The CPU seconds of the processes and of Redis in that time.
        wrong: Descriptions of approvals that did not escalate exactly once; empty if all did.
    """

    count: int
    raw: float
    seconds: float
    cpu: float
    wrong: list[str]


@dataclass(slots=True)
class Crowd:
    """Approvals that fall due together.

    Attributes:
        url: A Redis with nothing else in it.
    """

    url: str
    ledger: Ledger = field(init=False)
    ids: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = Ledger(Store.open(self.url))

    async def grow(self, count: int) -> float:
        """Add this number of due approvals, and return the rate per second."""
        opened = open_pause(await self.ledger.now())
        await self.ledger.commit(opened.change)
        router = Router(self.ledger, policies=ESCALATING, fallback=DEFAULT, directory=DIRECTORY)
        await router.drain()
        delivery = Delivery(self.ledger, FakeChannel(), directory=DIRECTORY)
        await drain(self.ledger, stages.deliver(EMAIL), delivery.work)
        approval, run, _ = await self.ledger.current(opened.approval.id)
        template = Template.of(
            Change().put(run, was=None).put(approval, was=None),
            run=run.id.partition("_")[2],
            approval=approval.id.partition("_")[2],
            session=run.session.partition("_")[2],
        )
        self.ids.append(approval.id)
        started = time.perf_counter()
        made = await template.put(self.ledger, count - 1)
        took = time.perf_counter() - started
        self.ids += [f"ap_{one['approval']}" for one in made]
        while await self._due() < count:  # noqa: ASYNC110 -- time passes, and gives no signal
            await asyncio.sleep(0.05)
        return count / took

    async def _due(self, *, within: float = 0) -> int:
        """Return the number of approvals that are due within these seconds."""
        until = to_ms(await self.ledger.now()) + int(within * 1000)
        key = f"{self.ledger.store.prefix}waiting"
        return int(await self.ledger.store.client.zcount(key, "-inf", until))

    async def waiting(self) -> int:
        """Return the number of due approvals; a claim postpones them by less than a minute."""
        return await self._due(within=60)

    async def moved(self, children: list[Child], redis_pid: int) -> tuple[float, float]:
        """Let processes escalate all approvals, and kill one of the processes meanwhile.

        Returns:
            The elapsed seconds, and the CPU seconds.
        """
        living, redis = list(children), psutil.Process(redis_pid)

        def used() -> float:
            times = redis.cpu_times()
            return float(times.user + times.system) + sum(child.cpu for child in living)

        cpu, started = -used(), time.perf_counter()
        for child in children:
            child.say("begin")
        victim: Child | None = children[0]
        while (left := await self.waiting()) or (await self.ledger.backlog()).get(stages.ROUTE):
            if victim is not None and left <= len(self.ids) * (1 - _DIES_AT):
                cpu += victim.cpu
                living.remove(victim)
                await victim.kill()
                victim = None
            await asyncio.sleep(0.02)
        return time.perf_counter() - started, cpu + used()

    async def wrong(self) -> list[str]:
        """Return the approvals that did not escalate exactly once, with one card each."""
        moved: Counter[str] = Counter()
        async for _, text, _ in audit.entries(self.ledger.store):
            if f'"{What.ESCALATED.value}"' in text:
                event = Event.model_validate_json(text)
                moved[event.approval] += event.what is What.ESCALATED
        prefix = self.ledger.store.prefix
        async with self.ledger.store.translated_client() as client:
            items = await client.hkeys(f"{prefix}items:{stages.deliver(EMAIL)}")
        cards = Counter(item.split(":")[1] for item in items if item.startswith("card:"))
        return [
            f"{one}: {moved[one]} escalations, {cards[one]} cards"
            for one in self.ids
            if (moved[one], cards[one]) != (1, 1)
        ]


async def measure(
    count: int, *, fsync: str, folder: Path, console: Console, lease: float = LEASE
) -> Result:
    """Measure one run, on its own Redis and with its own processes.

    Args:
        count: The number of approvals.
        fsync: The fsync policy of Redis.
        folder: The folder for its files.
        console: Prints the description of the machine.
        lease: Seconds after which other processes take over the claims of the dead process.
    """
    async with AsyncExitStack() as stack:
        server = stack.enter_context(EmbeddedRedis(folder / "redis", fsync=fsync))
        fleet = await stack.enter_async_context(Fleet(folder))
        crowd = Crowd(server.url)
        stack.push_async_callback(crowd.ledger.close)
        for name, text in await describe(crowd.ledger, fsync):
            console.print(f"{name:>12}  {text}", highlight=False)
        children = [await fleet.start("timers", server.url, lease) for _ in range(PROCESSES)]
        for child in children:
            await child.ready()
        raw = await crowd.grow(count)
        seconds, cpu = await crowd.moved(children, server.pid)
        return Result(count, raw, seconds, cpu, await crowd.wrong())


def show(console: Console, found: Result) -> None:
    """Print the result of one run."""
    rate, each = found.count / found.seconds, 1000 * found.cpu / found.count
    console.print(
        f"{found.count:,} due at once, {PROCESSES} processes, one of them killed: "
        f"{found.seconds:.1f} s, {rate:,.0f}/s, {each:.2f} ms of CPU each",
        highlight=False,
    )
    for one in found.wrong[:10]:
        console.print(f"  not exactly once: {one}", highlight=False)
    console.print("Ratios:")
    console.print(f"  escalated / committed: {rate / found.raw:.2f}", highlight=False)
    console.print(f"  exactly once: {1 - len(found.wrong) / found.count:.5f}", highlight=False)
    if found.count == MANY:
        console.print(f"  seconds / {AIM:.0f}: {found.seconds / AIM:.2f}", highlight=False)


def main() -> None:
    """Read the arguments and measure in a temporary folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.timers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it runs")
    parser.add_argument("--fsync", choices=("always", "everysec"), default="always")
    given = parser.parse_args()
    quieten()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="signoff-bench-") as folder:
        count, lease = (FEW, 1.0) if given.quick else (MANY, LEASE)
        where = Path(folder)
        found = measure(count, fsync=given.fsync, folder=where, console=console, lease=lease)
        result = asyncio.run(found)
    show(console, result)
    if result.wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
