"""The errors of requests as problem documents (RFC 9457)."""

from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from google.adk.events.event import Event
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from pydantic.alias_generators import to_camel
from starlette.requests import ClientDisconnect

from signoff.core.base import problems
from signoff.core.base.errors import (
    AlreadyDecided,
    AppNotFound,
    ApprovalNotFound,
    IllegalMove,
    RemoteError,
    RemoteUnavailable,
    SignoffError,
)
from signoff.core.base.plain import plainly
from signoff.core.base.problems import MEDIA_TYPE, BaseProblem, Kinds

log = structlog.get_logger(__name__)

_STREAM: Final = "text/event-stream"

KINDS: Final[Kinds] = {
    **problems.KINDS,
    ApprovalNotFound: (404, "not-found", "There is no such call"),
    AppNotFound: (404, "no-such-app", "There is no such app"),
    AlreadyDecided: (409, "already-decided", "The call has been answered before"),
    IllegalMove: (409, "already-decided", "The call does not wait for an answer"),
    RemoteUnavailable: (503, "unavailable", "The agent's server is away"),
    RemoteError: (502, "bad-server", "The agent's server refuses"),
}
"""The status, the kind and the title of each error that a request can raise."""


class Problem(BaseProblem):
    """A problem of the ADK API."""

    retry_after = 2

    def response(self, request: Request) -> Response:
        """Return the response; as a stream for a client that accepts only streams.

        ADK's page ignores the status and shows only events, so the problem is an event there.
        """
        content, headers = self.document(), self.headers
        if request.headers.get("accept", "").strip().casefold() != _STREAM:
            return JSONResponse(
                content, status_code=self.status, media_type=MEDIA_TYPE, headers=headers
            )
        event = Event(
            author="signoff",
            error_code=self.kind,
            error_message=f"{self.title}. {self.detail}",
            custom_metadata={"problem": content},
        )
        told = event.model_dump_json(by_alias=True, exclude_none=True)
        return Response(
            f"data: {told}\n\n", status_code=self.status, media_type=_STREAM, headers=headers
        )


def problem_of(error: SignoffError) -> Problem:
    """Return the problem for an error."""
    return Problem.of(error, KINDS)


class Body(BaseModel):
    """A body in the wire form of ADK's API server."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


def misformed(detail: str) -> Problem:
    """Return the problem for a body of the wrong form."""
    return Problem(422, "invalid", "The body has the wrong form", detail)


def not_served(status: int, detail: str) -> Problem:
    """Return the problem for a path of ADK's server that is not served here: 404 or 501."""
    return Problem(status, "not-served", "This is not served", detail)


def not_your_user(detail: str) -> Problem:
    """Return the problem for a token of other users or apps."""
    return Problem(403, "not-your-user", "This token is not for this user", detail)


def session_busy(detail: str) -> Problem:
    """Return the problem for a session that is in use at this moment."""
    headers = {"Retry-After": "2"}
    return Problem(409, "session-busy", "The session is being run", detail, headers=headers)


def unknown_name(detail: str) -> Problem:
    """Return the problem for a function response whose name is not that of its call."""
    return Problem(400, "unknown-name", "This name is not taken", detail)


def invalid(error: ValidationError, *, at: str = "") -> Problem:
    """Return the problem for a document of the wrong form.

    Args:
        error: The error of pydantic.
        at: The place of the document in the body, as a JSON pointer (RFC 6901).
    """
    found = error.errors(include_url=False, include_input=False)[:20]
    errors: list[JsonValue] = [
        {
            "pointer": "".join([at, *(f"/{_escaped(part)}" for part in one["loc"])]),
            "detail": plainly(one),
        }
        for one in found
    ]
    words = "; ".join(
        f"{at}{''.join(f'/{_escaped(part)}' for part in one['loc'])}: {plainly(one)}"
        for one in found
    )
    return Problem(422, "invalid", "The body has the wrong form", words, errors=errors)


def _escaped(part: int | str) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


class ProblemRoute(APIRoute):
    """A route that answers errors with problem documents."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, with its errors translated."""
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except Problem as problem:
                return problem.response(request)
            except SignoffError as error:
                translated = problem_of(error)
                if translated.status >= 500:
                    log.warning("api.failed", path=request.url.path, error=str(error))
                return translated.response(request)
            except ClientDisconnect:
                raise  # the gateway handles clients that disconnect or are too slow
            except Exception:
                log.exception("api.failed", path=request.url.path)
                words = "Something unexpected happened; the log of the gateway says what."
                return Problem(500, "internal", "Signoff has failed", words).response(request)

        return answer
