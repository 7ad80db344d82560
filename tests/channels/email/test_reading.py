"""The text of a mail, its sender, and the parts that its author did not write."""

import base64
import pathlib
import quopri
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answered import Verdict, verdict_of
from signoff.channels.email.parsing.mime import DEEPEST, LARGEST_MAIL, MOST_PARTS
from signoff.channels.email.parsing.reading import CUT_MARKER, read_mail, tokens_in
from signoff.core.base.errors import MailTooLarge, UnreadableMail

CORPUS = pathlib.Path(__file__).parents[4] / "shared" / "corpora" / "email"
needs_corpus = pytest.mark.skipif(
    not CORPUS.is_dir(),
    reason="no mail corpus beside the repository (../shared/corpora/email)",
)
TOKEN = "abcdefghijklmnopqrstuvwx23"


def mail_of(
    body: str = "approve", *, headers: str = "", sender: str = "From: Ada <ada@corp.example>\n"
) -> bytes:
    """Return a small mail as bytes."""
    head = f"{sender}To: approvals+{TOKEN}@signoff.example\nSubject: Re: A trip\n{headers}"
    return f"{head}\n{body}".encode()


def multipart(*parts: str, kind: str = "alternative", boundary: str = "xyz") -> tuple[str, str]:
    """Return the header and the body of a multipart of these parts."""
    body = "".join(f"--{boundary}\n{part}\n" for part in parts)
    return f'Content-Type: multipart/{kind}; boundary="{boundary}"\n', f"{body}--{boundary}--\n"


def test_a_plain_reply_is_read() -> None:
    """Each field of an ordinary reply is read."""
    mail = read_mail(
        mail_of(
            "Approve\n\nOn Fri, 2 May 2025 at 10:00, Signoff <a@x.example> wrote:\n> A trip.\n",
            headers="Message-ID: <1@corp.example>\nDate: Fri, 2 May 2025 12:00:00 +0200\n"
            "In-Reply-To: <b@signoff.example>\n"
            "References: <a@signoff.example>\n <b@signoff.example>\n",
        )
    )
    assert mail.message_id == "<1@corp.example>"
    assert mail.sender == "ada@corp.example"
    assert mail.from_addresses == ("ada@corp.example",)
    assert mail.subject == "Re: A trip"
    assert mail.date == datetime(2025, 5, 2, 10, tzinfo=UTC)
    assert mail.in_reply_to == "<b@signoff.example>"
    assert mail.references == ("<a@signoff.example>", "<b@signoff.example>")
    assert mail.recipients == (f"approvals+{TOKEN}@signoff.example",)
    assert mail.automatic == ""
    assert mail.own_text == "Approve"


def test_encoded_message_ids_are_read() -> None:
    """Many versions of Python encode long ids, although RFC 2047 forbids it."""

    def encoded(value: str) -> str:
        text = quopri.encodestring(value.encode(), header=True).decode().replace("=\n", "")
        whole = text.replace(".", "=2E").replace("<", "=3C").replace(">", "=3E").replace("@", "=40")
        pieces = re.findall("(?:=..|[^=]){1,60}", whole)
        return "\r\n ".join(f"=?utf-8?q?{one}?=" for one in pieces)

    first, second = f"<{'a' * 90}@signoff.example>", f"<{'b' * 90}@signoff.example>"
    raw = (
        f"From: ada@corp.example\r\nTo: approvals+{TOKEN}@signoff.example\r\n"
        f"In-Reply-To: {encoded(second)}\r\n"
        f"References: {encoded(' '.join([first] * 20 + [second]))}\r\n\r\napprove\r\n"
    )
    read = read_mail(raw.encode())
    assert read.in_reply_to == second
    assert read.references == (*[first] * 20, second)


