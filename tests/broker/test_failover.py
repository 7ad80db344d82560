"""A failover of Redis loses no acknowledged change with `durability = "replica"`."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from kombu import Producer

from answerers import answering
from builders import CLEO, MARA, paused, people
from deciding import Decider
from ports import free_port
from sentinels import Group, replicated
from services import find_valkey
from signoff.broker.doorbells.celery import CeleryBell, make_celery
from signoff.broker.ledger import audit, pipeline
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.address import Sentinels, named_primary
from signoff.broker.server.health import redis_doubts, redis_problems
from signoff.broker.sessions import (
    AppendRefusal,
    Name,
    NewEvent,
    SessionRecords,
    States,
    StoredSession,
)
from signoff.cli.log import hide_passwords
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.moves import Comment
from signoff.core.base.errors import ConfigError, Conflict, LedgerUnavailable

KILLS = int(os.environ.get("SIGNOFF_FAILOVERS", "5"))


@pytest.fixture(params=["redis-server", pytest.param("valkey-server", marks=pytest.mark.soak)])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Group]:
    """Return a primary and a replica without Sentinels: an old Redis, and one with WAITAOF."""
    program = find_valkey() if request.param == "valkey-server" else None
    with replicated(tmp_path, program=program) as group:
        yield group


@pytest.fixture
async def careful(pair: Group) -> AsyncIterator[Ledger]:
    """Return a ledger whose commits wait for the replica."""
    url = f"redis://127.0.0.1:{pair.servers[0].port}/0"
    ledger = Ledger(Store.open(url, replica=True))
    yield ledger
    await ledger.close()


async def test_a_commit_fails_until_a_replica_has_it(
    pair: Group, careful: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit, its repetition and a late commit fail until the replica follows again."""
    await careful.commit(Change().put_raw("a", "1"))
    monkeypatch.setattr(pipeline, "_PATIENCE_MS", 300)
    replica = pair.servers[1]
    assert replica.client.get("{signoff}:a")
    replica.signal(signal.SIGSTOP)
    change = Change().put_raw("b", "1")
    for one in (change, change, Change().put_raw("b", "2")):
        with pytest.raises(LedgerUnavailable, match="no replica of Redis confirmed"):
            await careful.commit(one)
    assert await careful.raw("b") == (1, "1")
    monkeypatch.undo()
    replica.signal(signal.SIGCONT)
    await careful.commit(change)
    assert replica.client.get("{signoff}:b")


@pytest.mark.soak
@pytest.mark.parametrize("least", [0, 2])
async def test_a_primary_that_was_replaced_alive(tmp_path: Path, least: int) -> None:
    """It takes writes that will be lost, unless each write needs all its replicas."""
    with replicated(tmp_path, replicas=2) as group:
        primary, promoted, other = group.servers
        primary.client.config_set("min-replicas-to-write", least)
        ledger = Ledger(Store.open(f"redis://127.0.0.1:{primary.port}/0", replica=True))
        await ledger.commit(Change().put_raw("a", "1"))
        promoted.client.replicaof("NO", "ONE")
        while group.attached() > 1:  # noqa: ASYNC110 -- Redis gives no signal
            await asyncio.sleep(0.02)
        change = Change().put_raw("a", "2", was=1).put_raw("b", "1")
        if least:
            with pytest.raises(LedgerUnavailable, match="NOREPLICAS"):
                await ledger.commit(change)
            assert (await ledger.raw("a"), await ledger.raw("b")) == ((1, "1"), None)
            promoted.client.replicaof("127.0.0.1", str(primary.port))
            while group.attached() < 2:  # noqa: ASYNC110 -- as above
                await asyncio.sleep(0.02)
        await ledger.commit(change)
        assert other.client.get("{signoff}:b")
        assert bool(promoted.client.get("{signoff}:b")) is bool(least)
        await ledger.close()


