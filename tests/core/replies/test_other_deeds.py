"""A yes that names something else than the request, or the opposite, is asked back."""

from __future__ import annotations

import pytest

from core.replies.test_phrases import kind_of
from signoff.core.replies.reading import read_reply
from signoff.core.replies.reply import Reject
from signoff.core.replies.text import Names, ReplyContext


def reading(tool: str, text: str) -> str:
    """Return how a reply to a call of a tool is read: as a yes, a no or neither."""
    mara = Names(("Mara Lind",))
    return kind_of(text, ReplyContext(called=(tool, "agent"), people=(mara,), author=mara))


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("delete_account", "pay it"), ("delete_account", "Bitte überweisen")),
        *(
            ("delete_account", "payez"),
            ("delete_account", "págalo"),
            ("delete_account", "paga pure"),
        ),
        *(("delete_account", "pode pagar"), ("delete_account", "betaal maar")),
        *(("delete_account", "支払ってください"), ("delete_account", "지급하세요")),
        *(("delete_account", "请付款"), ("make_payment", "ok to deploy"), ("send_mail", "book it")),
        *(("make_payment", "Please send the invoice"), ("make_payment", "send the bill")),
        *(("send_payment", "Please send the invoice"), ("send_payment", "The budget is approved")),
    ],
)
def test_a_yes_to_another_deed_is_asked_back(tool: str, text: str) -> None:
    """A person who writes "pay it" about a deletion has another request in mind."""
    assert reading(tool, text) == "neither"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("hold_payment", "Please release the payment"), ("hold_payment", "pay it")),
        *(("hold_payment", "let it through"), ("stop_server", "let it run")),
        *(
            ("cancel_order", "ship it"),
            ("stop_server", "carry on"),
            ("stop_server", "weitermachen"),
        ),
        *(("block_payment", "continuez"), ("block_payment", "continúe"), ("stop_job", "continua")),
        *(("stop_job", "pode continuar"), ("stop_job", "laat maar doorgaan"), ("stop_job", "继续")),
        *(("stop_job", "続けてください"), ("stop_job", "계속하세요")),
        *(("hold_payment", "Zahlung freigeben"), ("cancel_transfer", "Approve the transfer")),
        *(("reject_invoice", "invoice approved"), ("block_card", "the card is ok")),
        *(("delete_user", "approve the user"), ("storno_rechnung", "Rechnung genehmigt")),
    ],
)
def test_a_yes_to_what_a_tool_ends_is_asked_back(tool: str, text: str) -> None:
    """A yes to "the payment", or to going on, may mean that the payment is not to be held."""
    assert reading(tool, text) == "neither"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("hold_payment", "approve"), ("hold_payment", "go ahead"), ("hold_payment", "ok, do it")),
        *(("hold_payment", "approve this request"), ("cancel_order", "approve the cancellation")),
        *(("delete_account", "approve the deletion"), ("stop_server", "yes, stop the server")),
        *(("cancel_order", "Please proceed with the cancellation"), ("make_payment", "pay it")),
        *(("reimburse", "please release the payment"), ("send_mail", "ok, send it")),
        *(
            ("book_flight", "Bitte buchen"),
            ("deploy_app", "ok, continue"),
            ("make_payment", "请付款"),
        ),
        *(("make_payment", "betaal maar"), ("make_payment", "let it go through")),
        *(
            ("send_payment", "please process the invoice"),
            ("send_invoice", "Please send the invoice"),
        ),
    ],
)
def test_a_yes_to_the_deed_of_the_tool_approves(tool: str, text: str) -> None:
    """The words of a yes may repeat what the tool does."""
    assert reading(tool, text) == "yes"


@pytest.mark.parametrize("word", ["ok", "OK,", "yes", "approved", "Fine,"])
@pytest.mark.parametrize("noun", ["payment", "invoice", "pagamento", "amount"])
def test_no_before_a_noun_is_not_a_preposition(word: str, noun: str) -> None:
    """Portuguese "no" ("in the") does not turn "ok, no payment" into a yes."""
    assert reading("make_payment", f"{word} no {noun}") == "neither"


@pytest.mark.parametrize(
    "text",
    [
        *("yes, correct the amount", "approved, correct it", "ok, correct this", "ok, perfect it"),
        *("ok, correct la facture", "ok, cool it"),
    ],
)
def test_praise_with_an_object_is_an_order(text: str) -> None:
    """The words "correct it" ask for a change, although "correct" alone is harmless."""
    assert reading("make_payment", text) == "neither"
    assert reading("make_payment", "yes, correct. The amount is fine") == "yes"


