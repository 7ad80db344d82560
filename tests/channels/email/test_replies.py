"""Whole replies of mail programs: charsets, encodings, parts and threads."""

from __future__ import annotations

import base64
import quopri

import pytest

from answered import Verdict, verdict_of
from channels.email.clients import WORDS, marked
from channels.email.test_clients import MAILS, NOTICE, NUMBER, SETTINGS
from signoff.channels.email.outbound.render import render
from signoff.channels.email.parsing.reading import IncomingMail, read_mail, tokens_in
from signoff.channels.email.settings import EmailSettings
from signoff.channels.pipeline.port import Message
from signoff.channels.pipeline.reply_tokens import new_token

TOKEN = new_token()
CHARSETS = {
    "en": ("us-ascii", "utf-8", "windows-1252"),
    "de": ("utf-8", "iso-8859-1", "iso-8859-15", "windows-1252"),
    "fr": ("utf-8", "windows-1252"),
    "es": ("utf-8", "iso-8859-1", "windows-1252"),
    "pt": ("utf-8", "iso-8859-1", "windows-1252"),
    "it": ("utf-8", "iso-8859-1", "windows-1252"),
    "nl": ("utf-8", "iso-8859-1", "windows-1252"),
    "ja": ("utf-8", "iso-2022-jp", "shift_jis", "euc-jp", "cp932"),
    "ko": ("utf-8", "euc-kr", "ks_c_5601-1987", "cp949"),
    "zh": ("utf-8", "gb2312", "gbk", "gb18030", "utf-16"),
}
ENCODINGS = {
    "8bit": lambda body: body,
    "base64": base64.encodebytes,
    "quoted-printable": quopri.encodestring,
    "BASE64 ": base64.b64encode,
}


def mail(body: bytes, head: str = "Content-Type: text/plain; charset=utf-8\r\n") -> IncomingMail:
    """Read a reply of Mara's."""
    top = (
        f"From: Mara Lind <mara@example.com>\r\nTo: approvals+{TOKEN}@signoff.example\r\n"
        "Subject: Re: Approval needed\r\nMessage-ID: <r@example.com>\r\n"
    )
    return read_mail(f"{top}{head}\r\n".encode() + body)


def said(read: IncomingMail) -> Verdict:
    """Return the decision of the reply."""
    return verdict_of(read.own_text)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("language", WORDS)
def test_every_charset_of_a_language_is_read(language: str, encoding: str) -> None:
    """Answers in ten languages are read in the usual charsets."""
    for charset in CHARSETS[language]:
        head = (
            f"Content-Type: text/plain; charset={charset}\r\n"
            f"Content-Transfer-Encoding: {encoding}\r\n"
        )
        for words, verdict in zip(WORDS[language], (Verdict.APPROVE, Verdict.REJECT), strict=True):
            body = words.encode(charset, "replace" if charset == "us-ascii" else "strict")
            assert said(mail(ENCODINGS[encoding](body), head)) is verdict, charset


@pytest.mark.parametrize(
    ("encoding", "body", "text"),
    [
        ("quoted-printable", b"approve=\r\n: fine", "approve: fine"),
        ("quoted-printable", b"approve=zz fine=", "approve=zz fine"),
        ("quoted-printable", b"reject=3A no=20\r\n\r\n=", "reject: no"),
        ("base64", b"YXBwcm92ZQ", "approve"),
        ("base64", b"YXBw\r\n cm92\tZQ==\r\n", "approve"),
        ("base64", b"YXBwcm92Z", "approv"),
        ("base64", b"****", ""),
        ("x-unknown", b"approve", "approve"),
    ],
)
def test_damaged_encodings_never_turn_into_another_word(
    encoding: str, body: bytes, text: str
) -> None:
    """After any damage, the remaining text never becomes another word."""
    head = f"Content-Type: text/plain\r\nContent-Transfer-Encoding: {encoding}\r\n"
    assert mail(body, head).own_text == text


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        (
            "approve \r\n\r\nOn Mon, 2 Mar 2026 at 10:00, Signoff wrote:\r\n> approve \r\n",
            "approve",
        ),
        ("ok, but only if he \r\npays", "unclear"),
        ("ok, \r\nbut only half", "unclear"),
        ("yes: this is fine unless \r\nhe is away", "unclear"),
        ("no, it is far \r\ntoo dear", "reject"),
        (" >approve\r\nhello", "unclear"),
    ],
)
def test_flowed_text_is_read(body: str, verdict: str) -> None:
    """Flowed lines (RFC 3676) are joined before they are read."""
    head = "Content-Type: text/plain; charset=utf-8; format=flowed; delsp=yes\r\n"
    assert said(mail(body.encode(), head)).value == verdict


