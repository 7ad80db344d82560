"""The messages of `messages.toml`, which every channel uses; each message has a name."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from jinja2 import Environment, StrictUndefined, Template, meta

from signoff.core.approvals.answers import refusal_of_input
from signoff.core.approvals.approval import Approval, Kind, State
from signoff.core.base.moments import moment_text
from signoff.core.base.shown_text import visible
from signoff.core.cards.card import card, named, one_line, progress, topic
from signoff.core.directory.people import Directory

_MARK = "↳ "
_MOST_READ = 100


@dataclass(frozen=True, slots=True)
class RenderedMessage:
    """A rendered message.

    Attributes:
        sentence: The whole message in one sentence.
        text: The other paragraphs, separated by blank lines.
        example: A valid answer, "" if no answer is expected.
        title: The title that the policy gives the request; "" if it gives none, or the reader may
            not see it.
    """

    sentence: str
    text: str = ""
    example: str = ""
    title: str = ""

    @property
    def headline(self) -> str:
        """The text for a mail's subject, a push message and a page's heading, with the title."""
        return f"{self.title} – {self.sentence}" if self.title else self.sentence


@dataclass(frozen=True, slots=True)
class _Message:
    """A message in `messages.toml`.

    Attributes:
        headline: The template of the headline.
        paragraphs: The templates of the paragraphs.
        example: A valid answer.
        names: The names of the variables in the templates that depend on the request alone.
    """

    headline: Template
    paragraphs: tuple[Template, ...]
    example: str
    names: frozenset[str]

    def render(
        self, values: dict[str, object], *, title: str = "", example: str = ""
    ) -> RenderedMessage:
        # All templates share one context: creating it takes longer than rendering most paragraphs.
        context = self.headline.new_context(values, shared=True)
        headline, *paragraphs = (
            "".join(one.root_render_func(context)).strip()
            for one in (self.headline, *self.paragraphs)
        )
        text = "\n\n".join(filter(None, paragraphs))
        return RenderedMessage(headline, text, example or self.example, title)


# Mails and pages escape the text themselves, and Slack shows it as plain text.
_STRICT: Final = Environment(autoescape=False, undefined=StrictUndefined)  # noqa: S701
_LENIENT: Final = Environment(autoescape=False)  # noqa: S701
# Our sentences do not call Jinja's global functions, and each rendering would copy them.
_STRICT.globals.clear()


# A template is compiled at its first use: compiling all of them would delay every command.
@cache
def sentence(file: str, table: str, name: str) -> Template | None:
    """Return a sentence of a file in this folder, or None; unknown variables render as "".

    Args:
        file: The name of the file.
        table: The table in it.
        name: The key in the table.
    """
    text = _tables(file)[table].get(name)
    return None if text is None else _LENIENT.from_string(" ".join(text.split()))


@cache
def _message(name: str) -> _Message:
    message = _tables("messages.toml")[name]
    texts = [message.get("headline", ""), *message.get("text", "").split("\n\n")]
    parsed = [_STRICT.parse(" ".join(one.split())) for one in texts]
    headline, *paragraphs = (_STRICT.from_string(one) for one in parsed)
    names = frozenset().union(*map(meta.find_undeclared_variables, parsed))
    example = message.get("example", "")
    return _Message(headline, tuple(paragraphs), example, names & _NAMES.keys())


@cache
def _tables(file: str) -> dict[str, dict[str, str]]:
    return tomllib.loads(resources.files(__package__).joinpath(file).read_text("utf-8"))


def say(
    name: str,
    approval: Approval,
    directory: Directory,
    reader: str = "",
    *,
    example: str = "",
    **values: object,
) -> RenderedMessage:
    """Return a message about a request.

    Its headline begins with the title that the policy gives the request, if the reader may see it.

    Args:
        name: The name in `messages.toml`.
        approval: The request.
        directory: The people.
        reader: The id of the reader, "" for everybody who sees the card in a shared place.
        example: A valid answer, "" for the example of the message.
        values: Further variables of the templates. Text from others must be harmless: see
            `harmless`.
    """
    message, title = _message(name), _title(approval, directory, reader)
    about = _About(approval, directory, reader, title)
    named_here = {key: _NAMES[key](about) for key in message.names}
    return message.render({**named_here, **values}, title=title, example=example)


class _About(NamedTuple):
    """What a message is about, and who reads it."""

    approval: Approval
    directory: Directory
    reader: str
    title: str

    @property
    def it(self) -> str:
        return "it" if self.title else topic(self.approval)

    @property
    def asks_input(self) -> bool:
        return self.approval.kind is Kind.INPUT

    def at(self, when: datetime | None) -> str:
        return moment(when, self.directory.zone_of(self.reader))


_NAMES: Final[Mapping[str, Callable[[_About], object]]] = {
    "approval": lambda of: of.approval,
    "decision": lambda of: of.approval.decision,
    "titled": lambda of: bool(of.title),
    "it": lambda of: of.it,
    # The name of a tool is not capitalized.
    "It": lambda of: f"{of.it[:1].upper()}{of.it[1:]}" if of.title or of.asks_input else of.it,
    "about": lambda of: of.title or of.it,
    "verb": lambda of: _verb(of.approval),
    "yes": lambda of: of.approval.state is State.APPROVED,
    "asks_input": lambda of: of.asks_input,
    "ends_run": lambda of: of.asks_input and refusal_of_input(of.approval.call, "no") is None,
    "moment": lambda of: of.at,
    "until": lambda of: of.at(of.approval.deadline),
    "open_until": lambda of: _sentence("It is open until", of.at(of.approval.deadline)),
    "since": lambda of: of.at(of.approval.since),
    "so_far": lambda of: _sentence("So far", progress(of.approval, of.directory)),
    "level": lambda of: _level(of.approval, of.directory),
    "requester": lambda of: called(of.approval.origin.user, of.directory),
    "said": lambda of: quoted(of.approval.comments[-1].text) if of.approval.comments else "",
}
"""The variables that every template can use."""


def say_plainly(name: str, **values: object) -> RenderedMessage:
    """Return a message that is not about a single request; see `say`."""
    return _message(name).render(values)


def is_shown_to(approval: Approval, reader: str, directory: Directory) -> bool:
    """Return whether a reader may see the request: they were asked, informed or concerned.

    An empty reader stands for everybody who sees the card in a shared place.
    """
    person = directory.get(reader)
    asked = any(one.person == reader for one in approval.asked) or reader in approval.informed
    return asked or (person is not None and approval.concerns(person, directory))


def called(identity: str, directory: Directory) -> str:
    """Return the name of a person; an unknown id is returned unchanged."""
    return one_line(directory.shown(identity))


def moment(at: datetime | None, zone: tzinfo) -> str:
    """Format a time in the reader's time zone: ``Tue 3 Mar 2026, 15:05 CET``.

    None becomes "". See `Directory.zone_of`.
    """
    return "" if at is None else moment_text(at, zone)


def one_paragraph(text: str) -> str:
    """Return text that may contain words of others on one line, safe to quote."""
    return harmless(one_line(text))


def quoted(text: str) -> str:
    """Return somebody's words as one paragraph, in which they never begin a line."""
    return one_paragraph(f"“{' '.join(text.split())}”")


