"""A proxy before an API server that breaks connections when a test says so."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from typing import Self


@dataclass
class CuttingProxy:
    """Passes on all bytes until it cuts its connections.

    Attributes:
        port: The port of the server.
    """

    port: int
    _listening: asyncio.Server | None = field(default=None, repr=False)
    _open: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = field(
        default_factory=list, repr=False
    )

    @property
    def url(self) -> str:
        """The URL of the proxy."""
        assert self._listening is not None
        host, port = self._listening.sockets[0].getsockname()
        return f"http://{host}:{port}"

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Self]:
        """Listen inside the `with` block."""
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield self
        finally:
            self._listening.close()
            for ends in self._open:
                for end in ends:
                    end.transport.abort()

    async def cut(self, noticed: Awaitable[None]) -> None:
        """Break all connections to the server, and once it has noticed, those to the worker."""
        cut, self._open = self._open, []
        for _, server in cut:
            server.transport.abort()
        await noticed
        for worker, _ in cut:
            worker.transport.abort()

    async def _serve(self, asks: asyncio.StreamReader, worker: asyncio.StreamWriter) -> None:
        answers, server = await asyncio.open_connection("127.0.0.1", self.port)
        self._open.append((worker, server))
        await asyncio.gather(_pass_on(asks, server), _pass_on(answers, worker))


async def _pass_on(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65536):
            to.write(data)
            await to.drain()
        to.write_eof()
