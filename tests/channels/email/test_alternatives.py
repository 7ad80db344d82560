"""The parts of a mail have to agree, because it is unknown which one its author saw."""

from __future__ import annotations

from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.email.test_programs import mail
from signoff.channels.email.parsing.alternatives import DIFFERENT, UNREADABLE, essence
from signoff.channels.email.parsing.formats import text_of_enriched, text_of_rtf
from signoff.channels.email.parsing.quoting import AMBIGUOUS, HIDDEN
from signoff.channels.email.parsing.reading import IncomingMail, read_mail

PLAIN, HTML, AMP = "text/plain", "text/html", "text/x-amp-html"
AMP_PAGE = (
    "<!doctype html><html amp4email><head><style amp4email-boilerplate>body{{visibility:hidden}}"
    "</style><style amp-custom>p{{color:#333}}</style></head><body><p>{}</p></body></html>"
)
SIGNED = "Approve\r\n\r\nAnna Smith | CFO\r\nanna@acme.example<mailto:anna@acme.example> | "
RTF = (
    r"{{\rtf1\ansi\ansicpg1252\deff0{{\fonttbl{{\f0\fnil Calibri;}}}}{{\colortbl;\red0\green0\blue0;}}"
    r"{{\*\generator Riched20;}}\uc1\pard\f0\fs22 {}\par}}"
)


def read(*parts: tuple[str, str], kind: str = "alternative") -> IncomingMail:
    """Read a mail of several parts."""
    body = "".join(
        f"--XX\r\nContent-Type: {one}; charset=utf-8\r\n\r\n{text}\r\n" for one, text in parts
    )
    top = (
        f"From: Mara Lind <mara@example.com>\r\nContent-Type: multipart/{kind}; boundary=XX\r\n\r\n"
    )
    return read_mail(f"{top}{body}--XX--\r\n".encode())


SAME = [
    ((PLAIN, "approve"), (HTML, "Approve.")),
    ((PLAIN, "approve"), (PLAIN, "approve")),
    ((PLAIN, "approve"), ("text/enriched", "<bold><param>x</param>approve</bold>")),
    ((PLAIN, "approve"), ("text/richtext", "approve<nl>")),
    ((PLAIN, "approve"), (AMP, AMP_PAGE.format("approve")), (HTML, "approve")),
    ((PLAIN, "approve"), ("text/watch-html", "<p>approve</p>")),
    ((PLAIN, "Genehmigt, schön"), ("text/rtf", RTF.format(r"Genehmigt, sch\'f6n"))),
    ((PLAIN, "承認"), ("application/rtf", RTF.format(r"\u25215?\u-30067?"))),
    ((PLAIN, "👍"), ("application/rtf", RTF.format(r"\u-10179?\u-9139?"))),
    ((PLAIN, "approve"), ("text/calendar", "BEGIN:VCALENDAR")),
    ((PLAIN, " \r\n"), (HTML, "approve")),
    ((PLAIN, "approve"), (HTML, "<p><img src=x></p>")),
    ((PLAIN, "approve"), (HTML, "<p>approve</p><p>Mara</p>")),
    ((PLAIN, "no, this is\r\ntoo dear"), (HTML, "<p>no, this is too dear</p>")),
    ((PLAIN, "approve: 1 234,56 €"), (HTML, "approve: 1&nbsp;234,56&nbsp;&euro;")),
    (
        (PLAIN, "*approve*\r\n\r\n   - a\r\n   - b"),
        (HTML, "<b>approve</b><ul><li>a</li><li>b</li></ul>"),
    ),
    ((PLAIN, "approve\r\n   1. a\r\n   2. b"), (HTML, "approve<ol><li>a</li><li>b</li></ol>")),
    (
        (PLAIN, f"{SIGNED}www.acme.example<http://www.acme.example/>\r\n[cid:image001.png@01D]"),
        (
            HTML,
            "Approve<p>Anna Smith | CFO<br><a>anna@acme.example</a> | www.acme.example<img></p>",
        ),
    ),
    (
        (PLAIN, "approve\r\n[image: logo.png]\r\nACME <https://acme.example/x?y>"),
        (HTML, "approve<br>ACME"),
    ),
    ((PLAIN, "approve 👍"), (HTML, 'approve <img alt="👍🏽">')),
    ((PLAIN, "approve\r\n\r\n> quoted"), (HTML, "<p>approve</p><hr><p>quoted</p>")),
    (
        (PLAIN, "approve\r\n\r\n> quoted"),
        (HTML, '<p>approve</p><div style="border-left:1px solid">quoted</div>'),
    ),
    (
        (PLAIN, f"approve\r\n{'_' * 20}\r\nquoted mail"),
        (HTML, "approve<blockquote type=cite>quoted mail</blockquote>"),
    ),
    ((PLAIN, "[EXTERN]\r\n\r\napprove"), (HTML, "approve")),
    ((PLAIN, "approve\r\n\r\nSent from my iPhone"), (HTML, "approve")),
]

