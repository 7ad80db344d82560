"""Fixtures of the remote runtime: real API servers, and an office that uses them."""

from __future__ import annotations

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


def _server(agents: Path, folder: Path) -> Iterator[ApiServer]:
    server = ApiServer(agents, folder)
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def examples_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server of the example agents."""
    yield from _server(EXAMPLES, tmp_path_factory.mktemp("examples"))


@pytest.fixture(scope="session")
def test_agents_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server of the worker's test agents."""
    yield from _server(AGENTS, tmp_path_factory.mktemp("agents"))


@pytest.fixture(scope="session")
def patient_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server of the agent that can be stopped at every step."""
    yield from _server(HERE, tmp_path_factory.mktemp("patient"))


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


def _office(far_ledger: tuple[Ledger, HandClock], server: ApiServer) -> FarOffice:
    server.start()
    server.forget()
    names = [one.name for one in server.agents.iterdir() if (one / "agent.py").exists()]
    apps = {name: RemoteApp(url=server.url, reasons="state") for name in names}
    office = make_far_office(far_ledger, apps)
    office.server = server
    return office


@pytest.fixture
async def examples(
    far_ledger: tuple[Ledger, HandClock], examples_server: ApiServer
) -> AsyncIterator[FarOffice]:
    """An office with the example agents behind an API server."""
    office = _office(far_ledger, examples_server)
    yield office
    await office.runtime.close()


@pytest.fixture
async def odd_agents(
    far_ledger: tuple[Ledger, HandClock], test_agents_server: ApiServer
) -> AsyncIterator[FarOffice]:
    """An office with the worker's test agents behind an API server."""
    office = _office(far_ledger, test_agents_server)
    yield office
    await office.runtime.close()


@pytest.fixture
async def patient(
    far_ledger: tuple[Ledger, HandClock], patient_server: ApiServer
) -> AsyncIterator[FarOffice]:
    """An office with the agent that can be stopped at every step, behind an API server."""
    office = _office(far_ledger, patient_server)
    yield office
    patient_server.open_gates()
    await office.runtime.close()
