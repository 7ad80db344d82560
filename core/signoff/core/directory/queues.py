"""Queues: groups of people, and the order in which their members are asked."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from signoff.core.base.durations import Duration
from signoff.core.base.model import Value

QUEUE: Final = "queue:"
"""The prefix of a reference to a queue: ``queue:finance``."""

Rotations = Mapping[str, Mapping[str, float]]
"""By queue and member: when the member was last asked, as a number that grows with time."""

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


Limits = dict[
    Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")],
    Annotated[float, Field(ge=0)],
]
"""The largest values that a person may approve, by custom names."""


class Pick(StrEnum):
    """Which members of a queue are asked."""

    EVERYONE = "everyone"
    """All members."""
    ROUND_ROBIN = "round-robin"
    """The next member in the order of the members."""
    LEAST_RECENT = "least-recent"
    """The member who was asked the longest time ago."""


class Queue(Value):
    """A group of people with common requests.

    Attributes:
        name: The queue's name in policies: ``queue:finance``.
        members: The members' ids.
        pick: Who is asked: everyone, or one available member in turn.
        limits: Limits that every member has at least; see the `limits` of people.
        claim: How long a claim lasts.
    """

    name: Name
    members: tuple[str, ...] = Field(min_length=1)
    pick: Pick = Pick.EVERYONE
    limits: Limits = Field(default_factory=dict)
    claim: Duration = timedelta(minutes=30)

    def in_order(self, last_asked: Mapping[str, float]) -> Sequence[str]:
        """Return the members in the order in which they are tried.

        Args:
            last_asked: When each member was last asked; members who were never asked are missing.
        """
        never = float("-inf")
        match self.pick:
            case Pick.EVERYONE:
                return self.members
            case Pick.LEAST_RECENT:
                return sorted(self.members, key=lambda one: last_asked.get(one, never))
            case Pick.ROUND_ROBIN:
                # The order goes on after the present member who was asked last.
                last = max(
                    range(len(self.members)), key=lambda at: last_asked.get(self.members[at], never)
                )
                if self.members[last] not in last_asked:
                    return self.members
                return (*self.members[last + 1 :], *self.members[: last + 1])
