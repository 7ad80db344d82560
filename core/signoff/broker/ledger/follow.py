"""Follows the audit as it grows, without polling."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from signoff.broker.ledger import audit
from signoff.broker.ledger.records import read_event
from signoff.broker.ledger.store import Store
from signoff.core.approvals.events import Event

# Less than the socket timeout of the client: a longer blocking read would look like a dead server.
_BLOCK_MS = 2000

Entry = tuple[str, Event]
"""The stream id and the event of an audit entry."""


async def follow(store: Store, *, subject: str = "", start: str = "0") -> AsyncIterator[Event]:
    """Yield the entries of the audit, first the old ones, then each new one as it is committed.

    Args:
        store: The ledger's store.
        subject: The id of an approval or a run; only its entries are yielded.
        start: The stream id after which to begin; "$" begins with the next entry.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    async for batch in batches(store, start=start):
        for _, event in batch:
            if not subject or subject in {event.approval, event.run}:
                yield event


async def batches(
    store: Store, *, start: str, block: int = _BLOCK_MS
) -> AsyncIterator[Sequence[Entry]]:
    """Yield the entries of the audit in batches; a batch is empty if nothing came for a while.

    Args:
        store: The ledger's store.
        start: As for `follow`.
        block: How long a read waits for a new entry, in milliseconds; less than the socket timeout
            of the client.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    key = f"{store.prefix}audit"
    if start == "$":
        # Resolved once: "$" in each call would skip entries that come between two calls.
        start = await latest(store)
    while True:
        async with store.translated_client() as client:
            # The newest entry is never packed.
            new = await client.xread({key: start}, count=1, block=block)
        # Not that reply: entries before it may be packed.
        rows = await audit.following(store, start, limit=500) if new else []
        start = rows[-1][0] if rows else start
        yield _entries(rows)


async def latest(store: Store) -> str:
    """Return the stream id of the last entry, "0" if there is none.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    async with store.translated_client() as client:
        rows = await client.xrevrange(f"{store.prefix}audit", count=1)
    return rows[0][0] if rows else "0"


async def since(store: Store, start: str, *, limit: int) -> Sequence[Entry]:
    """Return at most so many entries after a stream id.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    return _entries(await audit.following(store, start, limit=limit))


def _entries(rows: Sequence[audit.Entry]) -> list[Entry]:
    """Return the entries that this version can read."""
    read = ((entry_id, read_event(text)) for entry_id, text, _ in rows)
    return [(entry_id, event) for entry_id, event in read if event is not None]
