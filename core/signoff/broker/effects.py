"""What follows from a move: who is told, which cards are rewritten, which work goes on."""

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
    Remind,
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

Cards = Callable[[Change, Approval], tuple[Approval, tuple[Event, ...]]]
"""Adds the cards of the present level to a change; returns the approval with them, and events."""


def moved(
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
    """Add a move of an approval to a change, and what follows from it.

    Args:
        change: Added to.
        was: The approval before.
        after: The approval after.
        events: What has happened.
        run: Its run, before.
        rotations: The rotations of the queues.
        watched: How the answerer looks on when the run goes on.
        cards: Makes the cards of a level that begins, in this change; else the stage `route` does.
    """
    if was.state is not State.PENDING:
        return change.put(after, was=was).note(events)
    if after.state is not State.PENDING:
        change.put(after, was=was).note(events)
        settle(change, after, run, watched=watched)
        return change
    here = cards is not None and after.level_key != was.level_key
    _follow(change, was, after, route=not here)
    if is_short(was, after):
        change.send(AskOthers(approval=after.id, level_key=after.level_key))
    if cards is not None and here:
        after, asked = cards(change, after)
        events = (*events, *asked)
    return _note_asked(change.put(after, was=was).note(events), was, after, rotations)


def follow(change: Change, was: Approval, after: Approval, *, rotations: RotationKeeper) -> Change:
    """Add to a change that writes an approval what follows where it is still open.

    The stage `route` delivers the cards of a level that begins, or of whose turn it is, and the
    reminders; the cards of those who cannot answer any more say so.
    """
    return _note_asked(_follow(change, was, after, route=True), was, after, rotations)


def _note_asked(
    change: Change, was: Approval, after: Approval, rotations: RotationKeeper
) -> Change:
    """Note who was asked in the queues of a level that begins; the approval is written first.

    An entry of an index goes with the record that a change writes.
    """
    if after.level_key != was.level_key and after.since is not None:
        rotations.take(change, after.seats_here, now=after.since)
    return change


def _follow(change: Change, was: Approval, after: Approval, *, route: bool) -> Change:
    if route and (
        after.level_key != was.level_key or after.ballot.answering != was.ballot.answering
    ):
        votes = len(after.ballot.votes)
        change.send(AskLevel(approval=after.id, level_key=after.level_key, votes=votes))
    began, changed = after.level_key != was.level_key, _looks(after) != _looks(was)
    could, may = was.approvers, after.approvers
    for asked in after.asked:
        left = asked.is_for(could - may, was.level_key)
        if began and left and not asked.problem:
            change.send(
                CloseLevel(
                    channel=asked.channel,
                    approval=after.id,
                    person=asked.key,
                    level_key=asked.level_key,
                )
            )
            continue
        stays = asked.is_for(may, after.level_key)
        if changed and stays and asked.receipt and not asked.problem:
            rewrite(change, after, asked)
    if after.reminded > was.reminded:
        change.send(Remind(approval=after.id, level_key=after.level_key, nth=after.reminded))
    announce(change, after, milestone_of(was, after))
    return change


def _looks(approval: Approval) -> tuple[object, ...]:
    """Return what an open card shows and what can change."""
    ballot = approval.ballot
    votes = (ballot.yes, ballot.no, ballot.awaited, ballot.need)
    return approval.claimed, approval.comments, approval.deadline, approval.level, votes


def rewrite(change: Change, approval: Approval, asked: Asked) -> None:
    """Add to a change that an open card is written anew, as it is then; once for each version."""
    change.send(
        UpdateCard(
            channel=asked.channel,
            approval=approval.id,
            person=asked.key,
            level_key=asked.level_key,
            version=approval.version,
        )
    )


def settle(change: Change, approval: Approval, run: Run, *, watched: Watch = Watch.NO) -> None:
    """Add to a change what follows from the end of an approval.

    Every copy of its card is told, and the run is resumed: when its whole pause is answered, or,
    where the terms say so, with each answer.
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
    """Add a new approval to a change; the stage `route` asks about it."""
    change.put(approval, was=None).note(events)
    return change.send(RouteApproval(approval=approval.id))


def tell_result(change: Change, approval: Approval, *, remarks: str = "") -> None:
    """Add to a change that those who decided, and the requester, are told of the call's result."""
    for asked in told_of_decision(approval):
        change.send(
            ReportResult(
                channel=asked.channel, approval=approval.id, person=asked.key, remarks=remarks
            )
        )
    if approval.state is State.APPROVED:
        announce(change, approval, Milestone.RAN, remarks=remarks)


def tell_failure(change: Change, approval: Approval, problem: str) -> None:
    """Add to a change that those who decided, and the requester, are told that the call failed."""
    for asked in told_of_decision(approval):
        change.send(
            ReportFailure(
                channel=asked.channel, approval=approval.id, person=asked.key, problem=problem
            )
        )
    if approval.state is State.APPROVED:
        announce(change, approval, Milestone.FAILED, problem=problem)


def told_of_decision(approval: Approval) -> list[Asked]:
    """Return the cards of those who decided, and those in places that all can see."""
    if approval.decision is None or not approval.decision.by:
        return []
    theirs = {approval.decision.by, ""}
    return [one for one in approval.asked if one.person in theirs and not one.problem]


def tell_outcome(change: Change, approval: Approval) -> None:
    """Add to a change that everybody who was asked, or is informed, is told how it ended."""
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
    """Add to a change that `route` tells those who do not decide what has happened, if anything.

    Calls that were decided without asking anybody are in the audit alone.
    """
    if milestone is None or approval.since is None:
        return
    at_a_level = approval.state is State.PENDING
    change.send(
        AnnounceMilestone(
            approval=approval.id,
            milestone=milestone,
            level_key=approval.level_key if at_a_level else "",
            remarks=remarks,
            problem=problem,
        )
    )


def send_work(change: Change, run: Run) -> Change:
    """Add to a change the work that a run in its present state waits for.

    While the work is still there, this puts in nothing: its id is a function of the run.
    """
    match run.state:
        case RunState.QUEUED:
            change.send(StartRun(app=run.app, run=run.id))
        case RunState.ANSWERED:
            change.send(ResumeRun(app=run.app, run=run.id, pause=run.pause))
        case _:
            pass
    return change
