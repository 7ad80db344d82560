"""Reads the meaning of a reply: a decision, a command, or an unclear text.

A yes decides only if everything else in the text is known to be harmless (`replies.grammar`). The
text after a no is its reason, unless it takes the no back. A text that is neither may be a command
(`replies.commands`). Everything else is unclear and decides nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from functools import lru_cache, partial
from itertools import pairwise
from typing import Final, NamedTuple

from pydantic import JsonValue

from signoff.core.base.errors import PayloadError
from signoff.core.base.text import LONGEST_REASON, brief, clean_text, fold, plain_line
from signoff.core.lexicon.languages import (
    Role,
    brush_offs,
    ifs,
    is_true,
    language,
    languages,
    praises,
)
from signoff.core.lexicon.tokens import (
    MARKS,
    NEWLINE,
    is_spaceless,
)
from signoff.core.payloads.entries import assignment, entries_on_line, misspelt
from signoff.core.payloads.payload import fields_of, parse_values
from signoff.core.replies.commands import read_command
from signoff.core.replies.deeds import Deed
from signoff.core.replies.examples import example_of_approval
from signoff.core.replies.grammar import (
    LEFT_OVER,
    VALUE,
    Parse,
    Piece,
    Reader,
    readers_of,
)
from signoff.core.replies.refusals import refusing_field
from signoff.core.replies.remark import contradiction
from signoff.core.replies.reply import Approve, Grant, Part, Reject, Reply, Unclear
from signoff.core.replies.signature import is_phone_number
from signoff.core.replies.text import ReplyContext, Text

_QUESTION_MARKS: Final = "?¿؟"
_ALONE: Final = 'Reply "approve" or "reject" alone on the first line.'
_QUOTES: Final = frozenset("\"'“”„‟‘’‚«»‹›「」『』")
_OFFERED: Final = "approve"
_MOST_QUOTED: Final = 3
_LONGEST_FOR_ME: Final = 2
"""How many words "for me" and "by us" have."""
_CLEARLY_A_YES: Final = 12
"""How many tokens may be left over if a text with words before its yes still counts as a yes."""


def read_reply(text: str, context: ReplyContext | None = None) -> Reply:
    """Read a person's reply to a request.

    Args:
        text: The person's own words; the channel has removed quoted mail.
        context: The context of the request.

    Returns:
        The meaning. This never raises; a text that cannot be read is `Unclear`.
    """
    context = context or ReplyContext()
    words = Text(text)
    if all(token.text in MARKS | {NEWLINE} for token in words.tokens):
        return Unclear(problem=f"I found no words of yours. {_ALONE}")
    readers = readers_of(words, context)
    decision, near = _decision(readers)
    if decision is not None:
        return decision
    half: Reply | None = None
    for one in readers:
        # "Absent" is a word of several languages, but only one of them has the following words.
        command = read_command(one, _decides)
        if command is not None and not isinstance(command, Unclear):
            return command
        half = half or command
    return half or _unclear(words, near)


@lru_cache(maxsize=8_192)
def is_reply(line: str) -> bool:
    """Say whether a line would be a decision or a command if it stood alone.

    Signoff's own mails must not contain such lines, because some mail programs quote a mail without
    marking the quote.
    """
    if not may_be_reply(line) or is_phone_number(line):
        return False
    if not isinstance(read_reply(line), Unclear):
        return True
    words = Text(line)
    # "approve 5" and "approve: 5" are answers if the request asks for a number.
    readers = readers_of(words, ReplyContext())
    yes = (one.longest(at, Role.YES) for one in readers for at in one.openings())
    ends = {one.end for one in yes if one is not None}
    gives = any(one.text.isdecimal() or one.text == "=" for one in words.tokens)
    return any(words.is_boundary(at) or (gives and _is_apart(words, at)) for at in ends)


@lru_cache(maxsize=8_192)
def takes_back(line: str) -> bool:
    """Say whether a line begins with a condition, or takes an answer back: "only if Tom agrees".

    A single word may begin other lines: "Provided by Acme". An apology needs a mark behind it,
    because signatures say "sorry for typos".
    """
    words = Text(line)
    at = next((at for at, one in enumerate(words.tokens) if one.text not in MARKS | {NEWLINE}), -1)
    return at >= 0 and any(
        found.end > at + 1
        if found.role == Role.CONDITION
        else words.is_boundary(found.end) or reader.longest(found.end, Role.NO, Role.NO_ALONE)
        for reader in readers_of(words, ReplyContext())
        for found in reader.phrases(at)
        if found.role in (Role.CONDITION, Role.TAKE_BACK, Role.APOLOGY)
    )


def _is_apart(words: Text, at: int) -> bool:
    """Say whether there is a space before a token."""
    return words.text[words.tokens[at].start - 1].isspace()


def may_be_reply(line: str) -> bool:
    """Say whether a line begins with a word of a reply: a quick check that most lines fail."""
    tokens = Text(line).tokens
    first = next((one.text for one in tokens if one.text not in MARKS | {NEWLINE}), "")
    return any(first in begun for one in languages() for begun in (one.phrases, one.nouns))


@lru_cache(maxsize=8_192)
def _decides(line: str) -> bool:
    """Say whether a line would be a yes or a no if it stood alone."""
    if not may_be_reply(line):
        return False
    words = Text(line)
    return isinstance(_decision(readers_of(words, ReplyContext()))[0], Approve | Reject)


class _Near(NamedTuple):
    """The parse of a text as a yes with the fewest tokens left over."""

    reader: Reader
    parse: Parse


def _decision(readers: Iterable[Reader]) -> tuple[Reply | None, _Near | None]:
    """Return the decision of a text, or None, and the parse that is nearest to a yes."""
    near: _Near | None = None
    for reader in readers:
        parse = reader.parse() if not reader.text.cut else None
        if parse is None:
            continue
        if not parse.cost:
            if any(one(reader, parse) for one in _DOUBTS):
                return _doubtful(reader), None
            return _approval(reader, parse), None
        if near is None or parse.cost < near.parse.cost:
            near = _Near(reader, parse)
    refusals = [refusal for reader in readers if (refusal := _refusal(reader)) is not None]
    if refusals:
        # "No" belongs to many languages, "no lo apruebo" and the closing below it only to one.
        longest = max(
            refusals, key=lambda one: (one.end, -one.alone, -one.reader.signature_from(one.end))
        )
        # The words that take it back may belong to any of these languages.
        rivals = [one._replace(end=longest.end, alone=longest.alone) for one in refusals]
        doubts = (one for one in map(_rejection, rivals) if isinstance(one, Unclear))
        return next(doubts, None) or _rejection(longest), near
    return None, near


# -- yes ------------------------------------------------------------------------------------------


def _approval(reader: Reader, parse: Parse) -> Reply:
    notes = _notes(reader, parse.pieces)
    if bound := next(filter(contradiction, notes), None):
        return Unclear(
            problem=f"I read your remark “{brief(bound)}” as a condition, a limit or a change, "
            f"and a remark decides nothing. {_how_to_approve(reader)} To reject, reply `reject`, "
            "and below it what you want.",
            seems="approve",
            parts=_parts(reader, parse.pieces),
        )
    grants = [one for one in parse.pieces if one.role == Role.GRANT]
    parts = _parts(reader, parse.pieces)
    if len(grants) > 1:
        return Unclear(problem="I read two different times for similar calls.", parts=parts)
    try:
        values = _values(reader, parse.pieces)
    except PayloadError as error:
        return Unclear(problem=str(error), seems="approve", parts=parts)
    # An argument of the call, such as "confirmed", is not the person's decision.
    if values and not reader.context.proposes and (field := refusing_field(values)):
        problem = f'You approve, but "{field}" says no. Choose one of the two. {_ALONE}'
        return Unclear(problem=problem, seems="approve", parts=parts)
    return Approve(
        values=values,
        note=_kept("\n".join(notes)),
        grant=_grant(reader, grants[0]) if grants else None,
        parts=parts,
    )


def _is_brush_off(reader: Reader, parse: Parse) -> bool:
    """Say whether a yes is repeated without a mark between: "ja ja", "yeah yeah sure".

    It still counts as a yes if a separate clause with a yes follows: "ja ja, passt".
    """
    said = [piece for piece in parse.pieces if piece.role == Role.YES]
    for one, other in pairwise(said):
        if one.end != other.start or (yes := _folded(reader, one)) not in brush_offs():
            continue
        end = other.start + one.end - one.start
        if reader.text.words(other.start, min(end, other.end)).casefold() == yes:
            return end == said[-1].end or not reader.text.is_boundary(end)
    return False


def _is_praise(reader: Reader, parse: Parse) -> bool:
    """Say whether the only yes may mean "keep it up": "weiter so"."""
    said = [piece for piece in parse.pieces if piece.role == Role.YES]
    ends = {one.start: one.end for one in parse.pieces if one.role == Role.AFTER}
    return all(
        fold(reader.text.words(one.start, ends.get(one.end, one.end))) in praises() for one in said
    )


def _is_cited(reader: Reader, parse: Parse) -> bool:
    """Say whether a yes is between quotation marks: another person's word, or a doubt.

    The word that Signoff's mails quote does not count, because people copy it with its quotes.
    """
    quotes = [at for at, token in enumerate(reader.text.tokens) if token.text in _QUOTES]
    return any(
        piece.role == Role.YES
        and sum(at < piece.start for at in quotes) % 2 == 1
        and quotes[-1] >= piece.end
        and _folded(reader, piece) != _OFFERED
        for piece in parse.pieces
    )


def _is_condition(reader: Reader, parse: Parse) -> bool:
    """Say whether a yes beside another one may begin with "if": "aprobado si puede proceder".

    Without its accent, "sí" is also the word for "if". Alone, "si puede proceder" is a yes, because
    a condition needs a sentence beside it.
    """
    own = {word for one in reader.languages for word in one.file.ifs}
    said = [piece for piece in parse.pieces if piece.role == Role.YES]
    return any(map(partial(_is_left_open, reader), said)) or (
        len(said) > 1 and any(_may_begin_a_condition(reader, one, own) for one in said)
    )


def _may_begin_a_condition(reader: Reader, yes: Piece, own: Container[str]) -> bool:
    """Say whether a yes begins with "si" in a language in which this may be "if".

    If its next word is English, the language is not known: "ok si ok".
    """
    first, *more = (token.text for token in reader.text.tokens[yes.start : yes.end])
    if not more or more[0] in MARKS | {NEWLINE} or first not in ifs():
        return False
    spelt = reader.text.words(yes.start, yes.start + 1).casefold()
    return spelt in own or (spelt in ifs() and more[0] in language("en").words)


def _is_left_open(reader: Reader, yes: Piece) -> bool:
    """Say whether a yes is a bare "if" behind other words: "ok si", which is not "ok, si"."""
    before = reader.text.tokens[yes.start - 1].text if yes.start else NEWLINE
    words = [one.text for one in reader.text.tokens[yes.start : yes.end] if one.text not in MARKS]
    alone = len(words) == 1 and reader.text.words(yes.start, yes.start + 1).casefold() in ifs()
    return alone and before not in MARKS | {NEWLINE}


def _is_misleading(reader: Reader, parse: Parse) -> bool:
    """Say whether a clause asks for a yes, or praises: "please confirm", "good deal"."""
    asked = {phrase for one in reader.languages for phrase in one.misleading}
    said = [
        ((one,), (other,), (one, other))
        for one, other in pairwise((*parse.pieces, Piece("", len(reader.text), len(reader.text))))
        if Role.YES in (one.role, other.role)
    ]
    return any(
        words in asked
        for each in said
        for pieces in each
        for words in _joined_words(reader, *pieces)
    )


def _joined_words(reader: Reader, *pieces: Piece) -> Iterator[tuple[str, ...]]:
    """Yield the words of pieces with only marks between them, and those without the objects."""
    tokens = reader.text.tokens
    between = tokens[pieces[0].end : pieces[-1].start]
    if any(token.text not in MARKS for token in between):
        return
    objects = {at for one in pieces for slot in one.slots for at in range(slot.start, slot.end)}
    said = [
        (at, tokens[at].text)
        for at in range(pieces[0].start, pieces[-1].end)
        if tokens[at].text not in MARKS | {NEWLINE}
    ]
    yield tuple(word for _, word in said)
    yield tuple(word for at, word in said if at not in objects)


def _is_contradicted(reader: Reader, parse: Parse) -> bool:
    """Say whether a note rejects: "OK. Opinion: disagree"."""
    return any(
        isinstance(_decision(readers_of(Text(note), ReplyContext()))[0], Reject)
        for note in _notes(reader, parse.pieces)
    )


def _does_not_fit(reader: Reader, parse: Parse) -> bool:
    """Say whether a yes may mean something else than what the tool does."""
    return Deed(reader, parse.pieces).is_doubtful()


def _is_acknowledged(reader: Reader, parse: Parse) -> bool:
    """Say whether a yes beside "keep me posted" may only say that the mail was read: "ok"."""
    asks = any(one.role == Role.REPORT for one in parse.pieces)
    said = (one for one in parse.pieces if one.role == Role.YES)
    return asks and not any(map(Deed(reader, parse.pieces).is_firm, said))


def _is_with_something(reader: Reader, parse: Parse) -> bool:
    """Say whether a yes wants something beside the call: "approved with changes"."""
    return any(reader.is_with_something(one) for one in parse.pieces if one.role == Role.YES)


def _is_for_the_person(reader: Reader, parse: Parse) -> bool:
    """Say whether an order to do something is for the person: "run it by me", "book it for me".

    "From my side" has no other meaning than that the person approves.
    """
    return any(
        one.role == Role.YES
        and other.role == Role.FOR_ME
        and one.end == other.start
        and (other.slots or other.end - other.start <= _LONGEST_FOR_ME)
        and Deed(reader, parse.pieces).orders(one)
        for one, other in pairwise(parse.pieces)
    )


_DOUBTS: Final = (
    *(_is_brush_off, _is_praise, _is_cited, _is_condition, _is_with_something, _is_for_the_person),
    *(_is_misleading, _is_contradicted, _does_not_fit, _is_acknowledged),
)


def _folded(reader: Reader, piece: Piece) -> str:
    return reader.text.words(piece.start, piece.end).casefold()


def _doubtful(reader: Reader) -> Unclear:
    shown = brief(reader.text.line(0))
    return Unclear(problem=f'I am not sure that "{shown}" is a yes. {_ALONE}', seems="approve")


def _values(reader: Reader, pieces: Iterable[Piece]) -> dict[str, JsonValue] | None:
    found: list[tuple[str, str]] = []
    for piece in pieces:
        if piece.role != VALUE:
            continue
        line = plain_line(reader.text.words(piece.start, piece.end))
        pair = (
            assignment(line, reader.context.fields)
            if reader.text.begins_line(piece.start)
            else None
        )
        found += [pair] if pair else entries_on_line(line, reader.context.fields).found
    if not found:
        return None
    values = dict(found)
    if len(values) < len(found):
        names = [name for name, _ in found]
        twice = next(name for name in names if names.count(name) > 1)
        message = f'"{twice}" was given twice; give it once'
        raise PayloadError(message, key=twice, read=brief(values[twice]), example=f"{twice}: …")
    return parse_values(reader.context.fields, values, reader.context.currencies)


def _grant(reader: Reader, piece: Piece) -> Grant:
    slots = {slot: (start, end) for slot, start, end in piece.slots}
    start, end = slots["duration"]
    uses = reader.text.words(*slots["number"]) if "number" in slots else ""
    return Grant(span=dict(reader.durations(start))[end], uses=int(uses) if uses else None)


# -- no -------------------------------------------------------------------------------------------


class _Refusal(NamedTuple):
    """A no at the beginning of a text.

    Attributes:
        reader: The reader of the text.
        start: Its first token.
        end: The token after its last one.
        alone: Whether it needs a separator before a reason: "no idea" is not a refusal.
    """

    reader: Reader
    start: int
    end: int
    alone: bool


def _refusal(reader: Reader) -> _Refusal | None:
    """Return the no at the beginning of a text, after a greeting; None if there is none."""
    for at in reader.openings():
        found = reader.longest(at, Role.NO)
        if found is not None:
            return _Refusal(reader, at, found.end, alone=False)
        found = reader.longest(at, Role.NO_ALONE)
        if found is None:
            continue
        emoji = not reader.text.tokens[found.end - 1].text.isalnum()
        # "Do not cancel" is a no to a tool that cancels.
        end = found.end + reader.names_its_verb(found.end)
        if emoji or reader.text.is_boundary(found.end) or reader.harmless_from(end):
            return _Refusal(reader, at, end, alone=True)
    return None


def _rejection(refusal: _Refusal) -> Reply:
    reader, end = refusal.reader, refusal.end
    verdict = Piece(Role.NO, refusal.start, end)
    if (left := reader.harmless_from(end)) is not None:
        parts = _parts(reader, (verdict, *left.pieces))
        return Reject(reason=_kept("\n".join(_notes(reader, left.pieces))), parts=parts)
    stop = reader.signature_from(end)
    if (doubt := _taken_back(refusal, stop)) is not None:
        shown = brief(reader.text.words(doubt, min(stop, reader.text.line_end(doubt))))
        parts = _parts(reader, (verdict, Piece(LEFT_OVER, doubt, stop)))
        return Unclear(
            problem=f'I read "{brief(reader.text.words(refusal.start, end))}", and then "{shown}", '
            'which may take it back. To reject, reply "reject" alone, or "reject:" and the reason.',
            seems="reject",
            left_over=(shown,),
            parts=parts,
        )
    begin = end
    while begin < stop and reader.text.tokens[begin].text in MARKS | {NEWLINE}:
        begin += 1
    # The sign of a number and an opening quote belong to the reason.
    if begin > end and reader.text.tokens[begin - 1].text in "\"'“‘(-" and begin < stop:
        glued = reader.text.tokens[begin - 1].end == reader.text.tokens[begin].start
        begin -= glued and reader.text.tokens[begin - 1].text not in "-("
    note = (
        next((n for n in reader.phrases(begin) if n.role == Role.NOTE), None)
        if begin < stop
        else None
    )
    if note is not None and note.end < stop and reader.text.tokens[note.end].text == ":":
        begin = note.end + 1
    reason = reader.text.words(begin, stop)
    parts = _parts(reader, (verdict, Piece("reason", begin, stop)))
    return Reject(reason=_kept(reason), parts=parts)


def _taken_back(refusal: _Refusal, stop: int) -> int | None:
    """Return the token at which a text takes its no back, with a yes, a question or a doubt."""
    reader, tokens = refusal.reader, refusal.reader.text.tokens
    sorry = -1
    for at in range(refusal.end, stop):
        if tokens[at].text in _QUESTION_MARKS:
            glued = at + 1 < stop and tokens[at].end == tokens[at + 1].start
            if not glued or not tokens[at + 1].text.isalnum():
                return _clause(reader, refusal.end, at)
        if reader.longest(at, Role.CONDITION) is not None:
            return at
        before = tokens[at - 1].text
        apologised = at == sorry
        if at > refusal.end and before.isalnum() and not apologised:
            continue
        if apologised and tokens[at].text in MARKS | {NEWLINE}:
            sorry = at + 1
        elif (apology := reader.longest(at, Role.APOLOGY)) is not None:
            sorry = apology.end
        if reader.longest(at, Role.TAKE_BACK, Role.INSTEAD) is not None:
            return at
        # "I can't approve this until Monday" is not a refusal, but "no, not before Monday" is.
        if at == refusal.end and reader.longest(at, Role.UNSURE) is not None:
            return at
        if _begins_a_yes(refusal, at, before, apologised=apologised):
            return at
    return None


def _begins_a_yes(refusal: _Refusal, at: int, before: str, *, apologised: bool) -> bool:
    """Say whether a clause after a no begins with a yes.

    A second no may begin with the word of a yes ("承認できません"). In a script without spaces, any
    other word may, too: "예산" (budget) begins with "예" (yes).
    """
    reader = refusal.reader
    if apologised and is_true(reader.text.tokens[at].text) and reader.text.is_boundary(at + 1):
        return True
    yes = reader.longest(at, Role.YES)
    no = reader.longest(at, Role.NO, Role.NO_ALONE)
    if yes is None or (no is not None and no.end > yes.end):
        return False
    glued = yes.end == at + 1 and is_spaceless(reader.text.tokens[at].text[0])
    if glued and not reader.text.is_boundary(yes.end):
        return False
    sentence = before in {NEWLINE, ".", "!", "。", "/"}
    return refusal.alone or sentence or apologised or reader.text.is_boundary(yes.end)


def _clause(reader: Reader, start: int, at: int) -> int:
    """Return the first token of the sentence that contains a token."""
    while at > start and reader.text.tokens[at - 1].text not in {".", "!", "。", NEWLINE}:
        at -= 1
    return at


# -- unclear --------------------------------------------------------------------------------------


def _unclear(words: Text, near: _Near | None) -> Unclear:
    first = brief(words.line(0))
    if words.cut:
        return Unclear(problem=f"Your answer is too long to be read as a whole. {_ALONE}")
    if near is None:
        if any(mark in _QUESTION_MARKS for mark in words.line(0)):
            return Unclear(problem=f'I read a question: "{first}". {_ALONE}')
        return Unclear(problem=f'I could not read "{first}" as a yes or a no. {_ALONE}')
    reader, parse = near
    if parse.problem:
        return Unclear(problem=parse.problem, seems="approve", parts=_parts(reader, parse.pieces))
    yes = next(piece for piece in parse.pieces if piece.role == Role.YES)
    late = any(p.role == LEFT_OVER and p.start < yes.start for p in parse.pieces)
    if late and parse.cost > _CLEARLY_A_YES:
        return Unclear(problem=f'I could not read "{first}" as a yes or a no. {_ALONE}')
    spans = _left_over(reader, parse.pieces)
    left = tuple(brief(reader.text.words(start, end)) for start, end in spans)
    return Unclear(
        problem=_beside_a_yes(reader, yes, spans, left),
        seems="approve",
        left_over=left,
        grants=any(reader.longest(at, Role.GRANT_WORDS) for at in range(len(words))),
        parts=_parts(reader, parse.pieces),
    )


def _beside_a_yes(
    reader: Reader, yes: Piece, spans: list[tuple[int, int]], left: tuple[str, ...]
) -> str:
    said = brief(reader.text.words(yes.start, yes.end))
    for start, _ in spans:
        line = plain_line(reader.text.line(start))
        if reader.text.begins_line(start) and (meant := misspelt(line, reader.context.fields)):
            names = ", ".join(fields_of(reader.context.fields))
            return f'I read "{brief(line)}"; did you mean "{meant}"? Its fields: {names}.'
    shown = ", ".join(f"“{words}”" for words in left[:_MOST_QUOTED])
    shown += " and more" if len(left) > _MOST_QUOTED else ""
    if any(reader.longest(at, Role.NO, Role.NO_ALONE) for span in spans for at in range(*span)):
        return f"I read “{said}”, and then something that disagrees: {shown}. {_ALONE}"
    return (
        f"I read “{said}”, with something beside it: {shown}. {_how_to_approve(reader)} "
        "To add a remark, put it on a line that begins with `note:`."
    )


def _how_to_approve(reader: Reader) -> str:
    """Return a sentence that says how to approve, with the fields that must be filled in."""
    context = reader.context
    example = example_of_approval(None if context.proposes else context.fields)
    _, *fields = example.split("\n")
    if not fields:
        return "Reply `approve` alone to approve."
    below = ", ".join(f"`{line}`" for line in fields)
    return f"To approve, reply `approve`, and below it a line such as {below}."


def _left_over(reader: Reader, pieces: Iterable[Piece]) -> list[tuple[int, int]]:
    """Return the clauses with tokens that are left over, as ranges of tokens."""
    pieces = tuple(pieces)
    tokens = reader.text.tokens
    said = {at for one in pieces if one.role == Role.YES for at in range(one.start, one.end)}
    ends = {at for at, token in enumerate(tokens) if token.text in MARKS | {NEWLINE}} | said
    runs: list[tuple[int, int]] = []
    for piece in pieces:
        if piece.role != LEFT_OVER or (runs and piece.start < runs[-1][1]):
            continue
        start, end = piece.start, piece.end
        while start > 0 and start - 1 not in ends:
            start -= 1
        while end < len(tokens) and end not in ends:
            end += 1
        runs.append((start, end))
    return runs


# -- both -----------------------------------------------------------------------------------------


def _parts(reader: Reader, pieces: Iterable[Piece]) -> tuple[Part, ...]:
    """Return the parts of a text; adjacent tokens that are left over are one part."""
    parts: list[tuple[str, int, int]] = []
    for piece in pieces:
        text = reader.text
        if parts and piece.role == LEFT_OVER == parts[-1][0]:
            between = text.tokens[parts[-1][2] : piece.start]
            if all(token.text in MARKS for token in between):
                parts[-1] = (LEFT_OVER, parts[-1][1], piece.end)
                continue
        parts.append((str(piece.role), piece.start, piece.end))
    return tuple(Part(text=reader.text.words(a, b), role=role) for role, a, b in parts)


def _notes(reader: Reader, pieces: Iterable[Piece]) -> list[str]:
    return [reader.text.words(one.start, one.end) for one in pieces if one.role == Role.NOTE]


def _kept(text: str) -> str:
    return clean_text(text).strip()[:LONGEST_REASON].strip()
