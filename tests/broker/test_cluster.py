"""A ledger in a Redis Cluster: it follows its slot, and stays complete while the slot moves."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis
from kombu import Producer

from answerers import answering
from builders import MARA, paused, people
from channels.conftest import write_certificate
from clusters import SLOT, Servers, clustered, until
from deciding import Decider
from ports import free_port
from services import find_valkey, missing, plain_redis, program
from signoff.broker.archive import backup as backups
from signoff.broker.doorbells.celery import CeleryBell, make_celery
from signoff.broker.doorbells.push import RedisBell
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.acl import ROLES, users
from signoff.broker.server.cluster import AskedNodes, Cluster, Nodes, slot_of
from signoff.broker.server.health import redis_problems
from signoff.broker.server.hosts import Address
from signoff.cli.log import hide_passwords
from signoff.core.approvals.approval import State
from signoff.core.base.errors import BackupRefused, ConfigError, LedgerUnavailable

KILLS = int(os.environ.get("SIGNOFF_FAILOVERS", "5"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Two primaries, and a replica of the one that owns the ledger's slot."""
    with clustered(tmp_path_factory.mktemp("cluster"), primaries=2) as nodes:
        yield nodes


@pytest.fixture
def prefix() -> str:
    """A prefix of this test's own, in the same slot as the others."""
    return f"{{signoff}}{secrets.token_hex(4)}:"


@pytest.fixture
async def ledger(cluster: Servers, prefix: str) -> AsyncIterator[Ledger]:
    """A ledger in the cluster, with doorbells."""
    store = Store.open(cluster.url, prefix=prefix, replica=True)
    ledger = Ledger(store, RedisBell(store))
    yield ledger
    await ledger.close()


async def test_an_approval_runs_on_a_cluster_with_all_keys_in_one_slot(
    cluster: Servers, ledger: Ledger, prefix: str
) -> None:
    """All keys, including Celery's, are in the slot, on its owner and the replica."""
    _, (approval,) = await paused(ledger)
    decider = Decider(ledger, people())
    assert (await decider.approve(approval.id, MARA, channel="cli")).state is State.APPROVED
    assert len((await ledger.claim("resume.finance")).items) == 1
    await audit.verify(ledger.store)
    assert f"approval:{approval.id}" in await ledger.store.keys("approval:", "string")
    owner, other, replica = cluster.nodes
    assert cluster.owner() is owner
    queue = f"celery:{prefix}signoff.resume.finance"
    assert {queue, f"{prefix}approval:{approval.id}"} <= {*owner.client.keys("*")}
    # Only commits wait for the replica, and a claim is none.
    await until(lambda: replica.client.dbsize() == owner.client.dbsize())
    assert other.client.dbsize() == 0
    assert await redis_problems(ledger) == []


async def test_the_next_owner_is_found(cluster: Servers, ledger: Ledger, prefix: str) -> None:
    """Ledger and doorbells follow the slot to the promoted replica; the old owner still runs."""
    celery = make_celery(cluster.url, prefix=prefix)
    await ledger.commit(Change().put_raw("a", "1"))
    with celery.connection_for_write() as connection:
        producer = Producer(connection)
        producer.publish({}, routing_key="probe")
        before = cluster.owner()
        await cluster.promote()
        with pytest.raises(connection.connection_errors):
            producer.publish({}, routing_key="probe")
    assert cluster.owner() is not before
    await ledger.commit(Change().put_raw("b", "1"))
    assert await ledger.store.keys("") == ["a", "b", "replicated"]
    with celery.connection_for_write() as connection:
        Producer(connection).publish({}, routing_key="probe")
    owner = cluster.owner()
    assert owner is not None
    assert owner.client.llen(f"celery:{prefix}probe") == 2
    cluster.nodes[-1], cluster.nodes[0] = cluster.nodes[0], cluster.nodes[-1]


