"""A yes decides only if everything in the text is known to be harmless."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import JsonValue

from answered import Verdict, verdict_of
from signoff.core.base.text import LONGEST_REASON
from signoff.core.lexicon.languages import CODES, language
from signoff.core.lexicon.tokens import MARKS, phrase_tokens
from signoff.core.payloads.payload import missing_fields
from signoff.core.replies.examples import example_of_approval
from signoff.core.replies.reading import is_reply, read_reply
from signoff.core.replies.reply import Approve, Reject, Unclear
from signoff.core.replies.text import Names, ReplyContext

EXPENSE: JsonValue = {"amount": 0, "note": "", "urgent": False}
PEOPLE = ReplyContext(people=(Names(("Tom Weber", "Anna Berg")),), author=Names(("Mara Lind",)))
VOCABULARY = frozenset(
    word
    for code in CODES
    for kind in ("phrases", "nouns")
    for word in getattr(language(code), kind).words()
)

YES = st.sampled_from(["approve", "Approved", "yes", "OK", "genehmigt", "oui", "sí", "👍", "+1"])
SEPARATORS = st.sampled_from([" ", ", ", ". ", ": ", " - ", "\n", "\n\n", "; ", "! ", " (", "… "])
FOREIGN = st.text(
    st.characters(categories=("L", "N", "S", "P", "M")), min_size=1, max_size=40
).filter(lambda text: set(phrase_tokens(text)) - VOCABULARY - MARKS)
HARMLESS = st.sampled_from(
    ["approve", "thanks", "please", "it", "this request", "from my side", "great", "no objections"]
)
WORDS = st.sampled_from(
    [
        *("approve", "yes", "ok", "👍", "reject", "no", "don't", "not", "if", "only if", "thanks"),
        *(
            " ",
            " ",
            "\n",
            "\n",
            ":",
            " - ",
            ", ",
            ".",
            "?",
            "!",
            "=",
            '"',
            "*",
            ">",
            "-- ",
            "note:",
        ),
        *("amount", "note", "3", "900", "1,000", "承認", "しない", "ja", "unless", "Mara", "Best"),
    ]
)
TEXTS = st.lists(WORDS, max_size=12).map("".join) | st.text(max_size=200)


@given(YES, SEPARATORS, FOREIGN)
@example("OK", ", ", "Tom decides")
@example("approve", "\n", "(for 100 EUR only)")
def test_yes_beside_unknown_text_decides_nothing(yes: str, between: str, text: str) -> None:
    """Text beside a yes that is in no lexicon makes the answer unclear."""
    assert verdict_of(f"{yes}{between}{text}") is not Verdict.APPROVE
    assert verdict_of(f"{text}{between}{yes}") is not Verdict.APPROVE


@given(st.lists(HARMLESS, min_size=1, max_size=8), st.data())
def test_one_unknown_word_makes_a_yes_unclear(pieces: list[str], data: st.DataObject) -> None:
    """One unknown word among any number of harmless words makes a yes unclear."""
    at = data.draw(st.integers(0, len(pieces)))
    text = " ".join([*pieces[:at], "purple", *pieces[at:]])
    assert verdict_of(text) is not Verdict.APPROVE


def test_unclear_answer_quotes_the_extra_words_and_explains_how_to_approve() -> None:
    """The answer quotes the exact words, and explains how to approve and how to add a remark."""
    reply = read_reply("approve: Tom must sign too", PEOPLE)
    assert isinstance(reply, Unclear)
    assert (reply.seems, reply.left_over) == ("approve", ("Tom must sign too",))
    assert "“Tom must sign too”" in reply.problem
    assert "`approve` alone" in reply.problem
    assert "`note:`" in reply.problem


@pytest.mark.parametrize(
    "text",
    [
        *("approve, Tom must sign", "ja, aber morgen", "好的，等等", "approve\nnote: only half"),
        *("oui si Paul est d'accord", "vale, la mitad", "ok domani", "sim, amanhã", "ja, morgen"),
        *("承認します。明日", "승인합니다 내일", "approve?"),
    ],
)
@pytest.mark.parametrize("fields", [None, {"approved_days": 0}, {"name": "", "amount": 0}])
def test_following_the_question_back_exactly_approves(
    text: str, fields: dict[str, JsonValue] | None
) -> None:
    """The words that the question offers approve, also if the request has fields to fill in."""
    context = ReplyContext(fields=fields)
    reply = read_reply(text, context)
    assert isinstance(reply, Unclear)
    offered = [one for one in reply.problem.split("`")[1::2] if one not in ("note:", "reject")]
    followed = read_reply("\n".join(offered), context)
    assert isinstance(followed, Approve)
    assert set(followed.values or ()) == set(fields or ())


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("approve\nnote: booked under travel", "booked under travel"),
        (
            "Approved.\n\nComment: as discussed\nReason: budget is there",
            "as discussed\nbudget is there",
        ),
        ("note: tell Tom if it was paid\napprove", "tell Tom if it was paid"),
        ("genehmigt\nAnmerkung: Kostenstelle <4711>", "Kostenstelle <4711>"),
        ("approve\nRemark:\nThanks", ""),
    ],
)
def test_declared_note_is_kept_and_decides_nothing(text: str, note: str) -> None:
    """A line that begins with note:, comment:, reason: or remark: may contain any text."""
    reply = read_reply(text)
    assert isinstance(reply, Approve)
    assert reply.note == note


@pytest.mark.parametrize(
    "text",
    [
        "approve, note: fine",
        "approve\nnote: fine\nbut only half",
        "approve\nnote fine",
        "approve: note: fine by me, thanks",
    ],
)
def test_only_a_whole_line_is_a_note(text: str) -> None:
    """On the line of the verdict, or without its colon, the word does not declare a note."""
    assert verdict_of(text) is Verdict.UNCLEAR


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("reject over budget", "over budget"),
        ("Reject: not in the budget", "not in the budget"),
        ("no, over budget", "over budget"),
        ("No. Over budget", "Over budget"),
        ("abgelehnt wegen Budget", "wegen Budget"),
        ("reject\nover budget\n\nBest regards\nAda", "over budget"),
        ("reject\nover budget\nSent from my iPhone", "over budget"),
        ("reject\nzu teuer\nMit freundlichen Grüßen,\nAda", "zu teuer"),
        ("reject\namount: 3", "amount: 3"),
        ("reject\nreason: over budget", "over budget"),
        (
            "Hi Anna,\n\nsorry, I can't approve this, it is over budget.\n\nMara",
            "it is over budget.",
        ),
        ("no, use <amount=900> instead", "use <amount=900> instead"),
        ("no thanks", ""),
        ("No.", ""),
    ],
)
def test_text_after_a_no_is_its_reason(text: str, reason: str) -> None:
    """The reason is the text after a no, up to the signature, exactly as typed."""
    reply = read_reply(text, PEOPLE)
    assert isinstance(reply, Reject)
    assert reply.reason == reason


@pytest.mark.parametrize(
    "text",
    [
        *("no, wait, approve", "reject... actually approve", "no, go ahead", "No. OK if cheaper."),
        *(
            "reject?",
            "no, why is it so expensive?",
            "reject only if he objects",
            "reject\n\napprove",
        ),
        *("no, forget it", "rejected. I was joking", "approve or reject", "reject or approve"),
        *("not approved yet", "I can't approve this until Tom confirms", "no problemo but wait"),
    ],
)
def test_no_that_is_taken_back_is_unclear(text: str) -> None:
    """A yes, a question, a take-back or a condition after a no makes the answer unclear."""
    reply = read_reply(text)
    assert isinstance(reply, Unclear)
    assert reply.problem


@pytest.mark.parametrize(
    "text",
    [
        *("No objections", "no problem, approve", "keine Einwände", "No concerns from my side."),
        *("not a problem", "Kein Problem, genehmigt"),
    ],
)
def test_phrases_that_begin_like_a_no_may_be_a_yes(text: str) -> None:
    """The longest matching phrase of the lexicon counts, not its first word."""
    assert verdict_of(text) is Verdict.APPROVE


@pytest.mark.parametrize(
    "text",
    [
        *("", "  \n\t\n", "…", "-- ", "***", "Sent from my iPhone", "Hi Anna,", "Thanks,\nMara"),
        *("perhaps", "Tom said yes, I think", "approve" * 600, "approve " + "x" * 5_000),
        *("\n" * 250 + "approve\n" * 300, "approve" + "\n." * 300),
    ],
)
def test_undecided_text_gets_an_explanation(text: str) -> None:
    """Empty, unknown or contradictory text decides nothing; the answer says how to decide."""
    reply = read_reply(text, PEOPLE)
    assert isinstance(reply, Unclear)
    assert "approve" in reply.problem


# -- names, greetings, signatures -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Anna,\n\napproved", Verdict.APPROVE),
        ("All,\napproved", Verdict.APPROVE),
        ("Thanks Anna, approved", Verdict.APPROVE),
        ("OK, Tom", Verdict.APPROVE),
        ("Hi Petra,\napproved", Verdict.APPROVE),
        ("Dear Dr. Smith,\n\nApproved.", Verdict.APPROVE),
        ("Petra,\n\napproved", Verdict.UNCLEAR),
        ("OK, Petra", Verdict.UNCLEAR),
        ("ok Tom", Verdict.UNCLEAR),
        ("OK, Tom decides", Verdict.UNCLEAR),
        ("approved by Tom", Verdict.UNCLEAR),
        ("approved by Mara", Verdict.APPROVE),
        ("Tom approved", Verdict.UNCLEAR),
        ("Hi Anna I will never\napprove", Verdict.UNCLEAR),
        ("hi dont\napprove", Verdict.UNCLEAR),
        ("Hi no\napprove", Verdict.UNCLEAR),
        ("Hello if it is cheap,\napprove", Verdict.UNCLEAR),
        ("highly,\napprove", Verdict.UNCLEAR),
    ],
)
def test_unknown_name_is_accepted_only_after_a_greeting(text: str, verdict: Verdict) -> None:
    """After a greeting any name may follow; elsewhere the name has to be known."""
    reply = read_reply(text, PEOPLE)
    assert isinstance(reply, Approve) is (verdict is Verdict.APPROVE), reply


SIGNATURES = [
    "Best regards\nMara Lind",
    "Kind regards,\nMara\n\nMara Lind | Head of Finance\nACME GmbH\nTel. +49 30 1234567",
    "Mara Lind\nCFO\nmara.lind@example.com\nwww.example.com",
    "Thanks,\nMara",
    "Mara",
    "- Mara",
    "Sent from my iPhone",
    "Mara\nSent from my iPhone",
    "Get Outlook for iOS",
    "Cheers\nM. Lind\nHauptstraße 5, 10115 Berlin",
    "This e-mail is confidential and intended for the addressee.\nReceived in error? Delete it.",
]


@pytest.mark.parametrize("signature", SIGNATURES)
def test_signature_does_not_change_the_reading(signature: str) -> None:
    """Names, titles, numbers and small print may follow a closing or the author's own name."""
    assert isinstance(read_reply(f"Approved.\n\n{signature}", PEOPLE), Approve)
    reply = read_reply(f"no, too expensive\n\n{signature}", PEOPLE)
    assert isinstance(reply, Reject)


