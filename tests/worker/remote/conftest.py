"""Fixtures of the remote runtime: a real API server, and offices that use it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from deciding import Decider
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.core.directory.people import Directory
from signoff.worker.adk_remote.runtime import RemoteRuntime
from signoff.worker.adk_remote.settings import RemoteApp
from signoff.worker.executor import Executor
from worker.office import AGENTS, EXAMPLES, MARA, HandClock
from worker.remote.api_server import ApiServer
from worker.remote.far_office import FarOffice

HERE = Path(__file__).parent / "agents"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server of all agents of the tests; its start takes as long as many tests."""
    agents = tmp_path_factory.mktemp("agents")
    for folder in (EXAMPLES, AGENTS, HERE):
        compiled = shutil.ignore_patterns("__pycache__")
        shutil.copytree(folder, agents, ignore=compiled, dirs_exist_ok=True)
    server = ApiServer(agents, tmp_path_factory.mktemp("far"))
    yield server
    server.kill()


@pytest.fixture
async def far_ledger(worker_redis: EmbeddedRedis) -> AsyncIterator[tuple[Ledger, HandClock]]:
    """Return an empty ledger on a clock that the test advances."""
    clock = HandClock()
    ledger = Ledger(Store.open(worker_redis.url, clock=clock))
    await ledger.store.client.flushall()
    yield ledger, clock
    await ledger.close()


def make_far_office(
    far_ledger: tuple[Ledger, HandClock],
    apps: dict[str, RemoteApp],
    transport: httpx.AsyncBaseTransport | None = None,
) -> FarOffice:
    """Return an office with remote agents."""
    ledger, clock = far_ledger
    runtime = RemoteRuntime(apps, ledger, patience=0, transport=transport)
    decider = Decider(ledger, Directory([MARA]))
    return FarOffice(ledger, decider, Executor(ledger, runtime), clock, runtime)


def _office(far_ledger: tuple[Ledger, HandClock], server: ApiServer, agents: Path) -> FarOffice:
    server.start()
    server.forget()
    names = [one.name for one in agents.iterdir() if (one / "agent.py").exists()]
    apps = {name: RemoteApp(url=server.url, reasons="state") for name in names}
    office = make_far_office(far_ledger, apps)
    office.server = server
    return office


@pytest.fixture
async def examples(
    far_ledger: tuple[Ledger, HandClock], server: ApiServer
) -> AsyncIterator[FarOffice]:
    """An office with the example agents behind an API server."""
    office = _office(far_ledger, server, EXAMPLES)
    yield office
    await office.runtime.close()


@pytest.fixture
async def odd_agents(
    far_ledger: tuple[Ledger, HandClock], server: ApiServer
) -> AsyncIterator[FarOffice]:
    """An office with the worker's test agents behind an API server."""
    office = _office(far_ledger, server, AGENTS)
    yield office
    await office.runtime.close()


@pytest.fixture
async def patient(
    far_ledger: tuple[Ledger, HandClock], server: ApiServer
) -> AsyncIterator[FarOffice]:
    """An office with the agent that can be stopped at every step, behind an API server."""
    office = _office(far_ledger, server, HERE)
    yield office
    server.open_gates()
    await office.runtime.close()
