"""``python -m benchmarks``: all measurements in one run; `make bench` starts it."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.chain import BareChain, Client, NullTrip
from benchmarks.fleet import Fleet
from benchmarks.machine import describe
from benchmarks.office import AGENTS
from benchmarks.pending import Pile, Size, payload_bytes
from benchmarks.process import THREADS, quieten
from benchmarks.report import Results, show
from benchmarks.runs import NakedRuns, WholeRuns
from signoff.broker.server.embedded import EmbeddedRedis


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of a run.

    Attributes:
        rounds: The rounds of each side of a comparison, interleaved.
        trips: Round trips in a round of a and b.
        runs: Runs in a round of c and d.
        hops: Single answers at rest.
        few: Pending approvals in the small pile.
        many: Pending approvals in the large pile.
        decisions: Timed decisions in each pile.
    """

    rounds: int = 7
    trips: int = 800
    runs: int = 60
    hops: int = 400
    few: int = 100
    many: int = 100_000
    decisions: int = 400


QUICK = Plan(rounds=1, trips=20, runs=2, hops=3, few=20, many=300, decisions=5)


async def measure(plan: Plan, *, fsync: str, folder: Path, console: Console) -> None:
    """Measure everything and print the report."""
    results = Results(few=plan.few, many=plan.many)
    console.print("Starting the processes.")
    async with AsyncExitStack() as stack:
        server = stack.enter_context(EmbeddedRedis(folder / "redis", fsync=fsync))
        fleet = await stack.enter_async_context(Fleet(folder))
        # A database for each side, because Signoff's queues have fixed names.
        bare_at, null_at, whole_at = (f"{server.url.rpartition('/')[0]}/{n}" for n in (1, 2, 3))
        bare = [await fleet.start("bare", bare_at) for _ in range(2)]
        null = [await fleet.start(role, null_at) for role in ("channels", "executor")]
        naked = await fleet.start("naked", folder / "naked.db", AGENTS, 0)
        channels = await fleet.start("channels", whole_at)
        worker = await fleet.start("agents", whole_at, AGENTS, THREADS, 0)
        for child in (*bare, *null, naked, channels, worker):
            await child.ready()
        clients = [Client(null_at, null[0]), Client(whole_at, channels)]
        for client in clients:
            stack.push_async_callback(client.ledger.close)
        machine = await describe(clients[0].ledger, fsync)
        a = BareChain(bare_at, bare, server.pid)
        b = NullTrip(clients[0], null[1], server.pid)
        c, d = NakedRuns(naked), WholeRuns(clients[1], [worker], server.pid)
        await _throughput(plan, results, (a, b, c, d), console)
        console.print(f"e: {plan.hops} answers at rest, each beside a hop of bare Celery.")
        for _ in range(plan.hops):
            results.hops.append(await a.hop())
            results.idles.append(await b.idle())
    await _piles(plan, results, folder, console, fsync)
    show(console, results, machine)


async def _throughput(
    plan: Plan,
    results: Results,
    sides: tuple[BareChain, NullTrip, NakedRuns, WholeRuns],
    console: Console,
) -> None:
    a, b, c, d = sides
    for side in sides:
        await side.round(16)
    for place in range(plan.rounds):
        results.bare.append(await a.round(plan.trips))
        results.null.append(await b.round(plan.trips))
        results.naked.append(await c.round(plan.runs))
        results.whole.append(await d.round(plan.runs))
        rates = " ".join(
            f"{name} {rounds[-1].rate:,.1f}/s"
            for name, rounds in (
                ("a", results.bare),
                ("b", results.null),
                ("c", results.naked),
                ("d", results.whole),
            )
        )
        console.print(f"Round {place + 1} of {plan.rounds}: {rates}", highlight=False)


async def _piles(plan: Plan, results: Results, folder: Path, console: Console, fsync: str) -> None:
    # Separate servers: their memory only has what the benchmark put there.
    async with AsyncExitStack() as stack:
        piles = []
        for name in ("few", "many"):
            server = stack.enter_context(EmbeddedRedis(folder / name, fsync=fsync))
            pile = Pile(server.url)
            stack.push_async_callback(pile.close)
            await pile.grow_by_the_stages(plan.few)
            piles.append(pile)
        few, many = piles
        console.print(f"f: opening {plan.many:,} approvals.")
        before = await many.used()
        await many.grow(plan.many)
        whole = (await many.used() - before) / (plan.many - plan.few)
        # Of the large pile: small indexes are stored in another form, with less memory.
        results.size = Size(whole, payload_bytes(), await many.parts())
        for _ in range(plan.decisions):
            results.decide_few.append(await few.decide())
            results.decide_many.append(await many.decide())
        now = await many.used()
        await many.pack()
        saved = (now - await many.used()) / plan.many
        results.packed = Size(whole - saved, payload_bytes(), await many.parts())
        for _ in range(plan.decisions):
            results.decide_packed.append(await many.decide())


def main() -> None:
    """Read the arguments, measure in a temporary folder, and remove it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it runs")
    parser.add_argument(
        "--fsync",
        choices=("always", "everysec"),
        default="always",
        help="appendfsync of every Redis in the run (the demo's: always)",
    )
    given = parser.parse_args()
    quieten()
    # The agents use the scripted model, whatever keys are set.
    os.environ.pop("GOOGLE_API_KEY", None)
    console = Console()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="signoff-bench-") as folder:
        plan = QUICK if given.quick else Plan()
        asyncio.run(measure(plan, fsync=given.fsync, folder=Path(folder), console=console))
    console.print(f"It took {time.monotonic() - started:.0f} s.")


if __name__ == "__main__":
    main()
