"""How mail programs show our mail: they drop style sheets, clip, reorder and rewrite."""

from __future__ import annotations

import email
import email.policy
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import make_call
from channels.email.test_render import (
    SETTINGS,
    Links,
    make_message,
    make_notice,
    parsed,
)
from html_text import text_of_html
from signoff.channels.email.outbound.render import html, mailto, plain_text, render
from signoff.channels.pipeline.port import Kind, Message

CARD = make_message(hint="Is this in the budget?\nI think so.", template={"days": 0, "note": ""})
END = make_notice(
    kind=Kind.OUTCOME,
    token="",
    example="",
    headline="Reimburse has run",
    text="You approved it.\n\nThe agent's final message:\n\nPaid, €2500.",
    good=True,
)


class Seen(HTMLParser):
    """Collects the attributes of every tag, and the remaining style sheets."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.sheets = ""
        self._in_sheet = False
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the attributes."""
        self.tags.append((tag, dict(attrs)))
        self._in_sheet = tag == "style"

    def handle_data(self, data: str) -> None:
        """Keep the content of a style sheet."""
        if self._in_sheet:
            self.sheets += data

    def handle_endtag(self, tag: str) -> None:
        """Leave the style sheet."""
        self._in_sheet = False


def words(text: str) -> set[str]:
    """Return the words of a text without its layout."""
    return set(re.findall(r"[\w€:@.{}\"-]*\w", text))


@pytest.mark.parametrize("message", [CARD, END, make_notice()], ids=["card", "end", "notice"])
def test_text_and_html_parts_have_the_same_words(message: Message) -> None:
    """Both parts have the same words; only the buttons are in the HTML alone."""
    text = words(plain_text(message, SETTINGS))
    markup = words(text_of_html(html(message, SETTINGS)))
    values = {row.value for row in message.card.rows}
    assert words(" ".join(values)) <= text & markup
    missing = {word.casefold() for word in text} - {word.casefold() for word in markup}
    assert missing <= {
        *(
            "to",
            "say",
            "yes:",
            "no:",
            "yes",
            "no",
        ),
        *("request", "reply", "mail", "and", "write", "on", "line:", "line", "first"),
        *("with", "until:", "by:", "until", "this", "the", "values", "values:", "of", "page"),
        *("below", "it", "add", "answer", "agent", "reimbursement_agent", "in", "finance"),
    }


def test_every_element_has_its_own_style() -> None:
    """Gmail and Outlook drop style sheets, so only screen-dependent styles are in one."""
    seen = Seen(html(CARD, SETTINGS))
    assert "@media (prefers-color-scheme: dark)" in seen.sheets
    outside = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^}]*\})*\s*\}", "", seen.sheets)
    assert outside.strip() == ""
    for tag, attributes in seen.tags:
        if "class" in attributes and tag != "body":
            assert attributes.get("style"), (tag, attributes)
    metas = {one.get("name"): one.get("content") for tag, one in seen.tags if tag == "meta"}
    assert metas["color-scheme"] == "light dark"


def test_outlook_gets_a_table_of_a_fixed_width() -> None:
    """Its renderer ignores max-width; the comments for Outlook are still there."""
    markup = html(CARD, SETTINGS)
    assert '<!--[if mso]><table role="presentation" width="600"' in markup
    assert markup.count("[if mso]") == markup.count("[endif]") == 3


def test_a_mail_loads_no_external_resource() -> None:
    """No image, font or sheet comes from elsewhere, so opening a mail is not observable."""
    for message in (CARD, END):
        markup = html(message, SETTINGS)
        assert Links(markup).fetched == []
        assert "url(" not in markup
        assert "@import" not in markup
        assert {tag for tag, _ in Seen(markup).tags}.isdisjoint({"img", "link", "script", "iframe"})


def test_the_preview_line_shows_the_requester_and_the_call() -> None:
    """The hidden line comes first, and does not belong to the text of the mail."""
    markup = html(CARD, SETTINGS)
    hidden = markup[markup.index('class="preheader"') :].partition("</div>")[0]
    assert "display: none" in hidden
    assert "From Riley Voss · amount: 2500" in hidden
    assert "From Riley Voss" not in text_of_html(markup)


@pytest.mark.parametrize("value", ["כנס בתל אביב (3 ימים)", "مؤتمر 250 EUR", "a\u202egnp.exe"])
def test_right_to_left_text_does_not_reorder_other_text(value: str) -> None:
    """Each value has its own direction, and direction overrides are written out."""
    markup = html(make_message(hint=value, call=make_call(purpose=value)), SETTINGS)
    seen = Seen(markup)
    shown = [one for tag, one in seen.tags if "value" in (one.get("class") or "").split()]
    assert shown
    assert all(one["dir"] == "auto" for one in shown)
    for part in (markup, plain_text(make_message(call=make_call(purpose=value)), SETTINGS)):
        assert not set(part) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def test_a_button_link_encodes_spaces_and_line_breaks_as_rfc6068() -> None:
    """RFC 6068: a space is %20 and not a plus, a line break is %0D%0A, an ampersand is %26."""
    link = mailto("a+b@c.example", "Re: x & y", "approve\r\ndays: 3 + 4")
    assert link == (
        "mailto:a+b@c.example?subject=Re%3A%20x%20%26%20y&body=approve%0D%0Adays%3A%203%20%2B%204"
    )


@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=80))
def test_foreign_text_never_creates_a_header(tool: str, name: str, reason: str) -> None:
    """CVE-2024-6923: any text in a name, a call or a reason leaves the header fields the same."""
    usual = parsed(make_notice()).keys()
    message = make_notice(
        name=name,
        headline=reason,
        text=reason,
        reply_to=f"<{reason}@x>",
        call=make_call(tool or "x"),
    )
    raw = render(message, SETTINGS).as_bytes()
    mail = email.message_from_bytes(raw, policy=email.policy.default)
    assert mail.keys() == usual
    assert b"\r\n\r\n" in raw
    head = raw.partition(b"\r\n\r\n")[0]
    assert b"\r" not in head.replace(b"\r\n", b"")
    assert b"\n" not in head.replace(b"\r\n", b"")


def test_a_mail_with_many_arguments_stays_below_the_gmail_limit() -> None:
    """Inline styles make a mail longer; forty arguments still fit."""
    call = make_call(**{f"argument_{n}": "word " * 100 for n in range(40)})
    assert len(html(make_message(call=call), SETTINGS).encode()) < 102_000
