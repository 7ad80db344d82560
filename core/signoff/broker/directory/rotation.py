"""Rotations: when the members of queues were last asked, kept in the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Self

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import to_us
from signoff.core.directory.people import Directory
from signoff.core.directory.queues import Pick
from signoff.core.policies.levels import Seat
from signoff.core.routing.resolve import take

_KEYS = "turns:"


class RotationKeeper:
    """The rotations of all queues that ask one member at a time, as one process sees them.

    Several processes that ask at the same moment may ask the same member: each of them goes on
    through the members separately, so nobody is asked more than once more for each process.

    Args:
        known: By queue and member: when (microseconds) the member was last asked.
    """

    def __init__(self, known: dict[str, dict[str, float]]) -> None:
        self.known = known

    @classmethod
    async def read(cls, ledger: Ledger, directory: Directory) -> Self:
        """Return the rotations as they stand; asks nothing where every queue asks all.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        names = [one.name for one in directory.queues.values() if one.pick is not Pick.EVERYONE]
        found = await ledger.store.scored([_KEYS + name for name in names])
        return cls(dict(zip(names, found, strict=True)))

    def take(self, change: Change, seats: Iterable[Seat], *, now: datetime) -> None:
        """Note in a change, and for the next ones of this process, who of a queue was asked.

        Args:
            change: It writes the approval that the seats are of.
            seats: Those of the level that begins; who stands in takes the place of the other.
            now: The present.
        """
        for queue, member, place in take(self.known, seats, to_us(now)):
            change.index(_KEYS + queue, member, place)
