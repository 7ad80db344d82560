"""The HTTP server of the gateway: uvicorn on a socket that we open."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from email.utils import formatdate
from types import FrameType

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from signoff.channels.web.closing import Closing
from signoff.channels.web.problems import PATIENCE
from signoff.core.base.errors import ConfigError

_MOST_BYTES = 65_536
"""The most bytes of the head of a request."""


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


class _Connection(h11.Connection):
    """HTTP/1.1 that refuses a request whose end is ambiguous.

    With both headers, a proxy that looks at the other one sees another end. What follows could be a
    request that the proxy has not checked (request smuggling). HTTP/1.0 has no chunks.
    """

    def next_event(self) -> type[h11.NEED_DATA | h11.PAUSED] | h11.Event:
        """Return the next event.

        Raises:
            RemoteProtocolError: The client has sent no valid request.
        """
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            chunked = b"transfer-encoding" in names
            if chunked and (b"content-length" in names or event.http_version < b"1.1"):
                raise h11.RemoteProtocolError("the end of the body is ambiguous")
        return event


class Protocol(H11Protocol):
    """HTTP/1.1 that closes connections whose request never completes.

    uvicorn closes connections that stay idle after a response. But it waits forever for the first
    request, for the rest of the headers, and for the rest of a body that nobody reads.

    Attributes:
        patience: Seconds between checks; a connection without a new request since then is closed.
    """

    patience: float = PATIENCE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.conn = _Connection(h11.SERVER, _MOST_BYTES)
        self._seen: RequestResponseCycle | None = None
        self._look_later()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request, and set the date header of its response.

        uvicorn updates the date every second, even when no request comes.
        """
        date = (b"date", formatdate(usegmt=True).encode())
        self.server_state.default_headers = [date, *self.config.encoded_headers]
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._looking.cancel()
        super().connection_lost(exc)

    def _look_later(self) -> None:
        self._looking = self.loop.call_later(self.patience, self.close_if_unused)

    def close_if_unused(self) -> None:
        """Close the connection if no request came since the last check."""
        cycle = self.cycle
        over = cycle is None or cycle.response_complete
        if over and cycle is self._seen:
            self.transport.close()
            return
        self._seen = cycle
        self._look_later()


class Server(uvicorn.Server):
    """A uvicorn server that announces its port, and ends requests that would never end.

    uvicorn checks ten times a second whether it has to stop. This server sleeps until
    `should_exit` is set. Its protocol must be `Protocol`, which sets the date of responses.
    """

    def __init__(self, config: uvicorn.Config, announce: Callable[[int], None]) -> None:
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        super().__init__(config)
        self._announce = announce

    def stop_on_signals(self) -> None:
        """Stop on SIGTERM and Ctrl-C from now on, even before `serve`, and let the process exit 0.

        uvicorn handles both signals only while it serves, and raises them again afterwards.
        """

        def stop(number: int, frame: FrameType | None) -> None:
            self.should_exit = True

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)

    @property
    def should_exit(self) -> bool:
        """Whether the server has to stop; can be set from any thread and from a signal handler."""
        return self._should_exit

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        self._should_exit = value
        if value and self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def main_loop(self) -> None:
        """Wait until the server has to stop."""
        self._loop = asyncio.get_running_loop()
        if not self.should_exit:
            await self._stopping.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and announce the port."""
        await super().startup(sockets)
        if self.started and self.servers:
            self._announce(int(self.servers[0].sockets[0].getsockname()[1]))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop, and end endless responses."""
        closing = getattr(getattr(self.config.app, "state", None), "closing", None)
        if isinstance(closing, Closing):
            closing.close()
        await super().shutdown(sockets)