OTHER = [
    ((PLAIN, "approve"), (HTML, "approve, but only half")),
    ((PLAIN, "approve"), (HTML, "<p>approve</p><p>but only half</p>")),
    ((PLAIN, "approve"), (HTML, "<p>approve</p><p>Mara</p><p>but only half</p>")),
    ((PLAIN, "approve, but only half"), (HTML, "approve")),
    ((PLAIN, "approve"), (HTML, "approve?")),
    ((PLAIN, "+1"), (HTML, "-1")),
    ((PLAIN, "👍"), (HTML, "👎")),
    ((PLAIN, "approve 1.5"), (HTML, "approve 15")),
    ((PLAIN, "approve: 100 €"), (HTML, "approve: 100 $")),
    ((PLAIN, "approve 50"), (HTML, "approve 50%")),
    ((PLAIN, "approve"), (PLAIN, "reject")),
    ((PLAIN, "approve"), (HTML, "approve"), (PLAIN, "reject")),
    ((PLAIN, "approve"), ("text/enriched", "<bold>reject</bold>")),
    ((PLAIN, "approve"), (AMP, AMP_PAGE.format("reject")), (HTML, "approve")),
    ((PLAIN, "approve"), ("application/rtf", RTF.format("reject"))),
    ((PLAIN, "approve"), ("text/watch-html", "<p>reject</p>")),
    ((PLAIN, "approve"), ("text/markdown", "reject")),
    ((PLAIN, "approve"), (HTML, "<p style='display:none'>approve</p>")),
    ((PLAIN, "approve"), (HTML, "<blockquote type=cite>Approval needed</blockquote>")),
    *[((PLAIN, "approve"),) * 5],
]


@pytest.mark.parametrize("parts", SAME)
def test_alternatives_with_the_same_words_are_an_answer(parts: tuple[tuple[str, str], ...]) -> None:
    """Layout, links, pictures, emphasis and the person's name do not matter."""
    assert read(*parts).doubt == ""


@pytest.mark.parametrize("parts", OTHER)
def test_alternatives_with_different_words_are_no_answer(
    parts: tuple[tuple[str, str], ...],
) -> None:
    """Programs may show different parts."""
    assert read(*parts).doubt == DIFFERENT


@pytest.mark.parametrize(
    "part",
    [("application/rtf", "garbage"), ("text/rtf", "{\\rtf1" + "{" * 300), ("text/x-odd", "reject")],
)
def test_a_form_that_cannot_be_read_puts_the_mail_in_doubt(part: tuple[str, str]) -> None:
    """Its author may have seen that part, even if there is a plain text too."""
    for kind in ("alternative", "mixed"):
        assert read((PLAIN, "approve"), part, kind=kind).doubt == UNREADABLE
    assert read(part).doubt == UNREADABLE


