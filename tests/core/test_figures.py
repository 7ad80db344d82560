"""Metrics of ended requests: percentiles, and outcomes by tool and week."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import (
    CLEO,
    MARA,
    NOON,
    ask,
    asked_approval,
    make_approval,
    make_call,
    people,
    present,
)
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.lists.metrics import figures_of, percentile, week_of
from signoff.core.policies.levels import Seat

LENGTHS = st.lists(st.timedeltas(timedelta(), timedelta(days=400)), min_size=1, max_size=60)
PERCENTS = st.integers(1, 100)


@given(LENGTHS, PERCENTS)
def test_percentile_is_one_of_the_values(values: list[timedelta], percent: int) -> None:
    """The percentile is one of the values, with enough values up to it and too few below it."""
    found = percentile(values, percent)
    assert found in values
    assert sum(one <= found for one in values) * 100 >= percent * len(values)
    assert sum(one < found for one in values) * 100 < percent * len(values)


@given(LENGTHS, PERCENTS, PERCENTS, st.randoms())
def test_percentiles_rise_and_know_no_order(
    values: list[timedelta], one: int, other: int, random: Random
) -> None:
    """A higher percentile is never smaller, and the order of the values does not matter."""
    low, high = sorted((one, other))
    assert percentile(values, low) <= percentile(values, high)
    assert percentile(values, 100) == max(values)
    mixed = list(values)
    random.shuffle(mixed)
    assert percentile(mixed, one) == percentile(values, one)


@pytest.mark.parametrize(
    ("values", "percent"), [([], 50), ([timedelta()], 0), ([timedelta()], 101)]
)
def test_invalid_percentile_is_refused(values: list[timedelta], percent: int) -> None:
    """Empty lists and percentages outside 1 to 100 are refused."""
    with pytest.raises(ValueError, match="percentile"):
        percentile(values, percent)


@given(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 -- the zone is given beside it
def test_a_week_begins_on_monday(moment: datetime) -> None:
    """The moment is one of the seven days of its week."""
    monday = week_of(moment)
    assert monday.weekday() == 0
    assert 0 <= (moment.date() - monday).days < 7


def decided(
    hours: float, *, tool: str = "reimburse", queue: str = "", yes: bool = True
) -> Approval:
    """Return an approval that Mara decided this many hours after it was opened."""
    approval = ask(make_approval(call=make_call(tool)), within=timedelta(days=60))
    if queue:
        seats = tuple(Seat(person=one.id, via=f"queue:{queue}") for one in (MARA, CLEO))
        approval = approval.model_copy(update={"seats": seats})
    move = approval.approve if yes else approval.reject
    return move(MARA, people(), channel="cli", now=NOON + timedelta(hours=hours))[0]


def test_how_long_people_took() -> None:
    """Durations are grouped by queue, or under no queue; timeouts and grants do not count."""
    late = asked_approval()
    late, _ = late.time_out(now=present(late.deadline))
    granted, _ = decided(1).model_copy(), None
    granted = granted.model_copy(
        update={"decision": present(granted.decision).model_copy(update={"grant": "gr_1"})}
    )
    all_ = [decided(hours, queue="finance") for hours in (1, 2, 3, 40)]
    found = figures_of([*all_, decided(5), late, granted, asked_approval()])
    assert found.count == 7
    assert [(one.name, one.count) for one in found.took] == [("", 1), ("queue:finance", 4)]
    assert (found.took[1].p50, found.took[1].p90) == (timedelta(hours=2), timedelta(hours=40))
    assert found.since == NOON + timedelta(hours=1)


def test_outcomes_are_grouped_by_tool_and_week() -> None:
    """Outcomes are grouped by tool and week, latest first; withdrawn and timed-out ones count."""
    withdrawn, _ = asked_approval().withdraw(by="riley", reason="no", now=NOON)
    found = figures_of(
        [
            withdrawn,
            decided(1),
            decided(2, yes=False),
            decided(3, tool="refund"),
            decided(24 * 7, tool="refund"),
        ]
    )
    assert [(one.tool, one.week.isoformat(), one.outcomes) for one in found.came] == [
        ("refund", "2026-03-09", {State.APPROVED: 1}),
        (
            "reimburse",
            "2026-03-02",
            {State.WITHDRAWN: 1, State.APPROVED: 1, State.REJECTED: 1},
        ),
        ("refund", "2026-03-02", {State.APPROVED: 1}),
    ]


def test_only_some_queues() -> None:
    """A member of a queue gets the metrics of that queue only."""
    all_ = [decided(1, queue="finance"), decided(2, queue="legal"), decided(3)]
    found = figures_of(all_, queues=["queue:finance"])
    assert found.count == 1
    assert [one.name for one in found.took] == ["queue:finance"]
    assert figures_of(all_, queues=[]).count == 0
