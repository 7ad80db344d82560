"""Separates the lines that the person wrote from the other lines of a mail.

Mail programs mark quotations in dozens of ways, and rules cannot find them all. So every line is of
one of three kinds: certainly the person's, certainly not, or uncertain. A mail with uncertain words
has a `Reply.doubt`, and decides nothing.

- Lines after ">" are quoted. The person wrote the text between or below them (bottom posting).
- "On Monday, Ada wrote:" is removed. If no ">" follows, everything below is removed, too.
- A copied header block, a heading such as "-----Original Message-----", the heading of GroupWise,
  and our own cut marker end the person's text. An answer below them is uncertain, if it is none of
  the lines that we sent: the person may have written it into the quotation.
- Below a horizontal rule there is a quotation, a signature, or more of the person's text. This is
  uncertain, unless one of the above or the person's name follows.
- A line directly below a long quoted line is uncertain: it is the wrapped rest of it or an answer.
- A signature (below "-- ", or "Sent from my iPhone") is not an answer, nor is text that mail
  systems add. A postscript in it is the person's text; a yes, no or condition in it is uncertain.

It takes one pass, with a bounded look-ahead of a few lines, and without regular expressions.
"""

import unicodedata
from collections.abc import Collection, Iterator, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from signoff.channels.email.parsing.additions import (
    banner_length,
    is_afterthought,
    notice_length,
    without_tag,
)
from signoff.channels.email.parsing.quote_markers import (
    after_attribution,
    before_attribution,
    begins_header_block,
    begins_marked_mail,
    is_between_rules,
    is_heading,
    is_quoted,
    may_be_quoted,
    quote_follows,
)
from signoff.channels.email.parsing.quote_phrases import SEPARATORS
from signoff.core.replies.devices import is_device_line
from signoff.core.replies.reading import is_reply, takes_back
from signoff.core.replies.remark import contradiction
from signoff.core.replies.signature import is_signature_line
from signoff.core.replies.text import Names

_QUESTION_MARKS: Final = ("?", "？", "؟")
QUESTION: Final = (
    "Your words are below a question that I did not ask, and may answer only that question. Send a "
    "new mail with your answer alone."
)
AMBIGUOUS: Final = (
    "I cannot tell which part of your mail you wrote and which part is quoted. Send a new reply "
    "with your answer on its first line and nothing quoted below it."
)
HIDDEN: Final = (
    "Part of the text of your mail may be hidden or shown in another order, so I cannot tell what "
    "you saw when you sent it. Send your answer again as plain text."
)
TOO_LONG: Final = (
    "Your mail is too long for me to read to its end. Send a new reply with your answer alone."
)

LONGEST_TEXT: Final = 64 * 1024
MOST_LINES: Final = 200

_MARKER_WORDS: Final = "reply above this line"
_WRAPPED: Final = 50
_LOOK_AHEAD: Final = 8
_SHORTEST_RULE: Final = 10
_MOST_NAMES: Final = 5
_LONGEST_NAME: Final = 80
_LONGEST_BEYOND: Final = 256 * 1024
_SIGNATURE_RULES: Final = frozenset({"--", "–", "__"})
_RULES: Final = frozenset("-–—_=*#~+ᐧ \t")
_REORDERING: Final = ("\N{LEFT-TO-RIGHT OVERRIDE}", "\N{RIGHT-TO-LEFT OVERRIDE}")


class Line(NamedTuple):
    """A line of a mail.

    Attributes:
        text: The text that is certainly in it.
        doubt: Why it may contain more text, in words for the person, or "".
        apart: Whether it may be part of a quotation.
        rule: Whether it is a horizontal rule.
    """

    text: str
    doubt: str = ""
    apart: bool = False
    rule: bool = False


class Reply(NamedTuple):
    """The text that a person wrote.

    Attributes:
        answer: The lines that are read as an answer, without quotations and signature.
        shown: The text for people to read: with the person's own quotations, and without those of
            their program.
        doubt: Why it is uncertain that they wrote this, in words for the person, or "".
        unsure: The uncertain words.
    """

    answer: str
    shown: str
    doubt: str = ""
    unsure: str = ""


class _Kind(Enum):
    TEXT = auto()
    QUOTE = auto()
    INTRODUCTION = auto()
    SIGNATURE = auto()
    AMBIGUOUS = auto()


class _Piece(NamedTuple):
    kind: _Kind
    text: str
    doubt: str = ""


