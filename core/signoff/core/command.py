"""What an approver's own words mean: yes, no, or something we have to ask about again.

The grammar, over the first line that is not blank::

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
from enum import StrEnum
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict, JsonValue

from signoff.core.entries import Entries, entries_below, entries_on_line
from signoff.core.errors import PayloadError
from signoff.core.payload import example_value, fields_of, missing_fields, parse_values
from signoff.core.text import LONGEST_LINE, brief, clean_text, is_signature, plain_line
from signoff.core.words import (
    APPROVE,
    CONDITIONS,
    COURTESY,
    HARMLESS,
    HEDGES,
    NEGATIONS,
    REJECT,
    REJECT_BRIEF,
)

LONGEST_TEXT: Final = 64 * 1024
MOST_LINES: Final = 200
LONGEST_REASON: Final = 2_000

_DECORATION: Final = "*_`\"'“”‘’«»「」"
_DASHES: Final = "-–—"
_SEPARATORS: Final = ":,;.!。、(" + _DASHES
_QUESTION_MARKS: Final = "?¿؟"
_ASK: Final = 'Answer with "approve" or "reject" alone on the first line.'


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
    lines = _lines(text)
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


def _read_line(raw: str, template: JsonValue) -> _Line:
    """Read one line by the grammar on top of this file."""
    if len(raw) > LONGEST_LINE:
        return _unread(f"The first line is too long to be an answer. {_ASK}")
    line, shown = plain_line(raw), brief(raw)
    if line[0] in _DECORATION:
        line = line.strip(_DECORATION + " ")
    if any(mark in _QUESTION_MARKS for mark in line):
        return _unread(f'I read a question: "{shown}". {_ASK}')
    for words in (REJECT, REJECT_BRIEF):
        rest = _after(line, words)
        if rest is not None:
            return _rejection(rest, shown, plain_words=words is REJECT)
    rest = _after(line, APPROVE)
    if rest is not None:
        return _approval(rest, shown, template)
    return _unread(f'I could not read "{shown}" as a yes or a no. {_ASK}')


def _after(line: str, words: frozenset[str]) -> str | None:
    """Return what follows the longest of the words that the line begins with, or None."""
    # Case-folding may lengthen text and never shortens it: no word reaches past its own length.
    for end in range(min(max(map(len, words)), len(line)), 0, -1):
        if line[:end].casefold() in words:
            rest = line[end:]
            return None if _glued(rest) else rest
    return None


def _glued(rest: str) -> bool:
    """Say whether what follows makes the word part of another: "okra", "ok-ish", "approve.exe"."""
    mark, then = rest[:1], rest[1:2]
    if mark and mark in _DASHES + ".":
        return then.isalnum()
    return mark.isalnum() or mark in tuple("_'’@/+&") or unicodedata.combining(mark or " ") > 0


def _approval(rest: str, shown: str, template: JsonValue) -> _Line:
    separated, body = _separate(rest)
    folded = _folded(body)
    if not body or folded in COURTESY or folded in APPROVE or (separated and folded in HARMLESS):
        return _Line(Verdict.APPROVE, reason=body if separated else "")
    entries = entries_on_line(body, template)
    if entries.problem:
        return _unread(entries.problem)
    if entries.found:
        return _Line(Verdict.APPROVE, entries=entries.found)
    if not separated:
        why = f'I read "{shown}": put a colon between the yes and your reason, as in "yes: fine".'
        return _unread(f"{why} {_ASK}")
    if _first_word(body) in HEDGES | NEGATIONS or _conditional(body):
        return _unread(_half(shown))
    return _Line(Verdict.APPROVE, reason=body)


def _rejection(rest: str, shown: str, *, plain_words: bool) -> _Line:
    separated, body = _separate(rest)
    if not body or _folded(body) in COURTESY:
        return _Line(Verdict.REJECT, reason=body if separated else "")
    if not separated and not plain_words:
        why = f'I read "{shown}": put a comma between the no and your reason, as in "no, too dear".'
        return _unread(f"{why} {_ASK}")
    taken_back = not separated and _first_word(body) in HEDGES | NEGATIONS
    if taken_back or _conditional(body):
        return _unread(_half(shown))
    return _Line(Verdict.REJECT, reason=body)


def _separate(rest: str) -> tuple[bool, str]:
    """Split what follows a command word into "was there a separator" and the words after it."""
    plain = rest.strip()
    body = plain.lstrip(_SEPARATORS + _DECORATION + " ")
    before = plain[: len(plain) - len(body)]
    if before and before[-1] in _DASHES + '."' and body[:1]:
        # The sign of "-3", the point of ".5" and the quote of '"x"' belong to the value.
        keep = before[-1] == '"' or body[0].isdigit()
        before, body = (before[:-1], before[-1] + body) if keep else (before, body)
    separated = any(mark in _SEPARATORS for mark in before)
    if separated and plain.startswith("("):
        body = body.removesuffix(")")
    return separated, body if body.strip(".!。 ") else ""


def _folded(text: str) -> str:
    return text.casefold().strip(" .!。,")


def _first_word(text: str) -> str:
    return text.split(" ", 1)[0].casefold().strip(" .!。,;:")


def _conditional(text: str) -> bool:
    folded = f" {text.casefold()}"
    # A phrase has to begin a word, except in the scripts that put no space between words.
    return any(
        (phrase if phrase[0] > "\u2fff" else f" {phrase}") in folded for phrase in CONDITIONS
    )


def _objection(line: _Line, rest: tuple[str, ...]) -> str:
    """Return what is wrong with the answer as a whole: a contradiction, or a condition."""
    if line.verdict is Verdict.APPROVE:
        opposite, words = Verdict.REJECT, REJECT | REJECT_BRIEF
    else:
        opposite, words = Verdict.APPROVE, APPROVE
    contrary = [later for later in rest if later and _read_line(later, None).verdict is opposite]
    # "yes, reject it" is no command by the grammar, but what it means is anybody's guess.
    if _after(line.reason, words) is not None and _folded(line.reason) not in HARMLESS:
        contrary.insert(0, line.reason)
    if contrary:
        return f'I read two answers that disagree; the second is "{brief(contrary[0])}". {_ASK}'
    paragraph = _first_paragraph(rest)
    # Only the first paragraph: the disclaimers that firms put under a mail are full of "unless".
    if _first_word(paragraph) in HEDGES or _conditional(paragraph):
        return _half(brief(paragraph))
    return ""


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


def _unread(problem: str) -> _Line:
    return _Line(Verdict.UNCLEAR, problem=problem)


def _unclear(line: str, problem: str) -> Command:
    return Command(verdict=Verdict.UNCLEAR, problem=problem, first_line=brief(line))
