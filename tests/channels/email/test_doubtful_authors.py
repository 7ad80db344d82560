"""A mail is in doubt if it is unclear which words its author wrote, and only then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.conftest import Channels
from channels.email.clients import marked
from channels.email.test_programs import mail
from channels.email.test_quoting import OUR_MAIL, QUOTES
from channels.test_intake import reply as reply_to
from channels.test_intake import take
from signoff.channels.email.parsing.markup import lines_of_html
from signoff.channels.email.parsing.quoting import AMBIGUOUS, HIDDEN, TOO_LONG, read_reply
from signoff.channels.email.parsing.reading import read_mail
from signoff.core.approvals.approval import State

LONG = "> The agent travel-bot asks whether it may book a trip to Rome for Ada, with a hotel"
RULE = "_" * 32

UNTOLD_TEXTS = {
    "a rule": f"approve\n{RULE}\nonly half",
    "a rule at the top": f"{RULE}\napprove",
    "a heading in no known language": "approve\n-----Mensahe orihinal-----\nonly half",
    "text between rules": "approve\n-----only half-----",
    "a wrapped line, or an answer": f"{LONG}\nonly half\n\napprove",
    "a line between two quoted ones": "> Do you agree?\nonly half\n> Good.\n\napprove",
    "another mark": "approve\n| only half",
    "a bar": "approve\n▌only half",
    "values that look like a header": "approve\nFrom: Berlin\nTo: Paris\nDate: Monday",
    "the same on one line": "approve\nFrom: Berlin To: Paris Date: Monday",
    "letters turned around": "approve \u202eflah ylno\u202c",
}
UNTOLD_PAGES = {
    "a rule": "<p>approve</p><hr><p>only half</p>",
    "an empty reply above a rule": "<div><br></div><hr><p>approve</p>",
    "a greeting above a rule": "<p>Hi Anna,</p><hr><p>approve</p>",
    "a border on the left": '<p>approve</p><div style="border-left:2px solid blue">only half</div>',
    "an empty reply above it": '<br><div style="border-left: 1px #ccc solid">approve</div>',
    "a border by its parts": '<div style="border-left-style:solid;border-left-width:2px">approve</div>',
    "a border among none": "<div style='border:none;border-left:solid blue 1.5pt'>approve</div>",
    "a border of four values": '<p style="border-style:none none none solid">approve</p>',
    "a border by class": "<style>.q{border-left:1px solid}</style><div class=q>approve</div>",
    "a border on the right": '<div dir="rtl" style="border-right:2px solid">approve</div>',
    "a border of a cell": '<table><tr><td style="border-left:1px solid">approve</td></tr></table>',
    "a border above": '<p>approve</p><div style="border-top:solid #E1E1E1 1.0pt">only half</div>',
    "a border below": '<p style="border-bottom:1px solid">approve</p><p>only half</p>',
    "an indented line": "<p>approve</p><blockquote style='margin:0 0 0 40px'>only half</blockquote>",
    "a quotation without a word": "<p>approve</p><blockquote>only half</blockquote>",
}
TOLD_PAGES = {
    "a header below a rule": "<p>approve</p><hr><b>From:</b> a@x.example<br><b>Sent:</b> x<br><b>To:</b> y",
    "a heading below a rule": "<p>approve</p><hr>-----Original Message-----<br>only half",
    "an attribution below a rule": "<p>approve</p><hr>On 2 Mar 2026 at 10:00, Ada wrote:<br>only half",
    "an attribution above a quotation": "<p>approve</p>02.03.2026, 10:00, Ada &lt;a@x.example&gt;:<blockquote>no</blockquote>",
    "a border on a citation": '<p>approve</p><blockquote style="border-left:1px solid">only half</blockquote>',
    "a citation": "<p>approve</p><blockquote type=cite>only half</blockquote>",
    "a rule at the end": "<p>approve</p><hr>",
    "nothing below a rule": "<p>approve</p><hr><p>&nbsp;</p><img src=x>",
    "a disclaimer below a rule": "<p>approve</p><hr><p>This e-mail is confidential.</p>",
    "a phone below a rule": "<p>approve</p><hr><p>Sent from my iPhone</p>",
    "the name below a rule": "<p>approve</p><hr><p>Mara Lind</p><p>CFO, ACME</p>",
    "the name above a cell": "<p>approve</p><p>Mara Lind</p><div style='border-left:1px solid'>CFO</div>",
    "a cell beside another one": "<p>approve</p><table><tr><td>ACME</td><td style='border-left:1px solid'>CFO</td>",
    "a box": '<p style="border:1px solid">approve</p>',
    "a border without width": '<p style="border-left:solid 0">approve</p>',
    "a warning above a rule": "<p>[EXTERN]</p><hr><p>approve</p>",
    "answers between citations": "<blockquote type=cite>a</blockquote>approve<blockquote type=cite>b</blockquote>",
}


@pytest.mark.parametrize("text", UNTOLD_TEXTS.values(), ids=UNTOLD_TEXTS)
def test_an_ambiguous_text_causes_doubt(text: str) -> None:
    """A part of the text may be quoted."""
    assert read_reply(text).doubt in (AMBIGUOUS, HIDDEN)
    assert read_mail(mail(text)).doubt in (AMBIGUOUS, HIDDEN)


@pytest.mark.parametrize("page", UNTOLD_PAGES.values(), ids=UNTOLD_PAGES)
def test_an_ambiguous_page_causes_doubt(page: str) -> None:
    """Programs quote with rules and borders, and people draw them too."""
    for below in ("", "<p>Thanks</p>", "<blockquote type=cite>x</blockquote>"):
        assert read_mail(mail(page=page + below)).doubt == AMBIGUOUS
    assert "half" not in read_mail(mail(page=page)).own_text


@pytest.mark.parametrize("page", TOLD_PAGES.values(), ids=TOLD_PAGES)
def test_a_quotation_below_a_rule_causes_no_doubt(page: str) -> None:
    """Text below a rule or beside a border is recognised by its beginning."""
    read = read_mail(mail(page=page))
    assert (read.own_text.split("\n")[0], read.doubt) == ("approve", "")


def test_a_wrapped_line_of_our_mail_is_recognised() -> None:
    """A wrapped rest of a line is recognised by comparing it with the sent mail."""
    text = f"approve\n\n{LONG}\nin the middle\n> of it.\n"
    sent = [f"{LONG} in the middle".removeprefix("> "), "of it."]
    assert read_reply(text).doubt == AMBIGUOUS
    assert read_reply(text, sent)[:1] == ("approve",)
    assert read_reply(text, sent).doubt == ""


@pytest.mark.parametrize("quote", QUOTES.values(), ids=QUOTES)
def test_known_quotation_styles_cause_no_doubt(quote: str) -> None:
    """Known ways of quoting leave no doubt, with words above or below."""
    for text in (f"approve\n\n{quote}", f"approve\n{quote}", f"approve\n\nMara\n\n{quote}"):
        assert read_reply(text).doubt == ""


BELOW = "but only half"


@pytest.mark.parametrize(
    "gap",
    ["\n" * 250, "\n".join(["> quoted"] * 250) + "\n\n", " \n" * 70_000],
    ids=["blank lines", "a long quotation", "much white space"],
)
def test_text_beyond_the_size_limit_causes_doubt(gap: str) -> None:
    """Visible text is never left out silently."""
    assert read_reply(f"approve\n{gap}{BELOW}").doubt == TOO_LONG
    assert read_reply(f"approve\n{gap}").doubt == ""
    assert read_reply(f"approve\n{gap}> {BELOW}").doubt == ""


@pytest.mark.parametrize(
    "gap",
    [
        "<br>" * 300,
        "<p>&nbsp;</p>" * 3_000,
        "<b></b>" * 9_000,
        f"{'<div>' * 3_000}{'</div>' * 3_000}",
        f"<img src='data:{'A' * 400_000}'>",
        f"<!--{'x' * 400_000}-->",
        f"<pre>{chr(10) * 5_000}</pre>",
    ],
    ids=["breaks", "paragraphs", "elements", "depth", "a picture", "a comment", "lines"],
)
def test_html_text_beyond_the_limits_causes_doubt(gap: str) -> None:
    """Text beyond a limit on size, elements or depth could say anything."""
    assert read_reply(lines_of_html(f"<p>approve</p>{gap}<p>{BELOW}</p>")).doubt == TOO_LONG
    header = "<p>From: a@x.example<br>Sent: Monday<br>To: Mara<br>Subject: x</p>"
    assert read_reply(lines_of_html(f"<p>approve</p>{header}{gap}{BELOW}")).doubt == ""


def test_a_long_thread_causes_no_doubt() -> None:
    """A marked or copied quotation may have any length."""
    thread = OUR_MAIL * 200
    for below in (marked(thread), f"On 2 Mar 2026 at 10:00, Ada wrote:\n{thread}"):
        reply = read_reply(f"approve\n\n{below}")
        assert (reply.answer, reply.doubt) == ("approve", "")


@given(
    st.lists(
        st.sampled_from(["only half", "> x", "", RULE, "| y", "On 3 May 2026, A wrote:", "Mara"]),
        max_size=9,
    )
)
def test_every_line_is_the_persons_or_not_or_in_doubt(below: list[str]) -> None:
    """Each line outside marked or introduced text is the person's or makes the mail doubtful."""
    text = "\n".join(["approve", *below])
    reply = read_reply(text)
    introduced = any("wrote:" in line for line in below)
    kept = reply.answer.count("only half") == below.count("only half")
    assert kept or reply.doubt or introduced