@pytest.mark.parametrize("text", ["sanction them", "Sanction", "werden das genehmigen"])
def test_a_penalty_or_a_promise_is_not_an_approval(text: str) -> None:
    """To sanction is also to punish, and an approval that will come is not one yet."""
    assert reading("make_payment", text) == "neither"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("deny_request", "approve the request"), ("reject_application", "application approved")),
        *(("rollback_release", "release approved"), ("close_account", "approve the account")),
        *(("fire_employee", "hire approved"), ("hide_post", "post ok"), ("waive_fee", "fee ok")),
    ],
)
def test_a_yes_to_what_a_tool_refuses_is_asked_back(tool: str, text: str) -> None:
    """A yes to "the application" may mean not to reject it."""
    assert reading(tool, text) == "neither"
    assert reading(tool, "approve it") == "yes"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("send_half_payment", "ok half"), ("set_max_limit", "approve max")),
        *(("first_installment", "ok, first"), ("partial_refund", "approve partial")),
        *(("change_price", "ok change it"), ("edit_invoice", "ok, edit it")),
        *(("ask_manager", "manager approved"), ("pay", "ok, call"), ("pay", "approve my request")),
    ],
)
def test_a_part_of_a_tools_name_may_be_a_limit_or_an_order(tool: str, text: str) -> None:
    """The words "half" and "edit it" are no names of the request, although the tool has them."""
    assert reading(tool, text) == "neither"


@pytest.mark.parametrize("text", ["ok, max", "ok, half"])
def test_a_limit_in_lower_case_is_not_a_name(text: str) -> None:
    """A person called Max is addressed as Max; "max" is a limit."""
    people = ReplyContext(people=(Names(("Max Half",)),), author=Names(("Mara Lind",)))
    assert kind_of(text, people) == "neither"
    assert kind_of("Danke Max, genehmigt", people) == "yes"


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        *(("approved", False, "ok\napproved: no"), ("confirm", True, "approve confirm=no")),
        *(("reject", False, "ok\nreject: yes"), ("decision", "", "approve\ndecision: rejected")),
    ],
)
def test_a_field_for_the_decision_that_says_no_contradicts_a_yes(
    field: str, value: bool | str, text: str
) -> None:
    """A template may have a field that repeats the decision; two decisions are none."""
    assert kind_of(text, ReplyContext(fields={field: value})) == "neither"
    proposed = ReplyContext(fields={field: value}, proposes=True)
    assert kind_of(text, proposed) == "yes"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(
            ("make_payment", "Makes sense, approved"),
            ("make_payment", "Looks right to me, approved"),
        ),
        *(("make_payment", "Apologies for late response, approved."), ("make_payment", "yes I do")),
        *(("make_payment", "Cleared for payment"), ("make_payment", "Approved, the full amount")),
        *(
            ("make_payment", "Facture ok"),
            ("make_payment", "factuur akkoord"),
            ("deploy", "go live"),
        ),
        *(("make_payment", "Ist ok für mich"), ("make_payment", "Hab nichts dagegen")),
        *(("make_payment", "Habs geprüft, passt"), ("make_payment", "In voller Höhe genehmigt")),
        *(("make_payment", "Alles klar, passt"), ("make_payment", "Entendu, validé")),
        *(("send_mail", "please send"), ("send_mail", "bitte senden"), ("deploy_app", "deploy it")),
    ],
)
def test_everyday_answers_approve(tool: str, text: str) -> None:
    """Plain answers that people write every day are not asked back."""
    assert reading(tool, text) == "yes"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Finance approved",
            "Finance: approved",
            "Finance - ok",
            "the agent approved",
            "Agent: ok",
        ),
        *("Hi Tom, finance approved", "finance agent: yes", "Legal: approved", "Legal - ok"),
        *(
            "Legal:\nYes",
            "Perfect: approved",
            "Chef:\nYes",
            "Tom:\nok",
            "Tom - approved",
            "Tom | ok",
        ),
        *(
            "Herr Weber - ok",
            "Boss – ok",
            "IT approved",
            "IT: ok",
            "IT is ok",
            "IT ok",
            "IT approved it",
        ),
        *("IT genehmigt", "ok for US", "Legal signed off", "Einkauf ok", "thanks finance approved"),
    ],
)
def test_an_approval_of_others_is_asked_back(text: str) -> None:
    """A label before a yes says who has approved, also if the agent has the name of the label."""
    context = ReplyContext(
        called=("make_payment", "finance agent"),
        people=(Names(("Tom Weber", "Mara Lind")), Names(("finance agent", "Anna Berg"))),
        author=Names(("Mara Lind",)),
    )
    assert kind_of(text, context) != "yes"
    for own in (
        "approve, finance agent",
        "Tom, approved",
        "Anna - approved",
        "Mara: approved",
        "PLEASE PROCEED WITH IT",
    ):
        assert kind_of(own, context) == "yes", own


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("holdPayment", "pay it"), ("holdPayment", "approve the payment")),
        *(("stopServer", "let it run"), ("CancelOrder", "order approved")),
        *(("deleteAccount", "approve the account"), ("ERPCancelOrder", "ship it")),
        *(("cancelOrder2", "Approve the order"), ("storniereRechnung", "Rechnung genehmigt")),
        *(("löscheKonto", "weitermachen"), ("cancelOrder", "ok, cancel")),
        *(("deleteAccount", "approve account"), ("deleteAccount", "pay it")),
    ],
)
def test_a_tool_in_camel_case_is_read_for_what_it_ends(tool: str, text: str) -> None:
    """The words of ``holdPayment`` count as those of ``hold_payment`` do."""
    assert reading(tool, text) == "neither"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("deleteAccount", "approve deleteAccount"), ("deleteAccount", "deleteAccount approved")),
        *(("holdPayment", "Approved, hold the payment"), ("stopServer", "yes, stop the server")),
        *(("makePayment", "payment approved"), ("deployApp", "approve the deployment")),
        *(("deleteAccount", "Approve the deletion"), ("makePayment", "approve make payment")),
        *(("doNotDisturb", "approve doNotDisturb"), ("sendEMail", "send it")),
    ],
)
def test_a_tool_in_camel_case_is_named_by_its_words(tool: str, text: str) -> None:
    """A reply may name ``makePayment`` as it is written, and by its words."""
    assert reading(tool, text) == "yes"


