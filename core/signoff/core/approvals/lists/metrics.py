"""Metrics of approvals: what is pending and for whom, how long decisions take, and results."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from math import ceil
from typing import Self

from signoff.core.approvals.approval import Approval, State
from signoff.core.base.model import Value


class ClaimedApproval(Value):
    """An approval that somebody has claimed.

    Attributes:
        id: The approval.
        by: The id of the person.
        until: When the claim ends (UTC).
    """

    id: str
    by: str
    until: datetime


class PendingMetrics(Value):
    """Metrics of the pending approvals of one queue, of one person, or of all.

    Attributes:
        name: ``queue:finance``, the id of a person, or ``all``.
        waiting: How many approvals are pending.
        oldest: When the oldest of them was opened (UTC), None if there is none.
        next_due: The next deadline (UTC), None if there is none.
        overdue: How many stay open after their deadlines.
        on: The ids of the people who may answer now, sorted by how many they may answer.
        claimed: The claimed approvals; the claim that ends first comes first.
        questions: How many wait for an answer from the requester.
    """

    name: str
    waiting: int = 0
    oldest: datetime | None = None
    next_due: datetime | None = None
    overdue: int = 0
    on: tuple[str, ...] = ()
    claimed: tuple[ClaimedApproval, ...] = ()
    questions: int = 0

    @classmethod
    def of(
        cls,
        name: str,
        waiting: Sequence[Approval],
        *,
        now: datetime,
        approvers: Mapping[str, Collection[str]] | None = None,
    ) -> Self:
        """Summarise pending approvals.

        Args:
            name: The name of the row.
            waiting: The approvals.
            now: The present (UTC).
            approvers: Who may answer now, by the id of the approval, if several rows share it.
        """
        if approvers is None:
            approvers = {one.id: one.approvers for one in waiting}
        late = [one for one in waiting if one.deadline is None or one.is_late(now)]
        ahead = [one.deadline for one in waiting if one.deadline and not one.is_late(now)]
        share = Counter(person for one in waiting for person in approvers[one.id])
        claims = ((one.id, one.claim_at(now)) for one in waiting)
        taken = [
            ClaimedApproval(id=id_, by=claim.by, until=claim.until)
            for id_, claim in claims
            if claim
        ]
        return cls(
            name=name,
            waiting=len(waiting),
            oldest=min((one.opened_at for one in waiting), default=None),
            next_due=min(ahead, default=None),
            overdue=sum(one.terms is not None for one in late),
            on=tuple(sorted(share, key=lambda person: (-share[person], person))),
            claimed=tuple(sorted(taken, key=lambda one: one.until)),
            questions=sum(one.open_question is not None for one in waiting),
        )


def percentile(values: Collection[timedelta], percent: int) -> timedelta:
    """Return the smallest value that at least so many percent do not exceed (nearest rank).

    The result is always one of the values; nothing is interpolated.

    Args:
        values: The values, at least one.
        percent: A number from 1 to 100.

    Raises:
        ValueError: There are no values, or the percentage is out of range.
    """
    if not values or not 1 <= percent <= 100:
        raise ValueError(f"there is no {percent}th percentile of {len(values)} values")
    return sorted(values)[ceil(len(values) * percent / 100) - 1]


def week_of(moment: datetime) -> date:
    """Return the Monday of the week in which a moment is, in UTC."""
    day = moment.astimezone(UTC).date()
    return day - timedelta(days=day.weekday())


class DecisionTimes(Value):
    """How long people took to decide.

    Attributes:
        name: The queue, or "" for approvals without a queue.
        count: The number of decisions.
        p50: The median.
        p90: The 90th percentile.
    """

    name: str
    count: int
    p50: timedelta
    p90: timedelta


class ToolOutcomes(Value):
    """The results of one tool's calls that ended in one week.

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
    """Metrics of approvals that have ended.

    Attributes:
        count: How many have ended.
        since: When the first of them ended (UTC), None if there are none.
        took: How long people took, for each queue.
        came: The results by tool and week: the latest week first, and the most frequent tool first.
    """

    count: int = 0
    since: datetime | None = None
    took: tuple[DecisionTimes, ...] = ()
    came: tuple[ToolOutcomes, ...] = ()


def figures_of(ended: Iterable[Approval], *, queues: Collection[str] | None = None) -> Figures:
    """Return the metrics of approvals that have ended.

    Args:
        ended: The approvals; pending ones are skipped.
        queues: The queues to count, such as ``queue:finance``; None counts all approvals.
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
        ToolOutcomes(tool=tool, week=week, outcomes=dict(found))
        for (tool, week), found in outcomes.items()
    )
    return Figures(
        count=len(ends),
        since=min(ends, default=None),
        took=tuple(
            DecisionTimes(
                name=name, count=len(all_), p50=percentile(all_, 50), p90=percentile(all_, 90)
            )
            for name, all_ in sorted(lengths.items())
        ),
        came=tuple(sorted(came, key=lambda one: (-one.week.toordinal(), -one.count, one.tool))),
    )


def _by_a_person(one: Approval) -> bool:
    """Say whether an approver decided it, and not a deadline, the requester or a grant."""
    decision = one.decision
    answered = one.state in {State.APPROVED, State.REJECTED}
    return decision is not None and answered and bool(decision.by) and not decision.grant
