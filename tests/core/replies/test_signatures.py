"""Text below a closing is a signature only if it has a known form."""

from __future__ import annotations

import pytest

from signoff.core.replies.devices import is_device_line
from signoff.core.replies.reading import read_reply
from signoff.core.replies.reply import Approve
from signoff.core.replies.text import Names, ReplyContext

CONTEXT = ReplyContext(people=(Names(("Tom Weber", "Mara Lind")),), author=Names(("Mara Lind",)))
HEADS = (
    "Approved\nBest regards\n{}",
    "Approved\n\nMara Lind\n{}",
    "ok\n\n-- \n{}",
    "Genehmigt\nDanke\nMara\n{}",
)
SIGNATURES = (
    *("M. Lind", "Mara", "CFO", "Head of Finance", "CFO | Acme GmbH", "Nordlicht Handel GmbH"),
    *("Mara Lind\nCFO, Acme Industries Ltd", "M. Lind\nTel: +49 30 123456", "Leiterin Buchhaltung"),
    *("Mara Lind\nSenior Accountant\n+49 30 1234567\nmara@x.example", "Mara\nSent from my iPhone"),
)
REMARKS = (
    *("Half Only", "Two Nights Max", "Half Price Monday", "Only First Invoice", "Halbe Summe"),
    *("Nur Hotel", "Ohne Hotel", "Wait", "Zug Statt Flug", "Mitad Solo", "50 Percent"),
    *("Berlin Trip Excluded", "Economy Class", "Train Instead Of Flight", "Cheaper Hotel"),
    *("Gilt Für Eine Rate", "Tom Weber", "Next Quarter Finance", "EUR 500", "No Breakfast GmbH"),
    *(
        "I take it back, please do not pay this.",
        "Gilt nur für die erste Rate.",
        "我撤回以上意见。",
    ),
    *(
        "初回分のみ有効です。",
        "첫 회차에만 유효합니다.",
        "Je retire ce que j'ai dit.",
        "PS: Only half",
    ),
)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("signature", SIGNATURES)
def test_signature_below_a_yes_keeps_the_approval(head: str, signature: str) -> None:
    """Names, job titles, companies and contacts may follow an approval."""
    assert isinstance(read_reply(head.format(signature), CONTEXT), Approve)


@pytest.mark.parametrize("remark", REMARKS)
def test_remark_in_place_of_a_signature_makes_a_yes_unclear(remark: str) -> None:
    """Limits and withdrawals in the form of a name, and sentences, make an approval unclear."""
    read = [read_reply(head.format(remark), CONTEXT) for head in HEADS]
    assert not any(isinstance(one, Approve) for one in read)


THANKS = (
    "Approved. Thanks. {}.",
    "Approved. Thanks, {}",
    "Genehmigt. Danke. {}",
    "Ok, thanks.\n{}",
)
ADVERBS = (
    *("Partially", "Conditionally", "Provisionally", "Half", "Teilweise", "Bedingt", "Halb"),
    *("Partiellement", "Moitié", "Parcialmente", "Mitad", "Parzialmente", "Metade", "Deels"),
)


@pytest.mark.parametrize("adverb", ADVERBS)
def test_word_below_thanks_is_a_name_only_if_the_author_has_it(adverb: str) -> None:
    """The reply "Approved. Thanks. Conditionally." is not signed by a person of that name."""
    read = [read_reply(text.format(adverb), CONTEXT) for text in THANKS]
    assert not any(isinstance(one, Approve) for one in read)


@pytest.mark.parametrize("name", ["Mara", "Mar", "M", "ML", "M.L.", "Lind", "Mara Lind"])
def test_the_author_may_sign_in_short(name: str) -> None:
    """The author may sign with a part of their name, its beginning, or initials."""
    assert isinstance(read_reply(f"Approved.\n\nBest regards,\n{name}", CONTEXT), Approve)