@pytest.mark.parametrize(
    ("sender", "address"),
    [
        ("From: ada@corp.example\n", "ada@corp.example"),
        ("From: <ada@corp.example>\n", "ada@corp.example"),
        ("From: Ada <Ada@CORP.example>\n", "Ada@corp.example"),
        ('From: "Lovelace, Ada" <ada@corp.example>\n', "ada@corp.example"),
        ("From: ada@corp.example (Ada)\n", "ada@corp.example"),
        ("From: =?utf-8?q?Ada_L=C3=B6velace?= <ada@corp.example>\n", "ada@corp.example"),
        ("From: ada@corp.example <ada@corp.example>\n", "ada@corp.example"),
        ("FROM:\n Ada\n <ada@corp.example>\n", "ada@corp.example"),
        ("From: Ada <ada@bücher.example>\n", "ada@xn--bcher-kva.example"),
    ],
)
def test_a_single_author_address_is_the_sender(sender: str, address: str) -> None:
    """All usual forms of one address are read."""
    assert read_mail(mail_of(sender=sender)).sender == address


@pytest.mark.parametrize(
    "sender",
    [
        "",
        "From:\n",
        "From: Ada\n",
        "From: ada@corp.example\nFrom: eve@evil.example\n",
        "From: ada@corp.example\nfrom : ada@corp.example\n",
        "From: ada@corp.example, eve@evil.example\n",
        "From: ada@corp.example,\n",
        "From: ada@corp.example <eve@evil.example>\n",
        "From: <ada@corp.example> <eve@evil.example>\n",
        "From: <ada@corp.example> eve\n",
        "From: Approvers: ada@corp.example;\n",
        "From: ada(x)@corp.example\n",
        "From: ada@(x)corp.example\n",
        "From: <ada(x)@corp.example>\n",
        'From: "ada"@corp.example\n',
        "From: <@evil.example:ada@corp.example>\n",
        "From: =?utf-8?q?ada=40corp.example?=\n",
        "From: =?utf-8?q?a?=@corp.example\n",
        'From: "Ada <ada@corp.example>\n',
        "From: Ada <ada@corp.example\n",
        "From: ada@corp.example)\n",
        "From: a@b@corp.example\n",
        "From: ada@corp..example\n",
        "From: ada@-corp.example\n",
        "From: .ada@corp.example\n",
        "From: аda@corp.example\n",
        f"From: {'a' * 65}@corp.example\n",
        "From: ada@straße.example\n",
        "From: ada@ｃorp.example\n",
        f"From: ada@{'ü' * 70}.example\n",
        "From: ada@corp.example\n\x00",
        "From: ada@corp.example\nX: y\rFrom: eve@evil.example\n",
        "From: ada@corp.example\nno header\nFrom: eve@evil.example\n",
    ],
)
def test_an_ambiguous_author_leaves_no_sender(sender: str) -> None:
    """Without a From, with two, with two addresses or an ambiguous one, there is no author."""
    assert read_mail(mail_of(sender=sender)).sender is None


def test_a_look_alike_domain_is_another_domain() -> None:
    """A Cyrillic letter in the domain stays visible in the compared address."""
    assert read_mail(mail_of(sender="From: ada@cоrp.example\n")).sender == "ada@xn--crp-sed.example"


def test_lines_we_sent_are_not_the_persons() -> None:
    """Lines that the caller names are removed from the mail's own text."""
    assert read_mail(mail_of("amount: 900\nApprove"), ["amount: 900"]).own_text == "Approve"


def test_all_authors_are_named() -> None:
    """The search for an approver among several authors sees all of them."""
    mail = read_mail(mail_of(sender="From: a@x.example, B <b@y.example>\nFrom: c@z.example\n"))
    assert mail.from_addresses == ("a@x.example", "b@y.example", "c@z.example")


@pytest.mark.parametrize("field", ["To", "Cc", "Delivered-To", "X-Original-To", "Envelope-To"])
def test_tokens_are_found_in_every_recipient_field(field: str) -> None:
    """A token is found in any field of the envelope address, in lower case."""
    raw = f"{field}: Signoff <Approvals+{TOKEN.upper()}@Signoff.Example>\n\napprove".encode()
    assert tokens_in(read_mail(raw).recipients, "approvals@signoff.example") == (TOKEN,)


def test_only_our_own_tokens_are_found() -> None:
    """Another mailbox, domain, alphabet or length does not give a token."""
    other = "b" * 26
    recipients = ", ".join(
        [
            *(f"approvals+{TOKEN}@signoff.example", f"APPROVALS+{TOKEN}@signoff.example"),
            *(f"other+{other}@signoff.example", f"approvals+{other}@evil.example"),
            *(f"approvals+{'1' * 26}@signoff.example", f"approvals+{'b' * 25}@signoff.example"),
            *(f"approvals{other}@signoff.example", f"approvals+{'c' * 26}@signoff.example"),
        ]
    )
    mail = read_mail(f"To: {recipients}\n\nx".encode())
    assert tokens_in(mail.recipients, "approvals@signoff.example") == (TOKEN, "c" * 26)


