"""What people are told of levels: it went on, it waits, so many have approved."""

from __future__ import annotations

from datetime import tzinfo

from signoff.channels.words.phrases import Words, moment
from signoff.core.approvals.answers import example_of_yes
from signoff.core.approvals.approval import Approval
from signoff.core.cards.card import named, one_line, progress, topic
from signoff.core.directory.people import Directory
from signoff.core.policies.levels import level_of


def went_on(approval: Approval, directory: Directory, turn: str = "", *, zone: tzinfo) -> Words:
    """Return to somebody of an earlier level that others are asked now.

    Args:
        approval: As it stands.
        directory: The people.
        turn: The level at which they were asked; see `Question.turn`.
        zone: Where the reader's clock stands.
    """
    who = _level(approval, directory)
    if approval.terms is not None and not approval.terms.same_stage(level_of(turn), approval.level):
        return Words(
            f"Approved here, and it went on to {who}: {topic(approval)}",
            "Your part has approved it; others have to approve it, too. There is nothing left for "
            "you to do.",
        )
    at = f" on {moment(approval.since, zone)}" if approval.since else ""
    return Words(
        f"Escalated to {who}: {topic(approval)}",
        f"Nobody decided in time, so {who} got it{at}. There is nothing left for you to do.",
    )


def reminder(approval: Approval, directory: Directory, *, zone: tzinfo) -> Words:
    """Return what is said to somebody who was asked and has not answered yet."""
    until = f"Answer until {moment(approval.deadline, zone)}." if approval.deadline else ""
    return Words(
        f"A reminder: {topic(approval)} waits for your answer",
        " ".join(filter(None, (_so_far(approval, directory), until))),
        example_of_yes(approval.kind, approval.call, approval.template),
    )


def voted(approval: Approval, person: str, directory: Directory) -> Words:
    """Return to somebody whose answer has not ended it that it counts, and what is missing."""
    if any(vote.by == person for vote in approval.given) and person not in approval.ballot.yes:
        return Words(
            f"Recorded: your yes to {topic(approval)}; it goes on to {_level(approval, directory)}",
            "That is enough here. Others are asked now, and have to approve it, too.",
        )
    ballot = approval.ballot
    yes, more = person in ballot.yes, ballot.need - len(ballot.yes)
    missing = "it is not settled by that alone"
    if yes:
        missing = f"{'one more is' if more == 1 else f'{more} more are'} needed"
    zone = directory.zone_of(person)
    until = f" until {moment(approval.deadline, zone)}" if approval.deadline else ""
    return Words(
        f"Recorded: your {'yes' if yes else 'no'} to {topic(approval)}; {missing}",
        f"{_so_far(approval, directory)} You can change your answer{until}, as long as nothing is "
        "decided.",
    )


def _so_far(approval: Approval, directory: Directory) -> str:
    so_far = progress(approval, directory)
    return f"So far {so_far}." if so_far else ""


def _level(approval: Approval, directory: Directory) -> str:
    """Return what the policy calls the present level, or who is asked there."""
    levels = approval.terms.levels if approval.terms is not None else ()
    called = levels[approval.level].name if approval.level < len(levels) else ""
    return one_line(called) or named([_name(one, directory) for one in approval.ballot.own])


def _name(identity: str, directory: Directory) -> str:
    return one_line(directory.shown(identity))
