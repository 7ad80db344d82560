"""Parses hosts and logins in URLs that name several servers."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs, unquote

PATIENCE: Final = 2.0
"""Seconds after which a server that does not answer counts as unreachable."""

Address = tuple[str, int]
"""Host and port."""


def read_address(text: str, default: int) -> Address | None:
    """Return the host and port, None if the text is neither HOST nor HOST:PORT."""
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        host, port = text, str(default)
    host = host.removeprefix("[").removesuffix("]")
    return (host, int(port)) if host and port.isdigit() else None


def read_login(credentials: str) -> dict[str, str]:
    """Return the user and password that precede the hosts of a URL, if given."""
    user, _, password = credentials.partition(":")
    login = {"username": unquote(user), "password": unquote(password)}
    return {key: one for key, one in login.items() if one}


def read_options(query: str) -> dict[str, str]:
    """Return the options behind the question mark of a URL; the last of each name counts."""
    return {name: found[-1] for name, found in parse_qs(query).items()}
