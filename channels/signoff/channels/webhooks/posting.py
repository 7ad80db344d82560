"""Posting to a server that somebody has named: to no address behind us, and never further on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from signoff.channels.webhooks.addresses import Resolve, public_address, resolve


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server has answered.

    Attributes:
        status: The HTTP status.
        after: The seconds in `Retry-After`, 0 where there are none.
        body: The beginning of its body, as far as that is asked for.
    """

    status: int
    after: float = 0
    body: bytes = b""

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


class Poster:
    """Posts JSON.

    Args:
        timeout: Seconds for connecting, and for each part of the answer.
        lookup: Finds the addresses of a host.
        transport: Another way there, for tests.
    """

    def __init__(
        self,
        *,
        timeout: float,
        lookup: Resolve = resolve,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._lookup = lookup
        # No proxy and no .netrc of the environment: it goes where the URL says, and nowhere on.
        self._http = httpx.AsyncClient(
            trust_env=False, follow_redirects=False, timeout=timeout, transport=transport
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def post(
        self,
        address: str,
        body: bytes,
        signed: Mapping[str, str],
        *,
        allow_private: bool,
        most: int = 0,
    ) -> Answer:
        """Post a body, and return the answer.

        Args:
            address: The URL.
            body: The body.
            signed: The headers that sign it, and any others.
            allow_private: Whether the host may be on a private network.
            most: How much of the answer's body is read.

        Raises:
            PrivateAddress: The host is on a private network.
            httpx.HTTPError, OSError: It cannot be reached, or breaks off.
        """
        url, parts = httpx.URL(address), urlsplit(address)
        host = parts.hostname or ""
        headers = {
            "Content-Type": "application/json",
            # What comes back is read as it comes: a packed answer may be endless.
            "Accept-Encoding": "identity",
            "User-Agent": "Signoff-Webhooks/1",
            **signed,
        }
        extensions: dict[str, object] = {}
        if not allow_private:
            target = await public_address(host, parts.port or 443, self._lookup)
            headers["Host"] = url.netloc.decode()
            # The certificate has to be the name's, wherever it is.
            extensions["sni_hostname"] = host
            url = url.copy_with(host=target)
        request = self._http.build_request(
            "POST", url, content=body, headers=headers, extensions=extensions
        )
        # What it says besides is nobody's business, and may be endless.
        answer = await self._http.send(request, stream=True)
        read = bytearray()
        try:
            if most:
                async for chunk in answer.aiter_raw():
                    read += chunk
                    if len(read) >= most:
                        break
        finally:
            await answer.aclose()
        after = answer.headers.get("retry-after", "")
        wish = float(after) if after.isascii() and after.isdigit() else 0
        return Answer(answer.status_code, wish, bytes(read[:most]))
