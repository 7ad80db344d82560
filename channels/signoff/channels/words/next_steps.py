"""What comes next for a pending approval if nobody answers, in sentences.

Commands print them too, so they are made without templates, which take long to load.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Final, NamedTuple

from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.cards.card import one_line
from signoff.core.directory.people import Directory
from signoff.core.directory.queues import Rotations
from signoff.core.routing.selection import NO_ROTATIONS
from signoff.core.simulation.forecast import Step
from signoff.core.simulation.timeline import OTHERS, simulate_rest, steps_ahead

_MOST: Final = 40

_SENTENCES: Final = {
    What.TIMED_OUT: "Rejected, because it was not decided in time",
    What.APPROVED: "Approved, as the policy says for timeouts",
    What.OVERDUE: "Overdue; stays open",
    What.RELEASED: "The claim ends, and all approvers can decide again",
}


_CHANGES: Final = frozenset(
    {What.ESCALATED, What.ABSENT, What.TIMED_OUT, What.APPROVED, What.OVERDUE, What.UNROUTABLE}
)


class NextStep(NamedTuple):
    """When something happens (UTC), and what, in one sentence."""

    at: datetime
    what: str


def next_steps(
    approval: Approval,
    directory: Directory,
    *,
    now: datetime,
    rotations: Rotations = NO_ROTATIONS,
) -> tuple[NextStep, ...]:
    """Return the next steps if nobody answers, the next one first; none if it has ended.

    Args:
        approval: The approval.
        directory: The people.
        now: The present (UTC).
        rotations: When the members of queues were last asked.
    """
    if approval.state is not State.PENDING:
        return ()
    steps, after = simulate_rest(approval, directory, now=now, rotations=rotations, most=_MOST)
    found = [NextStep(one.at, what) for one in steps for what in _sentence(one, directory)]
    known = not steps or steps[-1].why != OTHERS
    if known and after.state is State.PENDING and after.next_due is not None:
        found.append(NextStep(after.next_due, "and so on, until somebody answers"))
    return tuple(found)


def next_change(
    approval: Approval,
    directory: Directory,
    *,
    now: datetime,
    rotations: Rotations = NO_ROTATIONS,
) -> tuple[Step, str] | None:
    """Return when others decide or it ends if nobody answers, and a sentence; None for never.

    Args:
        approval: A pending approval that has been routed.
        directory: The people.
        now: The present (UTC).
        rotations: When the members of queues were last asked.
    """
    ahead = steps_ahead(approval, directory, now=now, rotations=rotations)
    for step in (one for steps, _ in islice(ahead, _MOST) for one in steps):
        if step.what in _CHANGES and (said := next(_sentence(step, directory), "")):
            return step, said
    return None


def _sentence(step: Step, directory: Directory) -> Iterator[str]:
    """Yield the sentence about a step, if there is one."""
    if step.what is What.REMINDED:
        yield f"Reminder to {_names(step.reminded, directory)}"
    elif step.what is What.ESCALATED:
        level = f"{one_line(step.name)}: " if step.name else ""
        need = f", {step.need} approvals needed" if step.need > 1 else ""
        yield f"Escalates to {level}{_names((one.person for one in step.seats), directory)}{need}"
    elif step.what is What.ABSENT or step.why == OTHERS:
        yield one_line(step.why[:1].upper() + step.why[1:])
    elif (known := _SENTENCES.get(step.what)) is not None:
        yield known


def _names(people: Iterable[str], directory: Directory) -> str:
    return ", ".join(one_line(directory.shown(one)) for one in dict.fromkeys(people)) or "nobody"