async def test_a_commit_without_a_replica_is_lost_with_the_primary(pair: Group) -> None:
    """A replica that was cut off for a moment does not have the last commit; hence the waiting."""
    primary, replica = pair.servers
    ledger = Ledger(Store.open(f"redis://127.0.0.1:{primary.port}/0"))
    replica.client.replicaof("127.0.0.1", str(free_port()))
    await ledger.commit(Change().put_raw("a", "1"))
    primary.signal(signal.SIGKILL)
    replica.client.replicaof("NO", "ONE")
    assert replica.client.get("{signoff}:a") is None
    await ledger.close()


async def test_concurrent_commits_share_the_wait_for_the_replica(
    pair: Group, careful: Ledger
) -> None:
    """A hundred commits at the same moment share a few waits, and all of them reach the replica."""
    waits = pair.servers[0].client
    await asyncio.gather(*(careful.commit(Change().put_raw(f"k{n}", "1")) for n in range(100)))
    calls = waits.info("commandstats")
    assert sum(one["calls"] for name, one in calls.items() if "_wait" in name) < 10
    assert len(pair.servers[1].client.keys("{signoff}:k*")) == 100


async def test_doctor_wants_a_replica(pair: Group, careful: Ledger) -> None:
    """Without a replica, the doctor reports that no commit can be acknowledged."""
    assert not [one for one in await redis_problems(careful) if "replica" in one]
    pair.servers[1].signal(signal.SIGKILL)
    while pair.attached():  # noqa: ASYNC110 -- Redis gives no signal
        await asyncio.sleep(0.02)
    (problem,) = [one for one in await redis_problems(careful) if "replica" in one]
    assert "no replica is connected" in problem


async def test_doctor_doubts_that_nobody_waits_for_the_replicas(
    pair: Group, careful: Ledger
) -> None:
    """A failover would lose confirmed answers, and what tools have run."""
    hasty = Ledger(Store.open(f"redis://127.0.0.1:{pair.servers[0].port}/0"))
    (doubt,) = [one for one in await redis_doubts(hasty) if "replica" in one]
    assert 'durability = "replica"' in doubt
    assert not [one for one in await redis_doubts(careful) if "replica" in one]
    await hasty.close()


async def test_connections_to_a_demoted_primary_are_closed(pair: Group) -> None:
    """A name may lead to another server by then, so the connections to this one are closed."""
    primary, other = pair.servers
    ledger = Ledger(Store.open(f"redis://127.0.0.1:{primary.port}/0"))
    await ledger.commit(Change().put_raw("a", "1"))
    before = await ledger.store.client.client_id()
    assert await ledger.store.client.client_id() == before
    other.client.replicaof("NO", "ONE")
    primary.client.replicaof("127.0.0.1", str(other.port))
    with pytest.raises(LedgerUnavailable):
        await ledger.commit(Change().put_raw("b", "1"))
    assert await ledger.store.client.client_id() != before
    await ledger.close()


@dataclass
class Split:
    """A ledger whose process has read the old primary, and one on the replica that was promoted.

    Both have the same approval. The old primary has a later version of it, which is lost.
    """

    group: Group
    behind: Ledger
    newer: Ledger
    approval: Approval

    async def reconnect(self) -> None:
        """Kill the old primary, and lead the first ledger to the promoted one."""
        primary, promoted = self.group.servers
        primary.signal(signal.SIGKILL)
        await self.behind.close()
        self.behind.store = Store.open(f"redis://127.0.0.1:{promoted.port}/0")


@pytest.fixture
async def split(pair: Group) -> AsyncIterator[Split]:
    """Return two ledgers in the middle of a failover, with `durability = "local"`."""
    primary, promoted = pair.servers
    behind, newer = (Ledger(Store.open(f"redis://127.0.0.1:{one.port}/0")) for one in pair.servers)
    _, (approval,) = await paused(behind)
    # WAIT covers the writes of its own connection, and what was written before them.
    primary.client.set("synced", "1")
    assert primary.client.wait(1, 60_000) == 1
    promoted.client.replicaof("NO", "ONE")
    await Decider(behind, people()).made(approval.id, Comment("I look into it"), CLEO)
    yield Split(pair, behind, newer, await behind.approval(approval.id))
    await behind.close()
    await newer.close()


