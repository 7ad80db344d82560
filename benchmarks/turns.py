"""``python -m benchmarks.turns``: the cost of an agent's run without Signoff and with it.

The same agent pauses, is approved and continues, on one Redis and with one scripted model:

- c stock: ADK's Runner on ADK's own SQLite store with its defaults;
- c same: ADK's Runner on the store that Signoff uses, the ledger's Redis;
- d 1, d 2, d 4: Signoff with this number of worker processes, including the channels.

Rounds are interleaved, and each round of d is compared with its neighbours of c. The CPU is that of
all processes of a side, including Redis and the benchmark.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Protocol

from rich.console import Console
from rich.table import Table

from benchmarks.chain import Client, Round
from benchmarks.fleet import Fleet
from benchmarks.machine import describe
from benchmarks.office import AGENTS
from benchmarks.process import THREADS, quieten
from benchmarks.runs import NakedRuns, WholeRuns
from signoff.broker.server.embedded import EmbeddedRedis

STOCK, SAME = "c stock", "c same"
WORKERS = {"d 1": 1, "d 2": 2, "d 4": 4}
"""The sides of Signoff, with the number of their workers."""


class Side(Protocol):
    """One side of the comparison."""

    async def round(self, count: int) -> Round:
        """Do this number of runs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of a comparison.

    Attributes:
        title: The title of the comparison.
        rounds: The rounds of each side, interleaved.
        runs: The runs in a round.
        delay: The seconds that the model takes for each answer.
        at_once: The maximum concurrent runs in a process; fewer on the stock store if necessary.
        sides: The sides of the comparison.
    """

    title: str
    rounds: int
    runs: int
    delay: float = 0
    at_once: int = THREADS
    sides: Sequence[str] = (STOCK, SAME, *WORKERS)

    def most(self, side: str) -> int:
        """Return the maximum concurrent runs in a process of a side."""
        return min(self.at_once, _BEARABLE) if side == STOCK else self.at_once


_BEARABLE = THREADS
"""With 24 at once ADK's SQLite store has failed here with "database is locked"."""

PLANS = (
    Plan("a model that answers at once", rounds=5, runs=60),
    Plan("the same with the worker's default, 128 at once", rounds=5, runs=120, at_once=128),
    Plan(
        "a model that takes 50 ms, and all 500 runs under way in one process",
        rounds=3,
        runs=500,
        delay=0.05,
        at_once=500,
        sides=(STOCK, SAME, "d 1"),
    ),
)
QUICK = tuple(replace(one, rounds=1, runs=4) for one in PLANS)


async def measure(plan: Plan, *, fsync: str, folder: Path, console: Console) -> None:
    """Measure all sides of a plan and print them."""
    async with AsyncExitStack() as stack:
        server = stack.enter_context(EmbeddedRedis(folder / "redis", fsync=fsync))
        fleet = await stack.enter_async_context(Fleet(folder))
        base = server.url.rpartition("/")[0]
        sides: dict[str, Side] = {}
        clients = []
        for place, name in enumerate(plan.sides, 1):
            url = f"{base}/{place}"
            if name in {STOCK, SAME}:
                where = url if name == SAME else str(folder / "stock.db")
                child = await fleet.start("naked", where, AGENTS, plan.delay)
                await child.ready()
                pid = server.pid if name == SAME else None
                sides[name] = NakedRuns(child, redis_pid=pid, at_once=plan.most(name))
                continue
            channels = await fleet.start("channels", url)
            workers = [
                await fleet.start("agents", url, AGENTS, plan.at_once, plan.delay)
                for _ in range(WORKERS[name])
            ]
            for child in (channels, *workers):
                await child.ready()
            clients.append(Client(url, channels))
            stack.push_async_callback(clients[-1].ledger.close)
            sides[name] = WholeRuns(clients[-1], workers, server.pid)
        machine = await describe(clients[0].ledger, fsync)
        for side in sides.values():
            await side.round(min(plan.runs, 16))
        found: dict[str, list[Round]] = {name: [] for name in sides}
        for place in range(plan.rounds):
            for name, side in sides.items():
                found[name].append(await side.round(plan.runs))
            line = " ".join(
                f"{name} {rounds[-1].rate:,.1f}/s {rounds[-1].cpu_ms:,.1f} ms"
                for name, rounds in found.items()
            )
            console.print(f"Round {place + 1} of {plan.rounds}: {line}", highlight=False)
    for name, text in machine:
        console.print(f"{name:>12}  {text}", highlight=False)
    show(plan, found, console)


def show(plan: Plan, found: Mapping[str, Sequence[Round]], console: Console) -> None:
    """Print the medians with their spread, and the ratios."""
    title = f"{plan.title}: {plan.rounds} rounds of {plan.runs}"
    table = Table("", "runs/s", "lowest – highest", "CPU ms/run", title=title)
    for name, rounds in found.items():
        rates = [one.rate for one in rounds]
        table.add_row(
            f"{name}, {plan.most(name)} at once",
            f"{median(rates):,.1f}",
            f"{min(rates):,.1f} – {max(rates):,.1f}",
            f"{median(one.cpu_ms for one in rounds):.1f}",
        )
    console.print(table)
    for ours in (one for one in found if one in WORKERS):
        for theirs in (STOCK, SAME):
            pairs = list(zip(found[ours], found[theirs], strict=True))
            rates = [one.rate / other.rate for one, other in pairs]
            cpu = [one.cpu_ms / other.cpu_ms for one, other in pairs]
            console.print(
                f"{ours} / {theirs}: {median(rates):.2f} of the rate "
                f"({min(rates):.2f} – {max(rates):.2f}), {median(cpu):.2f} of the CPU",
                highlight=False,
                soft_wrap=True,
            )


def main() -> None:
    """Read the arguments and measure in a temporary folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.turns", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it runs")
    parser.add_argument("--fsync", choices=("always", "everysec"), default="always")
    given = parser.parse_args()
    quieten()
    os.environ.pop("GOOGLE_API_KEY", None)
    for plan in QUICK if given.quick else PLANS:
        with tempfile.TemporaryDirectory(prefix="signoff-bench-") as folder:
            asyncio.run(measure(plan, fsync=given.fsync, folder=Path(folder), console=Console()))


if __name__ == "__main__":
    main()
