"""What an approver's own words mean: yes, no, or something we have to ask about again.

The grammar, over the first line that is not blank::

    answer  = [ greeting ] line                         Hi Anna,
    line    = approve [ "." | "!" ]                     approve   Yes!   OK   👍
            | approve separator reason                  approve: fine by me
            | approve courtesy                          ok thanks
            | approve [separator] [with] values         approve 3   approve with days=3, note=x
            | reject [ "." | "!" ]
            | reject separator reason                   no, over budget
            | reject-verb reason                        reject over budget

It is matched from the first character to the last and never searched for inside other words: of the
mails that quote ours and say nothing themselves, "contains approve" approved up to 115 of 134, an
anchored line none. Whatever the grammar does not cover is unclear, and unclear never decides
anything. So is a question, a condition ("only if …"), and a later line that says the opposite.

Below the line come values (``amount: 900``, one a line) and then more of the reason, up to a
signature. Every step walks the text forwards once; there are no regular expressions.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict, JsonValue

from signoff.core import words
from signoff.core.doubts import has_phrase, is_doubted, without_harmless
from signoff.core.entries import Entries, entries_below, entries_on_line
from signoff.core.errors import PayloadError
from signoff.core.greetings import after_greeting
from signoff.core.payload import example_value, fields_of, missing_fields, parse_values
from signoff.core.text import (
    LONGEST_LINE,
    brief,
    clean_text,
    is_signature,
    plain_line,
    unaccented,
)

LONGEST_TEXT: Final = 64 * 1024
MOST_LINES: Final = 200
LONGEST_REASON: Final = 2_000

_DECORATION: Final = "*_`\"'“”‘’«»「」"
_DASHES: Final = "-–—"
_THUMBS: Final = ("👍", "👎")
_MOST_PIECES: Final = 8
_MOST_GREETINGS: Final = 2
_LONGEST_AFTERTHOUGHT: Final = 300
"""Characters of a paragraph below a yes that may take it back; a longer one is a disclaimer."""
_SEPARATORS: Final = ":,;.!。、(" + _DASHES
_QUESTION_MARKS: Final = "?¿؟"
_ASK: Final = 'Answer with "approve" or "reject" alone on the first line.'


def _alike(found: Iterable[str]) -> frozenset[str]:
    return frozenset(map(unaccented, found))


_APPROVE: Final = _alike(words.APPROVE)
_REJECT: Final = _alike(words.REJECT)
_REJECT_BRIEF: Final = _alike(words.REJECT_BRIEF)
_COURTESY: Final = _alike(words.COURTESY)
_HARMLESS: Final = _alike(words.HARMLESS)
_HEDGES: Final = _alike(words.HEDGES)
_NEGATIONS: Final = _alike(words.NEGATIONS)
_CONDITIONS: Final = _alike(words.CONDITIONS)
_DELAYS: Final = _alike(words.DELAYS)
_RESERVATIONS: Final = _alike(words.RESERVATIONS)
_QUALIFIERS: Final = _alike(words.QUALIFIERS)
_LIMITS: Final = _alike(words.LIMITS)


class Verdict(StrEnum):
    """What an answer says."""

    APPROVE = "approve"
    REJECT = "reject"
    UNCLEAR = "unclear"


class Command(BaseModel):
    """An answer, read.

    Attributes:
        verdict: Yes, no, or unclear.
        reason: The person's reason, cleaned and at most 2,000 characters; empty when there is none.
        values: The values given for the payload template, or None when none were given.
        problem: Why the answer is unclear, in words for the person; empty when it is clear.
        first_line: The line that was read as the command, cleaned and shortened for display.
    """

    model_config = ConfigDict(frozen=True)

    verdict: Verdict
    reason: str = ""
    values: dict[str, JsonValue] | None = None
    problem: str = ""
    first_line: str = ""


class _Line(NamedTuple):
    """One line, read by itself; ``entries`` are values as typed, by name."""

    verdict: Verdict
    reason: str = ""
    entries: tuple[tuple[str, str], ...] = ()
    problem: str = ""


def read_command(text: str, template: JsonValue = None) -> Command:
    """Read a person's answer.

    Args:
        text: The person's own text; quoted mail is cut by the channel.
        template: The payload template of the request, or None.

    Returns:
        The answer. No text makes this raise: what cannot be read is ``UNCLEAR`` with a ``problem``.
    """
    lines = _without_greeting(_lines(text))
    if not lines:
        return _unclear("", f"I found no words of yours. {_ASK}")
    line = _read_line(lines[0], template)
    if line.verdict is Verdict.UNCLEAR:
        return _unclear(lines[0], line.problem)
    below = Entries(other_lines=lines[1:])
    if line.verdict is Verdict.APPROVE:
        below = entries_below(lines[1:], template)
    problem = below.problem or _objection(line, below.other_lines)
    if problem:
        return _unclear(lines[0], problem)
    try:
        values = _values(line.entries + below.found, template)
    except PayloadError as error:
        return _unclear(lines[0], str(error))
    reason = clean_text("\n".join([line.reason, *below.other_lines])).strip()
    return Command(
        verdict=line.verdict,
        reason=reason[:LONGEST_REASON].strip(),
        values=values,
        first_line=brief(lines[0]),
    )


def example_for(template: JsonValue = None) -> str:
    """Return an answer that would approve a request with this template, for help texts.

    Only the fields that have to be filled are named.
    """
    fields = fields_of(template)
    names = missing_fields(template, None)
    return "\n".join(["approve", *(f"{name}: {example_value(fields[name])}" for name in names)])


def _lines(text: str) -> tuple[str, ...]:
    """Return the lines from the first that is not blank up to the signature, within the caps."""
    scanned = text[:LONGEST_TEXT].replace("\r\n", "\n").replace("\r", "\n")
    lines: list[str] = []
    for line in scanned.split("\n", MOST_LINES)[:MOST_LINES]:
        blank = not plain_line(line)
        if lines and is_signature(line):
            break
        if lines or not blank:
            lines.append("" if blank else line)
    return tuple(lines)


def without_greeting(text: str) -> str:
    """Return the lines that `read_command` reads: no greeting above, no signature below."""
    return "\n".join(_without_greeting(_lines(text)))


def _without_greeting(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out "Hi Anna," at the beginning, on a line of its own or before the answer."""
    for _ in range(_MOST_GREETINGS):
        rest = after_greeting(lines[0], alone=len(lines) > 1 and not lines[1]) if lines else None
        if rest is None:
            return lines
        if rest:
            return (rest, *lines[1:])
        below = next((at for at in range(1, len(lines)) if lines[at]), len(lines))
        lines = lines[below:]
    return lines


