"""Folded text has to be read in full before an approval, or the page approves it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import MARA, NOON, ask, make_approval, make_call, make_origin, people, present
from channels.slack.limits import faults_of, units
from channels.slack.office import Office
from channels.slack.test_cards import TEMPLATES, TEXT, VALUES, dumped, message
from signoff.broker.ledger.change import Change
from signoff.channels.form_fields import fields
from signoff.channels.inbox.settings import InboxSettings
from signoff.channels.slack.outbound import blocks, views
from signoff.channels.slack.outbound.rows import extent, is_whole
from signoff.channels.slack.references import Reference
from signoff.core.approvals import collaboration, moves
from signoff.core.approvals.approval import Approval, Shown, State
from signoff.core.approvals.events import What
from signoff.core.cards.card import Card, card
from signoff.core.payloads.digest import short_digest

INBOX = InboxSettings(url="https://approvals.example.com", secret_key="k" * 32)
FOLDED = "".join(f"line {number}\n" for number in range(400))
TOO_LONG = "y" * 250_000


def texts_of(part: Any) -> list[str]:
    """Return every text of a message or a modal."""
    if isinstance(part, list):
        return [text for one in part for text in texts_of(one)]
    if not isinstance(part, dict):
        return []
    own = [part["text"]] if part.get("type") in {"mrkdwn", "plain_text"} else []
    return own + [text for one in part.values() for text in texts_of(one)]


def actions_of(shown: list[dict[str, Any]]) -> list[str]:
    """Return the actions of a card's buttons."""
    buttons = [one for block in shown if block["type"] == "actions" for one in block["elements"]]
    return [one["action_id"] for one in buttons]


def pieces_of(text: str, where: list[str]) -> bool:
    """Return whether a text is shown whole or in consecutive pieces."""
    if text in where or not text:
        return True
    # At each position: a name that a value begins with is not a piece of the value.
    return any(_follow(text, where[start:]) for start in range(len(where)))


def _follow(left: str, where: list[str]) -> bool:
    for one in where:
        if one and left.startswith(one):
            left = left[len(one) :]
    return not left


async def test_call_that_fits_on_the_card_is_approved_by_one_click(office: Office) -> None:
    """Values of more than 160 characters are not folded if there is room."""
    approval = await office.open(args={"memo": "m" * 900, "script": "a\nb\nc\nd\ne"})
    (sent,) = office.workspace.cards("D0MARA")
    assert "m" * 900 in texts_of(sent["blocks"])
    assert "a\nb\nc\nd\ne" in texts_of(sent["blocks"])
    await office.press("approve")
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


async def test_folded_call_opens_in_full_in_the_modal_that_approves(office: Office) -> None:
    """The button says so, decides nothing, and opens the whole text; the modal approves."""
    approval = await office.open(args={"memo": FOLDED})
    (sent,) = office.workspace.cards("D0MARA")
    assert "Approve…" in texts_of(sent["blocks"])
    assert "Some of it is folded. Approve… shows all of it." in texts_of(sent["blocks"])
    await office.press("approve")
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
    assert pieces_of(FOLDED, texts_of(office.workspace.views[-1]["blocks"]))
    assert await office.submit({}) is None
    decided = await office.ledger.approval(approval.id)
    assert (decided.state, present(decided.decision).channel) == (State.APPROVED, "slack")


async def test_call_too_large_for_slack_is_approved_only_on_the_page(office: Office) -> None:
    """There is no button, and a forged or old press is refused with a link to the page."""
    office.inbox = INBOX
    approval = await office.open(args={"memo": TOO_LONG})
    assert [one.shown for one in approval.asked] == [Shown.CUT]
    (sent,) = office.workspace.cards("D0MARA")
    assert "signoff.approve" not in actions_of(sent["blocks"])
    assert "signoff.reject" in actions_of(sent["blocks"])
    assert any("Read it on its page" in text for text in texts_of(sent["blocks"]))
    reject = office.click("reject")
    value = reject["actions"][0]["value"]
    await office.handler.handle(
        {**reject, "actions": [{**reject["actions"][0], "action_id": "signoff.approve"}]}
    )
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
    await office.deliver()
    (whisper,) = office.workspace.whispers
    assert "has to be read first" in str(whisper["blocks"])
    assert f"https://approvals.example.com/inbox/approvals/{approval.id}" in str(whisper["blocks"])
    assert value
    whats = [event.what for event in await office.ledger.history(approval.id)]
    assert whats.count(What.REFUSED_ANSWER) == 1


async def test_forged_modal_cannot_approve_a_call_too_large_for_slack(office: Office) -> None:
    """It is judged like a press."""
    approval = await office.open(args={"memo": TOO_LONG})
    about = Reference(approval=approval.id, digest=short_digest(approval.digest), to="mara")
    view = {"callback_id": "signoff.approve", "private_metadata": about.text()}
    ack = await office.submit({}, view=view)
    assert "has to be read first" in str(ack)
    assert (await office.ledger.approval(approval.id)).state is State.PENDING


async def test_rejection_of_a_call_too_large_for_slack_counts(office: Office) -> None:
    """The rejection counts as usual."""
    approval = await office.open(args={"memo": TOO_LONG})
    await office.press("reject")
    await office.submit({"reason": {"value": "too long"}})
    assert (await office.ledger.approval(approval.id)).state is State.REJECTED


