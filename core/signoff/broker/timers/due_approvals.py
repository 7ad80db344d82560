"""Works through the due approvals in batches.

A policy may say that silence approves. But silence means nothing while Signoff cannot hear: a mail
that was acknowledged may not be read yet, or all processes may have been down at the deadline.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog

from signoff.broker import stages
from signoff.broker.directory.roster import Roster
from signoff.broker.effects import Cards
from signoff.broker.ledger.change import Change
from signoff.broker.timers.due import DueChanges
from signoff.broker.timers.poison import note_failures
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.approvals.run import Run
from signoff.core.base.errors import LedgerUnavailable, SignoffError

log = structlog.get_logger(__name__)

BATCH: Final = 100
"""Approvals in one claim: Redis needs a few milliseconds for it and serves nobody else then."""

LEASE: Final = 10.0
"""Seconds after which other processes take over the claims of a process that died."""

_ROUNDS: Final = 20

HEARS: Final = timedelta(minutes=1)
"""After this long without reading mail, or without any process, silence says nothing."""

_MOST_HELD: Final = 1000
_DEAF: Final = "nobody answered in time, but answers could not be read at the deadline"


class DueApprovals:
    """Makes the changes of all due approvals.

    Any number of processes may work on the same ledger. Each claims its own batches and commits by
    compare-and-set: an approval that is claimed twice, because a lease expired, is moved once.

    Args:
        roster: The people and the rotations.
        cards: Makes cards, in a process with channels; see `DueChanges`.
        batch: How many approvals to claim at a time.
        lease: How many seconds a claim lasts.
        hears: See `HEARS`; None if silence always approves.
    """

    def __init__(
        self,
        roster: Roster,
        *,
        cards: Cards | None = None,
        batch: int = BATCH,
        lease: float = LEASE,
        hears: timedelta | None = HEARS,
    ) -> None:
        self._hears = hears
        self._since = self._seen = time.monotonic()
        self._unread: dict[str, set[str]] = {}
        self._roster = roster
        self._due = DueChanges(roster, cards)
        self._ledger = roster.ledger
        self._batch = batch
        self._lease = lease

    def awake(self) -> None:
        """Note that this process works; after a pause longer than `HEARS` it begins anew."""
        now = time.monotonic()
        if now - self._seen > HEARS.total_seconds():
            self._since = now
        self._seen = now

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
                if change is not None and change.leaves(approval).state is State.APPROVED:
                    unheard = await self._unheard(approval, now)
                    if unheard is None:
                        continue  # it is due again when its lease ends
                    if unheard:
                        change = self._due.change(approval, runs.latest(read), now, unheard=unheard)
            except LedgerUnavailable:
                raise
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

    async def _unheard(self, approval: Approval, now: datetime) -> str | None:
        """Return why silence does not approve an approval, "" if it does, None to wait."""
        for event in await self._ledger.history(approval.id):
            late = event.what is What.REFUSED_ANSWER and event.more.get("late")
            if late and event.more.get("verdict") == "reject" and event.by in approval.approvers:
                return f"nobody answered in time, but {event.by} has rejected it since"
        if self._hears is None or approval.deadline is None:
            return ""
        age = now - approval.deadline - self._hears
        if age > timedelta(seconds=time.monotonic() - self._since):
            return _DEAF
        # What comes in from now on is late.
        unread = {*await self._ledger.store.members(f"outbox:{stages.INTAKE}")}
        before = self._unread.pop(approval.id, None)
        held = unread if before is None else before & unread
        if not held:
            return ""
        if before is not None and age > timedelta():
            return _DEAF
        if len(self._unread) >= _MOST_HELD:
            self._unread.clear()
        self._unread[approval.id] = held
        return None


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
