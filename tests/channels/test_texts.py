"""Messages in plain text."""

from dataclasses import replace

import pytest

from builders import MARA, NOON, ask, asked_approval, make_approval, make_call, people
from signoff.channels.pipeline.port import Kind, Message
from signoff.channels.text_channel import shown_in, text_of
from signoff.core.approvals.parts import Shown
from signoff.core.cards.card import card


@pytest.fixture
def sent() -> Message:
    """Return a card for Mara about a call whose template has a field."""
    shown = card(asked_approval(template={"approved_days": 0}, hint="How many?"), people())
    return Message("card:1", Kind.CARD, shown, "mara", MARA.shown, MARA.email, NOON)


def test_card_text_has_all_facts_for_a_decision(sent: Message) -> None:
    """Call, values, requester, deadline, fields and digest are in it."""
    assert text_of(sent).splitlines() == [
        "reimbursement_agent asks to run reimburse: amount 2500, purpose conference",
        "amount: 2500",
        "purpose: conference",
        "How many?",
        "Requested by: Riley Voss",
        "Answer until: Mon 2 Mar 2026, 16:00 UTC",
        "To be filled in: approved_days",
        f"Digest: {sent.card.digest}",
    ]


def test_further_lines_of_others_are_marked(sent: Message) -> None:
    """An argument cannot add another argument, a requester or a digest to the text."""
    forged = "lunch\namount: 5\nRequested by: Cleo Roth\nDigest: sha256:00"
    call = make_call("pay", why=forged, amount=9_999)
    shape = card(ask(make_approval(call=call, hint=forged)), people())
    for kind in (Kind.CARD, Kind.OUTCOME):
        lines = text_of(replace(sent, kind=kind, card=shape)).splitlines()
        assert "amount: 9999" in lines
        assert "Requested by: Riley Voss" in lines
        assert not {"amount: 5", "Requested by: Cleo Roth", "Digest: sha256:00"} & {*lines}


def test_outcome_text_includes_the_request(sent: Message) -> None:
    """The outcome replaces the card."""
    over = replace(sent, kind=Kind.OUTCOME, headline="Recorded: you rejected it", text="Too much.")
    said = text_of(over)
    assert said.startswith("Recorded: you rejected it\nToo much.\n")
    assert "amount: 2500" in said
    assert "Answer until" not in said


def test_a_notice_ends_in_an_example(sent: Message) -> None:
    """It has no part of the card, but an answer that would have worked."""
    notice = replace(sent, kind=Kind.NOTICE, headline="Not clear", text="Why?", example="approve 3")
    assert text_of(notice) == "Not clear\nWhy?\nFor instance: approve 3"


def test_shortened_text_links_to_the_whole_call_and_cannot_approve(sent: Message) -> None:
    """All arguments begin, the length is kept, and an approval there does not count."""
    call = make_call("wire", memo="x" * 50_000, to="ACME", why="y" * 9_000)
    shape = card(ask(make_approval(call=call)), people())
    long = replace(sent, card=shape, link="https://approvals.example.com/inbox/approvals/ap_1")
    text = text_of(long, most=3_000)
    assert len(text) <= 3_000
    assert "to: ACME" in text
    assert "memo: xxx" in text
    assert "why: yyy" in text
    assert text.endswith(
        "approve it on its page: https://approvals.example.com/inbox/approvals/ap_1"
    )
    assert shown_in(long, 3_000) is Shown.CUT
    assert shown_in(long, 100_000) is Shown.COMPLETE
    assert text_of(long, most=100_000) == text_of(long)


def test_card_text_shows_the_default_of_each_field(sent: Message) -> None:
    """An approval without a value accepts it."""
    shape = card(asked_approval(template={"days": 0, "paid": True, "to": "ACME"}), people())
    assert "To be filled in: days, paid (it starts as true), to (it starts as ACME)" in text_of(
        replace(sent, card=shape)
    )


@pytest.mark.parametrize("most", [20, 90, 150, 400])
def test_a_small_limit_is_kept(sent: Message, most: int) -> None:
    """The text is never longer than the channel takes, even if the link alone would be."""
    long = replace(sent, link="https://approvals.example.com/inbox/approvals/ap_1")
    assert len(text_of(long, most=most)) <= most
