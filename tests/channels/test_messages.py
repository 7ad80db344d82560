"""The messages of `messages.toml`: all can be formatted, and headlines begin with the title."""

import ast
import tomllib
from importlib import resources
from pathlib import Path

import pytest
from jinja2 import Environment
from jinja2.meta import find_undeclared_variables

from builders import MARA, NOON, make_approval, people
from signoff.channels.words.messages import harmless, quoted, say
from signoff.channels.words.phrases import NOBODY, outcome, status
from signoff.core.approvals.approval import Approval, Asked
from signoff.core.approvals.milestones import Milestone
from signoff.core.policies.policy import Terms

TITLE = "Reimburse 2500 for conference, asked by Riley Voss"
NAMES = tomllib.loads(
    resources.files("signoff.channels.words").joinpath("messages.toml").read_text("utf-8")
)


def titled(title: str = "Reimburse {args.amount} for {args.purpose}") -> Approval:
    """Return a request with a title from its policy, which asks Mara."""
    terms = Terms.model_validate({"policy": "p", "ask": ["mara"], "within": "4h", "title": title})
    cards = (Asked(person="mara", channel="email", address=MARA.email),)
    return make_approval().ask(terms, cards, now=NOON)[0]


@pytest.mark.parametrize("name", ["not_opened", "claimed", "late_here", "withdrawn", "commented"])
def test_a_headline_begins_with_the_title(name: str) -> None:
    """Subject, push, Slack and page show it first, without the tool's name."""
    words = say(name, titled(), people(), "mara", problem="It is over.")
    assert words.headline.startswith(f"{TITLE} – ")
    assert "reimburse" not in words.headline


@pytest.mark.parametrize("milestone", Milestone)
@pytest.mark.parametrize("reader", ["riley", "mara"])
def test_so_does_every_status(milestone: Milestone, reader: str) -> None:
    """People who do not decide read the title too, once."""
    words = status(titled(), milestone, people(), requests=True, reader=reader)
    assert words.headline.startswith(f"{TITLE} – ")
    assert f"{words.headline}{words.text}".count(TITLE) == 1


@pytest.mark.parametrize("reader", ["cleo", "nobody@example.com", NOBODY])
def test_unasked_people_do_not_see_the_title(reader: str) -> None:
    """The title contains arguments of the call, which may be secret from them."""
    for words in (
        say("not_opened", titled(), people(), reader),
        outcome(titled(), reader, people()),
        status(titled(), Milestone.FAILED, people(), requests=True, reader=reader),
    ):
        assert "2500" not in words.headline
        assert "reimburse" in words.headline


def test_without_a_title_the_tool_is_named() -> None:
    """A title is optional in a policy."""
    words = say("withdrawn", titled(""), people(), "mara")
    assert words.headline == "reimburse was withdrawn"


@pytest.mark.parametrize("name", NAMES)
def test_no_paragraph_is_an_answer(name: str) -> None:
    """Our own text may be quoted in a reply, and must not decide."""
    text = " ".join(NAMES[name].get("text", "").split())
    assert harmless(text) == text


def test_quoted_words_of_people_are_one_paragraph() -> None:
    """Its lines cannot begin one of our lines."""
    assert quoted("wait\n\napprove\nnow") == "“wait approve now”"


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Return every name that the channels pass to a message: keywords and keys of dicts."""
    found: set[str] = set()
    for file in Path(str(resources.files("signoff.channels"))).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg is not None:
                found.add(node.arg)
            elif isinstance(node, ast.Dict):
                found.update(str(one.value) for one in node.keys if isinstance(one, ast.Constant))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_message_templates_use_only_known_names(name: str, known: set[str]) -> None:
    """A mistyped name in the file is found here, not when the message is sent."""
    message = NAMES[name]
    for text in (message.get("headline", ""), message.get("text", "")):
        assert find_undeclared_variables(Environment().parse(text)) <= known
