"""What approves calls like one beforehand: "approve and calls like it for 4 hours".

The grammar, over the first line::

    grant = yes [ this ] and-calls-like-it for NUMBER UNIT [ , at most NUMBER [ times ] ]

        approve and calls like it for 4 hours
        Approve this and similar calls for 30 minutes, at most 5 times.
        genehmigt, und ähnliche Aufrufe für 4 Stunden

It is matched word by word from the first to the last: nothing else may stand on the line. What
speaks of calls like it in another form is asked about, and "ok for 3 days" is none of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from signoff.core.command import LONGEST_REASON, Verdict, read_command, without_greeting
from signoff.core.durations import parse_duration
from signoff.core.model import Value
from signoff.core.text import LONGEST_LINE, brief, clean_text, plain_line, unaccented

EXAMPLE: Final = "approve and calls like it for 4 hours"
_EXAMPLE_SPAN: Final = timedelta(hours=4)
_LONGEST_NUMBER: Final = 4


class Wish(Value):
    """An answer that approves calls like one too.

    Attributes:
        span: For how long.
        uses: For how many calls, None for as many as the policy allows.
        reason: Why, from the lines below.
        problem: Why it is unclear, in words for the person; empty when it is clear.
    """

    span: timedelta = timedelta(0)
    uses: int | None = None
    reason: str = ""
    problem: str = ""


def _phrases(*texts: str) -> tuple[tuple[str, ...], ...]:
    """Return phrases as words, the longest first."""
    return tuple(sorted((tuple(text.split()) for text in texts), key=len, reverse=True))


_YES: Final = _phrases(
    *("approve", "approved", "yes", "ok", "okay", "i approve"),
    *("ja", "genehmigt", "genehmige", "genehmigen", "freigegeben", "freigeben"),
    *("ich genehmige", "einverstanden"),
)
_THIS: Final = _phrases("this", "it", "this call", "this one", "dies", "das", "es", "diesen aufruf")
_AND: Final = _phrases("and", "und")
_LIKE: Final = _phrases(
    *("calls like it", "calls like this", "calls like this one", "similar calls"),
    *("all calls like it", "all calls like this", "all similar calls"),
    *("requests like it", "requests like this", "similar requests"),
    *("ahnliche aufrufe", "aehnliche aufrufe", "ahnliche anfragen", "aehnliche anfragen"),
    *("aufrufe wie diesen", "aufrufe wie dieser", "alle ahnlichen aufrufe"),
)
_SPOKEN_OF: Final = _phrases(
    *("calls like", "requests like", "similar calls", "similar requests"),
    *("ahnliche aufrufe", "aehnliche aufrufe", "ahnliche anfragen", "aehnliche anfragen"),
    *("ahnlichen aufrufe", "aufrufe wie", "like it for", "and the like"),
)
_FOR: Final = _phrases("for", "for the next", "fur", "fuer", "fur die nachsten")
_AT_MOST: Final = _phrases("at most", "up to", "hochstens", "hoechstens", "maximal", "bis zu")
_TIMES: Final = _phrases("times", "calls", "uses", "mal", "aufrufe")
_UNITS: Final = {
    unit: size
    for size, units in (
        (timedelta(minutes=1), "minute minutes min mins minuten"),
        (timedelta(hours=1), "hour hours h hr hrs stunde stunden std"),
        (timedelta(days=1), "day days tag tage tagen"),
    )
    for unit in units.split()
}
_REVOKE: Final = frozenset(
    {
        *("revoke", "revoke it", "revoke this", "revoke the grant", "i revoke it", "revoked"),
        *("widerrufen", "widerruf", "widerrufe", "ich widerrufe", "ich widerrufe es"),
    }
)
_DASHES: Final = "-–—"
_DECORATION: Final = "*_`\"'“”‘’«»「」 "


def read_wish(text: str) -> Wish | None:
    """Read an answer that may approve calls like one too.

    Args:
        text: The person's own text; quoted mail is cut by the channel.

    Returns:
        What it says; None where it does not speak of other calls, and is read as ever. No text
        makes this raise.
    """
    first, _, below = without_greeting(text).partition("\n")
    if not first or len(first) > LONGEST_LINE:
        return None
    loosely = _after(_words(plain_line(first), ",:;.!" + _DASHES), _YES)
    if loosely is None or not any(_holds(loosely, one) for one in _SPOKEN_OF):
        return None
    rest = _after(_words(plain_line(first), ","), _YES)
    wish = _read(rest) if rest is not None else None
    if wish is None:
        return Wish(
            problem=f'I read "{brief(first)}", and I am not sure which other calls you mean, or '
            f'for how long. Write it as in "{EXAMPLE}".'
        )
    # Whatever takes a yes back takes this one back.
    command = read_command(f"approve\n{below}")
    if command.verdict is not Verdict.APPROVE:
        return Wish(problem=command.problem or "I read two answers.")
    return wish.model_copy(update={"reason": command.reason})


def read_revocation(text: str) -> str | None:
    """Read an answer that takes a grant back: ``revoke``, ``revoke: the conference is over``.

    Args:
        text: The person's own text; quoted mail is cut by the channel.

    Returns:
        The reason, which may be ""; None where it is something else. No text makes this raise.
    """
    first, _, below = without_greeting(text).partition("\n")
    head, colon, behind = plain_line(first[:LONGEST_LINE]).strip(_DECORATION).partition(":")
    if unaccented(head.casefold()).strip(" .!") not in _REVOKE:
        return None
    return clean_text(behind if colon else below).strip()[:LONGEST_REASON]


def example_of_wish(longest: timedelta) -> str:
    """Return an answer that approves calls like one too, for no longer than may be."""
    if longest >= _EXAMPLE_SPAN:
        return EXAMPLE
    minutes = max(longest // timedelta(minutes=1), 1)
    return EXAMPLE.replace("4 hours", f"{minutes} minutes")


def spans_within(longest: timedelta) -> tuple[timedelta, ...]:
    """Return durations to choose from, none of them longer than may be."""
    usual = tuple(timedelta(minutes=one) for one in (30, 60, 240, 480, 1440))
    return tuple(one for one in usual if one <= longest) or (longest,)


def _read(words: Sequence[str]) -> Wish | None:
    """Read what follows the yes, to the last word."""
    rest = _after(_after(words, _THIS) or words, _AND)
    for phrases in (_LIKE, _FOR):
        rest = _after(rest, phrases) if rest is not None else None
    if not rest:
        return None
    span, left = _span(rest)
    if span is None:
        return None
    if not left:
        return Wish(span=span)
    counted = _after(left, _AT_MOST)
    if not counted or not _is_number(counted[0]):
        return None
    done = not counted[1:] or _after(counted[1:], _TIMES) == ()
    return Wish(span=span, uses=int(counted[0])) if done else None


def _span(words: Sequence[str]) -> tuple[timedelta | None, Sequence[str]]:
    """Return how long the first words say, and the words behind them."""
    if len(words) > 1 and _is_number(words[0]) and words[1] in _UNITS:
        return int(words[0]) * _UNITS[words[1]], words[2:]
    try:
        span = parse_duration(words[0]) if words[0][-1:].isalpha() else None
    except ValueError:
        span = None
    return (span if isinstance(span, timedelta) else None), words[1:]


def _words(line: str, marks: str) -> tuple[str, ...]:
    """Return the words of a line without the marks around them."""
    folded = unaccented(line.strip(_DECORATION).casefold()).rstrip(".!")
    return tuple(word for part in folded.split() if (word := part.strip(marks)))


def _after(words: Sequence[str], phrases: Iterable[tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return what follows the longest phrase that the words begin with, or None."""
    return next(
        (tuple(words[len(one) :]) for one in phrases if tuple(words[: len(one)]) == one), None
    )


def _holds(words: Sequence[str], phrase: tuple[str, ...]) -> bool:
    return any(tuple(words[at : at + len(phrase)]) == phrase for at in range(len(words)))


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= _LONGEST_NUMBER