def test_plain_text_resolves_a_doubt_of_the_html() -> None:
    """Text below a rule counts as quoted if the plain text marks it."""
    page = "<p>approve</p><hr><p>only half</p>"
    assert read((PLAIN, "approve\r\n\r\n> only half"), (HTML, page)).doubt == ""
    for plain in ("approve", "approve\r\nonly half", f"approve\r\n{'_' * 30}\r\nonly half"):
        assert read((PLAIN, plain), (HTML, page)).doubt in (AMBIGUOUS, DIFFERENT)
    faint = "<p>approve <i style='color:#fff'>only half</i></p>"
    for plain in ("approve", "approve only half", "approve\r\n\r\n> only half"):
        assert read((PLAIN, plain), (HTML, faint)).doubt in (HIDDEN, DIFFERENT)


def test_all_texts_of_a_mixed_mail_are_read() -> None:
    """All texts of a mixed mail are read, one below the other; a vCard is not a text."""
    both = read((PLAIN, "approve"), ("text/enriched", "but only half"), kind="mixed")
    assert (both.own_text, both.doubt) == ("approve\nbut only half", "")
    card = read((PLAIN, "approve"), ("text/x-vcard", "FN:reject"), kind="mixed")
    assert (card.own_text, card.doubt) == ("approve", "")


def test_nested_alternatives_are_all_compared() -> None:
    """They are compared at every depth."""
    for page, doubt in (("approve", ""), ("reject", DIFFERENT)):
        inner = (
            "multipart/related; boundary=YY",
            (
                f"--YY\r\nContent-Type: multipart/alternative; boundary=ZZ\r\n\r\n--ZZ\r\nContent-Type: "
                f"text/html\r\n\r\n{page}\r\n--ZZ--\r\n--YY--"
            ),
        )
        assert read((PLAIN, "approve"), inner).doubt == doubt


@pytest.mark.parametrize(
    ("enriched", "text"),
    [
        ("<bold>a</bold> b", "a b"),
        ("a <<b", "a <b"),
        ("<color><param>red</param>a</color>", "a"),
        ("one\ntwo\n\nthree", "one two\nthree"),
        ("a<nl>b", "a\nb"),
    ],
)
def test_enriched_text_is_read(enriched: str, text: str) -> None:
    """It is read as RFC 1896 says."""
    assert text_of_enriched(enriched) == text


@pytest.mark.parametrize(
    ("rtf", "text"),
    [
        (r"{\rtf1 a\par b}", "a\nb"),
        (r"{\rtf1 a\line b\tab c}", "a\nb c"),
        (r"{\rtf1 \{a\}\\}", "{a}\\"),
        (r"{\rtf1\uc2\u8364 ??x\'e9}", "€xé"),
        (r"{\rtf1 a{\v hidden}b{\*\unknown c}d}", "abd"),
        (r"{\rtf1 a}b", "a"),
        ("text", None),
    ],
)
def test_rich_text_is_read(rtf: str, text: str | None) -> None:
    """Its visible text is read, and its hidden text is not."""
    assert text_of_rtf(rtf) == text


words = st.text(st.characters(categories=["L", "Nd"]) | st.sampled_from(" ,.?!:-%€👍"), max_size=30)


@given(
    st.lists(words, min_size=1, max_size=4),
    st.sampled_from(["<div>{}</div>", "{}<br>", "<p>{}</p>"]),
)
def test_a_text_agrees_with_its_html_page(lines: list[str], way: str) -> None:
    """Any text agrees with the page that is made from it."""
    plain = "\r\n".join(lines)
    page = "".join(way.format(escape(line)) for line in lines)
    assert read((PLAIN, plain), (HTML, page)).doubt != DIFFERENT


@given(words, words)
def test_two_different_texts_never_agree(one: str, other: str) -> None:
    """Two different texts never agree."""
    said = read_mail(mail(f"approve {one}", f"<p>approve {escape(other)}</p>"))
    alike = essence(f"approve {one}") == essence(f"approve {other}")
    assert said.doubt or alike
