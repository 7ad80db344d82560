"""Automatic mail by its subject and words in many languages, and similar mail by people."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.channels.email.inbound import bounce_titles
from signoff.channels.email.inbound.bounces import sort_of
from signoff.channels.email.parsing.incoming import Sort
from signoff.channels.email.parsing.mime import parse_mail
from signoff.channels.email.parsing.reading import IncomingMail, read_mail

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpora" / "email" / "automatic"


def mail(
    subject: str, text: str = "I am back on Monday.", sender: str = "mara@example.com"
) -> IncomingMail:
    """Read a mail with this subject and no other sign."""
    return read_mail(f"From: {sender}\r\nSubject: {subject}\r\n\r\n{text}\r\n".encode())


@pytest.mark.parametrize(
    "subject",
    [
        "Automatic reply: Approval needed: reimburse (finance) #a1b2",
        "Out of Office: Approval needed: reimburse",
        "Out of office until 5 May",
        "Re: AUTO: x"[4:],
        "[Auto-Reply] Approval needed",
        "Automatische Antwort: Approval needed",
        "Abwesenheitsnotiz: Approval needed",
        "Abwesenheit bis 3.5.",
        "Réponse automatique : Approval needed",
        "Reponse automatique: Approval needed",
        "Respuesta automática: Approval needed",
        "Resposta automática: Approval needed",
        "Risposta automatica: Approval needed",
        "Automatisch antwoord: Approval needed",
        "Autosvar: Approval needed",
        "Automatisk svar: Approval needed",
        "Automaattinen vastaus: Approval needed",
        "Odpowiedź automatyczna: Approval needed",
        "Automatická odpověď: Approval needed",
        "Automatikus válasz: Approval needed",
        "Автоматический ответ: Approval needed",
        "Автоматична відповідь: Approval needed",
        "Αυτόματη απάντηση: Approval needed",
        "Otomatik Yanıt: Approval needed",
        "תשובה אוטומטית: Approval needed",
        "رد تلقائي: Approval needed",
        "自動応答: Approval needed",
        "自动答复: Approval needed",
        "自動回覆: Approval needed",
        "자동 회신: Approval needed",
        "Trả lời tự động: Approval needed",
        "Balasan otomatis: Approval needed",
    ],
)
def test_a_title_of_an_absent_persons_programme(subject: str) -> None:
    """A title that Exchange, Gmail and others use for an out-of-office reply is one."""
    read = mail(subject)
    assert read.automatic
    assert read.sort is Sort.AWAY


@pytest.mark.parametrize(
    "subject",
    [
        "Re: Approval needed: reimburse (finance) #a1b2",
        "AW: Approval needed: reimburse",
        "Re: Out of office next week",
        "RE: Automatic reply: Approval needed",
        "Fwd: Undelivered Mail Returned to Sender",
        "Antw: Abwesenheitsnotiz: Approval needed",
        "Out of office supplies",
        "Out of the office party photos",
        "Absence management tool: which one?",
        "Absent colleagues",
        "Different numbers in the report",
        "Urlaub: Antrag von Jonas",
        "Vacation request",
        "Auto insurance renewal",
        "Autonomous agents",
        "Delivery status meeting moved",
        "Delivery report template",
        "Returning the laptop",
        "Reading list",
        "Luis: the contract",
        "외출 신청",
        "휴가 신청서",
        "休假申请",
        "退職のご挨拶",
    ],
)
def test_a_title_of_a_person(subject: str) -> None:
    """Words of absence and delivery in a person's own subject are not a sign."""
    assert mail(subject, "approve").automatic == ""


def test_exchange_absence_replies_are_recognised() -> None:
    """Its replies are auto-generated, whatever their subject; another field names the program."""
    head = (
        "From: mara@example.com\r\nSubject: Puissa\r\nAuto-Submitted: auto-generated\r\n"
        "X-MS-Exchange-Generated-Message-Source: Mailbox Rules Agent\r\n"
    )
    assert read_mail(f"{head}\r\nBack on Monday.\r\n".encode()).sort is Sort.AWAY
    journal = head.replace("Mailbox Rules Agent", "Journal Agent")
    assert read_mail(f"{journal}\r\nBack on Monday.\r\n".encode()).sort is Sort.OTHER


@given(
    st.sampled_from(
        sorted({*bounce_titles.AUTO_REPLIES, *bounce_titles.FAILED, *bounce_titles.ABSENT})
    )
)
def test_a_reply_to_a_notice_is_a_persons(title: str) -> None:
    """A person's reply to such a notice has a reply prefix in its subject."""
    assert mail(f"Re: {title}", "approve").automatic == ""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("This is an automated message. Do not reply.", True),
        ("*****\r\n\r\nDies ist eine automatisch erzeugte E-Mail.", True),
        ("approve\r\n\r\nThis is an automated message, they told me.", False),
        ("> This is an automated message", False),
        ("I got this is an automated message", False),
    ],
)
def test_only_how_the_text_begins_is_a_sign(text: str, found: bool) -> None:
    """A program says it first; below a person's words it is a quotation."""
    assert bool(mail("Re: Approval needed", text).automatic) is found


def test_the_corpus_is_sorted() -> None:
    """Nearly all real reports are returned mail; only the three known ones are absences."""
    if not CORPUS.is_dir():
        pytest.skip("the corpus is not beside this project")
    mails = [read_mail(path.read_bytes()) for path in sorted(CORPUS.glob("*.eml"))]
    assert sum(not one.automatic for one in mails) <= 1
    sorts = Counter(one.sort for one in mails)
    assert sorts[Sort.RETURNED] >= 275
    assert sorts[Sort.AWAY] == 3


def status(*fields: str) -> bytes:
    """Return a delivery status of one recipient with these fields."""
    block = "\r\n".join(fields)
    return (
        "Content-Type: message/delivery-status\r\n\r\n"
        f"Reporting-MTA: dns; mx.example\r\n\r\n{block}\r\n"
    ).encode()


@pytest.mark.parametrize(
    ("fields", "sort"),
    [
        (("Action: failed", "Status: 5.1.1"), Sort.RETURNED),
        (("Action: failed", "Status: 4.4.7"), Sort.RETURNED),
        (("ACTION : FAILED (bad)", "Status: 5.0.0"), Sort.RETURNED),
        (("Action: delayed", "Status: 4.4.1"), Sort.DELAYED),
        (("Status: 5.1.1",), Sort.RETURNED),
        (("Status: 4.2.2",), Sort.DELAYED),
        (("Action: delivered", "Status: 2.0.0"), Sort.OTHER),
        (("Action: relayed",), Sort.OTHER),
        (("Action: expanded",), Sort.OTHER),
    ],
)
def test_a_delivery_status_decides_by_its_action(fields: tuple[str, ...], sort: Sort) -> None:
    """RFC 3464: a failed action means returned, and a delayed one means delayed."""
    assert sort_of(parse_mail(status(*fields)), "", "") is sort


@given(st.binary(max_size=400))
def test_any_bytes_can_be_sorted(raw: bytes) -> None:
    """Any report belongs to one of the kinds."""
    part = parse_mail(b"Content-Type: message/delivery-status\r\n\r\n" + raw)
    assert sort_of(part, "", "") in Sort
