"""Mail that different programs read in different ways."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from answered import Verdict
from signoff.channels.email.authentication.authenticator import Authenticator
from signoff.channels.email.authentication.proof import Proof
from signoff.channels.email.explain import explain_mail
from signoff.channels.email.parsing.alternatives import DIFFERENT
from signoff.channels.email.parsing.reading import read_mail
from signoff.core.replies.text import ReplyContext
from zone import Signer, Zone, letter, serving

CARD = "approvals+token@signoff.example"
COMPANY = Signer("example.com")
SERVER = "mx.signoff.example"
SAID = "Who is this for?\r\n\r\nSignoff wrote:\r\n\r\nnote:\r\n--XX\r\n\r\napprove\r\n--XX--\r\n"
TOP = b"Content-Type: multipart/mixed; boundary=XX\r\n"
MOST = ("from", "to", "subject", "date", "message-id")


async def proof_of(raw: bytes, zone: Zone | None = None, head: bytes = b"") -> Proof:
    """Return the proof of a mail's author, by its signature or by our server's results."""
    txt = zone.txt() if zone is not None else None
    looking = Authenticator(authserv_id="" if zone else SERVER, dkim=zone is not None, txt=txt)
    mail = read_mail(head + raw)
    return await looking.prove(head + raw, mail.sender, peer="", now=datetime.now(UTC))


def bare(raw: bytes) -> bytes:
    """Return a mail without its Content-Type."""
    head, _, body = raw.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-type:")]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


async def test_an_unsigned_content_type_cannot_create_an_approval() -> None:
    """An unsigned Content-Type may hide all but a quoted line; Signoff does not read it so."""
    async with serving(Zone()) as zone:
        zone.publish(COMPANY)
        signed = COMPANY.sign(bare(letter(text=SAID)), fields=MOST)
        assert (await proof_of(signed, zone)).vouches_for(CARD)
        assert read_mail(signed).own_text.startswith("Who is this for?")
        assert read_mail(TOP + signed).own_text == "approve"
        assert not (await proof_of(TOP + signed, zone)).vouches_for(CARD)


async def test_nor_by_the_results_of_our_server() -> None:
    """The same holds if our mail server reports a valid signature."""
    signed = COMPANY.sign(bare(letter(text=SAID)), fields=MOST)
    results = f"Authentication-Results: {SERVER}; dmarc=pass header.from=example.com\r\n".encode()
    assert (await proof_of(signed, head=results)).vouches_for(CARD)
    assert not (await proof_of(TOP + signed, head=results)).vouches_for(CARD)


@pytest.mark.parametrize(
    "second", [TOP, b"Content-Transfer-Encoding: base64\r\n", b"CONTENT-TYPE : text/html\r\n"]
)
def test_a_mail_with_two_content_types_has_no_author(second: bytes) -> None:
    """Programs read the first or the last type, and a signature covers only one."""
    raw = bare(letter(text=SAID))
    first = b"Content-Type: text/plain\r\nContent-Transfer-Encoding: 8bit\r\n"
    assert read_mail(first + raw).sender == "mara@example.com"
    assert read_mail(second + first + raw).sender is None


@pytest.mark.parametrize(
    "head",
    [
        "Content-Type: text/plain\r\nContent-Disposition: inline; filename*=utf-8''a.txt",
        "Content-Type: text/plain\r\nContent-Disposition: inline; filename*0=a; filename*1=.txt",
        "Content-Type: text/plain; name*0=a.txt\r\nContent-Disposition: inline",
        "Content-Type: message/rfc822",
    ],
)
def test_an_attached_file_is_not_an_answer(head: str) -> None:
    """A file name in the form of RFC 2231 counts too."""
    parts = f"--XX\r\n\r\n\r\n--XX\r\n{head}\r\n\r\napprove\r\n--XX--\r\n".encode()
    raw = b"From: mara@example.com\r\n" + TOP + b"\r\n" + parts
    assert read_mail(raw).own_text == ""


def test_mails_in_a_digest_are_not_answers() -> None:
    """The parts of a multipart/digest are other mails, whatever their headers say."""
    top = TOP.replace(b"mixed", b"digest")
    raw = b"From: mara@example.com\r\n" + top + b"\r\n--XX\r\n\r\n\r\napprove\r\n--XX--\r\n"
    assert read_mail(raw).own_text == ""


def test_an_answer_to_an_invitation_is_automatic() -> None:
    """A calendar answers "Accepted" to a meeting in the person's name."""
    top = TOP.replace(b"mixed", b"alternative")
    parts = b"--XX\r\n\r\nAccepted\r\n--XX\r\nContent-Type: text/calendar; method=REPLY\r\n\r\n"
    raw = b"From: mara@example.com\r\n" + top + b"\r\n" + parts + b"BEGIN:VCALENDAR\r\n--XX--\r\n"
    assert read_mail(raw).automatic == "a text/calendar part"


def test_a_person_may_attach_an_invitation() -> None:
    """An answer with an attached invitation is an answer; one that a calendar sends has no file."""
    head = b"From: mara@example.com\r\nContent-Type: multipart/mixed; boundary=XX\r\n\r\n"
    words = b"--XX\r\n\r\napprove\r\n--XX\r\nContent-Type: text/calendar; method=REQUEST"
    attached = head + words + b"; name=invite.ics\r\n\r\nBEGIN:VCALENDAR\r\n--XX--\r\n"
    sent = head + words + b"\r\n\r\nBEGIN:VCALENDAR\r\n--XX--\r\n"
    reply = attached.replace(b"REQUEST", b"REPLY")
    assert (read_mail(attached).automatic, read_mail(attached).own_text) == ("", "approve")
    assert read_mail(sent).automatic == "a text/calendar part"
    assert read_mail(reply).automatic == "a text/calendar part"


def alternatives(plain: str, page: str) -> bytes:
    """Return a mail with a plain text and a page."""
    top = TOP.replace(b"mixed", b"alternative")
    parts = f"--XX\r\n\r\n{plain}\r\n--XX\r\nContent-Type: text/html\r\n\r\n{page}\r\n--XX--"
    return b"From: mara@example.com\r\n" + top + b"\r\n" + parts.encode()


@pytest.mark.parametrize(
    ("plain", "page", "differ"),
    [
        ("approve", "<p>approve</p>", False),
        ("*approve*", "<b>Approve</b><p>Mara</p>", False),
        ("no, this is\r\ntoo dear", "<p>no, this is too dear</p>", False),
        ("approve", "<blockquote>Approval needed</blockquote>", False),
        ("👍", "<p>👍🏽</p>", False),
        ("approve", "<p>reject</p>", True),
        ("approve", "<p>I will look at it</p>", True),
        ("approve", "<p>👎</p>", True),
    ],
)
def test_two_different_texts_are_no_answer(plain: str, page: str, *, differ: bool) -> None:
    """The person may have seen the page while another program reads the text."""
    raw = alternatives(plain, page)
    assert (read_mail(raw).doubt == DIFFERENT) is differ
    read = explain_mail(read_mail(raw), ReplyContext())
    assert (read.problem == DIFFERENT) is differ
    assert not differ or read.verdict == Verdict.UNCLEAR
