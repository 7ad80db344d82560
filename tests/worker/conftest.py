"""Fixtures of the worker's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from deciding import Decider
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.core.approvals.input.long_running import LongRunning
from signoff.core.approvals.input.rules import InputRule
from signoff.core.directory.people import Directory
from signoff.worker.adk.apps import Apps, session_service
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.executor import Executor
from worker.office import EXAMPLES, MARA, HandClock, Office


@pytest.fixture(scope="session")
def worker_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """Return one server for all tests of the worker."""
    with EmbeddedRedis(tmp_path_factory.mktemp("redis"), fsync="everysec") as server:
        yield server


@pytest.fixture(params=[EXAMPLES], ids=["examples"])
def agents_folder(request: pytest.FixtureRequest) -> Path:
    """Return the folder of agents; a module may parametrize it with its own."""
    return Path(request.param)


@pytest.fixture
def long_running() -> tuple[LongRunning, ...]:
    """Return the long-running tools that wait for an approval; a test may name others."""
    return ()


@pytest.fixture
def inputs() -> Sequence[InputRule]:
    """Return the rules of `[[inputs]]`; a test may name others."""
    return ()


@pytest.fixture
async def office(
    worker_redis: EmbeddedRedis,
    tmp_path: Path,
    agents_folder: Path,
    long_running: tuple[LongRunning, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Office]:
    """Return an office on an empty ledger and an empty session store."""
    journal = tmp_path / "journal.jsonl"
    monkeypatch.setenv("SIGNOFF_EXAMPLE_JOURNAL", str(journal))
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    clock = HandClock()
    ledger = Ledger(Store.open(worker_redis.url, clock=clock))
    await ledger.store.client.flushall()
    guard = GuardPlugin(ledger)
    sessions = session_service("", agents_folder, ledger.store)
    apps = Apps(agents_folder, sessions, lambda: guard)
    yield Office(
        ledger=ledger,
        decider=Decider(ledger, Directory([MARA])),
        executor=Executor(ledger, AdkRuntime(apps, guard, long_running=long_running)),
        apps=apps,
        clock=clock,
        journal=journal,
    )
    await apps.close()
    await ledger.close()
