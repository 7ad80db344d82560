"""Attribution lines in many languages: neither they nor the quotation is the person's."""

from __future__ import annotations

import pytest

from channels.email.clients import marked
from channels.email.quoting_lines import APPLE, GMAIL, HEADERS, OTHERS
from signoff.channels.email.parsing.quoting import read_reply

CARD = "The agent asks.\n\nTo say yes: approve\n\nyes\napprove\n"
ANSWERS = ("Approve", "", "Approve\n\nMara", "Genehmigt, danke!\n\nViele Grüße\nSam")
LINES = {
    f"{program} {language}": line
    for program, lines in (("gmail", GMAIL), ("apple", APPLE), ("other", OTHERS))
    for language, line in lines.items()
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_an_attribution_is_not_the_persons(line: str) -> None:
    """This holds for marked and unmarked quotations, with or without blank lines."""
    for own in ANSWERS:
        for below in (f"\n\n{line}\n\n{marked(CARD)}", f"\n\n{line}\n{CARD}", f"\n{line}\n> a"):
            reply = read_reply(f"{own}{below}")
            assert (reply.answer, reply.doubt) == (own, ""), below


@pytest.mark.parametrize("line", HEADERS.values(), ids=HEADERS)
def test_a_copied_header_ends_the_persons_text(line: str) -> None:
    """The text below it is unmarked, but not the person's."""
    for own in ANSWERS:
        reply = read_reply(f"{own}\n\n{line}\n\n{CARD}")
        assert (reply.answer, reply.doubt) == (own, "")


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_an_answer_below_a_marked_quotation_is_read(line: str) -> None:
    """An answer at the bottom is read in every language."""
    reply = read_reply(f"{line}\n\n{marked(CARD)}\nApprove\n")
    assert (reply.answer, reply.doubt) == ("Approve", "")


@pytest.mark.parametrize(
    "text",
    [
        "approve\nMara\nSam",
        "approve\nIn message it is fine",
        "ok\nQuoting is fine",
        "approve\nfrom: berlin\nto: paris",
        "approve\nsee 10:30",
        "Marta: approve",
        "approve >>> thanks",
        "Mon Dieu: approve",
    ],
)
def test_lines_that_resemble_an_attribution_are_kept(text: str) -> None:
    """Names that begin like a weekday, values and the person's own marks are kept."""
    reply = read_reply(text)
    assert (reply.answer, reply.doubt) == (text, "")
