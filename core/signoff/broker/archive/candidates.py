"""Collects runs with their approvals, grants and audit entries, and checks if they are over."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from signoff.broker.archive.files import ArchivedRecord
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Record
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.packing import unpack
from signoff.broker.ledger.records import read_approval, read_event, read_grant, read_run
from signoff.core.approvals.approval import Approval, Handoff, State
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.run import Run, RunState
from signoff.core.grants.grant import Grant, grant_id

_DOUBTFUL: Final = {Handoff.STARTED, Handoff.IN_DOUBT}
_READERS: Final[Mapping[str, Callable[[int, str], Record]]] = {
    "run": read_run,
    "approval": read_approval,
    "grant": read_grant,
}
_TOKEN: Final = re.compile(r'"([A-Za-z0-9._:-]+)"')
_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class RunBundle:
    """A run with its approvals, its grants and its audit entries.

    Attributes:
        trail: The ids of its audit entries, separated by spaces.
        records: The records, that of the run first.
        values: The values of the records, in the same order.
        events: The events of its audit entries.
    """

    trail: str
    records: tuple[ArchivedRecord, ...]
    values: tuple[Record, ...]
    events: tuple[Event, ...]

    @property
    def approvals(self) -> list[Approval]:
        """The approvals."""
        return [one for one in self.values if isinstance(one, Approval)]

    def why_kept(self, now: datetime, names: Collection[str]) -> str:
        """Say why the run has to stay in the ledger, "" if it can be archived."""
        settled = any(event.what is What.SETTLED for event in self.events)
        asked_again = {one.supersedes for one in self.approvals}
        for one in self.values:
            why = _why_kept(one, now) or ("" if settled else _why_doubted(one, asked_again))
            if why or one.id in names:
                return why or f"work about {one.id} waits"
        return ""


def value_of(record: ArchivedRecord) -> Record:
    """Return the value of a record.

    Raises:
        ValueError: This version cannot read it.
    """
    return _READERS[record.kind](record.version, record.data)


async def waiting_work(ledger: Ledger) -> list[str]:
    """Return the bodies of all items in the outboxes, as JSON texts.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    found: list[str] = []
    for key in await ledger.store.keys("items:", "hash"):
        async with ledger.store.translated_client() as client:
            items = await client.hvals(ledger.store.prefix + key)
        found += [item.split(" ", 2)[2] for item in items]
    return found


def names_in(work: Iterable[str]) -> set[str]:
    """Return all names in the bodies of items, including ids of approvals and runs."""
    return {name for body in work for name in _TOKEN.findall(body)}


async def run_bundles(ledger: Ledger, runs: Sequence[str]) -> list[RunBundle]:
    """Return the bundles of runs, without those that cannot be read or are incomplete.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    store = ledger.store
    async with store.translated_client() as client, client.pipeline(transaction=False) as pipe:
        for one in runs:
            pipe.hget(f"{store.prefix}trails", one)
        trails = [trail or "" for trail in await pipe.execute()]
    ids = [one for trail in trails for one in trail.split()]
    texts = {one: text async for one, text, _ in audit.by_ids(store, ids)}
    found = []
    for run, trail in zip(runs, trails, strict=True):
        events = _events([texts.get(one, "") for one in trail.split()])
        approvals = list(dict.fromkeys(one.approval for one in events or () if one.approval))
        if events is not None:
            found.append((run, trail, events, approvals))
    keys = [
        key
        for run, _, _, approvals in found
        for key in (f"run:{run}", *(name for one in approvals for name in _keys(one)))
    ]
    stored = await _stored(ledger, keys)
    made = [_bundle(*one, stored) for one in found]
    return [one for one in made if one is not None]


def _why_kept(one: Record, now: datetime) -> str:
    match one:
        case Run() if not one.ended:
            return f"run {one.id} has not ended"
        case Approval(state=State.PENDING):
            return f"approval {one.id} waits"
        case Approval() if _is_startable(one, now):
            return f"the call of approval {one.id} can still be started"
        case Grant() if one.revoked_at is None and one.left and one.expires_at > now:
            return f"grant {one.id} is open"
    return ""


def _is_startable(approval: Approval, now: datetime) -> bool:
    """Say whether a program may still start its call; its run ends with the decision."""
    program = approval.program
    if program is None or not approval.is_to_run:
        return False
    return not approval.has_expired(now, program.valid_for)


def _why_doubted(one: Record, asked_again: Collection[str]) -> str:
    match one:
        case Run(state=RunState.IN_DOUBT):
            return f"run {one.id} is in doubt"
        case Approval() if one.handoff in _DOUBTFUL and one.id not in asked_again:
            return f"approval {one.id} is in doubt"
    return ""


def _keys(approval: str) -> tuple[str, str]:
    return f"approval:{approval}", f"grant:{grant_id(approval)}"


def _events(texts: Sequence[str]) -> tuple[Event, ...] | None:
    """Return the events of a trail, None if one of them is missing or cannot be read."""
    events = tuple(event for text in texts if (event := read_event(text)) is not None)
    return events if len(events) == len(texts) else None


async def _stored(ledger: Ledger, keys: Sequence[str]) -> dict[str, str]:
    """Return the stored texts of the records that exist, by key."""
    found: dict[str, str] = {}
    prefix = ledger.store.prefix
    for start in range(0, len(keys), _PAGE):
        page = keys[start : start + _PAGE]
        async with ledger.store.translated_client() as client:
            texts = await client.mget([prefix + key for key in page])
        found |= {key: text for key, text in zip(page, texts, strict=True) if text is not None}
    return found


def _bundle(
    run: str,
    trail: str,
    events: tuple[Event, ...],
    approvals: Sequence[str],
    stored: Mapping[str, str],
) -> RunBundle | None:
    """Return the bundle of a run, None if a record is missing or cannot be read."""
    keys = [f"run:{run}", *(key for one in approvals for key in _keys(one) if key in stored)]
    records, values = list[ArchivedRecord](), list[Record]()
    try:
        for key in keys:
            version, mark, data = stored[key].split(" ", 2)
            trail_here = trail if not records else ""
            records.append(ArchivedRecord(key, int(version), mark, trail_here, unpack(data)))
            values.append(value_of(records[-1]))
    except (KeyError, ValueError):
        return None
    first = values[0]
    missing = set(first.approvals) - set(approvals) if isinstance(first, Run) else {run}
    return None if missing else RunBundle(trail, tuple(records), tuple(values), events)
