"""HTML is read as a person sees it: quoted, hidden and hostile text is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from answered import Verdict, verdict_of
from channels.email.clients import PHONE, WORDS
from channels.email.test_clients import NUMBER, SETTINGS
from html_text import text_of_html
from signoff.channels.email.outbound.render import html
from signoff.channels.email.parsing.markup import lines_of_html
from signoff.channels.email.parsing.quoting import read_reply

OURS = html(NUMBER, SETTINGS)
BODY = OURS[OURS.index("<body") : OURS.index("</body")].replace("<body", "<div") + "</div>"
HEADER = "<b>{0[0]}:</b> Signoff<br><b>{0[1]}:</b> 2 March 2026 10:00<br><b>{0[2]}:</b> Mara<br>"
OUTLOOK = f"{HEADER}<b>{{0[3]}}:</b> Approval needed"
ENGLISH = OUTLOOK.format(("From", "Sent", "To", "Subject"))
GERMAN = OUTLOOK.format(("Von", "Gesendet", "An", "Betreff"))

CONTAINERS = {
    "gmail": '<div class="gmail_quote"><div dir="ltr" class="gmail_attr">On Mon, Mar 2, 2026 at '
    '10:00 AM Signoff wrote:<br></div><blockquote class="gmail_quote">{}</blockquote></div>',
    "apple": '<div><blockquote type="cite"><div>On 2 Mar 2026, at 10:00, Signoff wrote:</div>'
    "<br>{}</blockquote></div>",
    "thunderbird": '<div class="moz-cite-prefix">Am 02.03.26 um 10:00 schrieb Signoff:<br></div>'
    '<blockquote type="cite">{}</blockquote>',
    "outlook web": '<div id="appendonsend"></div><hr><div id="divRplyFwdMsg" dir="ltr">'
    f"<font>{ENGLISH}</font></div>{{}}",
    "outlook quoted": f'<div id="x_divRplyFwdMsg">{ENGLISH}</div>{{}}',
    "outlook desktop": '<div style="border:none;border-top:solid #E1E1E1 1.0pt">'
    f"<p class=MsoNormal>{GERMAN}</p></div>{{}}",
    "outlook mobile": '<div id="mail-editor-reference-message-container"><div class='
    f'"ms-outlook-mobile-reference-message">{ENGLISH}</div>{{}}</div>',
    "outlook mac": f'<span id="OLK_SRC_BODY_SECTION">{ENGLISH}{{}}</span>',
    "yahoo": '<div id="yahoo_quoted_1" class="yahoo_quoted">On Monday, March 2, 2026 at 10:00, '
    "Signoff wrote:{}</div>",
    "proton": '<div class="protonmail_quote">On Monday, Signoff wrote:<br>{}</div>',
    "gmx": '<div name="quote"><div><b>Gesendet:</b> Montag<br><b>Von:</b> Signoff</div>{}</div>',
    "zimbra": '<hr><div class="zimbra_quote">{}</div>',
    "lotus": "<br><font size=1 color=#5f5f5f>From: </font><font>Signoff</font><br><font>To: Mara"
    "</font><br><font>Date: 02.03.2026 10:00</font><br><font>Subject: Approval</font><hr>{}",
    "attributed": "<div>On Mon, Mar 2, 2026 at 10:00 AM Signoff wrote:</div>{}",
    "nothing": "{}",
    "a table": "<table><tr><td>{}</td></tr></table>",
}
WAYS = {
    "div": '<div dir="ltr">{}</div><br>',
    "p": "<p class=MsoNormal>{}<o:p></o:p></p><p class=MsoNormal><o:p>&nbsp;</o:p></p>",
    "bare": "{}<br><br>",
    "nested": '<html><head><style>p{{}}</style></head><body><div><div><span style="font-size:'
    '12pt">{}</span></div></div>',
    "table": "<table><tbody><tr><td>{}</td></tr></tbody></table>",
}


def answered(markup: str) -> Verdict:
    """Return the answer of an HTML mail."""
    return verdict_of(read_reply(text_of_html(markup)).answer)


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_our_own_html_decides_nothing(container: str) -> None:
    """The HTML that we sent is never an answer, however a program wraps it."""
    for above in ("", "<div><br></div>", "<div>Sent from my iPhone</div>"):
        for document in (BODY, OURS):
            reply = read_reply(text_of_html(above + container.format(document)))
            templates: tuple[JsonValue, ...] = (None, {"approved_days": 0})
            for template in templates:
                assert verdict_of(reply.answer, template) is Verdict.UNCLEAR, reply


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CONTAINERS)
def test_an_answer_above_is_understood(name: str, way: str) -> None:
    """The person's words above the quotation are read, in ten languages."""
    container, words = CONTAINERS[name], WAYS[way]
    # Three languages for each pair, so that each language meets many pairs.
    first = list(CONTAINERS).index(name) + list(WAYS).index(way)
    for language in [*WORDS, *WORDS][first % len(WORDS) :][:3]:
        yes, no = WORDS[language]
        for end in ("", f"<div>{PHONE[language]}</div>"):
            page = end + container.format(BODY)
            assert answered(words.format(yes) + page) is Verdict.APPROVE, yes
            assert answered(words.format(no) + page) is Verdict.REJECT, no


