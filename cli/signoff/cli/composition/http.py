"""The HTTP server of the gateway: uvicorn on a socket that is ours."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from signoff.channels.web.problems import PATIENCE
from signoff.core.base.errors import ConfigError


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        ConfigError: The address or port cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another host or "
            "port, or stop what listens there",
            key="gateway",
        ) from error


class Protocol(H11Protocol):
    """HTTP/1.1 that hangs up where a request does not come to its end.

    uvicorn closes connections that are silent behind an answer. It waits for ever for the first
    request, for the rest of one's headers, and for the rest of a body that nobody reads.

    Attributes:
        patience: Seconds after which it looks whether a request has begun since it last looked.
    """

    patience: float = PATIENCE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._seen: RequestResponseCycle | None = None
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._looking.cancel()
        super().connection_lost(exc)

    def _look_later(self) -> None:
        self._looking = self.loop.call_later(self.patience, self._look)

    def _look(self) -> None:
        cycle = self.cycle
        over = cycle is None or cycle.response_complete
        if over and cycle is self._seen:
            self.transport.close()
            return
        self._seen = cycle
        self._look_later()


class Server(uvicorn.Server):
    """A uvicorn server that says when it listens, and ends requests that would never end."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[int], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        if self.started and self.servers:
            self._announce(int(self.servers[0].sockets[0].getsockname()[1]))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop, with the streams that browsers listen to."""
        for close in getattr(getattr(self.config.app, "state", None), "closing", ()):
            close()
        await super().shutdown(sockets)
