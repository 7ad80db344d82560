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
        *("yep", "yup", "yeah", "agreed", "i agree", "accepted", "i accept", "looks good to me"),
        *("approve it", "approve this", "i approve this", "i approve it", "hereby approved"),
        *("ok for me", "ok with me", "ok by me", "okay for me", "okay with me", "okay by me"),
        *("fine by me", "fine with me", "fine for me", "it's approved", "this is approved"),
        # German
        *("genehmigen", "genehmigt", "genehmige", "ich genehmige", "freigeben", "freigegeben"),
        *("bewilligt", "einverstanden", "in ordnung", "ja", "jawohl", "passt", "passt so"),
        *("ok für mich", "ok fuer mich", "okay für mich", "für mich ok", "für mich okay"),
        *("für mich in ordnung", "passt für mich", "passt fuer mich", "das passt", "das passt so"),
        *("ich genehmige das", "ich genehmige es", "genehmige ich", "hiermit genehmigt"),
        *("hiermit genehmige ich", "ist genehmigt", "das ist genehmigt", "wird genehmigt"),
        *("freigabe erteilt", "ist freigegeben", "ich gebe frei", "gebe ich frei", "ist ok"),
        *("das ist ok", "ist in ordnung", "das ist in ordnung", "geht in ordnung", "geht klar"),
        *("ich bin einverstanden", "bin einverstanden", "ich stimme zu", "stimme zu", "zugestimmt"),
        *("von mir aus ok", "ok von mir", "ok von meiner seite"),
        # French
        *("approuver", "approuvé", "approuvée", "approuve", "j'approuve", "accepté", "acceptée"),
        *("d'accord", "oui", "ok pour moi", "je suis d'accord", "d'accord pour moi", "j'accepte"),
        *("validé", "validée", "je valide", "valide", "bon pour accord", "c'est d'accord"),
        *("c'est approuvé", "c'est validé", "accepte", "j'autorise", "autorisé", "autorise"),
        # Spanish
        *("aprobar", "aprobado", "aprobada", "apruebo", "autorizado", "autorizada", "de acuerdo"),
        *("adelante", "sí", "si", "lo apruebo", "queda aprobado", "autorizo", "estoy de acuerdo"),
        *("conforme", "vale", "acepto", "aceptado", "aceptada", "ok por mi parte", "por mí ok"),
        # Portuguese
        *("aprovar", "aprovado", "aprovada", "aprovo", "de acordo", "sim", "estou de acordo"),
        *("concordo", "está aprovado", "autorizado", "autorizada", "aceito", "ok para mim"),
        *("por mim ok", "eu aprovo", "ok da minha parte"),
        # Italian
        *("approvare", "approvato", "approvata", "approvo", "d'accordo", "va bene", "sì"),
        *("sono d'accordo", "va bene così", "va bene per me", "per me va bene", "ok per me"),
        *("per me ok", "autorizzo", "autorizzato", "autorizzata", "accetto", "accettato"),
        # Dutch
        *("goedkeuren", "goedgekeurd", "akkoord", "ga akkoord", "ik ga akkoord", "mee akkoord"),
        *("ik keur het goed", "ik keur goed", "keur goed", "oké", "oke", "ok voor mij", "mee eens"),
        *("akkoord voor mij", "voor mij akkoord", "geaccordeerd", "is goed"),
        # Japanese
        *("承認", "承認します", "承認する", "承認しました", "承認済み", "はい", "承認いたします"),
        *("承認致します", "承認いたしました", "承認です", "承認でお願いします", "了承します"),
        *("了承しました", "了承いたします", "了承いたしました", "許可します", "許可いたします"),
        *("同意します", "同意いたします", "賛成です", "賛成します", "okです", "オッケーです"),
        # Korean
        *("승인", "승인합니다", "승인함", "네", "예", "승인해요", "승인 합니다", "승인하겠습니다"),
        *("승인했습니다", "승인하였습니다", "승인드립니다", "승인됨", "승인입니다", "허가합니다"),
        *("동의합니다", "동의", "동의함", "찬성합니다", "오케이", "오케이입니다", "네 승인합니다"),
        # Chinese, simplified and traditional
        *("批准", "同意", "核准", "通过", "通過", "是", "是的", "好", "好的", "可以", "可以的"),
        *(
            "我同意",
            "我批准",
            "同意了",
            "批准了",
            "准予",
            "予以批准",
            "准许",
            "准許",
            "赞成",
            "贊成",
        ),
        *("同意执行", "同意執行", "ok的"),
    }
)
"""Words that approve."""

