"""What an answer says about being away: "away until 2026-12-24, delegate tom", or "back".

The grammar; it is all that stands there, but for a greeting and a signature::

    away    = AWAY [ FROM day ] UNTIL day [ [ "," ] DELEGATE [ ":" ] name ]
    back    = BACK

Days are read as `signoff.core.dates` reads them. A programme that answers for somebody says more
than this, or is told apart before; whatever the grammar does not cover says nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Final

from signoff.core.command import without_greeting
from signoff.core.dates import read_date
from signoff.core.model import Value
from signoff.core.text import LONGEST_LINE, brief, plain_line, unaccented


def _alike(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({unaccented(word) for word in words}, key=len, reverse=True))


_AWAY: Final = _alike(
    (
        *("away", "i am away", "i'm away", "i will be away", "out of office", "ooo", "absent"),
        *("on vacation", "on holiday", "i am on vacation", "i am on holiday", "out of the office"),
        *("abwesend", "ich bin abwesend", "im urlaub", "ich bin im urlaub", "nicht da"),
        *("absente", "en congé", "en vacances", "ausente", "de vacaciones", "assente", "afwezig"),
    )
)
_BACK: Final = frozenset(
    _alike(
        (
            *("back", "i am back", "i'm back", "back again", "i am back again"),
            *("wieder da", "ich bin wieder da", "bin wieder da", "zurück", "ich bin zurück"),
            *("de retour", "je suis de retour", "de vuelta", "di ritorno", "terug"),
        )
    )
)
_FROM: Final = _alike(("from", "since", "vom", "von", "ab", "du", "depuis", "desde", "dal", "van"))
_UNTIL: Final = _alike(
    ("until", "till", "til", "through", "to", "bis", "bis zum", "jusqu'au", "au", "hasta", "tot")
)
_DELEGATE: Final = _alike(
    ("delegate", "delegate is", "deputy", "vertretung", "vertreter", "vertreterin", "suppléant")
)
_LOOSE: Final = " ,;:.!"


class Leaving(Value):
    """What was said.

    Attributes:
        back: Whether it is that the person is back; nothing else is set then.
        start: The first day, None for today.
        end: The last day.
        delegate: Who decides instead, as it was written; "" for nobody.
        problem: What is wrong with it, in words for the person; empty when it is clear.
    """

    back: bool = False
    start: date | None = None
    end: date | None = None
    delegate: str = ""
    problem: str = ""


def read_leaving(text: str) -> Leaving | None:
    """Read an answer that says neither yes nor no.

    Args:
        text: The person's own text; quoted mail is cut by the channel.

    Returns:
        What it says, or None where it says nothing of the kind. No text makes this raise.
    """
    first, _, below = without_greeting(text).partition("\n")
    if below.strip() or not first or len(first) > LONGEST_LINE:
        return None
    line = plain_line(first).strip(_LOOSE)
    if unaccented(line.casefold()) in _BACK:
        return Leaving(back=True)
    rest = _behind(line, _AWAY)
    return _read(rest) if rest else None


def _read(rest: str) -> Leaving | None:
    when, delegate = _split(rest, _DELEGATE)
    since, until = _split(when, _UNTIL)
    begin = _behind(since, _FROM)
    if not until or (since and not begin):
        return None
    start, end = read_date(begin), read_date(until)
    if end is None or (begin and start is None):
        wrong = until if end is None else begin
        return Leaving(problem=f'"{brief(wrong)}" is no day: write it like 2026-12-24.')
    if start is not None and end < start:
        return Leaving(problem=f"It would end on {end}, before it begins on {start}.")
    return Leaving(start=start, end=end, delegate=delegate)


def _behind(text: str, words: Iterable[str]) -> str:
    """Return what follows one of the words at the beginning, "" where none is there."""
    folded = text.casefold()
    for word in words:
        # Compared without accents; letters that fold to several are not among these words.
        head = text[: len(word)]
        if unaccented(head.casefold()) == word and folded[len(word) : len(word) + 1] in {" ", ":"}:
            return text[len(word) :].strip(_LOOSE)
    return ""


def _split(text: str, words: Iterable[str]) -> tuple[str, str]:
    """Return what is before one of the words, and what is behind it; "" where it is not there."""
    pieces = text.split(" ")
    for at in range(len(pieces)):
        rest = _behind(" ".join(pieces[at:]), words)
        if rest:
            return " ".join(pieces[:at]).strip(_LOOSE), rest
    return text.strip(_LOOSE), ""
