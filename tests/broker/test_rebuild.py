"""All indexes can be rebuilt from the records while work continues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from builders import MARA, paused
from deciding import Decider
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.rebuild import rebuild
from signoff.broker.work import ResumeRun, StartRun
from signoff.core.approvals.run import RunState

INDEXES = ("approvals", "waiting", "decided", "runs", "sessions", "inbox:mara", "inbox:cleo")


async def indexes(ledger: Ledger) -> dict[str, Any]:
    """Return all index entries with their scores."""
    client, prefix = ledger.store.client, ledger.store.prefix
    outboxes = await ledger.store.keys("outbox:")
    found: dict[str, Any] = {
        name: await client.zrange(prefix + name, 0, -1, withscores=True) for name in INDEXES
    }
    found |= {name: await client.zrange(prefix + name, 0, -1) for name in outboxes}
    found["stages"] = await client.smembers(prefix + "stages")
    for run, trail in (await client.hgetall(prefix + "trails")).items():
        found[f"trail of {run!s}"] = trail.split()
    return found


async def lose_all(ledger: Ledger) -> None:
    """Delete every index."""
    for start in ("inbox:", "trails", "outbox:", "bells", "stages", *INDEXES):
        for key in await ledger.store.keys(start):
            await ledger.store.client.delete(ledger.store.prefix + key)


async def scramble(ledger: Ledger) -> None:
    """Add wrong members, and change the scores of the others."""
    client, prefix = ledger.store.client, ledger.store.prefix
    for name in INDEXES:
        for member in await ledger.store.members(name):
            await client.zadd(prefix + name, {member: 7})
        await client.zadd(prefix + name, {"stray": 1, "a\0b\0c\0stray": 0})
    (pending, *_) = await ledger.pending()
    (decided, *_) = await ledger.decided()
    await client.zadd(f"{prefix}decided", {pending.id: 1})
    await client.zadd(f"{prefix}waiting", {decided.id: 1})
    await client.zadd(f"{prefix}inbox:ghost", {pending.id: 1})
    await client.zadd(f"{prefix}runs", {pending.id: 1})


async def leave_alone(ledger: Ledger) -> None:
    """Change nothing."""


@pytest.mark.parametrize("harm", [lose_all, scramble, leave_alone], ids=lambda one: one.__name__)
async def test_a_rebuild_repairs_the_indexes(
    ledger: Ledger, decider: Decider, harm: Callable[[Ledger], Awaitable[None]]
) -> None:
    """Lost, moved and wrong entries are repaired completely."""
    for _ in range(3):
        _, approvals = await paused(ledger, siblings=2)
        await decider.reject(approvals[0].id, MARA, channel="email", reason="no")
    await decider.submit("finance", "hi", user="riley")
    await ledger.claim("deliver.email", limit=1)
    before = await indexes(ledger)
    await harm(ledger)
    assert await rebuild(ledger) == 10
    after = await indexes(ledger)
    assert {name: sorted(found) for name, found in after.items()} == {
        name: sorted(found) for name, found in before.items()
    }
    assert await ledger.inbox("ghost") == []


async def test_a_rebuild_restores_lost_work(ledger: Ledger, decider: Decider) -> None:
    """A queued or answered run is worked on even if its outbox was lost."""
    queued = await decider.submit("finance", "hi", user="riley")
    await ledger.commit(Change().ack((await ledger.claim("run.finance")).items[0]))
    answered, (approval,) = await paused(ledger)
    await decider.approve(approval.id, MARA, channel="email")
    for key in await ledger.store.keys("items:"):
        await ledger.store.client.delete(ledger.store.prefix + key)
    await rebuild(ledger)
    await rebuild(ledger)
    (run_item,) = (await ledger.claim("run.finance")).items
    (resume_item,) = (await ledger.claim("resume.finance")).items
    assert run_item.work == StartRun(app="finance", run=queued.id)
    assert resume_item.work == ResumeRun(app="finance", run=answered.id, pause=1)


async def test_a_rebuild_keeps_concurrent_decisions(ledger: Ledger, decider: Decider) -> None:
    """Each decision during the rebuild is kept, and is in the right index."""
    _, approvals = await paused(ledger, siblings=30)

    async def decide() -> None:
        for one in approvals:
            await decider.approve(one.id, MARA, channel="email")

    await asyncio.gather(decide(), rebuild(ledger), rebuild(ledger))
    assert await ledger.pending() == []
    assert len(await ledger.decided()) == 30
    (run,) = await ledger.recent_runs()
    assert run.state is RunState.ANSWERED
    assert len((await ledger.claim("resume.finance")).items) == 1


async def test_a_rebuild_leaves_unreadable_records_unchanged(ledger: Ledger) -> None:
    """The record and its index entries stay; a release that can read it finds them."""
    _, (approval,) = await paused(ledger)
    key = f"{ledger.store.prefix}approval:{approval.id}"
    await ledger.store.client.set(key, "1 x {}")
    assert await rebuild(ledger) == 1
    assert await ledger.store.client.get(key) == "1 x {}"
    assert await ledger.store.members("waiting") == [approval.id]
