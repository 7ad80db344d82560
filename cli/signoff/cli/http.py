"""The HTTP server of the gateway: uvicorn on a socket that is ours."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from signoff.core.errors import ConfigError


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


class Server(uvicorn.Server):
    """A uvicorn server that says when it listens, and ends what would never end by itself."""

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
