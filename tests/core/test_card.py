"""What a card shows to a person."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from builders import MARA, NOON, ask, make_approval, make_call, make_origin, people
from signoff.core.approvals.approval import Approval, Handoff
from signoff.core.base.freezes import Freeze
from signoff.core.base.shown_text import shortened
from signoff.core.cards.card import Row, card, have_same_card, one_line, shown

NASTY = st.text(
    st.characters()
    | st.characters(categories=("Cc", "Cf", "Co", "Cs", "Zl", "Zp"))
    | st.sampled_from("\u202e\u2066\u200b\u3164\u2800\u0000\u001b\n\t"),
    max_size=40,
)
NEEDED = (
    "\u200b\u200c\u200d\u061c\u200e\u200f\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2"
)


def is_emoji(char: str) -> bool:
    """Return whether it may be an emoji that this Python does not know, or a part of a flag."""
    return "\U0001f000" <= char <= "\U0001faff" or "\U000e0020" <= char <= "\U000e007f"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | NASTY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NASTY, inner, max_size=3),
    max_leaves=6,
)


@given(VALUES)
def test_card_contains_no_control_or_format_characters(value: JsonValue) -> None:
    """No control, format or private character gets onto a card, at any depth of nesting.

    Joiners and direction marks stay where ordinary text needs them: see test_showing.
    """
    for char in shown(value):
        assert char in "\n\t" + NEEDED or unicodedata.category(char)[0] != "C" or is_emoji(char)
        assert unicodedata.bidirectional(char) not in {"RLO", "LRO", "RLE", "LRE", "RLI", "LRI"}


@given(NASTY)
def test_subject_and_title_are_one_line(text: str) -> None:
    """No character breaks a subject or a title into two lines."""
    line = one_line(text)
    assert line.splitlines() in ([], [line])
    line.encode()


@given(NASTY, NASTY)
def test_different_text_with_invisible_parts_looks_different(one: str, other: str) -> None:
    """Texts that differ only in invisible characters look different on the card."""
    plain = [text for text in (one, other) if "\\" not in text]
    if len(plain) == 2 and one != other:
        assert shown(one) != shown(other)


def test_direction_override_is_written_as_an_escape() -> None:
    """A direction override cannot make a file name look like another."""
    assert shown("photo\u202egpj.exe") == "photo\\u202egpj.exe"
    assert shown("\U000e0041") == "\\U000e0041"


def test_card_keeps_long_text_complete() -> None:
    """The end of a long text stays on the card; a channel with less room says so."""
    assert shown("x" * 100_500) == "x" * 100_500
    assert shortened("x" * 10_500, 10_000).endswith("x … and 500 more characters")
    assert shortened("x" * 10_001, 10_000).endswith("x … and 1 more character")


def test_card_rows_are_the_arguments_in_order() -> None:
    """Each argument has a row; a value that is not text is shown as JSON."""
    approval = make_approval(
        call=make_call("pay", to="ACME", lines=[1, {"a": None}], ok=True, big=2**63)
    )
    assert card(approval, people()).rows == (
        Row(name="to", value="ACME"),
        Row(name="lines", value='[1, {"a": null}]'),
        Row(name="ok", value="true"),
        Row(name="big", value="9223372036854775808"),
    )


def test_the_card_names_people_and_the_policy() -> None:
    """A known requester is shown by name, and an unknown one by their ADK id."""
    approval = ask(make_approval(hint="conference fees"))
    shown_card = card(approval, people())
    assert shown_card.requester == "Riley Voss"
    assert shown_card.policy == "expenses"
    assert shown_card.deadline == approval.deadline
    assert shown_card.title == (
        "reimbursement_agent asks to run reimburse: amount 2500, purpose conference"
    )
    assert shown_card.hint == "conference fees"
    assert shown_card.digest == approval.digest
    stranger = make_approval(origin=make_origin(user="u\n77", agent=""))
    assert card(stranger, people()).requester == "u 77"
    assert card(stranger, people()).call == "finance asks to run reimburse"


def test_adk_hint_is_left_out_of_the_card() -> None:
    """The standard hint of ADK is left out, because it does not help a manager."""
    hint = "Please approve … with an expected ToolConfirmation payload."
    assert card(make_approval(hint=hint), people()).hint == ""


@pytest.mark.parametrize(
    ("template", "fields"),
    [
        (None, ()),
        ({}, ()),
        (
            {"approved_days": 0, "note": ""},
            (Row(name="approved_days", value="0"), Row(name="note", value="")),
        ),
        (0, (Row(name="value", value="0"),)),
        ([1], (Row(name="value", value="[1]"),)),
    ],
)
def test_fields_to_fill(template: JsonValue, fields: tuple[Row, ...]) -> None:
    """Each value that an approval needs is a field on its card."""
    assert card(make_approval(template=template), people()).fields == fields


def decided() -> Approval:
    """Return an approval that Mara has given, and that the agent has not started."""
    approved, _ = ask(make_approval()).approve(MARA, people(), channel="email", now=NOON)
    return approved


@pytest.mark.parametrize("was", [ask(make_approval()), decided()], ids=["pending", "approved"])
def test_the_progress_of_the_call_is_not_on_the_card(was: Approval) -> None:
    """A card is used again after the result of the call, and is the one that would be made."""
    card(was, people())
    update = {"handoff": Handoff.RESUMED, "result": "paid", "reported": True, "starts": 1}
    later = was.model_copy(update={**update, "version": was.version + 1}, deep=True)
    assert have_same_card(was, later, people())
    assert card(was, people()) == card(later, people())


def test_any_other_change_makes_a_new_card() -> None:
    """Only the fields about the progress of the call are left out of the comparison."""
    was = decided()
    for name in Approval.model_fields.keys() - {
        "handoff",
        "result",
        "reported",
        "starts",
        "version",
    }:
        assert not have_same_card(was, was.model_copy(update={name: object()}), people()), name


def test_a_card_that_may_warn_of_a_freeze_is_made_again() -> None:
    """The warning ends when the call starts, which changes only the progress of the call."""
    frozen = people().with_freezes((Freeze(id="f", by="ops", why="the bank called", at=NOON),))
    was = decided()
    started = was.model_copy(update={"handoff": Handoff.STARTED})
    assert card(was, frozen).warnings
    assert not card(started, frozen).warnings
    assert not have_same_card(was, started, frozen)
