"""Answers that are one accent, one mark or one word away from a yes, or from another value."""

from __future__ import annotations

import pytest

from signoff.core.replies.reading import read_reply
from signoff.core.replies.reply import Approve, Reject, Unclear
from signoff.core.replies.text import Names, ReplyContext

PAYMENT = ReplyContext(
    fields={"amount": 900.0}, called=("make_payment", "agent"), author=Names(("Mara Lind",))
)


@pytest.mark.parametrize(
    "text",
    [
        *("approve 500 k", "ok 5 kk", "approve 5 great", "apruebo 5 mil gracias"),
        *("approvo 5 mille grazie", "approuvé 5 mille mercis", "approve 5²", "approve 500¹"),
        *("approve amount: 5²", "approve .5", "approve ,5", "approve –500", "approve (500)"),
        "approve amount: 500 k",
    ],
)
def test_a_part_of_a_number_is_not_approved(text: str) -> None:
    """Words and marks that may belong to a number never leave another number as the value."""
    assert not isinstance(read_reply(text, PAYMENT), Approve)


@pytest.mark.parametrize(
    "text",
    [
        *("approve 500", "approve:500", "approve *500*", "approve 500 please", "ok 500 for me"),
        *("approve 500 thanks", "approve 500, many thanks", "approve 500."),
    ],
)
def test_a_clear_number_is_approved(text: str) -> None:
    """A number alone, or with a mark, please or thanks after it, is the value."""
    reply = read_reply(text, PAYMENT)
    assert isinstance(reply, Approve)
    assert reply.values == {"amount": 500.0}


@pytest.mark.parametrize(
    "text",
    [
        *("Sí, lo autorizó", "lo aceptó", "confirmó", "Sì, approvò", "confermò", "lo autorizzò"),
        *("já", "né"),
    ],
)
def test_an_accent_makes_another_word(text: str) -> None:
    """A word with an accent that the lexicon does not write there is another word."""
    assert not isinstance(read_reply(text), Approve | Reject)


@pytest.mark.parametrize(
    "text",
    ["págalo", "pagalo", "SÍ", "si", "sì", "Oké", "oke", "validé", "valide", "für mich ok"],
)
def test_an_accent_may_be_left_out(text: str) -> None:
    """Words count with the accents of the lexicon, and without them."""
    assert isinstance(read_reply(text), Approve)


@pytest.mark.parametrize(
    "text",
    [
        *("aprobado si puede proceder", "ok si pueden proceder", "aprobado si estoy de acuerdo"),
        *("Aprobado. Si puede proceder, adelante", "si apruebo, adelante"),
        *("ok si ok", "si ok, go", "Si ok, adelante", "validé si ok", "ok si ok pour moi"),
    ],
)
def test_si_without_its_accent_beside_a_yes_is_a_condition(text: str) -> None:
    """Beside another yes, "si" without its accent means "if"."""
    assert not isinstance(read_reply(text), Approve)
    assert isinstance(read_reply("sí, puede proceder"), Approve)
    assert isinstance(read_reply("si puede proceder"), Approve)
    assert isinstance(read_reply("Si va bene, procedi"), Approve)


@pytest.mark.parametrize(
    "text",
    [
        '"Approved, go ahead"',
        '"Yes, please proceed"',
        "«oui, allez-y»",
        "„ja, passt“",
        '"Approved."',
    ],
)
def test_a_yes_between_quotation_marks_is_cited(text: str) -> None:
    """A quoted sentence may be another person's, as a quoted word may be."""
    assert not isinstance(read_reply(text), Approve)
    assert isinstance(read_reply('"approve"'), Approve)


@pytest.mark.parametrize("text", ["ok :(", "ok :-(", "approve (", "approve :((", "ok :|"])
def test_a_sad_face_or_an_open_bracket_is_asked_back(text: str) -> None:
    """A face that is not glad, and a bracket that nothing closes, are not harmless."""
    assert not isinstance(read_reply(text), Approve)
    assert isinstance(read_reply("approved (thanks) :)"), Approve)


