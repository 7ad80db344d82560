"""A session store that is unavailable for a moment, and one that cannot be used."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest
import redis.asyncio
from structlog.testing import capture_logs

from ports import free_port
from signoff.broker import stages
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.core.approvals.run import RunState
from signoff.core.base.errors import ConfigError
from signoff.worker.adk.apps import session_service
from worker.office import Office
from worker.sessions.stores import Postgres

CONFERENCE = "Reimburse me $2500 for the conference"

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")


@pytest.mark.parametrize("sessions_url", ["postgres", "redis"], indirect=True)
async def test_a_store_that_is_away_is_waited_for(
    office: Office, sessions_url: str, request: pytest.FixtureRequest
) -> None:
    """The database restarts: the work is retried, and nothing is lost."""
    name = "postgres_server" if "postgres" in sessions_url else "sessions_redis"
    server: Postgres | EmbeddedRedis = request.getfixturevalue(name)
    paused = await office.submit("finance", CONFERENCE)
    await office.approve(paused)
    server.stop()
    try:
        fresh = await office.submit("finance", CONFERENCE)
        assert fresh.state is RunState.QUEUED
        assert (await office.resume(paused)).state is RunState.ANSWERED
    finally:
        server.start()
    office.pass_time()
    await office.executor.drain(stages.run("finance"))
    assert (await office.ledger.run(fresh.id)).state is RunState.PAUSED
    assert (await office.resume(paused)).state is RunState.COMPLETED
    assert len(office.executed()) == 1


@pytest.mark.parametrize("sessions_url", ["postgres"], indirect=True)
async def test_a_store_that_dies_while_it_is_asked_is_waited_for(
    office: Office, postgres_server: Postgres
) -> None:
    """The library reports that as an error of no particular class; the answer is not lost.

    The log has the error, and not the values that were written.
    """
    paused = await office.submit("finance", CONFERENCE)
    await office.approve(paused)
    url = postgres_server.url.replace("+asyncpg", "")
    other, watcher = await asyncpg.connect(url), await asyncpg.connect(url)
    await other.execute("BEGIN; LOCK TABLE sessions")
    resuming = asyncio.create_task(office.resume(paused))
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    while not await watcher.fetchval(waiting):
        pass
    try:
        with capture_logs() as logs:
            await asyncio.to_thread(postgres_server.stop)
            assert (await resuming).state is RunState.ANSWERED
    finally:
        postgres_server.start()
    (again,) = [one["error"] for one in logs if one["event"] == "work.again"]
    assert "connection was closed" in again
    assert paused.session not in again
    for one in (other, watcher):
        one.terminate()
    office.pass_time()
    assert (await office.resume(paused)).state is RunState.COMPLETED
    assert len(office.executed()) == 1


@pytest.mark.parametrize("sessions_url", ["postgres"], indirect=True)
async def test_a_store_that_fails_over_is_found_again(
    office: Office, postgres_server: Postgres
) -> None:
    """A replica that takes no writes yet is not kept as the server to ask."""
    await office.submit("finance", CONFERENCE)
    admin = await asyncpg.connect(postgres_server.url.replace("+asyncpg", ""))
    await admin.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
    await admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = 'postgres' AND pid <> pg_backend_pid()"
    )
    fresh = await office.submit("finance", CONFERENCE)
    for _ in range(2):
        office.pass_time()
        await office.executor.drain(stages.run("finance"))
        assert (await office.ledger.run(fresh.id)).state is RunState.QUEUED
    await admin.execute("ALTER DATABASE postgres RESET default_transaction_read_only")
    await admin.close()
    office.pass_time()
    await office.executor.drain(stages.run("finance"))
    assert (await office.ledger.run(fresh.id)).state is RunState.PAUSED


@pytest.mark.parametrize("sessions_url", ["redis"], indirect=True)
async def test_a_session_in_redis_lasts_as_long_as_an_approval_may(
    office: Office, sessions_redis: EmbeddedRedis
) -> None:
    """ADK's default of seven days could end the session before its answer."""
    run = await office.submit("finance", CONFERENCE)
    async with redis.asyncio.Redis.from_url(sessions_redis.url) as client:
        keys = [key async for key in client.scan_iter(match=f"*{run.session}")]
        assert [await client.ttl(key) for key in keys] == [-1]


@pytest.mark.parametrize(
    "url", ["nonsense", "postgresql+nodriver://a/b", "redis://host:port", "mysql://x"]
)
def test_unsupported_session_url_lists_the_valid_forms(url: str, tmp_path: Path) -> None:
    """The error names the setting and the valid forms."""
    with pytest.raises(ConfigError, match=r"sessions\.url.*sqlite:///path, redis://host"):
        session_service(url, tmp_path)


async def test_redis_url_is_accepted_without_a_connection(tmp_path: Path) -> None:
    """Connections are opened when needed, as in the other stores."""
    service = session_service(f"redis://127.0.0.1:{free_port()}/3", tmp_path)
    # Not every ADK service has it; this one does.
    await service.close()  # type: ignore[attr-defined]