@pytest.mark.parametrize("signature", SIGNATURES[:9])
@pytest.mark.parametrize(
    "below",
    [
        *("PS: only if Tom agrees", "P.S. Wait for Tom.", "Tom must sign too", "only half please"),
        *("Wait", "Not before Monday!", "but please check the hotel first", "900 EUR max"),
        *("What is it for?", "no", "Edit: on hold"),
    ],
)
def test_sentence_below_a_closing_is_part_of_the_answer(signature: str, below: str) -> None:
    """A sentence at the end of a mail counts as part of the answer."""
    reply = read_reply(f"Approved.\n\n{signature}\n{below}", PEOPLE)
    assert not isinstance(reply, Approve)


# -- what the card calls it -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "called", "verdict"),
    [
        ("approve the payment", ("reimburse",), Verdict.APPROVE),
        ("approve the payment", ("delete_account",), Verdict.UNCLEAR),
        ("approve the deletion", ("delete_account",), Verdict.APPROVE),
        ("approve the payment", (), Verdict.APPROVE),
        ("approve reimburse", ("reimburse", "finance"), Verdict.APPROVE),
        ("approve update_record", ("update_record",), Verdict.APPROVE),
        ("approve the Paris offsite", ("reimburse",), Verdict.UNCLEAR),
        ("approve the Paris offsite", ("reimburse", "Paris offsite"), Verdict.APPROVE),
    ],
)
def test_a_noun_means_the_request_that_was_shown(
    text: str, called: tuple[str, ...], verdict: Verdict
) -> None:
    """A yes to "the deletion" does not approve a payment."""
    reply = read_reply(text, ReplyContext(called=called))
    assert isinstance(reply, Approve) is (verdict is Verdict.APPROVE), reply


