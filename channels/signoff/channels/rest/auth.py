"""The entrance of the API: nobody comes in without a token, and nothing larger than a limit."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from pydantic_core import from_json
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signoff.broker.decisions import Decisions
from signoff.channels.rest.problems import problem_of
from signoff.channels.web.bearer import Bearers
from signoff.channels.web.problems import Problem, read_body
from signoff.core.access import api_tokens
from signoff.core.access.api_tokens import Access
from signoff.core.base.errors import SignoffError

MOST: Final = 1024 * 1024
"""The largest body, in bytes."""

PUBLIC: Final = frozenset({"/openapi.json"})
"""What is served without a token: it says nothing about who works here."""

_METHODS_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


class Entrance:
    """Lets requests in whose token is known, with the whole body read.

    The token comes first: who has none makes nobody read a body.

    Args:
        app: What is behind it.
        decisions: Its ledger keeps the tokens, and its directory the people.
        rate: How many requests a minute one token may make; 0 for any number.
    """

    def __init__(self, app: ASGIApp, decisions: Decisions, rate: int = 0) -> None:
        self._app = app
        self._bearers = Bearers(decisions, rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            if scope["path"].removeprefix(scope.get("root_path", "")) not in PUBLIC:
                request.state.access, _ = await self._bearers.admit(request)
            receive = await _whole(request)
        except Problem as problem:
            await problem.response()(scope, receive, send)
            return
        except SignoffError as error:
            await problem_of(error).response()(scope, receive, send)
            return
        await self._app(scope, receive, send)


async def _whole(request: Request) -> Receive:
    """Read the body, and return what hands it on.

    Raises:
        Problem: It is too large, or not JSON.
    """
    body = await read_body(request, MOST)
    if body and request.method in _METHODS_WITH_BODY:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Problem(415, "not-json", "The body is not JSON", "Send application/json.")
        try:
            # Stricter than what parses it behind: no NaN, no half of a character, no deep nesting.
            from_json(body, allow_inf_nan=False)
        except ValueError as error:
            raise Problem(400, "not-json", "The body is not JSON", f"{error}.") from error

    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        # Behind the body comes what the server says: that the client went away.
        return parts.pop() if parts else await request.receive()

    return receive


def _access(request: Request) -> Access:
    found: Access = request.state.access
    return found


class Needs:
    """A dependency that lets only those on whose tokens are good for something.

    Args:
        scope: What for.
        or_admin: Whether an administrator's is good for it too, whatever it decides.
    """

    def __init__(self, scope: api_tokens.Scope, *, or_admin: bool = False) -> None:
        self._scope = scope
        self._or_admin = or_admin

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes any of which will do."""
        admin = self._or_admin or self._scope in api_tokens.BY_ADMIN
        return (self._scope.value, api_tokens.Scope.ADMIN.value) if admin else (self._scope.value,)

    def __call__(self, request: Request) -> Access:
        """Return whose request it is.

        Raises:
            Problem: 403 where the token is not good for this.
        """
        found = _access(request)
        if not (found.allows(self._scope) or (self._or_admin and found.is_admin)):
            raise Problem(
                403,
                "scope",
                "The token is not good for this",
                f"It takes the scope {self._scope}; this token has "
                f"{', '.join(sorted(found.scopes))}.",
                headers={
                    "WWW-Authenticate": 'Bearer realm="signoff", error="insufficient_scope", '
                    f'scope="{self._scope}"'
                },
            )
        return found


SCHEME: Final = Security(
    HTTPBearer(auto_error=False, description="A token that `signoff tokens create` made.")
)
"""For the OpenAPI document alone: `Entrance` has looked at the token before."""

Anybody = Annotated[Access, Depends(_access)]
Submitter = Annotated[Access, Depends(Needs(api_tokens.Scope.RUNS_SUBMIT))]
RunReader = Annotated[Access, Depends(Needs(api_tokens.Scope.RUNS_READ))]
Reader = Annotated[Access, Depends(Needs(api_tokens.Scope.APPROVALS_READ))]
Decider = Annotated[Access, Depends(Needs(api_tokens.Scope.APPROVALS_DECIDE))]
Handler = Annotated[Access, Depends(Needs(api_tokens.Scope.APPROVALS_DECIDE, or_admin=True))]
Withdrawer = Annotated[Access, Depends(Needs(api_tokens.Scope.APPROVALS_WITHDRAW))]
Administrator = Annotated[Access, Depends(Needs(api_tokens.Scope.ADMIN))]
Auditor = Annotated[Access, Depends(Needs(api_tokens.Scope.AUDIT_READ))]
