"""The lines of a reply that its author wrote."""

import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answered import Verdict, verdict_of
from signoff.channels.email.parsing.incoming import CUT_MARKER
from signoff.channels.email.parsing.quoting import AMBIGUOUS, own_text, read_reply

CORPUS = pathlib.Path(__file__).parents[4] / "shared" / "corpora" / "email"
needs_corpus = pytest.mark.skipif(
    not CORPUS.is_dir(),
    reason="no mail corpus beside the repository (../shared/corpora/email)",
)
OUR_MAIL = """The agent travel-bot asks whether it may book a trip.
Tool: book_trip
amount: 900
To answer, write "approve" or "reject" on the first line.
This request expires on 3 May at 17:00.
"""
QUOTED = "".join(f"> {line}\n" for line in OUR_MAIL.splitlines())
COPIED_HEADER = """From: Signoff <approvals@signoff.example>
Sent: Friday, 2 May 2025 10:00
To: Ada <ada@corp.example>
Subject: Approve a trip?
"""
QUOTES = {
    "gmail": f"On Fri, 2 May 2025 at 10:00, Signoff <a@signoff.example> wrote:\n\n{QUOTED}",
    "folded": f"On Fri, 2 May 2025 at 10:00, Signoff <\na@signoff.example> wrote:\n\n{QUOTED}",
    "bare": f"On Fri, 2 May 2025 at 10:00, Signoff wrote:\n\n{OUR_MAIL}",
    "german": f"Am Fr., 2. Mai 2025 um 10:00 Uhr schrieb Signoff <a@signoff.example>:\n{QUOTED}",
    "french": f"Le ven. 2 mai 2025 à 10:00, Signoff <a@signoff.example> a écrit :\n\n{QUOTED}",
    "spanish": f"El vie, 2 may 2025 a las 10:00, Signoff <a@x.example> escribió:\n{QUOTED}",
    "portuguese": f"Em sex., 2 de mai. de 2025, Signoff <a@signoff.example> escreveu:\n{QUOTED}",
    "italian": f"Il giorno ven 2 mag 2025 alle ore 10:00 Signoff <a@x.it> ha scritto:\n{QUOTED}",
    "dutch": f"Op vr 2 mei 2025 om 10:00 schreef Signoff <a@signoff.example>:\n{QUOTED}",
    "japanese": f"2025年5月2日(金) 10:00 Signoff <a@x.example>:\n\n{QUOTED}",
    "korean": f"2025년 5월 2일 (금) 오전 10:00, Signoff <a@signoff.example>님이 작성:\n\n{QUOTED}",
    "chinese": f"Signoff <a@signoff.example> 于2025年5月2日周五 10:00写道：\n\n{QUOTED}",
    "outlook": f"{COPIED_HEADER}\n{OUR_MAIL}",
    "outlook web": f"________________________________\n{COPIED_HEADER}\n{OUR_MAIL}",
    "outlook bold": f"*From:* Signoff\n*Sent:* Friday\n*To:* Ada\n*Subject:* Trip\n\n{OUR_MAIL}",
    "original": f"-----Original Message-----\nFrom: Signoff\n\n{OUR_MAIL}",
    "original german": f"-----Ursprüngliche Nachricht-----\nVon: Signoff\n\n{OUR_MAIL}",
    "zoho": f"---- On Fri, 02 May 2025 10:00:00 +0200 Signoff<a@x.example> wrote ----\n{OUR_MAIL}",
    "forwarded": f"Begin forwarded message:\n\nFrom: Signoff\n\n{OUR_MAIL}",
    "marker": f"{CUT_MARKER}\n\n{OUR_MAIL}",
    "marker quoted": f"> {CUT_MARKER}\n>\n{QUOTED}",
}


def first_line_of(text: str) -> str:
    """Return the first line that is neither blank nor quoted."""
    lines = (line.strip() for line in text.splitlines())
    return next((line for line in lines if line and not line.startswith(">")), "")


@pytest.mark.parametrize("quote", QUOTES.values(), ids=QUOTES)
def test_quoted_text_is_removed(quote: str) -> None:
    """Whatever a program adds around our mail, exactly the person's lines are left."""
    assert own_text(f"Approve\nHave a good trip\n\n{quote}") == "Approve\nHave a good trip"
    assert own_text(f"Approve\n{quote}") == "Approve"