async def test_a_decision_begun_before_a_failover_overwrites_no_newer_vote(split: Split) -> None:
    """The new primary has another record of the same version, which the decision has not seen."""
    late, events = split.approval.approve(
        CLEO, people(), channel="cli", now=await split.behind.now()
    )
    change = Change().put(late, was=split.approval).note(events)
    decider = Decider(split.newer, people())
    await decider.made(split.approval.id, Comment("The receipt is forged"), MARA)
    vote = await split.newer.approval(split.approval.id)
    assert vote.version == split.approval.version
    await split.reconnect()
    with pytest.raises(Conflict):
        await split.behind.commit(change)
    assert await split.behind.approval(split.approval.id) == vote
    await Decider(split.behind, people()).reject(split.approval.id, CLEO, channel="cli", reason="x")


async def test_work_is_not_done_because_of_a_record_that_a_failover_lost(split: Split) -> None:
    """A change that only relies on a record is refused, too."""
    await Decider(split.newer, people()).made(split.approval.id, Comment("Wait"), MARA)
    await split.reconnect()
    with pytest.raises(Conflict):
        await split.behind.commit(Change().unless_changed(split.approval).put_raw("done", "1"))
    now = await split.behind.approval(split.approval.id)
    await split.behind.commit(Change().unless_changed(now).put_raw("done", "1"))


async def test_a_cached_record_is_not_taken_for_an_equal_one_of_the_new_primary(
    split: Split,
) -> None:
    """Both have the same version and text, but were written by different commits."""
    recent = split.behind.recent

    async def read(ledger: Ledger) -> tuple[int, str]:
        record = await ledger.raw(f"approval:{split.approval.id}")
        assert record is not None
        return record

    recent.approval(split.approval.id, await read(split.behind))
    _, text = await read(split.behind)
    was, _ = await read(split.newer)
    await split.newer.commit(Change().put_raw(f"approval:{split.approval.id}", text, was=was))
    await split.reconnect()
    known = recent.approval(split.approval.id, await read(split.behind))
    assert known == split.approval
    await split.behind.commit(Change().put(known.model_copy(), was=known))


async def test_sessions_do_not_mix_the_events_of_two_primaries(split: Split) -> None:
    """An event that follows a lost one is not appended behind another event."""
    name = Name("finance", "riley", "s")
    old, new = (SessionRecords(one.store) for one in (split.behind, split.newer))
    begun = (await old.read_or_make(name, at=1.0)).seen
    primary, promoted = split.group.servers
    for key in primary.client.scan_iter("{signoff}:session:*"):
        promoted.client.restore(key, 0, primary.client.dump(key) or b"")

    def event(text: str) -> NewEvent:
        return NewEvent(text, f'"{text}"', 2.0, States())

    lost = await old.append(name, begun, event("lost"))
    there = await new.append(name, begun, event("there"))
    assert isinstance(lost, StoredSession)
    assert isinstance(there, StoredSession)
    assert (lost.made, lost.count) == (there.made, there.count)
    await split.reconnect()
    moved = SessionRecords(split.behind.store)
    assert await moved.append(name, lost.seen, event("next")) is AppendRefusal.STALE
    assert isinstance(await moved.append(name, there.seen, event("next")), StoredSession)


@pytest.fixture
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Group]:
    """Return a primary and two replicas with three Sentinels."""
    program = find_valkey() if getattr(request, "param", "") == "valkey-server" else None
    with replicated(tmp_path, replicas=2, sentinels=3, program=program) as group:
        yield group


