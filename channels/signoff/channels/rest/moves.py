"""The routes of moves without a decision: claim, reassign, ask, comment, extend, remind."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter

from signoff.broker.decisions import Decisions
from signoff.channels.rest import bodies
from signoff.channels.rest.auth import Handler
from signoff.channels.rest.idempotent import (
    About,
    ApprovalRequest,
    IdempotentRequests,
    actor_of,
    length_of,
    somebody,
)
from signoff.channels.rest.problems import responses
from signoff.client import models
from signoff.core.access.api_tokens import Access
from signoff.core.access.scopes import Scope
from signoff.core.approvals import collaboration, moves
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.collaboration import Operator, Who
from signoff.core.approvals.moves import Actor, Move
from signoff.core.directory.people import Person


class Moves:
    """The routes.

    A person's token acts as that person, who must be an approver or the requester. An operator's
    and an administrator's token can also intervene as an operator does. An administrator's token
    can neither claim nor ask.
    """

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._requests = IdempotentRequests(decisions)

    async def claim(self, access: Handler, body: bodies.Claim, about: About) -> models.Approval:
        """Reserve the decision for the token's person for a while."""
        length = length_of(body.length, "/length") if body.length else None
        return await self._make(access, about, moves.Claim(length=length), as_person=True)

    async def release(self, access: Handler, body: bodies.Reason, about: About) -> models.Approval:
        """Release a claim, so that all approvers can decide again."""
        return await self._make(access, about, moves.Release(reason=body.reason))

    async def reassign(
        self, access: Handler, body: bodies.Reassign, about: About
    ) -> models.Approval:
        """Reassign an approver's seat to another person, who gets a card."""

        def want(seen: Approval) -> tuple[Move, Actor]:
            directory = self._decisions.directory
            of = somebody(directory, body.of or access.person, "/of")
            move = moves.Reassign(of=of, to=somebody(directory, body.to, "/to"), reason=body.reason)
            return move, self._actor(access, of if of.id == access.person else None, seen)

        return await self._requests.carry_out(access, about, want)

    async def remind(self, access: Handler, about: About) -> models.Approval:
        """Remind approvers who have not answered, at most once an hour."""
        return await self._make(access, about, moves.Remind())

    async def ask(self, access: Handler, body: bodies.Words, about: About) -> models.Approval:
        """Ask the requester a question. The answer appears on the card."""
        return await self._make(access, about, moves.AskBack(text=body.text), as_person=True)

    async def comment(self, access: Handler, body: bodies.Words, about: About) -> models.Approval:
        """Comment on the card. The requester's comment answers an open question."""

        def want(seen: Approval) -> tuple[Move, Actor]:
            actor = self._actor(access, None, seen)
            who = actor.who
            if isinstance(who, Person) and seen.is_requester(who, self._decisions.directory):
                return moves.AnswerBack(text=body.text), actor
            return moves.Comment(text=body.text), actor

        return await self._requests.carry_out(access, about, want)

    async def extend(self, access: Handler, body: bodies.Extend, about: About) -> models.Approval:
        """Extend the deadline, by at most the level's original length."""
        move = moves.Extend(by=length_of(body.by, "/by"), reason=body.reason)
        return await self._make(access, about, move)

    async def _make(
        self, access: Access, about: ApprovalRequest, move: Move, *, as_person: bool = False
    ) -> models.Approval:
        me = self._requests.person(access) if as_person else None
        return await self._requests.carry_out(
            access, about, lambda seen: (move, self._actor(access, me, seen))
        )

    def _actor(self, access: Access, person: Person | None, seen: Approval) -> Actor:
        """Return the actor for a token: the person, or else the token's role."""
        who = person or self._who(access, seen)
        return actor_of(access, who, seen, self._decisions.directory)

    def _who(self, access: Access, seen: Approval) -> Who:
        if access.is_admin and not (access.person and access.allows(Scope.APPROVALS_DECIDE)):
            return Operator(name=f"{access.shown} (api)")
        return collaboration.acting(seen, self._requests.person(access), self._decisions.directory)


def add_moves(router: APIRouter, decisions: Decisions) -> None:
    """Add the routes of moves."""
    routes = Moves(decisions)
    add = partial(router.add_api_route, tags=["approvals"])
    for verb in ("claim", "release", "reassign", "remind", "ask", "comment", "extend"):
        add(
            f"/approvals/{{approval_id}}/{verb}",
            getattr(routes, verb),
            methods=["POST"],
            name=f"{verb}_approval",
            responses=responses(400, 404, 408, 409, 413, 415),
        )