def read_reply(
    text: str | Sequence[Line],
    sent_lines: Collection[str] = (),
    names: Collection[str] = (),
) -> Reply:
    """Separate the person's text from the rest of a mail.

    Args:
        text: The text of a mail, or its lines.
        sent_lines: Lines that we sent, which are removed even if they are not marked as quoted.
            They must not contain a line with which a person would answer.
        names: The words of the person's name, case-folded. A line with only these begins a
            signature.

    Returns:
        The person's lines, without blank lines at either end; "" if there are none.
    """
    lines = _lines_of(text) if isinstance(text, str) else text
    ours = {_comparable(line) for line in sent_lines} - {""}
    pieces = list(_Classifier(lines, ours, frozenset(names)).pieces())
    unsure = [one for one in pieces if one.kind in (_Kind.AMBIGUOUS, _Kind.QUOTE) and one.doubt]
    return Reply(
        _answer(pieces), _shown(pieces), _doubt(pieces), " ".join(one.text for one in unsure)
    )


def own_text(text: str, sent_lines: Collection[str] = ()) -> str:
    """Return the lines that are read as an answer: `read_reply`'s ``answer``."""
    return read_reply(text, sent_lines).answer


def has_words(text: str) -> bool:
    """Return whether a text has content: a letter, a digit, or a symbol other than box lines."""
    if text.isascii():
        return any(map(str.isalnum, text))
    return any(
        mark.isalnum() or (unicodedata.category(mark) == "So" and not "\u2500" <= mark <= "\u25ff")
        for mark in text
        if mark not in _RULES
    )


def is_name(text: str, names: frozenset[str]) -> bool:
    """Return whether a line is the person's name or a part of it; ``names`` are its words."""
    if not names or len(text) > _LONGEST_NAME:
        return False
    words = "".join(mark if mark.isalnum() else " " for mark in text.casefold()).split()
    return 0 < len(words) <= _MOST_NAMES and all(word in names for word in words)


def _goes_on(line: str, above: str) -> bool:
    """Return whether a line goes on with the answer above a signature: "but only up to 500".

    Mottos ("Only the best") begin with a capital letter, and are not the first line of a signature.
    """
    if _opens_signature(above):
        begins = not is_signature_line(line, Names(), first=False)
    else:
        begins = line[:1].islower() and len(above) < _WRAPPED
    return begins and len(line) <= _LONGEST_NAME and bool(contradiction(line))


def _doubt(pieces: list[_Piece]) -> str:
    return next((one.doubt for one in pieces if one.doubt), "")