async def test_commits_and_lists_fail_while_the_slot_migrates(
    cluster: Servers, prefix: str
) -> None:
    """While half of the keys have moved, commits and lists fail; none sees half of the ledger."""
    ledger = Ledger(Store.open(cluster.url, prefix=prefix, retries=1))
    _, (approval,) = await paused(ledger)
    decider = Decider(ledger, people())
    before = await ledger.store.keys("")
    target = cluster.nodes[1]
    source = await cluster.begin_moving(target)
    await cluster.move_keys(source, target, most=len(before) // 2)
    with pytest.raises(LedgerUnavailable, match="does not serve the slot at the moment: ASK"):
        await decider.approve(approval.id, MARA, channel="cli")
    with pytest.raises(LedgerUnavailable, match="ASK"):
        await ledger.store.keys("")
    with pytest.raises(LedgerUnavailable, match="ASK"):
        await backups.backup(ledger.store, Path("never-written"))
    await cluster.move_keys(source, target)
    await cluster.end_moving(target)
    assert await ledger.store.keys("") == before
    await decider.approve(approval.id, MARA, channel="cli")
    await audit.verify(ledger.store)
    await cluster.begin_moving(source)
    await cluster.move_keys(target, source)
    await cluster.end_moving(source)
    await audit.verify(ledger.store)
    await ledger.close()


@pytest.mark.soak
async def test_a_restore_ignores_ledgers_with_other_prefixes(
    ledger: Ledger, cluster: Servers, tmp_path: Path
) -> None:
    """Ledgers with other prefixes do not matter; a ledger that is not empty is refused."""
    await paused(ledger)
    file = tmp_path / "ledger.backup"
    await backups.backup(ledger.store, file)
    other = Ledger(Store.open(cluster.url, prefix=f"{{signoff}}{secrets.token_hex(4)}:"))
    await backups.restore(other, file)
    assert len(await other.pending()) == 1
    with pytest.raises(BackupRefused, match="cluster is not empty"):
        await backups.restore(other, file)
    await other.close()


@pytest.mark.soak
async def test_each_ledger_has_its_own_slot(cluster: Servers) -> None:
    """A cluster holds several ledgers, and each primary has some of them."""
    names = ["{signoff:finance}:", "{signoff:support}:", "{signoff:travel}:", "{signoff:law}:"]
    assert len({slot_of(one) for one in names}) == len(names)
    for name in names:
        ledger = Ledger(Store.open(cluster.url, prefix=name))
        await paused(ledger)
        assert len(await ledger.pending()) == 1
        await ledger.close()
    there = [bool(node.client.keys("{signoff:*}:approval:*")) for node in cluster.nodes[:2]]
    assert there == [True, True]


@pytest.mark.soak
@pytest.mark.parametrize("role", ROLES)
async def test_each_user_may_ask_for_the_owner(cluster: Servers, prefix: str, role: str) -> None:
    """Each user of `signoff redis acl` reaches the ledger and Celery's queues."""
    about = cluster.nodes[0].client.info("server")
    if int(str(about["redis_version"]).partition(".")[0]) < 7:
        missing("a Redis with rights for reading alone", "apt-get install redis-server")
    lines = [one.split()[1:] for one in users(prefix, dict.fromkeys(ROLES, "secret"))][1:]
    for node in cluster.nodes:
        for line in lines:
            node.client.execute_command("ACL SETUSER", *line)  # type: ignore[no-untyped-call]
    url = cluster.url.replace("://", f"://signoff-{role}:secret@")
    celery = make_celery(url, prefix=prefix)
    ledger = Ledger(Store.open(url, prefix=prefix, replica=True), CeleryBell(celery))
    await ledger.commit(Change().put_raw("run:a", "1"))
    await ledger.store.keys("run:")
    with celery.connection_for_write() as connection:
        Producer(connection).publish({}, routing_key="signoff.route")
    await ledger.close()


async def test_doctor_shows_the_cluster_url_for_a_single_node_url(
    cluster: Servers, prefix: str
) -> None:
    """`signoff doctor` shows the form of URL that a cluster needs."""
    owner = cluster.owner()
    assert owner is not None
    alone = Ledger(Store.open(f"redis://127.0.0.1:{owner.port}/0", prefix=prefix))
    (problem,) = await redis_problems(alone)
    assert "redis+cluster://" in problem
    await alone.close()


async def test_a_server_without_cluster_mode_is_reported_with_its_message(tmp_path: Path) -> None:
    """The error has the server's own message."""
    with plain_redis(tmp_path) as url:
        ledger = Ledger(Store.open(url.replace("redis://", "redis+cluster://"), retries=0))
        with pytest.raises(LedgerUnavailable, match="cluster support disabled"):
            await ledger.now()
        await ledger.close()


@pytest.mark.parametrize("prefix", ["signoff:", "{}signoff:", "signoff}{:", "{büro}:"])
def test_keys_of_several_slots_are_refused(prefix: str) -> None:
    """The ledger and Celery need a hash tag in the prefix."""
    url = f"redis+cluster://127.0.0.1:{free_port()}"
    with pytest.raises(ConfigError, match="in braces"):
        Store.open(url, prefix=prefix)
    with pytest.raises(ConfigError, match="in braces"):
        make_celery(url, prefix=prefix)


def test_a_cluster_url_contains_nodes_login_and_tls_files() -> None:
    """It has the nodes, the login and the TLS files; passwords are hidden in logs."""
    url = "rediss+cluster://app:p%40ss@a:1,b,[::1]:3/0?ssl_ca_certs=/etc/ca.pem"
    found = Cluster.read(url)
    assert found.hosts == (("a", 1), ("b", 6379), ("::1", 3))
    assert found.tls
    assert found.options == {"username": "app", "password": "p@ss", "ssl_ca_certs": "/etc/ca.pem"}
    assert "p%40ss" not in hide_passwords(url)


def test_nodes_that_are_replaced() -> None:
    """If no node of the URL answers, the nodes that they named before are asked."""
    nodes = Nodes(Cluster.read("redis+cluster://a,b"), "{signoff}:")
    assert [*map(set, nodes.rounds())] == [{("a", 6379), ("b", 6379)}, set()]
    here, there = ["", 6379, "id-a"], ["c", 7000, "id-c"]
    slots = [[0, SLOT - 1, there], [SLOT, 16383, here, there]]
    # A node that does not know its own host has the address where it was asked.
    assert nodes.owner(("a", 6379), slots) == ("a", 6379)
    assert [*nodes.rounds()][1] == (("c", 7000),)
    with pytest.raises(redis.exceptions.ConnectionError, match="serves slot"):
        nodes.owner(("a", 6379), slots[:1])


@pytest.mark.parametrize(
    ("said", "owner"),
    [
        ({"a": "old", "b": "new", "c": "new"}, "new"),
        ({"a": "", "b": "new", "c": ""}, "new"),
        ({"a": "", "b": "", "c": ""}, None),
    ],
)
async def test_the_slot_owner_is_determined_by_majority(
    said: dict[str, str], owner: str | None
) -> None:
    """An old owner that was restarted names itself, and some nodes may not answer."""

    class Asked(AskedNodes):
        async def _ask(self, node: Address) -> Address:
            if not said[node[0]]:
                raise OSError(f"{node[0]} is away.")
            return said[node[0]], 6379

    nodes = Asked(Cluster.read("redis+cluster://a,b,c"), "{signoff}:")
    if owner is None:
        why = r"names the owner of slot .* is away"
        with pytest.raises(redis.exceptions.ConnectionError, match=why):
            await nodes.find()
    else:
        assert await nodes.find() == (owner, 6379)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis+cluster://a:x", "HOST or HOST:PORT"),
        ("redis+cluster://", "HOST or HOST:PORT"),
        ("redis+cluster://a,,b", "HOST or HOST:PORT"),
        ("redis+cluster://a/1", "only has database 0"),
        ("redis+cluster://a?ssl_ca_certs=b", "'ssl_ca_certs' is unknown"),
        ("rediss+cluster://a?timeout=1", "'timeout' is unknown"),
    ],
)
def test_an_invalid_cluster_url_is_refused(url: str, why: str) -> None:
    """The message says what is wrong and how to write it."""
    with pytest.raises(ConfigError, match=why):
        Cluster.read(url)