@pytest.mark.parametrize("quote", QUOTES.values(), ids=QUOTES)
@pytest.mark.parametrize("above", ["", "\n\n", "Sent from my iPhone\n\n", "-- \nAda\n"])
def test_an_empty_reply_decides_nothing(quote: str, above: str) -> None:
    """Without the person's words, no reply approves or rejects."""
    assert verdict_of(own_text(above + quote), {"amount": 0}) is Verdict.UNCLEAR


@pytest.mark.parametrize("name", ["gmail", "folded", "german", "japanese", "marker quoted"])
def test_answers_below_the_quote_are_read(name: str) -> None:
    """An answer below lines marked with ">" is read."""
    assert own_text(f"{QUOTES[name]}\nApprove\n") == "Approve"


def test_the_tail_of_a_wrapped_quote_is_not_an_answer() -> None:
    """Wrapping leaves the end of a quoted line unmarked; it is not the person's."""
    long = "> To answer this request write a line that says nothing else but\napprove\n"
    assert own_text(long + "> or reject it.\n") == ""
    assert own_text(long) == ""
    assert own_text("> short\napprove\n> or reject\n") == ""


def test_our_own_lines_are_subtracted() -> None:
    """Lines that we sent are removed, marked or not."""
    lines = OUR_MAIL.splitlines()
    assert own_text(
        "Some text\n  The agent travel-bot asks whether it may  book a trip.", lines
    ) == ("Some text")
    assert own_text("amount: 900\nApprove", lines) == "Approve"


@pytest.mark.parametrize(
    "text",
    [
        "approve\nOn this day I was in Rome.",
        "On reflection: approve",
        "approve\nfrom: monday\nhello",
        "approve\n- one\n-----\n- two",
        "approve\n12:30 is fine: see you",
    ],
)
def test_text_that_resembles_a_quotation_is_kept(text: str) -> None:
    """A person's line that begins like an attribution or a header is kept."""
    assert own_text(text) == text


@given(
    st.sampled_from(["approve", "Yes", "reject: too dear", "ok\nhave fun", "good morning"]),
    st.sampled_from(sorted(QUOTES)),
)
def test_quoting_changes_no_answer(words: str, name: str) -> None:
    """A reply is read like the person's words alone."""
    assert own_text(f"{words}\n\n{QUOTES[name]}") == own_text(words)


@pytest.mark.parametrize(
    ("text", "shown", "answer"),
    [
        ("ok\n\n-- \nAda\n+49 30 1", "ok", "ok"),
        ("ok\n\nThanks,\nAda\n\n————\nAda Lovelace\nCountess", "ok\n\nThanks,\nAda", None),
        ("ok\n\nSent from my iPhone", "ok", "ok"),
        ("Sent from my desk, which is quieter.", "Sent from my desk, which is quieter.", None),
        ("ok\n----\nfine", "ok\n----\nfine", None),
        ("ok\n\n***\n====\n", "ok", None),
        ("> one\n\nyes\n\n> two\n\nno", "> one\n\nyes\n\n> two\n\nno", None),
        ("> by hand\n\nok", "> by hand\n\nok", "ok"),
        ("On 3 May 2026, Ada wrote:\n> one\n\nok", "ok", "ok"),
        ("Hi\n\nOn 3 May 2026, Ada wrote:\n> one\n\nok", "Hi\n\n\nok", None),
        ("> On 3 May 2026, Ada wrote:\n>\n> one", "", ""),
        ("ok On Wed, Apr 4, 2026 at 3:59 PM, a@x.example wrote:\n> Hi", "ok", "ok"),
        ("CAUTION: This mail came from outside the firm.\n\nok", "ok", "ok"),
        ("ok\n\n[EXTERNAL] do not click", "ok\n\n[EXTERNAL] do not click", None),
        ("ok\nAW> what\nAW> else", "ok", "ok"),
        ("ok\n\n-- \nAda\n\n> quoted\n\nno", "ok\n\n> quoted\n\nno", None),
        ("ok\nto: ada@x.example\nsubject: x\nfrom: b@x.example", None, None),
    ],
)
def test_displayed_text_keeps_quotations_and_the_answer_omits_them(
    text: str, shown: str | None, answer: str | None
) -> None:
    """The displayed text keeps the person's own quotations; the answer leaves them out."""
    reply = read_reply(text)
    assert reply.shown == (text if shown is None else shown)
    assert answer is None or reply.answer == answer
    assert ">" not in reply.answer


