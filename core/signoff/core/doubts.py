"""Words beside a yes that make it none: "Ok, I don't think we should do this".

Many people begin any mail with "ok" or "yes". So a yes with more words counts only as long as none
of them denies, puts off, changes or asks: a wrong yes costs more than one more question. Data, and
how it is looked for.
"""

from collections.abc import Iterable
from typing import Final

from signoff.core.text import unaccented

_DENIALS: Final = (
    *("not", "no", "nope", "nah", "never", "neither", "nor", "none", "nothing", "cannot", "dont"),
    *("don't", "doesn't", "didn't", "isn't", "aren't", "wasn't", "won't", "wouldn't", "can't"),
    *("cant", "wont", "couldn't", "shouldn't", "mustn't", "haven't", "hasn't", "false", "nay"),
    *("nein", "nicht", "nichts", "kein", "keine", "keinen", "keinem", "keiner", "nie", "niemals"),
    *("pas", "jamais", "non", "aucun", "aucune", "nunca", "jamás", "tampoco", "não", "nao"),
    *("nem", "niet", "geen", "nooit", "nee"),
    *("ません", "ない", "않", "못", "없", "안 됩", "안됩", "마세요", "不", "没", "沒", "别", "勿"),
)

_PUT_OFF: Final = (
    *("look at it", "look at this", "look into", "let me see", "let me look", "think about"),
    *("come back to", "get back", "remind me", "hold off", "wait", "i'll see", "will see"),
    *("pending", "subject to", "assuming", "contingent", "depending", "depends on", "as soon as"),
    *(
        "mache ich morgen",
        "schaue es",
        "schau mal",
        "schaue mal",
        "schau mir",
        "schaue mir",
        "sehe es mir",
    ),
    *("überlege", "warten", "abwarten", "vorausgesetzt", "vorbehaltlich", "abhängig von"),
    *("je regarde", "je vais regarder", "attendez", "attendre", "sous réserve de", "j'y réfléchis"),
    *("lo veo", "lo miro", "esperar", "espere", "sujeto a", "pendiente", "lo pienso"),
    *("espere", "aguarde", "aguardar", "vou ver", "vou pensar", "sujeito a", "pendente"),
    *("aspettare", "aspetti", "ci penso", "vedo domani", "soggetto a", "wachten", "ik kijk"),
    *("denk erover", "onder voorbehoud", "確認します", "確認いたします", "確認致します", "お待ち"),
    *(
        "待って",
        "考えます",
        "확인하겠",
        "확인해 보",
        "기다려",
        "생각해",
        "看看",
        "看一下",
        "等一下",
    ),
    *("等等", "稍等", "再看", "确认一下", "確認一下"),
)

_TAKEN_BACK: Final = (
    *(
        "cancel",
        "stop",
        "decline",
        "deny",
        "refuse",
        "abort",
        "stopped",
        "withdraw",
        "disagree",
        "kidding",
    ),
    *("stornieren", "storniere", "abbrechen", "stoppen", "zurückziehen", "lassen wir", "lass es"),
    *("annulez", "annuler", "annule", "arrêtez", "refusez", "cancelar", "cancela", "cancele"),
    *("cancélalo", "rechazar", "annulla", "annullare", "annuleer", "annuleren", "キャンセル"),
    *("取り消", "中止", "やめ", "취소", "중단", "取消", "停止", "撤回"),
)

_CHANGED: Final = (
    *("instead", "rather than", "make it", "change it", "change the", "with one change", "reduce"),
    *("lower it", "cheaper", "the other", "ändern", "ändere", "günstiger", "billiger", "lieber"),
    *("changez", "changer", "moins cher", "cambiar", "más barato", "mudar", "mais barato"),
    *("cambiare", "più economico", "wijzig", "goedkoper", "変更", "변경", "修改", "改成"),
)

_WORRIED: Final = (
    *("scam", "phishing", "spam", "fraud", "suspicious", "wrong", "mistake", "too expensive"),
    *(
        "too much",
        "too high",
        "is bad",
        "who is",
        "who are",
        "what is",
        "have a question",
        "have questions",
    ),
    *("should decide", "ask", "forward", "forwarded", "zu teuer", "zu viel", "falsch", "betrug"),
    *("soll entscheiden", "weitergeleitet", "trop cher", "fraude", "demasiado caro", "muito caro"),
    *("troppo caro", "te duur", "詐欺", "高すぎ", "사기", "너무 비싸", "诈骗", "太贵", "太貴"),
)

