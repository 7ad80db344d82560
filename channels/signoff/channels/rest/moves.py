"""The routes of what people do short of deciding: claim, hand on, ask, comment, prolong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request, Response

from signoff.broker.collaboration import Along, Handling
from signoff.broker.decisions import Desk
from signoff.broker.ledger.change import Change
from signoff.channels.rest.auth import Handler
from signoff.channels.rest.idempotent import Carrying, Id, by, length_of, somebody
from signoff.channels.rest.problems import responses
from signoff.client import bodies, models
from signoff.core.access.api_tokens import Access, Scope
from signoff.core.approvals import collaboration
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.collaboration import Operator, Who
from signoff.core.directory.people import Person

Do = Callable[[Approval, Along], Awaitable[Approval]]


class Moves:
    """The routes, over the handling that makes the moves.

    A person's token makes them as that person, who has to be asked, or to be the requester. An
    operator's and an administrator's put things right as whoever runs Signoff does; the latter
    claims and asks nothing.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._handling = Handling(desk)
        self._carrying = Carrying(desk)

    async def claim(
        self, access: Handler, approval_id: Id, body: bodies.Claim, request: Request, to: Response
    ) -> models.Approval:
        """Reserve the decision for the token's person for a while."""
        length = length_of(body.length, "/length") if body.length else None
        me = self._carrying.person(access)

        async def do(seen: Approval, along: Along) -> Approval:
            return await self._handling.claim(seen.id, me, length=length, along=along)

        return await self._out(access, approval_id, request, to, do)

    async def release(
        self, access: Handler, approval_id: Id, body: bodies.Reason, request: Request, to: Response
    ) -> models.Approval:
        """Release a claim, so that all approvers can decide again."""

        async def do(seen: Approval, along: Along) -> Approval:
            who = self._who(access, seen)
            return await self._handling.release(seen.id, who, reason=body.reason, along=along)

        return await self._out(access, approval_id, request, to, do)

    async def reassign(
        self,
        access: Handler,
        approval_id: Id,
        body: bodies.Reassign,
        request: Request,
        to: Response,
    ) -> models.Approval:
        """Reassign an approver's seat to another person, who gets a card."""

        async def do(seen: Approval, along: Along) -> Approval:
            of = somebody(self._desk.directory, body.of or access.person, "/of")
            return await self._handling.reassign(
                seen.id,
                of if of.id == access.person else self._who(access, seen),
                of=of,
                to=somebody(self._desk.directory, body.to, "/to"),
                reason=body.reason,
                along=along,
            )

        return await self._out(access, approval_id, request, to, do)

    async def remind(
        self, access: Handler, approval_id: Id, request: Request, to: Response
    ) -> models.Approval:
        """Remind approvers who have not answered, at most once an hour."""

        async def do(seen: Approval, along: Along) -> Approval:
            return await self._handling.remind(seen.id, self._who(access, seen), along=along)

        return await self._out(access, approval_id, request, to, do)

    async def ask(
        self, access: Handler, approval_id: Id, body: bodies.Words, request: Request, to: Response
    ) -> models.Approval:
        """Ask the requester a question. The answer appears on the card."""
        me = self._carrying.person(access)

        async def do(seen: Approval, along: Along) -> Approval:
            return await self._handling.ask_back(seen.id, me, text=body.text, along=along)

        return await self._out(access, approval_id, request, to, do)

    async def comment(
        self, access: Handler, approval_id: Id, body: bodies.Words, request: Request, to: Response
    ) -> models.Approval:
        """Comment on the card. The requester's comment answers an open question."""

        async def do(seen: Approval, along: Along) -> Approval:
            who = self._who(access, seen)
            if isinstance(who, Person) and seen.is_requester(who, self._desk.directory):
                return await self._handling.answer_back(seen.id, who, text=body.text, along=along)
            return await self._handling.comment(seen.id, who, text=body.text, along=along)

        return await self._out(access, approval_id, request, to, do)

    async def extend(
        self, access: Handler, approval_id: Id, body: bodies.Extend, request: Request, to: Response
    ) -> models.Approval:
        """Extend the deadline, by at most the level's original length."""
        length = length_of(body.by, "/by")

        async def do(seen: Approval, along: Along) -> Approval:
            who = self._who(access, seen)
            return await self._handling.extend(
                seen.id, who, by=length, reason=body.reason, along=along
            )

        return await self._out(access, approval_id, request, to, do)

    async def _out(
        self, access: Access, approval_id: str, request: Request, response: Response, do: Do
    ) -> models.Approval:
        async def move(seen: Approval, also: Change | None) -> Approval:
            return await do(seen, Along(also=also, more=by(access, seen, self._desk.directory)))

        return await self._carrying.out(access, approval_id, request, response, move)

    def _who(self, access: Access, seen: Approval) -> Who:
        if access.is_admin and not (access.person and access.allows(Scope.APPROVALS_DECIDE)):
            return Operator(name=f"{access.shown} (api)")
        return collaboration.acting(seen, self._carrying.person(access), self._desk.directory)


def make_moves(desk: Desk) -> APIRouter:
    """Return the routes of moves."""
    routes = Moves(desk)
    router = APIRouter(tags=["approvals"])
    for verb in ("claim", "release", "reassign", "remind", "ask", "comment", "extend"):
        router.add_api_route(
            f"/approvals/{{approval_id}}/{verb}",
            getattr(routes, verb),
            methods=["POST"],
            name=f"{verb}_approval",
            responses=responses(400, 404, 408, 409, 413, 415),
        )
    return router