async def test_ledger_and_doorbells_find_the_next_primary(watched: Group) -> None:
    """Both continue immediately, although the old primary is back and takes writes."""
    celery = make_celery(watched.url)
    ledger = Ledger(Store.open(watched.url, replica=True), CeleryBell(celery))
    _, (approval,) = await paused(ledger)
    before = watched.primary()
    await watched.fail_over()
    watched.restart()
    assert watched.primary() is not before
    decider = Decider(ledger, people())
    assert (await decider.approve(approval.id, MARA, channel="cli")).state is State.APPROVED
    with celery.connection_for_write() as connection:
        connection.ensure_connection(max_retries=3)
        Producer(connection).publish({}, routing_key="probe")
    assert watched.primary().client.llen("probe") == 1
    assert watched.primary().client.keys("{signoff}:approval:*")
    await audit.verify(ledger.store)
    await ledger.close()


@pytest.mark.soak
@pytest.mark.promise
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("watched", ["redis-server", "valkey-server"], indirect=True)
async def test_no_acknowledged_answer_is_lost_when_primaries_die(watched: Group) -> None:
    """The primary is killed again and again under load; SIGNOFF_FAILOVERS says how often."""
    ledger = Ledger(Store.open(watched.url, replica=True))
    async with answering(ledger) as answerers:
        for _ in range(KILLS):
            await answerers.more(20)
            await asyncio.sleep(random.uniform(0, 0.3))
            await watched.fail_over()
            await watched.recover()
    await ledger.close()


def state(port: int, epoch: int, flags: str = "master") -> dict[str, object]:
    """Return a Sentinel's state of the primary, as redis-py parses it."""
    derived = {f"is_{one}": one in flags for one in ("master", "sdown", "odown")}
    return {"ip": "10.0.0.1", "port": port, "config-epoch": epoch, "flags": flags, **derived}


REPLACING = "master,failover_in_progress"


@pytest.mark.parametrize(
    ("states", "port"),
    [
        ([state(1, 0), state(1, 0)], 1),
        ([state(1, 0), state(2, 1)], 2),
        ([state(1, 1, REPLACING), state(2, 1)], 2),
        ([state(1, 0, "master,sdown"), state(1, 0)], 1),
        ([state(1, 0), state(1, 1, REPLACING)], None),
        ([state(1, 0), state(2, 1, "master,odown")], None),
        ([], None),
    ],
)
def test_the_best_informed_sentinel_counts(
    states: list[dict[str, object]], port: int | None
) -> None:
    """A Sentinel that missed a failover, or is working on it, names the old primary."""
    if port is None:
        with pytest.raises(redis.exceptions.ConnectionError, match="none names a primary"):
            named_primary(states)
    else:
        assert named_primary(states) == ("10.0.0.1", port)


@pytest.mark.parametrize(
    "url",
    [
        "sentinel://app:p%40ss@a:1,b,[::1]:3/2?master=x&sentinel_password=own",
        "sentinel://app:p%40ss@a:1;sentinel://b;sentinel://[::1]:3/2?sentinel_password=own&master=x",
    ],
)
def test_a_sentinel_url_is_converted_for_celery_and_hides_passwords(url: str) -> None:
    """Celery gets a form of its own, and neither form shows a password."""
    found = Sentinels.read(url)
    assert found.hosts == (("a", 1), ("b", 26379), ("::1", 3))
    assert (found.master, found.database, found.login["password"]) == ("x", 2, "p@ss")
    given, options = found.for_celery()
    assert given.startswith("sentinel://app:p%40ss@a:1/2;sentinel://app:p%40ss@b:26379/2;")
    assert (options["master_name"], options["sentinel_kwargs"]["password"]) == ("x", "own")
    hidden = hide_passwords(url)
    assert "p%40ss" not in hidden
    assert "own" not in hidden


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sentinel://a:1/0", "does not name the master"),
        ("sentinel://a:x/0?master=m", "HOST or HOST:PORT"),
        ("sentinel:///0?master=m", "HOST or HOST:PORT"),
        ("sentinel://a/zero?master=m", "database number"),
        ("sentinel://a/0?master=m&tls=true", "'tls' is unknown"),
    ],
)
def test_an_invalid_sentinel_url_is_refused(url: str, why: str) -> None:
    """The error says what is wrong and how to write the URL."""
    with pytest.raises(ConfigError, match=why):
        Sentinels.read(url)