def _read_line(raw: str, template: JsonValue) -> _Line:
    """Read one line by the grammar on top of this file."""
    if len(raw) > LONGEST_LINE:
        return _unread(f"The first line is too long to be an answer. {_ASK}")
    line, shown = plain_line(raw), brief(raw)
    if line[0] in _DECORATION:
        line = line.strip(_DECORATION + " ")
    if any(mark in _QUESTION_MARKS for mark in line):
        return _unread(f'I read a question: "{shown}". {_ASK}')
    for known in (_REJECT, _REJECT_BRIEF):
        rest = _after(line, known)
        if rest is not None:
            thumb = line[: len(line) - len(rest)].endswith(_THUMBS)
            return _rejection(rest, shown, plain_words=known is _REJECT, separated=thumb)
    rest = _after(line, _APPROVE)
    if rest is not None:
        # A thumb needs no comma behind it.
        word = line[: len(line) - len(rest)]
        read = _approval(rest, shown, template, separated=word.endswith(_THUMBS))
        # Without its accent it is also the French for "if".
        maybe_if = (
            word.casefold() == "si"
            and read.reason
            and not _consists_of(read.reason, _COURTESY, _APPROVE)
        )
        return _unread(_more(shown)) if maybe_if else read
    return _unread(f'I could not read "{shown}" as a yes or a no. {_ASK}')


def _after(line: str, known: frozenset[str]) -> str | None:
    """Return what follows the longest of the words that the line begins with, or None."""
    return next(_afters(line, known), None)


def _afters(line: str, known: frozenset[str]) -> Iterator[str]:
    """Yield what follows each of the words that the line begins with, the longest word first."""
    # Case-folding may lengthen text and never shortens it: no word reaches past its own length.
    for end in range(min(max(map(len, known)), len(line)), 0, -1):
        if unaccented(line[:end].casefold()) in known:
            rest = line[end:]
            if _glued(rest):
                return
            yield rest


def _glued(rest: str) -> bool:
    """Say whether what follows makes the word part of another: "okra", "ok-ish", "approve.exe"."""
    mark, then = rest[:1], rest[1:2]
    if mark and mark in _DASHES + ".":
        return then.isalnum()
    return mark.isalnum() or mark in tuple("_'’@/+&") or unicodedata.combining(mark or " ") > 0


def _approval(rest: str, shown: str, template: JsonValue, *, separated: bool) -> _Line:
    separated, body = _separate(rest, separated=separated)
    polite = not body or _consists_of(body, _COURTESY)
    again = polite or _consists_of(body, _COURTESY, _APPROVE)
    if again or (separated and _folded(body) in _HARMLESS):
        return _Line(Verdict.APPROVE, reason=body if separated and not polite else "")
    entries = entries_on_line(body, template)
    if entries.problem:
        return _unread(entries.problem)
    if entries.found:
        return _Line(Verdict.APPROVE, entries=entries.found)
    if not separated:
        why = f'I read "{shown}": put a colon between the yes and your reason, as in "yes: fine".'
        return _unread(f"{why} {_ASK}")
    hedged = _first_word(without_harmless(body)) in _HEDGES | _NEGATIONS
    problem = _half(shown) if hedged or _reserved(body) or has_phrase(body, _QUALIFIERS) else ""
    if not problem and is_doubted(body, beside=True):
        problem = _more(shown)
    return _unread(problem) if problem else _Line(Verdict.APPROVE, reason=body)