async def test_a_mail_in_doubt_decides_nothing_and_gets_a_reply(channels: Channels) -> None:
    """The reply explains the doubt, and what to do."""
    approval, token = await channels.ask()
    told = await take(channels, reply_to(token, f"approve\n{RULE}\nonly half"))
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    assert [AMBIGUOUS in one.text for one in told] == [True]


@pytest.mark.parametrize(
    "page",
    [
        "<fieldset>approve</fieldset>",
        '<div style="border:1px solid #ccc;padding:8px">approve</div>',
        '<div style="padding-left:1em;background:#eee">approve</div>',
        '<div style="box-shadow:-2px 0 0 #ccc;padding-left:8px">approve</div>',
        '<table><tr><td style="width:3px;background:#ccc"></td><td>approve</td></tr></table>',
        "<table><tr><td bgcolor=#cccccc width=3>&nbsp;</td><td>approve</td></tr></table>",
        '<div style="margin-left:200vw">approve</div>',
        '<div style="margin-top:99999px">approve</div>',
        '<div style="padding-top:9999em">approve</div>',
        '<p style="line-height:99999px">approve</p>',
        "<div popover>approve</div>",
        "<style>body{b{display:none}}</style><b>approve</b>",
        'approve<style>.a::after{content:", but only half"}</style><b class=a></b>',
        "approve<iframe srcdoc='only half'></iframe>",
    ],
)
def test_framed_distant_and_inserted_words_cause_doubt(page: str) -> None:
    """A frame may surround a quotation; distant or style-inserted words may be invisible."""
    head = b"Content-Type: text/html; charset=utf-8\r\n\r\n"
    assert read_mail(head + page.encode()).doubt
