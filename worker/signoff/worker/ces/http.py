"""`ces_requests`: HTTP from sandboxed code, only to allowed hosts and public addresses."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final

import httpx

from signoff.core.base.networks import is_public
from signoff.worker.ces.hosts import Target, matches, target, with_port
from signoff.worker.ces.rules import Rules

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods that change nothing on a server (RFC 9110, section 9.2.1)."""

FROM: Final = "redirected_from"
"""The key, in a redirected request, of the URLs that have led to it."""

_METHODS: Final = (*sorted(READS), "DELETE", "PATCH", "POST", "PUT")
_MAPS: Final = frozenset({"headers", "cookies"})
_KNOWN: Final = frozenset(
    {"method", "url", "params", "data", "json", "headers", "cookies", "timeout", "allow_redirects"}
)
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS: Final = 5
_NEVER_SENT: Final = frozenset({"host", "content-length", "transfer-encoding", "connection"})
_SECRET: Final = frozenset({"authorization", "cookie", "proxy-authorization"})
_OF_BODY: Final = frozenset({"content-type", "content-encoding", "content-language"})


class HttpRefused(Exception):
    """The rules do not allow a request, or it got no response; raised in the code."""


def check(asked: dict[str, Any]) -> None:
    """Refuse a request of sandboxed code that cannot be sent, before policies judge it.

    Raises:
        HttpRefused: It has unknown or contradictory parts, or its URL is invalid.
    """
    if unknown := sorted(set(asked) - _KNOWN):
        raise HttpRefused(
            f"ces_requests does not take {', '.join(unknown)}. "
            f"It takes {', '.join(sorted(_KNOWN))}."
        )
    if asked.get("method") not in _METHODS:
        raise HttpRefused(f"A request needs a method: {', '.join(_METHODS)}.")
    if asked.get("data") is not None and asked.get("json") is not None:
        raise HttpRefused("A request has data or json, and not both.")
    for name in sorted(_MAPS):
        given = asked.get(name)
        if given is not None and not (
            isinstance(given, dict) and all(isinstance(one, str) for one in given.values())
        ):
            raise HttpRefused(f"The {name} of a request are a dictionary of text.")
    timeout = asked.get("timeout")
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    # This also refuses `nan`, which would break the order of all timers of the process.
    if timeout is not None and not (is_number and timeout > 0):
        raise HttpRefused("The timeout of a request is a number of seconds, greater than 0.")
    _target(asked.get("url"))


def facts(asked: dict[str, Any]) -> dict[str, Any]:
    """Return a request as policies and approvers see it: with its host, without its secrets.

    The URL and the host are in their canonical form, so they are the actual target.
    """
    headers = {
        key: "(not shown)" if key.lower() in _SECRET else value
        for key, value in (asked.get("headers") or {}).items()
    }
    shown = {key: value for key, value in asked.items() if key not in {"headers", "cookies"}}
    return {**shown, **place(asked), **({"headers": headers} if headers else {})}


def place(asked: dict[str, Any]) -> dict[str, str]:
    """Return the URL and the host of a request, both in their canonical form."""
    goes_to = _target(asked.get("url"))
    return {"url": str(goes_to.url), "host": goes_to.host}


async def request(rules: Rules, asked: dict[str, Any]) -> dict[str, Any]:
    """Send one request of sandboxed code, and return the response.

    The host's name is resolved, its addresses are checked, and the request goes to a checked
    address. So it does not matter if the name resolves to another address a moment later.

    Args:
        rules: The allowed hosts, times and sizes.
        asked: The request that the code gave to `ces_requests`, or that a redirect has made of it.

    Returns:
        Text, status_code and reason of the response. For a redirect, the next request under
        "onwards"; it is not sent, because the rules have to judge it first.

    Raises:
        HttpRefused: The rules do not allow it, or there was no response.
    """
    goes_to = _target(asked["url"])
    _require_allowed(rules, goes_to)
    seconds = min(asked.get("timeout") or rules.http_seconds, rules.http_seconds)
    try:
        async with (
            asyncio.timeout(seconds),
            httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=seconds) as client,
        ):
            built = _built(client, asked, goes_to)
            status, reason, text, location = await _sent(client, rules, built, goes_to)
    except TimeoutError:
        raise HttpRefused(f"{goes_to.url} took longer than {seconds:g} seconds.") from None
    except (httpx.HTTPError, httpx.InvalidURL, TypeError, ValueError) as error:
        raise HttpRefused(f"{goes_to.url}: {error or type(error).__name__}") from error
    if status not in _REDIRECTS or not location or asked.get("allow_redirects") is False:
        return {"text": text, "status_code": status, "reason": reason}
    return {"onwards": redirected(asked, goes_to, status, location)}


