"""A yes that names a deed approves only tools that do it, in all ten languages."""

from __future__ import annotations

import unicodedata
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.replies.test_phrases import kind_of
from signoff.core.replies.text import ReplyContext

DEEDS: Final = {
    "pay": "payment approved|ok to pay|yes, pay it|Zahlung genehmigt|paiement validé|páguelo|"
    "pagamento approvato|pode pagar|betaling akkoord|支払いを承認します|付款批准|결제 승인",
    "refund": "refund approved|Erstattung genehmigt|remboursement validé|reembolso aprobado|"
    "rimborso approvato|reembolso aprovado|terugbetaling ok|返金を承認します|同意退款|환불 승인",
    "order": "order approved|yes, order it|Bestellung genehmigt|commande validée|pedido aprobado|"
    "ordine approvato|compra aprovada|bestelling akkoord|発注を承認します|同意采购|구매 승인",
    "book": "book it|trip approved|Buchung genehmigt|réservation validée|resérvalo|"
    "prenota pure|pode reservar|boek maar|予約を承認します|订吧|예약 승인",
    "send": "send it|mail approved|bitte senden|envoyez|ok, envíalo|ok, invia|ok, pode enviar|"
    "ok, verstuur maar|メールを承認します|发吧|발송 승인",
    "publish": "publish it|publication approved|Veröffentlichung genehmigt|publicación aprobada|"
    "pubblicazione approvata|게시 승인",
    "deploy": "deployment approved|roll it out|Deployment genehmigt|déploiement validé|"
    "despliegue aprobado|rilascio approvato|uitrol akkoord|リリースを承認します|部署批准|배포 승인",
    "delete": "deletion approved|yes delete it|Löschung genehmigt|oui supprime|sí, bórralo|"
    "sì, elimina|sim, pode apagar|ja verwijder maar|はい、削除してください|可以，删除吧|삭제 승인",
    "access": "access approved|Zugriff genehmigt|accès validé|acceso aprobado|accesso approvato|"
    "acesso aprovado|toegang akkoord|role approved",
    "sign": "contract approved|Vertrag genehmigt|contrat validé|contrato aprobado|"
    "contratto approvato|contract akkoord",
    "leave": "leave approved|vacation approved|Urlaub genehmigt|congé validé|verlof akkoord",
}
TOOLS: Final = {
    "pay_invoice": "pay",
    "refund_order": "refund",
    "refund_payment": "refund",
    "order_laptops": "order",
    "book_flight": "book",
    "send_email": "send",
    "send_payment_reminder": "send",
    "send_order_confirmation": "send",
    "publish_post": "publish",
    "deploy_service": "deploy",
    "delete_account": "delete",
    "grant_access": "access",
    "sign_contract": "sign",
    "approve_leave": "leave book",
    "transfer_domain": "",
    "update_price": "",
    "update_payment_method": "",
    "create_payment_link": "",
    "hold_payment": "",
    "void_contract": "",
    "export_data": "",
    "rename_file": "",
    "set_discount": "",
    "call_customer": "",
}


@pytest.mark.parametrize("tool", TOOLS)
def test_no_deed_approves_a_tool_that_does_something_else(tool: str) -> None:
    """Who names another deed than the tool's has another request in mind."""
    context = ReplyContext(called=(tool, "ops"))
    own = TOOLS[tool].split()
    others = [text for deed in DEEDS if deed not in own for text in DEEDS[deed].split("|")]
    assert [text for text in others if kind_of(text, context) == "yes"] == []


@pytest.mark.parametrize("tool", [tool for tool, deeds in TOOLS.items() if deeds])
def test_most_words_for_a_tools_own_deed_approve(tool: str) -> None:
    """The first name of each deed is understood for its tool."""
    deed = TOOLS[tool].split()[0]
    assert kind_of(DEEDS[deed].split("|")[0], ReplyContext(called=(tool, "ops"))) == "yes"


NOES: Final = (
    *("no", "not approved", "do not approve", "I don't approve this", "no, not ok", "no way"),
    *(
        "nicht genehmigt",
        "nein",
        "pas d'accord",
        "je n'approuve pas",
        "no lo apruebo",
        "no autorizo",
    ),
    *("non approvo", "não aprovo", "niet akkoord", "承認しません", "不同意", "승인하지 않습니다"),
    *("ok if Tom agrees", "yes, but only half", "approved for Anna, not for Bob", "ok, morgen"),
)
_INVISIBLE: Final = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\ufe0f\u034f\u3164"
_TWINS: Final = str.maketrans("aeopcxyABEHKMOPCTX", "аеорсхуАВЕНКМОРСТХ")
"""Latin letters, and the Cyrillic ones that look like them."""


@given(st.sampled_from(NOES), st.data())
def test_no_disguise_of_a_no_is_a_yes(text: str, data: st.DataObject) -> None:
    """Letters of other widths, cases or scripts, and invisible ones, take no denial away."""
    disguises = (
        str.upper,
        str.title,
        lambda mark: mark.translate(_TWINS),
        lambda mark: chr(ord(mark) + 0xFEE0) if "!" <= mark <= "~" else mark,
        lambda mark: unicodedata.normalize("NFD", mark),
        lambda mark: mark + data.draw(st.sampled_from(_INVISIBLE)),
        lambda mark: "\u00a0" if mark == " " else mark,
    )
    chosen = data.draw(
        st.lists(st.sampled_from((str, *disguises)), min_size=len(text), max_size=len(text))
    )
    disguised = "".join(one(mark) for one, mark in zip(chosen, text, strict=True))
    assert kind_of(disguised, ReplyContext(called=("pay_invoice", "ops"))) != "yes"
