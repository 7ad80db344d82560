"""Replies that are commands: they are read strictly and never replace a decision."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.core.replies.examples import example_of_grant
from signoff.core.replies.reading import read_reply
from signoff.core.replies.reply import (
    Approve,
    Ask,
    Away,
    Back,
    Claim,
    Comment,
    Extend,
    Grant,
    Reassign,
    Reject,
    Release,
    Remind,
    Reply,
    Revoke,
    Unclear,
    Withdraw,
)

HOUR = timedelta(hours=1)
CHRISTMAS, NEW_YEAR = date(2026, 12, 24), date(2027, 1, 2)
EXAMPLE = example_of_grant(4 * HOUR)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("claim", Claim()),
        ("Claim 2h.", Claim(length=2 * HOUR)),
        ("claim for 30 minutes", Claim(length=HOUR / 2)),
        ("Hi Anna,\n\nich übernehme!\n\nBest,\nMara", Claim()),
        ("unclaim", Release()),
        ("release: I am off", Release(reason="I am off")),
        (
            "forward to Tom Ray: he knows the vendor",
            Reassign(to="Tom Ray", reason="he knows the vendor"),
        ),
        (
            "please forward this to tom@example.com: holidays",
            Reassign(to="tom@example.com", reason="holidays"),
        ),
        ("Weiterleiten an tom: Urlaub", Reassign(to="tom", reason="Urlaub")),
        ("Bitte an Tom Weber weiterleiten: Urlaub", Reassign(to="Tom Weber", reason="Urlaub")),
        ("reassign to tom\nhe knows it", Reassign(to="tom", reason="he knows it")),
        ("? which cost centre", Ask(text="which cost centre")),
        ("Question: which team?\nand since when", Ask(text="which team?\nand since when")),
        ("Rückfrage: welche Kostenstelle?", Ask(text="welche Kostenstelle?")),
        ("comment: as in the offer", Comment(text="as in the offer")),
        ("Kommentar:\nwie im Angebot", Comment(text="wie im Angebot")),
        (
            "extend by 4h: waiting for the vendor",
            Extend(length=4 * HOUR, reason="waiting for the vendor"),
        ),
        ("extend 1 day: holidays", Extend(length=24 * HOUR, reason="holidays")),
        ("verlängern um 1h 30 min: Rückruf", Extend(length=1.5 * HOUR, reason="Rückruf")),
        ("remind", Remind()),
        ("Bitte erinnern!", Remind()),
        ("withdraw", Withdraw()),
        ("zurückziehen: doppelt", Withdraw(reason="doppelt")),
        ("revoke", Revoke()),
        ("Hi,\n\n*Revoke it.*\nthe conference is over", Revoke(reason="the conference is over")),
        ("Widerruf: die Tagung ist vorbei", Revoke(reason="die Tagung ist vorbei")),
        ("away until 2026-12-24", Away(end=CHRISTMAS)),
        ("Away until 24.12.2026, delegate tom", Away(end=CHRISTMAS, delegate="tom")),
        (
            "I'm away from 24 Dec 2026 to 2 Jan 2027; delegate: Tom Berg",
            Away(start=CHRISTMAS, end=NEW_YEAR, delegate="Tom Berg"),
        ),
        (
            "Ich bin abwesend vom 24.12.2026 bis zum 2.1.2027, Vertretung: Jörg",
            Away(start=CHRISTMAS, end=NEW_YEAR, delegate="Jörg"),
        ),
        ("back", Back()),
        ("I'm back!", Back()),
        ("Bin wieder da.\n\nViele Grüße\nMara", Back()),
    ],
)
def test_commands_are_recognised(text: str, wanted: Reply) -> None:
    """Each command is read, with or without a greeting and a signature."""
    assert read_reply(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        *("What is this for?", "¿Por qué?", "claim that it is too dear", "claim: mine"),
        *("cancel my order", "note that it is late", "ask Tom", "forward to", "extend it"),
        *("extend soon: busy", "extend -4h: busy", "release the hounds", "remind me tomorrow"),
        *(
            "remind: it is due",
            "revoke my last mail",
            "please do not revoke",
            "back to you on Monday",
        ),
        *(
            "away",
            "awayuntil 2026-12-24",
            "get back to me",
            "remind them if needed",
            "claim it, Tom does",
        ),
        "Thank you for your mail. I am away until 2026-12-24.",
        "away until 2026-12-24\n\nFor urgent matters call +49 30 1234.",
    ],
)
def test_sentence_that_starts_like_a_command_gets_a_question_back(text: str) -> None:
    """A sentence that only begins like a command gets a question back."""
    assert isinstance(read_reply(text), Unclear)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("extend 4h", "needs a reason"),
        ("forward to tom", "needs a reason"),
        ("comment:", "no words"),
        ("?", "no words"),
        ("comment: approve", "more than one thing"),
        ("ask: why so much\n\napprove", "more than one thing"),
        ("? which team\nyes", "more than one thing"),
        ("away until tomorrow", "from when to when"),
        ("away from soon until 2026-12-24", "from when to when"),
        ("away from 2027-01-02 until 2026-12-24", "before it begins"),
    ],
)
def test_incomplete_or_mixed_command_gets_a_question_back(text: str, problem: str) -> None:
    """An incomplete command, or a command beside a decision, does nothing."""
    reply = read_reply(text)
    assert isinstance(reply, Unclear)
    assert problem in reply.problem


@pytest.mark.parametrize(
    ("text", "span", "uses"),
    [
        (EXAMPLE, 4 * HOUR, None),
        ("Approve this and calls like it for 4 hours.", 4 * HOUR, None),
        ("approve, and calls like it for 4h", 4 * HOUR, None),
        (
            "Hi Anna,\n\nyes and similar calls for 30 minutes, at most 5 times\n\nThanks",
            HOUR / 2,
            5,
        ),
        ("ok and requests like this for 1 day up to 3", 24 * HOUR, 3),
        ("Genehmigt, und ähnliche Aufrufe für 4 Stunden", 4 * HOUR, None),
        ("genehmige und aehnliche Anfragen fuer 2 Tage, höchstens 10 Mal", 48 * HOUR, 10),
        ("Ja und Aufrufe wie diesen für 1 Stunde", HOUR, None),
        ("approve and calls like it for 1h30m", 1.5 * HOUR, None),
    ],
)
def test_similar_calls_are_approved_too(text: str, span: timedelta, uses: int | None) -> None:
    """An approval may cover similar calls for a time, and up to a number of calls."""
    reply = read_reply(text)
    assert isinstance(reply, Approve)
    assert reply.grant == Grant(span=span, uses=uses)


@pytest.mark.parametrize(
    "text",
    [
        *("approve and calls like it", "approve and calls like it for a while"),
        *("approve and calls like it for 4", "approve and calls like it for 4 hours if he agrees"),
        *(
            "approve and calls like it for 4 hours at most",
            "approve and calls like it for -4 hours",
        ),
        *("approve and calls like it for 4 weeks or so", "approve and calls like it until Friday"),
        *("approve and calls like it for 99999 hours", "approve and not similar calls for 4 hours"),
        *("approve this, not calls like it for 4 hours", f"{EXAMPLE}\n\nbut only below 100"),
        *(f"{EXAMPLE}\nno, wait", f"{EXAMPLE}\n\nreject", "ok for 3 days", "approve for 4 hours"),
        "genehmigt und ähnliche Aufrufe bis Freitag",
    ],
)
def test_other_words_about_similar_calls_decide_nothing(text: str) -> None:
    """Other words about similar calls approve nothing, not even the one call."""
    assert isinstance(read_reply(text), Unclear)


def test_words_about_similar_calls_are_recognised() -> None:
    """The words are recognised, so the answer explains how to approve similar calls."""
    reply = read_reply("approve and calls like it for a while")
    assert isinstance(reply, Unclear)
    assert reply.grants


def test_rejection_keeps_words_about_similar_calls_as_its_reason() -> None:
    """In a rejection, words about similar calls belong to the reason."""
    assert isinstance(read_reply("reject and calls like it for 4 hours"), Reject)


@given(
    st.text(max_size=80), st.sampled_from(["claim ", "? ", "forward to ", "away until ", EXAMPLE])
)
def test_no_text_raises_and_no_command_contains_a_decision(text: str, head: str) -> None:
    """Any text is a command, a decision or unclear; a command contains no decision."""
    reply = read_reply(f"{head}{text}")
    said = getattr(reply, "text", "") or getattr(reply, "reason", "")
    if not isinstance(reply, Approve | Reject | Unclear):
        assert not any(
            isinstance(read_reply(line), Approve | Reject) for line in said.split("\n") if line
        )
