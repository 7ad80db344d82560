"""Finds words in the reason of an approval that contradict it: "only up to 500", "ask Anna first".

A person who presses a button writes freely beside it, so the rule of a reply does not fit: what is
not known is harmless here. Only words that read as a no, a condition, a limit, another deed or a
delay are asked back. They are in `remarks.toml` of the lexicon.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import Final

from signoff.core.lexicon.languages import CODES, Role, language, remark_phrases
from signoff.core.lexicon.tokens import MARKS, NEWLINE, Token, is_spaceless
from signoff.core.replies.grammar import Piece, Reader
from signoff.core.replies.text import ReplyContext, Text

_ENDS: Final = MARKS | {NEWLINE} | set("?¿;/()[]？")
_CURRENCIES: Final = frozenset(
    (
        *("€", "$", "£", "¥", "%", "k", "usd", "eur", "euro", "euros", "gbp", "chf", "jpy", "krw"),
        *("cny", "dollar", "dollars", "dolares", "dollari", "percent", "prozent", "円", "元", "원"),
    )
)
_QUESTION_MARKS: Final = "?？"
_YES: Final = frozenset({"sí", "sì"})
_KNOWN: Final = (Role.YES, Role.THANKS, Role.COURTESY, Role.REPORT, Role.GREETING, Role.CLOSING)
_MOST_OF_AN_AMOUNT: Final = 8


@lru_cache(maxsize=256)
def contradiction(reason: str) -> str:
    """Return the clause of a reason that contradicts an approval, "" if there is none."""
    text = Text(reason)
    if text.cut:
        # The first line may be empty, and the end may contradict.
        return text.line(0) or reason
    if not text.tokens:
        return ""
    tokens = _told_apart(text)
    likely = [_Found(reader, tokens) for reader in _likely(text)]
    harmless = [span for one in likely for span in one.harmless()]
    for one in likely:
        at = next(one.doubts(harmless), None)
        if at is not None:
            return text.words(*_clause(text, at))
    return ""


def _likely(text: Text) -> list[Reader]:
    """Return readers of English and of the languages that have about the most words of a text.

    "Se" means "if" in two languages and "himself" in a third one.
    """
    words = {one.text for one in text.tokens}
    known = {code: len(words & _vocabulary(code)) for code in CODES}
    most = max(known.values())
    likely = [code for code, count in known.items() if count and count >= most - 1]
    return [Reader(text, ReplyContext(), code) for code in dict.fromkeys(("en", *likely))]


def _told_apart(text: Text) -> tuple[Token, ...]:
    """Return the tokens, without accents but for a "sí" that is not the "si" of a condition."""
    return tuple(
        one._replace(text=word) if word in _YES else one
        for one in text.tokens
        for word in (text.text[one.start : one.end].casefold(),)
    )


@lru_cache(maxsize=16)
def _vocabulary(code: str) -> frozenset[str]:
    return language(code).words | remark_phrases(code).words()


class _Found:
    """The phrases that a reader finds in a reason.

    Args:
        reader: The reader of one language.
        tokens: The tokens, from `_told_apart`.
    """

    def __init__(self, reader: Reader, tokens: tuple[Token, ...]) -> None:
        self._reader = reader
        self._text = reader.text
        phrases, ends = remark_phrases(reader.languages[-1].code), partial(_ends, reader)
        self._found = [phrases.at(tokens, at, ends) for at in range(len(tokens))]
        self._openings = self._clauses()

    def harmless(self) -> Iterator[tuple[int, int]]:
        """Yield the words that mean nothing: everyday phrases, and what may be beside a yes.

        A single word of the latter means something else before others: "prima chiedi ad Anna".
        """
        reader = self._reader
        for at, some in enumerate(self._found):
            yield from ((at, one.end) for one in some if one.role == "harmless")
            spaceless = is_spaceless(self._text.tokens[at].text[0])
            known = reader.longest(at, *_KNOWN) if spaceless or at in self._openings else None
            if known is None:
                continue
            if reader.is_with_something(Piece(Role.YES, at, known.end, known.slots)):
                continue
            if spaceless or known.end > at + 1 or _is_end(self._text, known.end):
                yield at, known.end

    def doubts(self, harmless: Iterable[tuple[int, int]]) -> Iterator[int]:
        """Yield the tokens at which words begin that contradict a yes."""
        for at in range(len(self._found)):
            if _asks(self._text, at) or any(
                not _is_covered(at, end, harmless) for end in self._contradictions(at)
            ):
                yield at

    def _contradictions(self, at: int) -> Iterator[int]:
        """Yield where words end that contradict a yes and begin at a token."""
        opens = at in self._openings
        for one in self._found[at]:
            if (
                one.role == "any"
                or (one.role == "opens" and opens)
                or (one.role == "ends" and _is_end(self._text, one.end))
                or (one.role == "now" and not self._tells_the_past(at))
            ):
                yield one.end
        if opens:
            yield from _denials(self._reader, at)

    def _tells_the_past(self, at: int) -> bool:
        """Say whether the clause around a token reports something: "we sent the wrong size"."""
        start = end = at
        while start > 0 and not _is_end(self._text, start - 1):
            start -= 1
        while not _is_end(self._text, end):
            end += 1
        return any(one.role == "past" for some in self._found[start:end] for one in some)

    def _clauses(self) -> frozenset[int]:
        """Return where clauses begin: after a mark, and after words such as "ok, but please"."""
        text, tokens = self._text, self._text.tokens
        begins: set[int] = set()
        for at, token in enumerate(tokens):
            if token.text in _ENDS:
                continue
            if at == 0 or (tokens[at - 1].text in _ENDS and text.is_boundary(at - 1)):
                begins.add(at)
            if at not in begins:
                continue
            begins |= {one.end for one in self._found[at] if one.role == "leads"}
            said = self._reader.longest(at, Role.YES, Role.THANKS, Role.COURTESY, Role.GREETING)
            if said is not None:
                begins.add(said.end)
        return frozenset(begins)


def _asks(text: Text, at: int) -> bool:
    """Say whether a question ends at a token; the "?" of an address is glued to its next word."""
    if text.tokens[at].text not in _QUESTION_MARKS:
        return False
    glued = at + 1 < len(text) and text.tokens[at].end == text.tokens[at + 1].start
    return not glued or not text.tokens[at + 1].text.isalnum()


def _denials(reader: Reader, at: int) -> Iterator[int]:
    """Yield where a no, or words that take a yes back, end."""
    no = reader.longest(at, Role.NO)
    if no is not None:
        yield no.end
    for role in (Role.NO_ALONE, Role.TAKE_BACK):
        alone = reader.longest(at, role)
        if alone is not None and _is_end(reader.text, alone.end):
            yield alone.end


def _ends(reader: Reader, slot: str, at: int) -> Iterable[int]:
    """Return where a slot of a remark may end: an amount, a word, or what the reader knows."""
    tokens = reader.text.tokens
    if at >= len(tokens):
        return ()
    if slot == "word":
        return (at + 1,) if tokens[at].text[0].isalnum() else ()
    if slot != "amount":
        return reader.ends(slot, at)
    phrases = remark_phrases(reader.languages[-1].code)
    numbers = [one.end for one in phrases.at(tokens, at, _no_slots) if one.role == "numbers"]
    if numbers:
        return numbers
    end = at
    while end < len(tokens) and tokens[end].text in _CURRENCIES:
        end += 1
    first = end
    if end >= len(tokens) or not tokens[end].text.isdecimal():
        return ()
    while end < min(len(tokens), first + _MOST_OF_AN_AMOUNT) and (
        tokens[end].text.isdecimal()
        or tokens[end].text in _CURRENCIES
        or (
            tokens[end].text in ".,'"
            and end + 1 < len(tokens)
            and tokens[end + 1].text.isdecimal()
            and tokens[end + 1].start == tokens[end].end
        )
    ):
        end += 1
    return (end,)


def _no_slots(slot: str, at: int) -> tuple[int, ...]:
    return ()


def _is_end(text: Text, at: int) -> bool:
    return at >= len(text) or text.is_boundary(at) or text.tokens[at].text in _ENDS


def _is_covered(start: int, end: int, harmless: Iterable[tuple[int, int]]) -> bool:
    """Say whether words belong to a longer phrase that is harmless."""
    return any(first <= start and end <= last for first, last in harmless)


def _clause(text: Text, at: int) -> tuple[int, int]:
    """Return the first token of a clause, and the one after its last."""
    start, end = at, at + 1
    stops = {".", "!", "。", ";", NEWLINE}
    while start > 0 and text.tokens[start - 1].text not in stops:
        start -= 1
    while end < len(text) and text.tokens[end].text not in stops:
        end += 1
    return start, end
