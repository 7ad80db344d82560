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

    Processes that ask at the same moment may ask the same member. Each process goes through the
    members in order, so a member is asked at most one extra time per process.

    Args:
        known: When each member was last asked, in microseconds, by queue and member.
    """

    def __init__(self, known: dict[str, dict[str, float]]) -> None:
        self.known = known

    @classmethod
    async def read(cls, ledger: Ledger, directory: Directory) -> Self:
        """Return the current rotations. Redis is not read if all queues ask everybody.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        names = [one.name for one in directory.queues.values() if one.pick is not Pick.EVERYONE]
        found = await ledger.store.scored([_KEYS + name for name in names])
        return cls(dict(zip(names, found, strict=True)))

    def take(self, change: Change, seats: Iterable[Seat], *, now: datetime) -> None:
        """Record in a change, and for later changes of this process, which members were asked.

        Args:
            change: The change that writes the approval.
            seats: The seats of the level that starts. A stand-in counts as the absent member.
            now: The present.
        """
        for queue, member, place in take(self.known, seats, to_us(now)):
            change.index(_KEYS + queue, member, place)
