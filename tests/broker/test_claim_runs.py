"""Claims of runs with their sessions: one item per session at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from builders import MARA, paused
from deciding import Decider
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.lease import session_key
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.runs import claim_runs, read_again
from signoff.core.approvals.run import RunState
from signoff.core.base.errors import LeaseLost, RecordUnreadable, RunNotFound
from signoff.testing import VirtualClock

RUN = "run.finance"


async def test_a_claim_returns_the_run_its_approvals_and_the_session_lease(
    still_ledger: Ledger, still_decider: Decider
) -> None:
    """The claim returns the run, its approvals and the session's lease with the item's token."""
    run, (approval,) = await paused(still_ledger)
    approved = await still_decider.approve(approval.id, MARA, channel="email")
    (taken,) = (await claim_runs(still_ledger, "resume.finance", limit=5, lease=10)).runs
    found, approvals = taken.read(still_ledger.recent)
    assert (found.id, found.state) == (run.id, RunState.ANSWERED)
    assert [(one.id, one.state) for one in approvals] == [(approval.id, approved.state)]
    assert taken.lease_key == session_key(run.app, run.user, run.session)
    again = await read_again(still_ledger, found)
    assert again == (found, approvals, await still_ledger.now())
    fenced = Change().fence(taken.lease_key, taken.item.token, give_back=True)
    await still_ledger.commit(fenced.ack(taken.item))
    assert await still_ledger.take_lease(taken.lease_key, "you", lease=1)


async def test_a_session_is_not_claimed_twice(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock
) -> None:
    """The second run of a session waits for the first; the postponement is not an attempt."""
    for _ in range(2):
        await still_decider.submit("finance", "hi", user="riley", session="shared")
    first = await claim_runs(still_ledger, RUN, limit=5, lease=10)
    assert (len(first.runs), first.put_off, first.waiting) == (1, 1, 0)
    (taken,) = first.runs
    clock.advance(timedelta(seconds=1))
    later = await claim_runs(still_ledger, RUN, limit=5, lease=10)
    assert (len(later.runs), later.put_off) == (0, 1)
    done = Change().fence(taken.lease_key, taken.item.token, give_back=True).ack(taken.item)
    await still_ledger.commit(done)
    clock.advance(timedelta(seconds=1))
    (second,) = (await claim_runs(still_ledger, RUN, limit=5, lease=10)).runs
    assert second.item.attempts == 1
    with pytest.raises(LeaseLost):
        await still_ledger.commit(Change().fence(second.lease_key, taken.item.token))


async def test_a_busy_session_does_not_block_other_sessions(
    still_ledger: Ledger, still_decider: Decider
) -> None:
    """However many of its runs wait first, a run of another session is claimed."""
    for _ in range(20):
        await still_decider.submit("finance", "hi", user="riley", session="busy")
    other = await still_decider.submit("finance", "hi", user="cleo", session="other")
    claim = await claim_runs(still_ledger, RUN, limit=2, lease=10)
    assert {one.read(still_ledger.recent)[0].session for one in claim.runs} == {"busy", "other"}
    assert other.id in {one.item.id for one in claim.runs}


async def test_as_many_as_asked_for(still_ledger: Ledger, still_decider: Decider) -> None:
    """The rest waits for the next worker, and the claim returns its number."""
    for _ in range(5):
        await still_decider.submit("finance", "hi", user="riley")
    first = await claim_runs(still_ledger, RUN, limit=3, lease=10)
    assert (len(first.runs), first.waiting) == (3, 2)
    assert len({one.item.token for one in first.runs}) == 3
    assert len((await claim_runs(still_ledger, RUN, limit=3, lease=10)).runs) == 2


async def test_a_broken_record_is_reported_and_blocks_no_other_claim(
    still_ledger: Ledger, still_decider: Decider
) -> None:
    """A missing, invalid or wrong record is reported when it is read."""
    runs = [await still_decider.submit("finance", "hi", user="riley") for _ in range(4)]
    client, prefix = still_ledger.store.client, still_ledger.store.prefix
    await client.delete(f"{prefix}run:{runs[0].id}")
    await client.set(f"{prefix}run:{runs[1].id}", "1 x {")
    await client.set(f"{prefix}run:{runs[2].id}", '1 x {"id":"r","app":"a","user":"u"}')
    claim = await claim_runs(still_ledger, RUN, limit=9, lease=10)
    taken = {one.item.id: one for one in claim.runs}
    assert len(taken) == 4
    with pytest.raises(RunNotFound):
        taken[runs[0].id].read(still_ledger.recent)
    for broken in runs[1:3]:
        with pytest.raises(RecordUnreadable):
            taken[broken.id].read(still_ledger.recent)
    assert taken[runs[3].id].read(still_ledger.recent)[0] == runs[3].model_copy(
        update={"version": 1}
    )


async def test_a_claim_drops_an_index_entry_without_an_item(still_ledger: Ledger) -> None:
    """An index entry without an item is dropped, as in any claim."""
    client, prefix = still_ledger.store.client, still_ledger.store.prefix
    await client.zadd(f"{prefix}outbox:{RUN}", {"ghost": 1})
    claim = await claim_runs(still_ledger, RUN, limit=9, lease=10)
    assert (claim.runs, claim.waiting, claim.put_off) == ((), 0, 0)
    assert await still_ledger.store.members(f"outbox:{RUN}") == []


class CountingBell:
    """A bell that remembers its rings."""

    def __init__(self) -> None:
        self.rung: list[str] = []

    async def ring(self, *stages: str) -> None:
        """Remember the rings."""
        self.rung += stages


async def test_only_the_first_claim_of_a_drain_resets_the_bell(
    still_ledger: Ledger, still_decider: Decider
) -> None:
    """A run that is submitted after it rings at once, and not after a growing pause."""
    still_ledger.bell = bell = CountingBell()
    for rung, opening in enumerate((True, True, False), start=1):
        await still_decider.submit("finance", "hi", user="riley")
        assert bell.rung == [RUN] * rung
        await claim_runs(still_ledger, RUN, limit=5, lease=10, opening=opening)
    await still_decider.submit("finance", "hi", user="riley")
    assert bell.rung == [RUN] * 3


async def test_without_a_clock_of_its_own_a_ledger_uses_that_of_redis(
    ledger: Ledger, decider: Decider
) -> None:
    """Claims take what is due by it and nothing else, and leases last as long as was asked for."""
    client, prefix = ledger.store.client, ledger.store.prefix
    hour = timedelta(hours=1)

    async def lasts(index: str, name: str) -> timedelta:
        end = await client.zscore(prefix + index, name)
        assert end is not None
        return datetime.fromtimestamp(end / 1000, UTC) - began

    async def milliseconds() -> float:
        return (await ledger.now()).timestamp() * 1000

    began = await ledger.now() - timedelta(milliseconds=1)
    await decider.submit("finance", "hi", user="riley", session="a")
    later = await decider.submit("finance", "hi", user="riley", session="b")
    at = await milliseconds()
    await client.zadd(f"{prefix}outbox:{RUN}", {later.id: at + 9e6})
    (taken,) = (await claim_runs(ledger, RUN, limit=5, lease=3600)).runs
    assert taken.item.id != later.id
    await client.zadd(f"{prefix}waiting", {"ap_past": at - 1, "ap_later": at + 9e6})
    assert await ledger.due(lease=3600) == ["ap_past"]
    for index, name in ((f"outbox:{RUN}", taken.item.id), ("waiting", "ap_past")):
        assert hour <= await lasts(index, name) <= hour + (await ledger.now() - began)
    keys = [taken.lease_key]
    await ledger.extend(taken.item, token=taken.item.token, lease=7200, keys=keys)
    assert await lasts(f"outbox:{RUN}", taken.item.id) >= 2 * hour
    assert await client.pttl(prefix + taken.lease_key) > 3_600_000
    await ledger.extend(None, token=taken.item.token, lease=10_800, keys=keys)
    assert await lasts(f"outbox:{RUN}", taken.item.id) < 3 * hour
