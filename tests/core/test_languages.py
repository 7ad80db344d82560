"""A yes, a no and neither, as people write them in ten languages."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.core.command import Verdict, read_command
from signoff.core.greetings import after_greeting
from signoff.core.words import APPROVE, COURTESY, REJECT, REJECT_BRIEF

YES = {
    "en": ("Approved", "yes please", "OK, thanks!", "Yes, approved.", "lgtm 👍", "ok for me"),
    "de": (
        "Genehmigt, danke",
        "Passt so.",
        "ok für mich",
        "OK FÜR MICH",
        "Freigegeben!",
        "Ja gerne",
    ),
    "fr": ("D’accord", "Oui, merci beaucoup", "ok pour moi", "Validé.", "J’approuve", "approuve"),
    "es": ("De acuerdo.", "Sí, gracias", "Apruebo", "Aprobado!", "si", "Estoy de acuerdo"),
    "pt": ("Aprovado, obrigado", "Sim", "De acordo.", "Está aprovado", "esta aprovado", "Concordo"),
    "it": ("Approvato", "Va bene, grazie", "Sì", "Si", "D'accordo.", "Per me va bene"),
    "nl": ("Akkoord", "Ja, bedankt", "Goedgekeurd!", "Ik ga akkoord.", "oké", "ok voor mij"),
    "ja": (
        "承認します",
        "承認いたします。",
        "はい、承認します。",
        "ＯＫです",
        "了承しました",
        "同意します",
    ),
    "ko": (
        "승인합니다",
        "네, 승인합니다.",
        "승인",
        "동의합니다",
        "승인하겠습니다.",
        "네, 감사합니다",
    ),
    "zh": ("同意", "批准。", "好的，谢谢", "可以", "我同意！", "同意，辛苦了"),
}
NO = {
    "en": (
        "Rejected",
        "no, too dear",
        "I don't approve",
        "not approved",
        "Denied: no budget",
        "👎 no",
    ),
    "de": ("Abgelehnt", "Nein, zu teuer", "nicht genehmigt", "Nein, passt nicht.", "Lehne ab"),
    "fr": ("Refusé", "Non, trop cher", "Pas d’accord", "Je refuse.", "non approuvé"),
    "es": ("Rechazado", "No, muy caro", "No apruebo", "no aprobado", "Denegado."),
    "pt": ("Recusado", "Não, caro demais", "Nao aprovado", "não aprovo", "Rejeitado"),
    "it": ("Rifiutato", "No, troppo caro", "Non approvo", "Non sono d'accordo", "Respinto."),
    "nl": ("Afgewezen", "Nee, te duur", "Niet akkoord", "Ik ga niet akkoord.", "Geweigerd"),
    "ja": ("却下します", "いいえ", "承認しません。", "承認できません", "同意できません。"),
    "ko": ("거절합니다", "아니요", "승인하지 않습니다.", "반려합니다", "승인할 수 없습니다"),
    "zh": ("不同意", "拒绝", "不批准。", "我不同意", "驳回，太贵了"),
}
NEITHER = {
    "en": (
        *(
            "yes, but half",
            "ok if cheaper",
            "ok. I don't approve of this",
            "approve? no",
            "approve!?",
        ),
        *(
            "ok, talk later",
            "yes, up to 500",
            "please approve",
            "approved by Bob?",
            "yes, only one",
        ),
        *("ok, let me check first", "yes. Actually reject it", "ok but not today", "approve half"),
        *(
            "👍 but cheaper",
            "sure",
            "noted",
            "I will approve tomorrow",
            "yes, except for the hotel",
        ),
    ),
    "de": (
        *("ja, aber günstiger", "ok, wenn es sein muss", "Genehmigt, bis maximal 500", "ja?"),
        *(
            "genehmigt, aber nicht heute",
            "Bitte genehmigen",
            "ja, nur die Hälfte",
            "ja, ohne Hotel",
        ),
        *(
            "ok, muss noch mit Anna reden",
            "Ja. Nicht genehmigt",
            "mal sehen",
            "noch nicht genehmigt",
        ),
    ),
    "fr": (
        *(
            "oui, mais moins cher",
            "ok si possible",
            "d'accord, sauf l'hôtel",
            "oui, à condition que",
        ),
        *("oui, jusqu'à 500", "oui ?", "pas encore", "ok, on en parle", "oui, la moitié"),
    ),
    "es": (
        *("sí, pero menos", "si hay presupuesto", "sí, hasta 500", "de acuerdo, excepto el hotel"),
        *("¿aprobado?", "sí, solo la mitad", "ok, luego hablamos", "no sé", "todavía no"),
    ),
    "pt": (
        *("sim, mas só metade", "ok se couber", "sim, até 500", "aprovado?", "ainda não"),
        *("ok, depois falamos", "sim, exceto o hotel", "sim, em parte"),
    ),
    "it": (
        *("sì, ma meno", "ok se possibile", "sì, fino a 500", "va bene?", "non ancora"),
        *("ok, ne parliamo", "sì, tranne l'albergo", "sì, a patto che costi meno"),
    ),
    "nl": (
        *("ja, maar minder", "ok als het kan", "ja, tot 500", "akkoord?", "nog niet", "ja, mits"),
        *("ok, bespreken we morgen", "ja, behalve het hotel", "geen probleem", "ja, zonder hotel"),
    ),
    "ja": (
        *("承認しますか？", "はい、ただし半分", "承認、500まで", "検討します", "承認するかどうか"),
        *("はい、後で確認します", "一部承認", "条件付きで承認"),
    ),
    "ko": (
        *("승인할까요?", "네, 하지만 절반만", "승인, 500까지", "검토하겠습니다", "네, 나중에"),
        *("조건부 승인", "승인 보류", "일부 승인"),
    ),
    "zh": (
        *(
            "同意吗？",
            "同意，但只批一半",
            "可以，最多500",
            "考虑一下",
            "好的，稍后再说",
            "好像不行",
        ),
        *("有条件同意", "部分同意", "不一定"),
    ),
}
GREETINGS = {
    "en": ("Hi,", "Hello Anna,", "Dear Dr. Smith,", "Good morning!", "Hi", "hi there,", "Hey Bob"),
    "de": ("Hallo Anna,", "Guten Tag Frau Dr. Müller,", "Moin!", "Sehr geehrte Damen und Herren,"),
    "fr": ("Bonjour,", "Bonjour Mme Lefèvre,", "Salut Jean-Pierre !", "Bonsoir"),
    "es": ("Hola,", "Buenos días, ", "Estimada Ana:", "Hola Ana"),
    "pt": ("Olá,", "Bom dia!", "Prezado João,", "Oi Ana,"),
    "it": ("Ciao,", "Buongiorno Anna,", "Gentile dottoressa Rossi,", "Salve!"),
    "nl": ("Hoi,", "Beste Anna,", "Goedemorgen,", "Dag Jan,"),
    "ja": ("田中様", "お疲れ様です。", "お世話になっております。", "佐藤さん、"),
    "ko": ("안녕하세요,", "김 부장님,", "안녕하세요."),
    "zh": ("您好，", "你好！", "王先生，您好"),
}


def table(rows):
    """Return the rows of a table as parameters."""
    return [
        pytest.param(text, id=f"{name}-{text}") for name, texts in rows.items() for text in texts
    ]


def verdict_of(text):
    """Return the verdict alone."""
    return read_command(text).verdict


@pytest.mark.parametrize("text", table(YES))
def test_a_yes_approves(text):
    """A plain yes is one, however it is spelt, thanked for and greeted before."""
    for said in (
        text,
        text.upper(),
        text.lower(),
        f"{text} 👍🏽",
        f"*{text}*",
        f"  {text}\n\n-- \nAda",
    ):
        assert verdict_of(said) is Verdict.APPROVE, said


@pytest.mark.parametrize("text", table(NO))
def test_a_no_rejects(text):
    """A plain no is one, also where it negates a word that approves."""
    for said in (text, text.upper(), text.lower(), f"{text}\n\n-- \nAda"):
        assert verdict_of(said) is Verdict.REJECT, said


@pytest.mark.parametrize("text", table(NEITHER))
def test_what_is_conditional_partial_or_later_is_asked_again(text):
    """Conditions, parts, limits, delays and questions never approve."""
    assert verdict_of(text) is not Verdict.APPROVE
    assert verdict_of(f"Hi Anna,\n\n{text}\n\nThanks\nAda") is not Verdict.APPROVE


@pytest.mark.parametrize("text", table(GREETINGS))
def test_a_greeting_says_nothing(text):
    """The answer below a greeting is read as if it stood alone, and a greeting alone is none."""
    for gap in ("\n", "\n\n"):
        assert verdict_of(f"{text}{gap}approve\nfine") is Verdict.APPROVE
        assert verdict_of(f"{text}{gap}no, too dear") is Verdict.REJECT
        assert verdict_of(f"{text}{gap}perhaps") is Verdict.UNCLEAR
    assert verdict_of(text) is Verdict.UNCLEAR


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Hallo Anna, genehmigt.", Verdict.APPROVE),
        ("Hi, approve: fine by me", Verdict.APPROVE),
        ("Hi Bob, no, too dear", Verdict.REJECT),
        ("田中様\n\nお世話になっております。\n\n承認します。", Verdict.APPROVE),
        ("Hi Anna, I can't\napprove", Verdict.UNCLEAR),
        ("Hi Anna I will never\napprove", Verdict.UNCLEAR),
        ("Hi I refuse to\napprove", Verdict.UNCLEAR),
        ("hi dont\napprove", Verdict.UNCLEAR),
        ("Hi no\napprove", Verdict.UNCLEAR),
        ("Hello if it is cheap,\napprove", Verdict.UNCLEAR),
        ("Hi Anna,\n\nnot sure\n\napprove", Verdict.UNCLEAR),
        ("Hi,\nHello,\nHey,\napprove", Verdict.UNCLEAR),
        ("Hi 3,\napprove", Verdict.UNCLEAR),
        ("highly,\napprove", Verdict.UNCLEAR),
        ("不同意的张先生您好\n同意", Verdict.UNCLEAR),
        ("Dear Anna, approve\n\nreject", Verdict.UNCLEAR),
    ],
)
def test_only_a_greeting_is_skipped(text, verdict):
    """A sentence that begins like a greeting is the first line that it is."""
    assert verdict_of(text) is verdict


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("👍 passt perfekt", "passt perfekt"),
        ("👍🏿 see you", "see you"),
        ("Genehmigt, danke Anna", "danke Anna"),
        ("ok, no problem", "no problem"),
        ("Approved. Let me know if you need more.", "Let me know if you need more."),
    ],
)
def test_a_yes_may_have_a_reason(text, reason):
    """What is said beside a yes, and takes nothing of it back, is its reason."""
    command = read_command(text)
    assert (command.verdict, command.reason) == (Verdict.APPROVE, reason)


@pytest.mark.parametrize(
    "text",
    [
        *("no, not yet due", "No, rejected", "reject: take the other one instead", "no, ask later"),
        *("Nein, nicht genehmigt", "Nein, noch nicht", "abgelehnt, bis maximal 500", "No: half"),
        *("Non, pas encore", "Nee, ik ga niet akkoord", "不同意，考虑一下", "却下します。保留です"),
    ],
)
def test_a_no_needs_no_caution(text):
    """What would take a yes back is the reason of a no."""
    assert verdict_of(text) is Verdict.REJECT


@given(st.sampled_from(sorted(APPROVE)), st.lists(st.sampled_from(sorted(COURTESY)), max_size=3))
def test_politeness_changes_nothing(word, polite):
    """However much politeness follows a yes, it stays one."""
    assert verdict_of(" ".join([word, *polite])) is Verdict.APPROVE


@given(
    st.sampled_from(sorted(REJECT | REJECT_BRIEF)),
    st.sampled_from(sorted(APPROVE)),
    st.sampled_from([" ", ", ", ". ", ": ", " - ", "\n", "\n\n", "; "]),
)
def test_a_no_and_a_yes_never_approve(no, yes, between):
    """Whatever order and punctuation they come in."""
    assert verdict_of(f"{no}{between}{yes}") is not Verdict.APPROVE
    assert verdict_of(f"{yes}{between}{no}") is not Verdict.APPROVE


@given(st.sampled_from(sorted(APPROVE)), st.sampled_from(["?", "？", " ?", "!?", "¿"]))
def test_a_question_is_no_answer(word, mark):
    """A question mark anywhere on the line makes it a question."""
    assert verdict_of(word + mark) is Verdict.UNCLEAR


@given(st.sampled_from(sorted(APPROVE | REJECT)))
def test_spelling_changes_nothing(word):
    """Accents that are missing, capitals, full width and decomposed letters mean the same."""
    plain = "".join(
        mark for mark in unicodedata.normalize("NFD", word) if not "\u0300" <= mark <= "\u036f"
    )
    wide = "".join(chr(ord(mark) + 0xFEE0) if "!" <= mark <= "~" else mark for mark in word)
    expected = verdict_of(word)
    for said in (unicodedata.normalize("NFC", plain), word.upper(), word.title(), wide):
        assert verdict_of(said) is expected, said
    assert verdict_of(unicodedata.normalize("NFD", word)) is expected


@given(st.text(max_size=60), st.booleans())
def test_any_line_may_be_asked_for_a_greeting(text, alone):
    """No line raises, and what is left of it stood on it."""
    rest = after_greeting(text, alone=alone)
    assert rest is None or len(rest) <= len(unicodedata.normalize("NFKC", text))
