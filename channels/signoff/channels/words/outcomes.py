"""The reply to a person about their move: its effect, or why it was refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from signoff.broker.decisions import Refused, Taken
from signoff.channels.words import phrases
from signoff.channels.words.messages import RenderedMessage, called, say
from signoff.channels.words.phrases import About
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.moves import Move
from signoff.core.base.errors import (
    AlreadyDecided,
    ApprovalError,
    Claimed,
    Escalated,
    GrantRefused,
    IllegalMove,
    MoveRefused,
    NotShownInFull,
    PayloadError,
    ReasonNeeded,
    TooLate,
)
from signoff.core.cards.card import awaited_by
from signoff.core.directory.people import Directory, Person
from signoff.core.payloads.payload import fields_of


class Answered(NamedTuple):
    """A reply to the person who requested a move."""

    about: About
    words: RenderedMessage


_DONE: Final[Mapping[type[Move], str]] = {
    moves.Claim: "claimed",
    moves.Release: "released",
    moves.Reassign: "given_away",
    moves.AskBack: "asked_back",
    moves.AnswerBack: "passed_on",
    moves.Comment: "commented",
    moves.Extend: "extended",
    moves.Remind: "reminded",
    moves.Withdraw: "withdrawn",
}

_REFUSED: Final[Mapping[type[ApprovalError], tuple[About, str]]] = {
    Escalated: (About.LATE, "late_here"),
    Claimed: (About.CLAIMED, "not_done"),
    MoveRefused: (About.NOT_DONE, "not_done"),
    IllegalMove: (About.NOT_DONE, "not_done"),
    NotShownInFull: (About.NOT_SHOWN, "not_shown"),
    ApprovalError: (About.NOT_YOURS, "not_yours"),
}
"""Refusals and the messages for them; the first match is used."""


def effect_of(
    move: Move, taken: Taken, person: Person, directory: Directory, *, again: bool
) -> Answered | None:
    """Return the effect of a move; None if the outcome of the approval already says it.

    Args:
        move: The requested move.
        taken: The result.
        person: The person who requested it.
        directory: The people.
        again: Whether the person had already taken the first of two steps.
    """
    after, reader = taken.approval, person.id
    if taken.grant is not None:
        return Answered(About.GRANTED, phrases.granted(after, taken.grant, directory, reader))
    if isinstance(move, moves.Approve) and (step := after.step_of(reader)) is not None:
        words = phrases.first_step(after, step, directory, reader, again=again)
        return Answered(About.FIRST_STEP, words)
    if isinstance(move, moves.Approve | moves.Reject):
        if after.state is not State.PENDING:
            return None
        return Answered(About.VOTED, phrases.voted(after, reader, directory))
    if (name := _DONE.get(type(move))) is None:
        return None
    to = called(after.handovers[-1].to, directory) if after.handovers else ""
    awaited = awaited_by(after, directory)
    return Answered(About.DONE, say(name, after, directory, reader, to=to, awaited=awaited))


def refusal_of(refused: Refused, person: Person | None, directory: Directory) -> Answered:
    """Return why the move of a person was refused; None for a stranger."""
    approval, error, why = refused.approval, refused.error, str(refused.error)
    reader = person.id if person is not None else phrases.NOBODY
    match error:
        case PayloadError():
            example = _example(approval, error)
            words = phrases.not_understood(approval, why, directory, reader, example=example)
            return Answered(About.NOT_UNDERSTOOD, words)
        case GrantRefused():
            return Answered(About.NO_GRANT, phrases.no_grant(approval, why, directory, reader))
        case AlreadyDecided() if person is not None:
            words = phrases.already_decided(approval, reader, directory)
            return Answered(About.DECIDED, words)
        case TooLate():
            return Answered(About.LATE, phrases.late(approval, directory, reader))
    about, name = next(told for kind, told in _REFUSED.items() if isinstance(error, kind))
    return Answered(about, phrases.refusal(name, approval, why, directory, reader))


def _example(approval: Approval, error: PayloadError) -> str:
    """Return a valid answer."""
    example = approval.example_of_yes
    fixed = error.key in approval.call.args and error.key not in fields_of(approval.template)
    if isinstance(error, ReasonNeeded) or fixed:
        return error.example
    if error.key and error.key not in example and error.example != example:
        return f"{example}\n{error.example}"
    return example
