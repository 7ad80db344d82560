"""Lists that are read piece by piece.

Whoever goes on behind a place misses nothing and sees nothing twice, whatever is added meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import structlog

from signoff.broker.ledger import Ledger
from signoff.broker.records import legible_approval, legible_run
from signoff.core.approval import Approval
from signoff.core.errors import RecordUnreadable
from signoff.core.run import Run

log = structlog.get_logger(__name__)

APPROVALS: Final = "approvals"
"""The index of all approvals, by when they were opened."""

RUNS: Final = "runs"
"""The index of all runs, by when they were submitted."""

T = TypeVar("T", Approval, Run)


class Place(NamedTuple):
    """Where in an index somebody stands: a score, and among equal ones the member."""

    score: int
    member: str


async def approvals(
    ledger: Ledger, *, index: str = APPROVALS, before: Place | None = None, limit: int
) -> list[tuple[Place, Approval | None]]:
    """Return approvals of an index with their places, the newest first.

    Args:
        ledger: The ledger.
        index: One whose score is the time of opening: `APPROVALS`, or ``inbox:PERSON``.
        before: Behind which place; None for the beginning.
        limit: How many places.

    Returns:
        As many places as there are up to the limit; None beside one whose record is gone, or
        cannot be read.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    found = await ledger.store.behind(index, before=before, limit=limit)
    return await _listed(ledger, "approval", found, legible_approval)


async def runs(
    ledger: Ledger, *, before: Place | None = None, limit: int
) -> list[tuple[Place, Run | None]]:
    """Return runs as `approvals` returns approvals."""
    found = await ledger.store.behind(RUNS, before=before, limit=limit)
    return await _listed(ledger, "run", found, legible_run)


async def _listed(
    ledger: Ledger,
    kind: str,
    found: Sequence[tuple[int, str]],
    legible: Callable[[str, tuple[int, str]], T],
) -> list[tuple[Place, T | None]]:
    places = [Place(*one) for one in found]
    records = await ledger.store.read([f"{kind}:{one.member}" for one in places])
    listed: list[tuple[Place, T | None]] = []
    for place, record in zip(places, records, strict=True):
        one = None
        if record is not None:
            try:
                one = legible(place.member, record)
            except RecordUnreadable as error:
                # One that cannot be read does not hide the others.
                log.error("ledger.unreadable", record=place.member, error=str(error))  # noqa: TRY400 -- the message says it all
        listed.append((place, one))
    return listed
