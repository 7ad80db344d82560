"""``python -m benchmarks.light``: the cost of processes and commands at rest.

Everything runs as users run it: `signoff` in its own process with compiled bytecode, on a separate
Redis. The report has the CPU seconds (user and system, including child processes of a command) as
medians with the minimum and the share of the aim, and the resident memory of each process. It
also has the time on the clock for commands that people wait for.
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
"""Frequent commands of people and scripts, each with its aim in CPU seconds."""

_LARGE = (("doctor", 3.0), ("policy diff", 3.0), ("queue list", 1.0), ("approvals list", 1.0))
"""Commands on large ledgers, each with its aim in seconds on the clock."""

_PROCESSES = (("gateway", 80), ("channels", 80), ("worker", 0))
"""The processes with their aims in MiB; 0 means no aim, as the framework alone needs more."""

_READY = 2.0
_IDLE = 0.5
"""The aim for the CPU seconds per minute of all processes and Redis."""

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
    """The size of a run.

    Attributes:
        waiting: Pending approvals in the large ledger.
        people: People in the large ledger.
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
    """The cost of a command.

    Attributes:
        cpu: CPU seconds.
        seconds: Seconds on the clock.
    """

    cpu: float
    seconds: float


def call(file: Path, words: Sequence[str]) -> Cost:
    """Call `signoff` once.

    Raises:
        RuntimeError: The exit code is neither success nor a finding.
    """
    started = time.perf_counter()
    arguments = [sys.executable, "-m", "signoff.cli", "--config", str(file), *words]
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    process = os.posix_spawn(sys.executable, arguments, os.environ, file_actions=quiet)
    _, status, used = os.wait4(process, 0)
    # 1 is a finding of `doctor`: no process runs, and there is no mail server.
    if os.waitstatus_to_exitcode(status) not in {0, 1}:
        raise RuntimeError(f"signoff {' '.join(words)} has failed.")
    return Cost(used.ru_utime + used.ru_stime, time.perf_counter() - started)


def commands(file: Path, approval: str, times: int) -> Table:
    """Return the costs of the frequent commands."""
    table = _table("commands", "CPU s", "least", "aim", "of it", "")
    for line, aim in _COMMANDS:
        words = line.format(approval=approval).split()
        costs = [call(file, words) for _ in range(times)]
        cpu, least = statistics.median(one.cpu for one in costs), min(one.cpu for one in costs)
        figures = (f"{cpu:.2f}", f"{least:.2f}", f"≤ {aim}", f"{cpu / aim:.1f}")
        table.add_row(_name(words), *figures, _met(cpu, aim))
    return table


def at_scale(file: Path, waiting: int, people: int, times: int) -> Table:
    """Return the costs of commands on a large ledger."""
    table = _table(f"{waiting:,} wait, {people:,} people", "seconds", "aim", "", "CPU s")
    for line, aim in _LARGE:
        costs = [call(file, line.split()) for _ in range(times)]
        seconds = statistics.median(one.seconds for one in costs)
        cpu = statistics.median(one.cpu for one in costs)
        table.add_row(line, f"{seconds:.1f}", f"≤ {aim}", _met(seconds, aim), f"{cpu:.1f}")
    return table


async def processes(file: Path, redis: int, idle: float) -> tuple[Table, Table]:
    """Return the costs of the processes until they are ready, and while they are idle."""
    table = _table("processes", "CPU s to ready", "aim", "", "MiB", "aim", "")
    seen = {"redis": psutil.Process(redis)}
    async with Supervisor() as supervisor:
        for kind, _ in _PROCESSES:
            child = await supervisor.signoff(kind, "--config", str(file), kind)
            await supervisor.ready(within=120)
            seen[kind] = psutil.Process(child.pid)
        ready = {kind: _cpu(one) for kind, one in seen.items()}
        # Work after the start does not count as idling.
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
    """Return the CPU seconds of a process and its child processes."""
    all_of_it = [process, *process.children(recursive=True)]
    return sum(float(sum(one.cpu_times()[:2])) for one in all_of_it)


def _table(first: str, *more: str) -> Table:
    table = Table(first)
    for column in more:
        table.add_column(column, justify="right")
    return table


def _name(words: Sequence[str]) -> str:
    """Return a command without its arguments."""
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
    """Read the arguments and measure in a temporary folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.light", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it runs")
    parser.add_argument("--waiting", type=int, default=Plan.waiting, help="approvals at scale")
    parser.add_argument("--fsync", choices=("always", "everysec"), default="everysec")
    given = parser.parse_args()
    quieten()
    # As in an installed package, whatever this shell has set.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for folder in signoff.__path__:
        compileall.compile_dir(folder, quiet=1)
    plan = QUICK if given.quick else Plan(waiting=given.waiting)
    with tempfile.TemporaryDirectory(prefix="signoff-bench-") as folder:
        asyncio.run(measure(plan, fsync=given.fsync, folder=Path(folder)))


if __name__ == "__main__":
    main()
