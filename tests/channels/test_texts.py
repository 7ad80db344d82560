"""What a message says where there is only text."""

from dataclasses import replace

import pytest

from builders import MARA, NOON, asked_approval, people
from signoff.channels.port import Kind, Message
from signoff.channels.texts import text_of
from signoff.core.card import card


@pytest.fixture
def sent() -> Message:
    """A card for Mara about a call whose template has a field."""
    shown = card(asked_approval(template={"approved_days": 0}, hint="How many?"), people())
    return Message("card:1", Kind.CARD, shown, "mara", MARA.shown, MARA.email, NOON)


def test_a_card_says_all_that_a_decision_needs(sent: Message):
    """What, with which values, for whom, until when, what to fill in, and the digest."""
    assert text_of(sent).splitlines() == [
        "reimbursement_agent asks to run reimburse",
        "amount: 2500",
        "purpose: conference",
        "How many?",
        "Asked for by: Riley Voss",
        "Answer until: Mon 2 Mar 2026, 16:00 UTC",
        "To be filled in: approved_days",
        f"Digest: {sent.card.digest}",
    ]


def test_an_outcome_says_also_what_was_asked(sent: Message):
    """It takes the place of the card."""
    over = replace(sent, kind=Kind.OUTCOME, headline="Recorded: you rejected it", text="Too much.")
    said = text_of(over)
    assert said.startswith("Recorded: you rejected it\nToo much.\n")
    assert "amount: 2500" in said
    assert "Answer until" not in said


def test_a_notice_ends_in_an_example(sent: Message):
    """Nothing of the card is in it, and an answer that would have worked is."""
    notice = replace(sent, kind=Kind.NOTICE, headline="Not clear", text="Why?", example="approve 3")
    assert text_of(notice) == "Not clear\nWhy?\nFor instance: approve 3"
