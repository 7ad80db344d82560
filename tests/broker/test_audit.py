"""The audit chain: which changes it detects."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from builders import MARA, paused
from deciding import Decider
from signoff.broker.ledger import audit
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.core.base.errors import AuditBroken


@pytest.fixture
async def store(ledger: Ledger, decider: Decider) -> Store:
    """A store with eight entries in its audit."""
    for _ in range(2):
        _, (approval,) = await paused(ledger)
        await decider.approve(approval.id, MARA, channel="email")
        await decider.submit("finance", "hi", user="riley", run_id=f"extra{approval.id}")
    return ledger.store


async def rows(store: Store) -> list[tuple[str, dict[str, str]]]:
    """Return the stored entries."""
    found: Any = await store.client.xrange(f"{store.prefix}audit")
    return list(found)


async def write(store: Store, entries: list[tuple[str, dict[str, str]]]) -> None:
    """Replace the entries by these, under their ids."""
    await store.client.delete(f"{store.prefix}audit")
    for entry_id, fields in entries:
        await store.client.xadd(
            f"{store.prefix}audit", {"e": fields["e"], "h": fields["h"]}, id=entry_id
        )


async def test_an_unchanged_chain_verifies_and_returns_its_head(store: Store) -> None:
    """It verifies, returns its head, and accepts an earlier head."""
    count, head = await audit.verify(store)
    assert (count, len(head)) == (8, 40)
    assert await audit.verify(store, expect_head=head) == (8, head)
    _, fields = (await rows(store))[3]
    assert (await audit.verify(store, expect_head=fields["h"]))[0] == 8


async def test_an_empty_chain(ledger: Ledger) -> None:
    """An empty chain is valid, unless there were entries before."""
    assert await audit.verify(ledger.store) == (0, "")
    with pytest.raises(AuditBroken, match="not in the chain"):
        await audit.verify(ledger.store, expect_head="0" * 40)


async def test_the_links_can_be_computed_from_the_texts_alone(store: Store) -> None:
    """Anybody can compute the links from the texts alone, with two hashes."""
    link = ""
    for _, fields in await rows(store):
        inner = hashlib.sha256(fields["e"].encode()).hexdigest()
        link = hashlib.sha1((link + inner).encode()).hexdigest()
        assert fields["h"] == link


async def change(store: Store) -> None:
    """Change the approver."""
    entries = await rows(store)
    entries[2][1]["e"] = entries[2][1]["e"].replace("mara", "cleo").replace("riley", "rilex")
    await write(store, entries)


async def remove(store: Store) -> None:
    """Remove an entry from the middle."""
    await store.client.xdel(f"{store.prefix}audit", (await rows(store))[4][0])


async def remove_first(store: Store) -> None:
    """Remove the first entry."""
    await store.client.xdel(f"{store.prefix}audit", (await rows(store))[0][0])


async def insert(store: Store) -> None:
    """Insert a copy of an entry into the middle."""
    entries = await rows(store)
    copy = dict(entries[4][1])
    entries = [(f"{place + 1}-0", fields) for place, (_, fields) in enumerate(entries)]
    await write(store, [*entries[:5], ("5-1", copy), *entries[5:]])


async def append(store: Store) -> None:
    """Append an entry without a link and without the commit script."""
    await store.client.xadd(f"{store.prefix}audit", {"e": "{}", "h": "0" * 40})


async def swap(store: Store) -> None:
    """Swap two entries."""
    entries = await rows(store)
    entries[3], entries[4] = (entries[3][0], entries[4][1]), (entries[4][0], entries[3][1])
    await write(store, entries)


async def truncate(store: Store) -> None:
    """Cut off the end."""
    await store.client.xdel(f"{store.prefix}audit", (await rows(store))[-1][0])


async def forget_all(store: Store) -> None:
    """Remove every entry, and leave the head."""
    await store.client.delete(f"{store.prefix}audit")


async def replace_head(store: Store) -> None:
    """Replace the head by that of an earlier entry."""
    await store.client.set(f"{store.prefix}audit:head", (await rows(store))[-2][1]["h"])


async def remove_head(store: Store) -> None:
    """Remove the head, so that a new chain could begin."""
    await store.client.delete(f"{store.prefix}audit:head")


@pytest.mark.parametrize(
    "tamper",
    [
        change,
        remove,
        remove_first,
        insert,
        append,
        swap,
        truncate,
        forget_all,
        replace_head,
        remove_head,
    ],
    ids=lambda tamper: tamper.__name__,
)
async def test_a_changed_removed_added_or_moved_entry_is_found(
    store: Store, tamper: Callable[[Store], Awaitable[None]]
) -> None:
    """A changed, removed, added or moved entry is found."""
    await tamper(store)
    with pytest.raises(AuditBroken) as caught:
        await audit.verify(store)
    assert caught.value.entry


async def test_the_entry_that_does_not_fit_is_named(store: Store) -> None:
    """The problem names the entry after the first broken link."""
    third = (await rows(store))[2][0]
    await change(store)
    with pytest.raises(AuditBroken, match=rf"Entry 3 \({third}\)") as caught:
        await audit.verify(store)
    assert caught.value.entry == third


async def test_a_rewritten_chain_is_detected_by_an_external_head(store: Store) -> None:
    """Write access to Redis allows a new valid chain; a head that is kept elsewhere reveals it."""
    _, head = await audit.verify(store)
    entries, link = [], ""
    for entry_id, fields in (await rows(store))[:-1]:
        text = fields["e"].replace("mara", "cleo")
        inner = hashlib.sha256(text.encode()).hexdigest()
        link = hashlib.sha1((link + inner).encode()).hexdigest()
        entries.append((entry_id, {"e": text, "h": link}))
    await write(store, entries)
    await store.client.set(f"{store.prefix}audit:head", link)
    assert await audit.verify(store) == (7, link)
    with pytest.raises(AuditBroken, match="not in the chain"):
        await audit.verify(store, expect_head=head)


async def test_verification_tolerates_concurrent_appends(ledger: Ledger, decider: Decider) -> None:
    """Entries that are appended during the check are not a problem."""
    stop = asyncio.Event()

    async def write_on() -> None:
        while not stop.is_set():
            await decider.submit("finance", "hi", user="riley")

    writers = [asyncio.create_task(write_on()) for _ in range(4)]
    heads = [await audit.verify(ledger.store) for _ in range(30)]
    stop.set()
    await asyncio.gather(*writers)
    count, _ = await audit.verify(ledger.store, expect_head=heads[-1][1])
    assert count >= heads[-1][0] >= heads[0][0]


@pytest.mark.parametrize("page", [3, 4])
async def test_long_chains_are_read_in_pages(store: Store, page: int) -> None:
    """No entry is lost or read twice between two pages, also if the last page is full."""
    found = [entry_id async for entry_id, _, _ in audit.entries(store, page=page)]
    assert len(found) == 8
    assert found == [entry_id for entry_id, _ in await rows(store)]
