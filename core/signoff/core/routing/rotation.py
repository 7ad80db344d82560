"""Taking turns: what changes when members of queues are asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping

from signoff.core.policies.levels import Seat
from signoff.core.routing.resolve import QUEUE


def take(
    turns: MutableMapping[str, dict[str, float]], seats: Iterable[Seat], at: int
) -> Iterator[tuple[str, str, int]]:
    """Note who of a queue is asked, and yield the queue, the member and the turn of each.

    Whoever stands in takes the turn of the other.

    Args:
        turns: By queue and member; only the queues in it take turns.
        seats: Those of a level that begins.
        at: The present, in microseconds.
    """
    for seat in seats:
        name = seat.via.removeprefix(QUEUE)
        known = turns.get(name)
        if known is None or not seat.via.startswith(QUEUE):
            continue
        # Of those who are asked at one moment somebody is still the last.
        turn = max([at, *(int(one) + 1 for one in known.values())])
        known[seat.stands_for] = turn
        yield name, seat.stands_for, turn