# -- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "template", "values"),
    [
        ("approve 3", {"days": 0}, {"days": 3}),
        ("approve -3", {"days": 0}, {"days": -3}),
        ("approve: 3", {"days": 0}, {"days": 3}),
        ("approve: -3", {"days": 0}, {"days": -3}),
        ("approve with 3", {"days": 0}, {"days": 3}),
        ("approve 3 days", {"approved_days": 0}, {"approved_days": 3}),
        ("approve 3, thanks", {"days": 0}, {"days": 3}),
        ("Hi Anna,\n\nyes, 3 days please.\n\nMara", {"days": 0}, {"days": 3}),
        ("approve 1 234", {"days": 0}, {"days": 1234}),
        ("approve 1.234,56", {"sum": 0.0}, {"sum": 1234.56}),
        ("approve 21.11.2026", {"day": "2026-01-01"}, {"day": "2026-11-21"}),
        ("genehmigt: 21. November 2026", {"day": "2026-01-01"}, {"day": "2026-11-21"}),
        ("approve Nov 21, 2026", {"day": "2026-01-01"}, {"day": "2026-11-21"}),
        ("ok\nDay: 21 nov. 2026", {"day": "2026-01-01"}, {"day": "2026-11-21"}),
        ("approve 3", 0, {"value": 3}),
        ('approve "blue"', {"colour": ""}, {"colour": "blue"}),
        ('approve: "blue"', {"colour": ""}, {"colour": "blue"}),
        ("approve with amount=900", EXPENSE, {"amount": 900}),
        ("approve amount=900, note=a, b", EXPENSE, {"amount": 900, "note": "a, b"}),
        ("ok, amount: 900", EXPENSE, {"amount": 900}),
        ("Genehmigt mit amount=900, urgent=ja", EXPENSE, {"amount": 900, "urgent": True}),
        ("approve\namount: 900\nNote = fine", EXPENSE, {"amount": 900, "note": "fine"}),
        (
            "approve\n\n- amount: 900\n\nnote: x\n\nBest\nMara",
            EXPENSE,
            {"amount": 900, "note": "x"},
        ),
        ("approve note=x\namount: 900", EXPENSE, {"amount": 900, "note": "x"}),
        ("approve\nthanks\namount：９００", EXPENSE, {"amount": 900}),
        ("approve", EXPENSE, None),
    ],
)
def test_values(text: str, template: JsonValue, values: dict[str, JsonValue] | None) -> None:
    """Values may be on the line of the yes or on lines of their own."""
    reply = read_reply(
        text,
        ReplyContext(fields=template, people=PEOPLE.people, author=PEOPLE.author),
    )
    assert isinstance(reply, Approve), reply
    assert reply.values == values


