"""Every language has every table, and each table keeps to its role."""

from __future__ import annotations

import itertools
import tomllib
from importlib import resources
from typing import Any

import pytest

from signoff.core.lexicon import languages
from signoff.core.lexicon.languages import (
    CODES,
    LexiconFile,
    Role,
    language,
    stems,
)
from signoff.core.lexicon.patterns import Phrases
from signoff.core.lexicon.tokens import MARKS, NEWLINE, Token, tokenize
from signoff.core.replies.grammar import Reader, readers_of
from signoff.core.replies.reading import read_reply
from signoff.core.replies.reply import Approve, Reject, Unclear
from signoff.core.replies.text import Names, ReplyContext, Text

MARA = ReplyContext(author=Names(["Mara"]))


def raw(code: str) -> dict[str, Any]:
    """Return a file as raw TOML."""
    folder = resources.files(languages.__package__ or "")
    return tomllib.loads(folder.joinpath(f"{code}.toml").read_text("utf-8"))


def samples(patterns: tuple[str, ...], file: LexiconFile) -> list[str]:
    """Return some of the phrases that the patterns match."""
    noun = "" if patterns == file.answers.object else samples(file.answers.object, file)[0]
    spelt = (text for line in patterns for text in _spell(line, noun, file.parts))
    return [text for text in spelt if text.strip(" ,")]


def is_yes(text: str) -> bool:
    """Say whether a text is one phrase that some language's lexicon lists as a yes."""
    tokens = tokenize(text)
    found = (one for code in CODES for one in language(code).phrases.at(tokens, 0, _no_slots))
    return any(one.role == Role.YES and one.end == len(tokens) for one in found)


@pytest.mark.parametrize("code", CODES)
def test_each_phrase_has_a_word(code: str) -> None:
    """Each phrase has a word; a language without a word in the text need not read it."""
    own, signs = language(code), [*sorted(MARKS), NEWLINE]
    for mark in signs:
        tokens = [Token(one, 0, 0) for other in signs for one in (mark, other, "qx")]
        found = [own.phrases.at(tokens, at, _next) for at in range(len(tokens))]
        assert not any(found)


@pytest.mark.parametrize("code", [one for one in CODES if one != "en"])
def test_language_without_a_word_in_the_text_is_skipped(code: str) -> None:
    """A language without a word in the text is skipped and changes no result."""
    for other in CODES:
        file = language(other).file
        for line in samples(file.answers.yes, file)[::7]:
            text = Text(line)
            if language(code).words.isdisjoint(token.text for token in text.tokens):
                assert code not in [one.languages[-1].code for one in readers_of(text, MARA)]
                assert Reader(text, MARA, code).parse() == Reader(text, MARA, "en").parse()


def _next(slot: str, at: int) -> tuple[int, ...]:
    return (at + 1,)


def _no_slots(slot: str, at: int) -> tuple[int, ...]:
    return ()


def _spell(line: str, noun: str, parts: dict[str, str]) -> list[str]:
    while "<" in line:
        head, _, rest = line.partition("<")
        name, _, tail = rest.partition(">")
        line = f"{head}{parts[name]}{tail}"
    line = line.replace("{object}", noun).replace("{me}", "Mara")
    return ["".join(words) for words in itertools.islice(itertools.product(*_options(line)), 8)]


def _options(line: str) -> list[list[str]]:
    found: list[list[str]] = []
    at = 0
    while at < len(line):
        if line[at] in "([":
            depth, end = 1, at + 1
            while depth:
                depth += (line[end] in "([") - (line[end] in ")]")
                end += 1
            inner = line[at + 1 : end - 1]
            choices = [word for option in _bars(inner) for word in _joined(option)]
            found.append(([""] if line[at] == "[" else []) + choices[:4])
            at = end
        else:
            end = min(
                (one for one in (line.find("(", at), line.find("[", at)) if one >= 0),
                default=len(line),
            )
            found.append([line[at:end]])
            at = end
    return found


def _joined(option: str) -> list[str]:
    return ["".join(words) for words in itertools.islice(itertools.product(*_options(option)), 3)]


