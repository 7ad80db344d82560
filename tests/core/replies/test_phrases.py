"""Real replies in every language are read as a careful colleague would read them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from signoff.core.lexicon.languages import CODES
from signoff.core.replies.reading import read_reply
from signoff.core.replies.reply import Approve, Reject
from signoff.core.replies.text import Names, ReplyContext

TABLES = Path(__file__).parent / "phrases"
CONTEXT = ReplyContext(
    people=(Names(("Tom Weber", "Anna Berg", "Nora Okafor")),), author=Names(("Mara Lind",))
)


def kind_of(text: str, context: ReplyContext = CONTEXT) -> str:
    """Return how a text is read: as a yes, a no or neither."""
    match read_reply(text, context):
        case Approve():
            return "yes"
        case Reject():
            return "no"
    return "neither"


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", ["yes", "no", "neither"])
@pytest.mark.parametrize("code", CODES)
def test_each_phrase_gets_its_expected_reading(code: str, kind: str, every: int) -> None:
    """Every phrase of a language's table is read as a careful colleague would read it."""
    phrases = tomllib.loads((TABLES / f"{code}.toml").read_text("utf-8"))[kind]
    assert len(phrases) >= 60
    wrong = {text: found for text in phrases[::every] if (found := kind_of(text)) != kind}
    assert wrong == {}


@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("code", CODES)
def test_greeting_and_closing_never_make_an_unclear_answer_a_yes(code: str, every: int) -> None:
    """A greeting above and a closing below never turn an unclear answer into a yes."""
    phrases = tomllib.loads((TABLES / f"{code}.toml").read_text("utf-8"))["neither"][::every]
    framed = (f"Hi Anna,\n\n{text}\n\nBest regards\nMara Lind" for text in phrases)
    assert [text for text in framed if kind_of(text) == "yes"] == []


def heldout(code: str, kind: str) -> tuple[list[str], ReplyContext]:
    """Return the phrases of a table of mails, and the context in which people wrote them."""
    table = tomllib.loads((TABLES / "heldout" / f"{code}.toml").read_text("utf-8"))
    context = ReplyContext(
        called=("make_payment", "finance agent"),
        people=(Names([*table["people"], table["author"]]), Names(("finance agent",))),
        author=Names((table["author"],)),
    )
    return table[kind], context


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", ["yes", "no", "neither"])
@pytest.mark.parametrize("code", CODES)
def test_mails_about_a_payment_are_understood(code: str, kind: str, every: int) -> None:
    """Mails and phrases that were written without the lexicon are read as meant."""
    phrases, context = heldout(code, kind)
    assert len(phrases) >= 100
    wrong = {text: found for text in phrases[::every] if (found := kind_of(text, context)) != kind}
    assert wrong == {}


@pytest.mark.parametrize("code", CODES)
def test_short_answers_are_understood(code: str) -> None:
    """Continuations, slips, partial and clear answers that were written without the lexicon."""
    table = tomllib.loads((TABLES / "third.toml").read_text("utf-8"))[code]
    context = ReplyContext(
        author=Names(("Anna Berg",)), people=(Names(("Tom Weber", "Anna Berg")),)
    )
    read = {kind: {text: kind_of(text, context) for text in table[kind]} for kind in table}
    assert sum(map(len, read.values())) >= 60
    assert [
        (text, found) for kind, of in read.items() for text, found in of.items() if found != kind
    ] == []


TOOLS = tomllib.loads((TABLES / "tools.toml").read_text("utf-8"))


@pytest.mark.parametrize("tool", [one for one in TOOLS if one != "author"])
def test_answers_about_each_kind_of_tool_are_read_as_meant(tool: str) -> None:
    """Replies that were written without the lexicon: no wrong yes, and plain answers decide."""
    author = Names(TOOLS["author"])
    context = ReplyContext(
        called=(tool, "agent"), author=author, people=(Names(("Tom Weber", "Anna Berg")), author)
    )
    read = {
        kind: {text: kind_of(text, context) for text in texts}
        for kind, texts in TOOLS[tool].items()
    }
    assert [text for text, found in read.pop("not_yes").items() if found == "yes"] == []
    assert [
        (text, found) for kind, of in read.items() for text, found in of.items() if found != kind
    ] == []


SIGNED_BY_ANOTHER = [
    "Tom: approved",
    "Approved.\n\nBest regards,\nTom Weber",
    "Approved\nTom",
    "ok\n\nThanks\nTom",
    "APPROVED\nTHANKS\nMARA\n\nBUT ONLY HALF",
    "Genehmigt\n\nGruß\nMara\nOhne Hotel",
    "accept my apologies",
    "send it to me",
    "yes, both",
    "Sie genehmigen das",
    "ja ja",
    "ja ja klar",
    "yeah yeah sure",
    "Ouais ouais",
    "ja, schon",
    "ja ja, schon klar",
    "das wäre ok",
    "yes, too good",
    "sounds good, too good",
]