@needs_corpus
def test_the_author_text_of_corpus_replies_is_found() -> None:
    """At least 95 of 100 real replies give exactly the author's text."""
    mails = sorted((CORPUS / "replies" / "mail").glob("*.txt"))
    exact = 0
    for path in mails:
        expected = (CORPUS / "replies" / "expected" / path.name).read_text(encoding="utf-8")
        shown = read_reply(path.read_text(encoding="utf-8")).shown
        exact += [one.rstrip() for one in shown.strip().splitlines()] == [
            one.rstrip() for one in expected.strip().splitlines()
        ]
    assert exact >= 0.95 * len(mails)


@needs_corpus
def test_replies_of_the_corpus() -> None:
    """At least 95 of 100 real replies begin with the author's first line.

    The rest become empty and get a question back: text below an attribution, a forwarded mail.
    """
    mails = sorted((CORPUS / "replies" / "mail").glob("*.txt"))
    wrong = []
    for path in mails:
        expected = (CORPUS / "replies" / "expected" / path.name).read_text(encoding="utf-8")
        read = first_line_of(own_text(path.read_text(encoding="utf-8")))
        if read != first_line_of(expected):
            wrong.append(path.name)
            assert read == ""
    assert len(mails) > 60
    assert len(wrong) <= 0.05 * len(mails), wrong


@needs_corpus
@pytest.mark.parametrize(
    ("words", "verdict", "share"),
    [("Approve", Verdict.APPROVE, 1.0), ("No, too dear", Verdict.REJECT, 1.0), ("", None, 0.0)],
)
def test_corpus_replies_with_replaced_text_decide_as_written(
    words: str, verdict: Verdict | None, share: float
) -> None:
    """In real replies, a replaced text decides as it says; an empty one decides nothing."""
    decided = []
    for path in sorted((CORPUS / "replies" / "mail").glob("*.txt")):
        mail = path.read_text(encoding="utf-8").strip()
        own = (CORPUS / "replies" / "expected" / path.name).read_text(encoding="utf-8").strip()
        if own and not own.startswith(">") and mail.startswith(own):
            read = verdict_of(own_text(words + mail.removeprefix(own)))
            decided.append(read is verdict if verdict else read is not Verdict.UNCLEAR)
    assert len(decided) > 45
    assert sum(decided) == share * len(decided)


@pytest.mark.parametrize(
    "line",
    [
        *("PS: only half", "P.S. only half", "P. S. only half", "ps only half", "PPS - only half"),
        *("P.-S. : seulement la moitié", "PD: solo la mitad", "N.B. only half", "*PS:* only half"),
        *("Nachtrag: nur die Hälfte", "追伸：半分だけ", "추신: 절반만", "附言：只批准一半"),
    ],
)
def test_a_postscript_below_a_signature_is_text(line: str) -> None:
    """Text below a signature is read, up to the next blank line."""
    reply = read_reply(f"approve\n\n-- \nMara Lind\nAcme Ltd\n{line}\nof it\n\nAcme Ltd")
    assert not reply.doubt
    assert [one for one in reply.answer.split("\n") if one] == ["approve", line, "of it"]


@pytest.mark.parametrize(
    "line", ["PD Dr. Anna Weber", "NB Consulting", "Edith Weber", "P.O. Box 12", "PSA Group"]
)
def test_a_signature_line_is_not_a_postscript(line: str) -> None:
    """Titles, companies and addresses that begin like a postscript are left out."""
    reply = read_reply(f"approve\n\n-- \nMara Lind\n{line}")
    assert (reply.answer, reply.doubt) == ("approve", "")