def _target(url: object) -> Target:
    try:
        return target(url)
    except ValueError as error:
        raise HttpRefused(f"{url!r} cannot be requested: {error}.") from error


def _built(client: httpx.AsyncClient, asked: dict[str, Any], goes_to: Target) -> httpx.Request:
    headers = {
        key: value
        for key, value in (asked.get("headers") or {}).items()
        if key.lower() not in _NEVER_SENT
    }
    data = asked.get("data")
    return client.build_request(
        asked["method"],
        _with_params(goes_to.url, asked.get("params")),
        headers=headers,
        cookies=asked.get("cookies"),
        json=asked.get("json"),
        **({"content": data} if isinstance(data, str) else {"data": data}),
    )


def _with_params(url: httpx.URL, params: Any) -> httpx.URL:
    """Return a URL with parameters behind those that it has, which httpx would drop."""
    added = str(httpx.QueryParams(params)).encode()
    return (
        url.copy_with(query=b"&".join(one for one in (url.query, added) if one)) if added else url
    )


def redirected(
    asked: dict[str, Any], goes_to: Target, status: int, location: str
) -> dict[str, Any]:
    """Return the request that a response redirects to (RFC 9110, section 15.4).

    Raises:
        HttpRefused: There were too many redirects, or the new address cannot be requested.
    """
    came = [*asked.get(FROM, []), str(goes_to.url)]
    if len(came) > _MAX_REDIRECTS:
        raise HttpRefused(f"{came[0]} redirects more than {_MAX_REDIRECTS} times.")
    try:
        there = _target(str(goes_to.url.join(location)))
    except httpx.InvalidURL as error:
        raise HttpRefused(f"{goes_to.url} redirects to {location!r}: {error}") from error
    made = {key: value for key, value in asked.items() if key != "params"}
    made |= {"url": str(there.url), FROM: came}
    dropped: frozenset[str] = frozenset()
    if there.origin != goes_to.origin:
        made.pop("cookies", None)
        dropped |= _SECRET
    method = asked["method"]
    if (status == httpx.codes.SEE_OTHER and method != "HEAD") or (
        method == "POST" and status in {301, 302}
    ):
        made["method"] = "GET"
        made.pop("data", None)
        made.pop("json", None)
        dropped |= _OF_BODY
    if headers := asked.get("headers"):
        made["headers"] = {key: one for key, one in headers.items() if key.lower() not in dropped}
    return made


async def _sent(
    client: httpx.AsyncClient, rules: Rules, built: httpx.Request, goes_to: Target
) -> tuple[int, str, str, str]:
    if len(await built.aread()) > rules.http_bytes:
        raise HttpRefused(f"{built.url} was to be sent more than {rules.http_bytes} bytes.")
    address = await _address(rules, goes_to)
    pinned = client.build_request(
        built.method,
        built.url.copy_with(host=address),
        headers=built.headers,
        content=built.content,
        extensions={"sni_hostname": goes_to.host, "timeout": built.extensions["timeout"]},
    )
    response = await client.send(pinned, stream=True)
    try:
        content = bytearray()
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > rules.http_bytes:
                raise HttpRefused(f"{built.url} answers with more than {rules.http_bytes} bytes.")
    finally:
        await response.aclose()
    text = _text(bytes(content), response.encoding or "utf-8")
    location = response.headers.get("location", "")
    return response.status_code, response.reason_phrase, text, location


def _text(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding, "replace")
    except (LookupError, UnicodeError):
        # A server may name any codec of Python: "rot13" decodes no bytes, and "idna" replaces none.
        return content.decode("utf-8", "replace")


def _require_allowed(rules: Rules, goes_to: Target) -> None:
    host, port = goes_to.host, goes_to.port
    if with_port(host, port) in rules.internal_hosts:
        return
    if not any(matches(host, one) for one in (*rules.hosts, *rules.internal_hosts)):
        raise HttpRefused(
            f"{host} is not an allowed host. They are in the settings, under [ces] hosts."
        )
    if port not in {80, 443} and host not in rules.internal_hosts:
        raise HttpRefused(f"{host} may be reached at ports 80 and 443 only, not at {port}.")


async def _address(rules: Rules, goes_to: Target) -> str:
    """Return an address of a host; all of its addresses have to be public."""
    host, port = goes_to.host, goes_to.port
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise HttpRefused(f"{host} has no address: {error}") from error
    addresses = [str(one[4][0]) for one in found]
    internal = {host, with_port(host, port)} & set(rules.internal_hosts)
    if not internal and not all(is_public(one) for one in addresses):
        raise HttpRefused(f"{host} has a private address, and code may not go there.")
    return addresses[0]
