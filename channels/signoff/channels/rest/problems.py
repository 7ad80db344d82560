"""Errors as problem documents (RFC 9457), and their schema in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import JsonValue
from starlette.exceptions import HTTPException

from signoff.broker.decisions import Decisions
from signoff.channels.web.problems import Problem, nothing_here
from signoff.core.access.api_tokens import Access
from signoff.core.approvals.moves import Actor
from signoff.core.base.errors import (
    ApprovalNotFound,
    DecisionRefused,
    LedgerError,
    RecordUnreadable,
    SignoffError,
)
from signoff.core.base.plain import plainly
from signoff.core.base.problems import KINDS, MEDIA_TYPE, Kinds

log = structlog.get_logger(__name__)

CHANNEL: Final = "api"
IN_FLIGHT: Final = "in-flight"

_REFUSED: Final = frozenset({403, 404, 409})

_KINDS: Final[Kinds] = {**KINDS, RecordUnreadable: (500, "unreadable", "A record cannot be read")}

_WORDS: Final = {
    304: "Not changed",
    400: "Not JSON",
    401: "No token that is known",
    403: "Not allowed",
    404: "Not found, or not visible to this token",
    408: "Too slow",
    409: "Already decided, too late, or the same request is still running",
    413: "The body is too large",
    415: "Not JSON",
    422: "The wrong form, or values that do not fit",
    429: "Too many requests: come again after `Retry-After` seconds",
    500: "Signoff has failed",
    503: "Signoff cannot reach its Redis",
}


def not_found(thing: str, name: str) -> Problem:
    """Return the problem for a thing that does not exist, or that the client may not see."""
    return Problem(
        404,
        "not-found",
        f"There is no such {thing}",
        f"There is no {thing} {name!r} that this token may see.",
    )


def problem_of(error: SignoffError) -> Problem:
    """Return the problem document's content for an error."""
    return Problem.of(error, _KINDS)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problem responses of a route for the OpenAPI document."""
    schema = {"$ref": "#/components/schemas/Problem"}
    usual = (401, 403, 422, 429, 500, 503)
    return {
        status: {"description": _WORDS[status], "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in sorted({*usual, *statuses})
    }


def add_handlers(app: FastAPI, decisions: Decisions) -> None:
    """Make an application answer every error with a problem document.

    Requests that are refused before a move are recorded in the audit here.
    """

    @app.exception_handler(Problem)
    async def refused(request: Request, problem: Problem) -> JSONResponse:
        await _note(decisions, request, problem)
        return problem.response()

    @app.exception_handler(SignoffError)
    async def translated(request: Request, error: SignoffError) -> JSONResponse:
        problem = problem_of(error)
        if problem.status >= 500:
            log.warning("rest.failed", path=request.url.path, error=str(error))
        return problem.response()

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        del request
        return _invalid(error.errors()).response()

    @app.exception_handler(HTTPException)
    async def foreign(request: Request, error: HTTPException) -> JSONResponse:
        return nothing_here(request, error).response()


async def _note(decisions: Decisions, request: Request, problem: Problem) -> None:
    """Record in the audit that a request about an approval was not permitted."""
    about = str(request.path_params.get("approval_id", ""))
    access: Access | None = getattr(request.state, "access", None)
    if request.method == "POST" and problem.status in _REFUSED and about and access is not None:
        await note_problem(decisions, access, about, problem)


async def note_problem(
    decisions: Decisions, access: Access, approval: str, problem: Problem
) -> None:
    """Record in the audit that a token's request about an approval was refused.

    A token that may not see the approval gets "not found", and the audit records the attempt. A
    request that is still being carried out is not a refusal. An approval that does not exist has no
    audit.
    """
    if problem.kind == IN_FLIGHT:
        return
    who = access.person or access.shown
    actor = Actor(None, CHANNEL, {"token": access.id}, known_as=who)
    try:
        seen = access.sees(await decisions.ledger.approval(approval), decisions.directory)
        why = str(problem) if seen else f"{who} may not see this approval."
        await decisions.refuse(approval, DecisionRefused(why), actor)
    except ApprovalNotFound:
        return
    except LedgerError as error:
        # Nothing was done, and the response says so.
        log.warning("rest.refusal_not_noted", approval=approval, error=str(error))


def _invalid(errors: Sequence[Any]) -> Problem:
    faults: list[dict[str, JsonValue]] = []
    for one in errors[:20]:
        where, *path = (str(part) for part in one["loc"])
        pointer = "/".join(["", *(part.replace("~", "~0").replace("/", "~1") for part in path)])
        faults.append(
            {"pointer": pointer if where == "body" else "".join(path), "detail": plainly(one)}
        )
    words = "; ".join(f"{one['pointer'] or 'the body'}: {one['detail']}" for one in faults)
    return Problem(422, "invalid", "The request has the wrong form", words, errors=list(faults))
