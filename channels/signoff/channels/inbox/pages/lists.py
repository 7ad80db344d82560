"""The pages that list approvals: for me, my queues, asked by me, all, and what has ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from signoff.broker.backlog import ALL, names_for, names_of, summaries
from signoff.broker.decisions import Decisions
from signoff.broker.ledger import listing
from signoff.broker.ledger.listing import SCANNED, Place
from signoff.channels.inbox.auth.context import AuthContext, NotFound, Route, Visit
from signoff.channels.inbox.pages.filters import (
    ANY,
    DUES,
    ENDED,
    SORTS,
    WAITING,
    Wanted,
)
from signoff.channels.inbox.pages.rows import When, line, names
from signoff.channels.inbox.pages.views import may_see
from signoff.channels.inbox.settings import ROOT
from signoff.channels.inbox.templating import Live, page
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.metrics import Waiting
from signoff.core.approvals.search_terms import Sort, Status
from signoff.core.cards.card import frozen_words
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import QUEUE

SHOWN: Final = 25
"""How many lines a page has."""

SORTED: Final = 20_000
"""How many may be in an index that Redis orders by another one while somebody waits."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a list comes from.

    Attributes:
        here: Its path below the root.
        title: Its heading.
        index: The index; "" where it is the person's own requests.
        orders: For each order, another index that it takes (or ""), and whether the lowest score
            comes first. The first of them is the usual one.
        states: Where approvals can stand in it.
        empty: What is said where there is nothing.
        counts: What the index counts, after the number; "" where it says nothing.
        section: The path of the list in the navigation.
    """

    here: str
    title: str
    index: str
    orders: Mapping[Sort, tuple[str, bool]]
    states: Mapping[Status, str]
    empty: str
    counts: str = ""
    section: str = ""

    @property
    def path(self) -> str:
        """The path of its first page, with nothing left out."""
        return ROOT + self.here


_OF_ONE: Final = {
    Sort.OLDEST: ("", True),
    Sort.DUE: ("waiting", True),
    Sort.NEWEST: ("", False),
}
_OF_ALL: Final = {
    Sort.DUE: ("", True),
    Sort.OLDEST: (listing.APPROVALS, True),
    Sort.NEWEST: (listing.APPROVALS, False),
}
_OF_PAST: Final = {Sort.NEWEST: ("", False), Sort.OLDEST: ("", True)}


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue of a person."""

    name: str
    path: str
    member: bool
    waiting: int
    oldest: When | None
    next_due: When | None
    overdue: int
    claimed: int
    waits_on: str


