"""Reassigns the approvals that wait for an absent person to their delegate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from signoff.broker.decisions import OF_ONE, Decisions, Refused
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.listing import SCANNED
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.moves import Actor, Reassign
from signoff.core.directory.people import Person


class HandedOver(NamedTuple):
    """The result of `hand_over`.

    Attributes:
        done: The approvals that the delegate has now.
        refused: The approvals that could not be reassigned, each with the reason.
    """

    done: tuple[Approval, ...] = ()
    refused: tuple[tuple[Approval, str], ...] = ()


async def waits_for(ledger: Ledger, person: str) -> list[Approval]:
    """Return the approvals that wait for the answer of one person, the oldest first.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    return [one for one in await ledger.inbox(person) if person in one.ballot.awaited]


class FirstWaiting(NamedTuple):
    """The result of `first_waiting`.

    Attributes:
        found: The approvals that wait for the person, the oldest first.
        unread: How many more may wait for them.
    """

    found: Sequence[Approval]
    unread: int


async def first_waiting(ledger: Ledger, person: str) -> FirstWaiting:
    """Return what waits for the answer of one person, of the `SCANNED` oldest; see `waits_for`.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    index = f"inbox:{person}"
    ids = await ledger.store.members(index, limit=SCANNED)
    (size,) = await ledger.store.sizes([index])
    found = [one for one in await ledger.readable(ids) if person in one.ballot.awaited]
    return FirstWaiting(found, max(size - len(ids), 0))


async def hand_over(
    decisions: Decisions, waiting: Sequence[Approval], actor: Actor, *, of: Person, to: Person
) -> HandedOver:
    """Reassign approvals from one person to another, each in its own commit.

    Args:
        decisions: Makes the moves.
        waiting: The approvals.
        actor: Who reassigns them: the person, or an operator.
        of: The person.
        to: The delegate.

    Raises:
        LedgerError: Redis cannot be reached. The approvals before this one are reassigned.
    """
    done, refused = list[Approval](), list[tuple[Approval, str]]()
    for one in waiting:
        move = Reassign(of=of, to=to, reason=f"{of.shown} is away")
        try:
            outcome = await decisions.take(one.id, move, actor)
        except OF_ONE as error:
            refused.append((one, str(error)))
            continue
        if isinstance(outcome, Refused):
            refused.append((one, str(outcome.error)))
        else:
            done.append(outcome.approval)
    return HandedOver(tuple(done), tuple(refused))
