"""``python -m benchmarks.light``: what processes and commands cost at rest.

Everything runs as users run it, `signoff` in a process of its own, with its bytecode written, on a
Redis of its own. Figures are seconds of CPU (user and system, with the processes that a command
starts itself), as medians with the least and as parts of the aim, and the resident memory of a
process; time on the clock is told where people wait for it.
"""

from __future__ import annotations

import argparse
import asyncio
import compileall
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

import signoff
from benchmarks.machine import describe
from benchmarks.office import AGENTS
from benchmarks.pending import Pile
from benchmarks.process import quieten
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.cli.composition.supervisor import Supervisor

_MIB = 1 << 20

_COMMANDS = (
    ("--help", 0.25),
    ("health worker", 0.25),
    ("approvals list", 0.25),
    ("approvals show {approval}", 0.25),
    ("policy explain --tool reimburse --arg amount=2500 --user riley@example.com", 0.25),
    ("queue list", 0.25),
    ("people list", 0.25),
    ("runs list", 0.25),
    ("audit verify", 0.25),
    ("config check", 0.25),
)
"""What people and scripts call often, each with its aim in seconds of CPU."""

_LARGE = (("doctor", 3.0), ("policy diff", 3.0), ("queue list", 1.0), ("approvals list", 1.0))
"""What is called where much waits, each with its aim in seconds on the clock."""

_PROCESSES = (("gateway", 80), ("channels", 80), ("worker", 0))
"""The processes, each with its aim in MiB; 0 is without one: the framework alone needs more."""

_READY = 2.0
_IDLE = 0.5
"""Seconds of CPU a minute of all processes with Redis."""

_SETTINGS = """\
[agents]
folder = "{agents}"
[redis]
url = "{redis}"
[gateway]
port = 0
[inbox]
url = "http://localhost"
secret_key = "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk="
[email.smtp]
port = 9
[email.inbound]
port = 0
[log]
format = "json"
[default]
ask = ["mara"]
[[policies]]
name = "payments"
when = "tool == 'reimburse' && args.amount > 0"
ask = ["mara"]
"""
_PERSON = '[[people]]\nid = "{0}"\nname = "{1}"\nemail = "{0}@example.com"\n'


@dataclass(frozen=True)
class Plan:
    """How much to measure.

    Attributes:
        waiting: Approvals at scale.
        people: People at scale.
        times: How often each command is called.
        idle: Seconds without work.
    """

    waiting: int = 5_000
    people: int = 500
    times: int = 5
    idle: float = 60.0


