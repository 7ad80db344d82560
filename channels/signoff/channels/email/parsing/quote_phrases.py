"""How mail programs announce what they quote, by language: data only, case-folded."""

from typing import Final

WROTE: Final = (
    *("wrote", "writes", "schrieb", "geschrieben", "a écrit", "escribió", "escreveu", "ha scritto"),
    *("schreef", "geschreven", "skrev", "napisał(a)", "napisał", "napisała", "написал", "написала"),
    *("написал(а)", "пишет", "пише", "написав", "kirjoitti", "yazdı", "写道", "寫道", "のメール"),
    *("작성", "쓴 글", "作成", "napsal", "napsal(a)", "napsala", "írta", "έγραψε", "scris"),
    *("ha scrit", "님이 작성하였습니다", "님이 작성하셨습니다", "님이 쓴 글", "書きました"),
    *("さんのメッセージ", "のメッセージ", "来信", "napísal", "napísala", "napísal(a)"),
    *("je napisao", "je napisao/la", "je napisal", "je napisala", "napisao je", "napisala je"),
    *("napisao/la je", "napisao", "napisal", "napisala", "је написао/ла", "је написао"),
    *("је написала", "написа", "написао", "написав(ла)", "написав(-ла)", "kirjutas", "rašė"),
    *("rakstīja", "va escriure", "escribiu", "hau idatzi du", "idatzi du", "geskryf", "skrifaði"),
    *("skrifar", "skreif", "ysgrifennodd", "nadesłał", "menulis", "tulis", "đã viết", "เขียน"),
    *("เขียนว่า", "ameandika", "aliandika", "כתב/ה", "כתב", "כתבה", "كتب", "كتب/كتبت", "كتبت"),
    *("نوشت", "نے لکھا", "ने लिखा", "यांनी लिहिले", "ने लिहिले", "লিখেছেন", "এ লিখেছেন"),
    *("લખ્યું", "ਨੇ ਲਿਖਿਆ", "எழுதியது", "எழுதினார்", "వ్రాశారు", "రాసారు", "ಬರೆದರು", "ಬರೆದಿದ್ದಾರೆ", "എഴുതി"),
    *("> sent", "> schreibt", "schreibt", "ecrit", "a ecrit", "scrive", "escribio", "pisze"),
    *("gschribe", "gschriebe", "gschribä", "gschriibe"),
)
"""What stands at the end of "On Monday, Ada wrote:"."""

WROTE_THEN: Final = (
    *("schrieb am", "schrieb im", "schrieb", "skrev den", "skrev", "escribió el", "escreveu em"),
    *("escreveu", "wrote on", "a écrit le", "ha scritto il", "schreef op", "schreef", "ezt írta"),
    *("írta", "kirjoitti", "kirjutas", "skrifaði", "ysgrifennodd", "yazdı", "şunları yazdı"),
    *("napsal dne", "a scris", "menulis", "napisał dnia", "hau idatzi du", "sinulat ni"),
    *("تمت كتابة ما يلي بواسطة", "كتب/كتبت", "كتب", "جاء من", "מאת"),
    *("님이", "于", "於"),
)
"""The same where the date or the author follows: "Ada <ada@x.example> schrieb am 3. Mai:"."""

MESSAGE_OF: Final = (
    *("wiadomość napisana przez ", "message from ", "nachricht von ", "message de "),
    *("missatge de ", "mensaje de ", "messaggio da ", "bericht van ", "meddelande från "),
    *(
        "quoting ",
        "zitat von ",
        "citando ",
        "citando a ",
        "citazione di ",
        "citeren ",
        "citat fra ",
    ),
    *("citerar ", "cytowanie ", "citace ", "idézet ", "citation de ", "mensagem de "),
    *("le message de ", "in message <", "in article <", "в сообщении от ", "cytat ", "message du "),
)
"""How a line begins that names the author of a quotation, and ends with a colon."""