async def test_a_card_of_the_last_release_is_not_approved_unread(office: Office) -> None:
    """It was folded at 160 characters without a record; the page has the whole call."""
    approval = await office.open(args={"memo": "m" * 500})
    old = tuple(one.model_copy(update={"shown": Shown.UNKNOWN}) for one in approval.asked)
    change = Change().put(approval.model_copy(update={"asked": old}), was=approval)
    await office.ledger.commit(change)
    await office.press("approve")
    assert (await office.ledger.approval(approval.id)).state is State.PENDING


async def test_updated_card_records_its_display_again(office: Office) -> None:
    """A comment updates the card, and its display is recorded again."""
    approval = await office.open(args={"memo": "m" * 500})
    old = tuple(one.model_copy(update={"shown": Shown.UNKNOWN}) for one in approval.asked)
    change = Change().put(approval.model_copy(update={"asked": old}), was=approval)
    await office.ledger.commit(change)
    await office.decider.made(
        approval.id, moves.Comment(text="hm"), present(office.directory.get("mara"))
    )
    await office.route()
    await office.deliver()
    now = await office.ledger.approval(approval.id)
    assert [one.shown for one in now.asked] == [Shown.COMPLETE]
    await office.press("approve")
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


ARGUMENTS = st.dictionaries(
    st.text(min_size=1, max_size=300),
    st.one_of(VALUES, st.text(min_size=100, max_size=400), st.just("z" * 5_000)),
    max_size=30,
)


def shows(shape: Card, where: list[str]) -> bool:
    """Return whether texts show the whole call."""
    return (
        any(shape.title in one for one in where)
        and (not shape.hint or pieces_of(shape.hint, where))
        and all(pieces_of(row.name, where) and pieces_of(row.value, where) for row in shape.rows)
    )


@given(ARGUMENTS, TEMPLATES, TEXT, st.text(min_size=1, max_size=200))
def test_card_with_a_deciding_button_shows_the_whole_call(
    args: Any, template: Any, hint: str, tool: str
) -> None:
    """A card with a deciding button shows the whole call, or its modal does, or there is no button.

    In each case, Slack's limits are kept.
    """
    call = make_call("x").model_copy(update={"name": tool, "args": args})
    approval = ask(make_approval(call=call, hint=hint, template=template))
    shape = card(approval, people())
    sent = dumped(blocks.card_blocks(message(approval)))
    assert faults_of(sent) == []
    assert sum(map(units, texts_of(sent))) < 11_000
    if is_whole(shape):
        assert shows(shape, texts_of(sent))
    about = Reference(approval=approval.id, digest=short_digest(approval.digest), to="mara")
    view = views.approve_view(shape, about, fields(approval)).to_dict()
    assert faults_of(view["blocks"], modal=True) == []
    if extent(shape) is Shown.COMPLETE:
        assert shows(shape, texts_of(view["blocks"]))
        assert "signoff.approve" in actions_of(sent)
    else:
        assert "signoff.approve" not in actions_of(sent)


@pytest.mark.parametrize("comments", [0, 3])
def test_foreign_text_is_never_rendered_as_mrkdwn(comments: int) -> None:
    """Foreign text is plain text: never bold, a mention, a link or code."""
    evil = "*Zz* _it_ ~no~ `code` <!channel> <@U0BOSS> <https://evil.example|bank> :tada: > quote"
    call = make_call("x").model_copy(update={"name": evil, "args": {evil: evil, "long": evil * 9}})
    origin = make_origin(user=evil, agent=evil, app=evil)
    approval = ask(make_approval(origin=origin, call=call, hint=evil, template={evil: evil}))
    for _ in range(comments):
        approval, _events = collaboration.comment(approval, MARA, people(), text=evil, now=NOON)
    about = Reference(approval=approval.id, digest=short_digest(approval.digest), to="mara")
    shape = card(approval, people())
    shape = shape.model_copy(
        update={"claimed": evil, "claimed_until": NOON, "level": evil, "progress": evil}
    )
    ended = message(approval, card=shape, headline=evil, text=evil)
    made: list[Any] = [
        dumped(blocks.card_blocks(message(approval, card=shape, link="https://x.example"))),
        dumped(blocks.outcome_blocks(ended)),
        dumped(blocks.notice_blocks(ended)),
        *(
            view.to_dict()
            for view in (
                views.approve_view(shape, about, fields(approval)),
                views.reject_view(shape, about),
                views.ask_view(shape, about),
                views.comment_view(shape, about),
                views.details_view(shape),
                views.answer_view(shape, about, evil),
                views.requests_view([(shape, evil)]),
                views.notice_view(evil, evil),
            )
        ),
    ]
    for text in mrkdwn_in(made):
        assert "Zz" not in text
        assert "evil" not in text
    assert "Zz" in json.dumps(made)


def mrkdwn_in(part: Any) -> list[str]:
    """Return every text that Slack reads as markup."""
    if isinstance(part, list):
        return [text for one in part for text in mrkdwn_in(one)]
    if not isinstance(part, dict):
        return []
    own = [part["text"]] if part.get("type") == "mrkdwn" else []
    return own + [text for one in part.values() for text in mrkdwn_in(one)]


def test_card_escapes_and_explains_lookalike_letters() -> None:
    """A letter of another alphabet is written out, and a line explains it."""
    approval: Approval = ask(make_approval(call=make_call("pay", to="\u0430cme")))
    texts = texts_of(dumped(blocks.card_blocks(message(approval))))
    assert "\\u0430cme" in texts
    assert any(text.startswith("⚠️ “\\u0430cme” mixes in Cyrillic letters") for text in texts)