def _bars(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, mark in enumerate(text):
        depth += (mark in "([") - (mark in ")]")
        if mark == "|" and not depth:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def test_lexicon_has_a_file_for_each_documented_language() -> None:
    """The README names ten languages; these are they."""
    folder = resources.files(languages.__package__ or "")
    files = [entry.name for entry in folder.iterdir() if entry.name.endswith(".toml")]
    names = {name.removesuffix(".toml") for name in files}
    assert names == {*CODES, "devices", "remarks", "topics"}
    assert len(CODES) == 10


@pytest.mark.parametrize("code", CODES)
def test_a_file_is_complete(code: str) -> None:
    """Each language has every table, every command topic, and patterns that can be read."""
    file = LexiconFile.model_validate(raw(code))
    assert set(file.topics) == set(stems())
    assert language(code).phrases.words()
    assert language(code).nouns.words()


@pytest.mark.parametrize("code", CODES)
def test_each_verdict_phrase_alone_is_read_as_its_verdict(code: str) -> None:
    """A phrase that is a yes or a no alone is read as an approval or a rejection."""
    file = language(code).file
    for patterns, kind in (
        (file.answers.yes, Approve),
        (file.answers.no, Reject),
        (file.answers.no_alone, Reject),
    ):
        for text in samples(patterns, file):
            # Praise alone is asked back.
            assert text in file.praises or isinstance(read_reply(text, MARA), kind), text


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("table", ["courtesy", "thanks", "object", "greeting", "closing"])
def test_courtesies_and_closings_decide_nothing(code: str, table: str) -> None:
    """Courtesies, objects and closings decide nothing, unless another table lists them as a yes.

    "Prima" is a courtesy in German and a yes in Dutch.
    """
    file = language(code).file
    for text in samples(getattr(file.answers, table), file):
        if not is_yes(text.strip(" ,、。")):
            assert not isinstance(read_reply(text), Approve | Reject), text


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("table", ["take_back", "unsure", "condition"])
def test_restriction_beside_a_yes_makes_the_answer_unclear(code: str, table: str) -> None:
    """Beside a yes, "wait", "not yet" and "only if" make the answer unclear."""
    file = language(code).file
    for text in samples(getattr(file.after_a_no, table), file):
        assert not isinstance(read_reply(f"approve, {text}"), Approve), text


@pytest.mark.parametrize("code", CODES)
def test_command_words_are_not_verdicts_in_any_language(code: str) -> None:
    """The words for "claim", "remind", "withdraw" and so on are commands in every language."""
    file = language(code).file
    for role in ("claim", "release", "remind", "withdraw", "revoke", "back"):
        for text in samples(getattr(file.commands, role), file):
            if "{" not in text:
                assert type(read_reply(text)).__name__.lower() == role, text


@pytest.mark.parametrize("code", CODES)
def test_a_note_can_be_declared(code: str) -> None:
    """Every language has words for "note:"."""
    file = language(code).file
    for word in samples(file.answers.note, file):
        reply = read_reply(f"approve\n{word}: X 1")
        assert isinstance(reply, Approve), word
        assert reply.note == "X 1"


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("approve(d|)", "needs a space"),
        ("(approve", "does not close"),
        ("{object", "no '}'"),
        ("<nothing>", "is no part"),
        ("[a] [b]", "matches nothing at all"),
        ("<self>", "in a circle"),
    ],
)
def test_a_pattern_that_cannot_be_read_is_named(pattern: str, problem: str) -> None:
    """The error names the faulty pattern, so that the author of the file finds it."""
    with pytest.raises(ValueError, match="pattern") as caught:
        Phrases({"yes": [pattern]}, {"self": "a <self>"})
    assert problem in str(caught.value)
    assert pattern in str(caught.value) or "circle" in problem


def test_pattern_expands_to_all_its_forms() -> None:
    """A pattern may have choices, optional words, slots, and scripts without spaces."""
    phrases = Phrases(
        {"yes": ["[i] (approve|accept) [it]", "承認(します|する)", "für mich"]}, umlauts=True
    )
    for text in (
        "approve",
        "i accept it",
        "承認します",
        "承認 する",
        "für mich",
        "fuer mich",
        "FUR MICH",
    ):
        tokens = tokenize(text)
        assert any(
            found.end == len(tokens) for found in phrases.at(tokens, 0, lambda slot, at: ())
        ), text
    assert not phrases.at(tokenize("it"), 0, lambda slot, at: ())


def test_an_unclear_reply_is_unclear_in_every_language() -> None:
    """Words that are in no lexicon get a question back that explains how to answer."""
    assert isinstance(read_reply("zxqv"), Unclear)