@pytest.mark.parametrize(
    "headers",
    [
        "Auto-Submitted: auto-replied\n",
        "Auto-Submitted: auto-generated (a comment)\n",
        "Return-Path: <>\n",
        "Precedence: bulk\n",
        "Precedence: auto_reply\n",
        "X-Autoreply: yes\n",
        "X-Autorespond: yes\n",
        "List-Id: <all.corp.example>\n",
        "Content-Type: multipart/report; boundary=x\n",
    ],
)
def test_headers_that_only_robots_send(headers: str) -> None:
    """One such header makes a mail automatic and is named."""
    assert read_mail(mail_of(headers=headers)).automatic


@pytest.mark.parametrize(
    "headers",
    [
        "Auto-Submitted: no\n",
        "X-Auto-Response-Suppress: All\n",
        "Return-Path: <ada@corp.example>\n",
        "Precedence: first-class\n",
    ],
)
def test_headers_that_people_send_too(headers: str) -> None:
    """Headers of ordinary mail programs do not make a person a robot."""
    assert read_mail(mail_of(headers=headers)).automatic == ""


@pytest.mark.parametrize(
    "head",
    [
        "From: MAILER-DAEMON (Mail Delivery System)\nSubject: x\n",
        "From: no-reply@corp.example\nSubject: x\n",
        "From: ada@corp.example\nSubject: Automatic reply: A trip\n",
        "From: ada@corp.example\nSubject: Abwesenheitsnotiz: A trip\n",
        "From: ada@corp.example\nSubject: =?utf-8?q?R=C3=A9ponse_automatique_=3A_x?=\n",
        "From: ada@corp.example\nSubject: Respuesta automática: x\n",
        "From: ada@corp.example\nSubject: 自動返信: x\n",
        "From: ada@corp.example\nSubject: Undeliverable: x\n",
    ],
)
def test_senders_and_subjects_of_robots(head: str) -> None:
    """Robots without a header are recognised by name or subject, in many languages."""
    assert read_mail(f"{head}\napprove".encode()).automatic


def test_a_report_anywhere_inside_is_automatic() -> None:
    """A delivery report as a part of another mail counts too."""
    head, body = multipart(
        "Content-Type: text/plain\n\nSorry",
        "Content-Type: message/delivery-status\n\nAction: failed",
    )
    assert "delivery-status" in read_mail(mail_of(body, headers=head)).automatic


@pytest.mark.parametrize("encoding", ["base64", "quoted-printable", "8bit"])
@pytest.mark.parametrize(
    ("charset", "codec"),
    [("utf-8", "utf-8"), ("iso-8859-1", "latin-1"), ("windows-1252", "cp1252"), ("", "utf-8")],
)
def test_text_is_decoded(encoding: str, charset: str, codec: str) -> None:
    """Transfer encodings and charsets are decoded."""
    body = "Genehmigt: schöne Grüße".encode(codec)
    coded = {
        "base64": base64.encodebytes(body),
        "quoted-printable": quopri.encodestring(body),
        "8bit": body,
    }[encoding]
    head = f"Content-Type: text/plain{'; charset=' + charset if charset else ''}\n"
    raw = f"{head}Content-Transfer-Encoding: {encoding}\n\n".encode() + coded
    assert read_mail(raw).own_text == "Genehmigt: schöne Grüße"


