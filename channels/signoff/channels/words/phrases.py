"""Chooses the message that a person gets about a request, and fills it in."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

from signoff.broker.work import BundleKind
from signoff.channels.words.messages import (
    RenderedMessage,
    called,
    moment,
    one_paragraph,
    quoted,
    say,
    say_plainly,
)
from signoff.core.approvals.approval import Approval, Decision, State
from signoff.core.approvals.masking import hidden_texts, masked
from signoff.core.approvals.milestones import Milestone
from signoff.core.base.hiding import without_secrets
from signoff.core.base.shown_text import shortened
from signoff.core.cards.card import (
    awaited_by,
    changed_text,
    escalated,
    named,
    one_line,
    shown,
    values_text,
)
from signoff.core.directory.people import Directory
from signoff.core.grants.grant import Grant, givers
from signoff.core.policies.levels import level_of
from signoff.core.replies.examples import example_of_grant

EXAMPLE_OF_NO = "reject: the reason"
INFORMED: Final = "You are informed about this request. Others decide it."
"""The role of a reader who is informed and not asked."""
NOBODY: Final = "\0"
"""The id of a reader who may not see the contents of the request."""

_LONGEST_REASON = 500
_LONGEST_RESULT = 1_000
_LONGEST_WORD = 3_000


class About(StrEnum):
    """The subject of a notice."""

    NOT_UNDERSTOOD = "not_understood"
    DECIDED = "decided"
    LATE = "late"
    NOT_YOURS = "not_yours"
    STRANGER = "stranger"
    UNPROVEN = "unproven"
    TOO_LARGE = "too_large"
    FORWARDED = "forwarded"
    NOT_HANDED_ON = "not_handed_on"
    FIRST_STEP = "first_step"
    CLAIMED = "claimed"
    NOT_DONE = "not_done"
    NOT_SHOWN = "not_shown"
    NOT_OPENED = "not_opened"
    DONE = "done"
    VOTED = "voted"
    GRANTED = "granted"
    NO_GRANT = "no_grant"
    REVOKED = "revoked"


def outcome(
    approval: Approval, person: str, directory: Directory, *, reader: str | None = None
) -> RenderedMessage:
    """Return the message about how an approval ended, for one of the people who were asked.

    Args:
        approval: The ended approval.
        person: The id of the recipient, "" for somebody who cannot have decided it.
        directory: The people.
        reader: The id of the reader, if it is not the person.
    """
    approval = masked(approval)
    decision = approval.decision
    if decision is not None and person and decision.by == person:
        name = "decided_by_reader"
    elif approval.state is State.TIMED_OUT:
        name = "timed_out"
    elif decision is not None and decision.by and approval.state in _DECIDED:
        name = "decided_by_others"
    else:
        name = "over"
    stated = _stated(approval, decision, directory)
    return say(
        name,
        approval,
        directory,
        person if reader is None else reader,
        **stated,
        follows=follows(approval, person, directory),
        deciders=_deciders(approval, person, directory),
    )


def follows(approval: Approval, person: str, directory: Directory) -> str:
    """Return what follows from a decision, in one sentence.

    Args:
        approval: The ended approval.
        person: The id of the reader, "" for somebody who cannot have decided it.
        directory: The people.
    """
    approval = masked(approval)
    stated = _stated(approval, approval.decision, directory)
    decider = _decider(approval, person, directory)
    return say("follows", approval, directory, **stated, decider=decider).text


def result(
    approval: Approval,
    person: str,
    remarks: str,
    directory: Directory,
    *,
    reader: str | None = None,
) -> RenderedMessage:
    """Return the message about what the agent did after a decision, which replaces the outcome.

    Args:
        approval: The approval, decided and passed to the agent.
        person: The id of the recipient, "" for somebody who cannot have decided it.
        remarks: The agent's final message, "" if it has not sent it yet.
        directory: The people.
        reader: The id of the reader, if it is not the person.
    """
    secrets, approval = hidden_texts(approval), masked(approval)
    return say(
        "result",
        approval,
        directory,
        person if reader is None else reader,
        **_stated(approval, approval.decision, directory),
        decider=_decider(approval, person, directory),
        deciders=_deciders(approval, person, directory),
        result=shortened(one_line(approval.result), _LONGEST_RESULT),
        remarks=shortened(shown(without_secrets(remarks, secrets)).strip(), _LONGEST_WORD),
    )


def already_decided(approval: Approval, person: str, directory: Directory) -> RenderedMessage:
    """Return the message that the approval was already decided: by whom, and how."""
    decision = approval.decision
    if approval.state is State.TIMED_OUT:
        return late(approval, directory, person, at=decision.at if decision else None)
    mine = decision is not None and decision.by == person
    name = "already_decided_by_reader" if mine else "already_decided"
    how = one_line(approval.outcome(directory))
    return say(name, approval, directory, person, outcome=how)


def late(
    approval: Approval, directory: Directory, reader: str, *, at: datetime | None = None
) -> RenderedMessage:
    """Return the message that the answer came after the deadline."""
    ended_at = moment(approval.deadline or at, directory.zone_of(reader))
    return say("late", approval, directory, reader, ended_at=ended_at)


def not_understood(
    approval: Approval, problem: str, directory: Directory, reader: str, *, example: str = ""
) -> RenderedMessage:
    """Return the message that nothing was decided, with the problem and a valid answer."""
    example = example or approval.example_of_yes
    return refusal("not_understood", approval, problem, directory, reader, example=example)


def refusal(
    name: str,
    approval: Approval,
    problem: str,
    directory: Directory,
    reader: str,
    *,
    example: str = "",
) -> RenderedMessage:
    """Return a message with a problem, whose text may contain words of others."""
    problem = one_paragraph(problem)
    return say(name, approval, directory, reader, example=example, problem=problem)


def of_stranger(
    name: str, approval: Approval, address: str, directory: Directory, reader: str
) -> RenderedMessage:
    """Return a message about an answer from an address that does not belong to an approver."""
    # Look-alike letters would make a stranger's address read like a known one.
    plain = one_line(address)[:254].encode("ascii", "backslashreplace").decode()
    address = plain or "an address that cannot be read"
    return say(name, approval, directory, reader, address=address)


def first_step(
    approval: Approval, step: Decision, directory: Directory, reader: str, *, again: bool
) -> RenderedMessage:
    """Return the message that the first step of an approval was recorded, and how to confirm it."""
    given = _stated(approval, step, directory)["given"]
    return say("first_step", approval, directory, reader, given=given, again=again)


def moved_on(
    approval: Approval, directory: Directory, level_key: str, reader: str
) -> RenderedMessage:
    """Return the message to an approver of an earlier level that the request has moved on.

    Args:
        approval: The current approval.
        directory: The people.
        level_key: The level at which they were asked; see `Asked.level_key`.
        reader: The id of the reader.
    """
    terms = approval.terms
    passed = terms is not None and not terms.same_phase(level_of(level_key), approval.level)
    return say("went_on" if passed else "escalated", approval, directory, reader)


def seat_gone(approval: Approval, directory: Directory, reader: str) -> RenderedMessage:
    """Return the message to a person whose seat another person has, or has answered for."""
    handed = [one for one in approval.handovers if one.of == reader]
    if not handed:
        return say("seat_filled", approval, directory, reader)
    to, reason = called(handed[-1].to, directory), quoted(handed[-1].reason)
    return say("handed_on", approval, directory, reader, to=to, reason=reason)


def reminder(approval: Approval, directory: Directory, reader: str) -> RenderedMessage:
    """Return the reminder to an approver who has not answered yet."""
    example = approval.example_of_yes
    return say("reminder", approval, directory, reader, example=example)


def voted(approval: Approval, person: str, directory: Directory) -> RenderedMessage:
    """Return the message that a vote counts, and what is still missing for a decision."""
    ballot = approval.ballot
    yes, more = person in ballot.yes, ballot.need - len(ballot.yes)
    passed = not yes and any(vote.by == person for vote in approval.given)
    name = "passed_phase" if passed else "voted"
    return say(name, approval, directory, person, yes=yes, more=more)


def status(
    approval: Approval,
    milestone: Milestone,
    directory: Directory,
    *,
    requests: bool,
    reader: str,
    remarks: str = "",
    problem: str = "",
) -> RenderedMessage:
    """Return the message about a milestone to somebody who does not decide.

    Args:
        approval: The current approval.
        milestone: The milestone.
        directory: The people.
        requests: Whether the reader is the requester.
        reader: The id of the reader, or an address that an agent names. Nobody has checked who owns
            that address, so it gets the reason of a decision, but not its values, nor the words of
            the tool and the agent.
        remarks: The agent's final message.
        problem: Why the call could not be carried out.
    """
    is_known = directory.get(reader) is not None
    if not is_known:
        approval = _without_values(approval)
    if milestone is Milestone.RAN and is_known:
        return result(approval, "", remarks, directory, reader=reader)
    end = outcome(approval, "", directory, reader=reader)
    if milestone is Milestone.ENDED:
        return end
    return say(
        _STATUS.get(milestone, "status_waits"),
        approval,
        directory,
        reader,
        ended=end.sentence,
        problem=one_paragraph(problem),
        awaited=awaited_by(approval, directory) or "an approver",
        approved_by=named([*dict.fromkeys(called(one.by, directory) for one in approval.given)]),
        escalated=escalated(approval, directory),
        role="You requested it. Others decide it." if requests else INFORMED,
    )


def granted(approval: Approval, grant: Grant, directory: Directory, reader: str) -> RenderedMessage:
    """Return the message to the giver of a grant: what it covers, and how to revoke it."""
    vary = ", ".join(map(one_line, grant.scope.vary))
    limits = " and ".join(map(one_line, grant.scope.limits))
    return say("granted", approval, directory, reader, grant=grant, vary=vary, limits=limits)


def no_grant(
    approval: Approval, problem: str, directory: Directory, reader: str
) -> RenderedMessage:
    """Return the message that no grant was given, and the state of the call."""
    name = "no_grant" if approval.state is State.PENDING else "no_more_grants"
    return refusal(name, approval, problem, directory, reader)


def example_of_offer(approval: Approval) -> str:
    """Return the hint that explains how to approve similar calls, "" if nobody may."""
    rules = approval.terms.grants if approval.terms is not None else None
    if rules is None or not givers(approval):
        return ""
    return f'To approve similar calls too, write "{example_of_grant(rules.longest)}".'


def bundle(kind: BundleKind, *, waiting: int, listed: int) -> RenderedMessage:
    """Return the text above a list of requests.

    Args:
        kind: The kind of the bundle.
        waiting: How many requests in the list wait for the reader.
        listed: How many requests the list has.
    """
    many = f"{waiting} requests wait" if waiting != 1 else "1 request waits"
    over = kind is BundleKind.ANSWER and not waiting
    name = "answer_to_nothing" if over else kind.value
    return say_plainly(name, many=many, waiting=waiting, listed=listed)


_DECIDED: Final = frozenset({State.APPROVED, State.REJECTED})
_STATUS: Final = {
    Milestone.RAN: "status_done",
    Milestone.FAILED: "status_failed",
    Milestone.PASSED: "status_passed",
    Milestone.ESCALATED: "status_escalated",
    Milestone.OVERDUE: "status_overdue",
}


def _decider(approval: Approval, person: str, directory: Directory) -> str:
    """Return who made the last decision, within a sentence; the reader is "you"."""
    by = approval.decision.by if approval.decision is not None else ""
    return "you" if by and by == person else called(by, directory)


def _deciders(approval: Approval, person: str, directory: Directory) -> str:
    """Return the names of all who decided; the reader is "You"."""
    names = ["You" if one == person else called(one, directory) for one in approval.decided_by]
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _without_values(approval: Approval) -> Approval:
    decision = approval.decision
    if decision is not None:
        decision = decision.model_copy(update={"payload": None, "proposal": None})
    return approval.model_copy(update={"result": "", "decision": decision})


def _stated(approval: Approval, decision: Decision | None, directory: Directory) -> dict[str, str]:
    """Return the reason and the values of a decision, separately and as one text."""
    parts = {"reason": "", "values": "", "wanted": ""}
    if decision is not None:
        parts["reason"] = one_line(decision.reason)[:_LONGEST_REASON]
        if decision.payload is not None and approval.state is not State.REJECTED:
            given = values_text(approval, decision.payload)
            parts["values"] = shortened(given, _LONGEST_WORD)
        if decision.proposal is not None:
            parts["wanted"] = changed_text(approval, decision.proposal)
    given = say("given", approval, directory, **parts).text if any(parts.values()) else ""
    return {**parts, "given": given}