@pytest.mark.parametrize(
    ("line", "sent"),
    [
        ("Sent from my iPhone", True),
        ("Von meinem iPhone gesendet", True),
        ("Dal mio iPhone", True),
        ("나의 갤럭시에서 보냄", True),
        ("モバイルから送信", True),
        ("Sent from my desk, which is quieter", False),
        ("Sent from my cell, only half of it", False),
        ("从我的部门看，不同意", False),
        ("Sent by Outlook for Android", True),
        ("Hol dir Outlook für Android", True),
        ("Outlook für iOS herunterladen", True),
        ("Outlook voor Android ophalen", True),
        ("Outlook for iOS を取得", True),
        ("Yahoo Mail: Search, Organize, Conquer", True),
        ("Envoyé avec la messagerie sécurisée Proton Mail.", True),
        ("Hol dir die Mail", False),
        ("メールを取得", False),
        ("Sent by Tom from my phone", False),
        ("Sent from Tom's iPad", False),
        ("Envoyé par Tom via mobile", False),
        ("Gesendet von Tom mit dem Handy", False),
        ("Get Tom's mail", False),
    ],
)
def test_phone_signature_is_matched_word_by_word(line: str, *, sent: bool) -> None:
    """A sentence that begins like the line of a phone is not such a line."""
    assert is_device_line(line) is sent


QUOTES = ('"{}"', "“{}”", "„{}“", "«{}»", "« {} »", "'{}'")
VERDICTS = ("approved", "genehmigt", "approuvé", "aprobado", "approvato", "akkoord", "승인", "同意")


@pytest.mark.parametrize("marks", QUOTES)
@pytest.mark.parametrize("word", VERDICTS)
def test_a_verdict_in_quotation_marks_is_asked_back(marks: str, word: str) -> None:
    """A quoted verdict is doubtful, except for the word that our own mails quote."""
    assert not isinstance(read_reply(marks.format(word)), Approve)
    assert isinstance(read_reply(marks.format("approve")), Approve)


CONDITIONS = (
    *("This email only counts if Tom agrees too.", "Confidential: only if Tom agrees."),
    *(
        "Disclaimer: I have not read it",
        "Confidential. Please wait for legal.",
        "Confidential: half",
    ),
    *(
        "This e-mail is no decision yet.",
        "Disclaimer: subject to legal.",
        "Confidential: Half Only",
    ),
    *("Vertraulich: erst nach Rücksprache", "Diese E-Mail gilt nur mit Unterschrift."),
    "This message is confidential and intended solely for you.\nPlease wait for the auditor.",
    "but only if the auditor agrees\nThis message is confidential and intended solely for you.",
    "aber nur mit Unterschrift\nDiese E-Mail und ihre Anhänge sind vertraulich.",
    "seulement si le siège accepte\nCe message et ses pièces jointes sont confidentiels.",
    "本邮件及其附件含有保密信息，先等汤姆确认。",
    "ただし明日以降\n本メールおよび添付には機密情報が含まれています。",
)


