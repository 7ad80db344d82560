"""Messages to Slack: within Slack's limits, and never read as markup."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue
from slackblocks.blocks import Block as SlackBlock
from slackblocks.objects import ConfirmationDialogue, Option

from builders import NOON, ask, make_approval, make_call, people
from channels.slack.limits import faults_of, units
from signoff.channels.form_fields import fields
from signoff.channels.pipeline.port import Kind as Message_
from signoff.channels.pipeline.port import Message
from signoff.channels.slack.outbound import blocks, views
from signoff.channels.slack.references import Reference
from signoff.channels.slack.text import clip, escape, pieces
from signoff.core.approvals.approval import Approval, Kind
from signoff.core.cards.card import card
from signoff.core.payloads.digest import short_digest
from signoff.core.policies.policy import Risk

TEXT = st.one_of(
    st.text(max_size=200),
    st.sampled_from(
        [
            "<!channel> <@U123> <https://evil.example|bank>",
            "*bold* _it_ `x` ~no~ :tada: &lt;",
            "\u202egpj.exe",
            "مرحبا بالعالم",
            "👍🏽" * 100,
            "x" * 4_000,
            "a\nb\n" * 800,
            "&" * 3_000,
            "",
        ]
    ),
)
NAMES = st.text(min_size=1, max_size=300)
VALUES = st.recursive(
    st.one_of(TEXT, st.integers(-(2**53), 2**53), st.booleans(), st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(NAMES, VALUES, max_size=12)
TEMPLATES = st.one_of(st.none(), st.dictionaries(NAMES, VALUES, max_size=6), VALUES)


@st.composite
def approvals(draw: st.DrawFn) -> Approval:
    """Draw an approval with arguments, hint and template of any kind."""
    call = make_call(draw(st.text(min_size=1, max_size=100))).model_copy(
        update={"args": draw(ARGUMENTS)}
    )
    made = make_approval(call=call, hint=draw(TEXT), template=draw(TEMPLATES))
    return ask(made, within=timedelta(days=1))


def message(approval: Approval, **parts: Any) -> Message:
    """Return its card as a message to Mara."""
    usual: dict[str, Any] = {
        "id": "card:1",
        "kind": Message_.CARD,
        "card": card(approval, people()),
        "person": "mara",
        "name": "Mara",
        "address": "U0MARA",
        "at": NOON,
    }
    return Message(**(usual | parts))


def dumped(made: list[Any]) -> list[dict[str, Any]]:
    """Return blocks as slack-sdk sends them, validated."""
    return [block.to_dict() for block in made]


def others_accept(made: list[dict[str, Any]]) -> None:
    """Check these blocks with slackblocks, which supports some of them."""
    for block in made:
        if block["type"] in {"section", "header", "context", "divider"}:
            SlackBlock.from_dict(block)
        for part in (*block.get("elements", ()), block.get("element") or {}):
            if "confirm" in part:
                ConfirmationDialogue.from_dict(part["confirm"])
            for option in part.get("options", ()):
                Option.from_dict(option)


@given(approvals(), st.text(max_size=3_000), st.booleans())
def test_everything_fits(approval: Approval, text: str, good: bool) -> None:
    """For any call, the card, its end, its modals and notices are within the limits."""
    shown = card(approval, people())
    about = Reference(approval=approval.id, digest=short_digest(approval.digest), to="mara")
    ended = message(approval, kind=Message_.OUTCOME, headline=text, text=text, good=good)
    link, group = "https://approvals.example.com/x", "C012AB3CD+S012AB3CD"
    sent = message(approval, link=link, address=group)
    in_a_place = message(approval, person=f"#{group}")
    for made in (
        blocks.card_blocks(sent),
        blocks.card_blocks(in_a_place),
        blocks.notice_blocks(message(approval, kind=Message_.QUESTION, headline=text, text=text)),
        blocks.outcome_blocks(ended),
        blocks.notice_blocks(ended),
    ):
        assert faults_of(dumped(made)) == []
        others_accept(dumped(made))
    assert units(blocks.summary(sent)) <= 300
    for view in (
        views.approve_view(shown, about, fields(approval)),
        views.reject_view(shown, about),
        views.details_view(shown),
        views.comment_view(shown, about),
        views.reassign_view(shown, about),
        views.extend_view(shown, about, "365d23h59m59s999ms"),
        views.withdraw_view(shown, about),
        views.answer_view(shown, about, text),
        views.requests_view([(shown, text)] * 25, more=True),
        views.requests_view([]),
    ):
        sent_view = view.to_dict()
        assert faults_of(sent_view["blocks"], modal=True) == []
        others_accept(sent_view["blocks"])
        assert len(sent_view["title"]["text"]) <= 24
        assert len(sent_view.get("private_metadata") or "") <= 3_000


@pytest.mark.parametrize("kind", ["string", "integer", "array", "object", "boolean"])
def test_eighty_fields_fit(kind: str) -> None:
    """A long form is not cut within a field."""
    properties: dict[str, JsonValue] = {f"field_{n}": {"type": kind} for n in range(95)}
    schema: JsonValue = {
        "type": "object",
        "properties": properties,
        "required": [*properties],
    }
    call = make_call("adk_request_input", message="?", response_schema=schema)
    approval = ask(make_approval(call=call).model_copy(update={"kind": Kind.INPUT}))
    about = Reference(approval=approval.id, digest=short_digest(approval.digest))
    view = views.approve_view(card(approval, people()), about, fields(approval)).to_dict()
    assert faults_of(view["blocks"], modal=True) == []


def test_eighty_arguments_are_folded_and_in_the_details() -> None:
    """The card shows the first arguments and the number of the others; the details have all."""
    call = make_call("wire", **{f"arg{number}": "x" * 400 for number in range(80)})
    approval = ask(make_approval(call=call))
    said = json.dumps(dumped(blocks.card_blocks(message(approval))))
    assert "60 more behind Details" in said
    assert "(folded)" in said
    details = json.dumps(views.details_view(card(approval, people())).to_dict())
    assert "more that are too long for Slack" in details
    assert details.count("arg") >= 45


@pytest.mark.parametrize(("kind", "said"), [(Kind.CONFIRMATION, True), (Kind.INPUT, False)])
def test_card_states_that_a_call_has_no_arguments(kind: Kind, said: bool) -> None:
    """The card and the details say so; a question has no arguments to miss."""
    call = make_call("ping").model_copy(update={"args": {}})
    approval = ask(make_approval(call=call).model_copy(update={"kind": kind}))
    shown = dumped(blocks.card_blocks(message(approval)))
    details = views.details_view(card(approval, people())).to_dict()
    assert ("It takes no arguments." in json.dumps(shown)) is said
    assert ("It takes no arguments." in json.dumps(details)) is said


def test_agent_text_creates_no_mentions_links_or_emoji() -> None:
    """The agent's text is plain or escaped: no mention, link or emoji appears."""
    evil = "<!channel> <@U0BOSS> <https://evil.example|your bank> :tada: *x*"
    call = make_call("wire", note=evil, **{evil[:60]: 1})
    approval = ask(make_approval(call=call, hint=evil))
    for block in dumped(blocks.card_blocks(message(approval))):
        for text in _texts(block):
            if text["type"] == "mrkdwn":
                assert "<!channel>" not in text["text"]
                assert "<@" not in text["text"]
                assert "<https" not in text["text"]
            else:
                assert text.get("emoji") is False


