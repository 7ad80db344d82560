"""What people are told who do not decide: the requester, and those who are informed."""

from __future__ import annotations

from datetime import tzinfo
from typing import Final

from signoff.channels.words import phrases
from signoff.channels.words.phrases import Words, moment, one_paragraph
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.milestones import Milestone
from signoff.core.cards.card import awaited_by, escalated, named, one_line, topic
from signoff.core.directory.people import Directory

INFORMED: Final = "You are informed about this request. Others decide it."
"""What somebody reads who is informed and not asked."""


def status(
    approval: Approval,
    milestone: Milestone,
    directory: Directory,
    *,
    requests: bool,
    zone: tzinfo,
    is_known: bool = True,
    remarks: str = "",
    problem: str = "",
) -> Words:
    """Return what somebody who does not decide is told about a milestone.

    Args:
        approval: As it stands.
        milestone: What has happened.
        directory: The people.
        requests: Whether the reader has asked for it.
        zone: Where the reader's clock stands.
        is_known: Whether they are in the directory. Nobody has checked who has an address that an
            agent names: it is not told what approver, tool and agent have said besides the reason.
        remarks: The agent's last words.
        problem: Why the call could not be carried out.
    """
    if not is_known:
        approval = _without_values(approval)
    outcome = phrases.outcome(approval, "", directory)
    match milestone:
        case Milestone.ENDED:
            return outcome
        case Milestone.RAN if is_known:
            return phrases.ended(approval, "", remarks, directory, zone=zone)
        case Milestone.RAN:
            return Words(f"Done: {topic(approval)}", f"{outcome.headline}. The agent went on.")
        case Milestone.FAILED:
            text = f"{outcome.headline}. Then the agent failed.\n\n{one_paragraph(problem)}"
            return Words(f"The agent could not go on with {topic(approval)}", text.rstrip())
    return _pending(approval, milestone, directory, requests=requests, zone=zone)


def _pending(
    approval: Approval,
    milestone: Milestone,
    directory: Directory,
    *,
    requests: bool,
    zone: tzinfo,
) -> Words:
    """Return what they are told while it waits."""
    what = topic(approval)
    name, who = f"{what[:1].upper()}{what[1:]}", _waits_for(approval, directory)
    until = f"It is open until {moment(approval.deadline, zone)}." if approval.deadline else ""
    role = "You requested it. Others decide it." if requests else INFORMED
    match milestone:
        case Milestone.PASSED:
            given = named(list(dict.fromkeys(_name(one.by, directory) for one in approval.given)))
            return _words(
                f"{name} now waits for {who}", f"Approved so far by {given}.", until, role
            )
        case Milestone.ESCALATED:
            why = escalated(approval, directory)
            return _words(f"{name} was escalated to {who}", why, until, role)
        case Milestone.OVERDUE:
            stays = f"It stays open, and waits for {who}."
            return _words(f"Nobody decided in time: {what} is overdue", stays, role)
    return _words(f"{name} waits for {who}", until, role)


def _without_values(approval: Approval) -> Approval:
    decision = approval.decision
    if decision is not None:
        decision = decision.model_copy(update={"payload": None, "proposal": None})
    return approval.model_copy(update={"result": "", "decision": decision})


def _words(headline: str, *sentences: str) -> Words:
    return Words(headline, " ".join(filter(None, sentences)))


def _waits_for(approval: Approval, directory: Directory) -> str:
    return awaited_by(approval, directory) or "somebody who can be asked"


def _name(identity: str, directory: Directory) -> str:
    return one_line(directory.shown(identity))
