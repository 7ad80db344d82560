"""Fixtures of the tests that run over every store of sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from deciding import Decider
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.core.directory.people import Directory
from signoff.worker.adk.apps import Apps, session_service
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.executor import Executor
from worker.office import MARA, HandClock, Office
from worker.sessions.stores import Postgres, postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """One PostgreSQL for all tests."""
    with postgres() as server:
        yield server


@pytest.fixture(scope="session")
def sessions_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """A Redis for sessions alone."""
    with EmbeddedRedis(tmp_path_factory.mktemp("sessions"), fsync="everysec") as server:
        yield server


@pytest.fixture(params=["ledger", "sqlite", "postgres", "redis"])
def sessions_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of each session store in turn."""
    match request.param:
        case "postgres":
            return str(request.getfixturevalue("postgres_server").url)
        case "redis":
            return str(request.getfixturevalue("sessions_redis").url)
        case "ledger":
            return ""
        case _:
            return f"sqlite:///{tmp_path}/sessions.db"


@pytest.fixture
async def office(
    worker_redis: EmbeddedRedis,
    sessions_url: str,
    tmp_path: Path,
    agents_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Office]:
    """An office whose agents keep their sessions in the store of the test."""
    journal = tmp_path / "journal.jsonl"
    monkeypatch.setenv("SIGNOFF_EXAMPLE_JOURNAL", str(journal))
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    clock = HandClock()
    ledger = Ledger(Store.open(worker_redis.url, clock=clock))
    await ledger.store.client.flushall()
    guard = GuardPlugin(ledger)
    sessions = session_service(sessions_url, agents_folder, ledger.store)
    apps = Apps(agents_folder, sessions, lambda: guard)
    yield Office(
        ledger=ledger,
        decider=Decider(ledger, Directory([MARA])),
        executor=Executor(ledger, AdkRuntime(apps, guard)),
        apps=apps,
        clock=clock,
        journal=journal,
    )
    await apps.close()
    await ledger.close()
