"""The indexes, made anew from the records they follow from."""

from __future__ import annotations

from collections.abc import AsyncIterator

from signoff.broker.change import Change, Record, entries
from signoff.broker.ledger import Ledger, read_approval, read_run

_READERS = {"approval": read_approval, "run": read_run}
_INDEXES = {"waiting": "approval", "decided": "approval", "runs": "run", "sessions": "run"}


async def rebuild(ledger: Ledger) -> int:
    """Write every index entry anew, drop those that no record stands behind.

    It may run beside normal work: each record is touched by a commit of its own, which gives way
    to whoever changes the record at the same time (and writes its entries then).

    Returns:
        How many records there are.
    """
    count = 0
    async for record in _records(ledger):
        change = Change().put(record, was=record)
        change.writes[0]["add"] = [list(entry) for entry in entries(record)]
        await ledger.commit_all([change])
        count += 1
    await _drop_strays(ledger)
    return count


async def _records(ledger: Ledger) -> AsyncIterator[Record]:
    for kind, read in _READERS.items():
        for key in await _keys(ledger, f"{kind}:"):
            found = await ledger.raw(key)
            if found is not None:
                yield read(*found)


async def _drop_strays(ledger: Ledger) -> None:
    inboxes = dict.fromkeys(await _keys(ledger, "inbox:"), "approval")
    for index, kind in (_INDEXES | inboxes).items():
        for member in await ledger.store.members(index):
            found = await ledger.raw(f"{kind}:{member.rpartition(chr(0))[2]}")
            record = None if found is None else _READERS[kind](*found)
            if (index, member) in {entry[:2] for entry in entries(record)}:
                continue
            if record is None:
                async with ledger.store.translated_client() as client:
                    await client.zrem(ledger.store.prefix + index, member)
            else:
                change = Change().put(record, was=record)
                change.writes[0]["drop"] = [[index, member, 0]]
                await ledger.commit_all([change])


async def _keys(ledger: Ledger, start: str) -> list[str]:
    prefix = ledger.store.prefix
    escaped = (prefix + start).replace("[", "\\[").replace("]", "\\]")
    async with ledger.store.translated_client() as client:
        return [
            key.removeprefix(prefix)
            async for key in client.scan_iter(match=f"{escaped}*", count=1000)
        ]
