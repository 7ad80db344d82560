"""A gateway on a port of this machine."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from builders import people
from deciding import Decider
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.channels.gateway import make_gateway
from signoff.channels.rest.app import PATH, make_rest
from signoff.cli.composition.http import Server


class _Server(uvicorn.Server):
    """A server that reports when it listens, and when it fails to."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and report it."""
        try:
            await super().startup(sockets)
        finally:
            self.up.set()


@contextmanager
def gateway(redis_url: str, prefix: str) -> Iterator[str]:
    """Serve the API from a thread with its own loop; yield its URL."""
    decider = Decider(Ledger(Store.open(redis_url, prefix=prefix)), people())
    app = make_gateway(decider.ledger, close=decider.ledger.close)
    app.mount(PATH, make_rest(decider))
    server = _Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        assert server.up.wait(300)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}{PATH}"
    finally:
        server.should_exit = True
        thread.join()


@asynccontextmanager
async def listening(app: ASGIApp, port: int, host: str = "127.0.0.1") -> AsyncIterator[None]:
    """Serve an app from this loop until the block ends, also if the test skips in it."""
    up = asyncio.Event()
    config = uvicorn.Config(app, host=host, port=port, log_config=None, lifespan="off")
    server = Server(config, lambda _: up.set())
    serving = asyncio.create_task(server._serve())
    try:
        await up.wait()
        yield
    finally:
        server.should_exit = True
        await serving
