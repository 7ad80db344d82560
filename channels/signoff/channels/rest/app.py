"""The application that the gateway serves under /api/v1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, Query
from fastapi.responses import Response, StreamingResponse
from starlette.middleware import Middleware

from signoff.broker.decisions import Decisions
from signoff.broker.ledger import audit
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.channels.rest import PATH, openapi_json, shapes
from signoff.channels.rest.approvals import add_approvals
from signoff.channels.rest.auth import SCHEME, Anybody, Auditor, Entrance
from signoff.channels.rest.document import document_of
from signoff.channels.rest.freezes import add_freezes
from signoff.channels.rest.grants import add_grants
from signoff.channels.rest.moves import add_moves
from signoff.channels.rest.parameters import require_known
from signoff.channels.rest.people import add_people
from signoff.channels.rest.problems import add_handlers, responses
from signoff.channels.rest.queues import add_queues
from signoff.channels.rest.runs import add_runs
from signoff.client import models
from signoff.core.directory.people import Directory

__all__ = ["PATH", "make_rest", "openapi_document"]

LINES: Final = "application/jsonl"

_ABOUT: Final = """\
Everything that people can do by mail, in Slack and on the page, for programs.

Every request but this document carries `Authorization: Bearer TOKEN`; `signoff tokens create` makes
tokens. A token gets the same response for what does not exist and what it may not see. Errors are
problem documents (RFC 9457). A POST with an `Idempotency-Key` can be repeated: it is carried out
once.
"""


def make_rest(
    decisions: Decisions, is_app: Callable[[str], bool] = lambda _: True, *, rate: int = 0
) -> FastAPI:
    """Return the application, which the caller mounts at `PATH`.

    Args:
        decisions: Submits runs and makes moves.
        is_app: Returns whether an agent of this name may exist.
        rate: The most requests a minute for one token; 0 for no limit.
    """
    app = FastAPI(
        title="Signoff",
        version="1",
        description=_ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        dependencies=[SCHEME, Depends(require_known)],
        middleware=[Middleware(Entrance, decisions=decisions, rate=rate)],
        separate_input_output_schemas=False,
        generate_unique_id_function=lambda route: route.name,
    )
    add_handlers(app, decisions)
    router = app.router
    _add_general(router, decisions)
    add_runs(router, decisions, is_app)
    add_approvals(router, decisions)
    add_moves(router, decisions)
    add_queues(router, decisions)
    add_grants(router, decisions)
    add_people(router, decisions)
    add_freezes(router, decisions)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(openapi_json(), media_type="application/json")

    return app


def _add_general(router: APIRouter, decisions: Decisions) -> None:
    @router.get("/me", name="get_me", tags=["token"], responses=responses())
    async def me(access: Anybody) -> models.Me:
        """Return the token's owner and scopes."""
        return shapes.me(access)

    @router.get(
        "/audit",
        name="export_audit",
        tags=["audit"],
        response_class=StreamingResponse,
        responses={
            **responses(),
            200: {
                "description": "A JSON object a line, the oldest first.",
                "content": {LINES: {"schema": {"$ref": "#/components/schemas/AuditLine"}}},
            },
        },
    )
    async def export(
        access: Auditor,
        after: Annotated[
            str,
            Query(
                pattern=r"^(\d{1,18}-\d{1,18})?$",
                description="The `id` of the last line that was read. The default is the start.",
            ),
        ] = "",
        approval: Annotated[
            str, Query(max_length=128, description="Only entries about this approval.")
        ] = "",
        run: Annotated[str, Query(max_length=128, description="Only entries about this run.")] = "",
    ) -> StreamingResponse:
        """Return the audit log as lines of JSON, up to its current end.

        Each line has its link in the hash chain. `signoff audit verify --file` verifies the whole
        log, but not the lines of one approval or run.
        """
        del access
        # Looked up before the stream begins: an error in the middle of it would come too late.
        known = await decisions.ledger.run_of(approval)
        subject = approval or run
        lines = audit.lines(decisions.ledger.store, subject=subject, run=run or known, after=after)
        return StreamingResponse(lines, media_type=LINES)


def openapi_document() -> dict[str, Any]:
    """Build the OpenAPI document from the code; see `signoff.channels.rest.openapi_json`."""
    # This Redis is never contacted.
    ledger = Ledger(Store.open("redis://localhost"))
    return document_of(make_rest(Decisions(ledger, Directory())), PATH)
