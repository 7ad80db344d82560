"""The reason beside an approval: what reads like a condition, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.core.replies.reading import read_reply
from signoff.core.replies.remark import contradiction
from signoff.core.replies.reply import Approve

HERE = Path(__file__).parent / "remarks"
HARMLESS = (HERE / "harmless.txt").read_text("utf-8").splitlines()
CONTRADICTING = (HERE / "contradicting.txt").read_text("utf-8").splitlines()


@pytest.mark.parametrize("reason", HARMLESS)
def test_everyday_reason_approves(reason: str) -> None:
    """A reason is free prose, so words that are not known do not make it doubtful."""
    assert not contradiction(reason)


@pytest.mark.parametrize("reason", CONTRADICTING)
def test_condition_a_limit_or_a_no_is_found(reason: str) -> None:
    """Each of these says that the call should not run as it is, in one of ten languages."""
    assert contradiction(reason)


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("above", ["thanks", "Danke", "see ticket 42", "ok", "grazie"])
def test_harmless_line_above_hides_nothing(above: str, every: int) -> None:
    """A courtesy or a reference on a line of its own does not make the rest harmless."""
    reasons = CONTRADICTING[::every]
    assert [one for one in reasons if not contradiction(f"{above}\n{one}")] == []


@pytest.mark.parametrize("every", [25, pytest.param(1, marks=pytest.mark.soak)])
def test_remark_in_a_reply_is_read_like_a_reason(every: int) -> None:
    """A remark below a yes says the same as a reason beside a button, so it is asked back too."""
    texts = (f"approve\nnote: {reason}" for reason in CONTRADICTING[::every])
    assert [text for text in texts if isinstance(read_reply(text), Approve)] == []


def test_most_reasons_that_were_not_seen_before_are_read_as_meant() -> None:
    """Reasons that were written after the lexicon are mostly found, and few others are asked back.

    Do not add words for them: they would no longer show how well other reasons are read.
    """
    contradicting, harmless = (
        (HERE / f"unseen-{kind}.txt").read_text("utf-8").splitlines()
        for kind in ("contradicting", "harmless")
    )
    assert sum(map(bool, map(contradiction, contradicting))) >= 0.75 * len(contradicting)
    assert sum(map(bool, map(contradiction, harmless))) <= 0.2 * len(harmless)


@given(st.text(max_size=200))
def test_any_text_is_read(reason: str) -> None:
    """No text raises, and the result is the same each time."""
    assert contradiction(reason) == contradiction.__wrapped__(reason)


@pytest.mark.parametrize(
    ("reason", "asks"),
    [
        ("ok?", True),
        ("really? ok", True),
        ("大丈夫？", True),
        ("see https://acme.example/invoices?id=5", False),
    ],
)
def test_a_question_mark_asks_unless_it_is_in_an_address(reason: str, asks: bool) -> None:
    """A question beside an approval is asked back; the address of a page is a reference."""
    assert bool(contradiction(reason)) is asks


@pytest.mark.parametrize(
    ("now", "past"),
    [
        ("the wrong size", "we sent the wrong size"),
        ("falsche Größe", "wir haben die falsche Größe geschickt"),
        ("vendredi", "vu avec Paul vendredi"),
    ],
)
def test_what_a_clause_tells_of_the_past_is_harmless(now: str, past: str) -> None:
    """Something wrong in the call contradicts; what was wrong before may be why it is made."""
    assert contradiction(now)
    assert not contradiction(past)


def test_text_too_long_to_read_is_doubtful() -> None:
    """A reason whose end is not read could contradict there."""
    assert contradiction("好 " * 1_600)
    assert contradiction("\u200b\n" + "no " * 9_000)
