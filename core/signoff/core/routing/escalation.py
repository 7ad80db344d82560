"""What becomes due: reminders, the next level, and the end. Pure: the shells commit what it says.

Whether an answer counts does not depend on whether a timer has run: taking an answer first moves
the approval on to where it stands at that moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from signoff.core.approvals import collaboration
from signoff.core.approvals.approval import Approval, Moved, State
from signoff.core.directory.people import Directory
from signoff.core.directory.queues import Rotations
from signoff.core.policies.levels import Start
from signoff.core.policies.policy import Fallback
from signoff.core.routing.selection import NO_ROTATIONS, Choice, first, instead


def is_due(approval: Approval, now: datetime) -> bool:
    """Say whether there is anything to do by now, whatever people do."""
    due = approval.next_due
    return approval.state is State.PENDING and due is not None and due <= now


def advance(
    approval: Approval, directory: Directory, *, now: datetime, rotations: Rotations = NO_ROTATIONS
) -> Moved:
    """Move an approval on to where it stands by now.

    A level that is over is followed by the next one that has anybody to ask, which begins now; the
    last one by what the policy says about the end. Moments that were missed are not made up for:
    of several reminders there is one.

    Returns:
        The approval as it is where nothing is due, and no events then.
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
        after, events = moved or here.time_out(now=now)
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
    """Go on to the next level that has anybody to ask, now; None where there is none.

    If nobody of a level is reached, its people may still answer at the next one.
    """
    if approval.terms is None:
        return None
    notes, levels = [why], approval.terms.after(approval.level, approval.round)
    start = _first(approval, levels, directory, now=now, rotations=rotations, notes=notes)
    if start is None:
        return None
    return approval.escalate(start, now=now, notes=notes, unreached=unreached)


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
    """Go on because too few of those who are asked can answer; they still may, later on.

    Args:
        approval: What waits.
        fallback: Who is asked where no level follows.
        directory: The people.
        now: The present (UTC).
        why: Who is missing, in words.
        barred: Identities of those who never decide, besides the requester.
        rotations: When the members of queues were last asked.

    Returns:
        The next level; where there is none, the choice of the default, as far as people can be
        asked who were not; None where nobody is left.
    """
    moved = move_on(approval, directory, now=now, why=why, rotations=rotations, unreached=True)
    if moved is not None:
        return moved
    choice = instead(
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
    """Ask the next phase of what its phase has approved; None where there is nobody to ask.

    Returns:
        The approval as it is, and no events, where there is nothing to pass on.
    """
    if not approval.passed:
        return approval, ()
    notes: list[str] = []
    start = _first(approval, approval.behind, directory, now=now, rotations=rotations, notes=notes)
    if start is None:
        return None
    after, events = approval.pass_on(start, now=now, notes=notes)
    went = pass_on(after, directory, now=now, rotations=rotations)
    return None if went is None else (went[0], (*events, *went[1]))


def _first(
    approval: Approval,
    levels: Iterable[tuple[int, int]],
    directory: Directory,
    *,
    now: datetime,
    rotations: Rotations,
    notes: list[str],
) -> Start | None:
    """Return the beginning of the first of some levels of an approval that has anybody to ask."""
    if approval.terms is None:
        return None
    return first(
        approval.terms,
        directory,
        approval.facts,
        now=now,
        barred=approval.barred,
        rotations=rotations,
        notes=notes,
        among=levels,
        asked=approval.asked_here,
    )
