"""A no by mistake: an apology and a yes after it make the answer unclear, in every language."""

from __future__ import annotations

import itertools
import random

import pytest

from core.replies.test_lexicon import samples
from signoff.core.lexicon.languages import CODES, language
from signoff.core.replies.reading import read_reply
from signoff.core.replies.reply import Unclear

VERDICTS = {
    "en": (["No", "Rejected"], ["yes", "approved", "I approve", "it's a yes"]),
    "de": (["Nein", "Abgelehnt"], ["ja", "genehmigt", "doch ja", "es ist ein ja"]),
    "fr": (["Non", "Refusé"], ["oui", "approuvé", "c'est oui", "si"]),
    "es": (["No", "Rechazado"], ["sí", "aprobado", "lo apruebo", "es un sí"]),
    "it": (["No", "Rifiutato"], ["sì", "approvato", "approvo", "è un sì"]),
    "pt": (["Não", "Rejeitado"], ["sim", "aprovado", "aprovo", "é sim"]),
    "nl": (["Nee", "Afgewezen"], ["ja", "goedgekeurd", "toch wel", "het is ja"]),
    "ja": (["いいえ", "却下します"], ["はい", "はいです", "承認します", "承認でした"]),
    "ko": (["아니요", "반려합니다"], ["네", "네입니다", "승인합니다", "예였습니다"]),
    "zh": (["不", "拒绝"], ["是", "同意", "是同意", "可以"]),
}
BETWEEN = (", ", ". ", "! ", "\n", " - ", " ", "… ", " (")


@pytest.mark.parametrize("code", CODES)
def test_yes_after_an_apology_makes_a_no_unclear(code: str) -> None:
    """Any punctuation may surround the apology, or none: "아니요, 죄송해요 네입니다"."""
    file = language(code).file
    refusals, yeses = VERDICTS[code]
    sorry = samples(file.after_a_no.apology, file)
    every = list(itertools.product(refusals, BETWEEN, sorry, BETWEEN, yeses))
    texts = ["".join(parts) for parts in random.Random(13).sample(every, 250)]
    assert [text for text in texts if not isinstance(read_reply(text), Unclear)] == []


@pytest.mark.parametrize("code", CODES)
def test_correcting_yes_makes_a_no_unclear(code: str) -> None:
    """A clause after the no corrects it: "No. It's a yes"."""
    file = language(code).file
    for no, text in itertools.product(VERDICTS[code][0], samples(file.after_a_no.instead, file)):
        assert isinstance(read_reply(f"{no}. {text}"), Unclear), text


@pytest.mark.parametrize("code", CODES)
def test_polite_rejection_is_a_rejection(code: str) -> None:
    """A polite rejection is a rejection: "No, sorry"."""
    polite = {
        "en": "No, I'm very sorry",
        "de": "Nein, tut mir leid",
        "fr": "Non, je suis désolé",
        "es": "No, lo siento",
        "it": "No, mi dispiace",
        "pt": "Não, sinto muito",
        "nl": "Nee, het spijt me",
        "ja": "いいえ、申し訳ありません",
        "ko": "아니요, 죄송합니다",
        "zh": "不，抱歉",
    }
    assert not isinstance(read_reply(polite[code]), Unclear)
