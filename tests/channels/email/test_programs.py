"""Replies of common mail programs: the person's own words are found without doubt."""

from __future__ import annotations

import pytest

from channels.email.pages import PROGRAMS, Program
from channels.email.test_clients import MAILS
from channels.email.test_markup import BODY, OURS
from signoff.channels.email.parsing.alternatives import essence
from signoff.channels.email.parsing.reading import IncomingMail, read_mail

ANSWERS = (
    ["Approve"],
    ["Approve", "", "Thanks", "Mara"],
    ["no, too expensive"],
    ["Genehmigt, danke!", "", "Viele Grüße", "Mara Lind"],
    ["承認します。"],
    ["approve", "approved_days: 3", "", "--", "Mara Lind", "ACME GmbH | T +49 30 123"],
)
CARDS = {
    "card": (MAILS["card"], BODY),
    "whole page": (MAILS["number"], OURS),
    "bare words": ("approve\n\nyes\n", "<p>approve</p><p>yes</p>"),
}


def mail(plain: str = "", page: str = "", sender: str = "Mara Lind <mara@example.com>") -> bytes:
    """Return a mail with a plain text, a page, or both."""
    kinds = (("plain", plain), ("html", page))
    parts = [
        f"Content-Type: text/{kind}; charset=utf-8\r\n\r\n{text}" for kind, text in kinds if text
    ]
    top = f"From: {sender}\r\n"
    if len(parts) == 1:
        return f"{top}{parts[0]}".encode()
    body = "".join(f"--XX\r\n{part}\r\n" for part in parts)
    return f"{top}Content-Type: multipart/alternative; boundary=XX\r\n\r\n{body}--XX--\r\n".encode()


def forms(program: Program, own: list[str], card: str) -> dict[str, IncomingMail]:
    """Return a reply read from its plain text, from its page, and from both."""
    quoted, page = CARDS[card]
    plain, marked_up = program.plain(own, quoted), program.page(own, page)
    made = {"page": mail(page=marked_up)}
    if plain:
        made |= {"plain": mail(plain), "both": mail(plain, marked_up)}
    return {name: read_mail(raw) for name, raw in made.items()}


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
def test_exactly_the_words_of_the_person_are_read(program: Program, every: int) -> None:
    """All of them and no others are read, from the text, the page and both."""
    pairs = [(own, card) for card in CARDS for own in ANSWERS]
    for own, card in pairs[PROGRAMS.index(program) % every :: every]:
        signature = own.index("--") if "--" in own else len(own)
        words = essence("\n".join(own[:signature]))
        for form, read in forms(program, own, card).items():
            assert essence(read.own_text) == words, (form, card, own)
            assert essence(read.reply) == words, (form, card, own)
            assert (read.doubt, read.automatic) == ("", ""), (form, card, own, read.doubt)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
def test_an_empty_reply_has_no_words(program: Program) -> None:
    """Whatever quotation of our mail follows, no word is the person's."""
    for card in CARDS:
        for form, read in forms(program, [""], card).items():
            assert read.own_text == "", (form, card)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
def test_the_first_line_stays_the_first(program: Program) -> None:
    """An answer with several lines keeps its lines."""
    own = ["approve", "amount: 900", "day: 21 Nov 2026"]
    for read in forms(program, own, "card").values():
        assert [line for line in read.own_text.splitlines() if line] == own
