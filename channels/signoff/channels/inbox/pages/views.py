"""The view of one person on an approval, and the moves that the person may make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import islice
from typing import Final

from signoff.channels.words import phrases
from signoff.channels.words.messages import RenderedMessage, moment
from signoff.channels.words.phrases import INFORMED
from signoff.core.approvals import collaboration
from signoff.core.approvals.approval import Approval, Decision, State
from signoff.core.approvals.collaboration import Operator, Who
from signoff.core.approvals.parts import Assurance, mark_of
from signoff.core.base.errors import DecisionRefused
from signoff.core.cards.card import Card, Row, card, comments_on, rows_of, shown
from signoff.core.directory.people import Directory, Person
from signoff.core.grants.grant import givers
from signoff.core.payloads.payload import LONE_FIELD
from signoff.core.policies.levels import level_key_of

_MOST_NAMES: Final = 200
_ANY: Final = "…"


class Mode(StrEnum):
    """The ways in which the page of an approval is shown."""

    DECIDE = "decide"
    """The person can approve or reject here."""
    ANSWER_FIRST = "answer_first"
    """The person can reject here; an approval begins with the mail."""
    CONFIRM = "confirm"
    """The person can confirm the approval of the first step, or reject."""
    WATCH = "watch"
    """Others decide."""
    OVER = "over"
    """It has ended, at least for this person."""


@dataclass(frozen=True, slots=True)
class Statement:
    """The answer of a person in the first step, which they confirm unchanged.

    Attributes:
        mark: Identifies it in the form.
        rows: When, the reason, and the values.
        other: Whether the values differ from the arguments that are shown.
    """

    mark: str
    rows: tuple[Row, ...]
    other: bool


@dataclass(frozen=True, slots=True)
class May:
    """What a person may do now. The page offers nothing else; each move is judged again.

    Attributes:
        decide: Approve or reject.
        grant: Approve similar calls, too.
        claim: Reserve the decision.
        release: Give a claim back.
        comment: Write a comment.
        ask: Ask the requester a question.
        answer: Answer the question that is open, as the requester.
        withdraw: Withdraw the request.
        operates: They act as an operator, who needs a reason to withdraw it.
        remind: Remind the people whose answer is awaited.
        extend: How much may be added to the deadline; zero if it may not be moved.
        glass: Break the glass: run a frozen or unanswered call alone.
        hand_on: The approvers whom they may replace by others.
        to: The people who may replace them; the list may be cut.
    """

    decide: bool = False
    grant: bool = False
    claim: bool = False
    release: bool = False
    comment: bool = False
    ask: bool = False
    answer: bool = False
    withdraw: bool = False
    operates: bool = False
    remind: bool = False
    extend: timedelta = timedelta()
    glass: bool = False
    hand_on: tuple[Person, ...] = ()
    to: tuple[Person, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """One approval, as one person sees it.

    Attributes:
        mode: How the page is shown.
        card: The request.
        may: The moves that they may make.
        said: Their approval in the first step, which they have to confirm.
        over: How it ended, or why it has ended for them.
        ended: When it ended.
        why_not: Why they cannot decide, "" if that is obvious.
        vote: Their vote, if it has not ended the approval.
        claimed_until: When the present claim ends.
    """

    mode: Mode
    card: Card
    may: May
    said: Statement | None = None
    over: RenderedMessage | None = None
    ended: datetime | None = None
    why_not: str = ""
    vote: str = ""
    claimed_until: datetime | None = None


def may_see(approval: Approval, person: Person, directory: Directory) -> bool:
    """Return whether a person may see an approval.

    Its present and former approvers, those who are informed, its requester, the members of its
    queues, operators and auditors may.
    """
    return person.sees_all or approval.concerns(person, directory)


def may(approval: Approval, person: Person, directory: Directory, now: datetime) -> May:
    """Return what a person may do now: the moves that the approval would accept."""
    glass = _is_permitted(lambda: approval.may_break_glass(person, directory, now=now))
    if approval.state is not State.PENDING:
        return May(glass=glass)
    who = collaboration.acting(approval, person, directory)
    claim = approval.claim_at(now)
    several = bool(approval.queues) or len(approval.ballot.awaited) > 1
    decide = _is_permitted(lambda: approval.may_decide(person, directory, now=now))
    extend = _is_permitted(lambda: collaboration.may_extend(approval, who, directory, now=now))
    places, to = _replaceable(approval, person, who, directory, now)
    mine = approval.is_requester(person, directory)
    return May(
        decide=decide,
        grant=decide and person.id in givers(approval),
        claim=several
        and claim is None
        and _is_permitted(lambda: collaboration.claim(approval, person, directory, now=now)),
        release=_is_permitted(lambda: collaboration.release(approval, who, directory, now=now)),
        comment=_is_permitted(lambda: collaboration.may_comment(approval, who, directory)),
        ask=_is_permitted(
            lambda: collaboration.ask_back(approval, person, directory, text=_ANY, now=now)
        ),
        answer=approval.open_question is not None
        and _is_permitted(
            lambda: collaboration.may_answer_back(approval, person, directory, now=now)
        ),
        withdraw=mine or isinstance(who, Operator),
        operates=isinstance(who, Operator),
        remind=_is_permitted(lambda: collaboration.remind_now(approval, who, directory, now=now)),
        extend=collaboration.time_to_add(approval) if extend else timedelta(),
        glass=glass,
        hand_on=places,
        to=to,
    )


def view(approval: Approval, person: Person, directory: Directory, now: datetime) -> View:
    """Return what a person is shown of an approval that they may see."""
    step, claim = approval.step_of(person.id), approval.claim_at(now)
    over = _ended_for(approval, person, directory, now)
    allowed, why_not = may(approval, person, directory, now), ""
    if over is not None:
        mode = Mode.OVER
    elif not allowed.decide:
        mode, why_not = Mode.WATCH, _why_not(approval, person, directory, now)
    elif not approval.in_two_steps:
        mode = Mode.DECIDE
    else:
        mode = Mode.CONFIRM if step is not None else Mode.ANSWER_FIRST
    # The page has room for all comments.
    said = comments_on(approval, directory)
    return View(
        mode=mode,
        card=card(approval, directory).model_copy(update={"comments": said}),
        may=allowed,
        said=_statement(approval, step, directory.zone_of(person.id)) if step is not None else None,
        over=over,
        ended=approval.decision.at if approval.decision else None,
        why_not=why_not,
        vote=_voted(approval, person, directory) if over is None else "",
        claimed_until=claim.until if claim is not None else None,
    )


def _is_permitted(move: Callable[[], object]) -> bool:
    try:
        move()
    except DecisionRefused:
        return False
    return True


def _replaceable(
    approval: Approval, person: Person, who: Who, directory: Directory, now: datetime
) -> tuple[tuple[Person, ...], tuple[Person, ...]]:
    """Return the approvers whom a person may replace, and the people who may replace them."""
    own = [found for one in approval.ballot.own if (found := directory.get(one)) is not None]

    def goes(of: Person) -> bool:
        by = person if of.id == person.id else who
        # The form asks for a second factor if one is needed.
        given = Assurance.SECOND_FACTOR
        return _is_permitted(
            lambda: collaboration.may_reassign(
                approval, by, directory, of=of, now=now, assurance=given
            )
        )

    places = tuple(one for one in own if goes(one))
    if not places:
        return (), ()

    def fits(one: Person) -> bool:
        return one.id != person.id and _is_permitted(
            lambda: collaboration.may_take(approval, one, directory)
        )

    to = tuple(islice((one for one in directory if fits(one)), _MOST_NAMES))
    return (places, to) if to else ((), ())


def _ended_for(
    approval: Approval, person: Person, directory: Directory, now: datetime
) -> RenderedMessage | None:
    if approval.state is not State.PENDING:
        # The person who has withdrawn it reads the same text as all others.
        reader = "" if approval.state is State.WITHDRAWN else person.id
        return phrases.outcome(approval, reader, directory, reader=person.id)
    seats = [one for one in approval.seats if one.person == person.id]
    if seats and person.id not in {*approval.ballot.own, *approval.ballot.stay}:
        last = max(seats, key=lambda one: (one.round, one.level))
        level_key = level_key_of(max(last.level, 0), last.round)
        return phrases.moved_on(approval, directory, level_key, person.id)
    if approval.is_late(now) and approval.is_last_level and not approval.stays_open:
        return phrases.late(approval, directory, person.id)
    return None


def _why_not(approval: Approval, person: Person, directory: Directory, now: datetime) -> str:
    if approval.is_requester(person, directory):
        return "You requested this, so others decide it."
    if not approval.concerns(person, directory):
        return ""
    if approval.only_informs(person.id):
        return INFORMED
    try:
        approval.may_decide(person, directory, now=now)
    except DecisionRefused as error:
        return str(error)
    return ""


def _voted(approval: Approval, person: Person, directory: Directory) -> str:
    said = {*approval.ballot.yes, *approval.ballot.no}
    return phrases.voted(approval, person.id, directory).sentence if person.id in said else ""


def _statement(approval: Approval, step: Decision, zone: tzinfo) -> Statement:
    rows = [Row(name="When", value=f"by {step.channel}, {moment(step.at, zone)}")]
    if step.reason:
        rows.append(Row(name="Reason", value=shown(step.reason)))
    values = step.proposal if step.proposal is not None else step.payload
    if isinstance(values, dict):
        rows += rows_of(approval, values)
    elif values is not None:
        lone = rows_of(approval, {LONE_FIELD: values})
        rows += [row.model_copy(update={"name": "Value"}) for row in lone]
    return Statement(mark=mark_of(step), rows=tuple(rows), other=step.proposal is not None)