REJECT: Final = frozenset(
    {
        *("reject", "rejected", "i reject", "deny", "denied", "decline", "declined", "👎"),
        *("not approved", "i don't approve", "i do not approve", "i cannot approve", "refused"),
        *("i can't approve", "i decline", "i deny", "disapproved", "i disapprove", "disagree"),
        *("i disagree", "reject it", "reject this"),
        *("ablehnen", "abgelehnt", "lehne ab", "ich lehne ab", "verweigert", "nicht genehmigt"),
        *("nicht freigegeben", "nicht einverstanden", "ich genehmige nicht", "ich lehne das ab"),
        *("ich bin nicht einverstanden", "genehmige ich nicht", "abgewiesen", "nicht bewilligt"),
        *("rejeter", "rejeté", "rejetée", "je rejette", "refuser", "refusé", "refusée", "refuse"),
        *("je refuse", "pas d'accord", "je ne suis pas d'accord", "non approuvé", "non validé"),
        *("je n'approuve pas", "rejete", "rejetee"),
        *("rechazar", "rechazado", "rechazada", "rechazo", "denegar", "denegado", "denegada"),
        *("no aprobado", "no apruebo", "no lo apruebo", "no estoy de acuerdo", "no autorizado"),
        *("rejeitar", "rejeitado", "rejeitada", "rejeito", "recusar", "recusado", "recusada"),
        *("recuso", "negado", "negada", "não aprovado", "não aprovo", "nao aprovado"),
        *("nao aprovo", "não concordo", "não autorizo", "não autorizado"),
        *("rifiutare", "rifiutato", "rifiutata", "rifiuto", "respingo", "respinto", "respinta"),
        *("non approvato", "non approvo", "non sono d'accordo", "non va bene", "non autorizzo"),
        *("afwijzen", "afgewezen", "afkeuren", "afgekeurd", "weigeren", "geweigerd"),
        *("niet akkoord", "niet goedgekeurd", "ga niet akkoord", "ik ga niet akkoord"),
        *("ik keur het niet goed", "ik wijs het af", "niet mee eens"),
        *("却下", "却下します", "却下する", "否認", "拒否", "拒否します", "承認しません"),
        *("承認しない", "承認できません", "承認いたしません", "却下いたします", "否認します"),
        *("同意しません", "同意できません", "反対です", "お断りします"),
        *("거절", "거절합니다", "거부", "거부합니다", "반려", "반려합니다", "승인하지 않습니다"),
        *("승인하지 않음", "승인할 수 없습니다", "승인 불가", "불허", "동의하지 않습니다"),
        *("반대합니다", "거절하겠습니다", "반려하겠습니다"),
        *("拒绝", "拒絕", "驳回", "駁回", "不同意", "不批准", "我不同意", "我拒绝", "我拒絕"),
        *("不予批准", "不核准", "不通过", "不通過", "反对", "反對", "不赞成", "不能批准"),
    }
)
"""Verbs that reject; plain words after them are the reason."""

REJECT_BRIEF: Final = frozenset(
    {
        *("no", "nope", "nein", "non", "não", "nao", "nee", "nö"),
        *(
            "いいえ",
            "아니요",
            "아니오",
            "否",
            "不",
            "不行",
            "不可以",
            "不好",
            "안 됩니다",
            "안됩니다",
        ),
        *("だめです", "ダメです"),
    }
)
"""Short refusals, which need a separator before a reason: "no problem" is no refusal."""

WITH: Final = frozenset({"with", "mit", "avec", "con", "com", "met"})
"""Words that may lead the values in: "approve with amount=900"."""

