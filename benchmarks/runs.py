"""The agent alone, and whole runs with Signoff: runs per second, same model, same store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from benchmarks.chain import Client, Meter, Round
from benchmarks.fleet import Child
from benchmarks.office import APP, MESSAGE, USER
from benchmarks.process import THREADS
from signoff.broker.submit import submit
from signoff.core.approvals.run import Run, RunState


class NakedRuns:
    """Runs of ADK's Runner, paused and resumed in one process.

    Args:
        child: The process in the role `naked`.
        redis_pid: The Redis server of its sessions, whose CPU counts.
        at_once: The number of concurrent runs.
    """

    def __init__(
        self, child: Child, *, redis_pid: int | None = None, at_once: int = THREADS
    ) -> None:
        self._child = child
        self._meter = Meter([child], redis_pid)
        self._at_once = at_once
        self._took: asyncio.Queue[float] = asyncio.Queue()
        child.hear = lambda words: self._took.put_nowait(float(words[1]))

    async def round(self, count: int) -> Round:
        """Do this number of runs."""
        cpu = self._meter.read()
        self._child.say(count, self._at_once)
        seconds = await self._took.get()
        return Round(count, seconds, self._meter.read() - cpu)


class WholeRuns:
    """Runs that are submitted, paused, routed, delivered, approved, resumed and completed.

    Args:
        client: Submits runs and answers cards.
        workers: The processes in the role `agents`.
        redis_pid: The Redis server, whose CPU counts.
    """

    def __init__(self, client: Client, workers: Sequence[Child], redis_pid: int) -> None:
        self._client = client
        self._meter = Meter([client.channels, *workers], redis_pid)

    async def round(self, count: int) -> Round:
        """Submit this number of runs, approve each when its card arrives, and wait for their ends.

        Raises:
            RuntimeError: A run did not complete.
        """
        client = self._client
        runs: list[Run] = []

        async def submit_all() -> None:
            for _ in range(count):
                runs.append(await submit(client.decisions.ledger, APP, MESSAGE, user=USER))  # noqa: PERF401 -- one run after the other

        cpu, started = self._meter.read(), time.perf_counter()
        await client.answer_all(count, submit_all())
        await client.quiet()
        result = Round(count, time.perf_counter() - started, self._meter.read() - cpu)
        for run in await client.ledger.runs([one.id for one in runs]):
            if run.state is not RunState.COMPLETED:
                raise RuntimeError(f"Run {run.id} is {run.state}: {run.problem}")
        return result
