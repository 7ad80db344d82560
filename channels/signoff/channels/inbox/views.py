"""What the pages show of an approval to one person; it is for them alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from signoff.channels import level_phrases, phrases
from signoff.channels.phrases import Words, moment
from signoff.core.approval import Approval, Decision, State
from signoff.core.card import Card, Row, card, one_line, shown
from signoff.core.people import Directory, Person
from signoff.core.steps import mark_of


class Stage(StrEnum):
    """What a person can do about an approval."""

    DECIDE = "decide"
    """Say yes or no here."""
    ANSWER_FIRST = "answer_first"
    """Say no here; a yes begins with the mail."""
    CONFIRM = "confirm"
    """Confirm the yes that was said by mail, or say no."""
    OVER = "over"
    """Read how it ended."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a person said in the first step, to be confirmed as it stands.

    Attributes:
        mark: Stands for it in the form.
        rows: When, the reason, and the values.
        other: Whether the values are others than the arguments that are shown.
    """

    mark: str
    rows: tuple[Row, ...]
    other: bool


@dataclass(frozen=True, slots=True)
class View:
    """One approval, as one person sees it."""

    stage: Stage
    card: Card
    until: str
    said: Said | None
    over: Words | None
    ended: str
    remarks: tuple[Row, ...]
    claimed: str
    vote: str


def view(approval: Approval, person: Person, directory: Directory, now: datetime) -> View:
    """Return what a person is shown of an approval about which they are asked."""
    step, claim = approval.step_of(person.id), approval.claim_at(now)
    shape = card(approval, directory)
    over = _over(approval, person, directory, now)
    if over is not None:
        stage = Stage.OVER
    elif not approval.in_two_steps:
        stage = Stage.DECIDE
    else:
        stage = Stage.CONFIRM if step is not None else Stage.ANSWER_FIRST
    return View(
        stage=stage,
        card=shape,
        until=moment(approval.deadline) if approval.deadline else "",
        said=_said(approval, step) if step is not None else None,
        over=over,
        ended=moment(approval.decision.at) if approval.decision else "",
        remarks=tuple(
            Row(name=f"{one.who}, {moment(one.at)}", value=one.text) for one in shape.comments
        ),
        claimed=moment(claim.until) if claim is not None else "",
        vote=_voted(approval, person, directory) if over is None else "",
    )


def is_for(approval: Approval, person: Person, directory: Directory) -> bool:
    """Say whether a person may see an approval: who is asked about it, and did not ask for it."""
    own = directory.same(person.id, approval.origin.user) or person.owns(approval.origin.user)
    asked = person.id in approval.approvers or any(
        one.person == person.id for one in approval.seats
    )
    return asked and not own


def may_see(approval: Approval, person: Person, directory: Directory) -> bool:
    """Say whether a person may see an approval at all."""
    return (
        person.sees_all
        or approval.is_requester(person, directory)
        or is_for(approval, person, directory)
    )


def _over(approval: Approval, person: Person, directory: Directory, now: datetime) -> Words | None:
    if approval.state is not State.PENDING:
        return phrases.outcome(approval, person.id, directory)
    if person.id not in {*approval.ballot.own, *approval.ballot.stay}:
        return level_phrases.went_on(approval)
    if approval.is_late(now) and approval.is_last_level and not approval.stays_open:
        return phrases.late(approval)
    return None


def _voted(approval: Approval, person: Person, directory: Directory) -> str:
    said = {*approval.ballot.yes, *approval.ballot.no}
    return level_phrases.voted(approval, person.id, directory).headline if person.id in said else ""


def _said(approval: Approval, step: Decision) -> Said:
    rows = [Row(name="When", value=f"by {step.channel}, {moment(step.at)}")]
    if step.reason:
        rows.append(Row(name="Reason", value=shown(step.reason)))
    values = step.proposal if step.proposal is not None else step.payload
    if isinstance(values, dict):
        rows += [Row(name=one_line(name), value=shown(values[name])) for name in values]
    elif values is not None:
        rows.append(Row(name="Value", value=shown(values)))
    return Said(mark=mark_of(step), rows=tuple(rows), other=step.proposal is not None)