COURTESY: Final = frozenset(
    {
        *("thanks a lot", "thank you very much", "thank you so much", "thx", "ty", "cheers", "tks"),
        *("🙏", "🙂", "😊", "😀", "🎉", ":)", ":-)", ";)", ";-)"),
        *("danke dir", "danke ihnen", "danke euch", "danke schön", "danke sehr", "dankeschön"),
        *("besten dank", "herzlichen dank", "gerne", "gern", "danke im voraus", "merci beaucoup"),
        *("s'il vous plaît", "s'il te plaît", "svp", "mille mercis", "por favor", "mil gracias"),
        *("muito obrigado", "muito obrigada", "obrigado!", "grazie mille", "molte grazie"),
        *("per favore", "dank u", "dank u wel", "dank je wel", "dankjewel", "alvast bedankt"),
        *(
            "hartelijk dank",
            "alstublieft",
            "graag",
            "ありがとうございました",
            "よろしくお願いします",
        ),
        *("よろしくお願いいたします", "宜しくお願いします", "宜しくお願いいたします", "以上"),
        *("よろしくお願い致します", "宜しくお願い致します", "고맙습니다", "감사해요", "수고하세요"),
        *("수고하십시오", "谢谢您", "謝謝您", "多谢", "多謝", "感谢", "感謝", "辛苦了"),
        *("please", "thanks", "thank you", "many thanks", "bitte", "danke", "vielen dank", "merci"),
        *("gracias", "muchas gracias", "obrigado", "obrigada", "grazie", "bedankt", "dank je"),
        *("ありがとう", "ありがとうございます", "お願いします", "감사합니다", "谢谢", "謝謝"),
    }
)
"""Politeness that may follow a command word without changing it."""

CONDITIONS: Final = (
    *("only if", "unless", "as long as", "provided", "on condition", "nur wenn", "nur falls"),
    *("sofern", "es sei denn", "unter der bedingung"),
    *("seulement si", "uniquement si", "à condition", "sauf si", "à moins que"),
    *("solo si", "sólo si", "a menos que", "siempre que", "con la condición"),
    *("somente se", "só se", "a menos que", "desde que", "com a condição"),
    *("solo se", "a meno che", "a patto che", "a condizione"),
    *("alleen als", "tenzij", "mits", "op voorwaarde"),
    *("場合のみ", "条件", "경우에만", "조건", "除非", "前提"),
)
"""Phrases that make an answer conditional: nobody can hold a tool call to a condition in prose."""

DELAYS: Final = (
    *("before", "until", "till", "yet", "for now", "bevor", "bis", "ehe", "vorerst", "zuerst"),
    *("avant", "jusqu'à", "d'abord", "pour l'instant", "antes", "hasta", "por ahora", "até"),
    *("por enquanto", "prima", "finché", "per ora", "voordat", "totdat", "tot", "voorlopig"),
    *("前に", "まで", "전에", "까지", "之前", "直到", "暂时"),
)
"""Words that put an answer off: "I cannot approve this before …" is not yet a no."""

