"""How mail programs of many languages quote a mail: a table without tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

NAME, ADDRESS = "Signoff", "approvals@signoff.example"
WHO = f"{NAME} <{ADDRESS}>"

WROTE = {
    "en": f"On Mon, Mar 2, 2026 at 10:00 AM {WHO} wrote:",
    "de": f"Am Mo., 2. März 2026 um 10:00 Uhr schrieb {WHO}:",
    "fr": f"Le lun. 2 mars 2026 à 10:00, {WHO} a écrit :",
    "es": f"El lun, 2 mar 2026 a las 10:00, {NAME} (<{ADDRESS}>) escribió:",
    "pt": f"{WHO} escreveu (segunda, 2/03/2026 à(s) 10:00):",
    "it": f"Il giorno lun 2 mar 2026 alle ore 10:00 {WHO} ha scritto:",
    "nl": f"Op ma 2 mrt 2026 om 10:00 schreef {WHO}:",
    "ja": f"2026年3月2日(月) 10:00 {WHO}:",
    "ko": f"2026년 3월 2일 (월) 오전 10:00, {NAME} <{ADDRESS}>님이 작성:",
    "zh": f"{WHO} 于2026年3月2日周一 10:00写道：",
    "zh-tw": f"{WHO} 於 2026年3月2日 週一 上午10:00寫道：",
    "sv": f"Den mån 2 mars 2026 kl 10:00 skrev {WHO}:",
    "da": f"Den man. 2. mar. 2026 kl. 10.00 skrev {WHO}:",
    "no": f"man. 2. mars 2026 kl. 10:00 skrev {WHO}:",
    "fi": f"ma 2. maaliskuuta 2026 klo 10.00 {WHO} kirjoitti:",
    "pl": f"pon., 2 mar 2026 o 10:00 {WHO} napisał(a):",
    "cs": f"po 2. 3. 2026 v 10:00 odesílatel {WHO} napsal:",
    "ru": f"пн, 2 мар. 2026 г. в 10:00, {WHO}:",
    "uk": f"пн, 2 бер. 2026 р. о 10:00 {WHO} пише:",
    "tr": f"{WHO}, 2 Mar 2026 Pzt, 10:00 tarihinde şunu yazdı:",
    "hu": f"{WHO} ezt írta (időpont: 2026. márc. 2., H, 10:00):",
    "ro": f"În lun., 2 mar. 2026 la 10:00, {WHO} a scris:",
}
"""The line that Gmail puts above a quotation."""

APPLE = {
    "en": f"On 2 Mar 2026, at 10:00, {WHO} wrote:",
    "de": f"Am 02.03.2026 um 10:00 schrieb {WHO}:",
    "fr": f"Le 2 mars 2026 à 10:00, {WHO} a écrit :",
    "es": f"El 2 mar 2026, a las 10:00, {WHO} escribió:",
    "pt": f"No dia 02/03/2026, às 10:00, {WHO} escreveu:",
    "it": f"Il giorno 2 mar 2026, alle ore 10:00, {WHO} ha scritto:",
    "nl": f"Op 2 mrt 2026, om 10:00 heeft {WHO} het volgende geschreven:",
    "ja": f"2026/03/02 10:00、{WHO}のメール:",
    "ko": f"2026. 3. 2. 오전 10:00, {WHO} 작성:",
    "zh": f"在 2026年3月2日，10:00，{WHO} 写道：",
}
"""The line that Apple Mail and the iPhone put above a quotation."""

THUNDERBIRD = {
    "en": f"On 02/03/2026 10:00, {NAME} wrote:",
    "de": f"Am 02.03.26 um 10:00 schrieb {NAME}:",
    "fr": f"Le 02/03/2026 à 10:00, {NAME} a écrit :",
    "es": f"El 2/3/26 a las 10:00, {NAME} escribió:",
    "pt": f"Em 02/03/2026 10:00, {NAME} escreveu:",
    "it": f"Il 02/03/26 10:00, {NAME} ha scritto:",
    "nl": f"Op 02-03-2026 om 10:00 schreef {NAME}:",
    "ja": f"On 2026/03/02 10:00, {NAME} wrote:",
    "ko": f"26. 3. 2. 10:00에 {NAME} 이(가) 쓴 글:",
    "zh": f"在 2026/3/2 10:00, {NAME} 写道:",
}
"""The line that Thunderbird puts above a quotation; K-9's is much the same."""