@pytest.mark.parametrize(
    ("text", "template"),
    [
        ("approve 3.5", {"days": 0}),
        ("approve 03/04/2026", {"day": "2026-01-01"}),
        ("approve Nov 21", {"day": "2026-01-01"}),
        ("approve\nday: Nov 21", {"day": "2026-01-01"}),
        ("approve 1,000", {"days": 0}),
        ("approve 3 weeks", {"days": 0}),
        ("approve 3 days only", {"days": 0}),
        ("approve 3 or 4", {"days": 0}),
        ("approve three", {"days": 0}),
        ("approve 3", EXPENSE),
        ("approve 3", None),
        ("approve nothing", {"note": ""}),
        ("approve later", {"note": ""}),
        ("approve amount=nine", EXPENSE),
        ("approve sum=3", EXPENSE),
        ("approve amount=3, sum=4", EXPENSE),
        ("approve amount=3, amount=4", EXPENSE),
        ("approve amount=3\namount: 4", EXPENSE),
        ("approve note=x amount=3", {"amount": 5, "note": ""}),
        ("approve\namuont: 3", {"amount": 5}),
        ("approve\namount: 3\nhello there\namount: 0", EXPENSE),
        ("approve\namount: 3", None),
        ("approve\nno: 3\nno", {"no": 0}),
    ],
)
def test_values_that_do_not_fit_make_the_answer_unclear(text: str, template: JsonValue) -> None:
    """A wrong, misnamed, repeated or unexpected value makes a yes unclear."""
    reply = read_reply(text, ReplyContext(fields=template))
    assert isinstance(reply, Unclear)
    assert reply.problem


