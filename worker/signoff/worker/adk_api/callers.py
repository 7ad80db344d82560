"""Who makes a request: the holder of a token, or whoever sits at this machine."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import Request

from signoff.core.people import Directory, Person
from signoff.worker.adk_api.problems import Problem
from signoff.worker.adk_api.settings import ANYBODY, ApiToken

_LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request, and what he may do.

    Attributes:
        name: For the log.
        users: For which ADK users; None for all.
        apps: Which agents; None for all.
        person: As whom he answers, None for nobody.
        remedy: What to set so that his answers count.
    """

    name: str
    users: frozenset[str] | None
    apps: frozenset[str] | None
    person: Person | None
    remedy: str

    def may_use(self, app: str, user: str) -> bool:
        """Say whether he may use an agent for a user."""
        return self.may_see(app) and (self.users is None or user in self.users)

    def may_see(self, app: str) -> bool:
        """Say whether he may know of an agent."""
        return self.apps is None or app in self.apps


class Gate:
    """Lets callers in, or raises why not.

    With tokens, nobody comes in without one. Without any, only programs on this machine do.

    Args:
        tokens: The configured tokens.
        directory: The people.
        local_person: As whom whoever sits at this machine answers, while there are no tokens.
    """

    def __init__(
        self, tokens: Sequence[ApiToken], directory: Directory, *, local_person: str = ""
    ) -> None:
        self._tokens = tuple(tokens)
        self._directory = directory
        self._local_person = local_person

    def admit(self, request: Request) -> Caller:
        """Return who makes a request.

        Raises:
            Problem: 401 without a token that is known, 403 from elsewhere than this machine.
        """
        if self._tokens:
            return self._holder(request)
        _require_local(request)
        return Caller(
            name="local",
            users=None,
            apps=None,
            person=self._directory.get(self._local_person) if self._local_person else None,
            remedy='Set [gateway] local_person = "…" to the id of one of [[people]]; without '
            "tokens, whoever sits at this machine answers as that person.",
        )

    def _holder(self, request: Request) -> Caller:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        # What does not fit into a header as it should has no hash that is known.
        hashed = hashlib.sha256(given.strip().encode("utf-8", "replace")).hexdigest()
        # All of them are compared, so that the time says nothing about which one was near.
        found = [one for one in self._tokens if hmac.compare_digest(one.sha256, hashed)]
        if scheme.lower() != "bearer" or not given.strip() or not found:
            raise Problem(
                401,
                "unauthenticated",
                "A token is needed",
                "Send `Authorization: Bearer TOKEN` with a token whose SHA-256 is the `sha256` of "
                "one of [[gateway.tokens]].",
                # RFC 6750, section 3: no error code where no token was sent.
                headers={
                    "WWW-Authenticate": 'Bearer realm="signoff"'
                    + (', error="invalid_token"' if given else "")
                },
            )
        token = found[0]
        return Caller(
            name=token.name or f"token {token.sha256[:8]}",
            users=None if ANYBODY in token.users else frozenset(token.users),
            apps=frozenset(token.apps) if token.apps else None,
            person=self._directory.get(token.person) if token.person else None,
            remedy="Set `person` of this token in [[gateway.tokens]] to the id of one of "
            "[[people]].",
        )


def _require_local(request: Request) -> None:
    """Refuse whatever may not be a program on this machine that its user has started.

    The address tells other machines apart, unless something forwards; `Host` tells a browser that
    was led here by another name (DNS rebinding); `Origin` and `Sec-Fetch-Site` tell a page from
    elsewhere (both are sent by the browser itself, whatever the page wants).
    """
    headers = request.headers
    hosts = headers.getlist("host")
    problem = ""
    if not _is_loopback(request.client.host if request.client else ""):
        problem = "it comes from another machine"
    elif any(name in headers for name in _FORWARDED):
        problem = "it was forwarded"
    elif len(hosts) != 1 or _without_port(hosts[0]) not in _LOCAL_HOSTS:
        problem = "its Host is not localhost, 127.0.0.1 or [::1]"
    elif any(one != f"http://{hosts[0]}" for one in headers.getlist("origin")) or headers.get(
        "sec-fetch-site", "none"
    ) not in {"none", "same-origin"}:
        problem = "a web page from elsewhere has sent it"
    if problem:
        raise Problem(
            403,
            "not-local",
            "Without tokens, only programs on this machine are served",
            f"This request is refused: {problem}. Add a [[gateway.tokens]] table with the "
            "`sha256` of a token, and send that token.",
        )


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _without_port(host: str) -> str:
    name, mark, port = host.rpartition(":")
    return (name if mark and port.isdigit() else host).lower()
