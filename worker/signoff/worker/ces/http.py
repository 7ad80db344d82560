"""`ces_requests`: HTTP from sandboxed code, to allowed hosts and to no private address."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import httpx

from signoff.core.networks import is_public
from signoff.worker.ces.rules import Rules

_KNOWN: Final = frozenset(
    {"method", "url", "params", "data", "json", "headers", "cookies", "timeout", "allow_redirects"}
)
_METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE", "PATCH"})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS: Final = 5
_PORTS: Final = {"http": 80, "https": 443}
_NEVER_SENT: Final = frozenset({"host", "content-length", "transfer-encoding", "connection"})
_SECRET: Final = frozenset({"authorization", "cookie", "proxy-authorization"})


class HttpRefused(Exception):
    """A request that the rules do not allow, or that got no answer; the code sees it raised."""


async def request(rules: Rules, asked: dict[str, Any]) -> dict[str, Any]:
    """Send one request of sandboxed code, and return text, status_code and reason of its answer.

    Every address is checked after its name is resolved, and that very address is connected to: a
    name that resolves to something else a moment later gains nothing. Redirects are followed
    one by one, each under the same rules.

    Args:
        rules: Hosts, time and sizes.
        asked: What the code gave to `ces_requests`.

    Raises:
        HttpRefused: The rules do not allow it, or there was no answer.
    """
    _check(rules, asked)
    seconds = min(float(asked.get("timeout") or rules.http_seconds), rules.http_seconds)
    try:
        async with (
            asyncio.timeout(seconds),
            httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=seconds) as client,
        ):
            return await _followed(client, rules, asked)
    except TimeoutError:
        raise HttpRefused(f"{asked['url']} took longer than {seconds:g} seconds.") from None
    except (httpx.HTTPError, httpx.InvalidURL, TypeError, ValueError) as error:
        raise HttpRefused(f"{asked['url']}: {error or type(error).__name__}") from error


def facts(asked: dict[str, Any]) -> dict[str, Any]:
    """Return a request as a policy and an approver see it: with its host, without its secrets."""
    headers = {
        key: "(not shown)" if str(key).lower() in _SECRET else value
        for key, value in (asked.get("headers") or {}).items()
    }
    host = urlsplit(str(asked.get("url", ""))).hostname or ""
    shown = {key: value for key, value in asked.items() if key not in {"headers", "cookies"}}
    return {**shown, "host": host, **({"headers": headers} if headers else {})}


def _check(rules: Rules, asked: dict[str, Any]) -> None:
    if unknown := sorted(set(asked) - _KNOWN):
        raise HttpRefused(
            f"ces_requests does not take {', '.join(unknown)}. "
            f"It takes {', '.join(sorted(_KNOWN))}."
        )
    if asked.get("method") not in _METHODS or not isinstance(asked.get("url"), str):
        raise HttpRefused("A request needs a url, and GET, POST, PUT, DELETE or PATCH.")
    if asked.get("data") is not None and asked.get("json") is not None:
        raise HttpRefused("A request has data or json, and not both.")
    _require_allowed(rules, asked["url"])


async def _followed(
    client: httpx.AsyncClient, rules: Rules, asked: dict[str, Any]
) -> dict[str, Any]:
    method, url, params = asked["method"], asked["url"], asked.get("params")
    headers = {
        key: value
        for key, value in (asked.get("headers") or {}).items()
        if key.lower() not in _NEVER_SENT
    }
    cookies = asked.get("cookies")
    data, body = asked.get("data"), asked.get("json")
    for _ in range(_MAX_REDIRECTS + 1):
        built = client.build_request(
            method,
            url,
            params=params,
            headers=headers,
            cookies=cookies,
            json=body,
            **({"content": data} if isinstance(data, str) else {"data": data}),
        )
        status, reason, text, target = await _sent(client, rules, built)
        if status not in _REDIRECTS or not target or asked.get("allow_redirects") is False:
            return {"text": text, "status_code": status, "reason": reason}
        onwards = urljoin(url, target)
        if urlsplit(onwards).netloc != urlsplit(url).netloc:
            headers = {key: one for key, one in headers.items() if key.lower() not in _SECRET}
            cookies = None
        if status == httpx.codes.SEE_OTHER or (method == "POST" and status in {301, 302}):
            method, data, body = "GET", None, None
        url, params = onwards, None
    raise HttpRefused(f"{asked['url']} redirects more than {_MAX_REDIRECTS} times.")


async def _sent(
    client: httpx.AsyncClient, rules: Rules, built: httpx.Request
) -> tuple[int, str, str, str]:
    host = _require_allowed(rules, str(built.url))
    if len(await built.aread()) > rules.http_bytes:
        raise HttpRefused(f"{built.url} was to be sent more than {rules.http_bytes} bytes.")
    address = await _address(rules, host, built.url.port or _PORTS[built.url.scheme])
    pinned = client.build_request(
        built.method,
        built.url.copy_with(host=address),
        headers=built.headers,
        content=built.content,
        extensions={"sni_hostname": host, "timeout": built.extensions["timeout"]},
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
    text = bytes(content).decode(response.encoding or "utf-8", "replace")
    target = response.headers.get("location", "")
    return response.status_code, response.reason_phrase, text, target


def _require_allowed(rules: Rules, url: str) -> str:
    """Return the host of a URL that the rules allow."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower().rstrip("."), parts.port
    except ValueError as error:
        raise HttpRefused(f"{url!r} is not a URL: {error}") from error
    if parts.scheme not in _PORTS or not host or parts.username or parts.password:
        raise HttpRefused(f"{url!r} is not a URL like https://api.example.com/path.")
    if f"{host}:{port}" in rules.internal_hosts:
        return host
    if not any(_matches(host, one) for one in (*rules.hosts, *rules.internal_hosts)):
        raise HttpRefused(
            f"{host} is not an allowed host. They are in the settings, under [ces] hosts."
        )
    if port not in {None, 80, 443} and host not in rules.internal_hosts:
        raise HttpRefused(f"{host} may be reached at ports 80 and 443 only, not at {port}.")
    return host


def _matches(host: str, pattern: str) -> bool:
    wanted = pattern.lower()
    return host.endswith(wanted[1:]) if wanted.startswith("*.") else host == wanted


async def _address(rules: Rules, host: str, port: int) -> str:
    """Return an address of a host, all of which have to be public."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise HttpRefused(f"{host} has no address: {error}") from error
    addresses = [str(one[4][0]) for one in found]
    internal = {host, f"{host}:{port}"} & set(rules.internal_hosts)
    if not internal and not all(is_public(one) for one in addresses):
        raise HttpRefused(f"{host} has a private address, and code may not go there.")
    return addresses[0]