@pytest.mark.parametrize(
    "text", ["Do not approve", "not approved", "approve not", "ok, do not disturb"]
)
def test_a_denial_in_a_tool_in_camel_case_stays_one(text: str) -> None:
    """The "not" of ``doNotDisturb`` is no name of the request."""
    assert reading("doNotDisturb", text) != "yes"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("release_pending_payment", "ok, pending"), ("release_pending_payment", "yes pending")),
        *(("pay_without_invoice", "approved, without"), ("log_out_user", "ok. out")),
        *(("rollBackServer", "ok, back"), ("send_off_letter", "please proceed, off")),
        *(("write_above_limit", "approve above"), ("open_both_doors", "ok, both")),
        *(("zahlung_unter_vorbehalt", "ok, unter"), ("payer_sans_facture", "ok, sans")),
        *(("pagar_sin_factura", "vale, sin"), ("paga_tranne_hotel", "va bene, tranne")),
        *(("pagar_sem_nota", "ok, sem"), ("betaal_behalve_hotel", "akkoord, behalve")),
        *(("notify_subject_owner", "approved subject"), ("use_fallback_server", "ok fallback")),
        *(("release_pending_payment", "ok pending the payment"), ("list_archived", "ok archived")),
        *(("list_pending", "ok, pending"), ("sign_off", "ok, off"), ("roll_back", "ok back")),
        *(("refund_cancelled_order", "ok, cancelled"), ("restore_removed_user", "ok, removed")),
        *(("publish_postponed_post", "ok, postponed"), ("restore_deleted_account", "ok deleted")),
    ],
)
def test_a_bare_word_of_a_tools_name_may_be_a_condition(tool: str, text: str) -> None:
    """A word inside the tool's name is not the name alone: "pending" may be a condition."""
    assert reading(tool, text) == "neither"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("release_pending_payment", "ok, pending payment approved"), ("restart", "ok, restart")),
        *(("run_forecast", "approve the forecast"), ("run_forecast", "approve run forecast")),
        *(("stop_server", "Approved, stop the server"), ("make_payment", "payment ok")),
        *(("send_newsletter", "newsletter approved"), ("pay_without_invoice", "ok, pay")),
        *(("run_forecast", "forecast approved"), ("export_data", "ok to export")),
        *(("add_vendor", "vendor ok"), ("mergeBranch", "Branch is approved")),
    ],
)
def test_a_tool_is_named_by_a_noun_or_several_words(tool: str, text: str) -> None:
    """The first or last word of the tool's name, or several words of it, mean the request."""
    assert reading(tool, text) == "yes"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("update_config", "approved with changes"), ("update_config", "ok with edits")),
        *(("update_config", "einverstanden mit Änderungen"), ("deploy_app", "ok with upgrade")),
        *(("update_config", "Mit Änderungen einverstanden"), ("pay_supplier", "ok mit Rechnung")),
        *(("pay_supplier", "ok with invoice"), ("pay_supplier", "d'accord avec facture")),
        *(("pay_supplier", "de acuerdo con factura"), ("pay_supplier", "ok con fattura")),
        *(("pay_supplier", "ok com fatura"), ("pay_supplier", "akkoord met factuur")),
    ],
)
def test_something_beside_the_call_is_a_condition(tool: str, text: str) -> None:
    """The words "with changes" and "with invoice" ask for something that the call has not."""
    assert reading(tool, text) == "neither"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("update_config", "ok with the changes"), ("update_config", "fine with this change")),
        *(("pay_supplier", "mit der Zahlung einverstanden"), ("pay_supplier", "fine with it")),
        *(
            ("pay_supplier", "d'accord avec le paiement"),
            ("pay_supplier", "de acuerdo con el pago"),
        ),
        *(("pay_supplier", "akkoord met de betaling"), ("update_config", "ok with update config")),
    ],
)
def test_the_call_itself_is_no_condition(tool: str, text: str) -> None:
    """With an article or its own name, the call is what the person agrees with."""
    assert reading(tool, text) == "yes"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("支払い停止", "支払ってください"), ("支払停止", "支払いを承認します")),
        *(("アカウント削除", "続けてください"), ("取消订单", "继续"), ("取消付款", "请付款")),
        *(("删除账户", "账户批准"), ("결제취소", "결제 승인"), ("결제_취소", "계속하세요")),
        *(("계정해지", "결제해 주세요"), ("kuendige_vertrag", "Vertrag genehmigt")),
        *(("loesche_konto", "weitermachen"), ("disdire_contratto", "contratto approvato")),
    ],
)
def test_the_name_of_a_tool_ends_something_in_any_script(tool: str, text: str) -> None:
    """Words without spaces, and without umlauts, end something as those of other names do."""
    assert reading(tool, text) == "neither"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("支払い停止", "承認します"), ("取消订单", "批准"), ("결제취소", "승인합니다")),
        *(("kuendige_vertrag", "genehmigt"), ("支払い", "支払ってください"), ("付款", "请付款")),
    ],
)
def test_a_plain_yes_to_a_tool_in_any_script_approves(tool: str, text: str) -> None:
    """A yes that names nothing means the request, whatever the tool does."""
    assert reading(tool, text) == "yes"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("delete_account", "approve the cancellation"), ("drop_table", "Stornierung ok")),
        *(("archive_project", "yes delete it"), ("archive_project", "Löschung genehmigt")),
        *(("cancel_order", "approve the deletion"), ("cancel_order", "ja, löschen")),
        *(("create_user", "deployment ok"), ("restart_server", "approve the release")),
        *(("create_user", "Deployment genehmigt"), ("rename_branch", "déploiement ok")),
        *(("deploy_release", "approve the restart"), ("create_user", "배포 승인")),
        *(("archive_project", "批准删除"), ("cancel_order", "네, 삭제하세요")),
    ],
)
def test_a_yes_to_a_similar_deed_is_asked_back(tool: str, text: str) -> None:
    """To delete, to cancel and to archive are different deeds; so are to deploy and to create."""
    assert reading(tool, text) == "neither"


