"""Text that mail systems add is not the person's; similar text of the person is."""

from __future__ import annotations

import pytest

from signoff.channels.email.parsing import additions
from signoff.channels.email.parsing.quoting import read_reply
from signoff.core.replies.devices import is_device_line

BANNERS = (
    "[EXTERN]",
    "[EXTERNAL]",
    "[ESTERNO]",
    "[EXTERNE]",
    "[EXTERNO]",
    "[外部]",
    "【外部メール】",
    "[외부메일]",
    "***EXTERNAL EMAIL***",
    "** EXTERN **",
    "EXTERNAL SENDER",
    "<<EXTERNAL>>",
    "[External Email]",
    "⚠️ EXTERNAL EMAIL",
    "CAUTION: This email originated from outside the organization. Do not click links or open attachments.",
    "CAUTION: This email originated from outside of the organization. Do not click\nlinks or open attachments unless you recognize the sender and know the\ncontent is safe.",
    "*Warning:* this message came from an external sender.",
    "EXTERNAL EMAIL: Do not click any links",
    "This email originated from outside of your organization.",
    "ACHTUNG: Diese E-Mail kommt von außerhalb der Organisation. Klicken Sie nicht auf Links.",
    "Vorsicht! Externer Absender",
    "ATTENTION : Ce courriel provient de l'extérieur de l'organisation.",
    "ATENCIÓN: Este correo electrónico se envió desde fuera de la organización.",
    "ATENÇÃO: Este e-mail foi enviado de fora da organização.",
    "ATTENZIONE: questa e-mail proviene da un mittente esterno.",
    "LET OP: Deze e-mail komt van buiten de organisatie.",
    "注意：このメールは社外から送信されています。",
    "주의: 이 메일은 외부에서 발송되었습니다.",
    "注意：此邮件来自外部发件人。",
    "You don't often get email from mara@example.com. Learn why this is important",
    "[You don't often get email from mara@example.com. Learn why this is important at\nhttps://aka.ms/LearnAboutSenderIdentification ]",
    "Some people who received this message don't often get email from mara@example.com. Learn why this is important",
    "Sie erhalten nicht häufig E-Mails von mara@example.com. Erfahren Sie, warum dies wichtig ist",
    "Vous ne recevez pas souvent de courriers de la part de mara@example.com. Découvrez pourquoi cela peut être important",
    "No suele recibir correos electrónicos de mara@example.com. Descubra por qué esto es importante",
    "Non si riceve spesso posta elettronica da mara@example.com. Informazioni sul perché è importante",
    "Você não costuma receber emails de mara@example.com. Saiba por que isso é importante",
    "U ontvangt niet vaak e-mail van mara@example.com. Meer informatie over waarom dit belangrijk is",
    "mara@example.com からメールを受け取る機会が少ない場合があります。",
    "mara@example.com에서 자주 이메일을 받지 못합니다.",
    "你通常不会收到来自 mara@example.com 的电子邮件。",
    "ZjQcmQRYFpfptBannerStart\nThis Message Is From an External Sender\nThis message came from outside your organization.\nZjQcmQRYFpfptBannerEnd",
    "This Message Is From an Untrusted Sender\nYou have not previously corresponded with this sender.",
    "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256",
)
NOTICES = (
    "No virus found in this message.\nChecked by AVG - www.avg.com",
    "Virus-free. www.avast.com",
    "Virus-free.www.avast.com",
    "Virenfrei. www.avast.com",
    "Garanti sans virus. www.avast.com",
    "Libre de virus. www.avast.com",
    "Livre de vírus. www.avast.com.",
    "Privo di virus. www.avast.com",
    "Virusvrij. www.avast.com",
    "ウイルス フリー。 www.avast.com",
    "바이러스 없음. www.avast.com",
    "无病毒。www.avast.com",
    "This email has been checked for viruses by Avast antivirus software.\nwww.avast.com",
    "Diese E-Mail wurde von Avast Antivirus-Software auf Viren geprüft.\nhttps://www.avast.com/antivirus",
    "In dieser Nachricht wurden keine Viren gefunden.",
    "Keine Viren gefunden.",
    "Aucun virus trouvé dans ce message.",
    "No se encontraron virus en este mensaje.",
    "Nenhum vírus encontrado nessa mensagem.",
    "Nessun virus nel messaggio.",
    "Geen virus gevonden in dit bericht.",
    "このメッセージにウイルスは検出されませんでした。",
    "이 메시지에서 바이러스가 발견되지 않았습니다.",
    "此邮件中未发现病毒。",
    "__________ Information from ESET NOD32 Antivirus, version 1.2 __________\n\nThe message was checked by ESET NOD32 Antivirus.\n\nhttp://www.eset.com",
    "This e-mail is confidential.",
    "This message and any attachments are confidential and intended only for the addressee.",
    "CONFIDENTIALITY NOTICE: The contents of this email are confidential. If you have received it in error, delete it.",
    "Diese E-Mail ist vertraulich.",
    "Diese E-Mail enthält vertrauliche Informationen. Wenn Sie nicht der richtige Empfänger sind, informieren Sie bitte den Absender.",
    "Ce message est confidentiel et destiné exclusivement à ses destinataires.",
    "Este mensaje es confidencial y está dirigido únicamente a su destinatario.",
    "Esta mensagem é confidencial e destina-se exclusivamente ao seu destinatário.",
    "Questo messaggio è confidenziale e riservato ai destinatari.",
    "Dit bericht is vertrouwelijk en alleen bestemd voor de geadresseerde.",
    "本メールには機密情報が含まれている場合があります。誤って受信された場合は削除してください。",
    "본 메일은 기밀 정보를 포함하고 있으며, 수신인이 아닌 경우 삭제하여 주시기 바랍니다.",
    "本邮件及其附件含有保密信息，仅限收件人使用。",
    "Please consider the environment before printing this email.",
    "Bitte denken Sie an die Umwelt, bevor Sie diese E-Mail ausdrucken.",
    f"{'_' * 32}\nThis e-mail is confidential and may be privileged.",
)
DEVICES = (
    *("Sent from my iPhone", "Sent from my Galaxy", "Sent from Samsung Mobile on O2"),
    *("Sent from Outlook for iOS", "Get Outlook for Android", "Sent from Mail for Windows"),
    *("Get Outlook for iOS<https://aka.ms/o0ukef>", "Sent from Yahoo Mail on Android"),
    *("Sent with Proton Mail secure email.", "Sent from my Fairphone", "Sent via Superhuman"),
    *("Sent from my mobile device. Please excuse brevity and typos.", "<Sent from my iPad>"),
    *(
        "Von meinem iPhone gesendet",
        "Gesendet von Outlook für iOS",
        "Gesendet mit der GMX Mail App",
    ),
    *("Diese Nachricht wurde von meinem Android-Gerät mit K-9 Mail gesendet.",),
    *("Von meinem Samsung Galaxy Smartphone gesendet.", "Holen Sie sich Outlook für Android"),
    *(
        "Envoyé de mon iPhone",
        "Envoyé à partir de Outlook pour iOS",
        "Provenance : Courrier pour Windows",
    ),
    *("Télécharger Outlook pour Android", "Enviado desde mi iPhone", "Obtener Outlook para iOS"),
    *("Enviado do meu iPhone", "Enviado do meu smartphone Samsung Galaxy.", "Inviato da iPhone"),
    *(
        "Ottieni Outlook per Android",
        "Verstuurd vanaf mijn iPhone",
        "Outlook voor Android downloaden",
    ),
    *("iPhoneから送信", "Galaxyから送信されました", "iOS 版 Outlook を入手"),
    *("나의 iPhone에서 보냄", "Android용 Outlook 받기", "发自我的iPhone", "获取 Outlook for iOS"),
    *("發自我的 iPhone", "從我的 iPhone 傳送", "来自我的华为手机", "发自新浪邮箱客户端"),
    *("Skickat från min iPhone", "Sendt fra min iPhone", "Wysłane z iPhone’a"),
)
SENTENCES = (
    "CAUTION: approve only half of it",
    "External costs are too high",
    "Attention, Tom must agree first",
    "The invoice came from outside the company, so no",
    "You don't get it",
    "[important] only half",
    "note: checked with the external sender",
    "This message is for Tom, he decides",
    "This e-mail is my answer: only half",
    "Virus or not, only half",
    "No virus found in the attachment, but only half",
    "Disclaimer: I only approve half",
    "Hinweis: nur die Hälfte",
    "Public holidays excluded",
    "Sent from my desk, which is quieter.",
    "Sent from my phone but only approve half",
    "Sent via Tom but reject",
    "Sent from Legal: Reject",
    "Get Tom to sign",
    "Get Tom",
    "Outlook für das Quartal ist schlecht",
    "Von meinem Chef noch nicht genehmigt",
    "나의 의견은 반대",
    "내 동의는 조건부로 보냄",
    "发自内心反对",
    "部長から送信された後に承認",
)


