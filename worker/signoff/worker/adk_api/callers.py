"""Who makes a request: the holder of a token, or the user of this machine."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import Request

from signoff.broker.api_tokens import PREFIX, holder
from signoff.broker.decisions import Decisions
from signoff.broker.limits.throttle import Throttle
from signoff.core.access.scopes import Scope
from signoff.core.directory.people import Person
from signoff.worker.adk_api.neighbours import is_own
from signoff.worker.adk_api.problems import Problem
from signoff.worker.adk_api.settings import ANYBODY, ApiToken

_LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_FORWARDED: Final = re.compile(
    r"""forwarded | via | x-forwarded.* | x-real-ip | (.*-)?client-ip  # RFC 7239, 9110; customs
    | cf-.* | cdn-.* | fastly-.* | x-(amz|amzn|appengine|azure|cloud|envoy|original|proxy)-.*
    | proxy-.* | x-cluster-.* | x-request-start""",
    re.VERBOSE,
)
"""Names of headers that a proxy, a tunnel or a content network adds, and no client does."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request, and what they may do.

    Attributes:
        name: For the log.
        users: For which ADK users; None for all.
        apps: Which agents; None for all.
        person: As whom they answer, None for nobody.
        remedy: What to set so that their answers count.
        scopes: What for, of those that `signoff tokens create` knows; None for everything.
        token: The id of the token, for the audit; "" where the settings or nobody has given one.
    """

    name: str
    users: frozenset[str] | None
    apps: frozenset[str] | None
    person: Person | None
    remedy: str
    scopes: frozenset[Scope] | None = None
    token: str = ""

    def require(self, scope: Scope) -> None:
        """Refuse what the token is not good for.

        Raises:
            Problem: 403, with the scope that it takes.
        """
        if self.scopes is not None and scope not in self.scopes:
            raise Problem(
                403,
                "scope",
                "The token is not good for this",
                f"It takes the scope {scope}; this token has {', '.join(sorted(self.scopes))}.",
                headers={
                    "WWW-Authenticate": 'Bearer realm="signoff", error="insufficient_scope", '
                    f'scope="{scope}"'
                },
            )

    def may_use(self, app: str, user: str) -> bool:
        """Say whether they may use an agent for a user."""
        return self.may_see(app) and (self.users is None or user in self.users)

    def may_see(self, app: str) -> bool:
        """Say whether they may know of an agent."""
        return self.apps is None or app in self.apps


class Gate:
    """Lets callers in, or raises why not.

    A token is one that `signoff tokens create` made, or one of the settings. Without one nobody
    comes in, but programs on this machine while the settings have none and do not say otherwise.

    Args:
        tokens: The tokens of the settings.
        decisions: Its ledger has the other tokens, and its directory the people.
        local: Whether programs of this user on this machine need no token while the settings have
            none.
        local_person: The person as whom the user of this machine answers then.
        rate: How many requests a minute one token of `signoff tokens` may make; 0 for any number.
    """

    def __init__(
        self,
        tokens: Sequence[ApiToken],
        decisions: Decisions,
        *,
        local: bool = False,
        local_person: str = "",
        rate: int = 0,
    ) -> None:
        self._tokens = tuple(tokens)
        self._decisions = decisions
        self._local = local and not tokens
        self._local_person = local_person
        self._rate = rate
        self._throttle = Throttle(decisions.ledger.store)

    async def admit(self, request: Request, scope: Scope | None = None) -> Caller:
        """Return who makes a request.

        Args:
            request: The request.
            scope: What for; None for what every token is good for.

        Raises:
            Problem: 401 without a token that is known, 403 from elsewhere than this machine or with
                a token that is not good for this, 429 where it was used too often.
            LedgerUnavailable: Redis cannot be reached.
        """
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        token = given.strip() if scheme.lower() == "bearer" else ""
        caller = await self._kept(token) or self._configured(token)
        if caller is None:
            caller = self._without(request, given)
        if scope is not None:
            caller.require(scope)
        return caller

    def _without(self, request: Request, given: str) -> Caller:
        """Return the user of this machine."""
        # A token that was revoked must not give its holder more rights.
        if not self._local or given.strip().startswith(PREFIX):
            raise Problem(
                401,
                "unauthenticated",
                "A token is needed",
                "Send `Authorization: Bearer TOKEN` with a token that `signoff tokens create` "
                "made, or whose SHA-256 is the `sha256` of one of [[gateway.tokens]].",
                # RFC 6750, section 3: no error code where no token was sent.
                headers={
                    "WWW-Authenticate": 'Bearer realm="signoff"'
                    + (', error="invalid_token"' if given else "")
                },
            )
        _require_local(request)
        return Caller(
            name="local",
            users=None,
            apps=None,
            person=self._person(self._local_person),
            remedy='Set [gateway] local_person = "…" to the id of one of [[people]]; without '
            "tokens, the user of this machine answers as that person.",
        )

    async def _kept(self, token: str) -> Caller | None:
        """Return the holder of a token that the ledger keeps, None where it has none like it."""
        if not token.startswith(PREFIX):
            return None
        found = await holder(self._decisions.ledger, self._decisions.directory, token)
        if found is None:
            return None
        if wait := await self._throttle.token_pause(found.id, self._rate):
            seconds = math.ceil(wait)
            raise Problem(
                429,
                "too-many-requests",
                "Too many requests",
                f"This token may make {self._rate:,} requests a minute ([gateway] rate). Come "
                f"again in {seconds} seconds.",
                headers={"Retry-After": str(seconds)},
            )
        users = frozenset(found.users) | ({found.person} if found.person else frozenset())
        return Caller(
            name=found.shown,
            users=None if ANYBODY in users else users,
            apps=frozenset(found.apps) if found.apps else None,
            person=self._person(found.person) if found.allows(Scope.APPROVALS_DECIDE) else None,
            remedy=f"A token does with `--person` and the scope {Scope.APPROVALS_DECIDE}: "
            "`signoff tokens create`.",
            scopes=found.scopes,
            token=found.id,
        )

    def _configured(self, token: str) -> Caller | None:
        """Return the holder of a token of the settings, None where none of them is this one."""
        # What does not fit into a header as it should has no hash that is known.
        hashed = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
        # All of them are compared, so that the time says nothing about which one was near.
        found = [one for one in self._tokens if hmac.compare_digest(one.sha256, hashed)]
        if not token or not found:
            return None
        one = found[0]
        return Caller(
            name=one.name or f"token {one.sha256[:8]}",
            users=None if ANYBODY in one.users else frozenset(one.users),
            apps=frozenset(one.apps) if one.apps else None,
            person=self._person(one.person),
            remedy="Set `person` of this token in [[gateway.tokens]] to the id of one of "
            "[[people]].",
        )

    def _person(self, person_id: str) -> Person | None:
        return self._decisions.directory.get(person_id) if person_id else None


def _require_local(request: Request) -> None:
    """Refuse whatever may not be a program on this machine that its user has started.

    The address tells other machines apart, unless something forwards. A proxy is known by the
    headers that it adds, by HTTP/1.0 (nginx's default, which no client of today speaks) or by its
    user; so are the machine's other users. `Host` tells a browser that was led here by another name
    (DNS rebinding); `Origin` and `Sec-Fetch-Site` tell a page from elsewhere (both are sent by the
    browser itself, whatever the page wants).
    """
    headers = request.headers
    hosts = headers.getlist("host")
    problem = ""
    if not _is_loopback(request.client.host if request.client else ""):
        problem = "it comes from another machine"
    elif request.scope.get("http_version") == "1.0" or any(map(_FORWARDED.fullmatch, headers)):
        problem = "it was forwarded"
    elif not _is_own(request):
        problem = "a program of another user of this machine has sent it"
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
            f"This request is refused: {problem}. Send a token: `signoff tokens create` makes one, "
            "or add a [[gateway.tokens]] table with the `sha256` of one.",
        )


def _is_own(request: Request) -> bool:
    server = request.scope.get("server")
    return (
        request.client is not None
        and server is not None
        and is_own(request.client.port, int(server[1] or 0))
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