@pytest.mark.parametrize(
    "text",
    [
        *("haben Sie die Freigabe", "hat die Freigabe", "haben Sie ein ok", "geht mir gut, danke"),
        *("Approval for this request", "permission for this", "goed zo!", "ga door zo", "vai così"),
        *("siga assim", "继续加油", "Es geht so"),
    ],
)
def test_headings_questions_and_praise_are_asked_back(text: str) -> None:
    """A question without its mark, a heading and praise are not answers."""
    assert not isinstance(read_reply(text), Approve)


@pytest.mark.parametrize(
    "text",
    [
        *("confirm please", "please confirm", "ok, please confirm", "Confirm it, please"),
        *("Freigabe bitte", "Genehmigung, bitte!", "Zustimmung bitte", "Grünes Licht bitte"),
        *(
            "bestätigen bitte",
            "green light please",
            "Passt das",
            "passt das so",
            "Passt das für Sie",
        ),
        *("ist das für mich ok", "geht das für mich in Ordnung", "gaan we akkoord"),
        *("Confirm the request please", "confirm this request, please", "please do confirm"),
        *("Genehmigen Sie bitte", "Genehmigen Sie die Zahlung bitte", "Bestätige bitte"),
        *(
            "genehmigen Sie",
            "Bestätigen Sie bitte den Betrag",
            "Gestatten Sie",
            "erlauben Sie bitte",
        ),
    ],
)
def test_a_request_for_a_yes_is_asked_back(text: str) -> None:
    """A person who asks for an approval, or asks a question without its mark, gives none."""
    assert not isinstance(read_reply(text), Approve)
    assert isinstance(read_reply("approve please"), Approve)
    assert isinstance(read_reply("für mich passt das"), Approve)
    assert isinstance(read_reply("ich genehmige sie"), Approve)
    assert isinstance(read_reply("Wir genehmigen sie hiermit"), Approve)


@pytest.mark.parametrize(
    "text",
    [
        *("OK\nnote: rejected", "Ja.\nAnmerkung: abgelehnt", "oui\nremarque : refusé"),
        *("sí\ncomentario: no apruebo", "sì\nmotivo: rifiutato", "ok\nmotivo: não aprovo"),
        *(
            "ok\nopmerking: afgewezen",
            "はい\n所見: 却下",
            "네.\n의견: 반려",
            "好的。\n意见：不同意",
        ),
        "note: no, too expensive\nok",
    ],
)
def test_a_note_that_says_no_contradicts_a_yes(text: str) -> None:
    """A remark decides nothing, but a yes above a remark that rejects is not clear."""
    assert not isinstance(read_reply(text), Approve)
    assert isinstance(read_reply("ok\nnote: no receipt was needed"), Approve)


@pytest.mark.parametrize(
    ("word", "remark"),
    [
        *(
            ("note", "only if Tom agrees"),
            ("note", "if Tom agrees"),
            ("remark", "unless Tom objects"),
        ),
        *(("note", "only up to 500"), ("comment", "max 500"), ("reason", "at most $ 500")),
        *(
            ("note", "pay only 500"),
            ("note", "but only half"),
            ("note", "fine by me, but not the hotel"),
        ),
        *(("note", "wait for Tom"), ("note", "ask Tom first"), ("note", "not before Monday")),
        *(("note", "sorry, I meant no"), ("note", "subject to a second quote")),
        *(
            ("Anmerkung", "nur bis 500"),
            ("Notiz", "wenn Tom zustimmt"),
            ("Grund", "zahlt maximal 500"),
        ),
        *(("nota", "solo hasta 500"), ("comentario", "siempre que Tom lo apruebe")),
        *(("remarque", "sous réserve d'accord de Tom"), ("note", "jusqu'à 500 seulement")),
        *(("nota", "fino a 500"), ("commento", "purché Tom approvi"), ("nota", "paga solo 500")),
        *(("opmerking", "mits Tom akkoord gaat"), ("opmerking", "alleen de eerste")),
        *(("observação", "somente até 500"), ("nota", "desde que o Tom aprove")),
        *(("備考", "500円まで"), ("備考", "トムが同意すれば"), ("備考", "ただし一部のみ")),
        *(("비고", "500까지만"), ("비고", "톰이 동의하는 경우"), ("비고", "먼저 확인")),
        *(("备注", "最多500"), ("备注", "如果Tom同意"), ("备注", "仅限第一项")),
    ],
)
def test_a_remark_with_a_condition_or_a_limit_is_asked_back(word: str, remark: str) -> None:
    """A remark decides nothing, so who writes a condition or a limit into it must hear that."""
    for text in (f"approve\n{word}: {remark}", f"{word}: {remark}\napprove"):
        reply = read_reply(text)
        assert isinstance(reply, Unclear)
        assert "remark" in reply.problem or "not sure" in reply.problem