@pytest.mark.parametrize("charset", ["x-unknown", "punycode", "rot13", "zlib", "utf-8\x00", "idna"])
def test_odd_charsets_are_survived(charset: str) -> None:
    """An unknown or missing charset is read as UTF-8."""
    raw = mail_of("approve", headers=f"Content-Type: text/plain; charset={charset}\n")
    assert read_mail(raw).own_text == "approve"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("承認します。ありがとう".encode() + b"\xff", "承認します。ありがとう\ufffd"),
        ("Genehmigt: schöne Grüße".encode() + b"\xfc", "Genehmigt: schöne Grüße\ufffd"),
        ("schöne Grüße".encode().replace("ß".encode(), b"\xdf"), "schöne Grü\ufffde"),
        ("아니오, 비쌉니다".encode()[:-1], "아니오, 비쌉니\ufffd"),
        ("schöne Grüße".encode("cp1252"), "schöne Grüße"),
        ("it’s “fine”".encode("cp1252"), "it’s “fine”"),
        (b"caf\xe9 au lait", "café au lait"),
    ],
)
@pytest.mark.parametrize("charset", ["utf-8", "us-ascii", ""])
def test_a_bad_byte_does_not_change_the_charset_of_a_utf8_text(
    body: bytes, text: str, charset: str
) -> None:
    """Mostly valid UTF-8 is read as UTF-8 with replacement marks; other text as cp1252."""
    head = f"Content-Type: text/plain{'; charset=' + charset if charset else ''}\n\n"
    assert read_mail(head.encode() + body).own_text == text


@pytest.mark.parametrize(
    ("charset", "codec", "text"),
    [
        ("shift_jis", "cp932", "①髙"),
        ("gb2312", "gbk", "镕"),
        ("ks_c_5601-1987", "cp949", "똠"),
        ("iso-8859-1", "cp1252", "“ok”"),
        ("tis-620", "cp874", "โอเค"),
    ],
)
def test_charset_names_map_to_their_larger_character_sets(
    charset: str, codec: str, text: str
) -> None:
    """Programs use each of these names for a larger character set."""
    raw = f"Content-Type: text/plain; charset={charset}\n\n".encode() + text.encode(codec)
    assert read_mail(raw).own_text == text


def test_japanese_mail_is_decoded() -> None:
    """Charsets with shift sequences are decoded too."""
    raw = b"Content-Type: text/plain; charset=ISO-2022-JP\n\n" + "承認します".encode("iso2022_jp")
    assert read_mail(raw).own_text == "承認します"


def test_the_plain_alternative_counts() -> None:
    """If text and HTML agree, the text is read."""
    head, body = multipart(
        "Content-Type: text/plain\n\napprove\n", "Content-Type: text/html\n\n<p>reject</p>"
    )
    mail = read_mail(mail_of(body, headers=head))
    assert mail.own_text == "approve"


def test_an_empty_plain_alternative_does_not_hide_the_html() -> None:
    """Some phones send an empty text with the HTML."""
    head, body = multipart("Content-Type: text/plain\n\n \n", "Content-Type: text/html\n\nApprove")
    mail = read_mail(mail_of(body, headers=head))
    assert mail.own_text == "Approve"


def test_attachments_and_inner_mails_are_not_read() -> None:
    """Files and forwarded mails are not the person's own words."""
    head, body = multipart(
        "Content-Type: text/plain\n\nsee below",
        "Content-Type: text/plain; name=a.txt\nContent-Disposition: attachment\n\napprove",
        "Content-Type: message/rfc822\n\nFrom: a@b.example\n\napprove",
        kind="mixed",
    )
    mail = read_mail(mail_of(body, headers=head))
    assert mail.own_text == "see below"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("Approve", "Approve"),
        (
            "<html><head><title>reject</title><style>p{}</style></head><body><p>Approve</p>",
            "Approve",
        ),
        ("<div>Approve<br>fine &amp; good</div>", "Approve\nfine & good"),
        ("<p>Approve</p><p>amount: 3</p>", "Approve\n\namount: 3"),
        ("<DIV>Approve</DIV><BLOCKQUOTE>reject<blockquote>x</blockquote></BLOCKQUOTE>", "Approve"),
        ('Approve<div class="gmail_quote"><div>reject</div></div>', "Approve"),
        ('Approve<div id="appendonsend"></div><hr>From: x', "Approve"),
        ('Approve<div id="x_divRplyFwdMsg">From: x</div><div>reject</div>', "Approve"),
        ('<blockquote type="cite">quoted</blockquote><div>Approve</div>', "Approve"),
        ('<span style="display: none">reject</span>Approve', "Approve"),
        ("<!-- reject -->Approve<script>reject</script>", "Approve"),
        ("Approve<!-- reject", "Approve"),
        ("Approve<script>reject", "Approve"),
        ("Approve<blockquote>reject", "Approve"),
        ('<a title="a > reject">Approve</a>', "Approve"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        (f"Approve<div>{CUT_MARKER}</div><div>reject</div>", "Approve"),
        ("<p><b>From:</b> x<br><b>Sent:</b> y<br><b>To:</b> z</p>Approve", ""),
        ("<p>Approve</p><p>On 2 May 2025, Ada wrote:</p><blockquote>x</blockquote>", "Approve"),
    ],
)
def test_only_visible_html_text_is_read(markup: str, text: str) -> None:
    """The visible text of an HTML mail counts, without its quotation."""
    mail = read_mail(mail_of(markup, headers="Content-Type: text/html; charset=utf-8\n"))
    assert mail.own_text == text