_ACKNOWLEDGED: Final = (
    *("noted", "received", "seen", "got it", "i understand", "understood", "i see", "read it"),
    *("zur kenntnis", "erhalten", "gelesen", "verstanden", "bien reçu", "recibido", "recebido"),
    *("ricevuto", "ontvangen", "begrepen", "拝見しました", "受け取りました", "收到"),
)
"""What says that a mail has come, and nothing about what it asks."""

_AWAY: Final = (
    *("out of the office", "out of office", "on vacation", "on holiday", "on leave", "away until"),
    *("currently away", "sick leave", "parental leave", "maternity leave", "im urlaub", "abwesend"),
    *("außer haus", "elternzeit", "krankgeschrieben", "en congé", "en vacances", "absent"),
    *("de vacaciones", "fuera de la oficina", "de férias", "fora do escritório", "in ferie"),
    *("fuori ufficio", "met vakantie", "op vakantie", "afwezig", "休暇", "不在", "휴가", "부재"),
    *("休假", "外出", "we are closed", "office is closed"),
)

_HALF_SAID: Final = (
    *("in principle", "probably", "i think so", "i guess", "i suppose", "perhaps", "possibly"),
    *("for now", "provisional", "provisionally", "theoretically", "in theory", "test", "testing"),
    *("grundsätzlich", "im prinzip", "vermutlich", "wahrscheinlich", "theoretisch", "vorerst"),
    *("vorläufig", "eventuell", "probablement", "en principe", "en théorie", "probablemente"),
    *("en principio", "quizá", "provavelmente", "em princípio", "probabilmente", "in teoria"),
    *("in linea di massima", "per ora", "waarschijnlijk", "in principe", "voorlopig", "たぶん"),
    *("多分", "とりあえず", "原則", "아마", "일단", "大概", "可能", "原则上"),
    *("原則上", "暂时", "暫時"),
)

_ROBOTIC: Final = (
    *("automatic reply", "automatic response", "automated", "auto reply", "autoreply"),
    *("unattended", "got your message", "we will reply", "we'll reply", "unsubscribe"),
    *("limited access", "at a conference", "left the company", "new address", "travelling until"),
    *("automatische antwort", "automatisch erzeugt", "abmelden", "urlaub", "réponse automatique"),
    *("en déplacement", "respuesta automática", "resposta automática", "risposta automatica"),
    *("automatisch antwoord", "自動返信", "자동 응답", "자동응답", "自动回复", "自動回覆"),
)
"""What programmes answer, where nothing else tells that they do."""

_OTHERWISE: Final = (
    *("excluding", "another", "different", "talk first", "first fix", "fix the", "new iban"),
    *("andere", "anderes", "anderen", "rufen sie", "ruf mich", "un autre", "une autre"),
    *("otro", "otra", "outro", "outra", "un altro", "un'altra", "een andere"),
    *("別の", "다른", "另一"),
)

_AMOUNTS: Final = (
    *("for", "to", "minus", "plus", "add", "less", "für", "auf", "pour", "à", "por", "para"),
    *("per", "voor", "mit", "with", "use", "take"),
)
"""First words that, with a number, say another amount than the one that was shown."""

_CONDITIONAL: Final = (
    *("if", "once", "until", "when", "wenn", "falls", "sobald", "sofern", "dès que", "lorsque"),
    *("quand", "si", "cuando", "en cuanto", "quando", "assim que", "appena", "zodra", "indien"),
)
"""On the line of the answer itself; further below they stand in politeness."""

_LATER: Final = (
    *("tomorrow", "later", "next week", "next month", "monday", "tuesday", "wednesday"),
    *("thursday", "friday", "morgen", "später", "nächste woche", "montag", "demain", "mañana"),
    *("más tarde", "amanhã", "domani", "volgende week", "明日", "내일", "明天"),
)
"""As all that stands beside a yes."""