class ListPages:
    """Shows lists of approvals.

    Args:
        decisions: The ledger and the people.
        auth: Who looks.
    """

    def __init__(self, decisions: Decisions, auth: AuthContext) -> None:
        self._decisions = decisions
        self._ledger = decisions.ledger
        self._auth = auth

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        return (
            ("GET", "/", self.mine),
            ("GET", "/queues", self.queues),
            ("GET", "/queues/{name}", self.queue),
            ("GET", "/asked", self.asked),
            ("GET", "/all", self.all),
            ("GET", "/ended", self.ended),
        )

    async def mine(self, request: Request) -> Response:
        """Show what waits for the person signed in."""
        visit = await self._auth.of(request)
        source = _Source(
            here="/",
            title="Your approvals",
            index=f"inbox:{visit.person.id}",
            orders=_OF_ONE,
            states=WAITING,
            empty="No requests for you. New ones appear here automatically.",
            counts="pending for you",
        )
        return await self._shown(visit, source, lambda one: not self._asked_by(visit.person, one))

    async def queue(self, request: Request) -> Response:
        """Show what waits in a queue, to its members and to those who see all."""
        visit = await self._auth.of(request)
        name = str(request.path_params["name"])
        queue = self._decisions.directory.queues.get(name)
        if queue is None or not (visit.person.id in queue.members or visit.person.sees_all):
            raise NotFound
        source = _Source(
            here=f"/queues/{name}",
            title=f"Queue {name}",
            index=f"{QUEUE}{name}",
            orders=_OF_ONE,
            states=WAITING,
            empty="No requests in this queue.",
            counts="pending in this queue",
            section="/queues",
        )
        return await self._shown(visit, source)

    async def asked(self, request: Request) -> Response:
        """Show what somebody has asked for, and where it stands."""
        visit = await self._auth.of(request)
        source = _Source(
            here="/asked",
            title="Your requests",
            index="",
            orders=_OF_PAST,
            states=ANY,
            empty="No agent has requested an approval on your behalf.",
        )
        return await self._shown(visit, source, lambda one: self._asked_by(visit.person, one))

    async def all(self, request: Request) -> Response:
        """Show all that waits, to those who see all."""
        visit = await self._auth.of(request)
        if not visit.person.sees_all:
            raise NotFound
        source = _Source(
            here="/all",
            title="All pending requests",
            index="waiting",
            orders=_OF_ALL,
            states=WAITING,
            empty="No pending requests.",
            counts="pending",
        )
        return await self._shown(visit, source)

    async def ended(self, request: Request) -> Response:
        """Show what has ended, as far as the person may see it."""
        visit = await self._auth.of(request)
        source = _Source(
            here="/ended",
            title="Ended requests",
            index="decided",
            orders=_OF_PAST,
            states=ENDED,
            empty="None of your requests or approvals has ended yet.",
        )
        return await self._shown(visit, source)

    async def queues(self, request: Request) -> Response:
        """Show the queues of a person: how much waits in each, how long, and on whom."""
        visit = await self._auth.of(request)
        person, directory = visit.person, self._decisions.directory
        # Of everything only what is due next is read, however many queues there are.
        every = [ALL] if person.sees_all else []
        found, now = await summaries(self._ledger, [*every, *self._queues(person)])
        return page(
            "queues",
            who=person,
            session=visit.session,
            here="/queues",
            live=Live("list", now),
            rows=[_row(one, person, directory, now) for one in found if one.name != ALL],
        )

    def _asked_by(self, person: Person, one: Approval) -> bool:
        return one.is_requester(person, self._decisions.directory)

    async def _shown(
        self, visit: Visit, source: _Source, of_it: Callable[[Approval], bool] = lambda _: True
    ) -> Response:
        """Show a page of a list: only what is in it, fits, and may be seen."""
        person, directory, now = visit.person, self._decisions.directory, await self._ledger.now()
        usual = next(iter(source.orders))
        wanted = Wanted.of(visit.request.query_params, sort=usual)
        ((count, _),) = await self._ledger.store.extents([source.index or "approvals"])
        by, rising = source.orders.get(wanted.sort, source.orders[usual])
        unsorted = bool(by) and count > SORTED
        if unsorted:
            by, rising = source.orders[usual]

        async def listed(before: Place | None, most: int) -> list[tuple[Place, Approval | None]]:
            if not source.index:
                return await listing.requests(
                    self._ledger, person, before=before, limit=most, rising=rising
                )
            return await listing.approvals(
                self._ledger, index=source.index, before=before, limit=most, rising=rising, by=by
            )

        def keep(one: Approval) -> bool:
            return (
                of_it(one) and may_see(one, person, directory) and wanted.fits(one, directory, now)
            )

        part = await listing.part(listed, keep, before=wanted.after, limit=SHOWN, most=SCANNED)
        queues = [one for one in self._queues(person) if source.index != one]
        return page(
            "list",
            who=person,
            session=visit.session,
            here=source.section or source.here,
            live=Live("list", now),
            source=source,
            count=count if source.counts else 0,
            frozen=[frozen_words(one) for one in directory.freezes],
            lines=[line(one, person, directory, now) for one in part.found],
            wanted=wanted,
            first=_address(source, wanted),
            then=_address(source, wanted, part.then) if part.then is not None else "",
            itself=_address(source, wanted, wanted.after),
            cut=part.looked if part.then is not None and len(part.found) < SHOWN else 0,
            unsorted=SORTED if unsorted else 0,
            sorts={one: SORTS[one] for one in source.orders},
            dues=DUES if source.states is not ENDED else {},
            queues=[one.removeprefix(QUEUE) for one in queues],
        )

    def _queues(self, person: Person) -> list[str]:
        """Return the queues that a person may look into: their own, or all."""
        every = names_of(self._decisions.directory) if person.sees_all else None
        found = names_for(self._decisions.directory, person.id) if every is None else every
        return [one for one in found if one.startswith(QUEUE)]


def _address(source: _Source, wanted: Wanted, after: Place | None = None) -> str:
    query = wanted.query(after)
    return f"{ROOT}{source.here}" + (f"?{query}" if query else "")


def _row(one: Waiting, person: Person, directory: Directory, now: datetime) -> QueueRow:
    name = one.name.removeprefix(QUEUE)
    return QueueRow(
        name=name,
        path=f"{ROOT}/queues/{name}",
        member=person.id in directory.queues[name].members,
        waiting=one.waiting,
        oldest=When.of(one.oldest, now, directory.zone_of(person.id)),
        next_due=When.of(one.next_due, now, directory.zone_of(person.id)),
        overdue=one.overdue,
        claimed=len(one.claimed),
        waits_on=names(one.on, directory),
    )