@pytest.mark.parametrize("text", SIGNED_BY_ANOTHER)
def test_deceptive_yes_phrases_stay_unclear(text: str) -> None:
    """Quoted words, a condition in the form of a name, and a brush-off approve nothing."""
    assert kind_of(text) == "neither"


TAKEN_BACK = [
    "No, approve it",
    "nein, warte, genehmigt",
    "non, approuvez",
    "no, apruébalo",
    "no, approva",
    "não, aprova",
    "nee, keur maar goed",
    "いいえ、というか承認",
    "아니요. 사실 승인합니다",
    "不，或者同意",
]


@pytest.mark.parametrize("text", TAKEN_BACK)
def test_no_followed_by_a_yes_is_unclear(text: str) -> None:
    """A no that is followed by a yes decides nothing, in every language."""
    assert kind_of(text) == "neither"


DENIALS_IN_A_TOOLS_NAME = [
    ("do_not_disturb", "Do not approve"),
    ("do_not_disturb", "Not approved"),
    ("do_not_disturb", "approve not"),
    ("charge_no_show_fee", "No go"),
    ("charge_no_show_fee", "ok, no"),
    ("charge_no_show_fee", "No, approved"),
    ("reject_candidate", "Reject. Fine."),
    ("deny_access", "ok deny"),
    ("send_later", "approve later"),
    ("send_if_needed", "approve if needed"),
    ("nicht_stoeren", "nicht genehmigt"),
    ("nicht_stoeren", "genehmige nicht"),
    ("ne_pas_deranger", "pas d'accord"),
    ("no_molestar", "no aprobado"),
    ("non_disturbare", "non approvo"),
    ("nao_perturbe", "não aprovo"),
    ("niet_storen", "akkoord niet"),
]


@pytest.mark.parametrize(("tool", "text"), DENIALS_IN_A_TOOLS_NAME)
def test_a_denial_in_a_tools_name_still_denies(tool: str, text: str) -> None:
    """A word such as "not" keeps its meaning, also if the tool's name contains it."""
    assert kind_of(text, ReplyContext(called=(tool, "agent"))) != "yes"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(
            ("cancel_order", "ok, cancel"),
            ("cancel_order", "yes, cancel it"),
            ("cancel", "ok cancel"),
        ),
        *(
            ("hold_payment", "ok, hold"),
            ("hold_payment", "ok. hold!"),
            ("skip_check", "fine, skip"),
        ),
        *(("storno_rechnung", "ja, storno"), ("annuler_commande", "ok, annuler")),
        *(("cancelar_pedido", "sí, cancelar"), ("bloccare_carta", "ok, blocca la bloccare")),
        *(
            ("annuleer_order", "ok, annuleer"),
            ("abort_job", "好的，abort"),
            ("취소_주문", "네, 취소"),
        ),
    ],
)
def test_a_stop_word_in_a_tools_name_is_asked_back(tool: str, text: str) -> None:
    """A word such as "cancel" may name the tool, and may take the yes back."""
    assert kind_of(text, ReplyContext(called=(tool, "agent"))) == "neither"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("cancel_order", "ok, cancel order"), ("cancel_order", "yes, cancel the order")),
        *(("cancel_order", "approve cancel_order"), ("hold_payment", "ok, hold payment")),
        ("reimburse", "ok, reimburse"),
    ],
)
def test_a_stop_word_with_more_of_the_tools_name_names_the_tool(tool: str, text: str) -> None:
    """Two words of the name say which tool is meant."""
    assert kind_of(text, ReplyContext(called=(tool, "agent"))) == "yes"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("cancel_order", "ok - cancel"), ("cancel_order", "ok, cancel cancel")),
        ("stop_server", "ok - stop"),
    ],
)
def test_a_stop_word_after_a_dash_is_asked_back(tool: str, text: str) -> None:
    """A dash or a repetition does not turn a stop word into the tool's name."""
    assert kind_of(text, ReplyContext(called=(tool, "agent"))) == "neither"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        *(("stop_server", "Approved, stop the server"), ("stop_server", "yes stop the server")),
        ("cancel_order", "Approved, please cancel the order"),
        ("cancel_order", "Please go ahead and cancel the order, thanks"),
    ],
)
def test_a_yes_may_say_what_the_tool_does(tool: str, text: str) -> None:
    """An answer may repeat the action in words, though the action is to stop something."""
    assert kind_of(text, ReplyContext(called=(tool, "agent"))) == "yes"


@pytest.mark.parametrize(
    "text",
    [
        *("( ) {}", "( ){}", "(   ) {}", "(_) {}", "(-) {}", "_ {}", "__ {}", "_{}", "|_| {}"),
        *("| | {}", "（　）{}", "＿ {}", "{} ( )", "{}: ____", "{}_", "{}()"),
        *("[ ] {}", "☐ {}", "( ) {}\n( ) reject"),
    ],
)
@pytest.mark.parametrize("word", ["approve", "ok", "genehmigt", "承認", "승인"])
def test_an_empty_box_beside_a_yes_is_asked_back(text: str, word: str) -> None:
    """A box or a line that nobody filled in is a form that was sent back, not an answer."""
    assert kind_of(text.format(word)) == "neither"