OPENINGS: Final = (
    *("on ", "at ", "am ", "le ", "el ", "em ", "il ", "op ", "den ", "dnia ", "w dniu ", "dne "),
    *("i ", "pada ", "på ", "tor ", "в ", "во ", "на ", "在 ", "在", "於 ", "el día ", "no dia "),
    *("in data ", "dann ", "lør ", "pe ", "ma ", "ti ", "ke ", "to ", "la ", "su ", "vào "),
    *("ngày ", "la data ", "në ", "στις ", "τη ", "ב-", "בתאריך ", "dana ", "dňa ", "zo ", "za "),
    *("în ", "ar ", "o ", "v ", "kuupäev ", "noong ", "mnamo ", "ในวันที่ ", "เมื่อวันที่ ", "في "),
    *("بتاريخ ", "در تاریخ ", "wiadomość ", "missatge ", "il giorno ", "dia "),
)
"""How such a line may begin, where it runs over several lines."""

DAYS: Final = (
    *("mon", "tue", "wed", "thu", "fri", "sat", "sun", "lun", "mar", "mer", "jeu", "ven", "sam"),
    *("sáb", "dom", "mié", "jue", "vie", "gio", "dim", "pon", "wt", "śr", "czw", "pt", "sob"),
)
"""Days of the week, with one of which it begins too."""

SEPARATORS: Final = frozenset(
    {
        *("original message", "forwarded message", "begin forwarded message", "reply message"),
        *("ursprüngliche nachricht", "originalnachricht", "weitergeleitete nachricht"),
        *("original-nachricht", "anfang der weitergeleiteten nachricht", "original appointment"),
        *("antwort nachricht", "nachricht", "original mail", "original e-mail", "reply above"),
        *("vorherige nachricht", "ursprüngliche e-mail", "ursprüngliche mail", "original email"),
        *("mail original", "courriel original", "e-mail d'origine", "message d’origine"),
        *("message d'origine", "message original", "message transféré", "message initial"),
        *("message précédent", "début du message transféré", "début du message réexpédié"),
        *("mensaje original", "mensaje reenviado", "inicio del mensaje reenviado"),
        *("correo original", "missatge original", "missatge reenviat", "mensaxe orixinal"),
        *("mensagem original", "mensagem encaminhada", "início da mensagem reencaminhada"),
        *("messaggio originale", "messaggio inoltrato", "inizio messaggio inoltrato"),
        *("inizio del messaggio inoltrato", "oorspronkelijk bericht", "doorgestuurd bericht"),
        *("oorspronkelijk e-mailbericht", "begin doorgestuurd bericht", "origineel bericht"),
        *("ursprungligt meddelande", "originalmeddelande", "vidarebefordrat meddelande"),
        *(
            "oprindelig besked",
            "oprindelig meddelelse",
            "opprinnelig e-post",
            "opprinnelig melding",
        ),
        *("videresendt besked", "videresendt melding", "alkuperäinen viesti", "välitetty viesti"),
        *("wiadomość oryginalna", "oryginalna wiadomość", "wiadomość przekazana"),
        *("początek wiadomości przekazanej", "treść oryginalnej wiadomości"),
        *("původní zpráva", "původní e-mail", "přeposlaná zpráva", "pôvodná správa"),
        *("pôvodný e-mail", "eredeti üzenet", "továbbított üzenet", "mesaj original"),
        *("mesajul original", "orijinal ileti", "orijinal mesaj", "özgün ileti", "iletilen ileti"),
        *("αρχικό μήνυμα", "исходное сообщение", "пересылаемое сообщение"),
        *("пересланное сообщение", "начало переадресованного сообщения", "оригинално съобщение"),
        *("оригінальне повідомлення", "переслане повідомлення", "izvorna poruka"),
        *("originalna poruka", "izvorno sporočilo", "pradinis pranešimas", "algne kiri"),
        *("algne sõnum", "sākotnējais ziņojums", "upprunaleg skilaboð", "pesan asli"),
        *("pesan terusan", "thư gốc", "tin nhắn gốc", "ข้อความต้นฉบับ", "मूल संदेश"),
        *("הודעה מקורית", "הודעה שהועברה", "الرسالة الأصلية", "رسالة أصلية"),
        *("رسالة معاد توجيهها", "پیام اصلی", "原始邮件", "原始郵件", "轉寄郵件", "转发的邮件"),
        *("转发邮件信息", "原邮件", "回复的原邮件", "原始信件", "原始訊息", "回复的邮件"),
        *("元のメッセージ", "元のメール", "オリジナルメッセージ", "転送メッセージ"),
        *("転送されたメッセージ", "원본 메시지", "원본 메일", "원본메일", "원본 메세지"),
        *("전달된 메시지", "전달된 메일", "begin pgp signature"),
    }
)
"""Headings over a quoted or forwarded mail, without the dashes around them."""

