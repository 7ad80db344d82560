"""Similar decisions, and how much a grant would have covered."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import JsonValue

from builders import MARA, NOON, make_approval, make_call, make_origin, people
from signoff.core.approvals.approval import Approval, Asked, Shown, State
from signoff.core.approvals.lists.similar import Similar, answers, likeness
from signoff.core.base.errors import GrantRefused
from signoff.core.grants.bounds import bounded, limit_of, seen
from signoff.core.grants.grant import Grant
from signoff.core.policies.levels import Verdict
from signoff.core.policies.policy import GrantRules, Terms

RULES = GrantRules(who=("mara",), longest=timedelta(hours=8), vary=("amount", "note"))


def pending(hide: tuple[str, ...] = (), /, **args: JsonValue) -> Approval:
    """Return a reimbursement that Mara is asked about."""
    origin = make_origin(confirmation="adk-2", run="run_2")
    terms = Terms(policy="expenses", ask=("mara",), grants=RULES, hide=hide)
    card = Asked(person="mara", channel="email", address=MARA.email, shown=Shown.COMPLETE)
    made = make_approval(origin=origin, call=make_call("reimburse", **args))
    return made.ask(terms, (card,), now=NOON)[0]


def approved(**args: JsonValue) -> Approval:
    """Return a reimbursement that Mara has approved."""
    return pending(**args).approve(MARA, people(), channel="email", now=NOON)[0]


def test_history_counts_only_decisions_by_people() -> None:
    """Only decisions by people count: no pending, timed-out or granted request."""
    assert answers(pending(amount=1)) == {}
    assert answers(approved(amount=1)) == {"mara": Verdict.APPROVE}
    no = pending(amount=1).reject(MARA, people(), channel="email", now=NOON, reason="no")[0]
    assert answers(no) == {"mara": Verdict.REJECT}
    assert answers(no.model_copy(update={"state": State.TIMED_OUT})) == {}
    assert no.decision is not None
    by_grant = no.decision.model_copy(update={"grant": "gr_1"})
    assert answers(no.model_copy(update={"decision": by_grant})) == {}
    assert likeness(make_approval()) == ()


@pytest.mark.parametrize(
    ("similar", "words"),
    [
        (Similar(), ""),
        (Similar(1, 0), "You decided 1 request like this before: 1 approved."),
        (Similar(0, 2), "You decided 2 requests like this before: 2 rejected."),
        (Similar(11, 1), "You decided 12 requests like this before: 11 approved, 1 rejected."),
    ],
)
def test_history_sentence_omits_zero_counts(similar: Similar, words: str) -> None:
    """A count of zero is left out."""
    assert similar.words == words


def test_suggested_bounds_cover_only_calls_that_a_grant_would_cover() -> None:
    """Rejections, other fixed arguments and other types do not count."""
    here = pending(amount=50, note="taxi", purpose="travel")
    no = pending(amount=400, note="x", purpose="travel")
    no = no.reject(MARA, people(), channel="email", now=NOON, reason="no")[0]
    earlier = [
        approved(amount=20, note="a", purpose="travel"),
        approved(amount=240.5, note="b", purpose="travel"),
        approved(amount=900, note="c", purpose="party"),
        approved(amount="300", note="d", purpose="travel"),
        no,
    ]
    assert seen(here, RULES, earlier) == (2, {"amount": "240.5"})
    assert seen(here, RULES, []) == (0, {"amount": ""})


@pytest.mark.parametrize("amount", [True, "5", -1, None])
def test_only_numbers_from_zero_on_are_bounded(amount: JsonValue) -> None:
    """A bound on other values would be misleading."""
    assert bounded(pending(amount=amount, note="a"), RULES) == ()


def test_hidden_argument_gets_no_suggested_bound() -> None:
    """The form would reveal the largest value."""
    assert bounded(pending(("amount",), amount=5, note="a"), RULES) == ()


@pytest.mark.parametrize("text", ["x", "nan", "inf", "-1", "1 || true"])
def test_a_bound_is_a_number(text: str) -> None:
    """Typed text never becomes part of an expression."""
    with pytest.raises(GrantRefused, match=r"number|bounds nothing"):
        limit_of({"amount": text})


@example([0.1 + 0.2])
@example([100_000_000_000.00002, 999_999_999_999.9999])
@example([2**53 + 1])
@given(st.lists(st.floats(0, 1e12) | st.integers(0, 10**12), min_size=1, max_size=6))
def test_grant_with_suggested_bounds_covers_the_earlier_calls_only(amounts: list[float]) -> None:
    """Each earlier call is within the bounds, and a larger one is not."""
    first, *rest = [approved(amount=one, note="a") for one in amounts]
    most = seen(first, RULES, [first, *rest]).most
    grant, _ = Grant.give(
        max((first, *rest), key=lambda one: float(str(one.call.args["amount"]))),
        by="mara",
        channel="cli",
        now=NOON,
        span=timedelta(hours=1),
        limit=limit_of(most),
    )
    assert [grant.scope.why_not(one) for one in (first, *rest)] == [""] * len(amounts)
    assert grant.scope.why_not(pending(amount=2 * max(amounts) + 1, note="a"))
