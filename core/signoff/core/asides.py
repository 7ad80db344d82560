"""What an answer says that is no decision: a claim, a question back, a comment, more time.

The grammar, over the first line::

    claim   [DURATION]                      claim   claim 2h   übernehme
    release [: reason]                      unclaim   abgeben
    forward to NAME : reason                forward to tom: he knows the vendor
    ask     : question                      ? which cost centre      frage: welche Kostenstelle
    comment : text                          kommentar: passt zum Angebot
    extend  [by] DURATION : reason          extend 4h: waiting for the vendor
    remind                                  remind them   erinnern
    withdraw [: reason]                     (of the requester alone)

It is only looked at where `signoff.core.command` finds neither a yes nor a no, so that it takes no
answer away; and an aside with a yes or a no beside it is asked about, as two answers are.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum
from typing import Final

from signoff.core.command import Verdict, read_command, without_greeting
from signoff.core.durations import parse_duration
from signoff.core.model import Value
from signoff.core.text import LONGEST_LINE, brief, clean_text, plain_line, unaccented


class Does(StrEnum):
    """What an aside does."""

    CLAIM = "claim"
    RELEASE = "release"
    REASSIGN = "reassign"
    ASK = "ask"
    COMMENT = "comment"
    EXTEND = "extend"
    REMIND = "remind"
    WITHDRAW = "withdraw"


class Aside(Value):
    """An aside, read.

    Attributes:
        does: What it does.
        text: The question, the comment or the reason, cleaned.
        to: Whom a question is forwarded to, as it was written.
        length: How long a claim shall hold, or by how much the deadline shall move.
        problem: What is wrong with it, in words for the person; empty when it is clear.
    """

    does: Does
    text: str = ""
    to: str = ""
    length: timedelta | None = None
    problem: str = ""


def _alike(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({unaccented(word) for word in words}, key=len, reverse=True))


WORDS: Final[dict[Does, tuple[str, ...]]] = {
    does: _alike(words)
    for does, words in {
        Does.CLAIM: (
            *("claim", "claimed", "i claim", "claim it", "claim this", "mine", "i'll take it"),
            *("i take it", "i'll take this", "i'm on it"),
            *("übernehme", "ich übernehme", "übernehmen", "übernommen", "ich übernehme das"),
            *("ich übernehme es", "ich kümmere mich", "ich kümmere mich darum", "uebernehme"),
        ),
        Does.RELEASE: (
            *("release", "unclaim", "release it", "release this", "release claim", "i release it"),
            *("abgeben", "ich gebe es ab", "ich gebe ab", "zurückgeben", "ich gebe es zurück"),
        ),
        Does.REASSIGN: (
            *("forward to", "forward this to", "forward it to", "reassign to", "hand over to"),
            *(
                "reassign this to",
                "reassign it to",
                "hand to",
                "pass to",
                "pass on to",
                "assign to",
            ),
            *("hand it over to", "hand this over to"),
            *("weiterleiten an", "weiterleiten zu", "übergeben an", "weitergeben an"),
            *("zuweisen an", "abgeben an", "ich übergebe an", "weiter an"),
        ),
        Does.ASK: (
            *("ask", "question", "i ask", "my question"),
            *("frage", "rückfrage", "nachfrage", "fragen", "meine frage"),
        ),
        Does.COMMENT: (
            *("comment", "note", "remark", "fyi"),
            *("kommentar", "notiz", "anmerkung", "hinweis", "bemerkung"),
        ),
        Does.EXTEND: (
            *("extend", "extend by", "prolong", "prolong by", "more time", "extend it by"),
            *("verlängern", "verlängern um", "verlängere um", "mehr zeit"),
        ),
        Does.REMIND: (
            *("remind", "remind now", "remind them", "remind them now", "remind the others"),
            *("send a reminder", "please remind them"),
            *("erinnern", "erinnere sie", "bitte erinnern", "nachfassen", "erinnerung senden"),
        ),
        Does.WITHDRAW: (
            *("withdraw", "withdrawn", "i withdraw", "withdraw it", "withdraw this", "cancel"),
            *("cancel it", "cancel this", "i withdraw it", "i withdraw this"),
            *("zurückziehen", "zurückgezogen", "ich ziehe es zurück", "ich ziehe zurück"),
            *("stornieren", "ich ziehe das zurück"),
        ),
    }.items()
}
"""The words of each, case-folded and without accents, the longest first."""

_ENDS: Final = " .!"
_DECORATION: Final = "*_`\"'“”‘’«»「」 "
_QUESTION_MARK: Final = "?"
_LONGEST_NAME: Final = 254


def read_aside(text: str) -> Aside | None:
    """Read an answer that `read_command` has found neither a yes nor a no in.

    Args:
        text: The person's own text; quoted mail is cut by the channel.

    Returns:
        What it says, or None where it is no aside. No text makes this raise.
    """
    first, _, below = without_greeting(text).partition("\n")
    if not first or len(first) > LONGEST_LINE:
        return None
    found = _read(plain_line(first).strip(_DECORATION), below)
    if found is None or found.problem:
        return found
    if contrary := _decision_beside(found, below):
        return found.model_copy(
            update={
                "problem": f'I read more than one thing; one of them is "{brief(contrary)}". Send '
                "your decision and everything else in mails of their own."
            }
        )
    return found


def is_withdrawal(line: str) -> bool:
    """Say whether a line would be read as the requester's withdrawal."""
    head = plain_line(line[:_LONGEST_NAME]).strip(_DECORATION).partition(":")[0]
    return unaccented(head.casefold()).strip(_ENDS) in WORDS[Does.WITHDRAW]


