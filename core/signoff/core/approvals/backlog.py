"""What waits, summed up for the head of a queue: how much, how long, and on whom."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Self

from signoff.core.approvals.approval import Approval
from signoff.core.base.model import Value


class Taken(Value):
    """An approval that somebody has claimed.

    Attributes:
        id: The approval.
        by: The id of the person.
        until: When the claim ends by itself (UTC).
    """

    id: str
    by: str
    until: datetime


class Waiting(Value):
    """What waits in one queue, for one person, or altogether.

    Attributes:
        name: ``queue:finance``, the id of a person, or ``all``.
        waiting: How many approvals wait.
        oldest: When the one that has waited longest was opened (UTC), None where nothing waits.
        next_due: The next deadline (UTC), None where there is none.
        overdue: How many are beyond their deadlines and stay open.
        on: The ids of those who may answer now, whoever may answer most of them first.
        claimed: What somebody has claimed, the claim that ends first at the beginning.
        questions: How many wait for an answer of the requester.
    """

    name: str
    waiting: int = 0
    oldest: datetime | None = None
    next_due: datetime | None = None
    overdue: int = 0
    on: tuple[str, ...] = ()
    claimed: tuple[Taken, ...] = ()
    questions: int = 0

    @classmethod
    def of(cls, name: str, approvals: Iterable[Approval], *, now: datetime) -> Self:
        """Sum up approvals that wait."""
        waiting = list(approvals)
        late = [one for one in waiting if one.deadline is None or one.is_late(now)]
        ahead = [one.deadline for one in waiting if one.deadline is not None and one not in late]
        share: dict[str, int] = {}
        for one in waiting:
            for person in one.approvers:
                share[person] = share.get(person, 0) + 1
        claims = ((one.id, one.claim_at(now)) for one in waiting)
        taken = [Taken(id=id_, by=claim.by, until=claim.until) for id_, claim in claims if claim]
        return cls(
            name=name,
            waiting=len(waiting),
            oldest=min((one.opened_at for one in waiting), default=None),
            next_due=min(ahead, default=None),
            overdue=sum(one.terms is not None for one in late),
            on=tuple(sorted(share, key=lambda person: (-share[person], person))),
            claimed=tuple(sorted(taken, key=lambda one: one.until)),
            questions=sum(one.open_question is not None for one in waiting),
        )
