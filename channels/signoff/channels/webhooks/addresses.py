"""The addresses that a webhook may go to: a URL must not lead into the private network.

The name is looked up here, all its addresses are checked, and the connection goes to one of them.
So it does not help an attacker if a second look-up returns another address.
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
    """Return the addresses of a host, from the resolver of the system.

    Raises:
        OSError: It has no address.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{host} is not a host name: a part is empty or too long") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def why_refused(url: str, *, allow_private: bool) -> str:
    """Return why a URL is refused, "" if it is not; names are looked up later.

    `allow_private` allows private networks, this machine, and plain HTTP.
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
        return f"{url!r} would send events unencrypted: use https://"
    if not allow_private and not _may_be_public(host):
        return f"{url!r} is on a private network: set allow_private for that"
    return ""


def _may_be_public(host: str) -> bool:
    """Return whether a host is a public address, or a name other than that of this machine."""
    if is_loopback(host):
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return is_public(host)


async def public_address(host: str, port: int, lookup: Resolve) -> str:
    """Return an address to connect to.

    Raises:
        OSError: The host has no address.
        PrivateAddress: One of its addresses is not public.
    """
    found = await lookup(host, port)
    if not found:
        raise OSError(f"{host} has no address")
    if private := [one for one in found if not is_public(one)]:
        raise PrivateAddress(
            f"{host} is at {private[0]}, which is not on the public internet. To allow it, set "
            "allow_private for this webhook."
        )
    return found[0]
