"""TXT records of the DNS: the keys of signatures, and the policies of domains."""

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
"""Seconds for which a name that could not be asked for is not asked for again: one slow domain
must not take its time of every mail."""


class Records(Protocol):
    """Asks for TXT records; `Txt` does it here."""

    async def records(self, name: str) -> tuple[bytes, ...] | None:
        """Return the records of a name, none where it has none; None if it cannot be asked now."""
        ...


class Txt:
    """Asks for TXT records, and remembers the answers as long as they say.

    Args:
        nameservers: ``address`` or ``address:port`` of each; the system's where there are none.
        timeout: Seconds for one answer, retries included.
    """

    def __init__(self, nameservers: Sequence[str] = (), *, timeout: float = 5) -> None:
        self._nameservers = tuple(nameservers)
        self._timeout = timeout
        self._resolver: dns.asyncresolver.Resolver | None = None
        self._away: dict[str, float] = {}

    async def records(self, name: str) -> tuple[bytes, ...] | None:
        """Return the records of a name, none where it has none; None if it cannot be asked now."""
        if not is_name(name):
            return ()
        import dns.exception  # noqa: PLC0415 -- fifty modules, where the first signature is verified
        import dns.resolver  # noqa: PLC0415

        now = time.monotonic()
        if self._away.get(name, now) > now:
            return None
        try:
            answer = await self._asker().resolve(name + ".", "TXT", search=False)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer, dns.resolver.YXDOMAIN):
            return ()
        except (dns.exception.DNSException, OSError):
            # SERVFAIL among them: the domain's own servers may be back in a minute.
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
    """Say whether a text that a mail gives as a name of the DNS can be one."""
    return 0 < len(name) <= _LONGEST_NAME and all(
        0 < len(label) <= 63
        and label.isascii()
        and label.replace("-", "").replace("_", "").isalnum()
        for label in name.split(".")
    )
