"""Doorbells through a real Celery worker, over Redis and over RabbitMQ."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery

import services
from signoff.broker import stages
from signoff.broker.doorbells.celery import RING_EXPIRES, CeleryBell, make_celery, queues
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.server.embedded import EmbeddedRedis, free_port
from signoff.testing import VirtualClock

RunWorker = Callable[[], AbstractContextManager[None]]

WORKER = Path(__file__).with_name("stage_worker.py")


@pytest.fixture(scope="module")
def rabbitmq_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a RabbitMQ of this module's own."""
    with services.rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as url:
        yield url


@pytest.fixture(params=["redis", pytest.param("rabbitmq", marks=pytest.mark.soak)])
def broker_url(request: pytest.FixtureRequest, redis_url: str) -> str:
    """The URL of the broker, which is no other setting than this."""
    if request.param == "redis":
        # A database of its own: queues have the same names in every test.
        return redis_url.removesuffix("/0") + "/1"
    return str(request.getfixturevalue("rabbitmq_url"))


@pytest.fixture
def celery(broker_url: str) -> Iterator[Celery]:
    """An app on that broker, whose queues are empty."""
    app = make_celery(broker_url)
    purge(app)
    yield app
    app.close()


def purge(app: Celery) -> int:
    """Throw away every doorbell that waits for `route`; return how many there were."""
    with app.connection_for_write() as connection:
        queue = queues([stages.ROUTE])[0].bind(connection.default_channel)
        queue.declare()
        return queue.purge() or 0


@pytest.fixture
def run_worker(broker_url: str, redis_url: str, prefix: str) -> RunWorker:
    """A context: a worker in a process of its own, stopped as a service manager would."""
    return partial(working, broker_url, redis_url, prefix)


@contextmanager
def working(broker_url: str, redis_url: str, prefix: str) -> Iterator[None]:
    """Run a worker in a process of its own, and stop it as a service manager would."""
    process = subprocess.Popen([sys.executable, WORKER, broker_url, redis_url, prefix])
    try:
        yield
        process.terminate()
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()


async def done(ledger: Ledger, count: int) -> set[str]:
    """Wait until the worker says of so many items that it has done them."""
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
    """Work that a commit puts in is done by a worker process that only heard a doorbell."""
    ledger.bell = CeleryBell(celery)
    with run_worker():
        assert await done(ledger, 1) == {"ready"}
        await ledger.commit(Change().send_raw("route", "a", {}).send_raw("route", "b", {}))
        assert await done(ledger, 2) == {"a", "b"}
        await ledger.commit(Change().send_raw("route", "c", {"text": "x" * 100_000}))
        assert await done(ledger, 1) == {"c"}
    assert (await ledger.backlog()) == {"route": 0}
    assert purge(celery) == 0


async def test_doorbells_that_are_lost_cost_nothing(
    still_ledger: Ledger,
    clock: VirtualClock,
    celery: Celery,
    run_worker: RunWorker,
) -> None:
    """With every message thrown away, the work is in the ledger, and the reconciler rings again."""
    still_ledger.bell = CeleryBell(celery)
    await still_ledger.commit(Change().send_raw("route", "a", {}).send_raw("route", "b", {}))
    assert purge(celery) == 1
    with run_worker():
        assert await done(still_ledger, 1) == {"ready"}
        assert await still_ledger.ring_overdue() == []
        clock.advance(timedelta(seconds=1))
        assert await still_ledger.ring_overdue() == ["route"]
        assert await done(still_ledger, 2) == {"a", "b"}


async def test_doorbells_that_are_doubled_cost_nothing(
    ledger: Ledger, celery: Celery, run_worker: RunWorker
) -> None:
    """However often it rings, an item is handed out once."""
    bell = CeleryBell(celery)
    await ledger.commit(Change().send_raw("route", "a", {}))
    for _ in range(20):
        bell.ring_now("route")
    with run_worker():
        await done(ledger, 2)
    assert await ledger.store.client.llen(f"{ledger.store.prefix}done") == 0


