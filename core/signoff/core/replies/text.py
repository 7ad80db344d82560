"""The text of a reply, prepared for parsing, and the context of the request that it answers."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from pydantic import JsonValue

from signoff.core.lexicon.tokens import (
    MARKS,
    NEWLINE,
    Token,
    phrase_tokens,
    tokenize,
    unwrapped,
)

LONGEST_TEXT: Final = 16 * 1024
MOST_LINES: Final = 200
MOST_TOKENS: Final = 1_500
"""The most tokens of an answer that are parsed."""


class Names:
    """Names of people, which are found in a text word by word.

    Args:
        names: Full names. Single letters such as initials are ignored.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._words: dict[str, set[tuple[str, ...]]] = {}
        for name in names:
            for word in (*name.split(), *name.replace(".", " ").replace("-", " ").split()):
                tokens = tuple(one for one in phrase_tokens(word) if one not in MARKS)
                if sum(map(len, tokens)) > 1:
                    self._words.setdefault(tokens[0], set()).add(tokens)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Yield the words of the names, each as its tokens."""
        return (word for words in self._words.values() for word in words)

    def word_at(self, tokens: Sequence[Token], at: int) -> int:
        """Return the number of tokens of the name at a token, 0 if no name begins there."""
        if at >= len(tokens):
            return 0
        return max(
            (
                len(word)
                for word in self._words.get(tokens[at].text, ())
                if tuple(token.text for token in tokens[at : at + len(word)]) == word
            ),
            default=0,
        )


@dataclass(frozen=True, slots=True)
class ReplyContext:
    """The context of a request, for reading a reply to it.

    Attributes:
        fields: The fields that an approval may fill in: the payload template, or the arguments that
            a person may propose to change. None without fields.
        proposes: Whether the fields are arguments.
        currencies: The currencies of the fields that are amounts of money.
        called: The names of the request on the card, such as the tool and the app. If it is empty,
            every usual noun can mean the request.
        people: The names that a reply may address: of the directory, the agent and the requester.
        author: The names of the person who replies.
    """

    fields: JsonValue = None
    proposes: bool = False
    currencies: Mapping[str, str] = field(default_factory=dict)
    called: tuple[str, ...] = ()
    people: tuple[Names, ...] = ()
    author: Names = field(default_factory=Names)


class Text:
    """A text with its tokens and lines.

    Args:
        text: The person's own words.
    """

    def __init__(self, text: str) -> None:
        plain = text[:LONGEST_TEXT].replace("\r\n", "\n").replace("\r", "\n")
        kept = plain.split("\n", MOST_LINES)
        self.cut = len(text) > LONGEST_TEXT or len(kept) > MOST_LINES
        composed = unicodedata.normalize("NFC", "\n".join(kept[:MOST_LINES]))
        self.text = unwrapped("\n".join(line.rstrip() for line in composed.split("\n")).strip("\n"))
        tokens = tokenize(self.text)
        self.cut = self.cut or len(tokens) > MOST_TOKENS
        self.tokens: tuple[Token, ...] = tokens[:MOST_TOKENS]

    def __len__(self) -> int:
        return len(self.tokens)

    def replaced(self, tokens: Iterable[Token]) -> Text:
        """Return this text with other tokens at the same places."""
        other = copy(self)
        other.tokens = tuple(tokens)
        return other

    @cached_property
    def newlines(self) -> list[int]:
        """The indexes of the tokens that are line ends."""
        return [at for at, token in enumerate(self.tokens) if token.text == NEWLINE]

    def line_end(self, at: int) -> int:
        """Return the index of the next line end, at a token or after it."""
        found = bisect_left(self.newlines, at)
        return self.newlines[found] if found < len(self.newlines) else len(self.tokens)

    @cached_property
    def _beginnings(self) -> list[bool]:
        found, first = [], True
        for token in self.tokens:
            found.append(first)
            first = token.text == NEWLINE or (first and token.text in MARKS)
        return [*found, first]

    def begins_line(self, at: int) -> bool:
        """Say whether a token is the first of its line, not counting marks."""
        return self._beginnings[at]

    def is_boundary(self, at: int) -> bool:
        """Say whether a token is a mark, a line end, or the end of the text.

        A mark between two letters is not a boundary: "approved_days", "no-show".
        """
        if at >= len(self.tokens):
            return True
        token = self.tokens[at]
        if token.text not in MARKS:
            return token.text == NEWLINE
        inside = token.text in "_-.'" and self.text[token.end : token.end + 1].isalnum()
        return not (inside and self.text[token.start - 1 : token.start].isalnum())

    def words(self, start: int, end: int) -> str:
        """Return the original text from one token to the end before another."""
        if start >= end:
            return ""
        return self.text[self.tokens[start].start : self.tokens[end - 1].end]

    def line(self, at: int) -> str:
        """Return the original text of the line, from a token on."""
        start = self.tokens[at].start
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]

    def is_last_of_line(self, at: int) -> bool:
        """Say whether only marks follow on the line, from a token on."""
        return all(token.text in MARKS for token in self.tokens[at : self.line_end(at)])

    def whole_line(self, at: int) -> str:
        """Return the original text of the line of a token."""
        start = self.text.rfind("\n", 0, self.tokens[at].start) + 1
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]