LABELS = {
    "en": ("From", "Sent", "To", "Subject"),
    "de": ("Von", "Gesendet", "An", "Betreff"),
    "fr": ("De", "Envoyé", "À", "Objet"),
    "es": ("De", "Enviado", "Para", "Asunto"),
    "pt": ("De", "Enviada em", "Para", "Assunto"),
    "it": ("Da", "Inviato", "A", "Oggetto"),
    "nl": ("Van", "Verzonden", "Aan", "Onderwerp"),
    "ja": ("差出人", "送信日時", "宛先", "件名"),
    "ko": ("보낸 사람", "보낸 날짜", "받는 사람", "제목"),
    "zh": ("发件人", "发送时间", "收件人", "主题"),
    "zh-tw": ("寄件者", "寄件日期", "收件者", "主旨"),
    "sv": ("Från", "Skickat", "Till", "Ämne"),
    "da": ("Fra", "Sendt", "Til", "Emne"),
    "fi": ("Lähettäjä", "Lähetetty", "Vastaanottaja", "Aihe"),
    "pl": ("Od", "Wysłano", "Do", "Temat"),
    "cs": ("Od", "Odesláno", "Komu", "Předmět"),
    "ru": ("От", "Отправлено", "Кому", "Тема"),
    "tr": ("Gönderen", "Gönderildi", "Kime", "Konu"),
    "hu": ("Feladó", "Elküldve", "Címzett", "Tárgy"),
}
"""The labels of the header that Outlook copies."""

HEADINGS = {
    "en": "Original Message",
    "de": "Ursprüngliche Nachricht",
    "fr": "Message d'origine",
    "es": "Mensaje original",
    "pt": "Mensagem original",
    "it": "Messaggio originale",
    "nl": "Oorspronkelijk bericht",
    "ja": "元のメッセージ",
    "ko": "원본 메시지",
    "zh": "原始邮件",
    "sv": "Ursprungligt meddelande",
    "pl": "Wiadomość oryginalna",
}

WORDS = {
    "en": ("Approved, thanks", "no, too expensive"),
    "de": ("Genehmigt, danke!", "Nein, zu teuer"),
    "fr": ("D’accord, merci.", "Non, trop cher"),
    "es": ("De acuerdo, gracias", "No, muy caro"),
    "pt": ("Aprovado, obrigada", "Não, caro demais"),
    "it": ("Va bene, grazie", "No, troppo caro"),
    "nl": ("Akkoord, bedankt", "Nee, te duur"),
    "ja": ("承認します。", "却下します。高すぎます"),
    "ko": ("승인합니다.", "거절합니다. 너무 비쌉니다"),
    "zh": ("同意，谢谢", "不同意，太贵了"),
}
"""Answers of a person: an approval and a rejection."""

PHONE = {
    "en": "Sent from my iPhone",
    "de": "Von meinem iPhone gesendet",
    "fr": "Envoyé de mon iPhone",
    "es": "Enviado desde mi iPhone",
    "pt": "Enviado do meu iPhone",
    "it": "Inviato da iPhone",
    "nl": "Verstuurd vanaf mijn iPhone",
    "ja": "iPhoneから送信",
    "ko": "나의 iPhone에서 보냄",
    "zh": "发自我的iPhone",
}


class Style(NamedTuple):
    """A way to quote a mail; a person may also answer below a ``marked`` quotation."""

    client: str
    language: str
    marked: bool
    quote: Callable[[str], str]


def marked(text: str, mark: str = "> ") -> str:
    """Mark every line as quoted."""
    return "".join(f"{mark}{line}".rstrip() + "\n" for line in text.splitlines())


def folded(attribution: str) -> str:
    """Break an attribution as Gmail does: after the "<" or before the last word."""
    head, found, tail = attribution.partition(f"<{ADDRESS}")
    return f"{head}<\n{ADDRESS}{tail}" if found and len(attribution) > 60 else attribution


