"""``python -m benchmarks.peers``: the same unit in other products and in Signoff, interleaved.

A unit is a request that is stored, answered immediately from outside, and continues to its end.
`make bench-peers` starts it. Peers are installed from their usual packages into `.venv-peers`; a
peer that cannot be installed or measured is named with the reason.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.chain import Round
from benchmarks.fleet import Child, Fleet
from benchmarks.machine import hardware
from benchmarks.peers.contenders import CONTENDERS, Contender
from benchmarks.peers.installing import NotInstalled
from benchmarks.report import percentile

_PATIENCE: Final = 300.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of a run.

    Attributes:
        rounds: The rounds of each contender, interleaved.
        units: The units in a round.
        idles: Single answers.
        pending: Requests that are left open.
    """

    rounds: int = 5
    units: int = 400
    idles: int = 100
    pending: int = 1000


QUICK = Plan(rounds=1, units=16, idles=3, pending=20)


@dataclass(slots=True)
class Found:
    """The measurements of one contender.

    Attributes:
        contender: The contender.
        problem: Why it was not measured completely; "" if it was.
        versions: The versions of its packages.
        rounds: The rates of units.
        idles: Milliseconds from the answer until the work continues, without other load.
        stored: Bytes of its store per pending request.
        memory: Bytes of memory of its processes per pending request.
    """

    contender: Contender
    problem: str = ""
    versions: str = ""
    rounds: list[Round] = field(default_factory=list)
    idles: list[float] = field(default_factory=list)
    stored: float = 0
    memory: float = 0


class Driver:
    """The process that drives one contender.

    Args:
        child: The started process.
    """

    def __init__(self, child: Child) -> None:
        self._child = child
        self._said: asyncio.Queue[list[str]] = asyncio.Queue()
        child.hear = self._said.put_nowait

    async def round(self, count: int) -> Round:
        """Do this number of units."""
        cpu = self._child.whole_cpu
        (seconds,) = await self._ask("round", count)
        return Round(count, float(seconds), self._child.whole_cpu - cpu)

    async def idle(self) -> float:
        """Return the milliseconds of one answer."""
        (took,) = await self._ask("idle")
        return float(took)

    async def pending(self, count: int) -> tuple[float, float]:
        """Return the bytes per pending request: in the store, and in memory."""
        memory = self._child.whole_memory
        before, after = await self._ask("pending", count)
        grown = self._child.whole_memory - memory
        return (int(after) - int(before)) / count, grown / count

    async def _ask(self, *words: object) -> list[str]:
        self._child.say(*words)
        answer = asyncio.create_task(self._said.get())
        await asyncio.wait(
            [answer, self._child.reading], timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED
        )
        if not answer.done():
            answer.cancel()
            raise RuntimeError(f"`{words[0]}` failed: {self._child.complaint}")
        return answer.result()[1:]


async def measure(
    plan: Plan, contenders: Sequence[Contender], *, folder: Path, console: Console
) -> list[Found]:
    """Install, start and measure all of them; a failure only affects the contender's own row."""
    found = [Found(one) for one in contenders]
    drivers: list[tuple[Found, Driver]] = []
    async with AsyncExitStack() as stack:

        async def each(do: Callable[[Found, Driver], Awaitable[None]]) -> None:
            for one, driver in drivers:
                try:
                    if not one.problem:
                        await do(one, driver)
                except RuntimeError as error:
                    one.problem = str(error)

        for one in found:
            # A driver stops the processes that it has started.
            fleet = await stack.enter_async_context(Fleet(folder, patience=30))
            try:
                driver = await _started(one, fleet, folder / one.contender.name)
            except (NotInstalled, RuntimeError) as error:
                # The last line is the last one of the log.
                one.problem = str(error).splitlines()[-1].strip()
                console.print(
                    f"{one.contender.name} is not measured: {one.problem}", highlight=False
                )
            else:
                drivers.append((one, driver))
                console.print(f"{one.contender.name} is up ({one.versions}).", highlight=False)

        async def a_round(one: Found, driver: Driver) -> None:
            one.rounds.append(await driver.round(one.contender.part_of(plan.units)))

        async def an_idle(one: Found, driver: Driver) -> None:
            if len(one.idles) < one.contender.part_of(plan.idles):
                one.idles.append(await driver.idle())

        async def the_pending(one: Found, driver: Driver) -> None:
            one.stored, one.memory = await driver.pending(one.contender.part_of(plan.pending))

        for place in range(plan.rounds):
            await each(a_round)
            line = ", ".join(
                f"{one.contender.name} {one.rounds[-1].rate:,.0f}/s {one.rounds[-1].cpu_ms:,.1f} ms"
                for one in found
                if one.rounds
            )
            console.print(f"Round {place + 1} of {plan.rounds}: {line}", highlight=False)
        for _ in range(plan.idles):
            await each(an_idle)
        await each(the_pending)
    return found


