"""Following the audit as it grows: a wait for something to happen that needs no polling."""

from __future__ import annotations

from collections.abc import AsyncIterator

from signoff.broker.store import Store
from signoff.core.events import Event

# Under the socket timeout of the client: a longer blocking read would be taken for a dead server.
_BLOCK_MS = 2000


async def follow(store: Store, *, subject: str = "", start: str = "0") -> AsyncIterator[Event]:
    """Yield the entries of the audit, the old ones first, then each as it is committed; forever.

    Args:
        store: The ledger's store.
        subject: The id of an approval or a run; only its entries are yielded.
        start: The stream id after which to begin; "$" begins with the next entry.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    key = f"{store.prefix}audit"
    if start == "$":
        # Resolved once: "$" in each call would skip what comes between two calls.
        async with store.translated_client() as client:
            latest = await client.xrevrange(key, count=1)
        start = latest[0][0] if latest else "0"
    while True:
        async with store.translated_client() as client:
            streams = await client.xread({key: start}, count=500, block=_BLOCK_MS)
        for _, rows in streams or []:
            for entry_id, fields in rows:
                start = entry_id
                event = Event.model_validate_json(fields["e"])
                if not subject or subject in {event.approval, event.run}:
                    yield event
