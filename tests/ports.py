"""Ports of this machine that stay free for a test's server."""

from __future__ import annotations

import socket
from contextlib import suppress


def free_port(*, above: int = 0) -> int:
    """Return a port of 127.0.0.1 that the system gives to no other process while this one lives.

    A bound socket that does not listen holds the port. A server that sets SO_REUSEADDR, as all
    servers in the tests do, can listen there, also after a restart; until then connections are
    refused.

    Args:
        above: Also hold the port with this distance above it.
    """
    while True:
        with (
            socket.socket() as first,
            socket.socket() as second,
            # The second port may be taken, or above the last port.
            suppress(OSError, OverflowError),
        ):
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            held = [first]
            if above:
                second.bind(("127.0.0.1", port + above))
                held.append(second)
            for one in held:
                # Set the option only now: the system could give one port to two sockets with it.
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.detach()
            return port
