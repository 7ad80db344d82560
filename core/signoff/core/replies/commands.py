"""What a reply may say other than yes and no.

::

    claim   [for DURATION]                  claim   claim 2h   übernehme
    release [: reason]                      unclaim   abgeben
    forward to NAME : reason                forward to tom: he knows the vendor
    ask     : question                      ? which cost centre      frage: welche Kostenstelle
    comment : text                          kommentar: passt zum Angebot
    extend  [by] DURATION : reason          extend 4h: waiting for the vendor
    remind                                  remind them   erinnern
    withdraw [: reason]                     for the requester alone
    revoke  [: reason]                      takes back that similar calls are approved
    away    [from DAY] until DAY [, delegate NAME]
    back

The phrases are those of the lexicon, so each of these can be said in every language.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Final

from signoff.core.dates import read_date
from signoff.core.replies.grammar import Reader, State
from signoff.core.replies.languages import Role
from signoff.core.replies.patterns import Match
from signoff.core.replies.reply import (
    Ask,
    Away,
    Back,
    Claim,
    Comment,
    Extend,
    Reassign,
    Release,
    Remind,
    Reply,
    Revoke,
    Unclear,
    Withdraw,
)
from signoff.core.replies.tokens import MARKS, NEWLINE
from signoff.core.text import brief, clean_text, plain_line

_ROLES: Final = (
    *(Role.CLAIM, Role.RELEASE, Role.REASSIGN, Role.ASK, Role.COMMENT, Role.EXTEND, Role.REMIND),
    *(Role.WITHDRAW, Role.REVOKE, Role.AWAY, Role.BACK),
)
_ASKS: Final = "?¿"
_LONGEST_NAME: Final = 254


def read_command(reader: Reader, decides: Callable[[str], bool]) -> Reply | None:
    """Read what is neither a yes nor a no.

    Args:
        reader: Has the text, in one language.
        decides: Says whether a line by itself would decide.

    Returns:
        The command, an `Unclear` that names what it lacks, or None where it is no command.
    """
    for at in reader.openings():
        if at < len(reader.text) and reader.text.tokens[at].text in _ASKS:
            text = _rest(reader, at).lstrip(_ASKS + " ")
            return _beside(_said(Ask, text, "?"), text, decides)
        found = [one for one in reader.phrases(at) if one.role in _ROLES]
        for match in sorted(found, key=lambda one: one.end, reverse=True):
            command = _command(reader, match)
            if command is not None:
                return _beside(command, _rest(reader, match.end), decides)
    return _half_away(reader)


def _command(reader: Reader, match: Match) -> Reply | None:
    colon = _is_colon(reader, match.end)
    ends = _ends_line(reader, match.end)
    reason = _rest(reader, match.end)
    slots = {slot: (start, end) for slot, start, end in match.slots}
    match match.role:
        case Role.CLAIM if _is_all(reader, match.end):
            return Claim(length=_duration(reader, slots))
        case Role.REMIND if _is_all(reader, match.end):
            return Remind()
        case Role.BACK if _is_all(reader, match.end):
            return Back()
        case Role.AWAY if _is_all(reader, match.end):
            return _away(reader, match)
        case Role.RELEASE if colon or ends:
            return Release(reason=reason)
        case Role.WITHDRAW if colon or ends:
            return Withdraw(reason=reason)
        case Role.REVOKE if colon or ends:
            return Revoke(reason=reason)
        case Role.ASK if colon:
            return _said(Ask, reason, "ask:")
        case Role.COMMENT if colon:
            return _said(Comment, reason, "comment:")
        case Role.EXTEND if colon or ends:
            length = _duration(reader, slots)
            if length is None or not length:
                return None
            if not reason:
                why = 'More time needs a reason: "extend 4h: waiting for the vendor".'
                return Unclear(problem=why)
            return Extend(length=length, reason=reason)
        case Role.REASSIGN if colon or ends:
            name = _name(reader, slots)
            if not name:
                return None
            if not reason:
                example = f'"forward to {brief(name)}: why"'
                return Unclear(problem=f"Handing it on needs a reason: {example}.")
            return Reassign(to=name, reason=reason)
    return None


def _said(kind: type[Ask | Comment], text: str, word: str) -> Reply:
    return kind(text=text) if text else Unclear(problem=f'There are no words after "{word}".')


def _beside(command: Reply, text: str, decides: Callable[[str], bool]) -> Reply:
    """Return the command, or that a decision stands beside it."""
    lines = (line for line in text.split("\n") if line.strip())
    contrary = next((line for line in lines if decides(line)), "")
    if not contrary or isinstance(command, Unclear):
        return command
    return Unclear(
        problem=f'I read more than one thing; one of them is "{brief(contrary)}". Send your '
        "decision and everything else in separate mails."
    )


def _is_colon(reader: Reader, at: int) -> bool:
    return at < len(reader.text) and reader.text.tokens[at].text == ":"


def _ends_line(reader: Reader, at: int) -> bool:
    """Say whether only marks stand on the rest of a line, none of them a colon."""
    rest = reader.text.tokens[at : reader.text.line_end(at)]
    return all(token.text in MARKS and token.text != ":" for token in rest)


def _is_all(reader: Reader, at: int) -> bool:
    """Say whether everything from a token on is harmless, and no decision."""
    left = reader.cover(at, State.AFTER)
    return left is not None and not left.cost and all(p.role != Role.YES for p in left.pieces)


def _rest(reader: Reader, at: int) -> str:
    """Return the text from a token on, up to the signature, cleaned."""
    end = reader.signature_from(at)
    while at < end and reader.text.tokens[at].text in MARKS | {NEWLINE}:
        at += 1
    return clean_text(reader.text.words(at, end)).strip()


def _duration(reader: Reader, slots: dict[str, tuple[int, int]]) -> timedelta | None:
    if "duration" not in slots:
        return None
    start, end = slots["duration"]
    return dict(reader.durations(start)).get(end)


def _name(reader: Reader, slots: dict[str, tuple[int, int]]) -> str:
    start, end = slots["person"]
    return reader.text.words(start, end).strip(" .,;:!*_`\"'“”‘’«»「」")[:_LONGEST_NAME]


def _away(reader: Reader, match: Match) -> Reply:
    days: list[date] = []
    for slot, start, end in match.slots:
        day = read_date(plain_line(reader.text.words(start, end)).rstrip("."))
        if slot == "day" and day is not None:
            days.append(day)
    first, last = (days[0] if len(days) > 1 else None), days[-1]
    if first is not None and last < first:
        return Unclear(problem=f"It would end on {last}, before it begins on {first}.")
    named = any(slot == "person" for slot, _, _ in match.slots)
    slots = {slot: (start, end) for slot, start, end in match.slots}
    return Away(start=first, end=last, delegate=_name(reader, slots) if named else "")


def _half_away(reader: Reader) -> Reply | None:
    """Return how to write an absence whose days cannot be read."""
    for at in reader.openings():
        found = reader.longest(at, Role.AWAY_WORDS)
        if found is not None and not _is_all(reader, found.end):
            line = reader.text.words(at, reader.text.line_end(at))
            return Unclear(
                problem=f'I read "{brief(line)}" and cannot tell from when to when. Write it like '
                '"away until 2026-12-24" or "away from 2026-12-24 until 2027-01-02, delegate tom".'
            )
    return None