def _consists_of(body: str, *known: frozenset[str]) -> bool:
    """Say whether all of this is phrases that are known: "please", "ok, danke"."""
    # "grazie mille mercis": the longest phrase is not always the right one.
    left = {body}
    for _ in range(_MOST_PIECES):
        left = {one.strip(_SEPARATORS + _DECORATION + ") ") for one in left}
        if not left or "" in left:
            return bool(left)
        left = {rest for one in left for phrases in known for rest in _afters(one, phrases)}
    return False


def _rejection(rest: str, shown: str, *, plain_words: bool, separated: bool) -> _Line:
    separated, body = _separate(rest, separated=separated)
    if not body or _folded(body) in _COURTESY:
        return _Line(Verdict.REJECT, reason=body if separated else "")
    if not separated and not plain_words:
        why = f'I read "{shown}": put a comma between the no and your reason, as in "no, too dear".'
        return _unread(f"{why} {_ASK}")
    taken_back = not separated and _first_word(body) in _HEDGES | _NEGATIONS
    put_off = not separated and has_phrase(body, _DELAYS)
    if taken_back or put_off or has_phrase(body, _CONDITIONS):
        return _unread(_half(shown))
    return _Line(Verdict.REJECT, reason=body)


def _separate(rest: str, *, separated: bool = False) -> tuple[bool, str]:
    """Split what follows a command word into "was there a separator" and the words after it."""
    plain = rest.strip()
    body = plain.lstrip(_SEPARATORS + _DECORATION + " ")
    before = plain[: len(plain) - len(body)]
    if before and before[-1] in _DASHES + '."' and body[:1]:
        # The sign of "-3", the point of ".5" and the quote of '"x"' belong to the value.
        keep = before[-1] == '"' or body[0].isdigit()
        before, body = (before[:-1], before[-1] + body) if keep else (before, body)
    separated = separated or any(mark in _SEPARATORS for mark in before)
    if separated and plain.startswith("("):
        body = body.removesuffix(")")
    return separated, body if body.strip(".!。 ") else ""


def _folded(text: str) -> str:
    return unaccented(text.casefold().strip(" .!。,"))


def _first_word(text: str) -> str:
    return unaccented(text.split(" ", 1)[0].casefold().strip(" .!。,;:"))


def _reserved(text: str) -> bool:
    """Say whether words beside a yes take a part of it back, or put it off."""
    numbered = any(mark.isdigit() for mark in text)
    limited = numbered and has_phrase(text, _LIMITS)
    return limited or has_phrase(text, _CONDITIONS) or has_phrase(text, _RESERVATIONS)


def _objection(line: _Line, rest: tuple[str, ...]) -> str:
    """Return what is wrong with the answer as a whole: a contradiction, or a condition."""
    approved = line.verdict is Verdict.APPROVE
    opposite = Verdict.REJECT if approved else Verdict.APPROVE
    contrary = [later for later in rest if later and _read_line(later, None).verdict is opposite]
    # "yes, reject it" is no command by the grammar, but what it means is anybody's guess.
    said = without_harmless(line.reason) if approved else line.reason
    refused = approved and _after(said, _REJECT | _REJECT_BRIEF) is not None
    if refused or (said and _read_line(said, None).verdict is opposite):
        contrary.insert(0, line.reason)
    if contrary:
        return f'I read two answers that disagree; the second is "{brief(contrary[0])}". {_ASK}'
    paragraph = _first_paragraph(rest)
    # Only the first paragraph: the disclaimers that firms put under a mail are full of "unless".
    held = _reserved(paragraph) if approved else has_phrase(paragraph, _CONDITIONS)
    if held or _first_word(paragraph) in _HEDGES:
        return _half(brief(paragraph))
    near = bool(rest and rest[0]) or len(paragraph) <= _LONGEST_AFTERTHOUGHT
    return _more(brief(paragraph)) if approved and near and _turns(paragraph) else ""


def _turns(paragraph: str) -> bool:
    return _folded(paragraph) not in _HARMLESS and is_doubted(paragraph, beside=False)


def _first_paragraph(lines: tuple[str, ...]) -> str:
    paragraph: list[str] = []
    for line in lines:
        if line:
            paragraph.append(plain_line(line))
        elif paragraph:
            break
    return " ".join(paragraph)


def _values(
    entries: tuple[tuple[str, str], ...], template: JsonValue
) -> dict[str, JsonValue] | None:
    if not entries:
        return None
    values = dict(entries)
    if len(values) < len(entries):
        names = [name for name, _ in entries]
        twice = next(name for name in names if names.count(name) > 1)
        message = f'"{twice}" was given twice; give it once'
        raise PayloadError(message, key=twice, read=brief(values[twice]), example=f"{twice}: …")
    return parse_values(template, values)


def _half(shown: str) -> str:
    return f'I read "{shown}": I cannot act on a condition or an exception. {_ASK}'


def _more(shown: str) -> str:
    return f'I read "{shown}", and I am not sure that it is a plain yes. {_ASK}'


def _unread(problem: str) -> _Line:
    return _Line(Verdict.UNCLEAR, problem=problem)


def _unclear(line: str, problem: str) -> Command:
    return Command(verdict=Verdict.UNCLEAR, problem=problem, first_line=brief(line))
