"""What still waits for somebody who goes away, and handing all of it to their delegate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from signoff.broker.decisions import Decisions, Refused
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.moves import Actor, Reassign
from signoff.core.directory.people import Person


class HandedOver(NamedTuple):
    """The result of handing over what waits for a person.

    Attributes:
        done: The approvals that the delegate has now.
        refused: The approvals that stay, each with why.
    """

    done: tuple[Approval, ...] = ()
    refused: tuple[tuple[Approval, str], ...] = ()


async def waits_for(ledger: Ledger, person: str) -> list[Approval]:
    """Return the approvals that wait for the answer of one person, the oldest first.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    return [one for one in await ledger.inbox(person) if person in one.ballot.awaited]


async def hand_over(
    decisions: Decisions, waiting: Sequence[Approval], actor: Actor, *, of: Person, to: Person
) -> HandedOver:
    """Hand several approvals of one person over to another, each in its own commit.

    Args:
        decisions: Makes the moves.
        waiting: The approvals.
        actor: Who hands over: the person, or an operator.
        of: Who has the places.
        to: Who gets them.

    Raises:
        LedgerError: It could not be committed; those before are handed over.
    """
    done, refused = list[Approval](), list[tuple[Approval, str]]()
    for one in waiting:
        move = Reassign(of=of, to=to, reason=f"{of.shown} is away")
        outcome = await decisions.take(one.id, move, actor)
        if isinstance(outcome, Refused):
            refused.append((one, str(outcome.error)))
        else:
            done.append(outcome.approval)
    return HandedOver(tuple(done), tuple(refused))
