"""What is read as "calls like it too", and what is not."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.core.beforehand import EXAMPLE, read_revocation, read_wish

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "span", "uses"),
    [
        (EXAMPLE, 4 * HOUR, None),
        ("Approve this and calls like it for 4 hours.", 4 * HOUR, None),
        ("approve, and calls like it for 4h", 4 * HOUR, None),
        ("Hi Anna,\n\nyes and similar calls for 30 minutes, at most 5 times\n\nTom", HOUR / 2, 5),
        ("ok and requests like this for 1 day up to 3", 24 * HOUR, 3),
        ("Genehmigt, und ähnliche Aufrufe für 4 Stunden", 4 * HOUR, None),
        ("genehmige und aehnliche Anfragen fuer 2 Tage, höchstens 10 Mal", 48 * HOUR, 10),
        ("Ja und Aufrufe wie diesen für 1 Stunde", HOUR, None),
        ("approve and calls like it for 1h30m", 1.5 * HOUR, None),
    ],
)
def test_what_is_said_is_read(text: str, span: timedelta, uses: int | None) -> None:
    """In English and in German, with a greeting above and a name below."""
    wish = read_wish(text)
    assert wish is not None
    assert (wish.problem, wish.span, wish.uses) == ("", span, uses)


@pytest.mark.parametrize(
    "text",
    [
        "ok for 3 days",
        "approve for 4 hours",
        "approve 3",
        "approve",
        "approve: fine for the conference",
        "reject and calls like it for 4 hours",
        "no, similar calls were rejected",
        "I'd rather not approve and calls like it for 4 hours",
        "approved for 4 hours and 10 minutes",
        "claim 4h",
        "",
        "and calls like it for 4 hours",
    ],
)
def test_everything_else_is_read_as_ever(text: str) -> None:
    """Above all "ok for 3 days", which may mean that many days off."""
    assert read_wish(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "approve and calls like it",
        "approve and calls like it for a while",
        "approve and calls like it for 4",
        "approve and calls like it for 4 hours if he agrees",
        "approve and calls like it for 4 hours at most",
        "approve and calls like it for -4 hours",
        "approve and calls like it for 4 weeks or so",
        "approve and calls like it for 99999 hours",
        "approve and calls like it until Friday",
        "approve this, not calls like it for 4 hours",
        "approve and not similar calls for 4 hours",
        "yes: and calls like it for 4 hours",
        "genehmigt und ähnliche Aufrufe bis Freitag",
        f"{EXAMPLE}\n\nbut only below 100",
        f"{EXAMPLE}\nno, wait",
        f"{EXAMPLE}\n\nreject",
    ],
)
def test_what_speaks_of_other_calls_in_another_form_is_asked_about(text: str) -> None:
    """Nothing is decided by it, not even the one call: who says so means more than that."""
    wish = read_wish(text)
    assert wish is not None
    assert wish.problem


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_text_makes_it_raise_and_nothing_may_stand_beside(before: str, after: str) -> None:
    """A word more on the line is never read over."""
    read_wish(before + after)
    wish = read_wish(f"{EXAMPLE} x{after}")
    assert wish is None or wish.problem


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("revoke", ""),
        ("Hi,\n\n*Revoke it.*\nthe conference is over", "the conference is over"),
        ("Widerruf: die Tagung ist vorbei", "die Tagung ist vorbei"),
        ("revoke my last mail", None),
        ("please do not revoke", None),
        ("thanks\nrevoke", None),
        ("", None),
    ],
)
def test_what_takes_a_grant_back(text: str, reason: str | None) -> None:
    """The word alone on the first line, with a reason or without one."""
    assert read_revocation(text) == reason
