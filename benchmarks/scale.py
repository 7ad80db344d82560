"""``python -m benchmarks.scale``: costs that should not depend on the size of the ledger.

Three piles of approvals, each in a separate Redis: half of them are pending, half have ended and
are kept until retention. In turns, each pile decides an approval and serves pages of the inbox,
with searches that find nothing; then commands run. The ratios compare each pile with the smallest.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.inbox import BOSS, Visitors
from benchmarks.machine import describe
from benchmarks.office import AGENTS, MARA
from benchmarks.pending import Pile
from benchmarks.process import quieten
from signoff.broker.ledger.search_index import SearchIndex
from signoff.broker.server.embedded import EmbeddedRedis

SIZES = (1_000, 10_000, 100_000)
QUICK = (60, 600)
AIM = 1.2

_PAGES = (
    (MARA, "/", "your approvals"),
    (MARA, "/?sort=newest", "your approvals, newest first"),
    (MARA, "/?q=nothing", "a search without results"),
    (BOSS, "/all", "all pending"),
    (BOSS, "/ended", "ended"),
    (BOSS, "/ended?q=nothing", "ended, a search without results"),
    (BOSS, "/charts", "metrics"),
)
_SETTINGS = """
[redis]
url = "{redis}"

[agents]
folder = "{agents}"

[[people]]
id = "mara"
name = "Mara Lind"
email = "mara@example.com"

[[people]]
id = "olga"
name = "Olga Ruiz"
email = "olga@example.com"

[[people]]
id = "riley"
name = "Riley Chen"
email = "riley@example.com"

[default]
ask = ["mara"]
"""
_COMMANDS = (("approvals", "list"), ("doctor",))


@dataclass(slots=True)
class Ledgers:
    """One pile and its measurements.

    Attributes:
        size: The number of approvals in it.
        pile: The approvals.
        visitors: The readers of its pages.
        file: The settings of its commands.
        took: Milliseconds by operation.
        memory: Bytes of Redis.
    """

    size: int
    pile: Pile
    visitors: Visitors
    file: Path
    took: dict[str, list[float]] = field(default_factory=dict)
    memory: int = 0

    async def fill(self) -> None:
        """Add all approvals, also to the search index."""
        await self.pile.grow_by_the_stages(1)
        half = self.size // 2
        await asyncio.gather(self.pile.grow(half), self.pile.grow_ended(self.size - half))
        await SearchIndex(self.pile.ledger, margin=timedelta()).extend()
        self.memory = await self.pile.used()

    def note(self, name: str, milliseconds: float) -> None:
        """Record a measurement."""
        self.took.setdefault(name, []).append(milliseconds)

    async def turn(self) -> None:
        """Run each operation once."""
        self.note("decide", await self.pile.decide())
        for person, path, name in _PAGES:
            took, _ = await self.visitors.fetch(person, path, 1)
            self.note(name, took[0])

    async def command(self, words: Sequence[str]) -> None:
        """Run a command once."""
        command = (sys.executable, "-m", "signoff.cli", "--config", str(self.file), *words)
        started = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        await process.wait()
        self.note("signoff " + " ".join(words), 1_000 * (time.perf_counter() - started))


async def measure(
    sizes: Sequence[int], times: int, *, fsync: str, folder: Path, console: Console
) -> None:
    """Fill all piles, measure them in turns and print the results."""
    async with AsyncExitStack() as stack:
        found: list[Ledgers] = []
        for size in sizes:
            server = stack.enter_context(EmbeddedRedis(folder / f"redis-{size}", fsync=fsync))
            pile = Pile(server.url)
            stack.push_async_callback(pile.close)
            if not found:
                for name, text in await describe(pile.ledger, fsync):
                    console.print(f"{name:>12}  {text}", highlight=False)
            file = folder / f"{size}.toml"
            file.write_text(_SETTINGS.format(redis=server.url, agents=AGENTS))
            ledgers = Ledgers(size, pile, Visitors(pile), file)
            started = time.perf_counter()
            await ledgers.fill()
            took = time.perf_counter() - started
            console.print(f"{size:,} approvals put in: {took:.0f} s", highlight=False)
            found.append(ledgers)
        for _ in range(times):
            for one in found:
                await one.turn()
        for words in _COMMANDS:
            for _ in range(min(times, 3)):
                for one in found:
                    await one.command(words)
    show(console, found)


def show(console: Console, found: Sequence[Ledgers]) -> None:
    """Print the medians and their ratios to those of the smallest pile."""
    first, *others = found
    table = Table("", title="Half of them wait, half have ended", title_justify="left")
    table.add_column(f"{first.size:,}: ms", justify="right")
    for one in others:
        table.add_column(f"{one.size:,}: ms", justify="right")
        table.add_column("ratio", justify="right")
    missed = []
    for name, values in first.took.items():
        base = statistics.median(values)
        row = [f"{base:,.1f}"]
        for one in others:
            median = statistics.median(one.took[name])
            row += [f"{median:,.1f}", f"{median / base:.2f}"]
            if median / base > AIM:
                missed.append(f"{name} at {one.size:,}: {median / base:.2f}")
        table.add_row(name, *row)
    each = [f"{one.memory / one.size:,.0f}" for one in found]
    table.add_row("bytes each", each[0], *(cell for text in each[1:] for cell in (text, "")))
    console.print(table)
    for line in missed:
        console.print(f"  missed, aim ≤ {AIM}: {line}", highlight=False)


def main() -> None:
    """Read the arguments and measure in a temporary folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it runs")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="approvals in the last pile")
    parser.add_argument("--fsync", choices=("always", "everysec"), default="everysec")
    given = parser.parse_args()
    quieten()
    sizes, times = (QUICK, 2) if given.quick else ((*SIZES[:-1], given.largest), 15)
    with tempfile.TemporaryDirectory(prefix="signoff-bench-") as folder:
        where, console = Path(folder), Console(width=120)
        run = measure(sizes, times, fsync=given.fsync, folder=where, console=console)
        asyncio.run(run)


if __name__ == "__main__":
    main()
