"""Requests for input and long-running calls as mails, with their answers."""

from __future__ import annotations

import pytest

from builders import MARA, NOON, present
from channels.conftest import Channels
from channels.test_intake import reply, take
from html_text import text_of_html
from signoff.channels.email.outbound.channel import sent_lines
from signoff.channels.email.outbound.render import html, plain_text, subject
from signoff.channels.email.settings import EmailSettings
from signoff.channels.pipeline.port import Kind as What
from signoff.channels.pipeline.port import Message
from signoff.channels.pipeline.reply_tokens import new_token
from signoff.core.approvals.approval import Approval, Kind, State
from signoff.core.approvals.parts import INPUT
from signoff.core.cards.card import card
from signoff.core.directory.people import Directory
from signoff.core.payloads.digest import short_digest

MAILBOX = "approvals@signoff.example"
SETTINGS = EmailSettings(sender=f"Signoff <{MAILBOX}>", mailbox=MAILBOX)
ADDRESS = {
    "type": "object",
    "properties": {
        "street": {"type": "string", "description": "with the number"},
        "floor": {"type": "integer", "default": 0},
        "country": {"type": "string", "enum": ["NO", "SE"]},
        "note": {"type": "string"},
    },
    "required": ["street", "country"],
}
QUESTION = {
    "tool": INPUT,
    "kind": Kind.INPUT,
    "message": "Where shall it go?",
    "payload": {"order": 17},
    "response_schema": ADDRESS,
}
FRAGILE = QUESTION | {"message": "Is it fragile?", "response_schema": {"type": "boolean"}}


def mail_of(approval: Approval, directory: Directory) -> tuple[str, str, str]:
    """Return the subject, the plain text and the text of the HTML of a card."""
    message = Message(
        id="card:1",
        kind=What.CARD,
        card=card(approval, directory),
        person=MARA.id,
        name=MARA.shown,
        address=MARA.email,
        at=NOON,
        token=new_token(),
    )
    text = plain_text(message, SETTINGS)
    return subject(message), text, text_of_html(html(message, SETTINGS))


async def test_a_question_is_put_as_a_question(channels: Channels, directory: Directory) -> None:
    """The question is first, then its context, the fields, and the effect of a rejection."""
    approval, _ = await channels.ask(**QUESTION)
    title, text, page = mail_of(approval, directory)
    assert title.startswith(
        "Answer needed: reimbursement_agent asks: Where shall it go? (finance) #"
    )
    for shown in (text, page):
        assert "reimbursement_agent asks: Where shall it go?" in shown
        assert "17" in shown
        assert "with the number" in shown
        assert "one of NO, SE" in shown
        assert "Optional fields: note" in shown
        assert "A no ends the agent's run." in shown
        assert "What you see is what will run" not in shown
        assert "properties" not in shown
    assert "\n  street: …\n      (with the number)\n  floor: 0\n" in text
    assert short_digest(approval.digest) in text


async def test_yes_or_no_question_asks_for_no_further_values(
    channels: Channels, directory: Directory
) -> None:
    """A no is a valid answer, and the mail says so."""
    approval, _ = await channels.ask(**FRAGILE)
    _, text, page = mail_of(approval, directory)
    for shown in (text, page):
        assert "reimbursement_agent asks: Is it fragile?" in shown
        assert "approve" in shown
        assert "A no ends" not in shown
        assert "add below" not in shown


async def test_long_running_call_states_that_the_agent_gets_the_decision(
    channels: Channels, directory: Directory
) -> None:
    """No tool runs after the answer; the agent gets the decision."""
    hint = 'What it has returned so far: {"ticket": "t-17"}'
    approval, _ = await channels.ask(
        tool="ask_for_approval", kind=Kind.LONG_RUNNING, hint=hint, amount=50
    )
    title, text, page = mail_of(approval, directory)
    assert title.startswith("Approval needed: ask_for_approval")
    for shown in (text, page):
        assert "waits for your decision on ask_for_approval" in shown
        assert "t-17" in shown
        assert "What you see is what will run" not in shown
        assert "The agent gets your decision and continues." in shown


