"""The content of our mails; foreign text stays where it belongs."""

import email
import email.policy
from dataclasses import replace
from datetime import timedelta
from email.message import EmailMessage
from functools import cache
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from answered import Verdict, verdict_of
from builders import MARA, NOON, asked_approval, make_call, people
from html_text import text_of_html
from signoff.channels.email.message_ids import message_id
from signoff.channels.email.outbound.render import (
    fit,
    html,
    plain_text,
    recipient,
    render,
    span,
    subject,
)
from signoff.channels.email.parsing.reading import CUT_MARKER, read_mail, tokens_in
from signoff.channels.email.settings import EmailSettings
from signoff.channels.pipeline.port import Kind, Message
from signoff.channels.pipeline.reply_tokens import new_token
from signoff.core.approvals.approval import ToolCall
from signoff.core.base.errors import MailRefused
from signoff.core.cards.card import Row, card
from signoff.core.payloads.digest import short_digest
from signoff.core.replies.reading import is_reply

MAILBOX = "approvals@signoff.example"
SETTINGS = EmailSettings(sender=f"Signoff <{MAILBOX}>", mailbox=MAILBOX)
TOKEN = new_token()
CARD_ID = message_id("card", "ap_stqoosc6iuoxchrh", SETTINGS.domain)


def make_message(
    *,
    template: JsonValue = None,
    hint: str = "",
    tool: str = "reimburse",
    call: ToolCall | None = None,
    **parts: Any,
) -> Message:
    """Return a card for Mara, or a related message."""
    approval = asked_approval(template=template, hint=hint, call=call or make_call(tool))
    usual = Message(
        id=f"card:{approval.id}:mara",
        kind=Kind.CARD,
        card=card(approval, people()),
        person="mara",
        name=MARA.shown,
        address=MARA.email,
        at=NOON,
        token=TOKEN,
    )
    return replace(usual, **parts)


def make_notice(**parts: Any) -> Message:
    """Return a notice for Mara."""
    usual = {
        "kind": Kind.NOTICE,
        "id": "notice:not_understood:ap:mara:1",
        "headline": "Nothing is decided yet",
        "text": "I could not read that.\n\nPlease write it again.",
        "example": "approve\napproved_days: 3",
        "thread": CARD_ID,
    }
    return make_message(**(usual | parts))


def parsed(message: Message) -> EmailMessage:
    """Return a message as a mail program would read it."""
    return email.message_from_bytes(
        render(message, SETTINGS).as_bytes(), policy=email.policy.default
    )


