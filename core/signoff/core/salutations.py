"""What people and phones put above and below what they say: data only, case-folded."""

from typing import Final

GREETINGS: Final = (
    *("hi", "hello", "hey", "dear", "good morning", "good afternoon", "good evening", "greetings"),
    *("hi there", "hello there", "hallo", "guten tag", "guten morgen", "guten abend", "moin"),
    *("liebe", "lieber", "sehr geehrte", "sehr geehrter", "grüß gott", "servus", "grüezi", "hoi"),
    *("bonjour", "bonsoir", "salut", "cher", "chère", "chers", "coucou", "hola", "buenos días"),
    *("buenos dias", "buenas tardes", "buenas", "estimado", "estimada", "estimados", "querido"),
    *("querida", "olá", "ola", "oi", "bom dia", "boa tarde", "boa noite", "caro", "cara"),
    *("prezado", "prezada", "prezados", "ciao", "buongiorno", "buonasera", "salve", "gentile"),
    *("goedemorgen", "goedemiddag", "goedenavond", "goedendag", "beste", "geachte", "dag"),
)
"""Words that open a mail, with names after them and a comma."""

GREETING_LINES: Final = (
    *(
        "こんにちは",
        "おはようございます",
        "お疲れ様です",
        "お疲れさまです",
        "お世話になっております",
    ),
    *(
        "お世話になります",
        "いつもお世話になっております",
        "안녕하세요",
        "안녕하십니까",
        "수고하십니다",
    ),
    *("您好", "你好", "大家好", "各位好", "早上好", "下午好", "晚上好"),
)
"""The same as whole lines."""

GREETED: Final = ("様", "さま", "さん", "殿", "先生", "님", "님께", "您好", "你好")
"""How a line ends that addresses somebody by name, in languages that put this last."""

CLOSINGS: Final = frozenset(
    {
        *("regards", "best regards", "kind regards", "warm regards", "best", "best wishes"),
        *("cheers", "sincerely", "yours sincerely", "br", "rgds", "kr"),
        *("mit freundlichen grüßen", "mit freundlichen grüssen", "freundliche grüße", "mfg", "lg"),
        *("viele grüße", "beste grüße", "liebe grüße", "gruß", "grüße", "vg"),
        *("cordialement", "bien cordialement", "bien à vous", "salutations", "cdlt"),
        *("saludos", "un saludo", "saludos cordiales", "atentamente"),
        *("atenciosamente", "cumprimentos", "abraços", "att"),
        *("cordiali saluti", "distinti saluti", "saluti"),
        *("met vriendelijke groet", "met vriendelijke groeten", "mvg", "groeten", "groet"),
        *("よろしくお願いします", "よろしくお願いいたします", "以上", "감사합니다", "此致", "祝好"),
    }
)
"""Lines that open a signature, without their trailing punctuation."""

DEVICE_OPENINGS: Final = (
    *("sent from ", "sent via ", "sent with ", "sent using ", "sent by ", "get outlook for "),
    *("get [outlook for ", "from my iphone", "from my ipad", "from my android", "from my mobile"),
    *("gesendet von ", "gesendet mit ", "von meinem ", "diese nachricht wurde von "),
    *("diese nachricht wurde mit ", "outlook für ", "holen sie sich outlook "),
    *("envoyé de ", "envoyé depuis ", "envoyé avec ", "envoyé à partir ", "télécharger outlook "),
    *("obtenez outlook ", "provenance : courrier", "provenance: courrier", "envoyé par "),
    *("enviado desde ", "enviado do ", "enviado de ", "enviado a partir ", "obtener outlook "),
    *("enviado por ", "enviado com ", "enviado con ", "enviado via ", "obter o outlook "),
    *("baixe o outlook ", "inviato da ", "inviato con ", "inviato dal ", "ottieni outlook "),
    *("scarica outlook ", "verzonden vanaf ", "verzonden met ", "verzonden via ", "verstuurd met "),
    *("verstuurd vanaf ", "download outlook ", "outlook voor ", "sendt fra ", "sendt via "),
    *("skickat från ", "hämta outlook ", "lähetetty ", "wysłano z ", "wysłane z "),
    *("odesláno z ", "odoslané z ", "elküldve ", "küldve ", "отправлено с ", "отправлено из "),
    *("надіслано з ", "gönderildi ", "iphone'umdan ", "trimis de pe ", "στάλθηκε από "),
    *(
        "発信元",
        "送信元",
        "发自我的",
        "發自我的",
        "从我的",
        "從我的",
        "获取 outlook ",
        "取得 outlook ",
    ),
    *("나의 iphone", "נשלח מה", "أُرسلت من ", "dikirim dari ", "đã gửi từ "),
)
"""First words of the line a phone puts under a mail."""

DEVICE_ENDINGS: Final = (
    *("から送信", "から送信されました", "에서 보냄", "에서 전송", "에서 보냈습니다", "에서 전송됨"),
    *("mobilgerät gesendet", "iphone gesendet", "ipad gesendet", "smartphone gesendet"),
    *("handy gesendet", "tablet gesendet", "mail gesendet", "app gesendet", " 傳送", "傳送自"),
    *("someone from mobile", "iphonestä", "den gönderildi", "dan gönderildi"),
)
"""Last words of the same line in languages that put the device first."""

APOLOGIES: Final = ("typo", "excuse", "brevity", "tippfehler", "kürze", "faute", "brièveté")
"""Words by which a longer line of this kind is told from a sentence."""
