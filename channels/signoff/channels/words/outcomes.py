"""What somebody is told of the move that they wanted: what it did, or why it was refused."""

from __future__ import annotations

from datetime import tzinfo
from typing import NamedTuple

from signoff.broker.decisions import Refused, Taken
from signoff.channels.words import collaboration, grants, levels, phrases
from signoff.channels.words.phrases import About, Words
from signoff.core.approvals import moves
from signoff.core.approvals.answers import example_of_yes
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.moves import Move
from signoff.core.base.errors import (
    AlreadyDecided,
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
from signoff.core.directory.people import Directory, Person
from signoff.core.payloads.payload import fields_of


class Answered(NamedTuple):
    """Something to tell the person who wanted a move."""

    about: About
    words: Words


def done(
    move: Move, taken: Taken, person: Person, directory: Directory, *, again: bool = False
) -> Answered | None:
    """Return what a move has done; None where the outcome of the approval says it.

    Args:
        move: What was wanted.
        taken: The result.
        person: Who wanted it.
        directory: The people.
        again: Whether the person had taken the first of two steps before.
    """
    after, zone = taken.approval, directory.zone_of(person.id)
    if taken.grant is not None:
        return Answered(About.GRANTED, grants.granted(after, taken.grant, zone=zone))
    if isinstance(move, moves.Approve) and (step := after.step_of(person.id)) is not None:
        return Answered(About.FIRST_STEP, phrases.first_step(after, step, again=again, zone=zone))
    if isinstance(move, moves.Approve | moves.Reject):
        if after.state is not State.PENDING:
            return None
        return Answered(About.VOTED, levels.voted(after, person.id, directory))
    words = _done(move, after, directory, zone)
    return Answered(About.DONE, words) if words is not None else None


def _done(  # noqa: PLR0911 -- one for each kind
    move: Move, after: Approval, directory: Directory, zone: tzinfo
) -> Words | None:
    match move:
        case moves.Claim():
            return collaboration.claimed(after, zone=zone)
        case moves.Release():
            return collaboration.released(after, zone=zone)
        case moves.Reassign():
            return collaboration.given_away(after, directory)
        case moves.AskBack():
            return collaboration.asked_back(after, directory, zone=zone)
        case moves.AnswerBack():
            return collaboration.passed_on(after, zone=zone)
        case moves.Comment():
            return collaboration.commented(after, zone=zone)
        case moves.Extend():
            return collaboration.extended(after, zone=zone)
        case moves.Remind():
            return collaboration.reminded(after, directory, zone=zone)
        case moves.Withdraw():
            return collaboration.withdrawn(after)
    return None


def not_taken(refused: Refused, person: Person | None, directory: Directory) -> Answered:  # noqa: PLR0911 -- one for each kind
    """Return why a move was refused.

    Args:
        refused: What was refused, and why.
        person: Who wanted it, None for a stranger.
        directory: The people.
    """
    approval, error, why = refused.approval, refused.error, str(refused.error)
    match error:
        case PayloadError():
            example = _example(approval, error)
            words = phrases.not_understood(approval, why, example=example)
            return Answered(About.NOT_UNDERSTOOD, words)
        case GrantRefused():
            return Answered(About.NO_GRANT, grants.no_grant(approval, why))
        case AlreadyDecided() if person is not None:
            return Answered(About.DECIDED, phrases.already_decided(approval, person, directory))
        case TooLate():
            return Answered(
                About.LATE,
                phrases.late(approval, zone=directory.zone_of(person.id if person else "")),
            )
        case Escalated():
            return Answered(About.LATE, phrases.escalated(approval, why))
        case Claimed():
            return Answered(About.CLAIMED, phrases.not_done(approval, why))
        case MoveRefused() | IllegalMove():
            return Answered(About.NOT_DONE, phrases.not_done(approval, why))
        case NotShownInFull():
            return Answered(About.NOT_SHOWN, phrases.not_shown(approval, why))
    return Answered(About.NOT_YOURS, phrases.not_yours(approval, why))


def _example(approval: Approval, error: PayloadError) -> str:
    """Return an answer that would work."""
    example = example_of_yes(approval.kind, approval.call, approval.template)
    fixed = error.key in approval.call.args and error.key not in fields_of(approval.template)
    if isinstance(error, ReasonNeeded) or fixed:
        return error.example
    if error.key and error.key not in example and error.example != example:
        return f"{example}\n{error.example}"
    return example
