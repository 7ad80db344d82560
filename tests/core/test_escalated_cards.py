"""Escalated cards say that they are escalated, and reminders repeat."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import ValidationError

from signoff.core.base.durations import Span
from signoff.core.cards.card import named
from signoff.core.policies.policy import Fallback, Policy


def hours(*lengths: int) -> tuple[Span, ...]:
    """Return spans of this many hours each, by the clock."""
    return tuple(Span(timedelta(hours=one)) for one in lengths)


def test_every_four_hours() -> None:
    """The word "every" stands for all its reminders, and a record keeps the same reminders."""
    policy = Policy(name="a", ask=("mara",), remind="every 4h", within="1d")
    assert policy.remind[:3] == hours(4, 8, 12)
    assert len(policy.remind) == 20
    assert Policy.model_validate_json(policy.model_dump_json()).remind == policy.remind


def test_every_two_days_of_work() -> None:
    """An interval in working time repeats in working time."""
    remind = Fallback(ask=("mara",), remind="every 2d business").remind
    assert remind[1] == Span(timedelta(), business=True, days=4)


@pytest.mark.parametrize("text", ["4h", "every", "every soon", "every 0s", "every -4h"])
def test_invalid_interval_error_suggests_a_valid_one(text: str) -> None:
    """The error says what to write instead."""
    with pytest.raises(ValidationError, match=r"write|every|between"):
        Policy(name="a", ask=("mara",), remind=text)


def test_a_year_is_the_most() -> None:
    """Reminders end after the longest allowed time."""
    remind = Policy(name="a", ask=("mara",), remind="every 100d").remind
    assert remind == tuple(Span(timedelta(days=one)) for one in (100, 200, 300))


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], "others"),
        (["A"], "A"),
        (["A", "B"], "A and B"),
        (["A", "B", "C"], "A, B and C"),
        (list("ABCDEFG"), "A, B, C, D, E and 2 more"),
    ],
)
def test_people_are_named_in_a_sentence(names: list[str], sentence: str) -> None:
    """Names are joined as in a normal sentence."""
    assert named(names) == sentence