@pytest.mark.parametrize("line", ["reject", "Reject!", "Nein", "approve"])
def test_an_answer_below_a_signature_is_ambiguous(line: str) -> None:
    """It may be the person's, or from an older mail without marks."""
    assert read_reply(f"approve\n\n-- \nMara Lind\n{line}").doubt == AMBIGUOUS
    assert not read_reply(f"-- \nMara Lind\n{line}").answer


@pytest.mark.parametrize(
    "line",
    [
        *("only if Tom agrees", "Sorry, I meant no", "Wait!", "Actually, no", "wait, not yet"),
        *(
            "nur wenn Tom zustimmt",
            "Sorry, ich meinte nein",
            "Moment, doch nicht",
            "es sei denn, ...",
        ),
        *("seulement si Tom accepte", "Pardon, je voulais dire non", "solo si Tom acepta"),
        *(
            "Perdón, quise decir no",
            "solo se Tom approva",
            "Scusa, volevo dire no",
            "só se o Tom aprovar",
        ),
        *("Desculpe, quis dizer não", "alleen als Tom akkoord is", "Sorry, ik bedoelde nee"),
        *("すみません、却下です", "죄송합니다. 거절입니다", "抱歉，我是说不同意"),
        *("only up to 500 EUR", "but not the hotel", "not before Friday", "make it 900"),
        *("aber erst morgen", "mais pas avant lundi", "pero solo la mitad", "ma solo metà"),
        *("mas só metade", "maar pas morgen", "Actually reject it"),
    ],
)
def test_a_condition_below_a_signature_is_ambiguous(line: str) -> None:
    """A person who writes below their signature may limit their yes or take it back."""
    assert read_reply(f"approve\n\n-- \nMara Lind\n{line}").doubt == AMBIGUOUS


@pytest.mark.parametrize(
    "line",
    [
        *("Only up to 500", "Max. 500 EUR", "Not before Monday", "Subject to contract"),
        *("Nur bis 500 EUR", "Erst ab Montag", "Höchstens 500", "Seulement jusqu'à 500 EUR"),
        *("Pas avant lundi", "Solo hasta 500 EUR", "Solo fino a 500 EUR", "Só até 500 EUR"),
        *("Alleen tot 500 EUR", "500ユーロまで", "月曜日以降", "500유로까지만", "仅限500欧元"),
    ],
)
@pytest.mark.parametrize("rule", ["-- ", "--", "-- \n", "\u2014"])
def test_a_limit_directly_below_the_rule_of_a_signature_is_ambiguous(rule: str, line: str) -> None:
    """A signature begins with a name, so a limit in its place belongs to the answer."""
    assert read_reply(f"approve\n{rule}\n{line}").doubt == AMBIGUOUS


@pytest.mark.parametrize("line", ["Acme Limited", "Half Moon Ltd", "Max Weber", "Head of Sales"])
def test_a_firm_or_the_persons_name_below_the_rule_begins_a_signature(line: str) -> None:
    """Names may have words that limit an answer elsewhere: "Max", "Limited"."""
    names = frozenset({"max", "weber"})
    assert not read_reply(f"approve\n-- \n{line}\nOnly the best", names=names).doubt


@pytest.mark.parametrize(
    "line",
    [
        *("Sorry for typos", "Excuse my brevity", "Provided by Acme", "Or call +49 30 1234567"),
        *(
            "Before printing, think of the environment",
            "If urgent, call +49 30 1234567",
            "One Way 5",
        ),
        *(
            "Max-Planck-Straße 5",
            "Only the best",
            "Vor dem Drucken bitte nachdenken",
            "Morgen & Co",
        ),
        *("Test Manager", "First Floor", "Désolé pour les fautes de frappe"),
        *("+1 555 010 2233", "+1 (555) 010-2233", "+1.555.010.2233"),
        *("m: +44 7700 900123", "an Acme company", "www.acme.example", "part of Globex since 1999"),
        (
            "This message is only for the people it is addressed to, and if you are not one\n"
            "of them, please delete it only after you have told us."
        ),
    ],
)
def test_a_usual_line_of_a_signature_is_left_out(line: str) -> None:
    """Mottos, addresses and apologies for typos are no part of the answer."""
    assert not read_reply(f"approve\n\n-- \nMara Lind\n{line}").doubt