def test_a_subject_is_decoded_to_one_line() -> None:
    """Encoded words are decoded, and a line break cannot get into a subject."""
    raw = b"Subject: =?utf-8?b?" + base64.b64encode("a\r\nBcc: ü".encode()) + b"?=\n\nx"
    assert read_mail(raw).subject == "a Bcc: ü"
    assert read_mail(b"Subject: =?utf-8?b?a?=\n\nx").subject


def test_an_invalid_date_is_ignored() -> None:
    """A date is a claim of the sender; an invalid date is not an error."""
    for date in ("yesterday", "Fri, 99 May 2025", "Fri, 2 May 99999999 10:00:00 +9999", ""):
        assert read_mail(mail_of(headers=f"Date: {date}\n")).date is None


def nested(depth: int) -> bytes:
    """Return a mail of nested multiparts."""
    text = "Content-Type: text/plain\n\napprove"
    for level in range(depth):
        head, body = multipart(text, boundary=f"b{level}b")
        text = f"{head}\n{body}"
    return text.encode()


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"x" * (LARGEST_MAIL + 1), id="1 MiB"),
        pytest.param(b"X: " + b"a" * 9_000 + b"\n\nx", id="one field of 9 KB"),
        pytest.param(b"X: a\n" + b" a\n" * 5_000 + b"\nx", id="one folded field of 15 KB"),
        pytest.param(b"X: a\n" * 60_000 + b"\nx", id="300 KB of headers"),
        pytest.param(b"X" * 300_000, id="300 KB without a line end"),
        pytest.param("\n".join(multipart(*["\nx"] * MOST_PARTS)).encode(), id="51 parts"),
        pytest.param(nested(DEEPEST), id="11 deep"),
        pytest.param(
            "\n".join(multipart("X: " + "a" * 9_000 + "\n\nx")).encode(), id="9 KB in a part"
        ),
    ],
)
def test_mail_over_a_cap_is_refused(raw: bytes) -> None:
    """Size, headers, parts and depth are checked before parsing."""
    with pytest.raises(MailTooLarge):
        read_mail(raw)


def test_mail_at_the_caps_is_read() -> None:
    """A mail at each limit is read."""
    assert read_mail(nested(DEEPEST - 1)).own_text == "approve"
    assert read_mail("\n".join(multipart(*["\nx"] * (MOST_PARTS - 1))).encode()).subject == ""


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(mail_of("On " + "a " * 100_000), id="an endless attribution"),
        pytest.param(mail_of("On 2 May 2025\n" * 70_000), id="many attributions"),
        pytest.param(mail_of("\n" * 200_000), id="line ends"),
        pytest.param(mail_of("-" * 100_000), id="dashes"),
        pytest.param(mail_of(sender=f"From: {'(' * 5_000}\n"), id="brackets"),
        pytest.param(mail_of(sender=f"From: {'<a@b.example>,' * 550}\n"), id="addresses"),
        pytest.param(
            mail_of(headers=f'Content-Type: text/plain; {";" * 3_000}"\n'), id="parameters"
        ),
        pytest.param(mail_of(headers=f"Subject: {'=?a?q?' * 1_300}\n"), id="encoded words"),
        pytest.param(mail_of(headers=f"References: {'<' * 8_000}\n"), id="references"),
        pytest.param(mail_of("<" * 900_000, headers="Content-Type: text/html\n"), id="tags"),
        pytest.param(mail_of("<!--" * 200_000, headers="Content-Type: text/html\n"), id="comments"),
        pytest.param(mail_of("<a '" * 200_000, headers="Content-Type: text/html\n"), id="quotes"),
        pytest.param(mail_of("<b>" * 300_000, headers="Content-Type: text/html\n"), id="open tags"),
        pytest.param(
            mail_of("<style>" * 100_000, headers="Content-Type: text/html\n"), id="styles"
        ),
        pytest.param(mail_of("&" * 900_000, headers="Content-Type: text/html\n"), id="entities"),
        pytest.param(
            mail_of("--x" * 300_000, headers="Content-Type: multipart/mixed; boundary=x\n"),
            id="boundaries",
        ),
    ],
)
def test_hostile_mail_is_read_quickly(raw: bytes) -> None:
    """Mail that is made to slow down a parser is read within the time limit."""
    assert read_mail(raw).own_text is not None


