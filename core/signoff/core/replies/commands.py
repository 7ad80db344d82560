"""Reads the commands in replies: everything that a reply may say besides yes and no.

::

    claim   [for DURATION]                  claim   claim 2h   übernehme
    release [: reason]                      unclaim   abgeben
    forward to NAME : reason                forward to tom: he knows the vendor
    ask     : question                      ? which cost centre      frage: welche Kostenstelle
    comment : text                          kommentar: passt zum Angebot
    extend  [by] DURATION : reason          extend 4h: waiting for the vendor
    remind                                  remind them   erinnern
    withdraw [: reason]                     only for the requester
    revoke  [: reason]                      revokes the grant for similar calls
    away    [from DAY] until DAY [, delegate NAME]
    back

The lexicon has the phrases, so people can write each command in every language.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Final

from signoff.core.base.dates import read_date
from signoff.core.base.text import brief, clean_text, plain_line
from signoff.core.lexicon.languages import Role
from signoff.core.lexicon.patterns import Match
from signoff.core.lexicon.tokens import MARKS, NEWLINE
from signoff.core.replies.grammar import Reader
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

_ROLES: Final = (
    *(Role.CLAIM, Role.RELEASE, Role.REASSIGN, Role.ASK, Role.COMMENT, Role.EXTEND, Role.REMIND),
    *(Role.WITHDRAW, Role.REVOKE, Role.AWAY, Role.BACK),
)
_BARE: Final = frozenset({Role.CLAIM, Role.REMIND, Role.AWAY, Role.BACK})
_SPOKEN: Final[dict[Role, type[Ask | Comment]]] = {Role.ASK: Ask, Role.COMMENT: Comment}
_REASONED: Final[dict[Role, type[Release | Withdraw | Revoke]]] = {
    Role.RELEASE: Release,
    Role.WITHDRAW: Withdraw,
    Role.REVOKE: Revoke,
}
_ASKS: Final = "?"
_LONGEST_NAME: Final = 254


def read_command(reader: Reader, decides: Callable[[str], bool]) -> Reply | None:
    """Read a text that is neither an approval nor a rejection.

    Args:
        reader: The reader of the text in one language.
        decides: Says whether a line would be a decision if it stood alone.

    Returns:
        The command, an `Unclear` that says what it lacks, or None if the text is not a command.
    """
    for at in reader.openings():
        if at < len(reader.text) and reader.text.tokens[at].text == _ASKS:
            text = _rest(reader, at).lstrip(f"{_ASKS}？ ")
            return _beside(_with_text(Ask, text, "?"), text, decides)
        found = [one for one in reader.phrases(at) if one.role in _ROLES]
        for match in sorted(found, key=lambda one: one.end, reverse=True):
            command = _command(reader, match)
            if command is not None:
                return _beside(command, _rest(reader, match.end), decides)
    return _half_away(reader)


def _command(reader: Reader, match: Match) -> Reply | None:
    """Return the command of a phrase, None if the text after the phrase does not fit a command."""
    role = Role(match.role)
    if role in _BARE:
        return _bare(reader, match) if reader.harmless_from(match.end) else None
    colon = _is_colon(reader, match.end)
    if not colon and (role in _SPOKEN or not _ends_line(reader, match.end)):
        return None
    text = _rest(reader, match.end)
    if role in _SPOKEN:
        return _with_text(_SPOKEN[role], text, f"{role}:")
    if role in _REASONED:
        return _REASONED[role](reason=text)
    return (
        _extension(reader, match, text)
        if role is Role.EXTEND
        else _reassignment(reader, match, text)
    )


def _bare(reader: Reader, match: Match) -> Reply:
    """Return a command that takes no further text."""
    match match.role:
        case Role.CLAIM:
            return Claim(length=_duration(reader, match))
        case Role.REMIND:
            return Remind()
        case Role.AWAY:
            return _away(reader, match)
    return Back()


def _extension(reader: Reader, match: Match, reason: str) -> Reply | None:
    length = _duration(reader, match)
    if not length:
        return None
    if not reason:
        return Unclear(problem='More time needs a reason: "extend 4h: waiting for the vendor".')
    return Extend(length=length, reason=reason)


def _reassignment(reader: Reader, match: Match, reason: str) -> Reply | None:
    name = _name(reader, match)
    if not name:
        return None
    if not reason:
        example = f'"forward to {brief(name)}: why"'
        return Unclear(problem=f"Handing it on needs a reason: {example}.")
    return Reassign(to=name, reason=reason)


def _with_text(kind: type[Ask | Comment], text: str, word: str) -> Reply:
    return kind(text=text) if text else Unclear(problem=f'There are no words after "{word}".')


def _beside(command: Reply, text: str, decides: Callable[[str], bool]) -> Reply:
    """Return the command, or `Unclear` if the text after it has a line that decides."""
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
    """Say whether the rest of a line has only marks, and no colon."""
    rest = reader.text.tokens[at : reader.text.line_end(at)]
    return all(token.text in MARKS and token.text != ":" for token in rest)


def _rest(reader: Reader, at: int) -> str:
    """Return the text from a token on, up to the signature, cleaned."""
    end = reader.signature_from(at)
    while at < end and reader.text.tokens[at].text in MARKS | {NEWLINE}:
        at += 1
    return clean_text(reader.text.words(at, end)).strip()


def _slots(match: Match) -> dict[str, tuple[int, int]]:
    return {slot: (start, end) for slot, start, end in match.slots}


def _duration(reader: Reader, match: Match) -> timedelta | None:
    start, end = _slots(match).get("duration", (0, 0))
    return dict(reader.durations(start)).get(end) if end else None


def _name(reader: Reader, match: Match) -> str:
    start, end = _slots(match).get("person", (0, 0))
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
    return Away(start=first, end=last, delegate=_name(reader, match))


def _half_away(reader: Reader) -> Reply | None:
    """Return help for writing an absence whose days cannot be read, None if it is not one."""
    for at in reader.openings():
        found = reader.longest(at, Role.AWAY_WORDS)
        if found is not None and reader.harmless_from(found.end) is None:
            line = reader.text.words(at, reader.text.line_end(at))
            return Unclear(
                problem=f'I read "{brief(line)}" and cannot tell from when to when. Write it like '
                '"away until 2026-12-24" or "away from 2026-12-24 until 2027-01-02, delegate tom".'
            )
    return None
