"""What is wrong with a request, as a problem document (RFC 9457)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import structlog
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from google.adk.events.event import Event
from pydantic import JsonValue, ValidationError
from starlette.requests import ClientDisconnect

from signoff.core.base.errors import (
    AlreadyDecided,
    AppNotFound,
    ApprovalNotFound,
    Conflict,
    IllegalMove,
    InvalidRun,
    LedgerUnavailable,
    NotAnApprover,
    NotCanonical,
    OwnRequest,
    PayloadError,
    RemoteError,
    RemoteUnavailable,
    RunNotFound,
    SecondStepNeeded,
    SignoffError,
    TooLate,
)

log = structlog.get_logger(__name__)

MEDIA_TYPE: Final = "application/problem+json"
_STREAM: Final = "text/event-stream"

KINDS: Final[Mapping[type[SignoffError], tuple[int, str, str]]] = {
    ApprovalNotFound: (404, "not-found", "There is no such call"),
    RunNotFound: (404, "not-found", "There is no such run"),
    AppNotFound: (404, "no-such-app", "There is no such app"),
    OwnRequest: (403, "own-request", "Nobody decides his own request"),
    NotAnApprover: (403, "not-an-approver", "This person is not asked"),
    SecondStepNeeded: (403, "second-step-needed", "It takes a second step that is not taken here"),
    AlreadyDecided: (409, "already-decided", "The call has been answered before"),
    TooLate: (409, "too-late", "The answer came after the deadline"),
    IllegalMove: (409, "already-decided", "The call does not wait for an answer"),
    Conflict: (409, "conflict", "Somebody else changed it at the same moment"),
    PayloadError: (422, "payload", "The values do not fit the request"),
    NotCanonical: (422, "payload", "The values cannot be kept"),
    InvalidRun: (422, "invalid", "This cannot be submitted"),
    RemoteUnavailable: (503, "unavailable", "The agent's server is away"),
    RemoteError: (502, "bad-server", "The agent's server refuses"),
    LedgerUnavailable: (503, "unavailable", "Signoff cannot reach its Redis"),
}
"""Status, type and title of the errors that a request can meet; every other one is ours (500)."""


class Problem(Exception):
    """A request is not carried out; nothing was changed.

    Args:
        status: The HTTP status.
        kind: The last part of the problem's type: ``urn:signoff:problem:<kind>``.
        title: What every problem of this kind is (RFC 9457, section 3.1.4).
        detail: What is wrong with this request, and what to do.
        headers: Headers of the answer.
        more: Further members of the document (RFC 9457, section 3.2).
    """

    def __init__(
        self,
        status: int,
        kind: str,
        title: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: JsonValue,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.title = title
        self.detail = detail
        self.headers = headers
        self.more = more

    def response(self, request: Request) -> Response:
        """Return the answer, in a stream for a client that accepts nothing else.

        The page of ADK looks at no status: of an answer it shows what is an event.
        """
        content = {
            "type": f"urn:signoff:problem:{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }
        headers = None if self.headers is None else dict(self.headers)
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
    """Return the problem that an error is for the person who made the request."""
    for kind in type(error).__mro__:
        if kind in KINDS:
            status, name, title = KINDS[kind]
            more: dict[str, JsonValue] = {}
            if isinstance(error, PayloadError):
                more = {"key": error.key, "read": error.read, "example": error.example}
            headers = {"Retry-After": "2"} if status == 503 else None
            return Problem(status, name, title, str(error), headers=headers, **more)
    return Problem(500, "internal", "Signoff has failed", str(error))


def invalid(error: ValidationError, *, at: str = "") -> Problem:
    """Return the problem that a document of the wrong form is.

    Args:
        error: What pydantic found.
        at: Where in the body the document stands, as a JSON pointer (RFC 6901).
    """
    found = error.errors(include_url=False, include_input=False, include_context=False)[:20]
    errors: list[JsonValue] = [
        {
            "pointer": "".join([at, *(f"/{_escaped(part)}" for part in one["loc"])]),
            "detail": one["msg"],
        }
        for one in found
    ]
    words = "; ".join(
        f"{at}{''.join(f'/{_escaped(part)}' for part in one['loc'])}: {one['msg']}" for one in found
    )
    return Problem(422, "invalid", "The body has the wrong form", words, errors=errors)


def _escaped(part: int | str) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


class ProblemRoute(APIRoute):
    """A route whose errors are answered with problem documents."""

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
                raise  # who went away, or was too slow, is the gateway's to mind
            except Exception:
                log.exception("api.failed", path=request.url.path)
                words = "Something unexpected happened; the log of the gateway says what."
                return Problem(500, "internal", "Signoff has failed", words).response(request)

        return answer