_HARMLESS: Final = (
    *("no problem at all", "no problems", "no problem", "not a problem", "no objections"),
    *("no objection", "no concerns", "no worries", "no issues", "no issue", "no further comments"),
    *("no comments", "no further questions", "no questions", "nothing to add", "why not"),
    *("no need to ask", "no need", "let me know if", "if you need anything", "do not hesitate"),
    *("don't hesitate", "don't worry", "not bad", "no changes", "no doubt"),
    *("kein problem", "keine probleme", "kein thema", "keine einwände", "keine bedenken"),
    *("nichts dagegen", "nichts einzuwenden", "keine fragen", "warum nicht", "keine frage"),
    *("pas de problème", "pas de souci", "pas de soucis", "aucun problème", "aucun souci"),
    *("aucune objection", "pas d'objection", "pourquoi pas", "no hay problema", "ningún problema"),
    *("por que não", "por qué no", "não há problema", "não tem problema", "nessun problema"),
    *("geen probleem", "geen bezwaar", "geen bezwaren", "waarom niet", "niets op tegen"),
    *("問題ありません", "問題ない", "問題ございません", "差し支えありません", "異議ありません"),
    *("문제 없습니다", "문제없습니다", "이의 없습니다", "이의없습니다", "没问题", "沒問題"),
    *("没有问题", "沒有問題", "没意见", "沒意見", "没有意见", "不错", "不錯"),
)


def has_phrase(text: str, phrases: Iterable[str]) -> bool:
    """Say whether one of the phrases, unaccented, is in the text, as whole words."""
    folded, spaced = _plain(text)
    # Some scripts put no space between words.
    return any(
        phrase in folded
        if phrase[0] > "\u2fff" or "\u1100" <= phrase[0] <= "\u11ff"
        else f" {phrase} " in spaced
        for phrase in phrases
    )


def is_doubted(text: str, *, beside: bool) -> bool:
    """Say whether words with a yes deny it, put it off, change it or ask.

    Args:
        text: The words, as `plain_line` returns them.
        beside: Whether they stand on the line of the yes, and not below it.
    """
    left = without_harmless(text)
    conditional = beside and has_phrase(left, _IFS)
    linked = beside and ("://" in text or "mailto:" in text.casefold())
    heard = beside and (has_phrase(left, _MORE) or _is_amount(text))
    later = _plain(text)[1].strip() in _SOON
    if not beside:
        left = _without_numbers(left)
    return (
        later or linked or conditional or heard or _is_unfilled(text) or has_phrase(left, _DOUBTS)
    )


def without_harmless(text: str) -> str:
    """Return words with a yes without phrases that only sound like a no: "no problem"."""
    folded = unaccented(text.casefold())
    for phrase in _KINDLY:
        folded = folded.replace(phrase, " ")
    return folded.strip()


def _plain(text: str) -> tuple[str, str]:
    folded = unaccented(text.casefold())
    plain = "".join(mark if mark.isalnum() or mark == "'" else " " for mark in folded)
    return folded, f" {' '.join(plain.split())} "


def _is_amount(text: str) -> bool:
    """Say whether words beside a yes give a number of their own: "3 days", "minus 10 %".

    A number without words is a value: what it would be for is said where values are looked at.
    """
    words = _plain(text)[1].split()
    numbered = any(word[0].isdigit() for word in words)
    return (
        numbered
        and any(letter.isalpha() for letter in text)
        and (words[0] in _LED_BY or words[0][0].isdigit() or "%" in text)
    )


def _without_numbers(text: str) -> str:
    """Leave out the "no" of "Company no. 4711", which stands in signatures."""
    words = _plain(text)[1].split()
    after = [*words, ""][1:]
    return " ".join(
        word
        for word, then in zip(words, after, strict=True)
        if word != "no" or not then[:1].isdigit()
    )


def _is_unfilled(text: str) -> bool:
    """Say whether it is the place for an answer in a form: "[ ]", "☐", "____"."""
    return any(mark in text for mark in "[☐□☑☒_") and not any(
        mark.isalnum() and mark not in "xX" for mark in text
    )


def _alike(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(unaccented, found)))


_DOUBTS: Final = _alike((*_DENIALS, *_PUT_OFF, *_TAKEN_BACK, *_CHANGED, *_WORRIED, *_AWAY))
_MORE: Final = _alike((*_ACKNOWLEDGED, *_HALF_SAID, *_ROBOTIC, *_OTHERWISE))
_LED_BY: Final = frozenset(_alike(_AMOUNTS))
_IFS: Final = _alike(_CONDITIONAL)
_SOON: Final = frozenset(_alike(_LATER))
_KINDLY: Final = tuple(sorted(_alike(_HARMLESS), key=len, reverse=True))
