"""The pages that list approvals: yours, your queues, your requests, all, and ended ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from signoff.broker.backlog import ALL, summaries
from signoff.broker.ledger import listing
from signoff.broker.ledger.change import similar_key
from signoff.broker.ledger.listing import SCANNED, Place
from signoff.broker.ledger.search_index import SearchIndex
from signoff.channels.inbox.auth.context import NotFound, Pages, Route, Visit
from signoff.channels.inbox.pages.filters import ANY, DUES, ENDED, SORTS, WAITING, ListFilters
from signoff.channels.inbox.pages.rows import When, by_day, list_row, names, queues_seen
from signoff.channels.inbox.pages.views import may_see
from signoff.channels.inbox.settings import ROOT
from signoff.channels.inbox.templating import Live
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lists.metrics import PendingMetrics
from signoff.core.approvals.lists.search_terms import Sort, Status
from signoff.core.base.errors import ApprovalNotFound, RecordUnreadable
from signoff.core.cards.card import frozen_words, one_line, topic
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import QUEUE
from signoff.core.routing.on_call import OnCall, Shift, groups_on_call
from signoff.core.routing.resolve import SCHEDULE

SHOWN: Final = 25
"""How many lines a page has."""

SORTED: Final = 20_000
"""The largest index that Redis sorts by another one for a page."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a list comes from.

    Attributes:
        here: Its path below the root.
        title: Its heading.
        index: The index, that of the person for ``{person}``; "" for the person's own requests.
        orders: For each order, another index that it needs (or ""), and whether the lowest score
            comes first. The first order is the default.
        states: The states that its filter offers.
        empty: The text of an empty list.
        counts: The text after the number of entries, "" if the number is not shown.
        section: The path of the list in the navigation.
        requested: Whether it has the person's own requests, or all others; None for both.
        of_all: Whether it is only for people who see all approvals.
        ahead: Whether each line says who decides next if nobody answers.
    """

    here: str
    title: str
    index: str
    orders: Mapping[Sort, tuple[str, bool]]
    states: Mapping[Status, str]
    empty: str
    counts: str = ""
    section: str = ""
    requested: bool | None = None
    of_all: bool = False
    ahead: bool = False

    @property
    def path(self) -> str:
        """The path of its first page, without filters."""
        return ROOT + self.here


_OF_ONE: Final = {
    Sort.DUE: ("waiting", True),
    Sort.OLDEST: ("", True),
    Sort.NEWEST: ("", False),
}
_OF_ALL: Final = {
    Sort.DUE: ("", True),
    Sort.OLDEST: (listing.APPROVALS, True),
    Sort.NEWEST: (listing.APPROVALS, False),
}
_OF_PAST: Final = {Sort.NEWEST: ("", False), Sort.OLDEST: ("", True)}


_SOURCES: Final = (
    _Source(
        here="/",
        title="Your approvals",
        index="inbox:{person}",
        orders=_OF_ONE,
        states=WAITING,
        empty="No requests for you. New ones appear here automatically.",
        counts="pending for you",
        requested=False,
    ),
    _Source(
        here="/asked",
        title="Your requests",
        index="",
        orders=_OF_PAST,
        states=ANY,
        empty="No agent has requested an approval on your behalf.",
        requested=True,
    ),
    _Source(
        here="/all",
        title="All pending requests",
        index="waiting",
        orders=_OF_ALL,
        states=WAITING,
        empty="No pending requests.",
        counts="pending",
        of_all=True,
        ahead=True,
    ),
    _Source(
        here="/ended",
        title="Ended requests",
        index="decided",
        orders=_OF_PAST,
        states=ENDED,
        empty="None of your requests or approvals has ended yet.",
    ),
)


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


@dataclass(frozen=True, slots=True)
class OnCallRow:
    """Who is on call in one schedule.

    Attributes:
        name: The name of the schedule.
        now: Who would be asked now, or why nobody.
        until: Until when.
        next: Who would be asked then; "" if nothing changes.
    """

    name: str
    now: str
    until: When | None
    next: str


class ListPages(Pages):
    """Shows lists of approvals."""

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        return (
            *(("GET", one.here, partial(self.listed, one)) for one in _SOURCES),
            ("GET", "/queues", self.queues),
            ("GET", "/queues/{name}", self.queue),
            ("GET", "/similar/{approval_id}", self.similar),
        )

    async def listed(self, source: _Source, request: Request) -> Response:
        """Show a list to people who may see it."""
        visit = await self._auth.of(request)
        if source.of_all and not visit.person.sees_all:
            raise NotFound
        return await self._shown(visit, source)

    async def queue(self, request: Request) -> Response:
        """Show the pending requests of a queue to its members and to people who see all."""
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
            ahead=True,
        )
        return await self._shown(visit, source)

    async def similar(self, request: Request) -> Response:
        """Show the earlier decisions of a person about requests similar to an approval."""
        visit = await self._auth.of(request)
        try:
            approval = await self._ledger.approval(str(request.path_params["approval_id"]))
        except (ApprovalNotFound, RecordUnreadable) as error:
            raise NotFound from error
        if not may_see(approval, visit.person, self._decisions.directory):
            raise NotFound
        source = _Source(
            here=f"/similar/{approval.id}",
            title=f"Your decisions like {topic(approval)}",
            index=similar_key(visit.person.id, approval),
            orders=_OF_PAST,
            states=ENDED,
            empty="You have not decided a request of the same agent, tool and policy.",
            counts="with the same agent, tool and policy",
            section="/ended",
        )
        return await self._shown(visit, source)

    async def queues(self, request: Request) -> Response:
        """Show the queues of a person: how much waits in each, how long, and for whom."""
        visit = await self._auth.of(request)
        person, directory = visit.person, self._decisions.directory
        # Of all approvals, only those that are due next are read, for any number of queues.
        every = [ALL] if person.sees_all else []
        found, now = await summaries(self._ledger, [*every, *queues_seen(person, directory)])
        return visit.page(
            "queues",
            here="/queues",
            live=Live("list", now),
            rows=[_row(one, person, directory, now) for one in found if one.name != ALL],
            on_call=[
                _on_call(one, person, directory, now)
                for one in groups_on_call(
                    directory, now=now, of="" if person.sees_all else person.id
                )
                if one.name.startswith(SCHEDULE)
            ]
            if directory.schedules
            else [],
        )

    async def _shown(self, visit: Visit, source: _Source) -> Response:
        """Show a page of a list: the entries that fit the filters and that the person may see."""
        person, directory, now = visit.person, self._decisions.directory, await self._ledger.now()
        index, usual = source.index.replace("{person}", person.id), next(iter(source.orders))
        wanted = ListFilters.of(visit.request.query_params, sort=usual)
        (count,) = await self._ledger.store.sizes([index or "approvals"])
        sort = wanted.sort if wanted.sort in source.orders else usual
        unsorted = bool(source.orders[sort][0]) and count > SORTED
        if unsorted:
            sort = next(one for one, (by, _) in source.orders.items() if not by)
        by, rising = source.orders[sort]

        may_be = wanted.filter_of_records(directory)
        among = await SearchIndex(self._ledger).candidates(wanted.words(directory))
        read = (
            partial(listing.approvals, self._ledger, index=index, rising=rising, by=by)
            if index
            else partial(listing.requests, self._ledger, person, rising=rising)
        )
        listed: listing.List[Approval] = partial(read, may_be=may_be, among=among)
        by_timer = sort is Sort.DUE and count > SCANNED
        if sort is Sort.DUE and not by_timer:
            listed = await listing.by_deadline(self._ledger, index, may_be=may_be, among=among)

        def keep(one: Approval) -> bool:
            return (
                source.requested in {None, one.is_requester(person, directory)}
                and may_see(one, person, directory)
                and wanted.fits(one, directory, now)
            )

        most = SCANNED if among is None else len(among) + 1
        part = await listing.part(listed, keep, before=wanted.after, limit=SHOWN, most=most)
        queues = [one for one in queues_seen(person, directory) if index != one]
        # Many are read in the order of their timers, so only each page is sorted by deadline.
        found = sorted(part.found, key=listing.deadline_order) if by_timer else part.found
        rotations = self._decisions.roster.rotations.known if source.ahead else None
        lines = [list_row(one, person, directory, now, rotations=rotations) for one in found]
        return visit.page(
            "list",
            here=source.section or source.here,
            live=Live("list", now),
            source=source,
            count=count if source.counts else 0,
            frozen=[frozen_words(one) for one in directory.freezes],
            batchable=any(one.batchable for one in lines),
            groups=by_day(lines) if sort is Sort.DUE else [("", lines)] if lines else [],
            wanted=wanted,
            first=_address(source, wanted),
            then=_address(source, wanted, part.then) if part.then is not None else "",
            itself=_address(source, wanted, wanted.after),
            cut=part.looked if part.then is not None and len(part.found) < SHOWN else 0,
            unsorted=f"{SORTED:,}" if unsorted else "",
            by_timer=f"{SCANNED:,}" if by_timer else "",
            sorted_by=SORTS[sort],
            sorts={one: SORTS[one] for one in source.orders},
            dues=DUES if source.states is not ENDED else {},
            queues=[one.removeprefix(QUEUE) for one in queues],
        )


def _address(source: _Source, wanted: ListFilters, after: Place | None = None) -> str:
    query = wanted.query(after)
    return f"{ROOT}{source.here}" + (f"?{query}" if query else "")


def _row(one: PendingMetrics, person: Person, directory: Directory, now: datetime) -> QueueRow:
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


def _on_call(one: OnCall, person: Person, directory: Directory, now: datetime) -> OnCallRow:
    following = "" if one.next is None else _shift(one.next, directory)
    return OnCallRow(
        name=one.name.removeprefix(SCHEDULE),
        now=_shift(one.now, directory),
        until=When.of(one.now.until, now, directory.zone_of(person.id)),
        next=following,
    )


def _shift(shift: Shift, directory: Directory) -> str:
    people = ", ".join(one.shown(directory) for one in shift.people)
    return one_line(people or "; ".join(["nobody", *shift.notes]))
