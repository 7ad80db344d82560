"""TXT records in the DNS: the keys of signatures, and the policies of domains."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from signoff.channels.email.authentication.settings import host_and_port

if TYPE_CHECKING:
    import dns.asyncresolver
    import dns.nameserver

_CACHED: Final = 1000
_MOST_RECORDS: Final = 10
_LARGEST: Final = 4096
_LONGEST_NAME: Final = 253
_RESTS: Final = 30.0
"""Seconds before a failed look-up is repeated: a slow domain must not delay every mail."""


class Records(Protocol):
    """Looks up TXT records; `Txt` implements this."""

    async def records(self, name: str) -> tuple[bytes, ...] | None:
        """Return the records of a name, possibly none; None if the DNS cannot answer now."""
        ...


class Txt:
    """Looks up TXT records, and caches the answers for their time to live.

    The servers are ``address`` or ``address:port``, by default the system's. The timeout is in
    seconds for one answer, including retries.
    """

    def __init__(self, nameservers: Sequence[str] = (), *, timeout: float = 5) -> None:
        self._nameservers = tuple(nameservers)
        self._timeout = timeout
        self._resolver: dns.asyncresolver.Resolver | None = None
        self._away: dict[str, float] = {}

    async def records(self, name: str) -> tuple[bytes, ...] | None:
        """Return the records of a name, possibly none; None if the DNS cannot answer now."""
        if not is_name(name):
            return ()
        import dns.exception  # noqa: PLC0415 -- fifty modules, loaded for the first signature
        import dns.resolver  # noqa: PLC0415

        now = time.monotonic()
        if self._away.get(name, now) > now:
            return None
        try:
            answer = await self._asker().resolve(name + ".", "TXT", search=False)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer, dns.resolver.YXDOMAIN):
            return ()
        except (dns.exception.DNSException, OSError):
            # This includes SERVFAIL: the domain's own servers may recover within a minute.
            if len(self._away) >= _CACHED:
                self._away.clear()
            self._away[name] = time.monotonic() + _RESTS
            return None
        found = tuple(b"".join(record.strings) for record in answer)
        return tuple(record for record in found[:_MOST_RECORDS] if len(record) <= _LARGEST)

    def _asker(self) -> dns.asyncresolver.Resolver:
        if self._resolver is None:
            import dns.asyncresolver  # noqa: PLC0415 -- as above

            resolver = dns.asyncresolver.Resolver(configure=not self._nameservers)
            if self._nameservers:
                resolver.nameservers = [_server(one) for one in self._nameservers]
            resolver.lifetime = self._timeout
            resolver.cache = dns.resolver.LRUCache(_CACHED)
            self._resolver = resolver
        return self._resolver


def _server(server: str) -> dns.nameserver.Nameserver:
    import dns.nameserver  # noqa: PLC0415 -- as above

    host, port = host_and_port(server)
    return dns.nameserver.Do53Nameserver(host, port)


def is_name(name: str) -> bool:
    """Return whether a text from a mail can be a name in the DNS."""
    return 0 < len(name) <= _LONGEST_NAME and all(
        0 < len(label) <= 63
        and label.isascii()
        and label.replace("-", "").replace("_", "").isalnum()
        for label in name.split(".")
    )
