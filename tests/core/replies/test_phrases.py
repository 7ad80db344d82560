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
def test_what_people_write_is_understood(code: str, kind: str, every: int) -> None:
    """Every phrase of a language's table is read as a careful colleague would read it."""
    phrases = tomllib.loads((TABLES / f"{code}.toml").read_text("utf-8"))[kind]
    assert len(phrases) >= 60
    wrong = {text: found for text in phrases[::every] if (found := kind_of(text)) != kind}
    assert wrong == {}


@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("code", CODES)
def test_no_frame_makes_a_yes_of_neither(code: str, every: int) -> None:
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
    "ja, schon",
    "ja ja, schon klar",
    "das wäre ok",
    "yes, too good",
    "sounds good, too good",
]


@pytest.mark.parametrize("text", SIGNED_BY_ANOTHER)
def test_what_looks_like_a_yes_and_is_none_stays_unclear(text: str) -> None:
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
def test_a_no_that_is_taken_back_is_unclear(text: str) -> None:
    """A no that is followed by a yes decides nothing, in every language."""
    assert kind_of(text) == "neither"