AUTHOR_LABELS: Final = frozenset(
    {
        *("from", "von", "de", "da", "van", "från", "fra", "od", "от", "від", "lähettäjä"),
        *("feladó", "expeditor", "de la", "από", "מאת", "من", "dari", "odosielateľ", "kimden"),
        *("发送人", "寄件人", "來自", "发件⼈", "frá", "từ", "saatja", "šalje", "daripada", "از"),
        *("gönderen", "发件人", "寄件者", "發件人", "差出人", "送信者", "送信元", "보낸 사람"),
        *("보낸사람", "보낸이", "발신", "발신자", "발신인", "nadawca", "absender", "expéditeur"),
        *("mittente", "remitente", "remetente", "afzender", "odesílatel", "nuo", "sūtītājs"),
        *("prejemnik", "nork", "จาก", "प्रेषक", "vo", "message du", "מאת:"),
    }
)
"""What stands before the author in a copied header block."""

SUBJECT_LABELS: Final = frozenset(
    {
        *("subject", "betreff", "objet", "sujet", "asunto", "assunto", "oggetto", "ogg"),
        *("onderwerp", "ämne", "emne", "temat", "předmět", "predmet", "konu", "aihe", "tárgy"),
        *("subiect", "θέμα", "тема", "נושא", "الموضوع", "موضوع", "perihal", "subjek", "主题"),
        *("主旨", "件名", "제목", "относно", "zadeva", "tēma", "teema", "efni", "assumpte", "gaia"),
        *("chủ đề", "เรื่อง", "विषय", "主題", "标题", "beträff"),
    }
)
"""What stands before the subject."""

HEADER_LABELS: Final = (
    AUTHOR_LABELS
    | SUBJECT_LABELS
    | frozenset(
        {
            *("sent", "date", "to", "cc", "bcc", "reply-to", "importance", "when", "sent at"),
            *("received", "gesendet", "datum", "an", "kopie", "antwort an", "gesendet am"),
            *("empfänger", "gsendet", "gschickt", "envoyé", "date d'envoi", "à", "répondre à"),
            *("copie à", "envoyé le", "reçu le", "destinataire", "enviado", "enviado el", "fecha"),
            *("para", "responder a", "destinatario", "enviada em", "enviado em", "data"),
            *("enviada", "destinatário", "inviato", "inviato il", "a", "rispondi a", "risposta"),
            *("dato", "kopi", "organization", "elküldve", "címzett", "dátum", "odesláno"),
            *("komu", "dne", "odoslané", "kime", "tarih", "gönderildi", "gönderilme tarihi"),
            *("lähetetty", "vastaanottaja", "päivämäärä", "trimis", "către", "προς"),
            *("ημερομηνία", "στάλθηκε", "надіслано", "נשלח", "אל", "תאריך", "إلى", "التاريخ"),
            *("تم الإرسال", "مرسل", "تاریخ", "به", "dikirim", "kepada", "ke", "dihantar", "dw"),
            *("sänt", "kopia", "på vegne af", "копия", "получено", "verzonden", "aan"),
            *("beantwoorden", "ontvanger", "skickat", "till", "sendt", "til", "wysłano", "do"),
            *("adresat", "odbiorca", "data wysłania", "отправлено", "дата", "кому", "до"),
            *("изпратено", "poslano", "poslato", "za", "prima", "siųsta", "kam", "nosūtīts"),
            *("saadetud", "adressaat", "kellele", "enviat", "per a", "bidalia", "nori"),
            *("đã gửi", "tới", "đến", "ngày", "ส่ง", "ถึง", "วันที่", "भेजा गया", "प्रति"),
            *("发送时间", "发件时间", "发送日期", "日期", "时间", "收件人", "抄送", "發送時間"),
            *("寄件日期", "寄件時間", "傳送時間", "收件者", "副本", "送信日時", "日時", "日付"),
            *("宛先", "送信日", "受信者", "보낸 날짜", "보낸날짜", "보낸 시간", "날짜", "일시"),
            *("받는 사람", "받는사람", "받는이", "수신", "수신자", "수신인", "참조"),
        }
    )
)
"""All labels of a copied header block."""