def _texts(part: Any) -> list[dict[str, Any]]:
    if isinstance(part, list):
        return [text for one in part for text in _texts(one)]
    if not isinstance(part, dict):
        return []
    own = [part] if part.get("type") in {"mrkdwn", "plain_text"} else []
    return own + [text for one in part.values() for text in _texts(one)]


def test_risky_call_shows_a_confirmation_dialog_on_approve() -> None:
    """Above the policy's risk, only the approve button has a confirmation dialog."""
    approval = ask(make_approval())
    assert approval.terms is not None
    terms = approval.terms.model_copy(update={"risk": Risk.HIGH})
    made = dumped(blocks.card_blocks(message(approval.model_copy(update={"terms": terms}))))
    buttons = next(block for block in made if block["type"] == "actions")["elements"]
    assert [one["action_id"] for one in buttons if "confirm" in one] == ["signoff.approve"]
    assert '"confirm"' not in json.dumps(dumped(blocks.card_blocks(message(approval))))


@given(st.text(), st.integers(2, 50))
def test_clipped_text_fits_and_is_a_beginning(text: str, most: int) -> None:
    """A fitting text stays the same; a longer one ends in an ellipsis."""
    short_text = clip(text, most)
    assert units(short_text) <= most
    assert short_text == text or text.startswith(short_text[:-1])


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.integers(8, 60))
def test_escaped_text_fits_and_has_no_markup(text: str, most: int) -> None:
    """No entity is cut, however short the space."""
    escaped = escape(text, most)
    assert units(escaped) <= most
    assert not set("<>") & set(escaped)
    plain = escaped.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert text == plain or text.startswith(plain[:-1])


@given(st.text(min_size=1), st.integers(4, 20), st.integers(1, 5))
def test_split_text_is_complete_up_to_the_limit(text: str, size: int, most: int) -> None:
    """The pieces together are the text, up to the limit."""
    found = pieces(text, size, most)
    assert len(found) <= most
    assert all(units(piece) <= size for piece in found)
    whole = "".join(found)
    assert whole == text or text.startswith(whole.removesuffix("…"))