async def test_the_answer_in_a_mail_is_the_answer_to_the_workflow(channels: Channels) -> None:
    """One line decides, and each value has its own line."""
    approval, token = await channels.ask(**QUESTION)
    text = "approve\nstreet: Storgata 1\ncountry: no\nnote: ring twice\n"
    (notice,) = await take(channels, reply(token, text))
    after = await channels.ledger.approval(approval.id)
    assert after.state is State.APPROVED
    assert present(after.decision).payload == {
        "street": "Storgata 1",
        "floor": 0,
        "country": "NO",
        "note": "ring twice",
    }
    assert notice.headline == "Recorded: you answered the question of reimbursement_agent"
    assert "The agent continues with this answer." in notice.text


@pytest.mark.parametrize(
    ("text", "problem", "example"),
    [
        ("approve", 'needs a value for "street", "country"', "street: text\ncountry: NO"),
        ("approve\nstreet: x\ncountry: DE", "'DE' is not one of", "country: NO"),
        ("approve\nstreet: x\ncountry: NO\nfloor: up", "should be a whole number", "country: NO"),
    ],
)
async def test_an_answer_that_does_not_fit_is_asked_about_again(
    channels: Channels, text: str, problem: str, example: str
) -> None:
    """The reply says what was wrong, with an answer that would have worked."""
    approval, token = await channels.ask(**QUESTION)
    (notice,) = await take(channels, reply(token, text))
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    assert problem in notice.text
    assert example in notice.example


async def test_rejected_input_request_states_that_the_run_ends(channels: Channels) -> None:
    """It counts, and its sender reads that it ends the run."""
    approval, token = await channels.ask(**QUESTION)
    (notice,) = await take(channels, reply(token, "no, ask the customer"))
    assert (await channels.ledger.approval(approval.id)).state is State.REJECTED
    assert notice.headline == "Recorded: you rejected the question of reimbursement_agent"
    assert "This ends the agent's run." in notice.text


async def test_no_to_a_yes_or_no_question_resumes_the_agent(channels: Channels) -> None:
    """The answer is false, with the reason."""
    approval, token = await channels.ask(**FRAGILE)
    (notice,) = await take(channels, reply(token, "no, it is a stone"))
    after = await channels.ledger.approval(approval.id)
    assert present(after.decision).payload is False
    assert "The agent continues, and is told that the answer is no." in notice.text


async def test_remark_beside_an_approved_question_is_kept(channels: Channels) -> None:
    """It has its own line, as with any approval."""
    approval, token = await channels.ask(**FRAGILE)
    await take(channels, reply(token, "approve\nnote: message: it is glass"))
    after = await channels.ledger.approval(approval.id)
    assert after.state is State.APPROVED
    assert present(after.decision).reason == "message: it is glass"


async def test_a_reminder_of_a_question_has_the_button_of_its_card(channels: Channels) -> None:
    """A question is answered, not approved."""
    _, token = await channels.ask(**QUESTION)
    channels.channel.delivered.clear()
    await take(channels, reply(token, "hm"))
    await channels.delivery.drain()
    (notice,) = channels.channel.delivered
    assert "✓ Answer" in html(notice, SETTINGS)
    assert "✓ Approve" not in html(notice, SETTINGS)


async def test_unmarked_quotation_of_the_card_gives_no_values(
    channels: Channels, directory: Directory
) -> None:
    """A program copies our text without marks; its empty fields are not values."""
    approval, token = await channels.ask(**QUESTION)
    _, text, _ = mail_of(approval, directory)
    ours = sent_lines(approval, "mara", directory=directory, settings=SETTINGS)
    assert "      (with the number)" in ours
    await take(channels, reply(token, f"approve\n\n{text}"))
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
