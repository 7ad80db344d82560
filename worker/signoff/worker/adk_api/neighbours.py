"""Who on this machine is at the other end of a connection."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL, _REMOTE, _USER, _INODE = 1, 2, 7, 9


def is_own(client_port: int, server_port: int) -> bool:
    """Say whether a program of this process's own user holds the other end of a connection.

    The address alone does not tell: every user of the machine comes from the loopback address, and
    so does a proxy, which hands on what comes from anywhere. Proxies run as users of their own.

    Args:
        client_port: The port at the other end.
        server_port: The port at this end.

    Returns:
        True on systems without Linux's tables of connections (proc(5), ``/proc/net/tcp``).
    """
    if not any(table.exists() for table in _TABLES):
        return True
    # Two ports can be connected on several loopback addresses: all of the ends have to be ours.
    holders = list(_holders(client_port, server_port))
    return bool(holders) and set(holders) == {os.geteuid()}


def _holders(client_port: int, server_port: int) -> Iterator[int]:
    """Yield the user of each end of connections between two ports; -1 where nobody holds it."""
    for table in _TABLES:
        if not table.exists():
            continue
        for line in table.read_text("ascii").splitlines()[1:]:
            fields = line.split()
            if (_port(fields[_LOCAL]), _port(fields[_REMOTE])) == (client_port, server_port):
                # A socket that its program has closed already is shown as one of user 0.
                yield int(fields[_USER]) if fields[_INODE] != "0" else -1


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
