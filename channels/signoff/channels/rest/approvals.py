"""The routes of approvals: lists, single approvals, and answers."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Annotated

import structlog
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from signoff.broker.decisions import OF_ONE, Decisions, Extras
from signoff.broker.ledger import listing
from signoff.broker.ledger.search_index import SearchIndex
from signoff.channels.rest import bodies, shapes
from signoff.channels.rest.auth import Decider, Reader, Withdrawer
from signoff.channels.rest.idempotency_keys import once
from signoff.channels.rest.idempotent import (
    About,
    ApprovalRequest,
    Id,
    IdempotentRequests,
    actor_of,
    author_of,
    same_call,
)
from signoff.channels.rest.pages import Paging, page
from signoff.channels.rest.problems import note_problem, problem_of, responses
from signoff.channels.web.problems import Problem
from signoff.client import models
from signoff.core.access.api_tokens import Access
from signoff.core.access.scopes import Scope
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.collaboration import Operator
from signoff.core.approvals.events import INSIDE
from signoff.core.approvals.lists.search import Search
from signoff.core.approvals.lists.search_terms import Due, Sort, Status
from signoff.core.approvals.moves import Actor, Move
from signoff.core.directory.people import Directory
from signoff.core.directory.queues import QUEUE

log = structlog.get_logger(__name__)


class ApprovalFilters(Paging):
    """Filters; an unset one matches everything."""

    q: str = Field(
        "",
        max_length=200,
        description="Only those with all these words in id, tool, app, requester, hint or "
        "arguments.",
    )
    state: Status | None = Field(
        None,
        description="Only those in this state; `free`, `claimed` and `question` are "
        "pending ones that are not claimed, claimed, or waiting for the requester.",
    )
    queue: str = Field("", max_length=64, description="Only those of this queue.")
    app: str = Field("", max_length=128, description="Only those of this app.")
    tool: str = Field("", max_length=128, description="Only calls of this tool.")
    person: str = Field(
        "",
        max_length=254,
        description="Only those that this person requested, is asked about or has decided.",
    )
    due: Due | None = Field(
        None, description="Only those whose level is overdue or ends within this time."
    )
    requester: str = Field("", max_length=128, description="Only requests of this ADK user.")
    run: str = Field("", max_length=128, description="Only those of this run.")
    waiting_for: str = Field("", max_length=64, description="Only those that wait for this person.")
    sort: Sort = Field(
        Sort.NEWEST,
        description="The order; `due` is only for pending ones, by their next timer.",
    )

    @property
    def _search(self) -> Search:
        return Search(
            q=self.q,
            state=self.state,
            queue=self.queue.removeprefix(QUEUE),
            tool=self.tool,
            app=self.app,
            person=self.person,
            due=self.due,
        )

    def filter_of_records(self, directory: Directory) -> Callable[[str], bool]:
        """Return a function that returns whether a stored approval may match."""
        return self._search.filter_of_records(directory)

    def words(self, directory: Directory) -> list[str]:
        """Return the words that a matching approval contains."""
        return self._search.words(directory)

    def fits(self, one: Approval, directory: Directory, now: datetime) -> bool:
        """Return whether an approval matches."""
        waits = one.state is State.PENDING and self.waiting_for in one.approvers
        return (
            self.requester in {"", one.origin.user}
            and self.run in {"", one.origin.run}
            and (not self.waiting_for or waits)
            and self._search.fits(one, directory, now)
        )


class Approvals:
    """The routes of approvals."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._ledger = decisions.ledger
        self._requests = IdempotentRequests(decisions)

    async def search(
        self, access: Reader, wanted: Annotated[ApprovalFilters, Query()]
    ) -> models.Page[models.Approval]:
        """List approvals, by default the newest first."""
        # Approvals that wait for a person have a short index of their own.
        own = f"inbox:{wanted.waiting_for}" if wanted.waiting_for else listing.APPROVALS
        index, rising = listing.ordered(own, wanted.sort)
        directory, now = self._decisions.directory, await self._ledger.now()

        may_be = wanted.filter_of_records(directory)
        among = await SearchIndex(self._ledger).candidates(wanted.words(directory))
        listed = partial(
            listing.approvals,
            self._ledger,
            index=index,
            rising=rising,
            may_be=may_be,
            among=among,
        )

        def keep(one: Approval) -> bool:
            return access.sees(one, directory) and wanted.fits(one, directory, now)

        found, then = await page(listed, keep, wanted)
        items = tuple(shapes.approval(one) for one in found)
        return models.Page[models.Approval](items=items, next=then)

    async def show(
        self, access: Reader, approval_id: Id, request: Request, response: Response
    ) -> models.Approval | Response:
        """Return one approval. With `If-None-Match`, only if it has changed."""
        found = await self._requests.seen(access, approval_id)
        tag = f'"{found.version}"'
        if tag in [one.strip() for one in request.headers.get("if-none-match", "").split(",")]:
            return Response(status_code=304, headers={"ETag": tag})
        response.headers["ETag"] = tag
        return shapes.approval(found)

    async def timeline(self, access: Reader, approval_id: Id) -> list[models.Entry]:
        """Return what happened to an approval, the oldest first.

        As on the page, deliveries and answers that were not taken are only for approvers, operators
        and auditors.
        """
        seen = await self._requests.seen(access, approval_id)
        details = access.allows(Scope.AUDIT_READ)
        inside = access.sees_inside(seen, self._decisions.directory)
        events = await self._ledger.history(approval_id)
        told = [one for one in events if inside or one.what not in INSIDE]
        return [shapes.entry(one, details=details) for one in told]

    async def approve(self, access: Decider, body: bodies.Approve, about: About) -> models.Approval:
        """Approve exactly the call with this digest, as the token's person."""

        def want(seen: Approval) -> tuple[Move, Actor]:
            same_call(seen, body.digest)
            move = moves.Approve(
                values=body.values, reason=body.reason.strip(), as_it_is=body.as_it_is
            )
            return move, actor_of(access, self._requests.person(access))

        return await self._requests.carry_out(access, about, want)

    async def reject(self, access: Decider, body: bodies.Reject, about: About) -> models.Approval:
        """Reject as the token's person."""
        move = moves.Reject(reason=body.reason.strip(), values=body.values)
        return await self._requests.carry_out(
            access, about, lambda _: (move, actor_of(access, self._requests.person(access)))
        )

    async def together(
        self, access: Decider, body: bodies.Together, request: Request, response: Response
    ) -> list[models.Outcome]:
        """Approve several calls whose policy has `batch`. Each is decided separately.

        One refusal does not block the rest.
        """
        actor = actor_of(access, self._requests.person(access))
        found = []
        for one in body.approvals:
            about = ApprovalRequest(one.id, request, response)
            try:
                done = await self._approve_with_others(access, about, one.digest, actor)
                found.append(models.Outcome(id=one.id, approval=done))
            except Problem as problem:
                await note_problem(self._decisions, access, one.id, problem)
                found.append(models.Outcome(id=one.id, problem=shapes.problem(problem)))
            except OF_ONE as error:
                found.append(models.Outcome(id=one.id, problem=shapes.problem(problem_of(error))))
        log.info("rest.together", approvals=len(found), token=access.id)
        return found

    async def _approve_with_others(
        self, access: Access, about: ApprovalRequest, digest: str, actor: Actor
    ) -> models.Approval:
        seen = await self._requests.seen(access, about.approval_id)
        same_call(seen, digest)
        each = once(self._ledger, access, about.request, about.response, part=seen.id)
        async with each as attempt:
            if attempt.about:
                # The earlier request may have been carried out after `seen` was read.
                return shapes.approval(await self._requests.seen(access, about.approval_id))
            extras = Extras(also=attempt.done(seen.id))
            move = moves.Approve(together=True)
            outcome = await self._decisions.take(seen.id, move, actor, extras)
            return shapes.approval(outcome.approval_or_raise())

    async def withdraw(
        self, access: Withdrawer, body: bodies.Withdraw, about: About
    ) -> models.Approval:
        """Withdraw a request, as the requester, an operator or an administrator."""

        def want(seen: Approval) -> tuple[Move, Actor]:
            directory = self._decisions.directory
            who = Operator(name=author_of(access))
            actor = actor_of(access, who, seen, directory)
            asked = access.has_asked(seen.origin.user, directory)
            if not (asked or access.is_admin or "role" in actor.proof):
                raise Problem(
                    403,
                    "not-the-requester",
                    "Only the requester takes it back",
                    "The approver rejects it instead.",
                )
            return moves.Withdraw(reason=body.reason), actor

        return await self._requests.carry_out(access, about, want)


def add_approvals(router: APIRouter, decisions: Decisions) -> None:
    """Add the routes of approvals."""
    routes = Approvals(decisions)
    add, one = partial(router.add_api_route, tags=["approvals"]), "/approvals/{approval_id}"
    add("/approvals", routes.search, methods=["GET"], name="list_approvals", responses=responses())
    add(
        one,
        routes.show,
        methods=["GET"],
        name="get_approval",
        response_model=models.Approval,
        responses={**responses(404), 304: {"description": "Not changed"}},
    )
    add(
        f"{one}/timeline",
        routes.timeline,
        methods=["GET"],
        name="get_timeline",
        responses=responses(404),
    )
    add(
        "/approvals/together",
        routes.together,
        methods=["POST"],
        name="approve_together",
        responses=responses(400, 408, 413, 415),
    )
    for verb in ("approve", "reject", "withdraw"):
        add(
            f"{one}/{verb}",
            getattr(routes, verb),
            methods=["POST"],
            name=f"{verb}_approval",
            responses=responses(400, 404, 408, 409, 413, 415),
        )