class _Classifier:
    """Classifies the lines of one mail."""

    def __init__(self, lines: Sequence[Line], ours: set[str], names: frozenset[str]) -> None:
        self._lines, self._beyond = _capped(lines)
        self._texts = [_visible(line.text) for line in self._lines]
        self._ours = ours
        self._names = names
        self._quoted_length = 0
        # Whether the last quoted line is another person's question.
        self._asked = False
        # What was above: a warning, the person's text, their name, or their signature.
        self._warned = self._begun = self._named = self._signed = False
        # The line above in a signature.
        self._signed_above = ""
        # Whether the lines are a postscript below a signature.
        self._added = False
        # Whether everything from here on may be quoted.
        self._loose = False

    def pieces(self) -> Iterator[_Piece]:
        """Yield the classified lines, up to the end of the person's text."""
        at, texts = 0, self._texts
        while at < len(texts):
            if is_quoted(texts[at]):
                if not self._quoted_length:
                    if begins_marked_mail(texts, at):
                        return
                    if _introduces(texts[at : at + _LOOK_AHEAD]):
                        yield _Piece(_Kind.INTRODUCTION, "")
                yield _Piece(_Kind.QUOTE, texts[at])
                if quoted := texts[at].strip("> "):
                    ours = _comparable(quoted) in self._ours
                    self._asked = quoted.endswith(_QUESTION_MARKS) and not ours
                # A mark without text cannot have a wrapped rest.
                self._quoted_length, self._signed = len(texts[at].strip("> ")), False
                at += 1
                continue
            length = self._length_of_addition(at)
            for _ in range(length):
                yield _Piece(_Kind.SIGNATURE, texts[at])
                at, self._quoted_length = at + 1, 0
            if length:
                continue
            ends = _ends_own_text(texts, at)
            if ends:
                yield from self._answers_below(at)
                return
            self._split_attribution(at)
            after = after_attribution(texts, at)
            if after is not None:
                if not quote_follows(texts, after):
                    yield from self._answers_below(at)
                    return
                yield _Piece(_Kind.INTRODUCTION, texts[at])
                at, self._quoted_length, self._signed = after, 0, False
                continue
            self._loose = self._loose or ends is None
            yield from self._classified(at)
            at += 1
        if not self._signed and any(map(_says_more, self._beyond)):
            yield _Piece(_Kind.TEXT, "", TOO_LONG)

    def _answers_below(self, at: int) -> Iterator[_Piece]:
        """Yield the answers in an unmarked quotation of our mail, which has no such lines itself.

        The person may have written them between its lines. A line below a long one may be the
        wrapped rest of it.
        """
        above = ""
        for text in self._texts[at:] if self._ours else ():
            bare, wrapped = text.strip(), len(above) >= _WRAPPED
            above = bare
            if wrapped or is_name(bare, self._names) or _comparable(text) in self._ours:
                continue
            limits = bare[:1].islower() and len(bare) <= _LONGEST_NAME and contradiction(bare)
            if is_reply(bare) or takes_back(bare) or limits:
                yield _Piece(_Kind.AMBIGUOUS, text, AMBIGUOUS)

    def _split_attribution(self, at: int) -> None:
        """Move an attribution that begins within a line to a separate line."""
        before = before_attribution(self._texts[at])
        if before:
            rest = self._texts[at][len(before) :].lstrip(" -")
            self._texts[at] = before
            self._texts.insert(at + 1, rest)
            self._lines.insert(at + 1, self._lines[at]._replace(text=rest))

    def _length_of_addition(self, at: int) -> int:
        """Return the number of lines here that a mail system added."""
        length = 0 if self._begun else banner_length(self._texts, at)
        self._warned = self._warned or length > 0
        length = length or notice_length(self._texts, at)
        rest = range(at + 1, at + length)
        return next((end - at for end in rest if self._is_foreign(end)), length)

    def _is_foreign(self, at: int) -> bool:
        return is_quoted(self._texts[at]) or bool(_ends_own_text(self._texts, at))

    def _classified(self, at: int) -> Iterator[_Piece]:
        """Yield the class of a line that does not end the person's text."""
        line = self._lines[at]
        text = self._texts[at] if self._begun else without_tag(self._texts[at])
        if line.rule or _is_rule(text):
            # The rule below a warning belongs to the warning.
            self._loose = self._loose or self._begun or not self._warned
            self._warned, self._quoted_length = False, 0
            return
        if self._is_wrapped(at):
            known = _comparable(f"{self._texts[at - 1]} {text}") in self._ours
            doubt = "" if known or not has_words(text) else AMBIGUOUS
            self._quoted_length = len(text)
            yield _Piece(_Kind.QUOTE, text, doubt)
            return
        self._quoted_length = 0
        bare = text.strip()
        apart = self._loose or line.apart or may_be_quoted(bare)
        name = is_name(bare, self._names)
        self._signed = self._signed or _opens_signature(bare) or (apart and name)
        if is_device_line(text):
            yield _Piece(_Kind.SIGNATURE, text)
        elif self._signed or (apart and self._named):
            yield self._in_signature(text)
        elif _comparable(text) in self._ours:
            return
        elif apart:
            doubt = line.doubt or (AMBIGUOUS if has_words(text) else "")
            yield _Piece(_Kind.AMBIGUOUS, text, doubt)
        else:
            self._begun = self._begun or bool(bare)
            self._named = self._named or name
            reordered = any(mark in text for mark in _REORDERING)
            another = QUESTION if self._asked and bare else ""
            yield _Piece(_Kind.TEXT, text, HIDDEN if reordered else line.doubt or another)

    def _in_signature(self, text: str) -> _Piece:
        """Return the class of a line in or below a signature."""
        bare, above = text.strip(), self._signed_above
        if bare or not _opens_signature(above):
            self._signed_above = text
        self._added = bool(bare) and (self._added or is_afterthought(bare))
        if self._added:
            return _Piece(_Kind.TEXT, text)
        if (_goes_on(bare, above) or is_reply(bare) or takes_back(bare)) and not is_name(
            bare, self._names
        ):
            return _Piece(_Kind.AMBIGUOUS, text, AMBIGUOUS)
        return _Piece(_Kind.SIGNATURE, text)

    def _is_wrapped(self, at: int) -> bool:
        """Return whether a line may be the rest of the quoted line above it."""
        between = at + 1 < len(self._texts) and is_quoted(self._texts[at + 1])
        return (
            bool(self._texts[at])
            and self._quoted_length > 0
            and (self._quoted_length >= _WRAPPED or between)
        )


def _lines_of(text: str) -> list[Line]:
    """Return the lines of a text; the last one contains everything above the limit."""
    whole = text.replace("\r\n", "\n").replace("\r", "\n")
    return [Line(line) for line in whole.split("\n", MOST_LINES)]