FRAGMENTS = st.sampled_from(
    [
        *(
            "From: a@b.example\n",
            "From:",
            "To: ",
            "Subject: ",
            "=?utf-8?q?",
            "?=",
            "\n",
            "\r\n",
            "\r",
        ),
        *(
            "Content-Type: multipart/mixed; boundary=b\n",
            "Content-Type: text/html\n",
            "--b\n",
            "--b--",
        ),
        *(
            "Content-Transfer-Encoding: base64\n",
            "Date: Fri, ",
            "9999999999",
            '"',
            "<",
            ">",
            "(",
            ",",
        ),
        *(
            "charset=utf-16",
            "; ",
            "\x00",
            "\xff",
            "approve",
            "> ",
            "On 2 May 2025, A wrote:\n",
            "@",
            ":",
        ),
    ]
)


bodies = st.lists(FRAGMENTS, max_size=40).map("".join).map(lambda text: text.encode("latin-1"))


@given(bodies | st.binary(max_size=400))
def test_any_bytes_are_a_mail_or_unreadable(raw: bytes) -> None:
    """Any bytes give a mail or the declared error."""
    try:
        mail = read_mail(raw)
    except UnreadableMail:
        return
    assert mail.sender is None or mail.from_addresses == (mail.sender,)


def test_foreign_errors_are_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any error of a parser becomes UnreadableMail and keeps its cause."""
    for error in (IndexError, AttributeError, LookupError, ValueError, RecursionError, TypeError):

        def broken(*_: object, error: type[Exception] = error) -> None:
            raise error("inside")

        monkeypatch.setattr("signoff.channels.email.parsing.reading.automatic_sign", broken)
        with pytest.raises(UnreadableMail, match=error.__name__) as refusal:
            read_mail(mail_of())
        assert isinstance(refusal.value.__cause__, error)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("multipart/encrypted; boundary=XX", "encrypted"),
        ("application/pkcs7-mime; smime-type=enveloped-data", "encrypted"),
        ("application/x-pkcs7-mime; smime-type=signed-data", "signed in a form"),
        ("application/ms-tnef; name=winmail.dat", "winmail.dat"),
        ("application/pdf; name=scan.pdf", ""),
    ],
)
def test_mail_whose_words_cannot_be_opened_says_why(kind: str, words: str) -> None:
    """People whose mail program does this would be told each time that there are no words."""
    mail = read_mail(f"From: mara@example.com\r\nContent-Type: {kind}\r\n\r\nMIIB\r\n".encode())
    assert mail.own_text == ""
    assert bool(mail.doubt) is bool(words)
    assert words in mail.doubt
    part = f"--YY\r\n\r\napprove\r\n--YY\r\nContent-Type: {kind}\r\n\r\nMIIB\r\n--YY--\r\n"
    head = "From: mara@example.com\r\nContent-Type: multipart/mixed; boundary=YY\r\n\r\n"
    beside = read_mail((head + part).encode())
    assert (beside.own_text, beside.doubt) == ("approve", "")


@needs_corpus
def test_automatic_mail_of_the_corpus() -> None:
    """At least 98 of 100 real bounces and auto-replies are recognised, and none approves."""
    paths = sorted((CORPUS / "automatic").glob("*.eml"))
    missed = []
    for path in paths:
        mail = read_mail(path.read_bytes())
        assert verdict_of(mail.own_text) is not Verdict.APPROVE
        if not mail.automatic:
            missed.append(path.name)
    assert len(paths) > 300
    assert len(missed) <= 0.02 * len(paths), missed
