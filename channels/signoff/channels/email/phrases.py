"""How mail programmes announce what they quote, by language: data only, case-folded."""

from typing import Final

WROTE: Final = (
    *("wrote", "writes", "schrieb", "geschrieben", "a écrit", "escribió", "escreveu", "ha scritto"),
    *("schreef", "geschreven", "skrev", "napisał(a)", "napisał", "napisała", "написал", "написала"),
    *("написал(а)", "пишет", "пише", "написав", "kirjoitti", "yazdı", "写道", "寫道", "のメール"),
    *(
        "작성",
        "쓴 글",
        "作成",
        "napsal",
        "napsal(a)",
        "napsala",
        "írta",
        "έγραψε",
        "scris",
        "ha scrit",
    ),
    *(
        "님이 작성하였습니다",
        "님이 작성하셨습니다",
        "님이 쓴 글",
        "書きました",
        "さんのメッセージ",
        "来信",
    ),
    *(
        "napísal",
        "napísala",
        "napísal(a)",
        "je napisao",
        "je napisao/la",
        "je napisal",
        "je napisala",
    ),
    *(
        "написа",
        "написао",
        "написала",
        "написав(ла)",
        "kirjutas",
        "rašė",
        "rakstīja",
        "va escriure",
    ),
    *("nadesłał", "menulis", "đã viết", "เขียน", "כתב/ה", "כתב", "כתבה", "كتب", "نوشت", "skreif"),
    *("> sent", "> schreibt", "ecrit", "a ecrit", "scrive", "escribio", "ने लिखा"),
)
"""What stands at the end of "On Monday, Ada wrote:"."""

WROTE_THEN: Final = (
    *(
        "schrieb am",
        "schrieb im",
        "schrieb",
        "skrev den",
        "skrev",
        "escribió el",
        "escreveu em",
        "escreveu",
    ),
    *("wrote on", "a écrit le", "ha scritto il", "schreef op", "schreef", "ezt írta", "kirjoitti"),
    *("napsal dne", "a scris", "menulis", "님이", "于", "於"),
)
"""The same where the date follows: "Ada <ada@x.example> schrieb am 3. Mai:"."""

OPENINGS: Final = (
    *("on ", "at ", "am ", "le ", "el ", "em ", "il ", "op ", "den ", "dnia ", "w dniu ", "dne "),
    *("i ", "pada ", "på ", "tor ", "в ", "во ", "на ", "在 ", "在", "於 ", "el día "),
    *("in data ", "dann ", "lør ", "pe ", "ma ", "ti ", "ke ", "to ", "la ", "su ", "vào "),
    *("ngày ", "la data ", "në ", "στις ", "τη ", "ב-", "בתאריך ", "dana ", "dňa ", "zo ", "za "),
    *("mon", "tue", "wed", "thu", "fri", "sat", "sun", "lun", "mar", "mer", "jeu", "ven", "sam"),
)
"""How such a line may begin, where it runs over several lines."""

SEPARATORS: Final = frozenset(
    {
        *("original message", "forwarded message", "begin forwarded message", "reply message"),
        *("ursprüngliche nachricht", "originalnachricht", "weitergeleitete nachricht"),
        *("original-nachricht", "anfang der weitergeleiteten nachricht", "original appointment"),
        *("antwort nachricht", "nachricht", "original mail", "original e-mail", "reply above"),
        *("mail original", "courriel original", "e-mail d'origine", "message d’origine"),
        *("oprindelig besked", "opprinnelig e-post", "videresendt besked", "videresendt melding"),
        *("vidarebefordrat meddelande", "alkuperäinen viesti", "původní zpráva", "pôvodná správa"),
        *("eredeti üzenet", "mesaj original", "orijinal ileti", "özgün ileti", "αρχικό μήνυμα"),
        *("пересланное сообщение", "оригінальне повідомлення", "pesan asli", "הודעה מקורית"),
        *("message d'origine", "message original", "message transféré", "message initial"),
        *("début du message transféré", "début du message réexpédié"),
        *("mensaje original", "mensaje reenviado", "inicio del mensaje reenviado"),
        *("mensagem original", "mensagem encaminhada", "início da mensagem reencaminhada"),
        *("messaggio originale", "messaggio inoltrato", "inizio messaggio inoltrato"),
        *("oorspronkelijk bericht", "oorspronkelijk e-mailbericht", "doorgestuurd bericht"),
        *("begin doorgestuurd bericht", "ursprungligt meddelande", "opprinnelig melding"),
        *("oprindelig meddelelse", "wiadomość oryginalna", "исходное сообщение"),
        *(
            "пересылаемое сообщение",
            "原始邮件",
            "原始郵件",
            "轉寄郵件",
            "转发的邮件",
            "转发邮件信息",
        ),
        *(
            "元のメッセージ",
            "転送メッセージ",
            "転送されたメッセージ",
            "원본 메시지",
            "전달된 메시지",
        ),
    }
)
"""Headings over a quoted or forwarded mail, without the dashes around them."""

