"""The words an approver may answer with: data only, no behaviour.

Every entry is already in the form it is compared in: NFKC, case-folded, single spaces. Only words
that say yes or no and nothing else are here; "sure", "fine" or "noted" are not, because a wrong yes
costs more than one more question.
"""

from typing import Final

APPROVE: Final = frozenset(
    {
        # English, and what every language borrowed from it.
        *("approve", "approved", "i approve", "yes", "ok", "okay", "lgtm", "go ahead", "👍"),
        # German
        *("genehmigen", "genehmigt", "genehmige", "ich genehmige", "freigeben", "freigegeben"),
        *("bewilligt", "einverstanden", "in ordnung", "ja"),
        # French
        *("approuver", "approuvé", "approuvée", "approuve", "j'approuve", "accepté", "acceptée"),
        *("d'accord", "oui"),
        # Spanish
        *("aprobar", "aprobado", "aprobada", "apruebo", "autorizado", "autorizada", "de acuerdo"),
        *("adelante", "sí", "si"),
        # Portuguese
        *("aprovar", "aprovado", "aprovada", "aprovo", "de acordo", "sim"),
        # Italian
        *("approvare", "approvato", "approvata", "approvo", "d'accordo", "va bene", "sì"),
        # Dutch
        *("goedkeuren", "goedgekeurd", "akkoord"),
        # Japanese
        *("承認", "承認します", "承認する", "承認しました", "承認済み", "はい"),
        # Korean
        *("승인", "승인합니다", "승인함", "네", "예"),
        # Chinese, simplified and traditional
        *("批准", "同意", "核准", "通过", "通過", "是", "是的", "好", "好的", "可以"),
    }
)
"""Words that approve."""

REJECT: Final = frozenset(
    {
        *("reject", "rejected", "i reject", "deny", "denied", "decline", "declined", "👎"),
        *("ablehnen", "abgelehnt", "lehne ab", "ich lehne ab", "verweigert"),
        *("rejeter", "rejeté", "rejetée", "je rejette", "refuser", "refusé", "refusée", "refuse"),
        *("je refuse",),
        *("rechazar", "rechazado", "rechazada", "rechazo", "denegar", "denegado", "denegada"),
        *("rejeitar", "rejeitado", "rejeitada", "rejeito", "recusar", "recusado", "recusada"),
        *("recuso", "negado", "negada"),
        *("rifiutare", "rifiutato", "rifiutata", "rifiuto", "respingo", "respinto", "respinta"),
        *("afwijzen", "afgewezen", "afkeuren", "afgekeurd", "weigeren", "geweigerd"),
        *("却下", "却下します", "却下する", "否認", "拒否", "拒否します", "承認しません"),
        *("거절", "거절합니다", "거부", "거부합니다", "반려", "반려합니다"),
        *("拒绝", "拒絕", "驳回", "駁回", "不同意", "不批准"),
    }
)
"""Verbs that reject; plain words after them are the reason."""

REJECT_BRIEF: Final = frozenset(
    {
        *("no", "nope", "nein", "non", "não", "nao", "nee"),
        *("いいえ", "아니요", "아니오", "否", "不", "不行", "不可以"),
    }
)
"""Short refusals, which need a separator before a reason: "no problem" is no refusal."""

WITH: Final = frozenset({"with", "mit", "avec", "con", "com", "met"})
"""Words that may lead the values in: "approve with amount=900"."""

COURTESY: Final = frozenset(
    {
        *("please", "thanks", "thank you", "many thanks", "bitte", "danke", "vielen dank", "merci"),
        *("gracias", "muchas gracias", "obrigado", "obrigada", "grazie", "bedankt", "dank je"),
        *("ありがとう", "ありがとうございます", "お願いします", "감사합니다", "谢谢", "謝謝"),
    }
)
"""Politeness that may follow a command word without changing it."""

CONDITIONS: Final = (
    *("only if", "unless", "as long as", "provided", "on condition", "but only", "but not"),
    *("not yet", "instead", "except for", "aber nicht", "stattdessen", "mais pas", "plutôt"),
    *("pero no", "en su lugar", "mas não", "em vez", "ma non", "invece", "maar niet"),
    *("nur wenn", "nur falls", "sofern", "es sei denn", "unter der bedingung"),
    *("seulement si", "uniquement si", "à condition", "sauf si", "à moins que"),
    *("solo si", "sólo si", "a menos que", "siempre que", "con la condición"),
    *("somente se", "só se", "a menos que", "desde que", "com a condição"),
    *("solo se", "a meno che", "a patto che", "a condizione"),
    *("alleen als", "tenzij", "mits", "op voorwaarde"),
    *("場合のみ", "条件", "경우에만", "조건", "除非", "前提"),
)
"""Phrases that make an answer conditional. Nobody can hold a tool call to a condition in prose."""

HEDGES: Final = frozenset(
    {
        *("but", "only", "if", "unless", "except", "however", "maybe", "when", "once", "after"),
        *("or", "oder", "ou", "of", "wait", "actually", "stop", "hold", "cancel", "scratch"),
        *(
            "correction",
            "moment",
            "warte",
            "stopp",
            "halt",
            "attends",
            "espera",
            "aspetta",
            "wacht",
        ),
        *("aber", "nur", "wenn", "falls", "sobald", "außer", "vielleicht", "jedoch"),
        *("mais", "seulement", "si", "sauf", "peut-être", "quand", "pero", "solo", "sólo"),
        *("salvo", "cuando", "quizás", "mas", "porém", "se", "exceto", "quando", "talvez"),
        *("ma", "però", "tranne", "forse", "maar", "alleen", "als", "behalve", "misschien"),
        *("ただし", "でも", "しかし", "하지만", "그러나", "但", "但是", "如果"),
    }
)
"""First words of an afterthought that takes the answer half back."""

NEGATIONS: Final = frozenset(
    {
        *("not", "no", "don't", "dont", "never", "nothing", "none", "neither", "without"),
        *("nicht", "kein", "keine", "nie", "nichts", "pas", "jamais", "ne", "rien", "nunca"),
        *("não", "nao", "nada", "non", "mai", "niente", "niet", "geen", "nooit"),
    }
)
"""First words that turn a command round: "approve not"."""

HARMLESS: Final = frozenset(
    {
        *(
            "no problem",
            "no problems",
            "no objection",
            "no objections",
            "no concerns",
            "no worries",
        ),
        *("no issues", "no comments", "no further comments", "no questions", "not a problem"),
        *("kein problem", "keine einwände", "pas de problème", "nessun problema", "sin problema"),
        *("sem problema", "geen probleem", "geen bezwaar"),
    }
)
"""Phrases that begin like a no and are none; as the reason of a yes they may stand."""

TRUE: Final = frozenset(
    {"yes", "true", "y", "ja", "oui", "sí", "sì", "sim", "はい", "네", "예", "是"}
)
"""What counts as true where a field asks for yes or no."""

FALSE: Final = frozenset(
    {"no", "false", "n", "nein", "non", "não", "nao", "nee", "いいえ", "아니요", "아니오", "否"}
)
"""What counts as false where a field asks for yes or no."""

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
