"""What counts as a yes, what as a no, and above all what as neither."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from signoff.core.command import LONGEST_REASON, Verdict, example_for, read_command
from signoff.core.payload import missing_fields
from signoff.core.words import APPROVE, REJECT, REJECT_BRIEF

EXPENSE = {"amount": 0, "note": "", "urgent": False}

pieces = st.sampled_from(
    [
        *(
            "approve",
            "Approved",
            "yes",
            "ok",
            "👍",
            "reject",
            "no",
            "don't",
            "not",
            "if",
            "only if",
        ),
        *(" ", " ", "\n", "\n", ":", " - ", ", ", ".", "?", "!", "=", '"', "*", ">", "-- "),
        *("amount", "note", "3", "900", "1,000", "承認", "しない", "ja", "thanks", "unless"),
    ]
)
answers = st.lists(pieces, max_size=12).map("".join) | st.text(max_size=200)


def verdict_of(text, template=None):
    """Return the verdict alone."""
    return read_command(text, template).verdict


@pytest.mark.parametrize(
    "text",
    [
        *("approve", "Approve", "APPROVED.", "yes", "Yes!", "ok", "Okay", "LGTM", "go ahead"),
        *("I approve.", "👍", "👍🏽", "👍️", "👍👍", "**approve**", '"approve"', "“Approved”"),
        *(
            "  approve  ",
            "\n\n approve\n",
            "approve\r\n",
            "ｏｋ",
            "ok thanks",
            "Approved, thank you!",
        ),
        *("yes please", "ok, approved", "yes 👍", "approve -", "approve:", "Approved. Thanks!"),
        *(
            "genehmigt",
            "Freigegeben!",
            "ja",
            "In Ordnung",
            "Ja, bitte",
            "oui",
            "d'accord",
            "D’accord",
        ),
        *(
            "J'approuve",
            "aprobado",
            "Sí",
            "si",
            "de acuerdo",
            "sim",
            "aprovado",
            "approvato",
            "va bene",
        ),
        *("goedgekeurd", "akkoord", "承認", "承認します。", "はい", "승인", "승인합니다", "네"),
        *("批准", "同意", "好的", "可以。"),
    ],
)
def test_plain_approvals(text):
    """A yes in any of the languages, alone on the first line, approves."""
    answer = read_command(text)
    assert answer.verdict is Verdict.APPROVE
    assert answer.problem == ""
    assert answer.values is None


@pytest.mark.parametrize(
    "text",
    [
        *("reject", "Rejected.", "deny", "DENIED!", "decline", "no", "No.", "nope", "👎", "👎🏿"),
        *("abgelehnt", "Nein", "je refuse", "non", "rechazado", "recusado", "não", "rifiutato"),
        *("afgewezen", "nee", "却下", "いいえ", "거절", "아니요", "拒绝", "不同意", "不批准", "否"),
        *("不", "承認しません", "no thanks", "*reject*", "I do not approve", "not approved"),
        *("承認しない", "승인하지 않음"),
    ],
)
def test_plain_rejections(text):
    """A no in any of the languages, alone on the first line, rejects."""
    assert verdict_of(text) is Verdict.REJECT


@pytest.mark.parametrize(
    ("text", "verdict", "reason"),
    [
        ("approve: fine by me", Verdict.APPROVE, "fine by me"),
        ("approve - fine by me", Verdict.APPROVE, "fine by me"),
        ("Yes – fine by me", Verdict.APPROVE, "fine by me"),
        ("ok, fine by me", Verdict.APPROVE, "fine by me"),
        ("ok (fine by me)", Verdict.APPROVE, "fine by me"),
        ("Approved. Fine by me", Verdict.APPROVE, "Fine by me"),
        ("承認：問題ありません", Verdict.APPROVE, "問題ありません"),
        ("Approved, no objections.", Verdict.APPROVE, "no objections."),
        ("yes, no problem", Verdict.APPROVE, "no problem"),
        ("approve\nThe trip is\nplanned.", Verdict.APPROVE, "The trip is\nplanned."),
        ("reject over budget", Verdict.REJECT, "over budget"),
        ("reject: over budget", Verdict.REJECT, "over budget"),
        ("Reject: not in the budget", Verdict.REJECT, "not in the budget"),
        ("no, over budget", Verdict.REJECT, "over budget"),
        ("No. Over budget", Verdict.REJECT, "Over budget"),
        ("abgelehnt wegen Budget", Verdict.REJECT, "wegen Budget"),
        ("reject\nover budget\n\n-- \nAda", Verdict.REJECT, "over budget"),
        ("reject\nover budget\nSent from my iPhone", Verdict.REJECT, "over budget"),
        ("reject\nzu teuer\nMit freundlichen Grüßen,\nAda", Verdict.REJECT, "zu teuer"),
        ("reject\namount: 3", Verdict.REJECT, "amount: 3"),
    ],
)
def test_reasons(text, verdict, reason):
    """What follows a separator, or stands on the lines below, is the reason."""
    answer = read_command(text)
    assert (answer.verdict, answer.reason) == (verdict, reason)


@pytest.mark.parametrize(
    "text",
    [
        *("", "  \n\t\n", "approve? not sure", "approve?", "approve？", "¿aprobado", "approve not"),
        *(
            "approved by whom?",
            "ok but only if it is cheap",
            "no problem",
            "No objections",
            "no worries",
        ),
        *("no way around it", "yes but no", "approve the other one instead", "don't approve"),
        *(
            "disapprove",
            "unapproved",
            "please approve",
            "approver",
        ),
        *(
            "I approve of nothing",
            "approve nothing",
            "approve, not",
            "approve: not this one",
            "ok-ish",
        ),
        *(
            "okra",
            "okay-ish",
            "yesterday",
            "nobody",
            "yes/no",
            "approve/reject",
            "approve or reject",
        ),
        *(
            "reject or approve",
            "approve, but only under 100",
            "approve: only if he pays",
            "yes, reject it",
        ),
        *("approve - the other one instead", "approve: fine, unless it rains", "no, go ahead"),
        *(
            "approve: reject",
            "yes, no",
            "👍👎",
            "👎👍",
            "approve reject",
            "reject only if he objects",
        ),
        *("approve\nreject", "reject\n\napprove", "yes\nno", "approve\nno, wait", "ok\nrejected."),
        *("approve\nbut only under 100", "approve\n\nunless he has spent it", "ok\nActually, wait"),
        *("genehmigt, aber nur bis 100", "ja, wenn es sein muss", "承認？"),
        *("同意吗？", "好像不行", "si hay presupuesto", "sim, mas só se couber", "kein Problem"),
        *(
            "Sent from my iPhone",
            "a̶p̶p̶r̶o̶v̶e̶",
            "o\u0336k\u0336",
            "> approve",
            "On Monday Ada wrote:",
            "аpprove",
        ),
        *(
            "approve" + " " * 3 + "x",
            "<b>approve</b>",
            "approve with care",
            "approve.exe",
            "approve=3",
        ),
        *("approve" * 600, "approve " + "x" * 5_000, "approve: " + "x" * 5_000),
    ],
)
def test_everything_else_is_unclear(text):
    """A question, a condition, a contradiction or any other words decide nothing and say why."""
    answer = read_command(text)
    assert answer.verdict is Verdict.UNCLEAR
    assert answer.problem
    assert answer.reason == ""


def test_a_problem_names_what_was_read():
    """The person sees the line that was not understood, cleaned and short."""
    answer = read_command("perhaps <b>later</b>\x07 " + "x" * 300)
    assert answer.first_line.startswith("perhaps <b>later</b> x")
    assert answer.first_line in answer.problem
    assert len(answer.first_line) <= 121


@pytest.mark.parametrize(
    ("text", "template", "values"),
    [
        ("approve 3", {"days": 0}, {"days": 3}),
        ("approve -3", {"days": 0}, {"days": -3}),
        ("approve: 3", {"days": 0}, {"days": 3}),
        ("approve: -3", {"days": 0}, {"days": -3}),
        ("approve with 3", {"days": 0}, {"days": 3}),
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
        ("approve\n\n- amount: 900\n\nnote: x\n\n-- \nAda", EXPENSE, {"amount": 900, "note": "x"}),
        ("approve note=x\namount: 900", EXPENSE, {"amount": 900, "note": "x"}),
        ("approve\namount：９００", EXPENSE, {"amount": 900}),
        ("approve", EXPENSE, None),
        ("approve: fine by me", EXPENSE, None),
        ("approve: fine by me", {"note": ""}, None),
    ],
)
def test_values(text, template, values):
    """Values stand on the line itself or right below it, and only where somebody wrote them."""
    answer = read_command(text, template)
    assert (answer.verdict, answer.values) == (Verdict.APPROVE, values)


def test_values_leave_the_reason_alone():
    """Lines below the values are the reason."""
    answer = read_command("approve\namount: 900\nHave a good trip", EXPENSE)
    assert (answer.values, answer.reason) == ({"amount": 900}, "Have a good trip")


@pytest.mark.parametrize(
    ("text", "template"),
    [
        ("approve 3.5", {"days": 0}),
        ("approve 03/04/2026", {"day": "2026-01-01"}),
        ("approve Nov 21", {"day": "2026-01-01"}),
        ("approve\nday: Nov 21", {"day": "2026-01-01"}),
        ("approve 1,000", {"days": 0}),
        ("approve 3 days", {"days": 0}),
        ("approve three", {"days": 0}),
        ("approve 3", EXPENSE),
        ("approve nothing", {"note": ""}),
        ("approve not", {"note": ""}),
        ("approve later", {"note": ""}),
        ("approve amount=nine", EXPENSE),
        ("approve sum=3", EXPENSE),
        ("approve amount=3, sum=4", EXPENSE),
        ("approve amount=3, amount=4", EXPENSE),
        ("approve amount=3\namount: 4", EXPENSE),
        ("approve note=x amount=3", {"amount": 5, "note": ""}),
        ("approve note=x amount = 3", {"amount": 5, "note": ""}),
        ("approve\namuont: 3", {"amount": 5}),
        ("approve\nthanks\namount: 3", {"amount": 5}),
        ("approve\namount: 3\nhello\namount: 0", EXPENSE),
        ("approve\nno: 3\nno", {"no": 0}),
    ],
)
def test_values_that_do_not_fit_make_the_answer_unclear(text, template):
    """A value that is wrong, misnamed or out of place never lets the defaults pass instead."""
    answer = read_command(text, template)
    assert answer.verdict is Verdict.UNCLEAR
    assert answer.problem


def test_a_value_error_says_what_would_have_worked():
    """The message of the PayloadError is what the person reads."""
    problem = read_command("approve 3.5", {"approved_days": 0}).problem
    assert '"approved_days"' in problem
    assert '"3.5"' in problem
    assert "approved_days: 3" in problem


def test_disclaimers_do_not_make_an_answer_conditional():
    """Only the first paragraph can set a condition: legal footers are full of "unless"."""
    text = "approve\n\nsee you\n\nThis mail is confidential unless stated otherwise."
    assert verdict_of(text) is Verdict.APPROVE


def test_reasons_are_cleaned_and_short():
    """Control characters never leave in a reason; all the rest is kept as it was written."""
    text = "reject: a\x00b\u202ec <script>x</script><<b>script>d 1 < 2\n" + "y" * 4_000
    reason = read_command(text).reason
    assert reason.startswith("abc <script>x</script><<b>script>d 1 < 2\nyyy")
    assert len(reason) == LONGEST_REASON


def test_only_the_first_lines_are_read():
    """Beyond 64 KB or 200 lines nothing counts."""
    assert verdict_of("\n" * 250 + "approve") is Verdict.UNCLEAR
    assert verdict_of(" " * 70_000 + "approve") is Verdict.UNCLEAR


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (None, "approve"),
        ({}, "approve"),
        ({"approved_days": 0}, "approve\napproved_days: 3"),
        ({"amount": 0, "currency": "EUR"}, "approve\namount: 3"),
        (0.0, "approve\nvalue: 2.5"),
    ],
)
def test_example_answers(template, text):
    """The example in the help text is the shortest answer that approves."""
    assert example_for(template) == text


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z_]{1,10}", fullmatch=True),
        st.booleans() | st.integers(-1000, 1000) | st.just(0.0) | st.none() | st.just(""),
        max_size=5,
    ).filter(lambda template: len({key.replace("_", "") for key in template}) == len(template))
)
def test_the_example_answer_is_read_as_it_says(template):
    """What we tell people to write approves and fills all that has to be filled."""
    answer = read_command(example_for(template), template)
    assert answer.verdict is Verdict.APPROVE
    assert missing_fields(template, answer.values) == []


@given(answers, st.sampled_from([None, {}, EXPENSE, {"days": 0}, 0, "", [1], {"x": {"y": 1}}]))
@example("approve\nvalue: [", [1])
def test_any_text_is_read(text, template):
    """No text raises; an answer is clear or says what is wrong."""
    answer = read_command(text, template)
    assert (answer.verdict is Verdict.UNCLEAR) == bool(answer.problem)


@given(answers)
def test_an_approval_begins_with_a_word_that_approves(text):
    """However the rest looks, the first line that is not blank begins with one of our words."""
    if verdict_of(text) is not Verdict.APPROVE:
        return
    plain = unicodedata.normalize("NFKC", text.replace("\r", "\n")).replace("’", "'").casefold()
    first = next(
        line
        for raw in plain.split("\n")
        if (
            line := "".join(
                mark for mark in raw if unicodedata.category(mark) not in ("Cc", "Cf")
            ).strip()
        )
    )
    assert first.lstrip("*_`\"'“”‘’«»「」 ").startswith(tuple(APPROVE))


@given(
    st.sampled_from(sorted(APPROVE)), st.sampled_from(sorted(REJECT | REJECT_BRIEF)), st.booleans()
)
def test_words_that_disagree_decide_nothing(yes, no, swapped):
    """A yes and a no on lines of their own are no answer, in any languages and either order."""
    first, second = (no, yes) if swapped else (yes, no)
    assert verdict_of(f"{first}\n{second}") is Verdict.UNCLEAR


def test_the_words_are_in_the_form_they_are_compared_in():
    """Every word is NFKC and case-folded, says one thing, and approves or rejects by itself."""
    for word in APPROVE | REJECT | REJECT_BRIEF:
        assert unicodedata.normalize("NFKC", word).casefold() == word
    assert not APPROVE & (REJECT | REJECT_BRIEF)
    assert {verdict_of(word) for word in APPROVE} == {Verdict.APPROVE}
    assert {verdict_of(word) for word in REJECT | REJECT_BRIEF} == {Verdict.REJECT}


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
    ],
)
def test_hostile_text_is_read_quickly(text):
    """Text made to keep a scanner busy is read within the test's time limit."""
    answer = read_command(text, EXPENSE)
    assert (answer.verdict is Verdict.APPROVE) == (answer.problem == "")
