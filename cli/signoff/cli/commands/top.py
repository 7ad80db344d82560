"""`signoff top`: a live view of stages, queues, processes and rates."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from signoff.cli.commands.context import Json, settings_of, with_decisions, write_json
from signoff.cli.terminal import make_console

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from signoff.broker.decisions import Decisions
    from signoff.broker.ledger.ledger import Ledger
    from signoff.broker.monitoring.gauges import Gauges
    from signoff.cli.config.settings import Settings

_WINDOW: Final = 60
"""Seconds over which rates are measured."""
_MOST: Final = 10_000
_RATES: Final = (
    "submitted",
    "opened",
    "delivered",
    "undelivered",
    "approved",
    "rejected",
    "refused_answer",
    "not_understood",
    "resumed",
    "in_doubt",
    "failed",
)
"""The kinds of events whose rates are shown."""


def top(
    ctx: typer.Context,
    *,
    every: Annotated[
        float, typer.Option(min=0.5, metavar="SECONDS", help="How often to refresh.")
    ] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print once; the default outside of a terminal.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show stages, queues, processes, lag and rates, until Ctrl-C."""

    async def work(decisions: Decisions) -> None:
        from signoff.cli.composition.reload import CurrentSettings  # noqa: PLC0415 -- the settings

        ledger, window, current = decisions.ledger, _Window(), CurrentSettings(settings)
        gauges = await _look(ledger, current.read(), window)
        if as_json:
            write_json(_as_json(gauges, window.rates()))
            return
        console, screen = make_console(), _screen(gauges, window.rates())
        if once or not sys.stdout.isatty():
            console.print(screen)
            return
        from rich.live import Live  # noqa: PLC0415 -- slow, and only this branch needs it

        with Live(screen, console=console, screen=True, auto_refresh=False) as live:
            while True:
                await asyncio.sleep(every)
                gauges = await _look(ledger, current.read(), window)
                live.update(_screen(gauges, window.rates()), refresh=True)

    settings = settings_of(ctx)
    with_decisions(ctx, work)


@dataclass(slots=True)
class _Window:
    """The events of the last minute; each reading gets only the new ones."""

    last: str = ""
    events: deque[tuple[int, str]] = field(default_factory=deque)

    async def look(self, ledger: Ledger) -> None:
        from signoff.broker.ledger.follow import since  # noqa: PLC0415 -- redis
        from signoff.broker.ledger.store import to_ms  # noqa: PLC0415

        begins = to_ms(await ledger.now()) - _WINDOW * 1000
        start = self.last or f"{begins}-0"
        for name, event in await since(ledger.store, start, limit=_MOST):
            self.last = name
            self.events.append((int(name.partition("-")[0]), event.what.value))
        while self.events and self.events[0][0] < begins:
            self.events.popleft()

    def rates(self) -> dict[str, float]:
        """Return the number of events per second, by kind."""
        counts = Counter(what for _, what in self.events)
        return {what: round(counts[what] / _WINDOW, 3) for what in _RATES}


async def _look(ledger: Ledger, settings: Settings, window: _Window) -> Gauges:
    from signoff.broker.monitoring.gauges import KnownNames, measure  # noqa: PLC0415 -- redis
    from signoff.cli.composition.kinds import KINDS  # noqa: PLC0415

    await window.look(ledger)
    queues = [one.name for one in settings.queues]
    return await measure(ledger, KnownNames(queues=queues, kinds=KINDS))


def _as_json(gauges: Gauges, rates: dict[str, float]) -> dict[str, Any]:
    return {
        "stages": [
            {"stage": one.name, "items": one.items, "ready": one.ready, "age_seconds": one.age}
            for one in gauges.stages
        ],
        "pending": gauges.pending,
        "oldest_seconds": gauges.oldest,
        "queues": gauges.queues,
        "lag_seconds": gauges.lag,
        "processes": gauges.processes,
        "records": gauges.records,
        "redis_memory_bytes": gauges.redis.get("used_memory", 0),
        "per_second": rates,
    }


def _screen(gauges: Gauges, rates: dict[str, float]) -> RenderableType:
    from rich.columns import Columns  # noqa: PLC0415 -- slow, and help must not wait for it
    from rich.console import Group  # noqa: PLC0415

    stages = _table("stage", "items", "ready", "age")
    for one in gauges.stages:
        style = "bold red" if one.age > _WINDOW else ""
        stages.add_row(one.name, str(one.items), str(one.ready), _time(one.age), style=style)
    pending = _table("policy", "pending", "oldest")
    for policy, count in sorted(gauges.pending.items()):
        pending.add_row(policy or "(not routed)", str(count), _time(gauges.oldest.get(policy, 0)))
    queues = _table("queue", "pending")
    for queue, count in gauges.queues.items():
        queues.add_row(queue, str(count))
    processes = _table("process", "alive")
    for kind, count in gauges.processes.items():
        processes.add_row(kind, str(count), style="" if count else "bold red")
    speed = _table("event", "per second")
    for what, rate in rates.items():
        speed.add_row(what.replace("_", " "), f"{rate:g}")
    ledger = _table("ledger", "")
    ledger.add_row("lag of timers", _time(gauges.lag), style="bold red" if gauges.lag > 1 else "")
    ledger.add_row("Redis memory", f"{gauges.redis.get('used_memory', 0) / 2**20:.1f} MB")
    for kind, count in gauges.records.items():
        ledger.add_row(kind, str(count))
    shown = [one for one in (pending, queues) if one.row_count]
    return Group(
        Columns([stages, *shown], padding=(0, 3)),
        Columns([processes, ledger, speed], padding=(0, 3)),
    )


def _table(*columns: str) -> Table:
    from rich.table import Table  # noqa: PLC0415 -- slow, and help must not wait for it

    table = Table(box=None, header_style="bold", pad_edge=False)
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    return table


def _time(seconds: float) -> str:
    from signoff.core.base.durations import coarse  # noqa: PLC0415 -- help must not wait for it

    return f"{seconds:.1f} s" if seconds < _WINDOW else coarse(timedelta(seconds=seconds))