def block(language: str, star: str = "") -> str:
    """Return the header block that Outlook copies."""
    values = (WHO, "Monday, 2 March 2026 10:00", "Mara <mara@example.com>", "Approval needed")
    pairs = zip(LABELS[language], values, strict=True)
    return "".join(f"{star}{label}:{star} {value}\n" for label, value in pairs)


def styles() -> Iterator[Style]:
    """Yield every mail program in every language in which its quotations are known."""
    yield from _attributed()
    yield from _copied()
    yield from _others()


def below(head: str, mark: Callable[[str], str] = str) -> Callable[[str], str]:
    """Return a function that puts a text below a head, marked or unchanged."""
    return lambda text: head + mark(text)


def _tight(text: str) -> str:
    return marked(text, ">")


def _inside(head: str) -> Callable[[str], str]:
    return lambda text: marked(head + text)


def _attributed() -> Iterator[Style]:
    for client, lines in (("gmail", WROTE), ("apple", APPLE), ("thunderbird", THUNDERBIRD)):
        for language, line in lines.items():
            yield Style(client, language, True, below(f"{line}\n\n", marked))
            yield Style(f"{client} tight", language, True, below(f"{line}\n", _tight))
            yield Style(f"{client} folded", language, True, below(f"{folded(line)}\n", marked))
            yield Style(f"{client} bare", language, False, below(f"{line}\n\n"))
            yield Style(f"{client} inside", language, True, _inside(f"{line}\n\n"))


def _copied() -> Iterator[Style]:
    rule = "_" * 32 + "\n"
    for language in LABELS:
        copied = f"{block(language)}\n"
        yield Style("outlook desktop", language, False, below(copied))
        yield Style("outlook web", language, False, below(rule + copied))
        yield Style("outlook plain", language, False, below(f"{block(language, '*')}\n"))
        yield Style("outlook marked", language, True, _inside(copied))
    for language, heading in HEADINGS.items():
        copied = block(language) if language in LABELS else ""
        for rules in ("-----", "-------- "):
            line = f"{rules}{heading}{rules[::-1]}"
            yield Style("heading", language, False, below(f"{line}\n"))
            yield Style("gmx", language, False, below(f"{line}\n{copied}\n"))


def _others() -> Iterator[Style]:
    """Yield the mail programs with a style of their own."""
    lines = {
        "yahoo": f"On Monday, March 2, 2026 at 10:00:00 AM GMT+1, {WHO} wrote:",
        "proton": f"On Monday, March 2nd, 2026 at 10:00 AM, {WHO} wrote:",
        "zoho": f"---- On Mon, 02 Mar 2026 10:00:00 +0100 {WHO} wrote ----",
        "k-9": f'Am 2. März 2026 10:00:00 MEZ schrieb "{NAME}" <{ADDRESS}>:',
        "mutt": f"On Mon, Mar 02, 2026 at 10:00:00AM +0100, {NAME} wrote:",
        "pine": f"On Mon, 2 Mar 2026, {NAME} wrote:",
        "roundcube": f"On 2026-03-02 10:00, {NAME} wrote:",
        "gmx": f'Am 02.03.26, 10:00 schrieb "{NAME}" <{ADDRESS}>:',
        "web.de": f"Gesendet: Montag, 2. März 2026 um 10:00 Uhr\nVon: {WHO}\nAn: mara@example.com\n"
        "Betreff: Approval needed",
        "lotus": f"From: {WHO}\nTo: mara@example.com\nDate: 02.03.2026 10:00\nSubject: Approval",
        "samsung": f"-------- Original message --------\nFrom: {WHO}\nDate: 02/03/2026 10:00",
        "blackberry": f"Original Message\nFrom: {WHO}\nSent: Monday, 2 March 2026 10:00\n"
        "To: mara@example.com\nSubject: Approval needed",
        "david": "Original Message processed by david®",
        "qq": f"------------------ Original ------------------\nFrom: {WHO}",
    }
    for client, line in lines.items():
        yield Style(client, "", False, below(f"{line}\n\n"))
        if "wrote" in line or "schrieb" in line:
            yield Style(f"{client} marked", "", True, below(f"{line}\n\n", marked))
    yield Style("nothing", "", False, str)
    yield Style("only marks", "", True, marked)
    yield Style("initials", "", True, lambda text: marked(text, "SO> "))