@pytest.mark.parametrize(
    "text",
    [
        *("_approve_", "__approve__", "*approve*", "(approve)", "approve :-)", "- approve"),
        *("approve\n____", "approve make_payment()", "_Approved, thanks._", "approve make_payment"),
    ],
)
def test_marks_around_a_yes_are_not_boxes(text: str) -> None:
    """Emphasis, smileys, rules and calls as in code change nothing."""
    assert kind_of(text, ReplyContext(called=("make_payment", "agent"))) == "yes"


@pytest.mark.parametrize(
    "text",
    [
        *("Weiter so", "Weiter so!", "bitte weiter so", "Mach weiter so", "Super, weiter so!"),
        *("continua così", "Continue assim!", "Siga así"),
    ],
)
def test_praise_alone_is_asked_back(text: str) -> None:
    """Praise such as "weiter so" means "keep it up", which is not a yes."""
    assert kind_of(text) == "neither"
    assert kind_of(f"ok, {text}") != "no"
    assert kind_of("Genehmigt, weiter so!") == "yes"


@pytest.mark.parametrize(
    "text",
    [
        *("Approved. Tom", "Hi Mara, approved. Tom", "Approved - Tom", "Approved, Tom Weber"),
        "Genehmigt, Anna Berg",
    ],
)
def test_another_persons_name_after_a_sentence_is_a_signature(text: str) -> None:
    """A yes that another person may have signed is asked back; an addressed person is not."""
    assert kind_of(text) == "neither"
    assert kind_of("Approved, Tom") == kind_of("Approved. Tom, please proceed") == "yes"


@pytest.mark.parametrize("text", ["approve do_not_disturb", "do_not_disturb approved"])
def test_a_tools_name_as_in_code_never_denies(text: str) -> None:
    """An answer may name a tool whose name contains a word such as "not"."""
    assert kind_of(text, ReplyContext(called=("do_not_disturb", "agent"))) == "yes"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("Minho No", "ok, no"), ("Minho No", "No: ok"), ("Minho No", "thanks no, approved")),
        *(("An Nee", "nee, akkoord"), ("An Nee", "akkoord, nee"), ("An Nee", "ok. Nee!")),
        *(("Tom Wait", "Wait! Approved"), ("Max Maybe", "approved, maybe")),
        *(("Ann Never", "never, ok"), ("Ines Nicht", "ok, nicht"), ("Jo Später", "später, ok")),
    ],
)
def test_a_name_that_is_a_no_is_not_an_address(name: str, text: str) -> None:
    """A no or a doubt keeps its meaning, also if a person of the directory has this name."""
    context = ReplyContext(people=(Names((name,)),), author=Names(("Mara Lind",)))
    assert kind_of(text, context) != "yes"


@pytest.mark.parametrize("text", ["ok, no", "approved. No!", "ok\n\nThanks,\nNo"])
def test_an_own_name_that_is_a_no_is_not_a_signature(text: str) -> None:
    """A no stays a no for a person who has this name."""
    context = ReplyContext(people=(Names(("Minho No",)),), author=Names(("Minho No",)))
    assert kind_of(text, context) != "yes"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("Minho No", "Approved\n\nBest\nMinho No"), ("Minho No", "Approved. Minho")),
        *(("Mai Linh", "Approved\n\nMai"), ("Wei Ng", "Approved.\n\nThanks,\nWei Ng")),
    ],
)
def test_a_name_that_is_a_no_elsewhere_signs(name: str, text: str) -> None:
    """A whole name signs, and so does a name that is a no in a language of no other word."""
    assert kind_of(text, ReplyContext(people=(Names((name,)),), author=Names((name,)))) == "yes"


@pytest.mark.parametrize(
    "text", ["Hello Wait! ok", "Hey Stop, approved", "Hola No, ok", "Hi No\nok"]
)
def test_a_no_after_a_greeting_is_not_a_name(text: str) -> None:
    """A capitalised no after a greeting is a no, if nobody in the directory has this name."""
    assert kind_of(text) != "yes"


@pytest.mark.parametrize("text", ["approve 100k", "ok 5K", "approve 100kk"])
def test_a_unit_behind_a_number_is_not_a_yes(text: str) -> None:
    """The "k" of "100k" means thousands: it does not approve 100."""
    assert kind_of(text, ReplyContext(fields={"amount": 900})) == "neither"


@pytest.mark.parametrize(
    ("field", "text"),
    [
        *(("no_of_days", "approve 3 no"), ("days_if_approved", "approve 3 if approved")),
        *(("not_more_than", "ok 3 not"), ("days_until_expiry", "approve 3 until")),
    ],
)
def test_a_denial_in_the_name_of_a_field_still_denies(field: str, text: str) -> None:
    """A word such as "no" after a value keeps its meaning, also if the field's name contains it."""
    assert kind_of(text, ReplyContext(fields={field: 0})) == "neither"
