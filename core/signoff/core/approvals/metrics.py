"""Figures: how long decisions take, and what came of what was asked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from math import ceil

from signoff.core.approvals.approval import Approval, State
from signoff.core.base.model import Value


def percentile(values: Collection[timedelta], percent: int) -> timedelta:
    """Return the least of the values that so many percent of them do not exceed (nearest rank).

    It is always one of the values: of two decisions, neither the faster nor the slower is invented.

    Args:
        values: At least one.
        percent: From 1 to 100.

    Raises:
        ValueError: There are no values, or there is no such percentile.
    """
    if not values or not 1 <= percent <= 100:
        raise ValueError(f"there is no {percent}th percentile of {len(values)} values")
    return sorted(values)[ceil(len(values) * percent / 100) - 1]


def week_of(moment: datetime) -> date:
    """Return the Monday of the week of a moment, in UTC."""
    day = moment.astimezone(UTC).date()
    return day - timedelta(days=day.weekday())


class Took(Value):
    """How long people took to decide.

    Attributes:
        name: The queue, or "" for what no queue was asked.
        count: How many decisions.
        p50: Half of them took no longer.
        p90: Nine of ten took no longer.
    """

    name: str
    count: int
    p50: timedelta
    p90: timedelta


class Came(Value):
    """What came of the calls of one tool that ended in one week.

    Attributes:
        tool: The tool.
        week: The Monday of the week (UTC).
        outcomes: How many ended in each state.
    """

    tool: str
    week: date
    outcomes: Mapping[State, int]

    @property
    def count(self) -> int:
        """How many ended."""
        return sum(self.outcomes.values())


class Figures(Value):
    """What can be said of approvals that have ended.

    Attributes:
        count: How many there were.
        since: When the first of them ended (UTC), None where there are none.
        took: How long people took, in each queue.
        came: What came of them, by tool and week: the latest week first, in it the tool with most.
    """

    count: int = 0
    since: datetime | None = None
    took: tuple[Took, ...] = ()
    came: tuple[Came, ...] = ()


def figures_of(ended: Iterable[Approval], *, queues: Collection[str] | None = None) -> Figures:
    """Return the figures of approvals that have ended.

    Args:
        ended: The approvals; what waits is passed over.
        queues: Only what was asked in one of these queues, ``queue:finance``, and of each no other
            queue; None takes everything.
    """
    lengths: defaultdict[str, list[timedelta]] = defaultdict(list)
    outcomes: defaultdict[tuple[str, date], Counter[State]] = defaultdict(Counter)
    ends: list[datetime] = []
    for one in ended:
        names: Sequence[str] = one.queues or ("",)
        if queues is not None:
            names = [name for name in names if name in queues]
        if one.decision is None or not names:
            continue
        ends.append(one.decision.at)
        outcomes[one.call.name, week_of(one.decision.at)][one.state] += 1
        if _by_a_person(one):
            for name in names:
                lengths[name].append(one.decision.at - one.opened_at)
    came = (
        Came(tool=tool, week=week, outcomes=dict(found)) for (tool, week), found in outcomes.items()
    )
    return Figures(
        count=len(ends),
        since=min(ends, default=None),
        took=tuple(
            Took(name=name, count=len(all_), p50=percentile(all_, 50), p90=percentile(all_, 90))
            for name, all_ in sorted(lengths.items())
        ),
        came=tuple(sorted(came, key=lambda one: (-one.week.toordinal(), -one.count, one.tool))),
    )


def _by_a_person(one: Approval) -> bool:
    """Say whether somebody decided it when it was asked: no deadline, no requester, no grant."""
    decision = one.decision
    answered = one.state in {State.APPROVED, State.REJECTED}
    return decision is not None and answered and bool(decision.by) and not decision.grant