@pytest.mark.parametrize(
    "text", ["yes delete it", "ok, delete", "approve the deletion", "Löschung ok", "oui supprime"]
)
@pytest.mark.parametrize(
    "tool",
    [
        *("cancel_deletion", "stopDeletion", "prevent_deletion", "undo_delete"),
        *("keep_deleted_files", "restore_deleted_account", "list_deleted_users"),
    ],
)
def test_a_yes_to_the_deletion_that_a_tool_prevents_is_asked_back(tool: str, text: str) -> None:
    """A tool that cancels a deletion, or has to do with what was deleted, deletes nothing."""
    assert reading(tool, text) == "neither"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("delete_account", "ja, lösche es"), ("delete_account", "oui, supprimez-le")),
        *(("delete_account", "sí, bórralo"), ("delete_account", "sì, elimina")),
        *(("delete_account", "sim, pode apagar"), ("delete_account", "ja verwijder maar")),
        *(("delete_account", "はい、削除してください"), ("delete_account", "네 삭제해주세요")),
        *(("delete_account", "可以，删除吧"), ("bulk_delete_users", "yes delete it")),
        *(("cancel_order", "approve the cancellation"), ("cancel_order", "Stornierung ok")),
        *(("cancel_order", "j'approuve l'annulation"), ("deploy_release", "release approved")),
        *(("request_deletion", "deletion approved"), ("restart_server", "approve the restart")),
    ],
)
def test_a_yes_that_names_what_the_tool_ends_approves(tool: str, text: str) -> None:
    """In each language, a yes may name the deed of the tool itself."""
    assert reading(tool, text) == "yes"


@pytest.mark.parametrize(
    "text",
    [
        *("oui supprime pas", "oui, supprime la deuxième", "sí, borra el segundo"),
        *("ja lösche nicht", "はい、削除してください。ただし明日", "네 삭제해주세요 말고"),
        *("ok, borra los backups", "sim, apaga a segunda", "不删除吧", "delete it", "删除吧"),
    ],
)
def test_a_deletion_of_something_else_is_asked_back(text: str) -> None:
    """The deed with other words beside it, or without a yes, approves nothing."""
    assert reading("delete_account", text) != "yes"


