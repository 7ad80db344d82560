"""The audit: an append-only stream in which each entry is chained to the one before."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

from signoff.broker.store import Store
from signoff.core.errors import AuditBroken

_PAGE = 1000


async def entries(store: Store, *, after: str = "") -> AsyncIterator[tuple[str, str, str]]:
    """Yield stream id, JSON text and link of every entry, the oldest first.

    Args:
        store: The ledger's store.
        after: A stream id; only what comes behind it is yielded.
    """
    start = f"({after}" if after else "-"
    while True:
        async with store.translated_client() as client:
            rows = await client.xrange(f"{store.prefix}audit", start, "+", count=_PAGE)
        for entry_id, fields in rows:
            yield entry_id, fields.get("e", ""), fields.get("h", "")
        if len(rows) < _PAGE:
            return
        start = f"({rows[-1][0]}"


async def verify(store: Store, *, expect_head: str = "") -> tuple[int, str]:
    """Walk the chain; return the number of entries and the head, its last link.

    Each link is SHA-1 (what a script can compute inside Redis) over the link before and the
    SHA-256 of the entry: an entry cannot be changed, left out or put in without breaking it.
    Somebody who can write to Redis could compute a whole new chain, so keep the head that this
    returns somewhere else, and pass it the next time.

    Args:
        store: The ledger's store.
        expect_head: A head seen earlier, which must still be a link of the chain.

    Raises:
        AuditBroken: An entry does not fit, the stored head is not the last link, or the expected
            head is not in the chain.
    """
    head = await _head(store)
    link, count, expected_seen, head_seen = "", 0, not expect_head, not head
    async for entry_id, text, stored in entries(store):
        inner = hashlib.sha256(text.encode()).hexdigest()
        link = hashlib.sha1((link + inner).encode(), usedforsecurity=False).hexdigest()
        count += 1
        if link != stored:
            raise AuditBroken(
                f"Entry {count} ({entry_id}) does not follow from the one before: it, or one "
                "before it, was changed, added or removed.",
                entry=entry_id,
            )
        expected_seen = expected_seen or link == expect_head
        # Entries are appended while this walks: the head of the start must be on the way.
        head_seen = head_seen or link == head
    if not head_seen:
        raise AuditBroken("The end of the audit was cut off, or its head replaced.", entry="+")
    if not expected_seen:
        raise AuditBroken(f"The head {expect_head} is not in the chain.", entry="-")
    return count, link


async def _head(store: Store) -> str:
    """Return the head, which the last entry must carry at the same moment."""
    async with (
        store.translated_client() as client,
        client.pipeline(transaction=True) as pipe,
    ):
        pipe.get(f"{store.prefix}audit:head")
        pipe.xrevrange(f"{store.prefix}audit", count=1)
        head, rows = await pipe.execute()
    if (head or "") != (rows[0][1].get("h", "") if rows else ""):
        raise AuditBroken(
            "The end of the audit was cut off or added to, or its head removed or replaced.",
            entry="+",
        )
    return head or ""
