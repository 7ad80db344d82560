"""The messages that every channel uses, from `messages.toml`: what a person is told, by name."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import cache, partial
from importlib import resources
from typing import Final

from jinja2 import Environment, StrictUndefined, Template, meta

from signoff.core.approvals.answers import refusal_of_input
from signoff.core.approvals.approval import Approval, Kind, State
from signoff.core.base.moments import moment_text
from signoff.core.base.shown_text import visible
from signoff.core.cards.card import card, named, one_line, progress, topic
from signoff.core.directory.people import Directory
from signoff.core.replies.reading import is_reply, may_be_reply

_MARK = "↳ "
_MOST_READ = 100


@dataclass(frozen=True, slots=True)
class Words:
    """What a message says.

    Attributes:
        sentence: All of it in one sentence.
        text: The rest, paragraphs separated by blank lines.
        example: An answer that would work, "" where none is expected.
        title: What the policy calls the request; "" where it has no title, or not for the reader.
    """

    sentence: str
    text: str = ""
    example: str = ""
    title: str = ""

    @property
    def headline(self) -> str:
        """What a subject, a push message and a page begin with: the title where there is one."""
        return f"{self.title} – {self.sentence}" if self.title else self.sentence


@dataclass(frozen=True, slots=True)
class _Message:
    """A message of the file.

    Attributes:
        headline: The template of its headline.
        paragraphs: Those of its paragraphs.
        example: An answer that would work.
        names: What the templates name.
    """

    headline: Template
    paragraphs: tuple[Template, ...]
    example: str
    names: frozenset[str]

    def render(self, values: dict[str, object]) -> Words:
        # One context for all: to make one takes longer than to render most paragraphs.
        context = self.headline.new_context(values)
        headline, *paragraphs = (
            "".join(one.root_render_func(context)).strip()
            for one in (self.headline, *self.paragraphs)
        )
        return Words(headline, "\n\n".join(filter(None, paragraphs)), self.example)


# Mail and pages escape it themselves, and Slack shows it as plain text.
_STRICT: Final = Environment(autoescape=False, undefined=StrictUndefined)  # noqa: S701
_LENIENT: Final = Environment(autoescape=False)  # noqa: S701
# No sentence calls Jinja's own functions, and each rendering would copy them.
_STRICT.globals.clear()


# Each is compiled when it is first said: all of them would keep every command waiting.
@cache
def sentence(file: str, table: str, name: str) -> Template | None:
    """Return a sentence of a file beside this one, None for no such; unknown names in it are "".

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
    return _Message(headline, tuple(paragraphs), message.get("example", ""), names)


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
) -> Words:
    """Return a message about a request.

    Its headline begins with the title that the policy gives the request, if the reader may see it.

    Args:
        name: As in `messages.toml`.
        approval: The request.
        directory: The people.
        reader: The id of the person who reads it, "" for all who see its card in a place.
        example: An answer that would work, "" for that of the message.
        values: What else the templates name. Text of others has to be harmless: see `harmless`.
    """
    message, at = _message(name), partial(moment, zone=directory.zone_of(reader))
    title, it = _title(approval, directory, reader), topic(approval)
    shown = "it" if title else it
    asks_input = approval.kind is Kind.INPUT
    could_name: dict[str, Callable[[], object]] = {
        "approval": lambda: approval,
        "decision": lambda: approval.decision,
        "titled": lambda: bool(title),
        "it": lambda: shown,
        # The name of a tool stays as it is.
        "It": lambda: f"{shown[:1].upper()}{shown[1:]}" if title or asks_input else shown,
        "about": lambda: title or it,
        "verb": lambda: _verb(approval),
        "yes": lambda: approval.state is State.APPROVED,
        "asks_input": lambda: asks_input,
        "ends_run": lambda: asks_input and refusal_of_input(approval.call, "no") is None,
        "moment": lambda: at,
        "until": lambda: at(approval.deadline),
        "open_until": lambda: _sentence("It is open until", at(approval.deadline)),
        "since": lambda: at(approval.since),
        "so_far": lambda: _sentence("So far", progress(approval, directory)),
        "level": lambda: _level(approval, directory),
        "requester": lambda: called(approval.origin.user, directory),
        "said": lambda: quoted(approval.comments[-1].text) if approval.comments else "",
    }
    named_here = {key: make() for key, make in could_name.items() if key in message.names}
    words = message.render({**named_here, **values})
    return replace(words, title=title, example=example or words.example)


def say_plainly(name: str, **values: object) -> Words:
    """Return a message that is about no single request; see `say`."""
    return _message(name).render(values)


def is_shown_to(approval: Approval, reader: str, directory: Directory) -> bool:
    """Say whether somebody may read what is requested: they were asked, informed or concerned.

    Args:
        approval: The request.
        reader: The id of the person, "" for all who see its card in a place.
        directory: The people.
    """
    person = directory.get(reader)
    asked = any(one.person == reader for one in approval.asked) or reader in approval.informed
    return asked or (person is not None and approval.concerns(person, directory))


def called(identity: str, directory: Directory) -> str:
    """Name somebody; an id that is nobody's stays as it is."""
    return one_line(directory.shown(identity))


def moment(at: datetime | None, zone: tzinfo) -> str:
    """Write a moment for people, in the time zone of the reader: ``Tue 3 Mar 2026, 15:05 CET``.

    See `Directory.zone_of`. None is "".
    """
    return "" if at is None else moment_text(at, zone)


def one_paragraph(text: str) -> str:
    """Return text that may hold words of others on one line, and harmless to be quoted."""
    return harmless(one_line(text))


def quoted(text: str) -> str:
    """Return what somebody said as one paragraph of ours: none of it begins a line."""
    return one_paragraph(f"“{' '.join(text.split())}”")


def harmless(text: str) -> str:
    """Mark every line that alone would be read as an answer, so that quoting it answers nothing.

    Characters that nobody sees are written as escapes; some of them end a line. To read thousands
    of lines takes seconds: beyond the first hundred, each that only begins like one is marked.
    """
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
    """Return what the policy calls the present level, or who is asked there."""
    levels = approval.terms.levels if approval.terms is not None else ()
    name = levels[approval.level].name if approval.level < len(levels) else ""
    return one_line(name) or named([called(one, directory) for one in approval.ballot.own])