@pytest.mark.parametrize(
    "question", ["> Should I reject it?", "> Bist du im Büro?", "> 却下しますか？"]
)
def test_words_below_another_persons_question_are_doubtful(question: str) -> None:
    """A yes below a quoted question that we did not ask may answer that question."""
    assert read_reply(f"{question}\n\nYes").doubt
    assert not read_reply(f"{question}\n\nYes", [question.strip("> ")]).doubt
    assert not read_reply(f"Yes\n\n{question}").doubt


UNMARKED = ["bare", "outlook", "outlook web", "outlook bold", "original", "zoho", "forwarded"]


@pytest.mark.parametrize("quote", [*UNMARKED, "original german", "marker"])
@pytest.mark.parametrize(
    "line",
    ["No", "only if Tom agrees", "reject: too dear", "Nein", "wait", "却下します", "solo si paga"],
)
def test_an_answer_in_an_unmarked_quotation_of_our_mail_is_uncertain(quote: str, line: str) -> None:
    """A line that would answer, and that we did not send, may be the person's own."""
    sent = OUR_MAIL.splitlines()
    inside = QUOTES[quote].replace("amount: 900\n", f"amount: 900\n{line}\n")
    assert read_reply(f"Approved\n\n{inside}", sent).doubt == AMBIGUOUS
    assert not read_reply(f"Approved\n\n{QUOTES[quote]}", sent).doubt


def test_the_rest_of_a_wrapped_line_in_a_quotation_of_our_mail_is_certain() -> None:
    """Programs wrap the lines that we sent, so that the rest of one may look like an answer."""
    wrapped = f"{COPIED_HEADER}\nEach button opens a reply. To approve, fill it in and\nsend it.\n"
    assert not read_reply(f"Approved\n\n{wrapped}", OUR_MAIL.splitlines()).doubt


def test_an_answer_in_a_quotation_of_an_unknown_mail_is_ignored() -> None:
    """Without the lines that we sent, a quotation may be another person's mail."""
    assert not read_reply(f"Approved\n\n{COPIED_HEADER}\nNo\n").doubt


@pytest.mark.parametrize("below", ["only half of it", "Reject", "Nur bis 500 EUR"])
def test_words_below_a_pgp_signature_are_the_persons(below: str) -> None:
    """The block of the signature is left out, and what is written below it is read."""
    signature = "-----BEGIN PGP SIGNATURE-----\n\niQEzBAEB\n=abcd\n-----END PGP SIGNATURE-----"
    signed = f"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nApprove\n{signature}"
    assert read_reply(signed).answer == "Approve"
    assert read_reply(f"{signed}\n{below}").answer.split() == ["Approve", *below.split()]
    assert read_reply(signed.rpartition("\n")[0]).doubt == AMBIGUOUS


@pytest.mark.parametrize(
    "line",
    [
        "  On Fri, Nov 27, 2026 at 10:12 AM, Signoff<ask@x.example> wrote:   Do you approve it?",
        "  Le ven., nov. 27, 2026 à 10:12, Signoff<ask@x.example> a écrit :   Approve",
        "  Am Fr., Nov. 27, 2026 at 10:12 schrieb Signoff<ask@x.example>:   Approve",
    ],
)
def test_a_quotation_that_begins_on_the_line_of_its_attribution_is_left_out(line: str) -> None:
    """Yahoo's app begins it there."""
    assert read_reply(f"No, not yet\n\n{line}\nReply approve").answer == "No, not yet"
    assert not read_reply(f"{line}\napprove").answer


def test_a_limit_between_the_lines_of_our_mail_is_ambiguous() -> None:
    """The lines of a quotation without marks that we did not write may be the person's."""
    ours = ["Do you approve it?", "Amount: 900"]
    quoted = "From: Signoff <ask@x.example>\nSent: Monday\nTo: Mara\nSubject: Approval\n\n"
    mail = f"Approve\n\n{quoted}Do you approve it?\n{{}}\nAmount: 900"
    assert read_reply(mail.format("but only half"), ours).doubt == AMBIGUOUS
    assert not read_reply(mail.format(""), ours).doubt
