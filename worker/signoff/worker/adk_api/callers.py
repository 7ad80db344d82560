"""Identifies callers: the holder of a token, or the user of this machine."""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Request

from signoff.broker.api_tokens import PREFIX, holder
from signoff.broker.decisions import Decisions
from signoff.broker.limits.throttle import Throttle
from signoff.core.access.scopes import Scope
from signoff.core.directory.people import Person
from signoff.worker.adk_api.local import why_not_local
from signoff.worker.adk_api.problems import Problem
from signoff.worker.adk_api.settings import ANYBODY, ApiToken


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request, and what they may do.

    Attributes:
        name: The name for the log.
        users: The ADK users that they may act for; None for all.
        apps: The agents that they may use; None for all.
        person: The person as whom they answer; None if they may not answer.
        remedy: What to set so that their answers count.
        scopes: Their scopes, as in `signoff tokens create`; None for all.
        token: The id of the token, for the audit log; "" for a token of the settings or none.
    """

    name: str
    users: frozenset[str] | None
    apps: frozenset[str] | None
    person: Person | None
    remedy: str
    scopes: frozenset[Scope] | None = None
    token: str = ""

    def require(self, scope: Scope) -> None:
        """Refuse a request that the scopes do not cover.

        Raises:
            Problem: 403, with the required scope.
        """
        if self.scopes is not None and scope not in self.scopes:
            raise Problem(
                403,
                "scope",
                "The token does not allow this",
                f"This needs the scope {scope}; the token has {', '.join(sorted(self.scopes))}.",
                headers={
                    "WWW-Authenticate": 'Bearer realm="signoff", error="insufficient_scope", '
                    f'scope="{scope}"'
                },
            )

    def may_use(self, app: str, user: str) -> bool:
        """Return whether they may use an agent for a user."""
        return self.may_see(app) and (self.users is None or user in self.users)

    def may_see(self, app: str) -> bool:
        """Return whether they may see an agent."""
        return self.apps is None or app in self.apps


class TokenAuthenticator:
    """Authenticates callers, or raises a `Problem`.

    A token is one that `signoff tokens create` made, or one of the settings. Only programs on this
    machine need no token, while the settings have no tokens and do not forbid it.

    Args:
        tokens: The tokens of the settings.
        decisions: Its ledger has the other tokens, and its directory has the people.
        local: Whether programs of this user on this machine need no token while the settings have
            none.
        local_person: The person as whom the user of this machine then answers.
        rate: How many requests a minute one token of `signoff tokens` may make; 0 for no limit.
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
        """Return the caller of a request, whose token must have the scope, if there is one.

        Raises:
            Problem: 401 without a known token; 403 from another machine, or with a token that lacks
                the scope; 429 if the token was used too often.
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
                # RFC 6750, section 3: no error code if no token was sent.
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
        """Return the holder of a token of the ledger; None if the ledger does not know it."""
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
        """Return the holder of a token of the settings; None if it is not in the settings."""
        # Invalid characters are replaced: a token with them has no known hash.
        hashed = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
        # All hashes are compared, so that the time does not reveal a partial match.
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
    """Refuse a request unless it comes from a program of our own user on this machine."""
    if problem := why_not_local(request):
        raise Problem(
            403,
            "not-local",
            "Without tokens, only programs on this machine are served",
            f"This request is refused: {problem}. Send a token: `signoff tokens create` makes one, "
            "or add a [[gateway.tokens]] table with the `sha256` of one.",
        )