class Links(HTMLParser):
    """Collects the targets of all links, and everything that would be fetched."""

    def __init__(self, text: str) -> None:
        """Read a document."""
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Collect links and sources."""
        self.tags.add(tag)
        self.links += [value or "" for name, value in attributes if name == "href"]
        self.fetched += [value or "" for name, value in attributes if name in {"src", "background"}]


def test_a_card_has_the_headers_of_an_automatic_mail() -> None:
    """They have the sender, the recipient and the reply address, and stop automatic replies."""
    mail = parsed(make_message())
    assert mail["From"] == f"Signoff <{MAILBOX}>"
    assert mail["To"] == "Mara Lind <mara@example.com>"
    assert mail["Reply-To"] == f"approvals+{TOKEN}@signoff.example"
    assert mail["Subject"].startswith(
        "Approval needed: reimburse: amount 2500, purpose conference (finance) #"
    )
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["X-Auto-Response-Suppress"] == "All"
    assert mail["X-Signoff-Loop"] == "signoff.example"
    assert mail["Date"].datetime == NOON
    assert mail.get_content_type() == "multipart/alternative"
    assert [part.get_content_type() for part in mail.iter_parts()] == ["text/plain", "text/html"]


def test_no_line_of_the_body_is_longer_than_its_encoding_allows() -> None:
    """Quoted-printable has 76 characters a line (RFC 2045); a long Message-ID is not broken."""
    message = make_message(hint="für Jörg " * 40)
    head, _, body = render(message, SETTINGS).as_bytes().partition(b"\r\n\r\n")
    assert max(map(len, body.split(b"\r\n"))) <= 76
    assert message_id(message.id, message.card.approval, SETTINGS.domain).encode() in head


def test_a_resent_mail_keeps_its_message_id() -> None:
    """The Message-ID is computed from the cause, under our own domain."""
    first = parsed(make_message())["Message-ID"]
    again = parsed(make_message(at=NOON + timedelta(hours=1), token=new_token()))["Message-ID"]
    other = parsed(make_message(id="card:x:cleo"))["Message-ID"]
    assert first == again != other
    assert first.endswith("@signoff.example>")


def test_later_mails_belong_to_the_thread_of_the_card() -> None:
    """They have the subject with "Re:", and references to the card and the person's own mail."""
    card_mail = parsed(make_message())
    receipt = card_mail["Message-ID"]
    notice = parsed(make_notice(thread=receipt, reply_to="<own@mail.example>"))
    outcome = parsed(make_notice(kind=Kind.OUTCOME, thread=receipt, token=""))
    assert notice["Subject"] == outcome["Subject"] == f"Re: {card_mail['Subject']}"
    assert notice["In-Reply-To"] == "<own@mail.example>"
    assert notice["References"] == f"{receipt} <own@mail.example>"
    assert outcome["In-Reply-To"] == outcome["References"] == receipt
    assert outcome["Reply-To"] is None


@pytest.mark.parametrize(
    "bad", ["<a@b>\r\nBcc: x@y.example", "<a@b c>", "a@b", "<>", "<" + "a" * 500 + "@b>", "<a@b@c>"]
)
def test_only_a_plain_foreign_message_id_becomes_a_header(bad: str) -> None:
    """The Message-ID of the person's mail is used only if it is a plain Message-ID."""
    mail = parsed(make_notice(reply_to=bad))
    assert mail["References"] == CARD_ID
    assert mail["Bcc"] is None


HOSTILE = [
    "x\r\nBcc: victim@example.com",
    "x\nSubject: other",
    "x\x00y",
    "\u202egnp.exe",
    "=?utf-8?q?x=0D=0ABcc:_v@example.com?=",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }}",
    "x" * 5000,
    "承認",
]


@pytest.mark.parametrize("bad", HOSTILE)
@pytest.mark.parametrize("where", ["tool", "argument", "value", "hint", "name", "headline"])
def test_foreign_values_never_become_headers_or_markup(bad: str, where: str) -> None:
    """A value never becomes a header, a tag or a template."""
    if where == "tool":
        message = make_message(call=make_call(bad))
    elif where == "argument":
        message = make_message(call=make_call(**{bad: "x"}))
    elif where == "value":
        message = make_message(call=make_call(purpose=bad))
    elif where == "hint":
        message = make_message(hint=bad)
    elif where == "name":
        message = make_message(name=bad)
    else:
        message = make_notice(headline=bad, text=f"{bad}\ud800", example=f"approve\n{bad}")
    raw = render(message, SETTINGS).as_bytes()
    mail = email.message_from_bytes(raw, policy=email.policy.default)

    assert mail["Bcc"] is None
    assert len(mail.get_all("Subject", [])) == 1
    assert [a.addr_spec for a in mail["To"].addresses] == ["mara@example.com"]
    markup = Links(html(message, SETTINGS))
    assert "script" not in markup.tags
    assert "img" not in markup.tags
    assert all(link.startswith("mailto:") for link in markup.links)
    assert "49" not in subject(message)