def harmless(text: str) -> str:
    """Mark every line that reads as an answer on its own, so that a quotation decides nothing.

    Invisible characters are written as escapes, because some of them end a line. Reading thousands
    of lines takes seconds, so after the first hundred every line that begins like an answer is
    marked.
    """
    # Pages use this module too, and need no reader of replies.
    from signoff.core.replies.reading import is_reply, may_be_reply  # noqa: PLC0415

    lines = visible(text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    suspects = [at for at, line in enumerate(lines) if may_be_reply(line)]
    for count, at in enumerate(suspects):
        if count >= _MOST_READ or is_reply(lines[at]):
            lines[at] = _MARK + lines[at]
    return "\n".join(lines)


def _title(approval: Approval, directory: Directory, reader: str) -> str:
    terms = approval.terms
    if terms is None or not terms.title or not is_shown_to(approval, reader, directory):
        return ""
    shape = card(approval, directory)
    return shape.title if shape.titled else ""


def _sentence(start: str, rest: str) -> str:
    return f"{start} {rest}." if rest else ""


def _verb(approval: Approval) -> str:
    if approval.kind is Kind.INPUT and approval.state is State.APPROVED:
        return "answered"
    return approval.state.value.replace("_", " ")


def _level(approval: Approval, directory: Directory) -> str:
    """Return the policy's name for the current level, or the people who are asked there."""
    levels = approval.terms.levels if approval.terms is not None else ()
    name = levels[approval.level].name if approval.level < len(levels) else ""
    return one_line(name) or named([called(one, directory) for one in approval.ballot.own])