async def _started(one: Found, fleet: Fleet, folder: Path) -> Driver:
    environment = one.contender.environment
    await asyncio.to_thread(environment.install)
    one.versions = await asyncio.to_thread(environment.versions)
    await asyncio.to_thread(folder.mkdir)
    child = await fleet.run(
        one.contender.name,
        *(environment.program, "-m", "benchmarks.peers.driver"),
        *(one.contender.driven, str(folder)),
    )
    driver = Driver(child)
    await child.ready()
    await driver.round(16)
    return driver


def show(console: Console, found: Sequence[Found]) -> None:
    """Print one table of all contenders, and the content of each unit."""
    table = Table("", title="One unit: stored, answered, done")
    for column in (
        "units/s",
        "lowest – highest",
        "CPU ms",
        "p50 ms",
        "p99 ms",
        "stored B",
        "memory B",
    ):
        table.add_column(column, justify="right")
    for one in found:
        name = one.contender.name
        if not one.rounds or not one.idles:
            table.add_row(name, "–", one.problem or "not measured")
            continue
        rates = [each.rate for each in one.rounds]
        table.add_row(
            name,
            f"{median(rates):,.0f}",
            f"{min(rates):,.0f} – {max(rates):,.0f}",
            f"{median(each.cpu_ms for each in one.rounds):.1f}",
            f"{median(one.idles):.1f}",
            f"{percentile(one.idles, 0.99):.1f}",
            f"{one.stored:,.0f}",
            f"{one.memory:,.0f}",
        )
    console.print(table)
    console.print("p50, p99: from an answer until the work goes on, with no other load.")
    console.print("stored, memory: of the store and of all processes, for a pending request.")
    for one in found:
        console.print(
            f"{one.contender.name} ({one.versions}): durable: {one.contender.durable}; unit: "
            f"{one.contender.unit}" + (f"; {one.problem}" if one.problem else ""),
            highlight=False,
            soft_wrap=True,
        )


def main() -> None:
    """Read the arguments and measure in a temporary folder."""
    names = [one.name for one in CONTENDERS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it runs")
    parser.add_argument("--only", default="", help=f"a comma-separated list of {', '.join(names)}")
    given = parser.parse_args()
    wanted = given.only.split(",") if given.only else names
    if unknown := set(wanted) - set(names):
        parser.error(f"--only: there is no {', '.join(sorted(unknown))}")
    console, started = Console(width=120), time.monotonic()
    for name, text in hardware():
        console.print(f"{name:>12}  {text}", highlight=False)
    with tempfile.TemporaryDirectory(prefix="signoff-bench-") as folder:
        where = Path(folder)
        # The PostgreSQL server runs as another user.
        where.chmod(0o755)
        contenders = [one for one in CONTENDERS if one.name in wanted]
        plan = QUICK if given.quick else Plan()
        found = asyncio.run(measure(plan, contenders, folder=where, console=console))
    show(console, found)
    console.print(f"It took {time.monotonic() - started:.0f} s.")


if __name__ == "__main__":
    main()
