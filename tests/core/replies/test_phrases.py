"""What people write, in every language: what a careful colleague would understand by it."""

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


def kind_of(text: str) -> str:
    """Return what a text is read as: yes, no or neither."""
    match read_reply(text, CONTEXT):
        case Approve():
            return "yes"
        case Reject():
            return "no"
    return "neither"


@pytest.mark.parametrize("kind", ["yes", "no", "neither"])
@pytest.mark.parametrize("code", CODES)
def test_what_people_write_is_understood(code: str, kind: str) -> None:
    """Every phrase of a language's table is read as a careful colleague would read it."""
    phrases = tomllib.loads((TABLES / f"{code}.toml").read_text("utf-8"))[kind]
    assert len(phrases) >= 60
    wrong = {text: found for text in phrases if (found := kind_of(text)) != kind}
    assert wrong == {}


@pytest.mark.parametrize("code", CODES)
def test_no_frame_makes_a_yes_of_neither(code: str) -> None:
    """A greeting above and a closing below turn nothing that is unclear into a yes."""
    phrases = tomllib.loads((TABLES / f"{code}.toml").read_text("utf-8"))["neither"]
    framed = (f"Hi Anna,\n\n{text}\n\nBest regards\nMara Lind" for text in phrases)
    assert [text for text in framed if kind_of(text) == "yes"] == []