@pytest.mark.parametrize(
    "part",
    [
        "Content-Type: text/calendar; method=REPLY\r\n\r\nBEGIN:VCALENDAR\r\napprove\r\n",
        "Content-Type: text/plain; name=approve.txt\r\n\r\napprove\r\n",
        'Content-Type: text/plain\r\nContent-Disposition: attachment; filename="x"\r\n\r\nyes\r\n',
        "Content-Type: text/html\r\nContent-Disposition: attachment\r\n\r\n<p>yes</p>\r\n",
        "Content-Type: message/rfc822\r\n\r\nSubject: x\r\n\r\napprove\r\n",
        "Content-Type: application/pgp-signature\r\n\r\napprove\r\n",
        "Content-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\nYXBwcm92ZQ==\r\n",
        "Content-Type: text/x-vcard\r\n\r\nFN:approve\r\n",
    ],
)
def test_attachments_are_not_answers(part: str) -> None:
    """Calendar parts, vCards, files, pictures and inner mails are not answers."""
    head = "Content-Type: multipart/mixed; boundary=x\r\n"
    alone = f"--x\r\n{part}\r\n--x--\r\n".encode()
    assert mail(alone, head).own_text == ""
    words = b"--x\r\nContent-Type: text/plain\r\n\r\nno, too dear\r\n"
    assert said(mail(words + alone, head)) is Verdict.REJECT
    assert said(mail(alone.replace(b"--x--", b"--x") + words[5:] + b"--x--", head)) is (
        Verdict.REJECT
    )


@pytest.mark.parametrize("message", [NUMBER, NOTICE], ids=["card", "notice"])
@pytest.mark.parametrize(
    "subject",
    [
        "Re: Approval needed: time_off (finance) #abcd",
        "AW: WG: Fwd: [EXTERN] Something else entirely",
        "",
        "=?iso-8859-1?Q?R=E9f=E9rence_chang=E9e?=",
        "=?utf-8?B?5om/6KqN?= =?utf-8?B?44GX44G+44GZ?=",
    ],
)
def test_the_token_leads_to_the_request_and_no_subject_does(message: Message, subject: str) -> None:
    """A reply to a card or a reminder is found in any thread; its quotation is ignored."""
    ours = render(message, SETTINGS)
    head = f"From: mara@example.com\r\nTo: {ours['Reply-To']}\r\nSubject: {subject}\r\n\r\n"
    quote = f"On Mon, 2 Mar 2026 at 10:00, Signoff wrote:\r\n{marked(MAILS['notice'])}"
    read = read_mail(f"{head}approve 3\r\n\r\n{quote}".encode())
    settings: EmailSettings = SETTINGS
    assert tokens_in(read.recipients, settings.mailbox) == (message.token,)
    assert (read.own_text, read.automatic) == ("approve 3", "")


def test_a_delegate_decides_with_their_own_words_alone() -> None:
    """The quoted mail and answer of the first approver do not answer the escalated copy."""
    first = f"approve\n\nOn Mon, 2 Mar 2026, Signoff wrote:\n{marked(MAILS['card'])}"
    for quote in (
        f"-----Original Message-----\nFrom: Mara\nSent: Monday\nTo: Cleo\n\n{first}",
        f"On Tue, 3 Mar 2026 at 9:00, Mara <mara@example.com> wrote:\n\n{marked(first)}",
        f"Begin forwarded message:\n\n{first}",
        f"---------- Forwarded message ---------\nFrom: Mara\nDate: x\nTo: y\n\n{first}",
        f"Von: Mara\nGesendet: Dienstag\nAn: Cleo\nBetreff: WG: Approval needed\n\n{first}",
    ):
        assert said(mail(quote.encode())) is Verdict.UNCLEAR
        assert said(mail(f"no, not yet due\n\n{quote}".encode())) is Verdict.REJECT
