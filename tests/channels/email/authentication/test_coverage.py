"""Header fields that a signature does not cover cannot change the answer of a mail."""

from __future__ import annotations

import pytest

from signoff.channels.email.authentication.coverage import is_read_as_signed
from signoff.channels.email.parsing.mime import parse_mail

OPEN = ("from", "to", "subject", "date", "mime-version")
SEALED = (*OPEN, "content-type", "content-transfer-encoding")


def mail(*fields: str, body: str) -> bytes:
    """Return a mail with these fields."""
    return "\r\n".join([*fields, "", body]).encode()


def multipart(kind: str, *parts: tuple[str, str], boundary: str = "b1", before: str = "") -> bytes:
    """Return a multipart mail; each part has a type and a text."""
    lines = [f"Content-Type: multipart/{kind}; boundary={boundary}", "", *filter(None, [before])]
    for media_type, text in parts:
        lines += ["--b1", *([f"Content-Type: {media_type}"] if media_type else []), "", text]
    return "\r\n".join([*lines, "--b1--", ""]).encode()


PLAIN, HTML = ("text/plain; charset=utf-8", "approve"), ("text/html", "<p>approve</p>")
IMAGE = ("image/png; name=logo.png", "x")

AS_WRITTEN = {
    "no type at all": mail("From: a@b.example", body="approve"),
    "plain text": mail("Content-Type: text/plain; charset=utf-8", body="approve\r\n\r\nMara"),
    "with a quoted card": mail(
        "Content-Type: text/plain",
        body="approve\r\n\r\nOn Mon, Signoff <a@b.example> wrote:\r\n> x <b>y</b> =3D\r\n",
    ),
    "quoted-printable": mail(
        "Content-Type: text/plain; charset=utf-8",
        "Content-Transfer-Encoding: quoted-printable",
        body="genehmigt\r\n\r\nsch=C3=B6ne Gr=C3=BC=C3=9Fe",
    ),
    "base64": mail(
        "Content-Type: text/plain; charset=utf-8",
        "Content-Transfer-Encoding: base64",
        body="YXBwcm92ZQ0KDQpNYXJh",
    ),
    "Gmail": multipart("alternative", PLAIN, HTML),
    "with a picture": multipart("mixed", PLAIN, IMAGE),
    "Outlook, with a logo": multipart("related", HTML, IMAGE),
    "with a signature of S/MIME": multipart("signed", PLAIN, ("application/pkcs7-signature", "x")),
    "less than": mail("Content-Type: text/plain", body="approve: 3 < 5 & 7 > 6, R&D"),
}

MADE_ANEW = {
    "a comment, as HTML": mail("Content-Type: text/html", body="<!-- no -->approve"),
    "an element, as HTML": mail("Content-Type: text/html", body="approve <not yet>"),
    "any HTML": mail("Content-Type: text/html", body="<p>approve</p>"),
    "HTML, as text": mail("Content-Type: text/plain", body="approve\r\n<b>not</b>"),
    "entities, as text": mail("Content-Type: text/plain", body="approve &not;"),
    "wide letters": mail("Content-Type: text/plain; charset=utf-16le", body="a\0p\0p\0"),
    "escapes with another encoding": mail("Content-Type: text/plain", body="approve=\r\n not"),
    "an escaped letter": mail("Content-Type: text/plain", body="approve=20"),
    "words, as base64": mail(
        "Content-Type: text/plain",
        "Content-Transfer-Encoding: base64",
        body="no way YXBwcm92ZQ==",
    ),
    "parts behind words": multipart("mixed", PLAIN, before="I would not say this:"),
    "another boundary": multipart("mixed", PLAIN, boundary="b2"),
    "the beginning of the boundary": multipart(
        "mixed",
        ("text/plain", "I quote:\r\n--b\r\nContent-Type: text/plain\r\n\r\napprove"),
        boundary="b",
    ),
    "parts without types": multipart("mixed", ("", "approve")),
    "both texts of alternatives": multipart("mixed", PLAIN, HTML),
    "one of two texts": multipart("alternative", PLAIN, ("text/plain", "but not now")),
    "a digest": multipart("digest", PLAIN),
    "a report": multipart("report", PLAIN),
    "a part alone": multipart("x-other", PLAIN),
}


@pytest.mark.parametrize("raw", AS_WRITTEN.values(), ids=AS_WRITTEN)
def test_ordinary_fields_are_read_as_signed(raw: bytes) -> None:
    """It is read as it was signed, whether or not the signature covers these fields."""
    assert is_read_as_signed(parse_mail(raw), OPEN)
    assert is_read_as_signed(parse_mail(raw), SEALED)


@pytest.mark.parametrize("raw", MADE_ANEW.values(), ids=MADE_ANEW)
def test_ambiguous_fields_need_coverage_by_the_signature(raw: bytes) -> None:
    """Another mail could be made of it, unless the signature covers the fields that matter."""
    assert not is_read_as_signed(parse_mail(raw), OPEN)
    assert is_read_as_signed(parse_mail(raw), SEALED)


def test_each_of_the_two_fields_is_looked_at() -> None:
    """Each of the two fields has to be covered for itself."""
    escaped = parse_mail(mail("Content-Type: text/plain", body="approve=20"))
    assert not is_read_as_signed(escaped, (*OPEN, "content-type"))
    page = parse_mail(mail("Content-Type: text/html", body="<p>approve</p>"))
    assert not is_read_as_signed(page, (*OPEN, "content-transfer-encoding"))
    assert is_read_as_signed(page, (*OPEN, "content-type"))