@pytest.mark.parametrize(
    ("tool", "app", "text", "kind"),
    [
        ("grant_access", "billing", "Zahlung genehmigt", "neither"),
        ("grant_access", "finance_payments", "pay it", "neither"),
        ("pay_invoice", "mail_agent", "mail ok", "neither"),
        ("create_user", "deploy_bot", "deployment ok", "neither"),
        ("pay_invoice", "cleanup_agent", "deletion ok", "neither"),
        ("send_request", "leave_agent", "approve the leave", "yes"),
        ("create_entry", "expenses", "approve the expense", "yes"),
    ],
)
def test_the_name_of_the_agent_counts_only_if_the_tool_has_no_subject(
    tool: str, app: str, text: str, kind: str
) -> None:
    """A yes to a payment is no yes to a tool that grants access, whatever its agent is called."""
    assert kind_of(text, ReplyContext(called=(tool, app))) == kind


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("transfer_domain", "payment ok"), ("transfer_domain", "ok to pay")),
        *(("transfer_domain", "Zahlung ok"), ("transfer_call", "pago aprobado")),
        *(("pay_invoice", "book it"), ("pay_invoice", "buchen"), ("pay_invoice", "boek maar")),
        *(("pay_invoice", "Bestellung genehmigt"), ("pay_invoice", "reembolso aprobado")),
        *(("pay_invoice", "refund approved"), ("order_laptops", "pay it")),
        *(("send_invoice", "pay it"), ("send_invoice", "Zahlung genehmigt")),
        *(("send_invoice", "同意付款"), ("update_price", "payment approved")),
        *(("update_bank_account", "Zahlung genehmigt"), ("raise_budget", "pay it")),
        *(("publish_post", "send it"), ("send_email", "publish it")),
        *(("deploy_service", "rollback approved"), ("release_payment", "deployment approved")),
        *(("sign_contract", "please send"), ("grant_access", "send it")),
        *(("rename_file", "Vertrag genehmigt"), ("credit_account", "access approved")),
        *(("book_flight", "결제 승인"), ("refund_order", "同意付款")),
    ],
)
def test_a_yes_to_another_deed_of_the_same_field_is_asked_back(tool: str, text: str) -> None:
    """To pay, to refund, to order and to bill are different deeds, although all are about money."""
    assert reading(tool, text) == "neither"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("refund_order", "approve the order"), ("refund_order", "order approved")),
        *(("refund_order", "ok to order"), ("refund_order", "Bestellung ok")),
        *(("refund_order", "commande validée"), ("refundOrder", "yes, order it")),
        *(("refund_payment", "approve the payment"), ("return_laptop", "laptop approved")),
        *(("refund_invoice", "Rechnung genehmigt"), ("refund_payment", "pay it")),
        ("cancel_refund", "refund approved"),
    ],
)
def test_the_subject_of_a_refund_is_not_the_refund(tool: str, text: str) -> None:
    """Who approves the order may mean that it needs no refund."""
    assert reading(tool, text) == "neither"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("send_payment_reminder", "payment approved"), ("send_payment_reminder", "pay it")),
        *(("send_payment_reminder", "approve the payment"), ("update_payment_method", "ok to pay")),
        *(("create_payment_link", "Zahlung genehmigt"), ("raise_payment_limit", "payment ok")),
        *(("send_mail_to_customer", "customer approved"), ("export_invoice_list", "invoice ok")),
        *(("updatePaymentMethod", "approve the payment"), ("send_order_confirmation", "order it")),
    ],
)
def test_a_word_inside_a_tools_name_is_not_its_subject(tool: str, text: str) -> None:
    """The "payment" of ``send_payment_reminder`` is not what the tool does."""
    assert reading(tool, text) == "neither"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("refund_order", "approve the refund"), ("refund_order", "yes, refund the order")),
        *(("refund_order", "Ja, bitte erstatten"), ("refund_order", "Oui, vous pouvez rembourser")),
        *(("refund_order", "Sì, rimborsa pure"), ("refund_order", "Sim, pode reembolsar")),
        *(("refund_order", "ja, betaal maar terug"), ("refund_order", "はい、返金してください")),
        *(
            ("refund_order", "同意退款"),
            ("refund_order", "환불 승인"),
            ("refund_order", "process it"),
        ),
        *(("reimburse_expense", "pay it"), ("reimburse_expense", "rimborso approvato")),
        *(("process_invoice", "payment approved"), ("approve_invoice", "ok to pay")),
        *(("settle_bill", "please pay the bill"), ("settle_bill", "Passt so, bitte zahlen")),
        *(("make_payment", "Rechnung genehmigt"), ("release_payment", "release the payment")),
        *(("send_money_to_vendor", "payment approved"), ("order_laptops", "Bestellung genehmigt")),
        *(("publish_post", "publish it"), ("announce_release", "publish it")),
        *(("sign_contract", "Vertrag genehmigt"), ("pay_invoice_by_card", "invoice approved")),
        *(("send_payment_reminder", "send it"), ("send_payment_reminder", "reminder approved")),
        *(("send_invoice", "Ok, envíala"), ("send_invoice", "Ok, pode enviar")),
        *(("send_invoice", "Prima, verstuur maar"), ("send_invoice", "没问题,发吧")),
        *(("book_flight", "Oui, réservez"), ("book_flight", "好的,请预订")),
        *(("book_flight", "Pode reservar, por favor"), ("order_laptops", "Ok, bitte bestellen")),
        *(("publish_post", "Me parece bien, publícalo"), ("book_flight", "네, 예약해 주세요")),
    ],
)
def test_a_yes_that_names_the_tools_own_deed_approves(tool: str, text: str) -> None:
    """The first word of a tool's name is its deed, the last before a preposition its subject."""
    assert reading(tool, text) == "yes"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("book_trip", "flight approved"), ("book_trip", "Ja zum Flug")),
        *(("book_trip", "航班批准"), ("book_hotel", "vuelo aprobado")),
    ],
)
def test_a_part_of_a_trip_is_not_the_trip(tool: str, text: str) -> None:
    """Who approves the flight has not approved the hotel."""
    assert reading(tool, text) == "neither"