@pytest.mark.parametrize(
    "remark",
    [
        *("booked under travel", "as discussed", "checked with Tom, he agrees", "cost centre 4711"),
        *(
            "tell Tom when it is paid",
            "budget is there",
            "500 as agreed",
            "thanks for the quick work",
        ),
        *(
            "wie besprochen",
            "Kostenstelle 4711",
            "comme convenu",
            "d'accord avec Paul",
            "come concordato",
        ),
        *(
            "según lo acordado",
            "conforme combinado",
            "zoals besproken",
            "出張費で計上",
            "출장비",
            "差旅费",
        ),
    ],
)
def test_a_harmless_remark_approves(remark: str) -> None:
    """A remark that adds a fact is kept, and the yes counts."""
    assert isinstance(read_reply(f"approve\nnote: {remark}"), Approve)


@pytest.mark.parametrize("text", ["sure sure", "fine fine fine", "okay okay", "alright alright"])
def test_a_repeated_yes_may_be_impatience(text: str) -> None:
    """A yes that is repeated without a mark may mean "enough of that"."""
    assert not isinstance(read_reply(text), Approve)
    assert isinstance(read_reply("ok, sure"), Approve)


@pytest.mark.parametrize(
    "text",
    [
        *("오케이 안 승인", "아니 과장님, 승인합니다", "톰 반대 과장님, 승인합니다"),
        *("보류 부장님, 승인", "👎 김과장님, 승인합니다", "nicht김민수 과장님, 승인합니다"),
        *("하지만 김민수 과장님, 승인합니다", "1/2김민수 과장님, 승인합니다"),
    ],
)
def test_a_no_is_not_a_part_of_a_name_or_of_a_word(text: str) -> None:
    """Words before an honorific are a name only if they can be one; "오케이 안" has no "이 안"."""
    assert not isinstance(read_reply(text), Approve)
    assert isinstance(read_reply("김민수 과장님, 승인합니다"), Approve)
    assert isinstance(read_reply("田中太郎様、承認します"), Approve)


@pytest.mark.parametrize("text", ["All si good", "ok si", "Fine si", "Aprobado si, gracias"])
def test_si_without_its_accent_inside_a_sentence_is_asked_back(text: str) -> None:
    """Behind a yes and without a comma, "si" may begin a condition that was not finished."""
    assert not isinstance(read_reply(text), Approve)
    assert isinstance(read_reply("ok, si"), Approve)
    assert isinstance(read_reply("Sí, aprobado"), Approve)


@pytest.mark.parametrize(
    "text",
    [
        *("Run it by me", "please run it by me", "run this by us", "Let it run by me"),
        *("Run the payment by Mara", "run it by Mara Lind", "book it for me", "pay it for me"),
        *("payez pour moi", "Bitte überweisen für mich", "Weitermachen für mich"),
    ],
)
def test_an_order_for_the_person_is_asked_back(text: str) -> None:
    """To run a plan by somebody is to ask, and "book it for me" changes who travels."""
    assert not isinstance(read_reply(text, PAYMENT), Approve)


@pytest.mark.parametrize(
    "text",
    [
        *("Approved by me", "ok to proceed from my side", "Ok to pay from my side", "go by me"),
        *("Payment approved by me", "approve for me", "Zahlung ok für mich", "Run it. Fine by me"),
    ],
)
def test_a_yes_of_the_person_approves(text: str) -> None:
    """Words such as "by me" beside a yes that orders nothing say whose yes it is."""
    assert isinstance(read_reply(text, PAYMENT), Approve)


@pytest.mark.parametrize(
    "text",
    [
        *("Morgen, passt", "morgen, genehmigt", "Morgen, ok", "your call, ok"),
        *("Morgen Passt, bitte durchführen", "morgen Ok, passt"),
    ],
)
def test_a_greeting_that_may_be_a_day_is_asked_back(text: str) -> None:
    """On the line of the answer, "Morgen" may be tomorrow; "your call" leaves the decision."""
    assert not isinstance(read_reply(text), Approve)
    for clear in ("Morgen\nok", "Morgen zusammen, ok", "Guten Morgen, ok", "approve this call"):
        assert isinstance(read_reply(clear), Approve)