@pytest.mark.parametrize("between", ["\n", "\n\n"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_condition_in_a_disclaimer_makes_a_yes_unclear(condition: str, between: str) -> None:
    """A doubt or condition beside words of a disclaimer is not small print."""
    assert not isinstance(read_reply(f"Approved.{between}{condition}", CONTEXT), Approve)


DISCLAIMERS = (
    *("Confidential", "Strictly confidential", "PRIVILEGED AND CONFIDENTIAL"),
    "Please consider the environment before printing this email.",
    "This email has been checked for viruses by Avast antivirus software.\nwww.avast.com",
    """This message and any attachments are confidential and intended only for the
addressee. If you are not the intended recipient, please notify the sender
and delete it. We accept no liability for viruses.""",
    "Sitz der Gesellschaft: Hamburg, Amtsgericht Hamburg HRB 12345",
    """Diese E-Mail enthält vertrauliche und/oder rechtlich
geschützte Informationen. Wenn Sie nicht der richtige Adressat sind,
informieren Sie bitte den Absender und löschen diese Mail.""",
    "Ce message et ses pièces jointes sont confidentiels. Toute diffusion est interdite.",
    """Este mensaje y sus archivos adjuntos son confidenciales. Si ha recibido este
mensaje por error, por favor notifique al remitente y elimínelo.""",
    "Questo messaggio e i suoi allegati sono riservati.",
    "Esta mensagem e seus anexos são confidenciais.",
    "Dit bericht en eventuele bijlagen zijn vertrouwelijk.",
    "このメールには機密情報が含まれている場合があります。誤って受信された場合は破棄してください。",
    "본 메일은 기밀 정보를 포함하고 있습니다. 잘못 수신한 경우 즉시 삭제하여 주시기 바랍니다.",
    "本邮件及其附件含有保密信息，仅限收件人使用。如您误收，请立即删除。",
)


@pytest.mark.parametrize("head", ["Approved", "Approved\n\nBest regards\nMara Lind"])
@pytest.mark.parametrize("disclaimer", DISCLAIMERS)
def test_usual_disclaimers_keep_the_approval(head: str, disclaimer: str) -> None:
    """The small print that mail servers add changes nothing."""
    assert isinstance(read_reply(f"{head}\n\n{disclaimer}", CONTEXT), Approve)


@pytest.mark.parametrize(
    "limit",
    [
        *("for Sales", "for 1 unit", "1 unit", "für Vertrieb", "pour le Marketing", "to Finance"),
        *("up to 100000", "ab 01.01.2027", "ab 2027", "am 24.12.2026", "by 31.12.2026"),
        *("le 24/12/2026", "al 31/12/2026", "op 24-12-2026", "no 1000000", "de 100000 a 200000"),
        *("Legal to support", "CFO to lead", "Legal to audit", "cap it at 1000"),
        *("> 100000", "~ 100000", "100000", "100.000", "100,000.00", "US 100000", "ex 100000"),
        *("01.01.2027", "2027-01-01", "24/12/2026"),
    ],
)
def test_line_that_may_limit_a_yes_is_no_signature(limit: str) -> None:
    """A line such as "for Sales" below a closing may say what is approved."""
    read = [read_reply(head.format(limit), CONTEXT) for head in HEADS]
    assert not any(isinstance(one, Approve) for one in read)


@pytest.mark.parametrize(
    "line",
    [
        *("Assistant to Mara Lind", "Office of Mara Lind", "Büro Mara Lind", "Mara's Assistant"),
        *("Assistenz von Mara Lind", "Asistente de Mara Lind", "Kantoor Mara Lind"),
    ],
)
def test_an_office_signs_for_somebody_else(line: str) -> None:
    """A yes that is signed by the office of a person may not be that person's."""
    read = [read_reply(head.format(line), CONTEXT) for head in HEADS]
    assert not any(isinstance(one, Approve) for one in read)


@pytest.mark.parametrize(
    "line",
    [
        *(
            "Mara Lind, Executive Assistant",
            "Assistant to the CEO",
            "Assistant to Managing Director",
        ),
        *(
            "+49 30 1234567",
            "030 1234567",
            "555 123 4567",
            "Tel. 123456",
            "T 123456",
            "m 0171 123456",
        ),
        *("T +49 30 1234567", "M: 0171 1234567", "p 0171 1234567", "Ph. 0171 1234567"),
        *("mara2@it.example.de", "E-Mail: m.lind@example.it", "www.example.es", "〒100-0001"),
        *("i.A. Mara Lind", "ppa. Mara Lind", "P.IVA 01234567890"),
        *("HRB DE123456789", "Office: +49 30 1234567", "CFO Mara Lind"),
        *("Mara Lind | CFO | Acme Ltd | www.acme.example", "CFO | Acme Ltd | +1 555 010 2233"),
    ],
)
def test_lines_of_contacts_and_offices_sign(line: str) -> None:
    """A title after the name, and short labels before numbers, belong to a signature."""
    assert isinstance(read_reply(f"Approved.\n\nBest regards\nMara Lind\n{line}", CONTEXT), Approve)