@pytest.mark.parametrize("banner", BANNERS)
def test_a_warning_on_top_is_not_the_persons(banner: str) -> None:
    """This holds in each language, wrapped or not, and with or without a blank line below."""
    for between in ("\n\n", "\n"):
        reply = read_reply(f"{banner}{between}Approve\n\nMara")
        assert (reply.answer.strip(), reply.shown, reply.doubt) == ("Approve\n\nMara",) * 2 + ("",)
    assert read_reply(banner).answer == ""
    assert (
        banner.split("\n", maxsplit=1)[0] in read_reply(f"Approve\n\n{banner}").answer
        or "PGP" in banner
    )


@pytest.mark.parametrize("tag", ["[EXTERN]", "[EXTERNAL]:", "【外部】", "*EXTERN*"])
def test_a_tag_before_the_text_goes(tag: str) -> None:
    """The text after the tag is the person's."""
    assert read_reply(f"{tag} Approve\nthanks").answer == "Approve\nthanks"


@pytest.mark.parametrize("notice", NOTICES)
def test_a_notice_below_is_not_the_persons(notice: str) -> None:
    """Scanner notices and legal notices at the end are dropped, with the text below them."""
    for between in ("\n\n", "\n"):
        reply = read_reply(f"Approve{between}{notice}")
        assert (reply.answer, reply.shown, reply.doubt) == ("Approve", "Approve", "")
    below = read_reply(f"Approve\n\n{notice}\n\nbut only half")
    assert below.answer.endswith("but only half") or below.doubt