RESERVATIONS: Final = (
    *("but only", "but not", "not yet", "instead", "except for", "aber nicht", "noch nicht"),
    *("stattdessen", "mais pas", "pas encore", "plutôt", "pero no", "en su lugar", "todavía no"),
    *("mas não", "em vez", "ainda não", "ma non", "invece", "non ancora", "maar niet", "nog niet"),
    # A part of it.
    *("half", "partially", "partly", "except", "apart from", "teilweise", "hälfte", "ausgenommen"),
    *("en partie", "moitié", "partiellement", "sauf", "hormis", "parcialmente", "mitad", "excepto"),
    *(
        "metade",
        "em parte",
        "exceto",
        "metà",
        "in parte",
        "tranne",
        "eccetto",
        "gedeeltelijk",
        "helft",
    ),
    *("behalve", "一部", "半分", "以外", "절반", "일부", "제외", "部分", "一半", "除了"),
    # Another day.
    *("talk later", "speak later", "decide later", "later though", "do it later", "let's talk"),
    *("let's discuss", "let us discuss", "call me", "get back to you", "need to check", "not now"),
    *("i'll check", "i will check", "let me check", "let me think", "not sure", "not today"),
    *("hold on", "on hold", "wait for", "wait until", "melde mich", "muss noch", "ich prüfe"),
    *("erst noch", "später entscheiden", "reden wir", "rückfrage", "lass uns reden", "warte auf"),
    *("plus tard", "on en parle", "je vérifie", "à vérifier", "à discuter", "en attente"),
    *("más tarde", "hablamos", "lo reviso", "en espera", "mais tarde", "falamos", "vou verificar"),
    *("più tardi", "ne parliamo", "verifico", "in attesa", "bespreken", "later beslissen"),
    *("後で", "後ほど", "検討", "確認してから", "保留", "나중에", "검토", "보류", "확인 후"),
    *(
        "稍后",
        "稍後",
        "再说",
        "再說",
        "考虑",
        "考慮",
        "再议",
        "再議",
        "待定",
        "暂缓",
        "暫緩",
        "先等",
    ),
    # The opposite.
    *("not approve", "not approved", "don't approve", "didn't approve", "can't approve"),
    *("cannot approve", "won't approve", "reject", "rejected", "denied", "nicht genehmigen"),
    *("nicht genehmigt", "nicht genehmige", "nicht freigeben", "nicht freigegeben", "ablehnen"),
    *("nicht einverstanden", "abgelehnt", "pas d'accord", "n'approuve pas", "refuse", "refusé"),
    *("no apruebo", "no aprobado", "no lo apruebo", "no estoy de acuerdo", "rechazo", "rechazado"),
    *("não aprovo", "não aprovado", "rejeito", "rejeitado", "recuso", "recusado", "non approvo"),
    *("non approvato", "rifiuto", "rifiutato", "niet akkoord", "niet goed", "afgewezen"),
    *("却下", "承認しない", "承認できない", "承認できません", "承認しません", "승인하지", "거절"),
    *("승인할 수 없", "반려", "不同意", "不批准", "不能", "拒绝", "拒絕"),
)
"""Phrases that make a yes partial, later or its own opposite; beside a no they are reasons."""

QUALIFIERS: Final = (
    *("only", "but", "however", "though", "although", "nur", "aber", "jedoch", "allerdings"),
    *("bis auf", "außer", "seulement", "uniquement", "mais", "solamente", "solo", "sólo", "pero"),
    *("sin embargo", "apenas", "somente", "porém", "mas", "soltanto", "però", "ma", "alleen"),
    *("maar", "echter", "のみ", "だけ承認", "分だけ", "ただし", "但し", "しかし", "하지만", "다만"),
    *("그러나", "但", "不过", "不過", "然而", "仅", "只", "僅"),
)
"""Words that, on the line of the answer itself, take a part of it back."""

LIMITS: Final = (
    *(
        "up to",
        "at most",
        "max",
        "maximum",
        "no more than",
        "not more than",
        "limited to",
        "less than",
    ),
    *("instead of", "bis zu", "bis", "höchstens", "maximal", "statt", "jusqu'à", "au maximum"),
    *("au lieu", "hasta", "como máximo", "máximo", "en vez de", "até", "no máximo", "em vez"),
    *("fino a", "al massimo", "massimo", "invece", "tot", "maximaal", "hoogstens", "in plaats van"),
    *("まで", "最大", "上限", "以内", "까지", "최대", "이내", "最多", "不超过", "不超過", "以内"),
)
"""Phrases that, with a number, approve another amount than the one that was shown."""

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
        *("ohne", "sans", "sin", "sem", "senza", "zonder"),
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
        *("sem problema", "geen probleem", "geen bezwaar", "ohne einwände", "ohne bedenken"),
        *("sans problème", "sans réserve", "sin objeciones", "sem objeções", "senza problemi"),
        *("zonder bezwaar", "without objection", "without objections", "keine bedenken"),
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
