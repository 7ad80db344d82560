"""What an answer says that is no decision: read strictly, and never in the place of one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.core.asides import WORDS, Aside, Does, is_withdrawal, read_aside
from signoff.core.command import Verdict, read_command

HOURS = timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("claim", Aside(does=Does.CLAIM)),
        ("Claim 2h.", Aside(does=Does.CLAIM, length=2 * HOURS)),
        ("Hi Anna,\n\nich übernehme!\n\nBest,\nMara", Aside(does=Does.CLAIM)),
        ("unclaim", Aside(does=Does.RELEASE)),
        ("release: I am off", Aside(does=Does.RELEASE, text="I am off")),
        (
            "forward to Tom Ray: he knows the vendor",
            Aside(does=Does.REASSIGN, to="Tom Ray", text="he knows the vendor"),
        ),
        ("Weiterleiten an tom: Urlaub", Aside(does=Does.REASSIGN, to="tom", text="Urlaub")),
        ("? which cost centre", Aside(does=Does.ASK, text="which cost centre")),
        (
            "Question: which team?\nand since when",
            Aside(does=Does.ASK, text="which team?\nand since when"),
        ),
        ("Rückfrage: welche Kostenstelle?", Aside(does=Does.ASK, text="welche Kostenstelle?")),
        ("comment: as in the offer", Aside(does=Does.COMMENT, text="as in the offer")),
        ("Kommentar:\nwie im Angebot", Aside(does=Does.COMMENT, text="wie im Angebot")),
        (
            "extend by 4h: waiting for the vendor",
            Aside(does=Does.EXTEND, length=4 * HOURS, text="waiting for the vendor"),
        ),
        (
            "verlängern um 90m: Rückruf",
            Aside(does=Does.EXTEND, length=1.5 * HOURS, text="Rückruf"),
        ),
        ("remind", Aside(does=Does.REMIND)),
        ("Bitte erinnern!", Aside(does=Does.REMIND)),
        ("withdraw", Aside(does=Does.WITHDRAW)),
        ("zurückziehen: doppelt", Aside(does=Does.WITHDRAW, text="doppelt")),
    ],
)
def test_what_is_read(text: str, wanted: Aside) -> None:
    """English and German words, greeting and signature aside."""
    assert read_aside(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "What is this for?",
        "¿Por qué?",
        "claim that it is too dear",
        "claim: mine",
        "cancel my order",
        "note that it is late",
        "ask Tom",
        "forward to",
        "extend it",
        "extend soon: busy",
        "extend -4h: busy",
        "release the hounds",
        "remind me tomorrow",
        "remind: it is due",
        "Thanks!\nclaim",
    ],
)
def test_what_is_not_read(text: str) -> None:
    """Whatever the grammar does not cover is asked about as before."""
    assert read_aside(text) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("extend 4h", "needs a reason"),
        ("forward to tom", "needs a reason"),
        ("comment:", "no words"),
        ("?", "no words"),
        ("comment: approve", "more than one thing"),
        ("comment: as in the offer\n\napprove", "more than one thing"),
        ("claim\nreject: too dear", "more than one thing"),
        ("? which team\nyes", "more than one thing"),
    ],
)
def test_what_is_asked_about(text: str, problem: str) -> None:
    """An aside that lacks something, or that has a decision beside it, does nothing."""
    found = read_aside(text)
    assert found is not None
    assert problem in found.problem


def test_no_word_of_an_aside_is_a_decision() -> None:
    """However it goes on, the reading of answers finds neither a yes nor a no in it."""
    for words in WORDS.values():
        for word in words:
            for text in (word, f"{word}.", f"{word}: tom", f"{word} tom: busy", f"{word} 4h: busy"):
                assert read_command(text).verdict is Verdict.UNCLEAR, text


@given(st.text() | st.sampled_from([w for ws in WORDS.values() for w in ws]), st.text())
def test_no_text_makes_it_raise_and_nothing_decides_beside_it(first: str, below: str) -> None:
    """Any text is an aside, one with a problem, or none; a clear one has no decision in it."""
    text = f"{first}\n{below}"
    found = read_aside(text)
    is_withdrawal(text)
    if found is not None and not found.problem and read_command(text).verdict is Verdict.UNCLEAR:
        for line in found.text.split("\n"):
            assert not line or read_command(line).verdict is Verdict.UNCLEAR
