"""Where a webhook may go: a URL must not lead into the network behind us.

The name is looked up here, every address of it is judged, and one of these very addresses is
connected to: a name that has another address at the second look gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence

from signoff.core.networks import is_public

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


def is_public_literal(host: str) -> bool:
    """Say whether a host that is written as an address is public; names are looked up later."""
    if host == "localhost" or host.endswith(".localhost"):
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
