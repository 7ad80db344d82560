"""Parses hosts and logins in URLs that name several servers."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

NO_URL: Final = (
    "it is not a URL. Ports are numbers up to 65535, and special characters in user and password "
    "are percent-encoded: %2F for a slash, %23 for #, %3F for ?, %40 for @"
)
"""What is wrong with a URL that `split_url` cannot parse."""
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


def split_url(text: str) -> SplitResult | None:
    """Return the parts of a URL with one host; None if the text is not such a URL.

    The errors of `urllib.parse` quote what follows the first colon, which is the beginning of a
    password with a slash, a question mark or a number sign in it.
    """
    try:
        parts = urlsplit(text)
        _ = parts.port  # parsed on access
    except ValueError:
        return None
    return None if parts.fragment else parts


def read_login(credentials: str) -> dict[str, str]:
    """Return the user and password that precede the hosts of a URL, if given."""
    user, _, password = credentials.partition(":")
    login = {"username": unquote(user), "password": unquote(password)}
    return {key: one for key, one in login.items() if one}


def read_options(query: str) -> dict[str, str]:
    """Return the options behind the question mark of a URL; the last of each name counts."""
    return {name: found[-1] for name, found in parse_qs(query).items()}
