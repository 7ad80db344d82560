"""Cards with every part at its maximum: Slack can post, update and close them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import NOON, ask, make_approval, people
from channels.slack.limits import faults_of
from channels.slack.test_cards import dumped, message
from signoff.channels.form_fields import Field, Input
from signoff.channels.pipeline.bundles import MOST
from signoff.channels.pipeline.port import Entry
from signoff.channels.pipeline.port import Kind as Message_
from signoff.channels.slack.form import fits
from signoff.channels.slack.outbound import blocks, views
from signoff.channels.slack.outbound.rows import fits_modal, is_whole
from signoff.channels.slack.references import Reference
from signoff.channels.slack.text import clip
from signoff.core.base.text import LONGEST_REASON
from signoff.core.cards.card import Card, Offer, Remark, Row, card

CHARS = ["x", "&", "<", "é", "審", "👍", "\u202e", " ", "\n", "`", "<!channel> ", "line\n"]
"""Letters of one to four bytes, entities, markup, and lines."""


def texts(most: int, *, least: int = 0) -> st.SearchStrategy[str]:
    """Draw texts, mostly as long as possible."""
    lengths = st.sampled_from([most, most, most // 2]) | st.integers(least, most)
    return st.builds(
        lambda char, length: (char * length)[: max(length, least)],
        st.sampled_from(CHARS),
        lengths,
    )


@st.composite
def cards(draw: st.DrawFn) -> Card:
    """Draw a card whose parts are as long as its makers allow, in each state."""
    small = draw(st.booleans())
    value = 120 if small else 3_500
    rows = st.builds(Row, name=texts(20 if small else 200, least=1), value=texts(value))
    remarks = st.builds(Remark, who=texts(160), at=st.just(NOON), text=texts(600))
    basis = card(ask(make_approval(), within=timedelta(days=1)), people())
    update: dict[str, Any] = {
        "title": draw(texts(181, least=1)),
        "rows": tuple(draw(st.lists(rows, max_size=30))),
        "hint": draw(texts(300 if small else 4_000)),
        "said": draw(texts(2_000)),
        "request": draw(texts(500)),
        "requester": draw(texts(300, least=1)),
        "warnings": tuple(draw(st.lists(texts(200, least=1), max_size=6))),
        "comments": tuple(draw(st.lists(remarks, max_size=10))),
        "fields": tuple(Row(name=draw(texts(60, least=1)), value="") for _ in range(20)),
        "claimed": draw(texts(200)),
        "claimed_until": NOON,
        "level": draw(texts(200)),
        # Names of the directory, and our own words.
        "escalated": "E" * draw(st.integers(0, 600)),
        "progress": "P" * draw(st.integers(0, 2_000)),
        "awaited": "A" * draw(st.integers(0, 2_000)),
        "similar": "S" * draw(st.integers(0, 300)),
        "in_two_steps": draw(st.booleans()),
        "risky": draw(st.booleans()),
        "asks_back": True,
        "extends": True,
        "claims": True,
        "offer": Offer(who=("mara",), spans=("1h",), example="x", terms=draw(texts(500))),
    }
    return basis.model_copy(update=update)


@given(cards(), texts(300), texts(2 * LONGEST_REASON + 3_000), st.booleans())
def test_largest_cards_are_posted_updated_and_closed(
    shown: Card, headline: str, text: str, good: bool
) -> None:
    """In every state, with everything at its maximum, Slack takes the message."""
    group = {"person": "#C012AB3CD+S012AB3CD", "address": "C012AB3CD+S012AB3CD"}
    about: dict[str, Any] = {"card": shown, "link": "https://approvals.example.com/" + "x" * 300}
    approval = ask(make_approval(), within=timedelta(days=1))
    for to in ({}, group):
        open_ = message(approval, **about, **to)
        ended = message(
            approval,
            **about,
            **to,
            kind=Message_.OUTCOME,
            headline=headline,
            text=text,
            good=good,
        )
        _, posted = blocks.opening(open_)
        assert faults_of(dumped(posted)) == []
        assert faults_of(dumped(blocks.outcome_blocks(ended))) == []
        assert faults_of(dumped(blocks.notice_blocks(ended))) == []
        assert len(json.dumps(blocks.metadata(open_))) < 3_000


@pytest.mark.parametrize("char", CHARS)
@pytest.mark.parametrize("value", [40, 110, 140, 3_500])
def test_all_parts_at_their_maximum_at_once(char: str, value: int) -> None:
    """Also if every letter of every text takes as much room as it can."""
    approval = ask(make_approval(), within=timedelta(days=1))

    def long(most: int) -> str:
        return (char * most)[:most]

    update: dict[str, Any] = {
        "title": long(181),
        "rows": tuple(Row(name=long(20), value=long(value)) for _ in range(20)),
        "hint": long(600),
        "said": long(2_000),
        "request": long(500),
        "requester": long(300),
        "warnings": tuple(long(200) for _ in range(6)),
        "comments": tuple(Remark(who=long(160), at=NOON, text=long(600)) for _ in range(10)),
        "fields": tuple(Row(name=long(60), value="") for _ in range(20)),
        "claimed": long(200),
        "claimed_until": NOON,
        "level": long(200),
        **{name: long(600) for name in ("escalated", "progress", "awaited", "similar")},
        "in_two_steps": True,
    }
    shown = card(approval, people()).model_copy(update=update)
    sent = message(approval, card=shown, person="#C0+S0", address="C0+S0", link="https://x.example")
    assert faults_of(dumped(blocks.opening(sent)[1])) == []
    ended = message(
        approval, card=shown, kind=Message_.OUTCOME, headline=long(300), text=long(9_000)
    )
    assert faults_of(dumped(blocks.outcome_blocks(ended))) == []


@given(cards(), texts(LONGEST_REASON).map(lambda text: clip(text, LONGEST_REASON)))
def test_largest_modals_are_opened_and_confirmed(shown: Card, reason: str) -> None:
    """Each modal of such a card is within the limits, also if it asks for a confirmation."""
    about = Reference(
        approval=shown.approval, digest="0" * 12, to="m" * 64, copy_of="D" * 20 + "/1.2"
    )
    for view in (
        views.approve_view(shown, about, [], may_grant=True),
        views.approve_view(shown, about, [], confirm=views.Confirmation("p" * 500, reason)),
        views.reject_view(shown, about),
        views.ask_view(shown, about),
        views.details_view(shown),
        views.requests_view([(shown, reason)] * 25, more=True),
    ):
        assert faults_of(view.to_dict()["blocks"], modal=True) == []
        assert len(view.private_metadata or "") <= 3_000


@pytest.mark.parametrize("value", ["x" * 285_000, "審" * 100_000, "&" * 250_000])
@pytest.mark.parametrize("many", [1, 3])
def test_details_of_any_length_are_opened(value: str, many: int) -> None:
    """A call that has no room in a modal is cut there, also if it is short in blocks."""
    approval = ask(make_approval(), within=timedelta(days=1))
    rows = [Row(name="first", value="here"), Row(name="memo", value=value)]
    rows += (Row(name=f"more{at}", value="y" * 30_000) for at in range(many))
    shown = card(approval, people()).model_copy(update={"rows": tuple(rows), "in_two_steps": True})
    about = Reference(approval=approval.id, digest="0" * 12)
    for view in (views.details_view(shown), views.approve_view(shown, about, [])):
        blocks_ = view.to_dict()["blocks"]
        assert faults_of(blocks_, modal=True) == []
        assert "too long for Slack" in json.dumps(blocks_)
        assert "here" in json.dumps(blocks_)


@given(st.lists(texts(181, least=1), min_size=1, max_size=MOST), texts(300))
def test_largest_bundles_are_posted(titles: list[str], requester: str) -> None:
    """The most requests with the longest titles are one message."""
    link = "https://approvals.example.com/" + "x" * 300
    for at in (NOON, None):
        entries = tuple(_entry(title, requester, at, link) for title in titles)
        approval = ask(make_approval(), within=timedelta(days=1))
        sent = message(
            approval, kind=Message_.BUNDLE, headline="h" * 60, text="t" * 300, entries=entries
        )
        assert faults_of(dumped(blocks.opening(sent)[1])) == []
        ended = tuple(
            Entry(title, requester, at, link, outcome="Approved by " + requester)
            for title in titles
        )
        sent = message(
            approval, kind=Message_.BUNDLE, headline="h" * 60, text="t" * 300, entries=ended
        )
        assert faults_of(dumped(blocks.opening(sent)[1])) == []


def _entry(title: str, requester: str, at: datetime | None, link: str) -> Entry:
    return Entry(title=title, requester=requester, deadline=at, link=link)


@given(
    st.lists(
        st.builds(
            Field,
            name=texts(200, least=1),
            input=st.just(Input.TEXT),
            start=st.just(""),
            required=st.booleans(),
            note=texts(2_000),
            first=texts(3_000),
        ),
        max_size=90,
    ),
    cards(),
)
def test_a_form_that_fits_is_opened(wanted: list[Field], shown: Card) -> None:
    """Where a form is said to fit, Slack opens it, whatever the call is."""
    fields = tuple(Row(name=one.name, value="", note=one.note) for one in wanted)
    shown = shown.model_copy(update={"fields": fields})
    if not fits(wanted) or not fits_modal(shown):
        return
    about = Reference(approval=shown.approval, digest="0" * 12, to="mara")
    view = views.approve_view(shown, about, wanted)
    assert faults_of(view.to_dict()["blocks"], modal=True) == []


def test_a_card_with_all_parts_says_what_matters() -> None:
    """The call, the warnings and the outcome are never cut to make room for comments."""
    rows = tuple(Row(name=f"name{at}", value=f"{at:03}" * 40) for at in range(20))
    comments = tuple(Remark(who="Mara", at=NOON, text=f"{at}" * 600) for at in range(10))
    basis = card(ask(make_approval(), within=timedelta(days=1)), people())
    shown = basis.model_copy(
        update={"rows": rows, "comments": comments, "said": "s" * 400, "warnings": ("Careful.",)}
    )
    assert is_whole(shown)
    approval = ask(make_approval(), within=timedelta(days=1))
    opened = json.dumps(dumped(blocks.opening(message(approval, card=shown))[1]))
    ended = message(approval, card=shown, kind=Message_.OUTCOME, headline="No.", text="w" * 2_000)
    closed = json.dumps(dumped(blocks.outcome_blocks(ended)))
    for said in (opened, closed):
        assert all(row.value in said for row in rows)
        assert "Careful." in said
        assert "9" * 600 in said
    assert "w" * 2_000 in closed