QUICK = Plan(waiting=50, people=10, times=1, idle=1.0)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command has cost.

    Attributes:
        cpu: Seconds of CPU.
        seconds: On the clock.
    """

    cpu: float
    seconds: float


def call(file: Path, words: Sequence[str]) -> Cost:
    """Call `signoff` once.

    Raises:
        RuntimeError: It has ended in a way that is neither good nor a finding.
    """
    started = time.perf_counter()
    arguments = [sys.executable, "-m", "signoff.cli", "--config", str(file), *words]
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    process = os.posix_spawn(sys.executable, arguments, os.environ, file_actions=quiet)
    _, status, used = os.wait4(process, 0)
    # 1 is a finding of `doctor`: nothing runs, and there is no mail server.
    if os.waitstatus_to_exitcode(status) not in {0, 1}:
        raise RuntimeError(f"signoff {' '.join(words)} has failed.")
    return Cost(used.ru_utime + used.ru_stime, time.perf_counter() - started)


def commands(file: Path, approval: str, times: int) -> Table:
    """Return what the commands cost that are called often."""
    table = _table("commands", "CPU s", "least", "aim", "of it", "")
    for line, aim in _COMMANDS:
        words = line.format(approval=approval).split()
        costs = [call(file, words) for _ in range(times)]
        cpu, least = statistics.median(one.cpu for one in costs), min(one.cpu for one in costs)
        figures = (f"{cpu:.2f}", f"{least:.2f}", f"≤ {aim}", f"{cpu / aim:.1f}")
        table.add_row(_name(words), *figures, _met(cpu, aim))
    return table


def at_scale(file: Path, waiting: int, people: int, times: int) -> Table:
    """Return what the commands cost where much waits."""
    table = _table(f"{waiting:,} wait, {people:,} people", "seconds", "aim", "", "CPU s")
    for line, aim in _LARGE:
        costs = [call(file, line.split()) for _ in range(times)]
        seconds = statistics.median(one.seconds for one in costs)
        cpu = statistics.median(one.cpu for one in costs)
        table.add_row(line, f"{seconds:.1f}", f"≤ {aim}", _met(seconds, aim), f"{cpu:.1f}")
    return table


async def processes(file: Path, redis: int, idle: float) -> tuple[Table, Table]:
    """Return what the processes need until they are ready, and while there is nothing to do."""
    table = _table("processes", "CPU s to ready", "aim", "", "MiB", "aim", "")
    seen = {"redis": psutil.Process(redis)}
    async with Supervisor() as supervisor:
        for kind, _ in _PROCESSES:
            child = await supervisor.signoff(kind, "--config", str(file), kind)
            await supervisor.ready(within=120)
            seen[kind] = psutil.Process(child.pid)
        ready = {kind: _cpu(one) for kind, one in seen.items()}
        # What runs once after the start is no idling.
        await asyncio.sleep(min(idle, 15))
        before = {kind: _cpu(one) for kind, one in seen.items()}
        await asyncio.sleep(idle)
        used = {kind: (_cpu(one) - before[kind]) * 60 / idle for kind, one in seen.items()}
        for kind, aim in _PROCESSES:
            size = seen[kind].memory_info().rss / _MIB
            row = (f"{ready[kind]:.2f}", f"≤ {_READY}", _met(ready[kind], _READY), f"{size:.0f}")
            table.add_row(kind, *row, *((f"≤ {aim}", _met(size, aim)) if aim else ("", "")))
    resting = _table("idle", "CPU s a minute", "aim", "")
    for kind, seconds in used.items():
        resting.add_row(kind, f"{seconds:.2f}", "", "")
    whole = sum(used.values())
    resting.add_row("all", f"{whole:.2f}", f"≤ {_IDLE}", _met(whole, _IDLE))
    return table, resting


def _cpu(process: psutil.Process) -> float:
    """Return the seconds of CPU of a process and those that it has started."""
    all_of_it = [process, *process.children(recursive=True)]
    return sum(float(sum(one.cpu_times()[:2])) for one in all_of_it)


def _table(first: str, *more: str) -> Table:
    table = Table(first)
    for column in more:
        table.add_column(column, justify="right")
    return table


def _name(words: Sequence[str]) -> str:
    """Return a command without what it is called with."""
    return " ".join(words[:2])


def _met(value: float, aim: float) -> str:
    return "met" if value <= aim else "missed"


async def measure(plan: Plan, *, fsync: str, folder: Path) -> None:
    """Measure everything and print it."""
    console, people = Console(), plan.people
    ids = [("mara", "Mara Lind"), ("olga", "Olga Ruiz"), ("riley", "Riley Chen")]
    ids += [(f"p{at}", f"Person {at}") for at in range(people - len(ids))]
    with EmbeddedRedis(folder / "redis", fsync=fsync) as server:
        file = folder / "signoff.toml"
        settings = _SETTINGS.format(agents=AGENTS, redis=server.url)
        small = settings + "".join(_PERSON.format(*one) for one in ids[:3])
        pile = Pile(server.url)
        for name, text in await describe(pile.ledger, fsync):
            console.print(f"{name:>12}  {text}", highlight=False)
        await pile.grow_by_the_stages(20)
        await asyncio.to_thread(file.write_text, small)
        for table in await processes(file, server.pid, plan.idle):
            console.print(table)
        console.print(await asyncio.to_thread(commands, file, pile.ids[0], plan.times))
        if plan.waiting:
            await pile.grow(plan.waiting)
            large = settings + "".join(_PERSON.format(*one) for one in ids)
            await asyncio.to_thread(file.write_text, large)
            table = await asyncio.to_thread(
                at_scale, file, plan.waiting, people, min(plan.times, 3)
            )
            console.print(table)
        await pile.close()


def main() -> None:
    """Read the arguments and measure in a folder of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.light", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it runs")
    parser.add_argument("--waiting", type=int, default=Plan.waiting, help="approvals at scale")
    parser.add_argument("--fsync", choices=("always", "everysec"), default="everysec")
    given = parser.parse_args()
    quieten()
    # As a package that was installed has it, whatever this shell says.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for folder in signoff.__path__:
        compileall.compile_dir(folder, quiet=1)
    plan = QUICK if given.quick else Plan(waiting=given.waiting)
    with tempfile.TemporaryDirectory(prefix="signoff-bench-") as folder:
        asyncio.run(measure(plan, fsync=given.fsync, folder=Path(folder)))


if __name__ == "__main__":
    main()
