"""The page of metrics: what waits by queue, how long decisions take, and their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from signoff.broker.backlog import ALL, summaries
from signoff.channels.inbox.auth.context import Pages, Route
from signoff.channels.inbox.pages.rows import When, queues_seen
from signoff.core.approvals.approval import State
from signoff.core.approvals.lists.metrics import (
    DecisionTimes,
    Figures,
    PendingMetrics,
    ToolOutcomes,
    figures_of,
)
from signoff.core.base.durations import coarse
from signoff.core.cards.card import one_line
from signoff.core.directory.queues import QUEUE

LOOKED: Final = 1_000
"""The most requests that the metrics cover, the latest ended first."""

ROWS: Final = 40
"""How many rows of tools and weeks are shown."""

OUTCOMES: Final = {
    State.APPROVED: "Approved",
    State.REJECTED: "Rejected",
    State.TIMED_OUT: "Timed out",
    State.WITHDRAWN: "Withdrawn",
    State.SUPERSEDED: "Superseded",
}

_WIDTH: Final = 320
_ROW: Final = 40
_LONGEST: Final = 44


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a bar, in units of the drawing."""

    kind: str
    x: float
    y: int
    width: float
    height: int


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of a chart: a label above one bar, or above two thin ones."""

    label: str
    y: int
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Horizontal bars, to be drawn as SVG; a table beside them has the same figures.

    Attributes:
        id: The id of the element.
        title: What it shows.
        about: How to read it.
        bars: The rows.
        legend: What the kinds of segments mean.
    """

    id: str
    title: str
    about: str
    bars: tuple[Bar, ...]
    legend: tuple[tuple[str, str], ...] = ()

    @property
    def width(self) -> int:
        """The width of the drawing, in its own units."""
        return _WIDTH

    @property
    def height(self) -> int:
        """The height of the drawing, in its own units."""
        return _ROW * len(self.bars)


class ChartPages(Pages):
    """Shows metrics."""

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        return (("GET", "/charts", self.charts),)

    async def charts(self, request: Request) -> Response:
        """Show the metrics of a person's queues, or of everything if they see all approvals."""
        visit = await self._auth.of(request)
        person, ledger = visit.person, self._decisions.ledger
        queues = queues_seen(person, self._decisions.directory)
        # Of all approvals, only those that are due next are read, for any number of queues.
        waiting, now = await summaries(ledger, [ALL, *queues] if person.sees_all else queues)
        waiting = [one for one in waiting if one.name != ALL]
        ended = await ledger.decided(limit=LOOKED) if queues or person.sees_all else []
        found = figures_of(ended, queues=None if person.sees_all else queues)
        return visit.page(
            "charts",
            here="/charts",
            nothing=not (queues or person.sees_all),
            looked=len(ended),
            most=LOOKED,
            figures=found,
            since=When.of(found.since, now, self._decisions.directory.zone_of(person.id)),
            waiting=waiting,
            took=[(_called(one.name), one, coarse(one.p50), coarse(one.p90)) for one in found.took],
            came=found.came[:ROWS],
            more=max(len(found.came) - ROWS, 0),
            outcomes=OUTCOMES,
            charts=_charts(waiting, found),
        )


def _charts(waiting: Sequence[PendingMetrics], found: Figures) -> dict[str, Chart]:
    """Return the charts that are not empty, by name."""
    charts = (
        Chart(
            "waiting",
            "Pending, by queue",
            "One bar for each queue: the number of pending requests.",
            _bars(
                (_called(one.name), f"{one.waiting:,}", [[("wait", one.waiting)]])
                for one in waiting
            ),
        ),
        Chart(
            "took",
            "Time to decide, by queue",
            "Two bars for each queue: half of the decisions took no longer than the first, nine of "
            "ten no longer than the second.",
            _bars(_times(one) for one in found.took),
            (("p50", "p50"), ("p90", "p90")),
        ),
        Chart(
            "came",
            "Outcomes, by tool and week",
            "One bar for each tool and week: the number of ended requests, by outcome.",
            _bars(_pieces(one) for one in found.came[:ROWS]),
            tuple((state.value, text) for state, text in OUTCOMES.items()),
        ),
    )
    return {one.id: one for one in charts if one.bars}


_Row = tuple[str, str, Sequence[Sequence[tuple[str, float]]]]
"""A label, the figure in words, and the pieces of one bar or of two."""


def _times(one: DecisionTimes) -> _Row:
    text = f"{coarse(one.p50)}, {coarse(one.p90)}"
    return _called(one.name), text, [[("p50", _hours(one.p50))], [("p90", _hours(one.p90))]]


def _pieces(one: ToolOutcomes) -> _Row:
    pieces = [(state.value, float(one.outcomes.get(state, 0))) for state in OUTCOMES]
    return f"{one.week:%d %b}: {one_line(one.tool)}", f"{one.count:,}", [pieces]


def _bars(rows: Iterable[_Row]) -> tuple[Bar, ...]:
    """Return rows as bars, all to one scale."""
    all_ = list(rows)
    most = max((sum(size for _, size in bar) for _, _, bars in all_ for bar in bars), default=0)
    found = []
    for place, (label, text, bars) in enumerate(all_):
        top = place * _ROW
        height = 14 // len(bars)
        segments = []
        for nth, bar in enumerate(bars):
            x = 0.0
            for kind, size in bar:
                width = round(_WIDTH * size / most, 1) if most else 0.0
                if width:
                    segments.append(Segment(kind, x, top + 18 + nth * height, width, height))
                x = round(x + width, 1)
        found.append(Bar(_shortened(label, text), top + 13, tuple(segments)))
    return tuple(found)


def _shortened(label: str, text: str) -> str:
    room = _LONGEST - len(text) - 2
    return f"{label if len(label) <= room else label[: room - 1] + '…'}: {text}"


def _called(name: str) -> str:
    return name.removeprefix(QUEUE) or "no queue"


def _hours(length: timedelta) -> float:
    return length / timedelta(hours=1)
