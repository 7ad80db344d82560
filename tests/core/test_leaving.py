"""Being away, as people write it; and all that is no such thing."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.core.command import Verdict, read_command
from signoff.core.leaving import Leaving, read_leaving

CHRISTMAS, NEW_YEAR = date(2026, 12, 24), date(2027, 1, 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("away until 2026-12-24", Leaving(end=CHRISTMAS)),
        ("Away until 24.12.2026, delegate tom", Leaving(end=CHRISTMAS, delegate="tom")),
        (
            "I'm away from 24 Dec 2026 to 2 Jan 2027; delegate: Tom Berg",
            Leaving(start=CHRISTMAS, end=NEW_YEAR, delegate="Tom Berg"),
        ),
        (
            "Hi,\n\naway until 2026-12-24 delegate tom@example.com.\n\nBest,\nMara",
            Leaving(end=CHRISTMAS, delegate="tom@example.com"),
        ),
        (
            "Ich bin abwesend vom 24.12.2026 bis zum 2.1.2027, Vertretung: Jörg",
            Leaving(start=CHRISTMAS, end=NEW_YEAR, delegate="Jörg"),
        ),
        ("Ausente hasta 24/12/2026", Leaving(end=CHRISTMAS)),
        ("back", Leaving(back=True)),
        ("I'm back!", Leaving(back=True)),
        ("Bin wieder da.\n-- \nMara", Leaving(back=True)),
    ],
)
def test_it_is_read(text: str, said: Leaving) -> None:
    """Days and names as people write them, in several languages; it is neither a yes nor a no."""
    assert read_leaving(text) == said
    assert read_command(text).verdict is Verdict.UNCLEAR


@pytest.mark.parametrize(
    "text",
    [
        "",
        "away",
        "away until",
        "I am away at the moment until 2026-12-24",
        "awayuntil 2026-12-24",
        "away until 2026-12-24\n\nFor urgent matters call +49 30 1234.",
        "Thank you for your mail. I am away until 2026-12-24.",
        "back to you on Monday",
        "get back to me",
        "approve",
        "no, Tom is away until 2026-12-24",
    ],
)
def test_it_is_not_read_into_anything_else(text: str) -> None:
    """Least of all into what programmes answer for those who are away."""
    assert read_leaving(text) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("away until tomorrow", '"tomorrow" is no day'),
        ("away from soon until 2026-12-24", '"soon" is no day'),
        ("away until 2026-12-24, tom", '"2026-12-24, tom" is no day'),
        ("away from 2027-01-02 until 2026-12-24", "before it begins"),
    ],
)
def test_what_is_half_right_is_asked_about(text: str, problem: str) -> None:
    """In words for the person."""
    said = read_leaving(text)
    assert said is not None
    assert problem in said.problem


@given(st.text(max_size=80), st.sampled_from(["", "away until ", "back ", "away from "]))
def test_no_text_makes_it_raise(text: str, head: str) -> None:
    """Whatever people paste."""
    read_leaving(head + text)
