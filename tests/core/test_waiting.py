"""A summary of the pending approvals."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from builders import CLEO, MARA, NOON, ask, make_approval, make_origin, people
from signoff.core.approvals import collaboration
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lists.metrics import PendingMetrics
from signoff.core.policies.policy import OnTimeout

HOUR = timedelta(hours=1)


def opened(hours: int, *, number: int = 0) -> Approval:
    """Return an approval opened this many hours after noon, with a deadline of four hours."""
    at = NOON + hours * HOUR
    origin = make_origin(confirmation=f"adk-{number}")
    return ask(make_approval(origin=origin, now=at), now=at)


def test_summary_counts_pending_approvals_by_age_and_approver() -> None:
    """The summary has counts, the oldest, the next due, approvers, claims and questions."""
    first, _ = collaboration.claim(opened(0), MARA, people(), now=NOON, length=3 * HOUR)
    second = ask(make_approval(origin=make_origin(confirmation="adk-1"), now=NOON + HOUR), CLEO)
    second, _ = collaboration.ask_back(second, CLEO, people(), text="why?", now=NOON)
    found = PendingMetrics.of("all", [second, first], now=NOON + 2 * HOUR)
    assert (found.waiting, found.oldest, found.next_due) == (2, NOON, NOON + 4 * HOUR)
    assert (found.on, found.questions, found.overdue) == (("cleo", "mara"), 1, 0)
    assert [(one.id, one.by) for one in found.claimed] == [(first.id, "mara")]
    assert PendingMetrics.of("all", [first], now=NOON + 3 * HOUR).claimed == ()
    assert PendingMetrics.of("none", [], now=NOON) == PendingMetrics(name="none")


def test_overdue_approval_has_no_next_due_time() -> None:
    """Past its deadline it has no next due time, before and after the timer has run."""
    late = ask(make_approval(), on_timeout=OnTimeout.STAY)
    seen, _ = late.time_out(now=NOON + 5 * HOUR)
    for one in (late, seen):
        found = PendingMetrics.of("all", [one], now=NOON + 5 * HOUR)
        assert (found.waiting, found.overdue, found.next_due) == (1, 1, None)


@given(st.lists(st.integers(min_value=0, max_value=48), max_size=8), st.integers(0, 60))
def test_summary_counts_each_pending_approval_once(hours: list[int], later: int) -> None:
    """Each pending approval is counted once, and the due times lie in the future."""
    now = NOON + later * HOUR
    waiting = [opened(hour, number=at) for at, hour in enumerate(hours)]
    found = PendingMetrics.of("all", waiting, now=now)
    assert found.waiting == len(hours)
    assert found.next_due is None or found.next_due > now
    assert found.overdue == sum(one.is_late(now) for one in waiting)