@pytest.mark.parametrize(
    ("text", "template", "words"),
    [
        ("approve 3.5", {"approved_days": 0}, ('"approved_days"', '"3.5"', "approved_days: 3")),
        ("approve\namuont: 3", {"amount": 5}, ("amuont", 'did you mean "amount"')),
    ],
)
def test_value_error_suggests_a_valid_answer(
    text: str, template: JsonValue, words: tuple[str, ...]
) -> None:
    """The message is written for the person who answered."""
    reply = read_reply(text, ReplyContext(fields=template))
    assert isinstance(reply, Unclear)
    assert all(word in reply.problem for word in words), reply.problem


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z_]{1,10}", fullmatch=True),
        st.booleans() | st.integers(-1000, 1000) | st.just(0.0) | st.none() | st.just(""),
        max_size=5,
    ).filter(lambda template: len({key.replace("_", "") for key in template}) == len(template))
)
def test_example_answer_approves_and_fills_required_fields(template: dict[str, Any]) -> None:
    """The answer that we tell people to write approves, and fills every required field."""
    reply = read_reply(example_of_approval(template), ReplyContext(fields=template))
    assert isinstance(reply, Approve)
    assert missing_fields(template, reply.values) == []


# -- any text -------------------------------------------------------------------------------------


@given(TEXTS, st.sampled_from([None, {}, EXPENSE, {"days": 0}, 0, "", [1], {"x": {"y": 1}}]))
@example("approve\nvalue: [", [1])
def test_any_text_is_read(text: str, template: JsonValue) -> None:
    """No text raises an error, and every unclear reply has a reason."""
    reply = read_reply(text, ReplyContext(fields=template))
    assert not isinstance(reply, Unclear) or reply.problem
    is_reply(text)


@given(st.sampled_from(["?", "？", " ?", "!?", "¿", " eh?"]), YES)
def test_question_decides_nothing(mark: str, word: str) -> None:
    """A question mark is never harmless."""
    assert verdict_of(word + mark) is Verdict.UNCLEAR


@given(
    st.sampled_from(
        ["genehmigt", "approuvé", "sí", "D’accord", "für mich ok", "ＯＫ", "Abgelehnt", "não"]
    )
)
def test_spelling_variants_do_not_change_the_reading(word: str) -> None:
    """Missing accents, capitals, full-width and decomposed letters do not change the meaning."""
    plain = "".join(
        mark for mark in unicodedata.normalize("NFD", word) if not "\u0300" <= mark <= "\u036f"
    )
    wide = "".join(chr(ord(mark) + 0xFEE0) if "!" <= mark <= "~" else mark for mark in word)
    expected = verdict_of(word)
    assert expected is not Verdict.UNCLEAR
    for said in (unicodedata.normalize("NFC", plain), word.upper(), word.title(), wide):
        assert verdict_of(said) is expected, said
    assert verdict_of(unicodedata.normalize("NFD", word)) is expected


def test_a_reason_is_short() -> None:
    """A reason keeps at most 2,000 characters."""
    reply = read_reply("reject: " + "y" * 4_000)
    assert isinstance(reply, Reject)
    assert len(reply.reason) == LONGEST_REASON


@pytest.mark.parametrize(
    "text",
    [
        "On " + "a " * 100_000,
        "\n" * 200_000,
        "-" * 100_000,
        "approve\n" + "<" * 100_000,
        "approve: " + "<a" * 30_000,
        "approve\n" + "a=" * 50_000,
        "approve " + "amount=1," * 400,
        "\ufdfa" * 60_000,
        "approve\n" + "no, x\n" * 20_000,
        "ok " * 20_000,
        "it " * 20_000,
        "Best\n" * 200,
        "approve 1 1 1 1 1 1 1 1 1 1 " * 100,
        "forward to " + "tom " * 5_000,
        "note: " * 10_000,
    ],
)
def test_hostile_text_is_read_quickly(text: str) -> None:
    """Text that is made to slow down the scanner is still read within the time limit."""
    assert not isinstance(read_reply(text, ReplyContext(fields=EXPENSE)), Approve)
