"""How mail systems and absent people's programmes title what they send: data only, by language."""

from typing import Final

AUTO_REPLIES: Final = (
    *("auto reply", "autoreply", "auto-reply", "auto response", "autoresponse", "auto-response"),
    *("auto:", "autoresponder", "automatic reply", "automatic response", "automated reply"),
    *("automated response", "automatic email response", "out-of-office auto", "ooo:", "ooo re:"),
    *("vacation reply", "vacation response", "vacation auto", "away from my mail"),
    *("automatische antwort", "automatische rückantwort", "autoantwort", "automatische antw"),
    *("abwesenheitsnotiz", "abwesenheitsmeldung", "abwesenheitsbenachrichtigung"),
    *("abwesenheitsassistent", "ich bin nicht im büro", "urlaubsbenachrichtigung"),
    *("réponse automatique", "réponse auto", "notification d'absence", "message d'absence"),
    *("avis d'absence", "absence du bureau", "absent du bureau", "absente du bureau"),
    *("respuesta automática", "contestación automática", "mensaje automático"),
    *("aviso de ausencia", "notificación de ausencia", "fuera de la oficina", "fuera de oficina"),
    *("resposta automática", "resposta automàtica", "aviso de ausência", "fora do escritório"),
    *("ausência temporária", "notificação de ausência", "mensagem automática"),
    *("risposta automatica", "messaggio automatico", "avviso di assenza", "fuori sede"),
    *("fuori ufficio", "notifica di assenza", "assenza dall'ufficio"),
    *("automatisch antwoord", "automatische beantwoording", "automatisch bericht"),
    *("afwezigheidsbericht", "afwezigheidsmelding", "afwezigheidsassistent", "niet op kantoor"),
    *("automatiskt svar", "automatisk svar", "automatisk besvarelse", "autosvar", "frånvaromedd"),
    *("frånvarobesked", "fraværsmelding", "fraværsbesked", "fraværsmeddelelse"),
    *("automaattinen vastaus", "automaattivastaus", "poissaoloviesti", "poissaoloilmoitus"),
    *("automatyczna odpowiedź", "odpowiedź automatyczna", "autoodpowiedź", "poza biurem"),
    *("automatická odpověď", "automatická odpoveď", "mimo kancelář", "mimo kanceláriu"),
    *("automatikus válasz", "házon kívül", "irodán kívül", "automatický odpověd"),
    *("răspuns automat", "în afara biroului", "automatski odgovor", "аутоматски одговор"),
    *("samodejni odgovor", "automaatvastus", "automātiskā atbilde", "automātiska atbilde"),
    *("automatinis atsakymas", "automatinis atsakas", "sjálfvirkt svar", "erantzun automatikoa"),
    *("автоматический ответ", "автоответ", "автоматична відповідь", "автовідповідь"),
    *("автоматичен отговор", "вне офиса", "нет на месте", "нет в офисе", "поза офісом"),
    *("отсутствие на рабочем месте", "извън офиса", "аўтаматычны адказ"),
    *("αυτόματη απάντηση", "εκτός γραφείου", "otomatik yanıt", "otomatik cevap", "ofis dışında"),
    *("תשובה אוטומטית", "מענה אוטומטי", "מחוץ למשרד", "رد تلقائي", "الرد التلقائي", "رد آلي"),
    *("خارج المكتب", "پاسخ خودکار", "स्वचालित उत्तर", "ตอบกลับอัตโนมัติ", "การตอบกลับอัตโนมัติ"),
    *("trả lời tự động", "thư trả lời tự động", "balasan otomatis", "jawaban otomatis"),
    *(
        "balasan automatik",
        "自動応答",
        "自動返信",
        "自動配信",
        "不在通知",
        "不在応答",
        "不在のお知らせ",
    ),
    *("不在のため", "不在連絡", "自动回复", "自动答复", "自動回覆", "自動回复", "自動答覆"),
    *("不在办公室", "不在辦公室", "外出自动", "休假自动", "자동 응답", "자동응답", "자동 회신"),
    *("자동회신", "자동 답장", "부재중 알림", "부재 중 알림", "부재중 자동", "부재중 메시지"),
)
"""What the reply of an absent person's programme is titled with, whatever follows it."""