def test_both_parts_of_a_card_show_the_whole_request() -> None:
    """Both parts show the call, requester, deadline and how to answer; nothing is fetched."""
    message = make_message(hint="Is this in the budget?")
    text, markup = plain_text(message, SETTINGS), text_of_html(html(message, SETTINGS))
    for part in (text, markup):
        for shown in (
            "reimbursement_agent asks to run reimburse",
            "2500",
            "conference",
            "Is this in the budget?",
            "Riley Voss",
            "Mon 2 Mar 2026, 16:00 UTC (in 4 h)",
            "approve",
            "reject: the reason",
            "expenses",
            message.card.approval,
            short_digest(message.card.digest),
        ):
            assert shown in part
    links = Links(html(message, SETTINGS))
    assert links.fetched == []
    assert text.startswith(CUT_MARKER)
    assert text_of_html(html(message, SETTINGS)).strip().startswith(CUT_MARKER)


@pytest.mark.parametrize(
    ("template", "body", "verdict"),
    [
        (None, "approve", Verdict.APPROVE),
        ({"approved_days": 0}, "approve\r\napproved_days: ", Verdict.UNCLEAR),
        ({"days": 5}, "approve\r\ndays: 5", Verdict.APPROVE),
    ],
)
def test_the_buttons_write_the_answer(template: JsonValue, body: str, verdict: Verdict) -> None:
    """A button opens a mail to the token's address; a required value still has to be entered."""
    links = Links(html(make_message(template=template), SETTINGS)).links
    yes, no = (urlsplit(link) for link in links)
    assert yes.scheme == no.scheme == "mailto"
    assert unquote(yes.path) == f"approvals+{TOKEN}@signoff.example"
    fields = parse_qs(yes.query, keep_blank_values=True)
    assert fields["subject"][0].startswith("Re: Approval needed: reimburse")
    assert fields["body"] == [body]
    assert verdict_of(body, template) is verdict
    assert verdict_of(parse_qs(no.query)["body"][0], template) is Verdict.REJECT
    assert "+" in yes.path


def test_a_reply_to_the_card_finds_its_token() -> None:
    """The reader of answers finds the Reply-To of our mail."""
    mail = parsed(make_message())
    answer = f"From: mara@example.com\r\nTo: {mail['Reply-To']}\r\n\r\napprove\r\n".encode()
    assert tokens_in(read_mail(answer).recipients, MAILBOX) == (TOKEN,)


def test_a_notice_shows_an_answer_that_works() -> None:
    """Both parts have the full example in the same form."""
    text = plain_text(make_notice(), SETTINGS)
    assert "For example, write: approve" in text
    assert "approved_days: 3" in text
    assert "approved_days: 3" in text_of_html(html(make_notice(), SETTINGS))


def test_an_outcome_mail_has_no_buttons() -> None:
    """Such a mail has no buttons, says that replies are not read, and does not ask for one."""
    message = make_notice(kind=Kind.OUTCOME, token="", example="", good=True)
    page, text = html(message, SETTINGS), plain_text(message, SETTINGS)
    assert Links(page).links == []
    assert "Replies to this mail are not read." in text
    assert CUT_MARKER not in page + text
    answered = make_notice()
    assert CUT_MARKER in html(answered, SETTINGS)
    assert plain_text(answered, SETTINGS).startswith(CUT_MARKER)


WORDS = [
    "approve",
    "Approved",
    "*yes*",
    "ok",
    "好的",
    "no",
    "reject it",
    "  ja",
    "ＯＫ",
    "'approve'",
]


def test_further_lines_of_others_do_not_look_like_arguments() -> None:
    """A hint or a value with line breaks cannot add an argument to the text."""
    call = make_call("pay", why="lunch\n  amount: 5", amount=9_999)
    text = plain_text(make_message(hint="Pay lunch\namount: 5", call=call), SETTINGS)
    lines = text.splitlines()
    assert "  amount: 9999" in lines
    assert "  amount: 5" not in lines


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("where", ["value", "second line", "argument", "hint", "text", "name"])
def test_no_line_of_our_mail_decides_when_quoted(word: str, where: str) -> None:
    """Whatever the call contains, no line of either part reads as an answer."""
    if where == "value":
        message = make_message(call=make_call(note=word))
    elif where == "second line":
        message = make_message(call=make_call(note=f"x\n{word}\r\n{word}"))
    elif where == "argument":
        message = make_message(call=make_call(**{word: "5"}))
    elif where == "hint":
        message = make_message(hint=f"{word}\n{word}")
    elif where == "text":
        message = make_notice(headline=word, text=f"{word}\n\n{word}", example=f"approve\n{word}")
    else:
        message = make_message(name=word)
    _nothing_decides(message)