@pytest.mark.parametrize(
    "text",
    [
        *("I can approve it then", "approve then", "genehmige ich dann", "genehmigt dann"),
        *("j'approuve alors", "lo apruebo entonces", "approvo allora", "aprovo então"),
        *("ik keur het goed dan", "akkoord dan", "dan akkoord"),
    ],
)
def test_then_may_be_another_time(text: str) -> None:
    """A yes with "then" behind it may be meant for later, so it is asked back."""
    assert not isinstance(read_reply(text), Approve)
    assert isinstance(read_reply("ok, go ahead then"), Approve)


@pytest.mark.parametrize(
    "text",
    [
        *("approve\nnote: please make it 300", "approve\nnote: change the recipient to ACME"),
        *(
            "approve\nnote: should be 300",
            "approve\nnote: rather 300",
            "genehmigt\nAnmerkung: Empfänger bitte korrigieren",
        ),
        *("approuvé\nremarque: mettre 300", "aprobado\nnota: por favor cambia el importe a 300"),
        *("approvato\nnota: meglio 300", "aprovado\nnota: altere o valor para 300"),
        *("akkoord\nopmerking: graag het bedrag aanpassen", "承認\n備考: 金額を300にしてください"),
        *("승인\n메모: 금액을 300으로 변경해 주세요", "批准\n备注：请把金额改成300"),
        "genehmigt\nnote: please change it to 300",
    ],
)
def test_a_remark_that_asks_for_a_change_is_asked_back(text: str) -> None:
    """A remark changes nothing, so a person who asks for a change in it has not approved."""
    assert not isinstance(read_reply(text), Approve)


@pytest.mark.parametrize(
    "text",
    [
        *("approve\nnote: matches the offer of 12 May", "approve\nnote: the amount is correct"),
        *("genehmigt\nAnmerkung: passt zum Angebot", "aprobado\nnota: coincide con la factura"),
        *(
            "承認\n備考: 見積書と一致しています",
            "승인\n메모: 견적서와 일치합니다",
            "批准\n备注：已核对发票",
        ),
    ],
)
def test_a_plain_remark_approves(text: str) -> None:
    """A remark that asks for nothing leaves the yes as it is."""
    assert isinstance(read_reply(text), Approve)


def test_so_so_is_no_yes() -> None:
    """The words "va bene così" approve, and "così così" is half a praise."""
    assert isinstance(read_reply("va bene così"), Approve)
    assert not isinstance(read_reply("va bene così così"), Approve)


@pytest.mark.parametrize("text", ["!approved", "!yes", "ok !yes", "OK\n!ok"])
def test_a_not_of_program_code_is_no_yes(text: str) -> None:
    """A mark before a word is "not" in many languages of programs."""
    assert isinstance(read_reply(text), Unclear)


@pytest.mark.parametrize(
    "text", ["¡Aprobado!", "¡ aprobado !", "Oui !", "ok! yes!", "! yes", "ok!yes"]
)
def test_other_exclamation_marks_are_harmless(text: str) -> None:
    """Exclamation marks after words, apart from words and as in Spanish mean nothing."""
    assert isinstance(read_reply(text), Approve)


@pytest.mark.parametrize("text", ["Ei\nok", "Ei, ok", "ei\nyes"])
def test_a_no_of_finnish_is_no_greeting(text: str) -> None:
    """The Finnish no is a greeting in Portuguese, so it is none here."""
    assert isinstance(read_reply(text), Unclear)


@pytest.mark.parametrize(
    "text",
    ["approve payment 4711", "approve request 3", "approve all 3", "approve this 3"],
)
def test_a_number_behind_a_noun_is_no_value(text: str) -> None:
    """It may be the number of a request, or how many there are."""
    assert isinstance(read_reply(text, PAYMENT), Unclear)
    plain = text.rstrip("0123456789 ")
    assert isinstance(read_reply(plain, PAYMENT), Approve)
    named = read_reply(f"{plain}: 500", PAYMENT)
    assert isinstance(named, Approve)
    assert named.values == {"amount": 500.0}