def _capped(lines: Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """Return the lines to read, and those above a limit."""
    left = LONGEST_TEXT
    for at, line in enumerate(lines[:MOST_LINES]):
        if len(line.text) > left:
            cut = line._replace(text=line.text[:left]), line._replace(text=line.text[left:])
            return [*lines[:at], cut[0]], [cut[1], *lines[at + 1 :]]
        left -= len(line.text) + 1
    return list(lines[:MOST_LINES]), list(lines[MOST_LINES:])


def _says_more(line: Line) -> bool:
    """Return whether the text above the limits contains words that are not quoted."""
    text = line.text.strip()
    if line.doubt or not text:
        return bool(line.doubt)
    below = text[:_LONGEST_BEYOND].split("\n")
    more = any(not is_quoted(one) and has_words(one) for one in below)
    return more or len(text) > _LONGEST_BEYOND


def _introduces(quoted: list[str]) -> bool:
    """Return whether quoted lines begin with a quoted introduction of a quotation."""
    bare = [line.lstrip("> ") for line in quoted]
    return (
        is_heading(bare[0])
        or begins_header_block(bare, 0) is not False
        or after_attribution(bare, 0) is not None
    )


def _answer(pieces: list[_Piece]) -> str:
    answer: list[str] = []
    before = _Kind.TEXT
    for kind, text, _ in pieces:
        if kind is _Kind.TEXT:
            answer.append(text)
        elif kind is not before:
            answer.append("")
        before = kind
    return "\n".join(answer).strip("\n")


def _shown(pieces: list[_Piece]) -> str:
    """Assemble the text for people to read.

    A person who writes between quoted lines, or quotes by hand, chose these lines. A single block
    of quotation with an introduction comes from the program.
    """
    left_out = (_Kind.SIGNATURE, _Kind.AMBIGUOUS)
    pieces = [one for one in pieces if one.kind not in left_out]
    introduced = any(one.kind is _Kind.INTRODUCTION for one in pieces)
    chosen = not introduced or _quotations(pieces) > 1
    wrote = any(one.kind is _Kind.TEXT and one.text.strip() for one in pieces)
    while pieces and (_is_empty(pieces[-1]) or (wrote and pieces[-1].kind is not _Kind.TEXT)):
        pieces.pop()
    while pieces and _is_empty(pieces[0]):
        pieces.pop(0)
    kept = {_Kind.TEXT, _Kind.QUOTE} if chosen else {_Kind.TEXT}
    return "\n".join(one.text for one in pieces if one.kind in kept).strip("\n")


def _quotations(pieces: Sequence[_Piece]) -> int:
    """Count the blocks of quoted lines with text between them."""
    runs, inside = 0, False
    for kind, text, _ in pieces:
        if kind is _Kind.QUOTE and not inside:
            runs, inside = runs + 1, True
        elif kind is _Kind.TEXT and text.strip():
            inside = False
    return runs


def _is_empty(piece: _Piece) -> bool:
    marks = _RULES | {">"} if piece.kind is _Kind.QUOTE else _RULES
    return piece.kind in (_Kind.TEXT, _Kind.QUOTE) and set(piece.text) <= marks


def _is_rule(text: str) -> bool:
    bare = text.strip()
    return len(bare) >= _SHORTEST_RULE and not bare.strip("_")


def _opens_signature(line: str) -> bool:
    """Return whether a line is RFC 3676's "-- ", or a rule of long dashes, which is not markup."""
    return line in _SIGNATURE_RULES or (bool(line) and not line.strip("—"))


def _visible(line: str) -> str:
    """Strip invisible characters at the ends of a line, which would hide a mark there."""
    return (
        line.replace("\N{NO-BREAK SPACE}", " ")
        .strip(
            "\ufeff\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u2060\u2066\u2067\u2068\u2069"
        )
        .rstrip()
    )


def _comparable(line: str) -> str:
    return " ".join(line.strip("> *\t").split()).casefold()


def _ends_own_text(lines: list[str], at: int) -> bool | None:
    """Return whether the person's text ends here; None if it is uncertain."""
    bare = lines[at].strip("-–—─_=*# \ufffd|?\t").casefold()
    if bare == _MARKER_WORDS:
        return True
    line = lines[at].strip()
    if is_heading(line):
        return True
    # BlackBerry writes the heading without dashes.
    if bare in SEPARATORS and at + 1 < len(lines) and begins_header_block(lines, at + 1):
        return True
    block = begins_header_block(lines, at)
    if block is False and is_between_rules(line):
        block = begins_header_block(lines, at + 1) or None if at + 1 < len(lines) else None
    return block
