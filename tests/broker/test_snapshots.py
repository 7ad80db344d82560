"""Snapshots of suspended code in the ledger."""

from __future__ import annotations

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.suspended import snapshots


async def test_the_same_snapshot_is_stored_once(ledger: Ledger) -> None:
    """Snapshots share all lines but their first."""
    names = {await snapshots.keep(ledger, text) for text in ("a\nbase", "a\nbase", "b\nbase")}
    assert len(names) == 2
    assert len(await ledger.store.keys("sandbox:")) == 1
    assert {await snapshots.fetch(ledger, name) for name in names} == {"a\nbase", "b\nbase"}


async def test_a_snapshot_without_its_shared_line_is_missing(ledger: Ledger) -> None:
    """A part of a snapshot is never returned."""
    name = await snapshots.keep(ledger, "a\nbase")
    (shared,) = await ledger.store.keys("sandbox:")
    await ledger.store.client.delete(ledger.store.prefix + shared)
    assert await snapshots.fetch(ledger, name) == ""


async def test_a_dropped_snapshot_is_missing(ledger: Ledger) -> None:
    """Dropping it again changes nothing."""
    name = await snapshots.keep(ledger, "a")
    for _ in range(2):
        await snapshots.drop(ledger, name)
        assert await snapshots.fetch(ledger, name) == ""