async def test_a_message_is_only_a_bell(celery: Celery) -> None:
    """It names the stage and nothing else, expires, and asks for no result."""
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
"""What others may put into a queue: the body, and how it is published."""

RAW = [
    *(b"no JSON", b"[]", b"5", b"{}", b'{"body": "", "properties": {}}', b"\xff", b"[" * 100_000),
    b'{"body": null, "properties": null, "headers": 5}',
    b'{"body": "e30=", "headers": {}, "properties": {"delivery_tag": ["x"], "delivery_info": 7}}',
]
"""What others may put into a list of Redis that is a queue of Celery's."""


def publish(app: Celery, body: object, **options: Any) -> None:
    """Put a message of somebody else's into the queue of `route`."""
    queue = queues([stages.ROUTE])[0]
    with app.connection_for_write() as connection:
        producer = connection.Producer(serializer="json")
        producer.publish(body, routing_key=queue.routing_key, declare=[queue], **options)


@pytest.mark.soak
async def test_what_others_put_into_a_queue_ends_nothing(
    ledger: Ledger, celery: Celery, broker_url: str, run_worker: RunWorker
) -> None:
    """It is rejected, at once and for good; a worker that starts on it starts as well."""
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
    if broker_url.startswith("redis:"):
        with redis.Redis.from_url(broker_url) as client:
            assert client.hgetall("unacked") == {}


@pytest.mark.soak
async def test_a_broker_that_dies_while_doorbells_are_in_hand(
    ledger: Ledger, redis_url: str, prefix: str, tmp_path: Path
) -> None:
    """The worker goes on when it is back, also where it has not acknowledged what it received."""
    go = f"{prefix}go"
    with EmbeddedRedis(tmp_path / "broker") as server, redis.Redis.from_url(server.url) as client:
        app = make_celery(server.url)
        with working(server.url, redis_url, prefix):
            await done(ledger, 1)
            # Whether kombu fails depends on which of two connections is seen to break first.
            for _ in range(5):
                await ledger.commit(Change().send_raw("route", "hold", {}))
                CeleryBell(app).ring_now("route")
                assert await done(ledger, 1) == {"holding"}
                # More than it has threads: two are received and have to wait.
                for _ in range(5):
                    CeleryBell(app).ring_now("route")
                while client.hlen("unacked") < 2:  # noqa: ASYNC110 -- no signal for it
                    await asyncio.sleep(0.02)
                server.kill()
                server.start()
                client.flushall()
                await ledger.store.client.rpush(go, "on")
                assert await done(ledger, 1) == {"hold"}
        app.close()


@pytest.mark.parametrize("scheme", ["redis://127.0.0.1:{}/0", "amqp://guest:guest@127.0.0.1:{}//"])
async def test_a_broker_that_is_away(
    ledger: Ledger, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit stands, nothing is raised, and the next commits do not try in vain."""
    app = make_celery(scheme.format(free_port()))
    ledger.bell = CeleryBell(app)
    await ledger.commit(Change().send_raw("route", "a", {}))
    sent: list[str] = []
    monkeypatch.setattr(app, "send_task", lambda name, **_: sent.append(name))
    await ledger.commit(Change().send_raw("other", "a", {}))
    assert sent == []
    assert await ledger.backlog() == {"other": 1, "route": 1}
    app.close()


def test_names() -> None:
    """Stages are named by what is done, and apps share one task."""
    assert stages.task(stages.run("finance")) == "signoff.run"
    assert stages.task(stages.resume("finance")) == "signoff.resume"
    assert stages.task(stages.deliver("email")) == "signoff.deliver.email"
    assert stages.task(stages.ROUTE) == "signoff.route"
    assert stages.queue(stages.run("finance")) == "signoff.run.finance"