@pytest.mark.parametrize("line", DEVICES)
def test_a_phones_line_is_not_the_persons(line: str) -> None:
    """This holds in every language of the phones."""
    assert is_device_line(line)
    assert read_reply(f"Approve\n\n{line}").answer == "Approve"


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_stays(sentence: str) -> None:
    """A sentence that only begins like an addition is the person's, at the top and below."""
    for text in (f"{sentence}\napprove", f"approve\n{sentence}", f"approve\n\n{sentence}"):
        reply = read_reply(text)
        assert (reply.answer, reply.doubt) == (text, "")


def test_each_entry_of_the_data_is_a_phrase() -> None:
    """Each entry is a phrase: a missing pair of brackets would turn a phrase into its letters."""
    public = {name: value for name, value in vars(additions).items() if name[0] != "_"}
    tables = {name: value for name, value in public.items() if name.isupper()}
    assert tables
    for name, table in tables.items():
        for one in table:
            for phrase in (one,) if isinstance(one, str) else one:
                short = len(phrase) < 2 or (phrase.isascii() and len(phrase) < 3)
                assert not short or "FILLERS" in name or "WORDS" in name, (name, phrase)


@pytest.mark.parametrize(
    "text",
    [
        "This e-mail is confidential and only counts if Tom agrees, delete it otherwise.",
        "If you have received this in error, wait for legal. It is confidential.",
        "Diese E-Mail enthält vertrauliche Informationen. Bitte noch nicht zahlen, Absender fragen.",
        "本邮件及其附件含有保密信息，仅限收件人使用，先等汤姆确认。",
    ],
)
def test_condition_in_a_disclaimer_is_kept(text: str) -> None:
    """A paragraph with words of a disclaimer and of an answer is the person's text."""
    assert text in read_reply(f"Approved\n\n{text}").answer


@pytest.mark.parametrize(
    "line",
    [
        *("[EXTERNAL EMAIL] only if Tom agrees", "[EXTERN] nicht", "[EXTERNAL EMAIL] not"),
        *("[EXTERNAL EMAIL if Tom agrees]", "EXTERNAL EMAIL: wait until Monday"),
    ],
)
def test_words_behind_the_tag_of_a_warning_are_the_persons(line: str) -> None:
    """Some systems put their tag into the first line of the person's text."""
    assert read_reply(f"{line}\n\nApproved").answer != "Approved"
