"""Bare Celery on Redis: three tasks; the second waits for nobody and stores nothing."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from pathlib import Path

from celery import Celery

from benchmarks.fleet import Fleet
from benchmarks.peers.port import PAYLOAD, Arrivals, Peer
from benchmarks.peers.router import used
from signoff.broker.server.embedded import EmbeddedRedis

app = Celery("bare", broker=os.environ.get("BENCH_BROKER", ""))
app.conf.task_ignore_result = True


def opened(unit: str, payload: dict[str, object]) -> None:
    """Send the second task."""
    app.send_task("ask", args=(unit, payload))


def ask(unit: str, payload: dict[str, object]) -> None:
    """Report that the request can be answered."""
    del payload
    _tell("card", unit)


def resume(unit: str, approved: bool) -> None:
    """Report that the work continues."""
    del approved
    _tell("end", unit)


for task in (opened, ask, resume):
    app.task(name=task.__name__)(task)


def _tell(word: str, unit: str) -> None:
    # Write it in one call, because the processes of the pool share the pipe.
    os.write(1, f"{word} {unit} {time.monotonic_ns()}\n".encode())


class ThreeTasks(Peer):
    """A worker with its defaults: as many processes as cores."""

    at_once = 1_000

    def __init__(self, folder: Path, fleet: Fleet) -> None:
        super().__init__(folder, fleet)
        self._cards, self._ends = Arrivals(), Arrivals()

    async def start(self) -> None:
        """Start Redis and the worker."""
        self._redis = self.ends.enter_context(EmbeddedRedis(self.folder / "redis", fsync="always"))
        app.conf.update(broker_url=self._redis.url)
        worker = await self.fleet.run(
            "celery",
            *(sys.executable, "-m", "celery", "-A", __name__, "worker", "-l", "WARNING"),
            environment={"BENCH_BROKER": self._redis.url},
        )
        worker.hear = self._hear
        await self.answer(await self.open())

    async def open(self) -> str:
        """Send the first task, and wait for the second."""
        unit = secrets.token_hex(8)
        self._send("opened", unit, PAYLOAD)
        await self._cards.of(unit)
        return unit

    async def answer(self, request: str) -> int:
        """Send the third task."""
        self._send("resume", request, True)
        return await self._ends.of(request)

    async def stored(self) -> int:
        """Return the bytes of data in Redis."""
        return await asyncio.to_thread(used, self._redis.url)

    def _send(self, name: str, *arguments: object) -> None:
        app.send_task(name, args=arguments)

    def _hear(self, words: list[str]) -> None:
        match words:
            case ["card", unit, _]:
                self._cards.tell(unit)
            case ["end", unit, moment]:
                self._ends.tell(unit, int(moment))
