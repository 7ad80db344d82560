"""Yeses beside a remark that asks to be told afterwards: "Approved. Keep me posted"."""

from __future__ import annotations

import pytest

from core.replies.test_phrases import kind_of
from signoff.core.replies.reading import read_reply
from signoff.core.replies.reply import Reject
from signoff.core.replies.text import Names, ReplyContext

PAYMENT = ReplyContext(
    called=("make_payment", "agent"),
    people=(Names(("Tom Weber", "Mara Lind")),),
    author=Names(("Mara Lind",)),
)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Approved. Please keep me posted",
            "Approved, keep me in the loop",
            "approved keep me posted",
        ),
        *("Approved. Let me know when it's done", "I approve this. Let me know how it goes!"),
        *("Approved, thanks. Keep us updated please.", "Go ahead and keep me informed"),
        *(
            "Genehmigt. Bitte halten Sie mich auf dem Laufenden",
            "Freigegeben, halt mich informiert",
        ),
        *(
            "Genehmigt. Gib mir kurz Bescheid, wenn es erledigt ist",
            "Genehmigt, danach Info an mich",
        ),
        *("Approuvé. Tenez-moi au courant", "Validé, merci de me tenir informée"),
        *("J'approuve. Dites-moi quand c'est fait", "Validé. Prévenez-moi une fois payé"),
        *("Aprobado. Manténgame informado", "Apruebo. Avísame cuando esté hecho"),
        *("Aprobada, por favor mantenme al tanto", "Approvato. Tienimi aggiornata"),
        *("Approvo, fammi sapere quando è fatto", "Approvato e tenetemi informato, grazie"),
        *("Aprovado. Me mantenha informado", "Aprovo. Me avise quando estiver pago"),
        *("Goedgekeurd, hou me op de hoogte", "Akkoord. Laat me weten als het betaald is"),
        *("承認します。完了したら教えてください", "承認します。進捗を共有してください"),
        *("승인합니다. 완료되면 알려 주세요", "승인합니다. 진행 상황 공유해 주세요"),
        *("同意。完成后请告诉我", "批准，办完之后通知我"),
        "Approved.\nPlease keep me posted.\n\nBest regards\nMara Lind",
    ],
)
def test_a_remark_to_be_told_afterwards_leaves_a_firm_yes(text: str) -> None:
    """A person who approves and wants to know the result has approved."""
    assert kind_of(text, PAYMENT) == "yes"


@pytest.mark.parametrize(
    "text",
    [
        *("Approved. Let me know before it goes out", "Approved, let me know first", "ok ok wait"),
        *("Approved, keep me posted before you pay", "Approved. Keep me posted until Friday"),
        *("Approved. Let me know if it's done", "Approved. Let me know when Tom agrees"),
        *("Approved. Let me know", "Approved. Let me know what it costs", "Approved. Keep me"),
        *(
            "Approved, but keep me posted first",
            "keep me posted and I approve",
            "Approve? Keep me posted",
        ),
        *(
            "Keep me posted",
            "Keep me posted. Approved",
            "ok, keep me posted",
            "yes, keep me posted",
        ),
        *(
            "Sure, let me know when it's done",
            "Sounds good. Keep me in the loop",
            "👍 keep me posted",
        ),
        *("Approved once you let me know when it's done", "not approved, keep me posted"),
        *("Genehmigt. Gib Bescheid, bevor du zahlst", "Genehmigt, gib mir vorher Bescheid"),
        *("Genehmigt. Gib Bescheid, wenn Tom fertig ist", "Ok, halt mich auf dem Laufenden"),
        *("Ja, gib Bescheid, wenn es erledigt ist", "Genehmigt, wenn es erledigt ist"),
        *("Validé. Prévenez-moi avant", "Approuvé. Tenez-moi au courant avant de payer"),
        *("d'accord, tenez-moi au courant", "Oui. Dites-moi quand c'est fait"),
        *(
            "Aprobado. Avísame antes de pagar",
            "vale, mantenme al tanto",
            "Aprobado cuando esté hecho",
        ),
        *("Approvato. Avvisami prima", "ok, tienimi aggiornato", "Approvato quando è fatto"),
        *("Aprovado. Me avise antes", "sim, me mantenha informado", "Aprovado quando estiver pago"),
        *(
            "Goedgekeurd. Laat het vooraf weten",
            "ok, hou me op de hoogte",
            "Goedgekeurd als het betaald is",
        ),
        *(
            "承認完了したら教えてください",
            "承認します。実行前に知らせてください",
            "はい。完了したら教えてください",
        ),
        *(
            "승인완료되면 알려 주세요",
            "승인합니다. 지급 전에 알려 주세요",
            "네, 완료되면 알려 주세요",
        ),
        *("批准完成后告诉我", "同意，付款前告诉我", "好的，完成后告诉我", "同意完成后告诉我"),
    ],
)
def test_a_remark_about_the_time_before_is_asked_back(text: str) -> None:
    """To be told first is a condition, and "ok, keep me posted" may be no answer at all."""
    assert kind_of(text, PAYMENT) != "yes"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("No. Keep me posted", "Keep me posted"),
        ("Abgelehnt. Haltet mich auf dem Laufenden", "Haltet mich auf dem Laufenden"),
        ("Rechazado, avísame cuando esté hecho", "avísame cuando esté hecho"),
    ],
)
def test_such_a_remark_after_a_no_is_its_reason(text: str, reason: str) -> None:
    """A rejection keeps the words after it."""
    reply = read_reply(text, PAYMENT)
    assert isinstance(reply, Reject)
    assert reply.reason == reason
