"""What people are told, in words that every channel uses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import StrEnum

from pydantic import JsonValue

from signoff.core.approvals.answers import example_of_yes, refusal_of_input
from signoff.core.approvals.approval import Approval, Decision, Kind, State
from signoff.core.approvals.masking import hidden_texts, masked
from signoff.core.base.hiding import without_secrets
from signoff.core.base.moments import moment_text
from signoff.core.base.shown_text import visible
from signoff.core.cards.card import one_line, shown, topic, values_text
from signoff.core.directory.people import Directory, Person
from signoff.core.replies.reading import is_reply, may_be_reply

EXAMPLE_OF_NO = "reject: the reason"

_LONGEST_REASON = 500
_LONGEST_RESULT = 1_000
_LONGEST_WORD = 3_000
_MARK = "↳ "
_MOST_READ = 100


@dataclass(frozen=True, slots=True)
class Words:
    """A headline that says it all, the rest, and where there is one, an answer that would work."""

    headline: str
    text: str = ""
    example: str = ""


class About(StrEnum):
    """What a notice is about."""

    NOT_UNDERSTOOD = "not_understood"
    DECIDED = "decided"
    LATE = "late"
    NOT_YOURS = "not_yours"
    STRANGER = "stranger"
    UNPROVEN = "unproven"
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


def outcome(approval: Approval, person: str, directory: Directory) -> Words:
    """Return how an approval ended, as one of those who were asked should read it.

    Args:
        approval: Ended.
        person: Who reads it, "" for somebody who cannot have decided it.
        directory: The people.
    """
    approval = masked(approval)
    tool, decision = topic(approval), approval.decision
    verb = _verb(approval)
    if decision is not None and person and decision.by == person:
        did = f"asked for {tool} with other values" if decision.proposal else f"{verb} {tool}"
        return Words(f"Recorded: you {did}", "\n\n".join(_details(approval, decision)))
    nothing = "There is nothing left for you to do."
    if approval.state is State.TIMED_OUT:
        return Words(
            f"The time to decide on {tool} is over",
            f"Nobody answered in time, {_unanswered(approval)}.\n\n{nothing}",
        )
    if decision is not None and decision.by and approval.state in {State.APPROVED, State.REJECTED}:
        text = "\n\n".join([*_details(approval, decision), nothing])
        return Words(f"{_deciders(approval, person, directory)} {verb} {tool}", text)
    why = f"Reason: {_reason(decision)}\n\n" if _reason(decision) else ""
    what = f"{tool[:1].upper()}{tool[1:]}" if asks_input(approval) else f"The request to run {tool}"
    return Words(f"{what} was {verb}", f"{why}{nothing}")


def ended(
    approval: Approval,
    person: str,
    said: str,
    directory: Directory,
    *,
    zone: tzinfo | None = None,
) -> Words:
    """Return what the agent did after a decision: the whole story, in place of its beginning.

    Args:
        approval: Decided, and handed to the agent.
        person: Who reads it.
        said: The agent's last word, "" where it has not said it yet.
        directory: The people.
        zone: Where the reader's clock stands, where the reader is not the person.
    """
    secrets, approval = hidden_texts(approval), masked(approval)
    tool, decision = topic(approval), approval.decision
    zone, parts = zone or directory.zone_of(person), list[str]()
    if decision is not None:
        who = f"{_deciders(approval, person, directory)} {_verb(approval)} it"
        what = who if decision.by else f"It was {_verb(approval)}"
        parts.append(f"{what} at {moment(decision.at, zone)}.")
        parts += _given(approval, decision)
    if approval.result:
        parts.append(f"It returned: {_short(one_line(approval.result), _LONGEST_RESULT)}")
    last = _short(shown(without_secrets(said, secrets)).strip(), _LONGEST_WORD)
    parts.append(
        f"The agent's last word:\n\n{last}" if last else "The agent has not come to its end yet."
    )
    if asks_input(approval):
        return Words("The agent went on with the answer", "\n\n".join(parts))
    ran = "has run" if approval.result else "was handed on to the agent"
    if approval.state is not State.APPROVED:
        ran = "was not run"
    return Words(f"{tool[:1].upper()}{tool[1:]} {ran}", "\n\n".join(parts))


def escalated(approval: Approval, problem: str) -> Words:
    """Return that an answer came after its level was over."""
    return Words(
        f"Too late here: {topic(approval)} went on to others",
        f"{one_paragraph(problem)} Your answer changed nothing.",
    )


def _deciders(approval: Approval, person: str, directory: Directory) -> str:
    """Name all who have decided, the reader as "You"."""
    names = []
    for one in approval.decided_by:
        name = one_line(directory.shown(one))
        names.append("You" if one == person else name)
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def unheard(approval: Approval, problem: str) -> Words:
    """Return that an answer which was recorded did not get into the agent, and why."""
    tool = one_line(approval.call.name)
    return Words(
        f"Your answer about {tool} did not reach the agent",
        f"It was recorded, and then the agent could not go on with it.\n\n"
        f"{one_paragraph(problem)}\n\n"
        "The operators of the agent have been alarmed too. There is nothing left for you to do.",
    )


def not_understood(approval: Approval, problem: str, *, example: str = "") -> Words:
    """Return that nothing was decided, what was wrong, and an answer that would have worked."""
    return Words(
        f"Nothing is decided yet: your answer about {topic(approval)} was not clear",
        one_paragraph(problem),
        example or example_of_yes(approval.kind, approval.call, approval.template),
    )


def first_step(approval: Approval, step: Decision, *, again: bool, zone: tzinfo) -> Words:
    """Return that a yes was noted, and what makes it count."""
    until = f" until {moment(approval.deadline, zone)}" if approval.deadline else ""
    parts = ["It takes the place of your earlier answer."] if again else []
    parts += _given(approval, step)
    parts.append(
        f"This request takes two steps, and your answer was the first. Confirm it{until} on the "
        "page behind the link, with a code from your authenticator app. Nothing is decided before "
        "that."
    )
    parts.append(
        "If you have changed your mind, or that answer was not yours, answer the request with a "
        "no: that counts at once."
    )
    return Words(
        f"One more step: confirm your yes to {topic(approval)}",
        "\n\n".join(parts),
    )


def already_decided(approval: Approval, person: Person, directory: Directory) -> Words:
    """Return that it was decided before, by whom and how."""
    tool, decision, zone = topic(approval), approval.decision, directory.zone_of(person.id)
    nothing = "Your answer changed nothing."
    if approval.state is State.TIMED_OUT:
        return late(approval, decision.at if decision else None, zone=zone)
    if decision is not None and decision.by == person.id:
        return Words(
            f"You had already {_verb(approval)} {tool}",
            f"That was recorded at {moment(decision.at, zone)}. {nothing}",
        )
    return Words(
        f"Already settled: {tool} was {one_line(approval.outcome(directory))}",
        f"That was at {moment(decision.at, zone)}. {nothing}" if decision is not None else nothing,
    )


def late(approval: Approval, at: datetime | None = None, *, zone: tzinfo) -> Words:
    """Return that the answer came after the deadline."""
    deadline = approval.deadline or at
    over = f"It was open until {moment(deadline, zone)}. " if deadline is not None else ""
    return Words(
        f"Too late: the time to decide on {topic(approval)} is over",
        f"{over}It was not {'answered' if asks_input(approval) else 'run'}. If it is still wanted, "
        "the request has to be made again.",
    )


def not_yours(approval: Approval, problem: str) -> Words:
    """Return that this person may not decide this."""
    return Words(
        f"Not yours to decide: {topic(approval)}",
        f"{one_paragraph(problem)} Nothing was decided.",
    )


def not_shown(approval: Approval, problem: str) -> Words:
    """Return that a yes came where not all of the call was shown."""
    return Words(
        f"Not approved: all of {topic(approval)} has to be read first",
        f"{one_paragraph(problem)} Nothing was decided.",
    )


def not_opened(approval: Approval) -> Words:
    """Return that a form did not open in Slack, so that nothing was decided."""
    return Words(
        f"Slack did not open the form for {topic(approval)}",
        "Nothing was decided. Press the button again. If that does not help, decide it on its "
        "page.",
    )


def not_done(approval: Approval, problem: str) -> Words:
    """Return that what was wanted was not done, and why; the question is still open."""
    return Words(
        f"Not done: {topic(approval)} is not yours to change just now",
        f"{one_paragraph(problem)} Nothing was decided.",
    )


def stranger(approval: Approval, address: str) -> Words:
    """Return to the person who was asked that somebody else has answered in their place."""
    return Words(
        f"Somebody else answered your request about {topic(approval)}",
        f"A mail from {_plain(address)} answered with the link that was sent to you, perhaps "
        "because you forwarded it. Nothing was decided: forwarding a request does not hand it on. "
        "You can still decide: answer the request from your own address.",
    )


def unproven(approval: Approval, why: str) -> Words:
    """Return to the person who was asked that nothing proves that an answer was theirs."""
    return Words(
        f"Not taken: nothing proves that an answer about {topic(approval)} came from you",
        f"A mail under your address answered this request. What is missing: {one_paragraph(why)}. "
        "Nothing was decided.\n\n"
        "If it was you, answer this mail from the mailbox that it has reached, and not through "
        "another provider. If it does not help, your Signoff administrator can see the same with "
        "`signoff doctor`. If it was not you, somebody has got hold of the mail that was sent to "
        "you: tell them that too.",
    )


def forwarded(approval: Approval, address: str) -> Words:
    """Return to the requester that somebody else has tried to decide."""
    return Words(
        f"Somebody who was not asked has answered a request of yours about {topic(approval)}",
        f"A mail from {_plain(address)} answered in the place of somebody who was asked, perhaps "
        "because the request was forwarded. Nothing was decided. Those who were asked can still "
        "decide, from their own addresses. There is nothing for you to do, unless you have "
        "forwarded it.",
    )


def not_handed_on(approval: Approval) -> Words:
    """Return to a known person that a request that was forwarded is not theirs to decide."""
    return Words(
        f"Not yours to decide: {topic(approval)}",
        "Your mail answered a request that somebody else was asked. Forwarding it does not hand "
        "it on: only they can answer, from their own address. Nothing was decided, and they were "
        "told.",
    )


def _plain(address: str) -> str:
    # Look-alike letters would make a stranger's address read like a known one.
    plain = one_line(address)[:254].encode("ascii", "backslashreplace").decode()
    return plain or "an address that cannot be read"


def moment(at: datetime, zone: tzinfo) -> str:
    """Write a moment for people, in the time zone of the reader: ``Tue 3 Mar 2026, 15:05 CET``.

    See `Directory.zone_of`.
    """
    return moment_text(at, zone)


def one_paragraph(text: str) -> str:
    """Return text that may hold words of others on one line, and harmless to be quoted."""
    return harmless(one_line(text))


def harmless(text: str) -> str:
    """Mark every line that would be an answer by itself, so that quoting it back gives none.

    Characters that nobody sees are written as escapes; some of them end a line. To read thousands
    of lines takes seconds: beyond the first hundred, each that only begins like one is marked.
    """
    lines = visible(text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    suspects = [at for at, line in enumerate(lines) if may_be_reply(line)]
    for count, at in enumerate(suspects):
        if count >= _MOST_READ or is_reply(lines[at]):
            lines[at] = _MARK + lines[at]
    return "\n".join(lines)


def _details(approval: Approval, decision: Decision) -> list[str]:
    """Return the reason, the values and what happens now."""
    return [*_given(approval, decision), _follows(approval, decision)]


def _given(approval: Approval, decision: Decision) -> list[str]:
    """Return the reason and the values."""
    parts = []
    if reason := _reason(decision):
        label = "Reason" if approval.state is State.REJECTED else "Note"
        parts.append(f"{label}: {reason}")
    if decision.payload is not None and approval.state is not State.REJECTED:
        given = values_text(approval, decision.payload)
        parts.append(f"With {_short(given, _LONGEST_WORD)}.")
    if decision.proposal is not None and approval.state is State.PENDING:
        parts.append(f"With {_wanted(approval, decision.proposal)} instead of what was shown.")
    return parts


def _wanted(approval: Approval, proposal: dict[str, JsonValue]) -> str:
    """Return what a proposal has that the call has not."""
    return values_text(
        approval,
        {name: value for name, value in proposal.items() if approval.call.args.get(name) != value},
    )


def _follows(approval: Approval, decision: Decision) -> str:
    """Return what happens now."""
    if decision.proposal is None:
        return _consequence(approval)
    return (
        "What was shown will not be run. The agent is told that you would approve "
        f"{_wanted(approval, decision.proposal)}, and may propose that."
    )


def asks_input(approval: Approval) -> bool:
    """Whether a question is answered, rather than a call decided."""
    return approval.kind is Kind.INPUT


def _consequence(approval: Approval) -> str:
    """Say what happens now that it is approved or rejected."""
    yes = approval.state is State.APPROVED
    match approval.kind:
        case Kind.INPUT if yes:
            return "The agent goes on with this answer."
        case Kind.INPUT:
            no = refusal_of_input(approval.call, "no")
            return "The agent goes on, and is told no." if no else "The agent's run ends with this."
        case Kind.LONG_RUNNING:
            return f"The agent goes on, and is told {'so' if yes else 'why'}."
    if yes:
        return "The agent goes on with exactly the call that was shown."
    return "It will not be run, and the agent is told why."


def _unanswered(approval: Approval) -> str:
    """Say what happens because nobody answered."""
    if approval.kind is Kind.CONFIRMATION:
        return "so it was not run, and the agent was told so"
    if asks_input(approval) and refusal_of_input(approval.call, "no") is None:
        return "so the agent's run ended"
    return "and the agent was told so"


def _reason(decision: Decision | None) -> str:
    return "" if decision is None else one_line(decision.reason)[:_LONGEST_REASON]


def _short(text: str, most: int) -> str:
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]} … and {left:,} more characters"


def _verb(approval: Approval) -> str:
    if asks_input(approval) and approval.state is State.APPROVED:
        return "answered"
    return approval.state.value.replace("_", " ")
