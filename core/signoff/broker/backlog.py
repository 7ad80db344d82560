"""Pending approvals by queue and by person, for the command line, the API and the page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Final

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import from_us
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lists.metrics import PendingMetrics
from signoff.core.directory.people import Directory
from signoff.core.directory.queues import QUEUE

ALL: Final = "all"
"""The name for all pending approvals."""

_MOST: Final = 1_000


def names_of(directory: Directory) -> list[str]:
    """Return the names of all lists: everything, each queue, and each person."""
    return [ALL, *(QUEUE + one for one in directory.queues), *(one.id for one in directory)]


def names_for(directory: Directory, person_id: str) -> list[str]:
    """Return the names of the lists for a person: their queues, and their own.

    Args:
        directory: The people and the queues.
        person_id: The id of the person.
    """
    queues = directory.queues.values()
    return [*(QUEUE + one.name for one in queues if person_id in one.members), person_id]


def name_of(directory: Directory, name: str) -> str:
    """Return the name of the list of a queue or a person; "" if there is none.

    Args:
        directory: The people and the queues.
        name: ``all``, ``queue:finance`` or ``finance``, or the id or an address of a person.
    """
    plain = name.removeprefix(QUEUE)
    if name == ALL:
        return ALL
    if plain in directory.queues:
        return QUEUE + plain
    person = None if name.startswith(QUEUE) else directory.find(name)
    return "" if person is None else person.id


def index_of(name: str) -> str:
    """Return the index of a list that `name_of` returned."""
    if name == ALL:
        return "waiting"
    return name if name.startswith(QUEUE) else f"inbox:{name}"


async def summaries(
    ledger: Ledger,
    names: Collection[str],
    *,
    keep: Callable[[Approval], bool] | None = None,
) -> tuple[list[PendingMetrics], datetime]:
    """Summarise the pending approvals, and return the present (UTC).

    Without `keep`, the counts are exact, and so are the ages in queues and of people. Everything
    else is computed from the 1,000 approvals that are due next.

    Args:
        ledger: The ledger.
        names: Names from `name_of`. A person without pending approvals has no row.
        keep: Returns whether to count an approval; None counts all.
    """
    everything = ALL in names
    pending = await ledger.pending(limit=_MOST) if everything else await _together(ledger, names)
    found: defaultdict[str, list[Approval]] = defaultdict(list)
    approvers = dict[str, frozenset[str]]()
    for one in pending:
        if keep is None or keep(one):
            on = one.approvers
            approvers[one.id] = on
            for name in {ALL, *one.queues, *on}:
                found[name].append(one)
    now = await ledger.now()
    rows = [PendingMetrics.of(name, found[name], now=now, approvers=approvers) for name in names]
    if keep is None:
        extents = await ledger.store.extents([index_of(one) for one in names])
        rows = [_exact(row, *extent) for row, extent in zip(rows, extents, strict=True)]
    shown = (row for row in rows if row.waiting or row.name == ALL or row.name.startswith(QUEUE))
    return list(shown), now


def _exact(row: PendingMetrics, count: int, oldest: float | None) -> PendingMetrics:
    # The index of all pending approvals is ordered by what is due, not by age.
    if row.name == ALL:
        return row.model_copy(update={"waiting": count})
    since = None if oldest is None else from_us(oldest)
    return row.model_copy(update={"waiting": count, "oldest": since})


async def _together(ledger: Ledger, names: Iterable[str]) -> list[Approval]:
    """Return the pending approvals of several queues and people, each one once."""
    ids: dict[str, None] = {}
    for name in names:
        ids.update(dict.fromkeys(await ledger.store.members(index_of(name), limit=_MOST)))
    return await ledger.readable(list(ids))


async def waiting(ledger: Ledger, name: str, *, limit: int) -> list[Approval]:
    """Return pending approvals of a queue, a person or all, the oldest first.

    Args:
        ledger: The ledger.
        name: A name from `name_of`.
        limit: The most to return. For all approvals, these are the ones due next.
    """
    found = await ledger.readable(await ledger.store.members(index_of(name), limit=limit))
    return sorted(found, key=lambda one: one.opened_at)
