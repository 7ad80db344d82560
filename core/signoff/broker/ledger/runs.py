"""Runs as workers read them: claimed with their sessions and records, and again at the end."""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import dataclass
from datetime import datetime

from signoff.broker.ledger.change import Item
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.records import Recent
from signoff.broker.ledger.store import parse_record
from signoff.broker.work import ResumeRun, StartRun
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.run import Run
from signoff.core.base.errors import ApprovalNotFound, RecordUnreadable, RunNotFound

PUT_OFF = 0.2
"""Seconds until an item can be claimed again after its session was found busy."""

Stored = tuple[int, str] | None


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A claimed item, the lease of its session under the same token, and the records of its run.

    Attributes:
        item: The item.
        lease_key: The key of the session's lease; "" if the run does not exist or is unreadable.
        alive_at: When the claim was sent, by the clock of the event loop. Both leases start then.
        now: When the claim was carried out, by the ledger's clock (UTC).
        read_at: When its reply came, by the clock of the event loop.
        frozen: The record of the freezes at that moment.
    """

    item: Item
    lease_key: str
    alive_at: float
    now: datetime
    read_at: float
    frozen: Stored
    stored_run: Stored
    stored_approvals: tuple[Stored, ...]

    @property
    def age(self) -> float:
        """The seconds since the reply to the claim came."""
        return asyncio.get_running_loop().time() - self.read_at

    def present(self, ledger: Ledger) -> datetime:
        """Return the present by the ledger's clock (UTC), late by up to a round trip."""
        return ledger.store.later(self.now, self.age)

    @property
    def work(self) -> StartRun | ResumeRun:
        """What to do.

        Raises:
            RecordUnreadable: This version cannot read the item.
        """
        work = self.item.work
        if not isinstance(work, StartRun | ResumeRun):
            raise RecordUnreadable(self.item.id, f"{work.work} is not about a run.")
        return work

    def read(self, recent: Recent) -> tuple[Run, list[Approval]]:
        """Return the run and the approvals of its current pause, as they were at the claim.

        Args:
            recent: The cache of parsed records.

        Raises:
            RunNotFound, ApprovalNotFound: One of them does not exist.
            RecordUnreadable: This version cannot read one of them.
        """
        run_id = str(self.item.body.get("run", ""))
        if self.stored_run is None:
            raise RunNotFound(run_id)
        run = recent.run(run_id, self.stored_run)
        if not self.lease_key:
            raise RecordUnreadable(f"run:{run_id}", "it is not JSON that Redis can read.")
        return run, _approvals(run, self.stored_approvals, recent)


@dataclass(frozen=True, slots=True)
class RunClaim:
    """The result of a claim of runs.

    Attributes:
        runs: The claimed items.
        waiting: How many more items wait.
        put_off: How many items were postponed because another worker runs their sessions.
    """

    runs: tuple[ClaimedRun, ...]
    waiting: int
    put_off: int


async def claim_runs(
    ledger: Ledger, stage: str, *, limit: int, lease: float, opening: bool = True
) -> RunClaim:
    """Lease waiting items of a `run` or `resume` stage together with the sessions of their runs.

    It takes one round trip, because it delays the answer on its way to the agent. If another worker
    runs the session of an item, the item is postponed, which does not count as an attempt.

    Args:
        ledger: The ledger.
        stage: The stage.
        limit: The most items to take.
        lease: How many seconds the leases of the items and their sessions last.
        opening: As in `Ledger.claim`.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    ledger.active.set()
    sent_at = asyncio.get_running_loop().time()
    waiting, put_off, clock, frozen, *rows = await ledger.store.script(
        "claim_runs",
        stage,
        ledger.store.now_ms(),
        limit,
        int(lease * 1000),
        secrets.token_hex(8),
        "1" if opening else "0",
        int(PUT_OFF * 1000),
    )
    read_at = asyncio.get_running_loop().time()
    now, freezes = ledger.store.moment(*clock), parse_record(frozen)
    runs = tuple(
        ClaimedRun(
            Item(stage, item_id, json.loads(body), int(attempts), token),
            _encodable(lease_key),
            sent_at,
            now,
            read_at,
            freezes,
            parse_record(run),
            tuple(parse_record(one) for one in approvals),
        )
        for item_id, attempts, body, token, lease_key, run, approvals in rows
    )
    return RunClaim(runs, int(waiting), int(put_off))


def _encodable(lease_key: str) -> str:
    """Return a lease key, "" if it is from a run that is not UTF-8: nobody can name that lease."""
    try:
        lease_key.encode()
    except UnicodeEncodeError:
        return ""
    return lease_key


async def read_again(ledger: Ledger, run: Run) -> tuple[Run, list[Approval], datetime]:
    """Return a run, the approvals of its pause and the present time, as they are now.

    Raises:
        RunNotFound, ApprovalNotFound: One of them does not exist any more.
        RecordUnreadable: This version cannot read one of them.
        LedgerUnavailable: Redis cannot be reached.
    """
    keys = [f"run:{run.id}", *(f"approval:{one}" for one in run.approvals)]
    (stored, *approvals), now = await ledger.store.read_now(keys)
    if stored is None:
        raise RunNotFound(run.id)
    recent = ledger.recent
    return recent.run(run.id, stored), _approvals(run, approvals, recent), now


def _approvals(
    run: Run, stored: tuple[Stored, ...] | list[Stored], recent: Recent
) -> list[Approval]:
    found = []
    for approval_id, record in zip(run.approvals, stored, strict=True):
        if record is None:
            raise ApprovalNotFound(approval_id)
        found.append(recent.approval(approval_id, record))
    return found
