"""What a worker reads of runs: claimed with sessions and records, and again at the end."""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import dataclass
from datetime import datetime

from signoff.broker.ledger.change import Item
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.records import legible_approval, legible_run
from signoff.broker.ledger.store import parse_record
from signoff.broker.work import ResumeRun, StartRun
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.run import Run
from signoff.core.base.errors import ApprovalNotFound, RecordUnreadable, RunNotFound

PUT_OFF = 0.2
"""Seconds until an item is looked at again whose session somebody else runs."""

Stored = tuple[int, str] | None


@dataclass(frozen=True, slots=True)
class Taken:
    """A claimed item, the lease of its session under the same token, and the records of its run.

    Attributes:
        item: The item.
        lease_key: The key of the session's lease; "" if the run is not there or cannot be read.
        alive_at: When the claim was sent, by the loop's clock: both leases count from then.
    """

    item: Item
    lease_key: str
    alive_at: float
    stored_run: Stored
    stored_approvals: tuple[Stored, ...]

    @property
    def work(self) -> StartRun | ResumeRun:
        """What to do.

        Raises:
            RecordUnreadable: The item does not hold what this version can read.
        """
        work = self.item.work
        if not isinstance(work, StartRun | ResumeRun):
            raise RecordUnreadable(self.item.id, f"{work.work} is not about a run.")
        return work

    def read(self) -> tuple[Run, list[Approval]]:
        """Return the run, and the approvals of its present pause, as they stood at the claim.

        Raises:
            RunNotFound, ApprovalNotFound: One of them is not there.
            RecordUnreadable: One of them does not hold what this version can read.
        """
        run_id = str(self.item.body.get("run", ""))
        if self.stored_run is None:
            raise RunNotFound(run_id)
        run = legible_run(run_id, self.stored_run)
        if not self.lease_key:
            raise RecordUnreadable(f"run:{run_id}", "it is not JSON that Redis can read.")
        return run, _approvals(run, self.stored_approvals)


@dataclass(frozen=True, slots=True)
class RunClaim:
    """What a claim of runs brought.

    Attributes:
        taken: The items.
        waiting: How many more wait.
        put_off: How many were put off, because somebody else runs their sessions.
    """

    taken: tuple[Taken, ...]
    waiting: int
    put_off: int


async def claim_runs(
    ledger: Ledger, stage: str, *, limit: int, lease: float, opening: bool = True
) -> RunClaim:
    """Lease waiting items of a `run` or `resume` stage together with the sessions of their runs.

    One round trip, because it is on the way between an answer and the agent. An item whose session
    somebody else runs is put off, which does not count as an attempt: theirs first, then this.

    Args:
        ledger: The ledger.
        stage: The stage.
        limit: The most items to take.
        lease: For how many seconds nobody else gets them, or their sessions.
        opening: As in `Ledger.claim`.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    sent_at = asyncio.get_running_loop().time()
    waiting, put_off, *rows = await ledger.store.script(
        "claim_runs",
        stage,
        ledger.store.now_ms(),
        limit,
        int(lease * 1000),
        secrets.token_hex(8),
        "1" if opening else "0",
        int(PUT_OFF * 1000),
    )
    taken = tuple(
        Taken(
            Item(stage, item_id, json.loads(body), int(attempts), token),
            lease_key,
            sent_at,
            parse_record(run),
            tuple(parse_record(one) for one in approvals),
        )
        for item_id, attempts, body, token, lease_key, run, approvals in rows
    )
    return RunClaim(taken, int(waiting), int(put_off))


async def read_again(ledger: Ledger, run: Run) -> tuple[Run, list[Approval], datetime]:
    """Return a run and the approvals of its pause as they stand now, and the present.

    Raises:
        RunNotFound, ApprovalNotFound: One of them is not there any more.
        RecordUnreadable: One of them does not hold what this version can read.
        LedgerUnavailable: Redis cannot be reached.
    """
    keys = [f"run:{run.id}", *(f"approval:{one}" for one in run.approvals)]
    (stored, *approvals), now = await ledger.store.read_now(keys)
    if stored is None:
        raise RunNotFound(run.id)
    return legible_run(run.id, stored), _approvals(run, approvals), now


def _approvals(run: Run, stored: tuple[Stored, ...] | list[Stored]) -> list[Approval]:
    found = []
    for approval_id, record in zip(run.approvals, stored, strict=True):
        if record is None:
            raise ApprovalNotFound(approval_id)
        found.append(legible_approval(approval_id, record))
    return found
