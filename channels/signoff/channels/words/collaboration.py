"""What people are told about the moves that decide nothing."""

from __future__ import annotations

from datetime import tzinfo

from signoff.channels.words.phrases import Words, harmless, moment
from signoff.core.approvals.approval import Approval
from signoff.core.cards.card import one_line, shown, topic
from signoff.core.directory.people import Directory

_NOTHING = "Nothing is decided yet."
_MOST_NAMES = 5


def claimed(approval: Approval, *, zone: tzinfo) -> Words:
    """Return to the person who has claimed it until when it is theirs."""
    claim = approval.claimed
    until = moment(claim.until, zone) if claim is not None else ""
    return Words(
        f"Claimed: {topic(approval)} is yours to decide until {until}",
        "Until then nobody else can decide it, unless you release it. "
        f"{_open_until(approval, zone)}",
        "release",
    )


def given_away(approval: Approval, directory: Directory) -> Words:
    """Return to the person who gave their place away who decides now."""
    to = approval.handovers[-1].to if approval.handovers else ""
    return Words(
        f"Handed on: {_name(to, directory)} decides {topic(approval)} now",
        f"They get a card of their own. Your answer does not count any more. {_NOTHING}",
    )


def released(approval: Approval, *, zone: tzinfo) -> Words:
    """Return that everybody who is asked may decide again."""
    return Words(
        f"Released: {topic(approval)} is open to all who are asked",
        f"{_NOTHING} {_open_until(approval, zone)}",
    )


def commented(approval: Approval, *, zone: tzinfo) -> Words:
    """Return that a comment stands on the card."""
    return Words(
        f"Your comment is on the card of {topic(approval)}",
        f"{_said(approval)}\n\n{_NOTHING} {_open_until(approval, zone)}",
    )


def asked_back(approval: Approval, directory: Directory, *, zone: tzinfo) -> Words:
    """Return that the requester was asked."""
    return Words(
        f"{_requester(approval, directory)} was asked about {topic(approval)}",
        f"{_said(approval)}\n\nYou get the answer, and it stands on the card. {_NOTHING} "
        f"{_open_until(approval, zone)}",
    )


def extended(approval: Approval, *, zone: tzinfo) -> Words:
    """Return until when there is time now."""
    until = moment(approval.deadline, zone) if approval.deadline else ""
    return Words(f"More time: {topic(approval)} is open until {until}", _NOTHING)


def reminded(approval: Approval, directory: Directory, *, zone: tzinfo) -> Words:
    """Return whose answer is waited for, and that they are reminded."""
    names = ", ".join(_name(one, directory) for one in approval.ballot.awaited[:_MOST_NAMES])
    left = len(approval.ballot.awaited) - _MOST_NAMES
    return Words(
        f"A reminder about {topic(approval)} was sent",
        f"It goes to {names}{f' and {left} more' if left > 0 else ''}. {_NOTHING} "
        f"{_open_until(approval, zone)}",
    )


def glass_broken(approval: Approval, by: str, reason: str, directory: Directory) -> Words:
    """Return the alarm that somebody has run a call alone."""
    return Words(
        f"ALARM: {_name(by, directory)} broke the glass and runs {topic(approval)} alone",
        f"Nobody else was asked to agree, or the tool is frozen. Reason:\n\n{shown(reason)}",
    )


def handed_on(approval: Approval, to: str, reason: str, directory: Directory) -> Words:
    """Return to the person who had the place that another person decides now."""
    return Words(
        f"{_name(to, directory)} decides {topic(approval)} now",
        f"Your place was handed on. The reason: {_quoted(reason)}\n\nYour answer does not count "
        "any more, and there is nothing left for you to do.",
    )


def yours_now(
    approval: Approval, of: str, reason: str, directory: Directory, *, zone: tzinfo
) -> Words:
    """Return to the person who got a place that the card stands in a common channel."""
    return Words(
        f"{topic(approval)[:1].upper()}{topic(approval)[1:]} is yours to decide now",
        f"{_name(of, directory)}'s place was handed on to you. The reason: {_quoted(reason)}\n\n"
        f"The request stands in the channel where it was asked. {_open_until(approval, zone)}",
    )


def question(
    approval: Approval,
    by: str,
    text: str,
    directory: Directory,
    *,
    zone: tzinfo,
    pressed: bool = False,
) -> Words:
    """Return to the requester what one of those who are asked wants to know.

    Args:
        approval: What it is about.
        by: Who asks.
        text: What.
        directory: The people.
        zone: Where the reader's clock stands.
        pressed: Whether there are buttons below; a mail is answered by a mail.
    """
    how = "Press Answer" if pressed else "Answer this mail"
    other = (
        ""
        if pressed
        else 'If it is not wanted any more, write "withdraw" alone on the first line; "remind" has '
        "those who are asked reminded. "
    )
    return Words(
        f"{_name(by, directory)} has a question about your request",
        f"About {topic(approval)}:\n\n{_quoted(text)}\n\n{how}: what you write is put on the card "
        f"that {_name(by, directory)} decides on. You cannot decide it yourself. "
        f"{other}{_open_until(approval, zone)}",
    )


def answered(
    approval: Approval, by: str, text: str, directory: Directory, *, zone: tzinfo
) -> Words:
    """Return to the person who has asked what the requester says."""
    return Words(
        f"{_name(by, directory)} has answered you about {topic(approval)}",
        f"{_quoted(text)}\n\n{_NOTHING} {_open_until(approval, zone)}",
        "approve",
    )


def passed_on(approval: Approval, *, zone: tzinfo) -> Words:
    """Return to the requester that the answer stands on the card."""
    return Words(
        f"Your answer about {topic(approval)} was passed on",
        f"{_said(approval)}\n\nIt stands on the card. {_NOTHING} {_open_until(approval, zone)}",
    )


def withdrawn(approval: Approval) -> Words:
    """Return to the requester that nobody is asked any more."""
    return Words(
        f"Withdrawn: {topic(approval)}",
        "It will not be run. Those who were asked were told, and so was the agent.",
    )


def _open_until(approval: Approval, zone: tzinfo) -> str:
    return f"It is open until {moment(approval.deadline, zone)}." if approval.deadline else ""


def _said(approval: Approval) -> str:
    return _quoted(approval.comments[-1].text) if approval.comments else ""


def _quoted(text: str) -> str:
    """Return what somebody said as one paragraph of ours: none of it begins a line."""
    return harmless("“" + " ".join(shown(text).split()) + "”")


def _requester(approval: Approval, directory: Directory) -> str:
    return _name(approval.origin.user, directory)


def _name(identity: str, directory: Directory) -> str:
    person = directory.find(identity)
    return one_line(person.shown if person else identity)