AUTHOR_LABELS: Final = frozenset(
    {
        *("from", "von", "de", "da", "van", "från", "fra", "od", "от", "від", "lähettäjä"),
        *("feladó", "expeditor", "de la", "από", "מאת", "من", "dari", "odosielateľ", "kimden"),
        *("发送人", "寄件人", "來自", "发件⼈", "frá", "từ", "saatja", "šalje"),
        *("gönderen", "发件人", "寄件者", "寄件人", "差出人", "送信者", "보낸 사람", "보낸사람"),
    }
)
"""What stands before the author in a copied header block."""

HEADER_LABELS: Final = AUTHOR_LABELS | frozenset(
    {
        *("sent", "date", "to", "cc", "bcc", "subject", "reply-to", "importance", "when"),
        *("gesendet", "datum", "an", "kopie", "betreff", "antwort an", "gesendet am"),
        *("envoyé", "date d'envoi", "à", "objet", "répondre à", "copie à"),
        *("enviado", "enviado el", "fecha", "para", "asunto", "responder a"),
        *("enviada em", "enviado em", "data", "assunto", "enviada"),
        *("inviato", "a", "oggetto", "rispondi a", "risposta"),
        *("message du", "sujet", "envoyé le", "reçu le", "ogg", "dato", "kopi", "organization"),
        *("elküldve", "címzett", "tárgy", "dátum", "odesláno", "komu", "předmět", "kopie", "dne"),
        *("odoslané", "predmet", "kime", "konu", "tarih", "gönderildi", "gönderilme tarihi"),
        *("lähetetty", "vastaanottaja", "aihe", "päivämäärä", "trimis", "către", "subiect"),
        *("προς", "θέμα", "ημερομηνία", "στάλθηκε", "надіслано", "נשלח", "אל", "נושא", "תאריך"),
        *("إلى", "الموضوع", "التاريخ", "dikirim", "kepada", "perihal", "dw", "sänt", "datum"),
        *("sent at", "received", "cc", "bcc", "kopia", "på vegne af", "тема", "копия", "получено"),
        *("verzonden", "aan", "onderwerp", "beantwoorden"),
        *("skickat", "till", "ämne", "sendt", "til", "emne", "wysłano", "do", "temat"),
        *("отправлено", "дата", "кому", "тема", "发送时间", "日期", "收件人", "主题", "抄送"),
        *("寄件日期", "傳送時間", "收件者", "主旨", "副本", "送信日時", "日付", "宛先", "件名"),
        *("보낸 날짜", "날짜", "받는 사람", "받는사람", "제목", "참조", "送信日"),
    }
)
"""All labels of a copied header block."""

BANNERS: Final = ("caution", "warning", "external", "attention", "achtung", "vorsicht", "extern")
"""First words of the line that mail systems put on top of mail from elsewhere."""

BANNER_REASONS: Final = (
    *("outside", "external", "originated", "außerhalb", "externen", "extérieur", "externe"),
    *("externo", "esterno", "do not click", "unknown sender", "unbekannte"),
)
"""What else stands in that line."""