def _read(line: str, below: str) -> Aside | None:
    if line.startswith(_QUESTION_MARK):
        return _with_text(Does.ASK, line.lstrip(_QUESTION_MARK), below)
    head, colon, behind = line.partition(":")
    key = unaccented(head.casefold()).strip(_ENDS)
    for does, words in WORDS.items():
        for word in words:
            if key == word or key.startswith(f"{word} "):
                # What follows the word keeps its case and its accents: it may be a name.
                rest = head.strip(_ENDS)[len(word) :].strip(_ENDS) if key != word else ""
                if (found := _made(does, rest, colon, behind, below)) is not None:
                    return found
    return None


def _made(does: Does, rest: str, colon: str, behind: str, below: str) -> Aside | None:
    """Return the aside of a known word, by what follows it; None if that makes it none."""
    match does:
        case Does.CLAIM:
            return None if colon else _claim(rest)
        case Does.REMIND:
            return None if rest or colon else Aside(does=does)
        case Does.RELEASE | Does.WITHDRAW:
            return None if rest else Aside(does=does, text=_clean(behind, below))
        case Does.ASK | Does.COMMENT:
            return _with_text(does, behind, below) if colon and not rest else None
        case Does.EXTEND:
            return _extension(rest, _clean(behind, below if colon else ""))
        case Does.REASSIGN:
            return _reassignment(rest, _clean(behind, below if colon else ""))


def _claim(rest: str) -> Aside | None:
    if not rest:
        return Aside(does=Does.CLAIM)
    length = _duration(rest.removeprefix("for ").removeprefix("für "))
    return None if length is None else Aside(does=Does.CLAIM, length=length)


def _extension(rest: str, reason: str) -> Aside | None:
    length = _duration(rest)
    if length is None:
        return None
    problem = "" if reason else 'More time needs a reason: "extend 4h: waiting for the vendor".'
    return Aside(does=Does.EXTEND, length=length, text=reason, problem=problem)


def _reassignment(rest: str, reason: str) -> Aside | None:
    name = rest.strip(_DECORATION)
    if not name or len(name) > _LONGEST_NAME:
        return None
    problem = "" if reason else f'Handing it on needs a reason: "forward to {brief(name)}: why".'
    return Aside(does=Does.REASSIGN, to=name, text=reason, problem=problem)


def _with_text(does: Does, behind: str, below: str) -> Aside:
    text = _clean(behind, below)
    problem = "" if text else f'There are no words behind "{does}:".'
    return Aside(does=does, text=text, problem=problem)


def _clean(behind: str, below: str) -> str:
    return clean_text(f"{behind.strip()}\n{below}").strip()


def _duration(text: str) -> timedelta | None:
    try:
        length = parse_duration(text)
    except ValueError:
        return None
    return length if isinstance(length, timedelta) and length > timedelta() else None


def _decision_beside(found: Aside, below: str) -> str:
    """Return a line of it that by itself would decide, "" where there is none."""
    lines = [*found.text.split("\n"), *below.split("\n")]
    clear = (line for line in lines if line.strip())
    return next((line for line in clear if read_command(line).verdict is not Verdict.UNCLEAR), "")
