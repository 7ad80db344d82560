"""The routes of queues: pending approvals, for whom they wait, and who is on call."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query
from pydantic import AwareDatetime

from signoff.broker.backlog import ALL, index_of, name_of, names_for, names_of, summaries
from signoff.broker.decisions import Decisions
from signoff.broker.ledger import listing
from signoff.channels.rest import shapes
from signoff.channels.rest.auth import Reader
from signoff.channels.rest.pages import Paging, page
from signoff.channels.rest.problems import not_found, responses
from signoff.client import models
from signoff.core.access.api_tokens import Access
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.lists.metrics import figures_of
from signoff.core.directory.queues import QUEUE
from signoff.core.routing.on_call import groups_on_call

_LOOKED: Final = 1_000
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(9000, 1, 1, tzinfo=UTC)

Name = Annotated[
    str,
    Path(max_length=128, description="A queue, `finance` or `queue:finance`; a person; `all`."),
]


class Queues:
    """The routes.

    A person sees the queues that they belong to, and the approvals that wait for them. Operators,
    auditors and administrators see everything.
    """

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    async def search(self, access: Reader) -> list[models.Queue]:
        """Summarise pending approvals: altogether, by queue and by person.

        The count and the oldest are exact, unless the token is limited to some apps. The
        rest covers the 1,000 approvals that are due next.
        """
        directory = self._decisions.directory
        keep = None
        if access.apps:

            def keep(one: Approval) -> bool:
                return access.sees(one, directory)

        found, _ = await summaries(self._decisions.ledger, self._names(access), keep=keep)
        return [shapes.queue(one) for one in found]

    async def show(
        self, access: Reader, name: Name, wanted: Annotated[Paging, Query()]
    ) -> models.Page[models.Approval]:
        """List the pending approvals of a queue or a person, the newest first."""
        directory = self._decisions.directory
        called = name_of(directory, name)
        if called not in self._names(access):
            raise not_found("queue", name)
        # The order by due date changes while a client reads the pages.
        index = listing.APPROVALS if called == ALL else index_of(called)

        listed = partial(listing.approvals, self._decisions.ledger, index=index)

        def keep(one: Approval) -> bool:
            return one.state is State.PENDING and access.sees(one, directory)

        found, then = await page(listed, keep, wanted)
        items = tuple(shapes.approval(one) for one in found)
        return models.Page[models.Approval](items=items, next=then)

    async def on_call(
        self,
        access: Reader,
        at: Annotated[
            AwareDatetime | None,
            Query(ge=_FIRST, lt=_LAST, description="The moment, with an offset; by default now."),
        ] = None,
    ) -> list[models.OnCall]:
        """Return who would be asked by each schedule and each queue now, until when, and who next.

        A person's token sees the groups to which the person belongs, or in which they are asked.
        """
        await self._decisions.roster.refresh()
        directory, rotations = self._decisions.directory, self._decisions.roster.rotations.known
        of = "" if access.sees_all(directory) else access.person
        if not of and not access.sees_all(directory):
            return []
        now = at or await self._decisions.ledger.now()
        rows = groups_on_call(directory, now=now, rotations=rotations, of=of)
        return [shapes.on_call(one) for one in rows]

    async def figures(self, access: Reader) -> models.Figures:
        """Return decision times and outcomes of the 1,000 approvals that ended last.

        It covers the queues of the token's person, or everything for administrators, operators and
        auditors.
        """
        directory = self._decisions.directory
        queues = None
        if not access.sees_all(directory):
            queues = [name for name in self._names(access) if name.startswith(QUEUE)]
        ended = await self._decisions.ledger.decided(limit=_LOOKED)
        seen = (one for one in ended if access.may_use(one.origin.app) or access.is_admin)
        return shapes.figures(figures_of(seen, queues=queues))

    def _names(self, access: Access) -> Sequence[str]:
        if access.sees_all(self._decisions.directory):
            return names_of(self._decisions.directory)
        return names_for(self._decisions.directory, access.person) if access.person else ()


def add_queues(router: APIRouter, decisions: Decisions) -> None:
    """Add the routes of queues."""
    routes = Queues(decisions)
    add = partial(router.add_api_route, tags=["queues"])
    add("/figures", routes.figures, methods=["GET"], name="get_figures", responses=responses())
    add("/on-call", routes.on_call, methods=["GET"], name="get_on_call", responses=responses())
    add("/queues", routes.search, methods=["GET"], name="list_queues", responses=responses())
    add(
        "/queues/{name}",
        routes.show,
        methods=["GET"],
        name="get_queue",
        responses=responses(404),
    )
