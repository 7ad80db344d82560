"""Tells public addresses, including embedded IPv4 addresses, and loopback addresses."""

from __future__ import annotations

import ipaddress
from typing import Final

_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""All that is assigned as global unicast (RFC 4291, section 2.4, and IANA's registry)."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052, section 2.1
_DOCUMENTED: Final = ipaddress.IPv6Network("3fff::/20")  # RFC 9637, which ipaddress may not know


def is_public(address: str) -> bool:
    """Say whether an address is on the public internet.

    If an address embeds an IPv4 address (RFC 4291, 3056, 6052), that one has to be public.
    Site-local addresses (``fec0::/10``, ``64:ff9b:1::/48``) and ambiguous ones (``::192.0.2.1``,
    Teredo) are not public.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return parsed.is_global and not parsed.is_multicast
    inner = parsed.ipv4_mapped or parsed.sixtofour
    if parsed in _NAT64:
        inner = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
    if inner is not None:
        return is_public(str(inner))
    return (
        parsed in _UNICAST
        and parsed not in _DOCUMENTED
        and parsed.is_global
        and parsed.teredo is None
    )


def is_address(host: str) -> bool:
    """Say whether a host is an IP address, not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Say whether a host is the loopback interface of this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # A dual-stack socket reports ::ffff:127.0.0.1.
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