ABSENT: Final = (
    *("out of office", "out of the office", "out-of-office", "on vacation", "on holiday"),
    *("away from the office", "away from office", "i am away", "i'm away", "away message"),
    *("abwesenheit", "abwesend", "außer haus", "nicht im büro", "im urlaub"),
    *("absence", "absent", "absente", "en congés", "en vacances", "ausente", "ausencia"),
    *("de vacaciones", "ausência", "de férias", "assente", "assenza", "in ferie", "afwezig"),
    *("afwezigheid", "niet aanwezig", "frånvaro", "fravær", "ikke til stede", "poissa"),
    *("nieobecność", "nieobecny", "nepřítomnost", "neprítomnosť", "szabadságon"),
    *("absent de la birou", "отсутствую", "в отпуске", "у відпустці", "отсъствие", "izinde"),
    *("不在", "外出", "부재중", "부재 중", "غائب"),
)
"""The same where a person may begin a title with it as well: see `GOES_ON`."""

FAILED: Final = (
    *("undelivered mail", "undelivered message", "undelivered:", "undeliverable"),
    *("mail delivery failed", "mail delivery failure", "mail could not be delivered"),
    *("message could not be delivered", "message not delivered", "message undeliverable"),
    *("delivery has failed", "message delivery has failed", "message delivery failure"),
    *("failure notice", "returned mail", "permanent delivery", "returned to sender"),
    *("non-deliverable", "nondeliverable", "non delivery", "delivery status notification (fail"),
    *("sorry, your message could not be", "your message couldn't be delivered"),
    *("your message could not be delivered", "rejected mail:", "rejected message:"),
    *("unzustellbar", "nicht zustellbar", "nicht zugestellt", "zustellung fehlgeschlagen"),
    *("e-mail nicht zustellbar", "fehler bei der nachrichtenzustellung", "nachricht unzustellbar"),
    *("non remis", "échec de la remise", "échec de remise", "avis de non-remise"),
    *("notification d'échec", "message non distribué", "courrier non distribué", "non distribué"),
    *("échec de la distribution", "échec de distribution", "courrier non remis"),
    *("no se puede entregar", "no entregado", "correo no entregado", "mensaje no entregado"),
    *("error de entrega", "correo devuelto", "fallo en la entrega", "no se pudo entregar"),
    *("não entregue", "não é possível entregar", "falha na entrega", "mensagem não entregue"),
    *("mensagem devolvida", "falha no envio", "não foi possível entregar", "non entregado"),
    *("non recapitabile", "mancato recapito", "recapito non riuscito", "messaggio non recapita"),
    *("notifica di mancata consegna", "avviso di mancata consegna", "mancata consegna"),
    *("niet bestelbaar", "onbestelbaar", "kan niet worden bezorgd", "bezorging mislukt"),
    *("niet afgeleverd", "det går inte att leverera", "olevererbart", "kunde inte levereras"),
    *("kan ikke leveres", "kunne ikke leveres", "ei voi toimittaa", "viestiä ei voitu toimittaa"),
    *("toimitus epäonnistui", "niedostarczalne", "niedostarczon", "nie można dostarczyć"),
    *("nedoručiteln", "nelze doručit", "nedoručiteľn", "kézbesíthetetlen", "nelivrat"),
    *("nu se poate livra", "ne može se isporučiti", "neisporučivo", "ni mogoče dostaviti"),
    *("недоставлен", "не доставлен", "не удается доставить", "не удалось доставить"),
    *("сообщение не доставлено", "неможливо доставити", "teslim edilem", "iletilemedi"),
    *("δεν είναι δυνατή η παράδοση", "μη παραδοτέ", "לא ניתן למסירה", "غير قابل للتسليم"),
    *("تعذر التسليم", "không thể gửi", "ส่งไม่ได้", "tidak dapat dikirim", "tidak terkirim"),
    *(
        "配信不能",
        "配信エラー",
        "メールエラー",
        "メール配信エラー",
        "送信エラー",
        "配達不能",
        "不達",
    ),
    *(
        "无法投递",
        "无法送达",
        "無法傳遞",
        "無法投遞",
        "未送达",
        "未傳遞",
        "系统退信",
        "退信",
        "投递失败",
    ),
    *(
        "邮件投递失败",
        "배달되지 않음",
        "배달할 수 없",
        "반송된 메일",
        "반송 메일",
        "메일 전송 실패",
        "전송 실패",
    ),
)
"""What a report is titled with that says that a mail never arrived."""

