"""The routes of freezes: list them, freeze tools immediately, and thaw them."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Request, Response

from signoff.broker.decisions import Decisions
from signoff.broker.freezes import Freezes
from signoff.channels.rest import bodies, shapes
from signoff.channels.rest.auth import Administrator, Reader
from signoff.channels.rest.idempotency_keys import once
from signoff.channels.rest.idempotent import author_of, proof_of
from signoff.channels.rest.problems import not_found, responses
from signoff.channels.web.problems import Problem
from signoff.client import models
from signoff.core.access.api_tokens import Access
from signoff.core.base.freezes import Freeze

log = structlog.get_logger(__name__)

FreezeId = Annotated[str, Path(max_length=64, description="The id of a freeze.")]


class FreezeRoutes:
    """The routes.

    Everybody who may read approvals may list freezes. Administrators freeze and thaw. A token that
    is limited to some apps can freeze and thaw only those.
    """

    def __init__(self, decisions: Decisions) -> None:
        self._ledger = decisions.ledger
        self._freezes = Freezes(decisions.ledger)

    async def search(self, access: Reader) -> list[models.Freeze]:
        """List what is frozen, the oldest freeze first."""
        return [shapes.freeze(one) for one in await self._freezes.all() if _sees(access, one)]

    async def freeze(
        self, access: Administrator, body: bodies.Freeze, request: Request, response: Response
    ) -> models.Freeze:
        """Stop tools immediately, including approved calls. Calls wait until the thaw.

        Send an app, a tool, or both; or only `everything`.
        """
        blank = any(one and not one.strip() for one in (body.app, body.tool))
        if blank or body.everything == bool(body.app or body.tool):
            detail = "Name an app, a tool, or both; or send everything = true alone."
            raise Problem(422, "freeze", "It does not say what to freeze", detail)
        _require(access, body.app)
        async with once(self._ledger, access, request, response) as attempt:
            if attempt.about:
                return shapes.freeze(await self._found(access, attempt.about))
            made = await self._freezes.freeze(
                app=body.app,
                tool=body.tool,
                by=author_of(access),
                why=body.why,
                more=proof_of(access),
                also=attempt.done,
            )
        log.info("rest.frozen", freeze=made.id, stops=made.stops, token=access.id)
        return shapes.freeze(made)

    async def thaw(
        self,
        access: Administrator,
        freeze_id: FreezeId,
        body: bodies.Thaw,
        request: Request,
        response: Response,
    ) -> list[models.Freeze]:
        """End a freeze: held calls continue. The response lists what is still frozen."""
        async with once(self._ledger, access, request, response) as attempt:
            if not attempt.about:
                found = await self._found(access, freeze_id)
                _require(access, found.app)
                await self._freezes.thaw(
                    app=found.app,
                    tool=found.tool,
                    by=author_of(access),
                    why=body.why,
                    more=proof_of(access),
                    also=attempt.done,
                )
                log.info("rest.thawed", freeze=freeze_id, token=access.id)
        return await self.search(access)

    async def _found(self, access: Access, freeze_id: str) -> Freeze:
        for one in await self._freezes.all():
            if one.id == freeze_id and _sees(access, one):
                return one
        raise not_found("freeze", freeze_id)


def _sees(access: Access, one: Freeze) -> bool:
    return not one.app or access.may_use(one.app)


def _require(access: Access, app: str) -> None:
    """Refuse a token that is limited to some apps if the freeze concerns others, or all.

    Raises:
        Problem: The token is limited to other apps.
    """
    if access.apps and not (app and access.may_use(app)):
        apps = ", ".join(sorted(access.apps))
        detail = f"The token is for {apps}. Name one of these as the app."
        raise Problem(403, "not-your-app", "The token is not for this app", detail)


def add_freezes(router: APIRouter, decisions: Decisions) -> None:
    """Add the routes of freezes."""
    routes = FreezeRoutes(decisions)
    add, writes = (
        partial(router.add_api_route, tags=["freezes"]),
        responses(400, 404, 408, 409, 413, 415),
    )
    add("/freezes", routes.search, methods=["GET"], name="list_freezes", responses=responses())
    add("/freezes", routes.freeze, methods=["POST"], name="freeze", responses=writes)
    thaw = "/freezes/{freeze_id}/thaw"
    add(thaw, routes.thaw, methods=["POST"], name="thaw", responses=writes)
