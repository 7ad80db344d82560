"""Our own mail, quoted by common mail programs, is never an answer and never hides one."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from itertools import product

import pytest
from pydantic import JsonValue

from answered import Verdict, verdict_of
from builders import MARA, NOON, asked_approval, make_call, people
from channels.email.clients import PHONE, WORDS, Style, styles
from signoff.channels.email.outbound.render import plain_text
from signoff.channels.email.parsing.quoting import read_reply
from signoff.channels.email.settings import EmailSettings
from signoff.channels.pipeline.port import Kind, Message
from signoff.channels.pipeline.reply_tokens import new_token
from signoff.core.cards.card import card

MAILBOX = "approvals@signoff.example"
SETTINGS = EmailSettings(sender=f"Signoff <{MAILBOX}>", mailbox=MAILBOX)
TEMPLATE: JsonValue = {"approved_days": 0}
TEMPLATES: tuple[JsonValue, ...] = (None, TEMPLATE)
STYLES = list(styles())
NAMES = [f"{one.client}-{one.language or 'any'}" for one in STYLES]
MARKED = [one for one in STYLES if one.marked]


def message(template: JsonValue = None) -> Message:
    """Return a card for Mara."""
    call = make_call("time_off" if template else "reimburse")
    approval = asked_approval(template=template, hint="approve\nyes", call=call)
    return Message(
        id=f"card:{approval.id}:mara",
        kind=Kind.CARD,
        card=card(approval, people()),
        person="mara",
        name=MARA.shown,
        address=MARA.email,
        at=NOON,
        token=new_token(),
    )


NUMBER = message(TEMPLATE)
NOTICE = replace(
    NUMBER,
    kind=Kind.NOTICE,
    headline="Nothing is decided yet",
    text='I read "yes": which?',
    example="approve\napproved_days: 3",
)
MAILS = {
    name: plain_text(one, SETTINGS)
    for name, one in {"card": message(), "number": NUMBER, "notice": NOTICE}.items()
}


def spread(style: Style, number: int) -> list[str]:
    """Return one or two of the ten languages, so that each meets many styles."""
    languages, at = list(WORDS), STYLES.index(style)
    two = languages[at % len(languages)], languages[at // len(languages) % len(languages)]
    return list(two[:number])


def said(text: str) -> Verdict:
    """Return the parsed decision and number of an answer."""
    return verdict_of(read_reply(text).answer)


AROUND = list(
    product(
        ("", "\n\n", "Sent from my iPhone\n\n", "-- \nMara Lind\n\n"),
        ("", "\n\n-- \nMara Lind\n"),
    )
)
"""Text that programs put above and below a quotation."""


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("style", STYLES, ids=NAMES)
def test_a_quotation_alone_decides_nothing(style: Style, every: int) -> None:
    """A quotation without a person's words never approves or rejects, in any style."""
    for mail, width in product(MAILS.values(), (0, 72)):
        text = "\n".join(textwrap.fill(one, width) for one in mail.split("\n")) if width else mail
        quote = style.quote(text)
        for above, below in AROUND[STYLES.index(style) % every :: every]:
            reply = read_reply(above + quote + below)
            for template in TEMPLATES:
                assert verdict_of(reply.answer, template) is Verdict.UNCLEAR, reply


@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.soak)])
@pytest.mark.parametrize("style", STYLES, ids=NAMES)
def test_an_answer_above_is_understood_and_is_all(style: Style, number: int) -> None:
    """The person's words above the quotation are read, in ten languages, and nothing else."""
    quote = style.quote(MAILS["number"])
    for language in spread(style, number):
        yes, no = WORDS[language]
        for end in ("\n\n", f"\n\n{PHONE[language]}\n\n", "\n\n-- \nMara Lind\n\n"):
            assert said(yes + end + quote) is Verdict.APPROVE, yes
            assert said(no + end + quote) is Verdict.REJECT, no
            assert read_reply(yes + end + quote).shown == yes


@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.soak)])
@pytest.mark.parametrize("style", MARKED, ids=lambda one: f"{one.client}-{one.language}")
def test_an_answer_below_is_understood(style: Style, number: int) -> None:
    """An answer below or within a marked quotation is understood too."""
    quote = style.quote(MAILS["number"])
    for yes, no in (WORDS[language] for language in spread(style, number)):
        assert said(f"{quote}\n{yes}\n") is Verdict.APPROVE
        assert said(f"{quote}\n{no}\n\n-- \nMara") is Verdict.REJECT
        lines = quote.splitlines()
        half = "\n".join(lines[: len(lines) // 2]), "\n".join(lines[len(lines) // 2 :])
        assert said(f"{half[0]}\n\n{yes}\n\n{half[1]}\n") is Verdict.APPROVE


@pytest.mark.parametrize("style", MARKED, ids=lambda one: f"{one.client}-{one.language}")
def test_a_yes_above_and_a_no_below_is_asked_again(style: Style) -> None:
    """Two different answers of one person never make a decision, wherever they are."""
    quote = style.quote(MAILS["card"])
    assert said(f"approve\n\n{quote}\nno\n") is Verdict.UNCLEAR


def test_our_lines_are_ours_without_any_mark() -> None:
    """If a program drops every quotation mark and our marker, no remaining line decides."""
    for mail in MAILS.values():
        lines = [line for line in mail.splitlines() if "reply above" not in line]
        bare = "\n".join(lines)
        assert read_reply(bare, lines).answer == ""
        assert said(bare) is Verdict.UNCLEAR
        for start in range(len(lines)):
            assert said("\n".join(lines[start:])) is Verdict.UNCLEAR, lines[start]