@pytest.mark.parametrize(
    ("tool", "text", "kind"),
    [
        ("cancel_subscription", "Don't cancel.", "no"),
        ("hold_payment", "Please don't hold it", "no"),
        ("hold_payment", "Do not hold the payment, thanks", "no"),
        ("wire_funds", "Do not wire", "no"),
        ("hold_payment", "Don't hold it if Tom agrees", "neither"),
        ("cancel_order", "don't cancel it yet", "neither"),
        ("cancel_order", "no problem", "yes"),
        ("cancel_order", "no, cancel. Approved", "neither"),
    ],
)
def test_not_to_do_what_the_tool_does_is_a_no(tool: str, text: str, kind: str) -> None:
    """The verb of a tool behind "do not" needs no list of verbs."""
    assert reading(tool, text) == kind


def test_the_verb_of_a_no_is_not_its_reason() -> None:
    """The agent must not read "cancel" as the reason of "don't cancel"."""
    context = ReplyContext(called=("cancel_order", "agent"))
    refusal = read_reply("Don't cancel it.", context)
    assert isinstance(refusal, Reject)
    assert refusal.reason == ""


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("restart_server", "The server is fine"), ("restart_server", "server ok")),
        *(("replaceServer", "The server looks good"), ("edit_contract", "contract: ok")),
        *(("correct_invoice", "Invoice ok"), ("correct_invoice", "Die Rechnung ist in Ordnung")),
        *(("correct_invoice", "La factura está bien"), ("change_price", "price is ok")),
        *(("rebook_flight", "The flight is ok"), ("edit_contract", "Le contrat est bon")),
        *(("dispute_charge", "The charge is fine"), ("dispute_charge", "charge approved")),
        *(("restart_server", "It works"), ("restart_server", "Everything works")),
        *(("restart_server", "Works fine"), ("warn_employee", "employee ok")),
        *(("write_off_debt", "debt ok"), ("override_safety_check", "The safety check is fine")),
        *(("mute_user", "the user is ok"), ("crm_update_price", "price ok")),
        *(("price_change", "price ok"), ("quarantine_file", "The file is ok")),
        *(("extend_deadline", "the deadline works for me"), ("server_neustarten", "Server ok")),
        *(("report_fraud", "It's legit"), ("flag_transaction", "transaction approved")),
    ],
)
def test_a_state_of_what_a_tool_changes_is_no_yes(tool: str, text: str) -> None:
    """A person who writes "the server is fine" may mean that it needs no restart.

    So it is with every tool that is not known to make or carry out its subject.
    """
    assert reading(tool, text) == "neither"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(
            ("restart_server", "The restart is fine"),
            ("restart_server", "ok to restart the server"),
        ),
        *(("restart_server", "ok, the server"), ("edit_contract", "ok with the changes")),
        *(("edit_contract", "contract approved"), ("restart_server", "It's fine")),
        *(("update_price", "price update ok"), ("restart_server", "Works for me")),
        *(("deploy_service", "That works"), ("pay_invoice", "The invoice is fine")),
        *(("change_price", "go ahead with the price"), ("adk_request_input", "request ok")),
        *(("stripe_create_refund", "refund ok"), ("mcp__slack__send_message", "message ok")),
        *(("expense_report", "report ok"), ("server_restart", "restart ok")),
        *(("zahlung_ausfuehren", "Zahlung ok"), ("crear_pedido", "pedido ok")),
    ],
)
def test_a_yes_to_a_change_approves(tool: str, text: str) -> None:
    """A yes that names the change, or says that it is approved, has no other meaning."""
    assert reading(tool, text) == "yes"


