"""The routes of grants: give, list and revoke them."""

from functools import partial
from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from signoff.broker.decisions import Decisions, Extras
from signoff.broker.grants import Grants
from signoff.broker.ledger import listing
from signoff.channels.rest import bodies, shapes
from signoff.channels.rest.auth import Decider, Handler, Reader
from signoff.channels.rest.idempotency_keys import once
from signoff.channels.rest.idempotent import (
    Id,
    IdempotentRequests,
    actor_of,
    author_of,
    length_of,
    same_call,
)
from signoff.channels.rest.pages import Paging, page
from signoff.channels.rest.problems import not_found, note_problem, responses
from signoff.channels.web.problems import Problem
from signoff.client import models
from signoff.core.access.api_tokens import Access
from signoff.core.approvals.collaboration import Operator
from signoff.core.base.errors import GrantNotFound
from signoff.core.grants.grant import Grant, grant_id
from signoff.core.grants.moves import GiveGrant

log = structlog.get_logger(__name__)

GrantId = Annotated[
    str,
    Path(max_length=128, description="The id: gr_ and 16 letters, or the approval it came from."),
]


class GrantFilters(Paging):
    """Filters; an unset one matches everything."""

    every: bool = Field(False, alias="all", description="Include ended ones.")


class GrantRoutes:
    """The routes.

    The giver of a grant and administrators can see and revoke it. Operators and auditors can see
    it.
    """

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._grants = Grants(decisions.ledger)
        self._requests = IdempotentRequests(decisions)

    async def search(
        self, access: Reader, wanted: Annotated[GrantFilters, Query()]
    ) -> models.Page[models.Grant]:
        """List the grants of the token's person, the newest first."""
        now = await self._decisions.ledger.now()

        listed = partial(listing.grants, self._decisions.ledger)

        def keep(one: Grant) -> bool:
            return access.sees_grant(one, self._decisions.directory) and (
                wanted.every or one.state(now) == "open"
            )

        found, then = await page(listed, keep, wanted)
        items = tuple(shapes.grant(one, now) for one in found)
        return models.Page[models.Grant](items=items, next=then)

    async def show(self, access: Reader, grant_id: GrantId) -> models.Grant:
        """Return one grant."""
        return await self._shown(await self._seen(access, grant_id))

    async def uses(
        self, access: Reader, grant_id: GrantId, wanted: Annotated[Paging, Query()]
    ) -> models.Page[models.Approval]:
        """List the approvals that a grant decided, the latest first."""
        grant = await self._seen(access, grant_id)

        index = f"uses:{grant.id}"
        listed = partial(listing.approvals, self._decisions.ledger, index=index)

        found, then = await page(listed, lambda _: True, wanted)
        items = tuple(shapes.approval(one) for one in found)
        return models.Page[models.Approval](items=items, next=then)

    async def give(
        self,
        access: Decider,
        approval_id: Id,
        body: bodies.Give,
        request: Request,
        response: Response,
    ) -> models.Grant:
        """Approve a call, and similar calls for a while, as the token's person."""
        seen = await self._requests.seen(access, approval_id)
        person = self._requests.person(access)
        span = length_of(body.length, "/length")
        async with once(self._decisions.ledger, access, request, response) as attempt:
            if attempt.about:
                done = await self._grants.get(attempt.about)
            else:
                same_call(seen, body.digest)
                move = GiveGrant(
                    span=span,
                    uses=body.uses,
                    limit=body.limit,
                    reason=body.reason.strip(),
                    as_it_is=body.as_it_is,
                )
                extras = Extras(also=attempt.done(grant_id(seen.id)))
                actor = actor_of(access, person)
                outcome = await self._decisions.take(seen.id, move, actor, extras)
                done = outcome.grant_or_raise()
        log.info("rest.granted", grant=done.id, approval=seen.id, token=access.id)
        response.headers["Location"] = f"{request.url.path.rsplit('/', 3)[0]}/grants/{done.id}"
        return await self._shown(done)

    async def revoke(
        self,
        access: Handler,
        grant_id: GrantId,
        body: bodies.Revoke,
        request: Request,
        response: Response,
    ) -> models.Grant:
        """Revoke a grant immediately."""
        seen = await self._seen(access, grant_id)
        if not access.revokes(seen):
            detail = "Only the person who gave it, or an administrator, can revoke it."
            problem = Problem(403, "not-the-giver", "You cannot revoke this grant", detail)
            await note_problem(self._decisions, access, seen.approval, problem)
            raise problem
        async with once(self._decisions.ledger, access, request, response) as attempt:
            if attempt.about:
                # The earlier request may have been carried out after `seen` was read.
                return await self._shown(await self._seen(access, grant_id))
            actor = actor_of(access, Operator(name=author_of(access)))
            extras = Extras(also=attempt.done(seen.id))
            outcome = await self._decisions.revoke(seen.id, body.reason, actor, extras)
            done = outcome.grant_or_raise()
        log.info("rest.revoked", grant=done.id, token=access.id)
        return await self._shown(done)

    async def _seen(self, access: Access, name: str) -> Grant:
        """Return a grant that the token may see.

        Raises:
            Problem: It does not exist, or the token may not see it; the response is the same.
        """
        try:
            found = await self._grants.get(name)
        except GrantNotFound:
            raise not_found("grant", name) from None
        if not access.sees_grant(found, self._decisions.directory):
            raise not_found("grant", name)
        return found

    async def _shown(self, grant: Grant) -> models.Grant:
        return shapes.grant(grant, await self._decisions.ledger.now())


def add_grants(router: APIRouter, decisions: Decisions) -> None:
    """Add the routes of grants."""
    routes = GrantRoutes(decisions)
    add, one = partial(router.add_api_route, tags=["grants"]), "/grants/{grant_id}"
    writes = responses(400, 404, 408, 409, 413, 415)
    add("/grants", routes.search, methods=["GET"], name="list_grants", responses=responses())
    add(one, routes.show, methods=["GET"], name="get_grant", responses=responses(404))
    add(f"{one}/uses", routes.uses, methods=["GET"], name="list_uses", responses=responses(404))
    add(f"{one}/revoke", routes.revoke, methods=["POST"], name="revoke_grant", responses=writes)
    add(
        "/approvals/{approval_id}/grant",
        routes.give,
        methods=["POST"],
        name="give_grant",
        status_code=201,
        responses=writes,
    )
