"""What people are told of levels: it went on, it waits, so many have approved."""

from __future__ import annotations

from signoff.channels.words.phrases import Words, moment
from signoff.core.approvals.answers import example_of_yes
from signoff.core.approvals.approval import Approval
from signoff.core.cards.card import one_line, progress, topic
from signoff.core.directory.people import Directory


def went_on(approval: Approval, turn: str = "") -> Words:
    """Return to somebody of an earlier level that others are asked now.

    Args:
        approval: As it stands.
        turn: The level at which they were asked; see `Question.turn`.
    """
    was = int(turn.partition(".")[2] or 0)
    if approval.terms is not None and not approval.terms.same_stage(was, approval.level):
        return Words(
            f"Approved here, and it went on to {_level(approval)}: {topic(approval)}",
            "Your part has approved it; others have to approve it, too. There is nothing left for "
            "you to do.",
        )
    at = f" at {moment(approval.since)}" if approval.since else ""
    return Words(
        f"It went on to {_level(approval)}: {topic(approval)}",
        f"It was not decided in time here, and others are asked since{at}. There is nothing left "
        "for you to do.",
    )


def reminder(approval: Approval, directory: Directory) -> Words:
    """Return what is said to somebody who was asked and has not answered yet."""
    until = f"Answer until {moment(approval.deadline)}." if approval.deadline else ""
    return Words(
        f"A reminder: {topic(approval)} waits for your answer",
        " ".join(filter(None, (_so_far(approval, directory), until))),
        example_of_yes(approval.kind, approval.call, approval.template),
    )


def voted(approval: Approval, person: str, directory: Directory) -> Words:
    """Return to somebody whose answer has not ended it that it counts, and what is missing."""
    if any(vote.by == person for vote in approval.given) and person not in approval.ballot.yes:
        return Words(
            f"Recorded: your yes to {topic(approval)}; it goes on to {_level(approval)}",
            "That is enough here. Others are asked now, and have to approve it, too.",
        )
    ballot = approval.ballot
    yes, more = person in ballot.yes, ballot.need - len(ballot.yes)
    missing = "it is not settled by that alone"
    if yes:
        missing = f"{'one more is' if more == 1 else f'{more} more are'} needed"
    until = f" until {moment(approval.deadline)}" if approval.deadline else ""
    return Words(
        f"Recorded: your {'yes' if yes else 'no'} to {topic(approval)}; {missing}",
        f"{_so_far(approval, directory)} You can change your answer{until}, as long as nothing is "
        "decided.",
    )


def _so_far(approval: Approval, directory: Directory) -> str:
    so_far = progress(approval, directory)
    return f"So far {so_far}." if so_far else ""


def _level(approval: Approval) -> str:
    called = approval.terms.called(approval.level) if approval.terms else ""
    return one_line(called) or "others"
