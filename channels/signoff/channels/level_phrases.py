"""What people are told of levels: it went on, it waits, so many have approved."""

from __future__ import annotations

from signoff.channels.phrases import Words, moment
from signoff.core.answering import example_of_yes
from signoff.core.approval import Approval
from signoff.core.card import one_line, topic


def went_on(approval: Approval) -> Words:
    """Return to somebody of an earlier level that others are asked now."""
    at = f" at {moment(approval.since)}" if approval.since else ""
    return Words(
        f"It went on to {_level(approval)}: {topic(approval)}",
        f"It was not decided in time here, and others are asked since{at}. There is nothing left "
        "for you to do.",
    )


def reminder(approval: Approval) -> Words:
    """Return what is said to somebody who was asked and has not answered yet."""
    until = f" Answer until {moment(approval.deadline)}." if approval.deadline else ""
    return Words(
        f"A reminder: {topic(approval)} waits for your answer",
        f"{progress(approval)}{until}".strip(),
        example_of_yes(approval.kind, approval.call, approval.template),
    )


def voted(approval: Approval, person: str) -> Words:
    """Return to somebody whose answer has not ended it that it counts."""
    ballot = approval.ballot
    more = ballot.need - len(ballot.yes)
    said = "yes" if person in ballot.yes else "no"
    needed = "one more is" if more == 1 else f"{more} more are"
    yes = f"{needed} needed" if said == "yes" else "it is not settled by that yet"
    until = f" until {moment(approval.deadline)}" if approval.deadline else ""
    return Words(
        f"Recorded: your {said} to {topic(approval)}; {yes}",
        f"{progress(approval)} You can change your answer{until}, as long as nothing is decided.",
    )


def progress(approval: Approval) -> str:
    """Return how many of how many have approved, "" where one yes ends it."""
    ballot = approval.ballot
    if ballot.need == 1 and not ballot.votes:
        return ""
    return f"{len(ballot.yes)} of {ballot.need} have approved."


def _level(approval: Approval) -> str:
    called = approval.terms.called(approval.level) if approval.terms else ""
    return one_line(called) or "others"
