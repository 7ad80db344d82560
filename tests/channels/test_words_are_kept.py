"""People's words are kept as written, and escaped wherever they are shown."""

from __future__ import annotations

from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from lxml import html as lxml_html

from builders import CLEO, MARA, NOON, ask, make_approval, people, present
from channels.conftest import Channels
from signoff.channels.email.outbound.render import html, plain_text
from signoff.channels.email.settings import EmailSettings
from signoff.channels.pipeline.port import Kind, Message
from signoff.channels.slack.outbound import blocks
from signoff.channels.text_channel import text_of
from signoff.channels.words import phrases
from signoff.core.approvals import collaboration, moves
from signoff.core.approvals.approval import Approval, State
from signoff.core.base.shown_text import visible
from signoff.core.cards.card import card
from signoff.core.replies.reading import is_reply

SETTINGS = EmailSettings()
WRITTEN = [
    "use <amount=900> instead",
    "if x<y and y>z",
    "write to <jo@example.com>",
    "</td></tr></table><h1>Approved</h1>",
    '<!-- --> <img src=x onerror="alert(1)"> <style>*{display:none}</style>',
    "<!channel> <@U0BOSS> <https://evil.example|bank> *bold* _it_ `x`",
    "[bold red]rich[/] {{ 7*7 }} {% raw %}",
    "می\u200cخواهم 👩\u200d💻",
    "fi\u200dn and \u202eback",
]
ANSWERS = [
    "approve",
    "> yes\nok",
    "fine\napprove\n👍",
    "\u200bapprove",
    "\u2028approve\x85yes",
    "＜ok＞\nＯＫ",
    "<b>\napprove\n</b>",
    "no\n\nja\n\n承認",
]


def sent(approval: Approval, kind: Kind = Kind.CARD, **parts: Any) -> Message:
    """Return a message to Mara about an approval."""
    shape = card(approval, people())
    made = Message("m:1", kind, shape, "mara", MARA.shown, MARA.email, NOON, token="a" * 26)
    return replace(made, **parts)


def remarked(text: str) -> Approval:
    """Return an approval with a comment of Cleo's."""
    approval = ask(make_approval())
    return collaboration.comment(approval, CLEO, people(), text=text, now=NOON)[0]


def rejected(text: str) -> Approval:
    """Return an approval that Mara has rejected with a reason."""
    approval = ask(make_approval())
    return approval.reject(MARA, people(), channel="inbox", now=NOON, reason=text)[0]


def words_of(page: str) -> str:
    """Return the text of an HTML mail as a browser shows it."""
    return " ".join(lxml_html.document_fromstring(page).text_content().split())


@pytest.mark.parametrize("text", WRITTEN)
def test_remark_is_shown_completely_in_every_channel(text: str) -> None:
    """Mail, Slack and plain text show all of it; invisible characters appear as escapes."""
    approval = remarked(text)
    assert approval.comments[0].text == text
    message = sent(approval)
    as_shown = visible(text)
    assert as_shown in plain_text(message, SETTINGS)
    assert as_shown in words_of(html(message, SETTINGS))
    assert as_shown in text_of(message)
    said = [
        one["text"]
        for block in blocks.card_blocks(message)
        for one in block.to_dict().get("elements", ())
        if one.get("type") == "plain_text"
    ]
    assert as_shown in said


@pytest.mark.parametrize("text", WRITTEN)
def test_reason_is_escaped_for_people_and_unchanged_for_the_model(text: str) -> None:
    """People read it with escapes, and the model reads it unchanged."""
    approval = rejected(text)
    assert approval.decision is not None
    assert approval.decision.reason == text
    words = phrases.outcome(approval, "cleo", people())
    message = sent(approval, Kind.OUTCOME, headline=words.headline, text=words.text)
    as_shown = visible(text)
    assert as_shown in " ".join(plain_text(message, SETTINGS).split())
    assert as_shown in words_of(html(message, SETTINGS))


@pytest.mark.parametrize("text", WRITTEN)
def test_foreign_text_does_not_change_the_html_elements(text: str) -> None:
    """The HTML has the same elements whatever the text is."""

    def shape(page: str) -> list[str]:
        return [str(one.tag) for one in lxml_html.document_fromstring(page).iter()]

    assert shape(html(sent(remarked(text)), SETTINGS)) == shape(
        html(sent(remarked("plain words")), SETTINGS)
    )


@pytest.mark.parametrize("text", ANSWERS)
def test_quoted_line_is_never_read_as_an_answer(text: str) -> None:
    """A quoted line of ours is never read as an answer."""
    approval = remarked(text)
    words = phrases.outcome(rejected(text), "cleo", people())
    for message in (
        sent(approval),
        sent(rejected(text), Kind.OUTCOME, headline=words.headline, text=words.text),
        sent(approval, Kind.NOTICE, headline=text, text=f"{text}\n\n{text}"),
    ):
        page = html(message, SETTINGS)
        for part in (plain_text(message, SETTINGS), _lines_of(page)):
            lines = [line for line in part.splitlines() if line.strip()]
            assert [line for line in lines if is_reply(line)] == []


def _lines_of(page: str) -> str:
    """Return the lines of a page: one for each cell and line break."""
    body = page.partition("<body")[2]
    for mark in ("<br>", "</td>", "</tr>", "</div>"):
        body = body.replace(mark, f"{mark}\n")
    lines = (lxml_html.fromstring(f"<p>{one}</p>").text_content() for one in body.split("\n"))
    return unescape("\n".join(one.strip() for one in lines if "mailto:" not in one))


async def test_every_channel_stores_the_same_text(channels: Channels) -> None:
    """A comment and a reason are kept the same; control characters are dropped."""
    approval, _ = await channels.ask()
    await channels.decider.made(approval.id, moves.Comment(text="a<b>\x1b[31m\r\nc\x00"), MARA)
    await channels.decider.reject(approval.id, MARA, channel="api", reason="x<y>\x07\x9bz")
    after = await channels.ledger.approval(approval.id)
    assert [one.text for one in after.comments] == ["a<b>[31m\nc"]
    assert (after.state, present(after.decision).reason) == (State.REJECTED, "x<y>z")
