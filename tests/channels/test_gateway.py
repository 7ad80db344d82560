"""The gateway's HTTP: liveness, readiness, and no other information."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
import redis
from starlette.applications import Starlette

from builders import paused
from ports import free_port
from services import plain_redis
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.channels.gateway import Listener, make_gateway
from signoff.testing import VirtualClock


class FakeListener:
    """A listener that a test controls; it records its calls."""

    def __init__(self, name: str = "email.inbound") -> None:
        self.name = name
        self.remote = name != "email.inbound"
        self.calls: list[str] = []
        self.problem = "it does not listen"

    async def start(self) -> None:
        """Listen."""
        self.calls.append("start")
        self.problem = ""

    async def stop(self) -> None:
        """Stop."""
        self.calls.append("stop")
        self.problem = "it does not listen"


@asynccontextmanager
async def client(ledger: Ledger, *listeners: Listener) -> AsyncIterator[httpx.AsyncClient]:
    """Run the application and yield a client of it."""
    app = make_gateway(ledger, listeners)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as http,
    ):
        yield http


async def test_gateway_is_ready_when_redis_and_smtp_work(ledger: Ledger) -> None:
    """Redis accepts writes and the mail server listens: ready, with each check by name."""
    async with client(ledger, FakeListener()) as http:
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        ready = await http.get("/readyz")
    assert ready.status_code == 200
    assert ready.json() == {
        "status": "ok",
        "checks": {"redis": "ok", "email.inbound": "ok", "timers": "ok"},
        "lag_seconds": 0,
    }


async def test_listeners_run_as_long_as_the_application() -> None:
    """They start before the first request, and stop after the last in reverse order."""
    listener = FakeListener()
    ledger = Ledger(Store.open("redis://127.0.0.1:1/0"))
    async with client(ledger, listener):
        assert listener.calls == ["start"]
    assert listener.calls == ["start", "stop"]
    await ledger.close()


async def test_silent_listener_makes_the_gateway_unready(ledger: Ledger) -> None:
    """A load balancer removes the gateway, and a person reads why."""
    listener = FakeListener()
    async with client(ledger, listener) as http:
        listener.problem = "it does not listen"
        ready = await http.get("/readyz")
        assert (await http.get("/healthz")).status_code == 200
    assert ready.status_code == 503
    assert ready.json()["checks"]["email.inbound"] == "it does not listen"


async def test_each_listener_has_a_line_of_its_own(ledger: Ledger) -> None:
    """A healthy one does not hide an unhealthy one."""
    broken, well = FakeListener(), FakeListener("email.imap")
    async with client(ledger, broken, well) as http:
        broken.problem = "it does not listen"
        ready = await http.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["checks"] == {
        "redis": "ok",
        "email.inbound": "it does not listen",
        "email.imap": "ok",
        "timers": "ok",
    }


async def test_unavailable_mailbox_degrades_the_gateway(ledger: Ledger) -> None:
    """Pages and clicks work without it: the gateway is degraded and says what is wrong."""
    well, away = FakeListener(), FakeListener("email.imap")
    async with client(ledger, well, away) as http:
        away.problem = "it cannot be reached"
        ready = await http.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
    assert ready.json()["checks"]["email.imap"] == "it cannot be reached"


async def test_late_timers_are_seen(still_ledger: Ledger, clock: VirtualClock) -> None:
    """No timer runs: the gateway is degraded, names the oldest, and still accepts answers."""
    _, (approval,) = await paused(still_ledger, within=timedelta(hours=1))
    async with client(still_ledger) as http:
        clock.advance(timedelta(hours=1, seconds=30))
        assert (await http.get("/readyz")).json()["status"] == "ok"
        clock.advance(timedelta(minutes=2))
        ready = await http.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
    assert ready.json()["lag_seconds"] == 150
    assert f"{approval.id} has been due for 2m30s" in ready.json()["checks"]["timers"]


async def test_connections_are_closed_after_the_listeners(ledger: Ledger) -> None:
    """They stay open until the listeners have stopped."""
    listener = FakeListener()

    async def close() -> None:
        listener.calls.append("close")

    async with make_gateway(ledger, [listener], close=close).router.lifespan_context(Starlette()):
        pass
    assert listener.calls == ["start", "stop", "close"]


async def test_gateway_says_that_redis_does_not_answer(tmp_path: Path) -> None:
    """A probe gives up after some seconds, and would not see an answer that takes a minute."""
    with plain_redis(tmp_path) as url, redis.Redis.from_url(url) as root:
        process, ledger = root.info("server")["process_id"], Ledger(Store.open(url))
        async with client(ledger) as http:
            assert (await http.get("/readyz")).status_code == 200
            os.kill(process, signal.SIGSTOP)
            try:
                ready = await http.get("/readyz")
            finally:
                os.kill(process, signal.SIGCONT)
            assert (ready.status_code, ready.json()["status"]) == (503, "unavailable")
            assert "has not answered for" in ready.json()["checks"]["redis"]
            assert (await http.get("/readyz")).status_code == 200
        await ledger.close()


async def test_gateway_without_redis_is_healthy_but_not_ready() -> None:
    """A restart does not help, so healthz stays healthy."""
    ledger = Ledger(Store.open(f"redis://127.0.0.1:{free_port()}/0"))
    async with client(ledger) as http:
        assert (await http.get("/healthz")).status_code == 200
        ready = await http.get("/readyz")
    await ledger.close()
    assert ready.status_code == 503
    assert ready.json()["status"] == "unavailable"
    assert "cannot be reached" in ready.json()["checks"]["redis"]


async def test_read_only_redis_makes_the_gateway_unready(tmp_path: Path) -> None:
    """PING would succeed, but answers could not be stored."""
    with plain_redis(tmp_path, min_replicas_to_write="1") as url:
        ledger = Ledger(Store.open(url))
        async with client(ledger) as http:
            ready = await http.get("/readyz")
        await ledger.close()
    assert ready.status_code == 503


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json", "/"])
async def test_gateway_serves_no_api_description_pages(ledger: Ledger, path: str) -> None:
    """Pages that nobody needs do not exist."""
    async with client(ledger) as http:
        assert (await http.get(path)).status_code == 404


@pytest.mark.parametrize("path", ["/healthz", "/nowhere"])
async def test_every_answer_has_security_headers(ledger: Ledger, path: str) -> None:
    """Responses to unknown paths have them too."""
    async with client(ledger) as http:
        headers = (await http.get(path)).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