@settings(max_examples=settings().max_examples // 4)
@given(
    st.text(max_size=60), st.dictionaries(st.text(max_size=20), st.text(max_size=60), max_size=4)
)
def test_no_line_of_ours_ever_decides(text: str, args: dict[str, str]) -> None:
    """The same holds for any text."""
    _nothing_decides(make_message(hint=text, call=make_call(**(args or {"x": "y"}))))


def _nothing_decides(message: Message) -> None:
    for part in (plain_text(message, SETTINGS), text_of_html(html(message, SETTINGS))):
        for line in part.splitlines():
            assert not _decides(line), line


@cache
def _decides(line: str) -> bool:
    """Return whether a line decides; cached, because most lines are the same on every card."""
    templates: tuple[JsonValue, ...] = (None, {"days": 0})
    return any(verdict_of(line, one) is not Verdict.UNCLEAR for one in templates)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("approve", True),
        ("  *Yes*", True),
        ("ＮＯ", True),
        ("好的，谢谢", True),
        ("approve 3", True),
        ("ok, 3 days", True),
        ("approve with days=3", True),
        ("approved_days: 3", False),
        ("november", False),
        ("okra", False),
        ("✓ Approve", False),
        ("", False),
    ],
)
def test_a_line_that_would_decide_if_quoted_is_recognised(line: str, expected: bool) -> None:
    """A line that would decide if quoted, with any decoration."""
    assert is_reply(line) is expected


def test_a_huge_argument_does_not_hide_the_small_ones() -> None:
    """Mail programs clip long mails, so long values are cut here with a notice."""
    rows = [Row(name="big", value="x" * 100_000), Row(name="amount", value="2500")]
    big, amount = fit(rows)
    assert amount.value == "2500"
    assert len(big.value) < 25_000
    assert "more characters" in big.value
    assert fit(()) == ()


def test_a_card_with_many_large_arguments_stays_below_the_gmail_limit() -> None:
    """The HTML of the largest card is below the 102 KB that Gmail shows."""
    call = make_call(**{f"a{n}": "word " * 2000 for n in range(20)})
    assert len(html(make_message(call=call), SETTINGS).encode()) < 102_000


@pytest.mark.parametrize(
    ("duration", "words"),
    [
        (timedelta(seconds=5), "1 min"),
        (timedelta(minutes=45), "45 min"),
        (timedelta(minutes=90), "1 h 30 min"),
        (timedelta(hours=4), "4 h"),
        (timedelta(hours=3, minutes=59, seconds=58), "4 h"),
        (timedelta(hours=3, minutes=40), "4 h"),
        (timedelta(hours=23, minutes=50), "24 h"),
        (timedelta(hours=26), "1 day 2 h"),
        (timedelta(days=5, hours=3), "5 days"),
    ],
)
def test_a_time_span_is_written_in_words(duration: timedelta, words: str) -> None:
    """A span is written in words."""
    assert span(duration) == words


@pytest.mark.parametrize("address", ["", "x", "a@b@c", "ümlaut@example.com", "a\r\nb@example.com"])
def test_an_address_that_cannot_be_written_to_is_refused(address: str) -> None:
    """It is refused without a retry, and the error names the setting."""
    with pytest.raises(MailRefused, match="people"):
        recipient(make_message(address=address))


def test_an_internationalised_domain_is_sent_in_ascii() -> None:
    """The envelope has the ASCII form of an internationalised domain."""
    assert recipient(make_message(address="a@bücher.example")) == "a@xn--bcher-kva.example"
