"""Rebuilds the indexes from the records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

import structlog
from pydantic import ValidationError

from signoff.broker.effects import send_work
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import UNREACHABLE, Change, Record, entries
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.records import read_approval, read_event, read_grant, read_run
from signoff.broker.ledger.search_index import SearchIndex
from signoff.broker.ledger.store import to_ms
from signoff.core.approvals.run import Run

log = structlog.get_logger(__name__)

_BATCH = 200
_QUARANTINE = "quarantine"

_READERS: dict[str, Callable[[int, str], Record]] = {
    "approval": read_approval,
    "run": read_run,
    "grant": read_grant,
}
_INDEXES = {
    "approvals": "approval",
    "waiting": "approval",
    "decided": "approval",
    "proposals": "approval",
    UNREACHABLE: "approval",
    "runs": "run",
    "sessions": "run",
    "grants": "grant",
}
_MANY = {
    "inbox": "approval",
    "queue": "approval",
    "requests": "approval",
    "uses": "approval",
    "similar": "approval",
    "scope": "grant",
}
"""The prefixes of families of indexes, and the kind of record in them."""


_NOTES = ("dead", "stuck")
"""Indexes of records about work that failed."""


async def rebuild(ledger: Ledger) -> int:
    """Write all index entries again, and delete those without a record.

    It can run during normal work. Each record is written by its own commit; if another process
    changes the record at the same time, that process writes the entries. Outboxes are indexed
    again too, and lost work of runs is restored.

    Returns:
        How many records there are.
    """
    count = 0
    for kind in _READERS:
        keys = await ledger.store.keys(f"{kind}:", "string")
        for page in _pages(keys):
            records = [one for one in (await _read(ledger, page)).values() if one is not None]
            await ledger.commit_all([_anew(one) for one in records])
            count += len(records)
    await _drop_strays(ledger)
    await _index_outboxes(ledger)
    await _index_trails(ledger)
    await _index_quarantine(ledger)
    await _index_notes(ledger)
    index = SearchIndex(ledger)
    await index.drop()
    await index.extend()
    return count


def _anew(record: Record) -> Change:
    """Return the change that writes a record's index entries and, for a run, its pending work."""
    change = Change().put(record, was=record)
    change.writes[0]["add"] = list(entries(record))
    return send_work(change, record) if isinstance(record, Run) else change


def _pages(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(keys), _BATCH):
        yield keys[start : start + _BATCH]


async def _read(ledger: Ledger, keys: Sequence[str]) -> dict[str, Record | None]:
    """Return the existing records by key, None for one that cannot be read."""
    read: dict[str, Record | None] = {}
    for key, found in zip(keys, await ledger.store.read(keys), strict=True):
        if found is None:
            continue
        try:
            read[key] = _READERS[key.partition(":")[0]](*found)
        except ValidationError as error:
            log.error("rebuild.unreadable", key=key, error=str(error))  # noqa: TRY400 -- the message says it all
            read[key] = None
    return read


async def _drop_strays(ledger: Ledger) -> None:
    indexes = dict(_INDEXES)
    for start, kind in _MANY.items():
        indexes |= dict.fromkeys(await ledger.store.keys(f"{start}:", "zset"), kind)
    for index, kind in indexes.items():
        for page in _pages(await ledger.store.members(index)):
            keys = {member: f"{kind}:{member.rpartition(chr(0))[2]}" for member in page}
            read = await _read(ledger, list(keys.values()))
            drops = (_drop(index, member, key, read) for member, key in keys.items())
            await ledger.commit_all([one for one in drops if one is not None])


def _drop(index: str, member: str, key: str, read: Mapping[str, Record | None]) -> Change | None:
    """Return the change that deletes an index entry, None if the entry is right."""
    if key not in read:
        # Deleting a missing record makes the commit fail if the record exists by then.
        return Change().put_raw(key, "", drop=[(index, member, 0)])
    record = read[key]
    # The entries of an unreadable record were written by a process that can read it.
    if record is None or (index, member) in {entry[:2] for entry in entries(record)}:
        return None
    change = Change().put(record, was=record)
    change.writes[0]["drop"] = [(index, member, 0)]
    return change


async def _index_outboxes(ledger: Ledger) -> None:
    prefix = ledger.store.prefix
    now = ledger.store.now_ms() or int((await ledger.now()).timestamp() * 1000)
    for key in await ledger.store.keys("items:", "hash"):
        stage = key.removeprefix("items:")
        async with ledger.store.translated_client() as client:
            await client.sadd(f"{prefix}stages", stage)
            for item in await client.hkeys(f"{prefix}{key}"):
                # If the item is acknowledged at this moment, the next claim drops the entry.
                await client.zadd(f"{prefix}outbox:{stage}", {item: now}, nx=True)


async def _index_trails(ledger: Ledger) -> None:
    calls: list[tuple[str, str]] = []
    async for entry_id, text, _ in audit.entries(ledger.store):
        event = read_event(text)
        # `signoff audit verify` reports other entries.
        if event is not None and event.run:
            calls.append((event.run, entry_id))
        if len(calls) == _BATCH:
            await ledger.store.scripts("trail", calls)
            calls.clear()
    if calls:
        await ledger.store.scripts("trail", calls)


async def _index_notes(ledger: Ledger) -> None:
    """Index dead letters and failures; the entries of expired ones are dropped elsewhere."""
    prefix = ledger.store.prefix
    for index in _NOTES:
        for key in await ledger.store.keys(f"{index}:", "string"):
            async with ledger.store.translated_client() as client:
                await client.zadd(prefix + index, {key.removeprefix(f"{index}:"): 0})


async def _index_quarantine(ledger: Ledger) -> None:
    """Index the mails in quarantine by the time at which they were put there."""
    prefix = ledger.store.prefix
    for key in await ledger.store.keys(f"{_QUARANTINE}:", "string"):
        found = await ledger.raw(key)
        if found is None:
            continue
        try:
            at = to_ms(datetime.fromisoformat(json.loads(found[1])["at"]))
        except (ValueError, KeyError, TypeError) as error:
            log.error("rebuild.unreadable", key=key, error=str(error))  # noqa: TRY400 -- the message says it all
            continue
        async with ledger.store.translated_client() as client:
            # If the mail is dropped at this moment, the loop below drops the entry.
            await client.zadd(prefix + _QUARANTINE, {key.removeprefix(f"{_QUARANTINE}:"): at})
    for member in await ledger.store.members(_QUARANTINE):
        key = f"{_QUARANTINE}:{member}"
        if await ledger.raw(key) is None:
            await ledger.commit_all([Change().put_raw(key, "", drop=[(_QUARANTINE, member, 0)])])