@pytest.mark.parametrize("tool", ["delete_user", "restart_server", "refund_order", "edit_contract"])
@pytest.mark.parametrize(
    "text",
    [
        *("Fine as it is", "ok as is", "ok, no changes needed", "Everything is fine", "Passt so"),
        *("Danke, gut so", "Alles gut", "C'est bon comme ça", "Está bien así", "Vale así"),
        *("Va bene così", "Está bom assim", "Is goed zo", "このままでOKです", "这样就好"),
        *("Great, keep it up", "all good here", "no complaints", "Niks mis mee"),
        *("It's fine now, thanks", "ok now", "Tout marche", "没问题了"),
    ],
)
def test_to_leave_all_as_it_is_is_no_yes(tool: str, text: str) -> None:
    """The words "fine as it is" may mean that nothing is to be ended, changed or given back."""
    assert reading(tool, text) == "neither"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(
            ("make_payment", "Fine as is"),
            ("make_payment", "Passt so"),
            ("send_mail", "Va bene così"),
        ),
        *(("delete_user", "approved as is"), ("delete_user", "Ja, passt so")),
        *(("edit_contract", "Approvato così"), ("delete_user", "ok, no further comments")),
    ],
)
def test_as_it_is_may_mean_the_request(tool: str, text: str) -> None:
    """About a tool that makes something new, or beside a clear yes, it means the request."""
    assert reading(tool, text) == "yes"


@pytest.mark.parametrize(
    "tool", ["decline_offer", "reject_application", "block_user", "holdPayment"]
)
@pytest.mark.parametrize(
    "text",
    [
        *(
            "with pleasure",
            "Gladly",
            "deal!",
            "We accept",
            "ok, accept",
            "accepted",
            "Granted",
            "Permission granted",
            "cleared",
            "authorised",
        ),
        *("Akzeptiert", "Angenommen", "Erlaubt", "J'accepte", "On accepte", "Acepto", "Accettato"),
        *(
            "Aceito",
            "Geaccepteerd",
            "Toegestaan",
            "許可します",
            "認めます",
            "수락합니다",
            "허용합니다",
        ),
        *("允许", "准许"),
    ],
)
def test_to_let_something_be_is_no_yes_to_a_refusal(tool: str, text: str) -> None:
    """A person who writes "accepted" about ``decline_offer`` may mean to accept the offer."""
    assert reading(tool, text) == "neither"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(
            ("decline_offer", "approved"),
            ("decline_offer", "approval granted"),
            ("block_user", "ok"),
        ),
        *(("make_payment", "accepted"), ("make_payment", "authorised")),
        *(("delete_user", "Permission granted"), ("block_user", "genehmigt")),
    ],
)
def test_acceptance_that_fits_a_tool_approves(tool: str, text: str) -> None:
    """An approval of a refusal, and the acceptance of anything else, are clear."""
    assert reading(tool, text) == "yes"


@pytest.mark.parametrize("text", ["update ok", "edit approved", "the update is fine"])
def test_to_create_something_is_no_update(text: str) -> None:
    """A yes to an update is no answer about ``create_user``."""
    assert reading("create_user", text) == "neither"
    assert reading("update_user", text) == "yes"


@pytest.mark.parametrize("tool", ["cancel_trip", "deny_leave", "reject_application"])
@pytest.mark.parametrize(
    "text",
    [
        *("OK, have a safe trip", "Approved, enjoy your holiday!", "Yes, congratulations!"),
        *("ok safe travels!", "Genehmigt, schönen Urlaub", "Approuvé, bon voyage"),
        *("Aprobado, buen viaje", "Approvato, buone vacanze", "Aprovado, boa viagem"),
        *("Akkoord, goede reis", "好的,一路平安", "承認、良い休暇を"),
    ],
)
def test_a_good_wish_contradicts_a_refusal(tool: str, text: str) -> None:
    """A person who wishes a good trip does not mean to cancel it."""
    assert reading(tool, text) == "neither"
    assert reading("book_travel", text) == "yes"


@pytest.mark.parametrize(
    "text", ["Approved, have a nice weekend", "OK, sorry for the delay", "Great, ok"]
)
def test_other_courtesies_contradict_nothing(text: str) -> None:
    """A good wish for the day is harmless beside every yes."""
    assert reading("cancel_trip", text) == "yes"


@pytest.mark.parametrize("tool", ["veto_proposal", "reject_application", "decline_offer"])
@pytest.mark.parametrize(
    "text", ["I agree", "Aye!", "I am in favor", "I vote yes", "Endorsed", "with pleasure"]
)
def test_agreement_with_what_a_tool_refuses_is_asked_back(tool: str, text: str) -> None:
    """A person who writes "I agree" about a veto may agree with the proposal."""
    assert reading(tool, text) == "neither"
    assert reading("make_payment", text) == "yes"


@pytest.mark.parametrize(
    "text",
    [
        *("yes", "Yes, please", "ok", "OK, thanks", "Sure", "approved", "go ahead", "👍", "+1"),
        *("ja", "Genehmigt", "oui", "D'accord, je valide", "sí", "Aprobado", "sì", "Approvato"),
        *("sim", "Aprovado", "akkoord", "はい", "承認します", "네", "승인합니다", "好的", "同意"),
        *("De acuerdo", "D'accord pour moi", "Agreed", "同意します", "Einverstanden"),
        *("Fine by me", "No objections", "do it", "Passt", "Me parece bien", "没问题"),
    ],
)
def test_plain_words_approve_a_refusal(text: str) -> None:
    """A plain yes and words such as "approved" are clear about every tool."""
    assert reading("reject_application", text) == "yes"


