"""Where a webhook may go: a URL must not lead into the network behind us.

The name is looked up here, every address of it is judged, and one of these very addresses is
connected to: a name that has another address at the second look gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlsplit

from signoff.core.base.networks import is_loopback, is_public

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host."""


class PrivateAddress(Exception):
    """The host is on a private network, or is this machine."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, by the system's own look-up.

    Raises:
        OSError: It has none.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def why_refused(url: str, *, allow_private: bool) -> str:
    """Return why nothing is posted to a URL, "" where something is; names are looked up later.

    Args:
        url: The URL.
        allow_private: Allow private networks, this machine, and plain HTTP.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port  # parsed on access
    except ValueError as error:
        return f"{url!r} is not a URL: {error}"
    host = parts.hostname or ""
    fine = parts.scheme in {"http", "https"} and host and url.isascii()
    if not fine or parts.username is not None or not url.isprintable():
        return f"{url!r} is not a URL like https://erp.example.com/signoff"
    if not allow_private and parts.scheme == "http":
        return f"{url!r} would be read on the way: use https://"
    if not allow_private and not _may_be_public(host):
        return f"{url!r} is on a private network: set allow_private for that"
    return ""


def _may_be_public(host: str) -> bool:
    """Say whether a host is a name, other than of this machine, or a public address."""
    if is_loopback(host):
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return is_public(host)


async def public_address(host: str, port: int, lookup: Resolve = resolve) -> str:
    """Return an address to connect to.

    Raises:
        OSError: The host has none.
        PrivateAddress: One of them is not of the internet.
    """
    found = await lookup(host, port)
    if not found:
        raise OSError(f"{host} has no address")
    if private := [one for one in found if not is_public(one)]:
        raise PrivateAddress(
            f"{host} is at {private[0]}, which is not on the internet. If that is meant, set "
            "allow_private for this webhook."
        )
    return found[0]