@pytest.mark.parametrize("name", ["gmail", "apple", "thunderbird", "yahoo", "proton"])
def test_an_answer_below_is_understood(name: str) -> None:
    """Text after a closed quotation is the person's again."""
    assert answered(CONTAINERS[name].format(BODY) + "<div>approve</div>") is Verdict.APPROVE


@pytest.mark.parametrize(
    "hidden",
    [
        '<div style="display:none">{}</div>',
        '<div style="display: NONE !important">{}</div>',
        '<span style="color:red;visibility: hidden">{}</span>',
        '<div style="font-size:0px;line-height:0">{}</div>',
        '<div style="max-height:0;overflow:hidden">{}</div>',
        '<p style="opacity:0">{}</p>',
        "<p hidden>{}</p>",
        '<font color="white">{}</font>',
        '<span style="color:#FFFFFF">{}</span>',
        '<span style="mso-hide:all">{}</span>',
        '<div style="position:absolute; left:-9999px">{}</div>',
        '<span style="color: transparent">{}</span>',
        '<div style="height:0;overflow:hidden">{}</div>',
        '<span style="font-size:0.1px">{}</span>',
        '<span style="text-decoration:line-through">{}</span>',
        "<s>{}</s>",
        "<del>{}</del>",
        "<!-- {} -->",
        "<!--[if mso]>{}<![endif]-->",
        "<title>{}</title>",
        "<textarea>{}</textarea>",
        "<template>{}</template>",
        "<select><option>{}</option></select>",
        "<style>{}</style>",
        "<script>{}</script>",
        "<noscript>{}</noscript>",
        "<xmp>{}</xmp>",
    ],
)
def test_hidden_html_text_is_not_read(hidden: str) -> None:
    """Hidden text is neither an answer nor a part of one."""
    assert answered(hidden.format("approve")) is Verdict.UNCLEAR
    assert text_of_html(f"{hidden.format('no')}<p>approve</p>").strip() == "approve"
    assert answered(f"<p>reject{hidden.format('ed')}</p>") is Verdict.REJECT


def test_white_text_on_a_dark_page_is_seen() -> None:
    """Dark mode writes white text on a background of its own."""
    page = '<div style="background-color:#000"><p style="color:#fff">approve</p></div>'
    assert answered(page) is Verdict.APPROVE


