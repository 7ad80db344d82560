"""Approvals whose due changes fail: failures are counted and reported, and others are asked.

The cause may be a directory that is unavailable or a record that cannot be read. The timers retry
such an approval again and again. It does not delay others, but somebody has to know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import structlog

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.work import RescuePoisoned
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import LedgerUnavailable, SignoffError
from signoff.core.routing.escalation import is_due

log = structlog.get_logger(__name__)

PATIENCE: Final = 5
"""Failures before the first report: most of a minute, because a lease passes between them."""

STUCK: Final = "stuck"
"""The index of failing approvals, and the prefix of the keys of their records."""

_KEY: Final = f"{STUCK}:"
_KEPT: Final = timedelta(days=1)
_LONGEST: Final = 500


class Poisoned(NamedTuple):
    """An approval whose due changes fail.

    Attributes:
        approval: The id of the approval.
        tries: How often it has failed.
        problem: Why it failed last.
    """

    approval: str
    tries: int
    problem: str


async def note_failures(
    ledger: Ledger, failed: Mapping[str, tuple[Approval | None, Exception]]
) -> None:
    """Count failures, and report each approval that has failed too often.

    It is reported after `PATIENCE` failures, and again each time that their number has doubled: in
    the audit, as a dead letter, and to the stage `route`, which asks others.

    Args:
        ledger: The ledger.
        failed: By id: the approval, None if it cannot be read, and the error.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    if not failed:
        return
    now = await ledger.now()
    records = await ledger.store.read([_KEY + one for one in failed])
    changes = []
    for (approval_id, (approval, error)), record in zip(failed.items(), records, strict=True):
        problem = f"{type(error).__name__}: {error}"[:_LONGEST]
        tries = 1 + (json.loads(record[1])["tries"] if record is not None else 0)
        version = record[0] if record is not None else 0
        text = json.dumps({"tries": tries, "problem": problem})
        change = Change().put_raw(
            _KEY + approval_id, text, was=version, ttl=_KEPT, add=[(STUCK, approval_id, 0)]
        )
        if _is_reported(tries):
            log.error("timers.poisoned", approval=approval_id, tries=tries, error=problem)
            run = approval.origin.run if approval is not None else ""
            why = f"its due changes failed {tries} times: {problem}"
            event = Event(what=What.POISONED, at=now, approval=approval_id, run=run, by="deadline")
            change.note([event.model_copy(update={"why": why})])
            rescue = RescuePoisoned(approval=approval_id, problem=problem, tries=tries)
            letter = {"stage": "timers", "id": approval_id, "problem": problem}
            change.put_dead("timers", f"{rescue.id}:{now:%Y%m%dT%H%M%S}", letter)
            if approval is not None:
                change.send(rescue)
        changes.append(change)
    # A conflict means that another process counted the same failure, which is enough.
    await ledger.commit_all(changes)


async def poisoned(ledger: Ledger) -> list[Poisoned]:
    """Return the reported approvals that are still due.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    found = []
    now = await ledger.now()
    ids = await ledger.store.members(STUCK)
    records = await ledger.store.read([_KEY + one for one in ids])
    for approval_id, record in zip(ids, records, strict=True):
        if record is None:
            continue
        noted = json.loads(record[1])
        if noted["tries"] >= PATIENCE and await _is_still(ledger, approval_id, now):
            found.append(Poisoned(approval_id, noted["tries"], noted["problem"]))
    return found


async def _is_still(ledger: Ledger, approval_id: str, now: datetime) -> bool:
    try:
        return is_due(await ledger.approval(approval_id), now)
    except LedgerUnavailable:
        raise
    except SignoffError:
        # It is gone or unreadable, which has to be repaired.
        return True


def _is_reported(tries: int) -> bool:
    rounds, rest = divmod(tries, PATIENCE)
    return not rest and rounds & (rounds - 1) == 0
