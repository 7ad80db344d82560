"""The answer to a request for input that has no schema: text or JSON, as a person writes it."""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from signoff.core.base.errors import PayloadError
from signoff.core.base.text import brief, clean_text
from signoff.core.lexicon.languages import Role, negations
from signoff.core.payloads.payload import LONE_FIELD, parse_values
from signoff.core.replies.commands import read_command
from signoff.core.replies.grammar import Reader, readers_of
from signoff.core.replies.reading import read_reply
from signoff.core.replies.refusals import says_no
from signoff.core.replies.reply import Approve, Reject, Reply, Unclear
from signoff.core.replies.text import ReplyContext, Text

_ROUND_QUOTES: Final = {ord(mark): '"' for mark in "“”„‟"}
_JSON: Final = ("{", "[", '"', "“", "„")
_DENIALS: Final = (Role.NO, Role.NO_ALONE, Role.TAKE_BACK, Role.UNSURE)
_THESE_WORDS: Final = f"To answer with these very words, write `{LONE_FIELD}:` in front of them."


def read_free_reply(text: str, context: ReplyContext) -> Reply:
    """Read a reply to a request without a schema: words without another meaning are the answer.

    The answer may follow ``value:``. Without it, the reply is unclear if it is a question, or may
    be a yes, a no or a command.

    Args:
        text: The person's own words; the channel has removed quoted mail.
        context: The context of the request.

    Returns:
        `Approve` or `Reject` with the answer as the value of the only field, or another kind of
        reply.
    """
    words = Text(text)
    readers = readers_of(words, context)
    own = _own_words(words, readers)
    named = own.casefold().startswith(f"{LONE_FIELD}:")
    answer = own.partition(":")[2].strip() if named else own
    value = _value(answer)
    if answer and (named or not isinstance(value, str)):
        return _answer(value)
    reply = read_reply(text, context)
    if not isinstance(reply, Unclear) or words.cut:
        return reply
    if reply.seems:
        return reply.model_copy(update={"problem": f"{reply.problem} {_THESE_WORDS}"})
    if not answer or any(read_command(one, lambda _: False) is not None for one in readers):
        return reply
    problem = _problem(answer, readers)
    return Unclear(problem=problem, parts=reply.parts) if problem else _answer(value)


def _own_words(words: Text, readers: list[Reader]) -> str:
    """Return the text without the greeting and the signature."""
    begin = max(
        at for one in readers for at in one.openings() if at == len(words) or words.begins_line(at)
    )
    end = min(one.signature_from(begin) for one in readers)
    return words.words(begin, end).strip()


def _value(words: str) -> JsonValue:
    """Return the JSON value of a text, or the text if it is not JSON."""
    # Mail programs replace straight quotes with curly ones.
    typed = words.translate(_ROUND_QUOTES) if words.startswith(_JSON) else words
    try:
        value = parse_values({LONE_FIELD: None}, {LONE_FIELD: typed})[LONE_FIELD]
    except PayloadError:
        return words
    return clean_text(words).strip() if isinstance(value, str) and value == typed else value


def _answer(value: JsonValue) -> Reply:
    values = {LONE_FIELD: value}
    return Reject(values=values) if says_no(value) else Approve(values=values)


def _problem(answer: str, readers: list[Reader]) -> str:
    """Return why words do not count as the answer, "" if they do."""
    why = ""
    if answer.startswith(("{", "[")):
        why = "begins like JSON, but is not JSON"
    elif answer.endswith(("?", "？", "؟")):
        why = "is a question"
    elif any(_may_be_a_no(one) for one in readers):
        why = "may be a no"
    return why and (
        f'"{brief(answer)}" {why}, so it does not count as the answer. {_THESE_WORDS} To say no, '
        "reply `reject`."
    )


def _may_be_a_no(reader: Reader) -> bool:
    return any(
        token.text in negations() or reader.longest(at, *_DENIALS) is not None
        for at, token in enumerate(reader.text.tokens)
    )