@pytest.mark.parametrize("tool", ["cancel_meeting", "delete_database", "shut_down_server"])
@pytest.mark.parametrize(
    "text",
    [
        *("Confirmed", "Accepted", "Works for me", "It works for me", "GO", "Let's go", "LGTM"),
        *("Looks good", "All good", "Fine", "It's ok", "Good to go", "Great. Looks fine"),
        *("Bestätigt", "Akzeptiert", "Passt mir gut", "Los geht's", "Confirmé", "Ça me convient"),
        *("C'est parti", "Confirmado", "Aceptado", "Vamos", "Confermato", "Andiamo", "Aceito"),
        *("Bevestigd", "In orde", "問題ありません", "괜찮습니다"),
    ],
)
def test_a_yes_that_may_only_judge_something_is_asked_back(tool: str, text: str) -> None:
    """A person who writes "confirmed" about ``cancel_meeting`` may mean to attend it."""
    assert reading(tool, text) == "neither"
    assert reading("make_payment", text) == "yes"


@pytest.mark.parametrize("tool", ["cancel_meeting", "delete_database", "shut_down_server"])
@pytest.mark.parametrize(
    "text",
    [
        *("yes", "ok", "Sure", "From my side ok", "Fine. Go ahead", "Looks good, approved"),
        *("I agree", "No objections", "please do", "do it", "Confirmed, yes", "👍"),
        *("Ja, passt", "Gerne", "Stimme zu", "D'accord", "Oui", "Vale", "De acuerdo", "Va bene"),
        *("Sim", "Claro", "Doe maar", "はい", "네", "好的", "可以"),
    ],
)
def test_a_yes_that_agrees_approves_what_ends_something(tool: str, text: str) -> None:
    """Words of agreement are clear about a tool that ends something, whatever is beside them."""
    assert reading(tool, text) == "yes"


@pytest.mark.parametrize(
    "text",
    ["LGTM", "Looks good to me", "PR approved", "Ship it", "No issues", "All good", "accepted"],
)
def test_a_yes_to_what_is_reviewed_is_none_to_changes(text: str) -> None:
    """A person who writes "LGTM" about ``request_changes`` wants no changes."""
    assert reading("request_changes", text) == "neither"
    assert reading("request_changes", "approved") == "yes"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("restart_server", "Ja, neu starten"), ("restart_server", "Oui, redémarrez")),
        *(("restart_server", "Ok pour redémarrer"), ("restart_server", "Reinicio aprobado")),
        *(("restart_server", "Sì, riavviate"), ("restart_server", "Sim, pode reiniciar")),
        *(("restart_server", "Ja, herstart maar"), ("restart_server", "再起動を承認します")),
        *(("restart_server", "네, 재시작해 주세요"), ("cancel_contract", "Ja, bitte kündigen")),
        *(("deploy_app", "Ja, bitte deployen"), ("deploy_app", "Oui, déployez")),
        *(("archive_project", "Sí, archívalo"), ("delete_user", "Oui tu peux supprimer")),
        *(("delete_user", "Sì, cancellalo"), ("send_mail", "Approved to send")),
        *(("delete_user", "Yes, you can delete the user"), ("delete_user", "Kann gelöscht werden")),
        *(
            ("transfer_funds", "Autorizado, podem transferir"),
            ("pay_bill", "はい、送金してください"),
        ),
    ],
)
def test_a_yes_may_name_the_deed_in_the_persons_language(tool: str, text: str) -> None:
    """The deed of the tool may stand beside a yes; that of another tool is asked back."""
    assert reading(tool, text) == "yes"
    assert reading("hire_candidate", text) == "neither"


def test_the_deed_of_the_tool_may_have_a_person_as_its_object() -> None:
    """A person who writes "yes, invite her" names the deed; "approve her" is no name of it."""
    assert reading("invite_guest", "Yes, invite her") == "yes"
    assert reading("pay_contractor", "ok, please pay him") == "yes"
    for tool, text in (
        *(("invite_guest", "Yes, her"), ("invite_guest", "Yes, invite her boss")),
        *(("reject_application", "approve her"), ("remove_user", "ok, remove him")),
    ):
        assert reading(tool, text) == "neither"


@pytest.mark.parametrize(
    "text",
    [
        *("Approved, well deserved", "Yes, she deserves it", "Genehmigt, hat sie verdient"),
        *("Approuvé, bien mérité", "Aprobado, se lo merece", "Approvato, se lo merita"),
        *("Aprovado, ela merece", "Akkoord, verdiend"),
    ],
)
def test_what_somebody_deserves_is_no_yes_to_a_refusal(text: str) -> None:
    """A person who writes "she deserves it" approves a bonus, and not its refusal."""
    assert reading("pay_bonus", text) == "yes"
    assert reading("deny_bonus", text) == "neither"
    assert reading("pay_bonus", text.partition(",")[2].strip()) == "neither"
