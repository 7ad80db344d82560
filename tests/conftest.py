"""Fixtures that all tests share: a real Redis, a ledger of one's own in it, and the people."""

from __future__ import annotations

import gc
import logging
import os
import secrets
import signal
import warnings
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
import redis
import structlog

from builders import NOON, Snapshot, people
from deciding import Decider
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.core.directory.people import Directory
from signoff.testing import VirtualClock

# The renderer with colours draws the locals of each frame: seconds for an error of a deep stack.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=True),
        structlog.dev.ConsoleRenderer(
            colors=False, exception_formatter=structlog.dev.plain_traceback
        ),
    ]
)

# A busy machine is no counterexample. `make soak` tries more, by --hypothesis-profile=soak.
hypothesis.settings.register_profile("signoff", deadline=None, max_examples=40)
hypothesis.settings.register_profile("soak", deadline=None, max_examples=200)
hypothesis.settings.load_profile("signoff")

# Collecting makes much and drops little; `pytest_collection_finish` has it collected again.
gc.disable()

# Tests that are started in the background ignore it, and so would every process that they start.
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
"""The files and folders that take longest, beginning with the longest files of the soak."""


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """One more than there are cores: many a test waits for a process or a timer."""
    return (yield) + ("PYTEST_XDIST_AUTO_NUM_WORKERS" not in os.environ)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what takes long: a long file that comes last has one core to itself."""
    order, root = {name: place for place, name in enumerate(LONG)}, Path(__file__).parent

    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(root)
        return min(order.get(one, len(LONG)) for one in (path.as_posix(), path.parts[0]))

    items.sort(key=place)


@pytest.fixture(scope="session")
def made_secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of secrets as examples/deploy/make-secrets makes it; nobody changes it."""
    from composed import make_secrets

    folder = tmp_path_factory.mktemp("installation") / "secrets"
    make_secrets(folder)
    return folder


@pytest.fixture(autouse=True)
def restored_log() -> Iterator[None]:
    """The log of the tests as it was: commands configure it for the whole process."""
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
    """The URL of the one Redis server of this test session."""
    with EmbeddedRedis(tmp_path_factory.mktemp("redis"), fsync="everysec") as server:
        yield server.url


@pytest.fixture
def prefix() -> str:
    """A key prefix that no other test has."""
    return f"{{test-{secrets.token_hex(4)}}}:"


@pytest.fixture
async def ledger(redis_url: str, prefix: str) -> AsyncIterator[Ledger]:
    """An empty ledger on the clock of the Redis server."""
    ledger = Ledger(Store.open(redis_url, prefix=prefix))
    yield ledger
    await ledger.close()


@pytest.fixture
def clock() -> VirtualClock:
    """A clock that stands at noon until it is told to go on."""
    return VirtualClock(NOON)


@pytest.fixture
async def still_ledger(redis_url: str, prefix: str, clock: VirtualClock) -> AsyncIterator[Ledger]:
    """An empty ledger on the virtual clock; it shares its keys with `ledger`."""
    ledger = Ledger(Store.open(redis_url, prefix=prefix, clock=clock))
    yield ledger
    await ledger.close()


@pytest.fixture
def directory() -> Directory:
    """Mara and Cleo, who approve, and Riley, who asks."""
    return people()


@pytest.fixture
def decider(ledger: Ledger, directory: Directory) -> Decider:
    """The decisions of `ledger`."""
    return Decider(ledger, directory)


@pytest.fixture
def still_decider(still_ledger: Ledger, directory: Directory) -> Decider:
    """The decisions of `still_ledger`."""
    return Decider(still_ledger, directory)


@pytest.fixture
def snapshot(redis_url: str, prefix: str) -> Iterator[Snapshot]:
    """A function that returns every key of the ledger with what it holds, byte for byte."""
    client = redis.Redis.from_url(redis_url)

    async def read() -> dict[bytes, bytes]:
        pattern = prefix.replace("[", "\\[") + "*"
        return {key: client.dump(key) or b"" for key in sorted(client.scan_iter(pattern))}

    yield read
    client.close()


def pytest_collection_finish() -> None:
    """Leave what is loaded by now out of every garbage collection: it is large, and stays."""
    gc.enable()
    gc.collect()
    gc.freeze()
