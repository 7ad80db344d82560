"""The canonical form of hosts, which rules, lists of allowed hosts and connections all use.

The same host can be written in many ways: ``API.example.com.``, ``api%2Eexample.com``,
``0x7f.1``. If a rule and a connection read a host differently, a request gets past the rule.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import httpx

PORTS: Final = {"http": 80, "https": 443}

_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"0x[0-9a-f]*|[0-9]+")
_LONGEST: Final = 253
_MOST_PORT: Final = 65_535
_LONGEST_NUMBER: Final = 12
_PARTS: Final = 4
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f\\]")


class Target(NamedTuple):
    """The target of a URL.

    Attributes:
        url: The URL in its canonical form.
        scheme: ``http`` or ``https``.
        host: See `canonical`.
        port: The port.
    """

    url: httpx.URL
    scheme: str
    host: str
    port: int

    @property
    def origin(self) -> tuple[str, str, int]:
        """The origin (RFC 6454): a redirect to another origin does not get the secrets."""
        return self.scheme, self.host, self.port


def target(url: object) -> Target:
    """Return the target of a URL.

    Raises:
        ValueError: It is not a URL with http or https and a host, or it names a user (``user@``).
    """
    import httpx  # noqa: PLC0415 -- the settings do not need an HTTP client

    if not isinstance(url, str) or _UNSAFE.search(url):
        raise ValueError("it has blanks, control characters or backslashes")
    try:
        parsed = httpx.URL(url)
        host, port = parsed.raw_host.decode("ascii"), parsed.port
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ValueError(str(error)) from error
    if parsed.scheme not in PORTS or not host or parsed.userinfo:
        raise ValueError("it is no URL like https://api.example.com/path")
    if port is not None and not 0 < port <= _MOST_PORT:
        raise ValueError(f"there is no port {port}")
    own = canonical(host)
    return Target(
        parsed.copy_with(host=own, fragment=None),
        parsed.scheme,
        own,
        port if port is not None else PORTS[parsed.scheme],
    )


def canonical(host: str) -> str:
    """Return a host in its canonical form.

    A name is in lower case, in ASCII (IDNA 2008, with the mapping of UTS 46) and without a dot at
    its end. An IPv4 address is four decimal numbers. An IPv6 address is in its shortest form,
    without brackets; an IPv4-mapped one becomes the IPv4 address.

    Raises:
        ValueError: It is not a host, or it is an address with a zone, which code may not name.
    """
    text = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if ":" in text:
        if "%" in text:
            raise ValueError(f"{host!r} has a zone")
        address = ipaddress.IPv6Address(text)
        return str(address.ipv4_mapped or address)
    import idna  # noqa: PLC0415 -- slow, and most commands read no hosts

    try:
        name = text if text.isascii() else idna.uts46_remap(text, std3_rules=False)
        name = name.lower().removesuffix(".")
        name = name if name.isascii() else idna.encode(name).decode("ascii")
    except idna.IDNAError as error:
        raise ValueError(f"{host!r} is not a host: {error}") from error
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _ipv4(labels, host)
    if len(name) > _LONGEST or not all(_LABEL.fullmatch(one) for one in labels):
        raise ValueError(f"{host!r} is not a host")
    return name


def _ipv4(parts: list[str], host: str) -> str:
    """Return an IPv4 address, read as HTTP clients read it (WHATWG URL, "IPv4 parser")."""
    if len(parts) > _PARTS or not all(_NUMBER.fullmatch(one) for one in parts):
        raise ValueError(f"{host!r} is not a host")
    if any(len(one) > _LONGEST_NUMBER for one in parts):
        raise ValueError(f"{host!r} is no IPv4 address")
    numbers = [_number(one, host) for one in parts]
    *first, last = numbers
    if any(one > 255 for one in first) or last >= 256 ** (5 - len(parts)):
        raise ValueError(f"{host!r} is no IPv4 address")
    whole = last + sum(one << (8 * (3 - place)) for place, one in enumerate(first))
    return str(ipaddress.IPv4Address(whole))


def _number(text: str, host: str) -> int:
    try:
        if text.startswith("0x"):
            return int(text[2:] or "0", 16)
        return int(text, 8) if text.startswith("0") else int(text)
    except ValueError:
        raise ValueError(f"{host!r} is no IPv4 address") from None


def with_port(host: str, port: int) -> str:
    """Return a host, followed by a port."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def pattern(text: str, *, ports: bool = False) -> str:
    """Return an entry of a list of hosts in its canonical form; it may begin with ``*.``.

    With `ports` it may end with ``:PORT``.

    Raises:
        ValueError: It is not a host.
    """
    name, colon, port = text.rpartition(":")
    try:
        if text.startswith("*."):
            return f"*.{canonical(text[2:])}"
        if ports and colon and port.isdecimal() and (":" not in name or name.startswith("[")):
            return with_port(canonical(name), int(port))
        return canonical(text)
    except ValueError as error:
        raise ValueError(
            f"{text!r} is not a host: write api.example.com, without https:// and without a path"
        ) from error


def matches(host: str, entry: str) -> bool:
    """Return whether an entry of a list matches a host; both are in their canonical form."""
    return host.endswith(entry[1:]) if entry.startswith("*.") else host == entry
