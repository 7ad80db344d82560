"""Bare Celery, and Signoff without an agent: round trips per second, and one hop at rest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import psutil

from benchmarks.fleet import Child
from benchmarks.office import DIRECTORY, MARA, open_ledger, open_pause
from benchmarks.process import LINKS
from signoff.broker.decisions import Decisions
from signoff.broker.doorbells.celery import make_celery
from signoff.broker.doorbells.push import RedisBell
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.core.approvals.moves import Actor, Approve

AT_ONCE = 32
"""The number of requests that the benchmark opens or answers at the same time."""


@dataclass(frozen=True, slots=True)
class Round:
    """The result of a round: seconds on the clock, and CPU seconds of all processes together."""

    count: int
    seconds: float
    cpu: float

    @property
    def rate(self) -> float:
        """Units per second."""
        return self.count / self.seconds

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of CPU per unit."""
        return 1000 * self.cpu / self.count


class Meter:
    """Adds up the CPU of the benchmark, of Redis and of the measured processes."""

    def __init__(self, children: list[Child], redis_pid: int | None) -> None:
        self._children = children
        pids = [None] if redis_pid is None else [None, redis_pid]
        self._others = [psutil.Process(one) for one in pids]

    def read(self) -> float:
        """Return the CPU seconds so far."""
        own = [one.cpu_times() for one in self._others]
        return sum(child.cpu for child in self._children) + sum(
            one.user + one.system for one in own
        )


class BareChain:
    """Three tasks, each sent by the one before.

    Args:
        url: The broker.
        children: The workers in the role `bare`.
        redis_pid: The Redis server, whose CPU counts.
    """

    def __init__(self, url: str, children: list[Child], redis_pid: int) -> None:
        self._app = make_celery(url, name="bare")
        self._meter = Meter(children, redis_pid)
        self._ends: asyncio.Queue[int] = asyncio.Queue()
        for child in children:
            child.hear = lambda words: self._ends.put_nowait(int(words[2]))

    async def round(self, count: int) -> Round:
        """Send this number of chains, and wait for the last task of each."""
        cpu, started = self._meter.read(), time.perf_counter()
        sending = asyncio.create_task(asyncio.to_thread(self._send_all, count))
        for _ in range(count):
            await self._ends.get()
        seconds = time.perf_counter() - started
        await sending
        return Round(count, seconds, self._meter.read() - cpu)

    async def hop(self) -> float:
        """Return the milliseconds from the call that sends a task to the task's first line."""
        called = time.monotonic_ns()
        await asyncio.to_thread(self._send, LINKS[-1])
        return (await self._ends.get() - called) / 1e6

    def _send_all(self, count: int) -> None:
        for _ in range(count):
            self._send(LINKS[0])

    def _send(self, name: str) -> None:
        self._app.send_task(name, args=("unit",), queue=f"signoff.{name}")


class TimedBell(RedisBell):
    """A bell that records the time of its first ring after a reset."""

    rang: int | None = None

    async def ring(self, *rung: str) -> None:
        """Ring, and record the time before."""
        if self.rang is None:
            self.rang = time.monotonic_ns()
        await super().ring(*rung)


@dataclass(frozen=True, slots=True)
class Idle:
    """Milliseconds until the resumed work started, counted from different points."""

    from_call: float
    from_commit: float
    from_return: float


@dataclass(slots=True)
class Client:
    """Opens pauses and answers cards, as the worker and the gateway do.

    Attributes:
        url: The ledger and the broker.
        channels: The process in the role `channels`.
    """

    url: str
    channels: Child
    bell: TimedBell = field(init=False)
    ledger: Ledger = field(init=False)
    decisions: Decisions = field(init=False)
    cards: asyncio.Queue[str] = field(init=False, default_factory=asyncio.Queue)

    def __post_init__(self) -> None:
        store = Store.open(self.url)
        self.bell = TimedBell(store)
        self.ledger = open_ledger(store, self.bell)
        self.decisions = Decisions(self.ledger, DIRECTORY)
        self.channels.hear = lambda words: self.cards.put_nowait(words[1])

    async def approve(self, approval: str) -> None:
        """Approve a card."""
        await self.decisions.take(approval, Approve(), Actor(MARA, "email"))

    async def answer_all(self, count: int, beside: Coroutine[Any, Any, object]) -> None:
        """Approve this number of cards as they arrive, concurrently with other work."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(approval: str) -> None:
            async with slots:
                await self.approve(approval)

        async with asyncio.TaskGroup() as group:
            group.create_task(beside)
            for _ in range(count):
                group.create_task(one(await self.cards.get()))

    async def quiet(self) -> None:
        """Wait until no stage has work."""
        while any((await self.ledger.backlog()).values()):  # noqa: ASYNC110 -- in other processes
            await asyncio.sleep(0.02)


class NullTrip:
    """Signoff's round trip to a channel without recipients, without an agent.

    Args:
        client: Opens pauses and answers cards.
        executor: The process in the role `executor`.
        redis_pid: The Redis server, whose CPU counts.
    """

    def __init__(self, client: Client, executor: Child, redis_pid: int) -> None:
        self._client = client
        self._meter = Meter([client.channels, executor], redis_pid)
        self._ends: asyncio.Queue[int] = asyncio.Queue()
        executor.hear = lambda words: self._ends.put_nowait(int(words[2]))

    async def round(self, count: int) -> Round:
        """Open this number of pauses, approve each when its card arrives, and wait for the rest."""
        client = self._client
        slots = asyncio.Semaphore(AT_ONCE)

        async def open_one() -> None:
            async with slots:
                now = await client.ledger.now()
                await client.ledger.commit(open_pause(now).change)

        async def open_all() -> None:
            await asyncio.gather(*(open_one() for _ in range(count)))

        cpu, started = self._meter.read(), time.perf_counter()
        await client.answer_all(count, open_all())
        for _ in range(count):
            await self._ends.get()
        # The end of the last run is committed after its resume began.
        await client.quiet()
        seconds = time.perf_counter() - started
        return Round(count, seconds, self._meter.read() - cpu)

    async def idle(self) -> Idle:
        """Return the time from an answer to the resume of its run, without other load."""
        client = self._client
        opened = open_pause(await client.ledger.now())
        await client.ledger.commit(opened.change)
        card = await client.cards.get()
        await client.quiet()
        await asyncio.sleep(0.01)
        client.bell.rang = None
        called = time.monotonic_ns()
        await client.approve(card)
        returned = time.monotonic_ns()
        resumed = await self._ends.get()
        committed = client.bell.rang or called
        await client.quiet()
        return Idle(*((resumed - since) / 1e6 for since in (called, committed, returned)))
