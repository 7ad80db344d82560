"""The effects of a move: messages, rewritten cards, and work that continues the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from signoff.broker.directory.rotation import RotationKeeper
from signoff.broker.ledger.change import Change
from signoff.broker.work import (
    AnnounceMilestone,
    AskLevel,
    AskOthers,
    CloseCard,
    CloseLevel,
    NotifyReceiver,
    RemindLevel,
    ReportFailure,
    ReportResult,
    ResumeRun,
    RouteApproval,
    StartRun,
    UpdateCard,
)
from signoff.core.approvals.approval import Approval, Asked, State
from signoff.core.approvals.deliveries import is_short
from signoff.core.approvals.events import Event
from signoff.core.approvals.milestones import Milestone, milestone_of
from signoff.core.approvals.run import Run, RunState, Watch
from signoff.core.policies.policy import Resume

Cards = Callable[[Change, Approval, Milestone | None], tuple[Approval, tuple[Event, ...]]]
"""Adds the cards of the present level, and messages to people who do not decide, to a change.

Returns the approval with the cards, and events.
"""


def add_move(
    change: Change,
    was: Approval,
    after: Approval,
    events: Iterable[Event],
    run: Run,
    *,
    rotations: RotationKeeper,
    watched: Watch = Watch.NO,
    cards: Cards | None = None,
) -> Change:
    """Add a move of an approval and its effects to a change.

    Args:
        change: The change to extend.
        was: The approval before the move.
        after: The approval after the move.
        events: The events of the move.
        run: The run before the move.
        rotations: The rotations of the queues.
        watched: How the person who answers watches the run continue.
        cards: Adds the cards and messages of a level that starts to this change. None leaves them
            to the stage `route`.
    """
    if was.state is not State.PENDING:
        return change.put(after, was=was).note(events)
    if after.state is not State.PENDING:
        change.put(after, was=was).note(events)
        settle(change, after, run, watched=watched)
        return change
    here = cards is not None and after.level_key != was.level_key
    _add_effects(change, was, after, route=not here)
    if is_short(was, after):
        change.send(AskOthers(approval=after.id, level_key=after.level_key))
    if cards is not None and here:
        after, asked = cards(change, after, milestone_of(was, after))
        events = (*events, *asked)
    return _note_asked(change.put(after, was=was).note(events), was, after, rotations)


def add_effects(
    change: Change, was: Approval, after: Approval, *, rotations: RotationKeeper
) -> Change:
    """Add the effects on an approval that is still open to the change that writes it.

    The stage `route` delivers reminders and the cards of a new level or of the next person in turn.
    Cards of people who can no longer answer are rewritten.
    """
    return _note_asked(_add_effects(change, was, after, route=True), was, after, rotations)


def _note_asked(
    change: Change, was: Approval, after: Approval, rotations: RotationKeeper
) -> Change:
    """Record who was asked in the queues of a level that starts.

    The change must write the approval first, because an index entry belongs to the last record that
    a change writes.
    """
    if after.level_key != was.level_key and after.since is not None:
        rotations.take(change, after.seats_here, now=after.since)
    return change


def _add_effects(change: Change, was: Approval, after: Approval, *, route: bool) -> Change:
    if route and (
        after.level_key != was.level_key or after.ballot.answering != was.ballot.answering
    ):
        votes = len(after.ballot.votes)
        change.send(AskLevel(approval=after.id, level_key=after.level_key, votes=votes))
    began, may, stay = after.level_key != was.level_key, after.approvers, list[Asked]()
    gone = was.approvers - may
    for asked in after.asked:
        if asked.problem:
            continue
        # At the same level, a seat was reassigned, or was filled by the answer of another person.
        lost = asked.person in gone and asked.level_key == after.level_key
        if lost or (began and asked.is_for(gone, was.level_key)):
            change.send(
                CloseLevel(
                    channel=asked.channel,
                    approval=after.id,
                    person=asked.key,
                    level_key=asked.level_key,
                )
            )
        elif asked.receipt and asked.is_for(may, after.level_key):
            stay.append(asked)
    if stay and _looks(after) != _looks(was):
        for asked in stay:
            rewrite(change, after, asked)
    if after.reminded > was.reminded:
        change.send(RemindLevel(approval=after.id, level_key=after.level_key, nth=after.reminded))
    if route:
        announce(change, after, milestone_of(was, after))
    return change


def _looks(approval: Approval) -> tuple[object, ...]:
    """Return the parts of an approval that can change and that its open cards show."""
    ballot = approval.ballot
    votes = (ballot.yes, ballot.no, ballot.awaited, ballot.need)
    return approval.claimed, approval.comments, approval.deadline, approval.level, votes


def rewrite(change: Change, approval: Approval, asked: Asked, *, cause: str = "") -> None:
    """Add work to a change: rewrite an open card.

    It adds nothing while the same work is in the outbox, even if a process is writing the card
    already. So a change that the approval does not record needs a cause.

    Args:
        change: The change to extend.
        approval: The approval.
        asked: The person who has the card.
        cause: What has changed besides the approval, "" for nothing.
    """
    change.send(
        UpdateCard(
            channel=asked.channel,
            approval=approval.id,
            person=asked.key,
            level_key=asked.level_key,
            version=approval.version,
            cause=cause,
        )
    )


def settle(change: Change, approval: Approval, run: Run, *, watched: Watch = Watch.NO) -> None:
    """Add the effects of the end of an approval to a change.

    All its cards are updated. The run resumes when its whole pause is answered or, if the terms say
    so, with each answer.
    """
    each = approval.terms is not None and approval.terms.resume is Resume.EACH
    after = run.answered(approval.id, each=each)
    if watched:
        after = after.model_copy(update={"watched": watched})
    change.put(after, was=run)
    send_work(change, after)
    tell_outcome(change, approval)
    if approval.program is not None and approval.program.instance:
        change.send(NotifyReceiver(approval=approval.id))


def open_approval(change: Change, approval: Approval, events: Iterable[Event]) -> Change:
    """Add a new approval to a change, for the stage `route` to ask about."""
    change.put(approval, was=None).note(events)
    return change.send(RouteApproval(approval=approval.id))


def tell_result(change: Change, approval: Approval, *, remarks: str = "") -> None:
    """Add work to a change: tell the deciders and the requester the result of the call."""
    for asked in cards_of_decider(approval):
        change.send(
            ReportResult(
                channel=asked.channel, approval=approval.id, person=asked.key, remarks=remarks
            )
        )
    if approval.state is State.APPROVED:
        announce(change, approval, Milestone.RAN, remarks=remarks)


def tell_failure(change: Change, approval: Approval, problem: str) -> None:
    """Add work to a change: tell the deciders and the requester that the call failed."""
    for asked in cards_of_decider(approval):
        change.send(
            ReportFailure(
                channel=asked.channel, approval=approval.id, person=asked.key, problem=problem
            )
        )
    if approval.state is State.APPROVED:
        announce(change, approval, Milestone.FAILED, problem=problem)


def cards_of_decider(approval: Approval) -> list[Asked]:
    """Return the card of the person who decided, and the cards that several people share."""
    if approval.decision is None or not approval.decision.by:
        return []
    theirs = {approval.decision.by, ""}
    return [one for one in approval.asked if one.person in theirs and not one.problem]


def tell_outcome(change: Change, approval: Approval) -> None:
    """Add work to a change: tell all people who were asked or are informed how it ended."""
    for asked in approval.asked:
        if not asked.problem:
            change.send(CloseCard(channel=asked.channel, approval=approval.id, person=asked.key))
    announce(change, approval, Milestone.ENDED)


def announce(
    change: Change,
    approval: Approval,
    milestone: Milestone | None,
    *,
    remarks: str = "",
    problem: str = "",
) -> None:
    """Add work to a change: tell people who do not decide about a milestone, if there is one.

    Calls that were decided without asking anybody are only in the audit.
    """
    if milestone is None or approval.since is None:
        return
    at_a_level = approval.state is State.PENDING
    work = AnnounceMilestone(
        approval=approval.id,
        milestone=milestone,
        level_key=approval.level_key if at_a_level else "",
        remarks=remarks,
        problem=problem,
    )
    if at_a_level:
        # People whom the stage `route` asks at this level get no message, so it goes there too.
        change.send(work)
    else:
        change.announce(work, approval)


def send_work(change: Change, run: Run) -> Change:
    """Add the next work of a run, according to its state, to a change.

    It adds nothing while this work is still in the outbox, because its id depends on the run only.
    """
    match run.state:
        case RunState.QUEUED:
            change.send(StartRun(app=run.app, run=run.id))
        case RunState.ANSWERED:
            change.send(ResumeRun(app=run.app, run=run.id, pause=run.pause))
        case _:
            pass
    return change
