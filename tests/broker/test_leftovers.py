"""Index entries of expired records are removed, and nothing else."""

from __future__ import annotations

from datetime import timedelta

from signoff.broker.ledger.change import DEAD_LETTERS_KEPT, Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.timers.leftovers import Leftovers


async def test_index_entries_are_removed_with_their_records(ledger: Ledger) -> None:
    """Entries of existing mails and sessions stay."""
    for index, key in (("quarantine", "quarantine:"), ("logins:mara", "login:")):
        for name in ("here", "gone"):
            change = Change().put_raw(key + name, "{}", ttl=timedelta(days=1))
            await ledger.commit(change.index(index, name, 1))
        await ledger.store.client.delete(f"{ledger.store.prefix}{key}gone")
    assert await Leftovers(ledger).once() == 2
    assert await ledger.store.members("quarantine") == ["here"]
    assert await ledger.store.members("logins:mara") == ["here"]
    assert await Leftovers(ledger).once() == 0


async def test_dead_letters_have_an_end(ledger: Ledger) -> None:
    """Dead letters of earlier releases get an expiry once; it is not extended again."""
    await ledger.commit(Change().put_raw("dead:route:1", "{}").put_dead("route", "2", {}))
    client, prefix = ledger.store.client, ledger.store.prefix
    await Leftovers(ledger).once()
    assert await ledger.store.members("dead") == ["route:1", "route:2"]
    for name in ("dead:route:1", "dead:route:2"):
        assert 0 < await client.ttl(prefix + name) <= DEAD_LETTERS_KEPT.total_seconds()
    await client.expire(f"{prefix}dead:route:1", 100)
    await Leftovers(ledger).once()
    assert await client.ttl(f"{prefix}dead:route:1") <= 100


async def test_expired_dead_letters_are_trimmed_from_their_index(ledger: Ledger) -> None:
    """Dead letters expire; the index that `signoff doctor` reads has no expiry and is trimmed."""
    await ledger.commit(Change().put_dead("route", "1", {}).put_dead("route", "2", {}))
    await ledger.store.client.delete(f"{ledger.store.prefix}dead:route:1")
    assert await Leftovers(ledger).once() == 1
    assert await ledger.store.members("dead") == ["route:2"]