@pytest.mark.soak
async def test_ledger_and_doorbells_verify_the_cluster_certificate(tmp_path: Path) -> None:
    """Ledger and doorbells trust the nodes' certificate, and refuse any other."""
    program("redis-server", "redis-server")  # the server in the wheel has no TLS
    certificate, other = tmp_path / "nodes.pem", tmp_path / "other.pem"
    write_certificate(certificate)
    write_certificate(other)
    with clustered(tmp_path, primaries=2, certificate=certificate) as nodes:
        celery = make_celery(nodes.url)
        ledger = Ledger(Store.open(nodes.url, replica=True), CeleryBell(celery))
        await paused(ledger)
        await nodes.promote()
        await paused(ledger)
        celery.send_task("probe", queue="probe", retry=False)
        assert nodes.nodes[-1].client.llen("celery:{signoff}:probe") == 1
        assert len(await ledger.pending()) == 2
        await ledger.close()
        stranger = Ledger(Store.open(nodes.url.replace("nodes.pem", "other.pem")))
        with pytest.raises(LedgerUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await stranger.now()
        await stranger.close()


@pytest.mark.soak
@pytest.mark.promise
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("server", ["redis-server", "valkey-server"])
async def test_no_acknowledged_answer_is_lost_when_owners_die(tmp_path: Path, server: str) -> None:
    """The owner is killed again and again under load; SIGNOFF_FAILOVERS says how often."""
    valkey = find_valkey() if server == "valkey-server" else None
    with clustered(tmp_path, replicas=2, program=valkey) as nodes:
        ledger = Ledger(Store.open(nodes.url, replica=True))
        async with answering(ledger) as answerers:
            for _ in range(KILLS):
                await answerers.more(20)
                await asyncio.sleep(random.uniform(0, 0.3))
                await nodes.fail_over()
                await nodes.recover()
        await ledger.close()


@pytest.mark.soak
@pytest.mark.promise
@pytest.mark.timeout(3600)
async def test_no_acknowledged_answer_is_lost_when_the_slot_moves(tmp_path: Path) -> None:
    """The slot moves there and back, key by key, under load."""
    with clustered(tmp_path, primaries=2, replicas=0) as nodes:
        ledger = Ledger(Store.open(nodes.url))
        async with answering(ledger) as answerers:
            for place in range(2 * KILLS):
                await answerers.more(20)
                target = nodes.nodes[(place + 1) % 2]
                source = await nodes.begin_moving(target)
                await nodes.move_keys(source, target)
                await nodes.end_moving(target)
        await ledger.close()


@pytest.mark.soak
@pytest.mark.promise
@pytest.mark.timeout(3600)
async def test_no_acknowledged_answer_is_lost_when_valkey_moves_the_slot(tmp_path: Path) -> None:
    """Valkey 9 moves the slot in one step, under load."""
    with clustered(tmp_path, primaries=2, replicas=0, program=find_valkey()) as nodes:
        ledger = Ledger(Store.open(nodes.url))
        async with answering(ledger) as answerers:
            for place in range(2 * KILLS):
                await answerers.more(20)
                source, target = nodes.nodes[place % 2], nodes.nodes[(place + 1) % 2]
                source.ask("MIGRATESLOTS", "SLOTSRANGE", SLOT, SLOT, "NODE", target.id)
                await until(lambda new=target: nodes.owner() is new)  # type: ignore[misc]
        await ledger.close()
