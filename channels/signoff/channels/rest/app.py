"""The application that the gateway serves under /api/v1."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Final

from fastapi import APIRouter, FastAPI, Query
from fastapi.openapi.utils import get_openapi
from fastapi.responses import StreamingResponse
from starlette.middleware import Middleware

from signoff.broker import audit
from signoff.broker.desk import Desk
from signoff.channels.rest import shapes
from signoff.channels.rest.approvals import make_approvals
from signoff.channels.rest.entrance import SCHEME, Anybody, Auditor, Entrance
from signoff.channels.rest.moves import make_moves
from signoff.channels.rest.problems import add_handlers, responses
from signoff.channels.rest.runs import make_runs
from signoff.client import models

PATH: Final = "/api/v1"
LINES: Final = "application/x-ndjson"

_ABOUT: Final = """\
Everything that people do by mail, in Slack and on the page, for programs.

Every request but this document carries `Authorization: Bearer TOKEN`; `signoff tokens create` makes
tokens. What is not there and what a token may not see have the same answer. Whatever goes wrong is
a problem document (RFC 9457). A POST with an `Idempotency-Key` can be sent again: it is carried out
once.
"""


def make_rest(desk: Desk, is_app: Callable[[str], bool] = lambda _: True) -> FastAPI:
    """Return the application, to be mounted at `PATH`.

    Args:
        desk: Submits and decides.
        is_app: Says whether there is an agent of this name, as far as is known here.
    """
    app = FastAPI(
        title="Signoff",
        version="1",
        description=_ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        dependencies=[SCHEME],
        middleware=[Middleware(Entrance, desk=desk)],
        separate_input_output_schemas=False,
        generate_unique_id_function=lambda route: route.name,
    )
    add_handlers(app)
    for router in (_general(desk), make_runs(desk, is_app), make_approvals(desk), make_moves(desk)):
        app.include_router(router)
    document = _document(app)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> dict[str, Any]:
        return document

    return app


def _general(desk: Desk) -> APIRouter:
    router = APIRouter()

    @router.get("/me", name="get_me", tags=["token"], responses=responses())
    async def me(access: Anybody) -> models.Me:
        """Return whose token it is, and what it is good for."""
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
                description="The `id` of the last line that was read; without it, all of it.",
            ),
        ] = "",
    ) -> StreamingResponse:
        """Return the audit as lines of JSON, to its present end."""
        del access
        await desk.ledger.now()
        return StreamingResponse(_lines(desk, after), media_type=LINES)

    return router


async def _lines(desk: Desk, after: str) -> AsyncIterator[str]:
    async for entry_id, text, link in audit.entries(desk.ledger.store, after=after):
        yield shapes.audit_line(entry_id, text, link)


def _document(app: FastAPI) -> dict[str, Any]:
    made = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        servers=[{"url": PATH}],
    )
    schemas = made["components"]["schemas"]
    for model in (models.Problem, models.AuditLine):
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    for path in made["paths"].values():
        for method, operation in path.items():
            if method == "post":
                operation.setdefault("parameters", []).append(_KEY)
    return made


_KEY: Final[dict[str, Any]] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Carry this out once, however often it is sent; known for a day.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