HOSTILE = {
    "margins": "<p style='margin-top:999999em'>x</p>" * 30_000,
    "paddings": "<div style='padding:99999em;line-height:99999'>x" * 20_000,
    "widths": "<table width=99999999 cellpadding=9999><td colspan=65534 rowspan=65534>x" * 13_000,
    "letters": "<p style='letter-spacing:9999em;text-indent:9999em'>x" * 18_000,
    "nested tables": "<table><tr><td>" * 70_000 + "x",
    "side by side": "<table><tr>" + "<td style='border-left:1px solid'>x" * 28_000,
    "numbers": "<ol start=999999999999>" * 20_000 + "<li>x" * 100_000,
    "blank lines": f"<pre>{chr(10) * 1_000_000}x</pre>",
    "styles of their own": "".join(f"<p style='color:#{n:06x}'>x</p>" for n in range(30_000)),
    "selectors": f"<style>{'div div div div b{color:red}' * 1_100}</style>{'<div>' * 200}"
    + "<b>x</b>" * 99_000,
    "braces": f"<style>{'{' * 900_000}",
    "brackets of styles": f"<p style='{'(' * 900_000}'>x",
    "media": f"<style>{'@media x{' * 90_000}",
    "conditions": "<!--[if mso]>x<![endif]-->" * 38_000,
    "hidden": "<div style=display:none><p>x</div>" * 30_000,
    "pictures": "<img alt='x'>" * 75_000,
    "links": "<a href=x>y</a>" * 65_000,
    "names": "<p class='a b c d e f g h i j'>x" * 32_000,
    "attributions": "On 3 May 2026, x wrote:<blockquote>x</blockquote>" * 20_000,
    "divisions": "<div>" * 209_715,
    "cells": "<table><tr>" + "<td>x" * 209_000,
    "paragraphs": "<p>x" * 262_000,
    "lists": "<ul><li>" * 131_000,
    "breaks": "<br>" * 262_000,
    "entities": "&amp;" * 209_000,
    "open brackets": "<" * 1_048_000,
    "attributes": "<a " + "x=1 " * 262_000 + ">",
    "comments": "<!--" * 262_000,
    "styles": "<div style='" + "a:b;" * 262_000 + "'>x",
    "white": "<div style='color:white'>" * 250 + "<font color=white>y</font>" * 40_000,
    "quotations": "<blockquote>x</blockquote>" * 40_000,
    "cuts": "<div id=appendonsend></div>" * 40_000,
    "doctype": "<!DOCTYPE" + "[<!ENTITY a 'b'>" * 60_000,
}


@pytest.mark.parametrize("markup", HOSTILE.values(), ids=HOSTILE)
def test_hostile_html_never_approves(markup: str) -> None:
    """Reading ends and finds no approval; benchmarks/layouts.py measures the time."""
    reply = read_reply(lines_of_html(markup))
    assert reply.doubt or verdict_of(reply.answer) is Verdict.UNCLEAR


@pytest.mark.soak
def test_quotation_marks_of_html_are_seen_on_both_sides() -> None:
    """A browser shows marks around `<q>`: what is between them is cited."""
    assert text_of_html("<p><q>go ahead</q>, he says</p>") == '"go ahead", he says'
    assert answered("<p><q>go ahead</q></p>") is Verdict.UNCLEAR


def test_oversized_pages_are_read_up_to_the_limit() -> None:
    """Text above a limit is read, and the rest is cut off.

    Style sheets apply to the whole page: if one is too long, no text counts as seen.
    """
    for below in (*HOSTILE.values(), "<div>" * 3_000 + "approve"):
        first, *_ = lines_of_html(f"<p>no, too dear</p>{below}")
        assert first.text == "no, too dear" or ("<style>" in below and first.doubt)


def test_deep_nesting_hides_no_text() -> None:
    """A page of 300 levels, where lxml stops by default, is read completely."""
    page = f"<p>approve</p>{'<div>' * 300}only{'</div>' * 300}<p>half</p>"
    assert text_of_html(page).split() == ["approve", "only", "half"]


def test_entities_and_declarations_do_no_harm() -> None:
    """No entity is expanded, no declared encoding is followed, and nothing is fetched."""
    declared = '<?xml version="1.0" encoding="utf-16"?><p>approve</p>'
    assert answered(declared) is Verdict.APPROVE
    outside = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><p>&x; hello</p>'
    assert "root:" not in text_of_html(outside)
    assert text_of_html("<p>a\0b\ud800</p>").strip() == "ab?"


@given(
    st.lists(
        st.sampled_from(
            [
                *("<div>", "</div>", "<p>", "<blockquote>", "</blockquote>", "<br>", "<table>"),
                *("<tr><td>", "</table>", "<li>", "<!--", "-->", "<style>", "</style>", "<pre>"),
                *('<div id="appendonsend">', '<b class="gmail_quote">', "&gt;", "&#x3e;", "&"),
                *("<p style='display:none'>", "approve", "no", " ", "\n", "\x00", "<", ">", '"'),
            ]
        ),
        max_size=30,
    ).map("".join)
    | st.text(max_size=200)
)
def test_any_markup_is_read(markup: str) -> None:
    """No markup raises an error."""
    assert isinstance(text_of_html(markup), str)
