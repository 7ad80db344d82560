"""Due changes: reminders, the next level, and the end. Callers commit the results.

Before an answer is checked, all due changes of its approval are made. So it does not matter for an
answer whether a timer has already run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from signoff.core.approvals import collaboration
from signoff.core.approvals.approval import Approval, Moved, State
from signoff.core.approvals.events import Event, What
from signoff.core.directory.people import Directory
from signoff.core.directory.queues import Rotations
from signoff.core.policies.levels import Start
from signoff.core.policies.policy import Fallback
from signoff.core.routing.selection import NO_ROTATIONS, ApproverSearch, Choice, choose_default


def is_due(approval: Approval, now: datetime) -> bool:
    """Say whether a change by a timer is due."""
    due = approval.next_due
    return approval.state is State.PENDING and due is not None and due <= now


def advance(
    approval: Approval,
    directory: Directory,
    *,
    now: datetime,
    rotations: Rotations = NO_ROTATIONS,
    unheard: str = "",
) -> Moved:
    """Make the due changes of an approval.

    After a level has ended, the next level with anybody to ask starts now. The policy says what
    follows the last level. Missed reminders are not repeated: only one of them is sent. See
    `Approval.time_out` for `unheard`.

    Returns:
        The unchanged approval and no events if nothing is due.
    """
    if not is_due(approval, now):
        return approval, ()
    here, ended = collaboration.end_claim(approval, now=now)
    if not is_due(here, now):
        return here, ended
    if not here.is_late(now):
        after, events = here.remind(now=now)
    else:
        why = "nobody decided in time"
        moved = None
        if not here.has_closed(now):
            moved = move_on(here, directory, now=now, why=why, rotations=rotations)
        after, events = moved or here.time_out(now=now, unheard=unheard)
    return after, (*ended, *events)


def move_on(
    approval: Approval,
    directory: Directory,
    *,
    now: datetime,
    why: str,
    rotations: Rotations = NO_ROTATIONS,
    unreached: bool = False,
) -> Moved | None:
    """Start the next level with anybody to ask; None if there is none.

    If nobody of a level was reached, its people may still answer at the next level.
    """
    if approval.terms is None:
        return None
    notes, levels = [why], approval.terms.after(approval.level, approval.round)
    start = _first(approval, levels, directory, now=now, rotations=rotations, notes=notes)
    if start is None:
        return None
    after, events = approval.escalate(start, now=now, notes=notes, unreached=unreached)
    return after, (*events, *_alarm(after, start, now))


def go_past(
    approval: Approval,
    fallback: Fallback,
    directory: Directory,
    *,
    now: datetime,
    why: str,
    barred: Collection[str] = (),
    rotations: Rotations = NO_ROTATIONS,
) -> Moved | Choice | None:
    """Go on because too few approvers of the level can answer. They may still answer later.

    Args:
        approval: The approval.
        fallback: Who is asked if no level follows.
        directory: The people.
        now: The present (UTC).
        why: Who is missing, in words.
        barred: Identities of people who never decide, besides the requester.
        rotations: When the members of queues were last asked.

    Returns:
        The approval at the next level. If there is none, the choice of the default without people
        who were asked already; None if nobody is left.
    """
    moved = move_on(approval, directory, now=now, why=why, rotations=rotations, unreached=True)
    if moved is not None:
        return moved
    choice = choose_default(
        approval, fallback, directory, now=now, why=why, barred=barred, rotations=rotations
    )
    before = approval.approvers
    if choice.start is None or not {one.id for one in choice.people} - before:
        return None
    people = tuple(one for one in choice.people if one.id not in before)
    fresh = choice.start.without(before)
    return choice.model_copy(update={"people": people, "start": fresh, "stranded": False})


def pass_on(
    approval: Approval, directory: Directory, *, now: datetime, rotations: Rotations = NO_ROTATIONS
) -> Moved | None:
    """Start the next phase of an approval whose phase has approved; None if nobody can be asked.

    Returns:
        The unchanged approval and no events if its phase has not approved.
    """
    if not approval.passed:
        return approval, ()
    notes: list[str] = []
    start = _first(approval, approval.behind, directory, now=now, rotations=rotations, notes=notes)
    if start is None:
        return None
    after, events = approval.pass_on(start, directory, now=now, notes=notes)
    if not after.passed:
        events = (*events, *_alarm(after, start, now))
    went = pass_on(after, directory, now=now, rotations=rotations)
    return None if went is None else (went[0], (*events, *went[1]))


def _alarm(approval: Approval, start: Start, now: datetime) -> tuple[Event, ...]:
    """Return the alarm about a new level that cannot reach its quorum."""
    if approval.state is not State.PENDING:
        return ()
    ballot, why = approval.ballot, start.short
    if not why and not ballot.can_reach({*ballot.own, *ballot.stay} - {*ballot.no}):
        why = f"{ballot.need} must approve, and too few can be asked"
    if not why and not {*ballot.own} & {*ballot.awaited}:
        # Their earlier approvals count here, but do not decide alone.
        why = "all who are asked have approved already, and one of them has to approve again"
    return (approval.note(What.UNROUTABLE, now=now, by="router", why=why),) if why else ()


def _first(
    approval: Approval,
    levels: Iterable[tuple[int, int]],
    directory: Directory,
    *,
    now: datetime,
    rotations: Rotations,
    notes: list[str],
) -> Start | None:
    """Return the start of the first of these levels with anybody to ask."""
    if approval.terms is None:
        return None
    search = ApproverSearch(directory, approval.facts, now, approval.barred, rotations, notes)
    return search.first(approval.terms, levels, approval.asked_here)