LATER: Final = (
    *("warning: message", "warning: could not send", "delayed mail", "delivery delayed"),
    *("mail delivery warning", "delivery status notification (delay", "delayed:", "verzögert:"),
    *("verzögerte zustellung", "zustellung verzögert", "différé :", "remise différée", "retardé :"),
    *("retrasado:", "entrega retrasada", "atrasado:", "ritardato:", "vertraagd:", "försenad:"),
    *("forsinket:", "viivästynyt:", "opóźnione:", "задержка доставки", "доставка отложена"),
    *("配信遅延", "已延迟:", "邮件延迟", "배달 지연", "전송 지연"),
)
"""What a report is titled with that says that a mail is still under way."""

REPORTS: Final = (
    *("auto generated", "auto-generated", "autogenerated", "automatically generated"),
    *("mail delivery system", "mail delivery status", "delivery status notification"),
    *("mail system error", "notice: mail delivery", "postmaster notify", "loop alert"),
    *("complaint about message from", "email feedback report", "abuse report for"),
    *("übermittlungsstatusbenachrichtigung", "notification d'état de remise"),
    *("notificación de estado de entrega", "notificação de status de entrega"),
    *("notifica dello stato del recapito", "уведомление о состоянии доставки"),
    *("read:", "gelesen:", "lu :", "lu:", "leído:", "lida:", "letto:", "gelezen:", "not read:"),
    *("läst:", "læst:", "lest:", "luettu:", "przeczytano:", "přečteno:", "прочтено:", "okundu:"),
    *("開封済み:", "已读:", "已讀:", "읽음:", "ungelesen gelöscht:", "non lu", "no leído:"),
)
"""What any other report is titled with: receipts, complaints, statuses."""

STATUSES: Final = (
    *("mail failure", "delivery notification", "delivery failure", "delivery failed"),
    *("delivery report", "delivery status", "email delivery failure", "mail error"),
)
"""The same where a person may begin a title with it as well: see `GOES_ON`."""

GOES_ON: Final = frozenset(
    {
        *("until", "till", "til", "from", "through", "auto", "automatic", "autoreply", "message"),
        *("reply", "notice", "notification", "response", "re", "fw", "fwd", "aw", "wg", "sv"),
        *("bis", "vom", "ab", "jusqu", "hasta", "desde", "até", "fino", "dal", "tot", "t", "tom"),
        *("frem", "do", "od", "по", "с", "до"),
    }
)
"""What a title goes on with that a programme has begun; a person's title goes on otherwise."""

OPENINGS: Final = (
    *("this is an automat", "this is an auto-", "this is an autoreply", "this is an autoresp"),
    *("this is a system-generated", "this message was created automatically"),
    *("this message was automatically", "this message is automatically"),
    *("this e-mail was automatically", "this email was automatically", "this email was sent auto"),
    *("this message has been automatically", "this email has been automatically"),
    *("this e-mail has been automatically", "this is the mail system at", "this is the qmail-send"),
    *("hi. this is the", "you have received an automatic", "this is an advisory-only"),
    *("your message could not be delivered", "your message did not reach", "your e-mail could not"),
    *("delivery to the following recipient", "a message that you sent could not be delivered"),
    *("the following message could not be delivered", "your mail could not be delivered"),
    *("dies ist eine automatisch", "diese e-mail wurde automatisch", "diese nachricht wurde auto"),
    *("ihre nachricht konnte nicht zugestellt", "ceci est un message automatique"),
    *("ceci est une réponse automatique", "ce message a été généré automatiquement"),
    *("ce message est généré automatiquement", "votre message n'a pas pu être délivré"),
    *("votre message n'a pas pu être remis", "votre message n'a pas pu être distribué"),
    *("este es un mensaje automático", "esta es una respuesta automática"),
    *("este mensaje ha sido generado automáticamente", "su mensaje no ha podido ser entregado"),
    *("su mensaje no pudo ser entregado", "esta é uma resposta automática"),
    *("esta é uma mensagem automática", "sua mensagem não pôde ser entregue"),
    *("questo è un messaggio automatico", "questa è una risposta automatica"),
    *("dit is een automatisch", "detta är ett automatiskt", "dette er en automatisk"),
    *("dette er et automatisk", "tämä on automaattinen", "to jest automatyczn"),
    *("toto je automatick", "это автоматический ответ", "это автоматическое"),
    *(
        "これは自動",
        "このメールは自動",
        "本メールは自動",
        "这是一封自动",
        "此为自动",
        "本邮件为自动",
    ),
    *("此邮件由系统自动", "이 메일은 자동", "본 메일은 발신전용"),
)
"""How the text of such mail begins, where nothing else gives it away."""
