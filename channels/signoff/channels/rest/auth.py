"""The entrance of the API: it refuses requests without a token, and bodies above a limit."""

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
"""The paths that do not need a token; they reveal nothing about the installation."""

_METHODS_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


class Entrance:
    """Admits requests with a valid token, and reads their whole body.

    The token is checked first: the body of a request without one is not read.

    Args:
        app: The application behind it.
        decisions: Gives access to the ledger, which keeps the tokens, and to the directory.
        rate: The most requests a minute for one token; 0 for no limit.
    """

    def __init__(self, app: ASGIApp, decisions: Decisions, rate: int = 0) -> None:
        self._app = app
        self._bearers = Bearers(decisions, rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
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
    """Read the body, and return a `receive` that passes it on.

    Raises:
        Problem: It is too large, or not JSON.
    """
    body = await read_body(request, MOST)
    if body and request.method in _METHODS_WITH_BODY:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Problem(415, "not-json", "The body is not JSON", "Send application/json.")
        try:
            # Stricter than the later parser: it refuses NaN, lone surrogates and deep nesting.
            from_json(body, allow_inf_nan=False)
        except ValueError as error:
            raise Problem(400, "not-json", "The body is not JSON", f"{error}.") from error

    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        # After the body, the server reports when the client disconnects.
        return parts.pop() if parts else await request.receive()

    return receive


def _access(request: Request) -> Access:
    found: Access = request.state.access
    return found


class Needs:
    """A dependency that requires a scope of the token, or (`or_admin`) one of an administrator."""

    def __init__(self, scope: api_tokens.Scope, *, or_admin: bool = False) -> None:
        self._scope = scope
        self._or_admin = or_admin

    @property
    def scopes(self) -> tuple[str, ...]:
        """The accepted scopes; the token needs one of them."""
        admin = self._or_admin or self._scope in api_tokens.BY_ADMIN
        names = (self._scope.value, api_tokens.Scope.ADMIN.value) if admin else (self._scope.value,)
        return tuple(dict.fromkeys(names))

    def __call__(self, request: Request) -> Access:
        """Return the access of the token.

        Raises:
            Problem: 403 if the token does not have the scope.
        """
        found = _access(request)
        if not (found.allows(self._scope) or (self._or_admin and found.is_admin)):
            raise Problem(
                403,
                "scope",
                "The token does not have the required scope",
                f"This requires the scope {self._scope}; the token has "
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
"""Only for the OpenAPI document: `Entrance` has already checked the token."""

Anybody = Annotated[Access, Depends(_access)]
Submitter = Annotated[Access, Depends(Needs(api_tokens.Scope.RUNS_SUBMIT))]
RunReader = Annotated[Access, Depends(Needs(api_tokens.Scope.RUNS_READ))]
Reader = Annotated[Access, Depends(Needs(api_tokens.Scope.APPROVALS_READ))]
Decider = Annotated[Access, Depends(Needs(api_tokens.Scope.APPROVALS_DECIDE))]
Handler = Annotated[Access, Depends(Needs(api_tokens.Scope.APPROVALS_DECIDE, or_admin=True))]
Withdrawer = Annotated[Access, Depends(Needs(api_tokens.Scope.APPROVALS_WITHDRAW))]
Administrator = Annotated[Access, Depends(Needs(api_tokens.Scope.ADMIN))]
Auditor = Annotated[Access, Depends(Needs(api_tokens.Scope.AUDIT_READ))]
