"""Works through the due approvals in batches."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Final

import structlog

from signoff.broker.directory.roster import Roster
from signoff.broker.effects import Cards
from signoff.broker.ledger.change import Change
from signoff.broker.timers.due import Due
from signoff.broker.timers.poison import note_failures
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.run import Run
from signoff.core.base.errors import SignoffError

log = structlog.get_logger(__name__)

BATCH: Final = 100
"""Approvals in one claim: Redis needs a few milliseconds for it and serves nobody else then."""

LEASE: Final = 10.0
"""Seconds after which other processes take over the claims of a process that died."""

_ROUNDS: Final = 20


class DueApprovals:
    """Makes the changes of all due approvals.

    Any number of processes may work on the same ledger. Each claims its own batches and commits by
    compare-and-set: an approval that is claimed twice, because a lease expired, is moved once.

    Args:
        roster: The people and the rotations.
        cards: Makes cards, in a process with channels; see `Due`.
        batch: How many approvals to claim at a time.
        lease: How many seconds a claim lasts.
    """

    def __init__(
        self,
        roster: Roster,
        *,
        cards: Cards | None = None,
        batch: int = BATCH,
        lease: float = LEASE,
    ) -> None:
        self._roster = roster
        self._due = Due(roster, cards)
        self._ledger = roster.ledger
        self._batch = batch
        self._lease = lease

    async def once(self) -> int:
        """Work until nothing is due, and return how many approvals were claimed.

        Raises:
            LedgerUnavailable: Redis cannot be reached; claimed approvals can be claimed again.
        """
        count = 0
        while due := await self._ledger.due(limit=self._batch, lease=self._lease):
            await self._do(due)
            count += len(due)
        return count

    async def _do(self, due: Sequence[str]) -> None:
        await self._roster.refresh()
        left = due
        for round_ in range(_ROUNDS):
            if not left:
                return
            # Without jitter, processes that collide at one run would collide again.
            await asyncio.sleep(random.uniform(0, 0.002 * round_))  # noqa: S311 -- jitter
            left = await self._round(left)
        log.warning("timers.disturbed", approvals=list(left))

    async def _round(self, ids: Sequence[str]) -> list[str]:
        """Commit the changes, and return the approvals that another process changed meanwhile."""
        runs = _Runs()
        moves: list[tuple[Approval, Change]] = []
        failed: dict[str, tuple[Approval | None, Exception]] = {}
        for approval_id, found in zip(ids, await self._ledger.current_all(ids), strict=True):
            approval = None
            try:
                if isinstance(found, SignoffError):
                    raise found  # noqa: TRY301 -- `current_all` returns errors
                approval, read, now = found
                change = self._due.change(approval, runs.latest(read), now)
            except Exception as error:
                # An approval that cannot be moved does not block the others.
                log.exception("timers.failed", approval=approval_id, error=str(error))
                failed[approval_id] = (approval, error)
                continue
            if change is not None:
                runs.follow(read, change)
                moves.append((approval, change))
        await note_failures(self._ledger, failed)
        problems = await self._ledger.commit_together([change for _, change in moves])
        disturbed = []
        for (approval, change), problem in zip(moves, problems, strict=True):
            if problem is None:
                state = change.leaves(approval).state.value
                log.info("approval.moved_on", approval=approval.id, state=state)
            else:
                disturbed.append(approval.id)
        return disturbed


class _Runs:
    """The runs of one round, as the changes so far leave them.

    Approvals of one run often become due at the same time: each change then builds on the previous
    one. If their runs were read at different versions, the changes conflict and one is repeated.
    """

    def __init__(self) -> None:
        self._written: dict[tuple[str, int], tuple[Run, Change]] = {}

    def latest(self, read: Run) -> Run:
        """Return a run as the changes so far leave it."""
        written = self._written.get((read.id, read.version))
        return read if written is None else written[0]

    def follow(self, read: Run, change: Change) -> None:
        """Make a change depend on the previous change that wrote the same run."""
        before = self.latest(read)
        after = change.leaves(before)
        if after is before:
            return
        place = (read.id, read.version)
        if place in self._written:
            change.upon(self._written[place][1], before)
        self._written[place] = (after, change)
