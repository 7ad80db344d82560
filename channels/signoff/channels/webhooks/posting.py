"""Posting to a URL from outside: never to a private address, and without redirects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import httpx

from signoff.channels.webhooks.addresses import Resolve, public_address, resolve


@dataclass(frozen=True, slots=True)
class Response:
    """The response of a server.

    Attributes:
        status: The HTTP status.
        after: The seconds in `Retry-After`, 0 if there are none.
        body: The beginning of its body, as far as the caller asked for it.
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
        timeout: Seconds for connecting, and for each part of the response.
        lookup: Finds the addresses of a host.
        transport: Replaces the connections, for tests.
    """

    def __init__(
        self,
        *,
        timeout: float,
        lookup: Resolve = resolve,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._lookup = lookup
        # No proxy, no .netrc and no redirects: requests go to the URL and nowhere else.
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
    ) -> Response:
        """Post a body, and return the response.

        Args:
            address: The URL.
            body: The body.
            signed: The headers with the signature, and others.
            allow_private: Whether the host may be on a private network.
            most: How many bytes of the response are read.

        Raises:
            PrivateAddress: The host is on a private network.
            httpx.HTTPError, OSError: It cannot be reached, or the connection breaks.
        """
        try:
            url, parts = httpx.URL(address), urlsplit(address)
        except (httpx.InvalidURL, ValueError) as error:
            raise OSError(f"{address} cannot be reached: {error}") from error
        host = parts.hostname or ""
        headers = {
            "Content-Type": "application/json",
            # The response is not decompressed: a compressed one may be endless.
            "Accept-Encoding": "identity",
            "User-Agent": "Signoff-Webhooks/1",
            **signed,
        }
        extensions: dict[str, object] = {}
        if not allow_private:
            target = await public_address(host, parts.port or 443, self._lookup)
            headers["Host"] = url.netloc.decode()
            # The certificate has to be for the name, not for the address.
            extensions["sni_hostname"] = host
            url = url.copy_with(host=target)
        request = self._http.build_request(
            "POST", url, content=body, headers=headers, extensions=extensions
        )
        # The body may be endless, so it is read only as far as the caller asked.
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
        return Response(answer.status_code, _retry_after(answer.headers), bytes(read[:most]))


def _retry_after(headers: httpx.Headers) -> float:
    """Return the seconds in `Retry-After` (RFC 9110, section 10.2.3), 0 if there are none.

    A date is compared with the `Date` of the response, or with the local clock without one.
    """
    after = headers.get("retry-after", "")
    if after.isascii() and after.isdigit():
        return float(after)
    try:
        sent = headers.get("date", "")
        now = parsedate_to_datetime(sent) if sent else datetime.now(UTC)
        return max((parsedate_to_datetime(after) - now).total_seconds(), 0)
    except (ValueError, TypeError, OverflowError):  # no date, no zone, or an impossible zone
        return 0
