"""Tells whether a request comes from a program of our own user on this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from starlette.requests import Request

from signoff.core.base.networks import is_loopback

_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_FORWARDED: Final = re.compile(
    r"""forwarded | via | x-forwarded.* | x-real-ip | (.*-)?client-ip  # RFC 7239, 9110; customs
    | cf-.* | cdn-.* | fastly-.* | x-(amz|amzn|appengine|azure|cloud|envoy|original|proxy)-.*
    | proxy-.* | x-cluster-.* | x-request-start""",
    re.VERBOSE,
)
"""Names of headers that proxies, tunnels and content networks add, and clients do not."""

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL, _REMOTE, _USER, _INODE = 1, 2, 7, 9


def why_not_local(request: Request) -> str:
    """Return why a request may not come from our own user on this machine; "" if it does.

    The address reveals other machines, unless the request was forwarded. A proxy is recognised by
    the headers that it adds, by HTTP/1.0 (nginx's default, which no current client uses), or by its
    system user; other users of the machine are recognised by theirs. `Host` reveals a browser that
    was led here under another name (DNS rebinding). `Origin` and `Sec-Fetch-Site` reveal a page
    from another site: the browser sends both, and the page cannot change them.
    """
    headers, hosts = request.headers, request.headers.getlist("host")
    if request.client is None or not is_loopback(request.client.host):
        return "it comes from another machine"
    if request.scope.get("http_version") == "1.0" or any(map(_FORWARDED.fullmatch, headers)):
        return "it was forwarded"
    if not _is_own(request.client.port, int((request.scope.get("server") or (0, 0))[1] or 0)):
        return "a program of another user of this machine has sent it"
    if len(hosts) != 1 or _without_port(hosts[0]) not in _HOSTS:
        return "its Host is not localhost, 127.0.0.1 or [::1]"
    if any(one != f"http://{hosts[0]}" for one in headers.getlist("origin")) or headers.get(
        "sec-fetch-site", "none"
    ) not in {"none", "same-origin"}:
        return "a web page from elsewhere has sent it"
    return ""


def _without_port(host: str) -> str:
    name, mark, port = host.rpartition(":")
    return (name if mark and port.isdigit() else host).lower()


def _is_own(client_port: int, server_port: int) -> bool:
    """Return whether a program of this process's own user holds the other end of a connection.

    The address alone is not enough: every user of the machine connects from the loopback address,
    and so does a proxy that forwards requests from anywhere. Proxies run as other users.

    Args:
        client_port: The port at the other end.
        server_port: The port at this end.

    Returns:
        True on systems without Linux's tables of connections (proc(5), ``/proc/net/tcp``).
    """
    if not any(table.exists() for table in _TABLES):
        return True
    # Two ports can be connected on several loopback addresses: all ends have to be ours.
    holders = list(_holders(client_port, server_port))
    return bool(holders) and set(holders) == {os.geteuid()}


def _holders(client_port: int, server_port: int) -> Iterator[int]:
    """Yield the user of each remote end of connections between two ports; -1 if it is closed."""
    for table in _TABLES:
        if not table.exists():
            continue
        for line in table.read_text("ascii").splitlines()[1:]:
            fields = line.split()
            if (_port(fields[_LOCAL]), _port(fields[_REMOTE])) == (client_port, server_port):
                # The table shows user 0 for a socket that its program has already closed.
                yield int(fields[_USER]) if fields[_INODE] != "0" else -1


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
