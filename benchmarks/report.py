"""The report: every number with its unit, every ratio with its aim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.chain import Idle, Round
from benchmarks.pending import Size
from benchmarks.process import THREADS


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that is at least as large as this share of all values."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


@dataclass(slots=True)
class Results:
    """All measurements, round by round."""

    bare: list[Round] = field(default_factory=list)
    null: list[Round] = field(default_factory=list)
    naked: list[Round] = field(default_factory=list)
    whole: list[Round] = field(default_factory=list)
    hops: list[float] = field(default_factory=list)
    idles: list[Idle] = field(default_factory=list)
    few: int = 0
    many: int = 0
    decide_few: list[float] = field(default_factory=list)
    decide_many: list[float] = field(default_factory=list)
    decide_packed: list[float] = field(default_factory=list)
    size: Size | None = None
    packed: Size | None = None


@dataclass(frozen=True, slots=True)
class Ratio:
    """One number with an aim."""

    name: str
    value: float
    aim: float
    at_least: bool
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether the aim is reached."""
        return self.value >= self.aim if self.at_least else self.value <= self.aim


def ratios(results: Results) -> list[Ratio]:
    """Return the ratios that have aims.

    Rounds are interleaved and each is compared with its neighbour, because other load on the
    machine slows both.
    """
    hop, idle = results.hops, [one.from_commit for one in results.idles]
    beyond = results.packed.beyond if results.packed else float("nan")
    latency = median(results.decide_many) / median(results.decide_few)
    return [
        Ratio("b / a, round trips", _paired(results.null, results.bare), 3, at_least=True),
        Ratio("d / c, runs", _paired(results.whole, results.naked), 0.9, at_least=True),
        Ratio(
            "e / one hop of a, p99",
            percentile(idle, 0.99) / percentile(hop, 0.99),
            2,
            at_least=False,
        ),
        Ratio("f: beyond the payload, packed", beyond, 2048, at_least=False, unit=" B"),
        Ratio(f"f: decide at {results.many:,} / {results.few:,}", latency, 1.2, at_least=False),
    ]


def show(console: Console, results: Results, machine: Sequence[tuple[str, str]]) -> None:
    """Print the machine, the measurements and the ratios."""
    for name, text in machine:
        console.print(f"{name:>12}  {text}", highlight=False)
    console.print(_rates(results))
    console.print(_idle(results))
    console.print(_pending(results))
    table = Table("ratio", "measured", "aim", "", title="Ratios")
    for one in ratios(results):
        sign = "≥" if one.at_least else "≤"
        places = 0 if one.unit else 2
        table.add_row(
            one.name,
            f"{one.value:,.{places}f}{one.unit}",
            f"{sign} {one.aim:g}{one.unit}",
            "met" if one.met else "missed",
        )
    console.print(table)


def _paired(ours: Sequence[Round], theirs: Sequence[Round]) -> float:
    return median(our.rate / their.rate for our, their in zip(ours, theirs, strict=True))


def _rates(results: Results) -> Table:
    table = Table("", "units/s", "lowest – highest", "CPU ms/unit", title="Throughput (medians)")
    for name, rounds in (
        (f"a  bare Celery, 3 tasks, 2 processes × {THREADS} threads", results.bare),
        (f"b  Signoff without an agent, 2 processes × {THREADS} threads", results.null),
        (f"c  ADK's Runner alone, 1 process, {THREADS} runs at once", results.naked),
        (f"d  Signoff with the agent, 1 worker × {THREADS} threads", results.whole),
    ):
        rates = [one.rate for one in rounds]
        table.add_row(
            f"{name} ({len(rounds)} × {rounds[0].count})",
            f"{median(rates):,.1f}",
            f"{min(rates):,.1f} – {max(rates):,.1f}",
            f"{median(one.cpu_ms for one in rounds):.2f}",
        )
    return table


def _idle(results: Results) -> Table:
    table = Table("", "p50 ms", "p99 ms", title=f"At rest ({len(results.idles)} each)")
    idles = results.idles
    for name, values in (
        ("a  one hop: send called → task started", results.hops),
        ("e  answer committed → resume started", [one.from_commit for one in idles]),
        ("e  Decisions.take called → resume started", [one.from_call for one in idles]),
        ("e  Decisions.take returned → resume started", [one.from_return for one in idles]),
    ):
        table.add_row(name, f"{median(values):.2f}", f"{percentile(values, 0.99):.2f}")
    return table


def _pending(results: Results) -> Table:
    table = Table("", "measured", title="Pending approvals")
    for count, form, values in (
        (results.few, "", results.decide_few),
        (results.many, "", results.decide_many),
        (results.many, ", packed", results.decide_packed),
    ):
        table.add_row(
            f"f  decide with {count:,} pending{form}, p50 / p99",
            f"{median(values):.2f} / {percentile(values, 0.99):.2f} ms",
        )
    for form, size in (("just asked", results.size), ("packed", results.packed)):
        if size is None:
            continue
        table.add_row(f"f  Redis memory for each, {form}", f"{size.whole:,.0f} B")
        table.add_row("   payload: arguments, hint, message", f"{size.payload:,} B")
        parts = {name: part for name, part in size.parts.items() if part >= 1}
        parts["dictionaries and allocator"] = size.whole - sum(parts.values())
        for name, part in parts.items():
            table.add_row(f"   {name}", f"{part:,.0f} B")
    return table
