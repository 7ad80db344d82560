"""Lists that are read in pages.

Continuing after a place skips and repeats nothing, even if records are added in between.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, Self, TypeVar

from signoff.broker.ledger.change import FAR, requests_key
from signoff.broker.ledger.ledger import Ledger, all_legible
from signoff.broker.ledger.records import legible_approval, legible_grant, legible_run
from signoff.broker.ledger.store import to_ms
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lists.search_terms import Sort
from signoff.core.approvals.run import Run
from signoff.core.directory.people import Person
from signoff.core.grants.grant import Grant

APPROVALS: Final = "approvals"
"""The index of all approvals, by when they were opened."""

RUNS: Final = "runs"
"""The index of all runs, by when they were submitted."""

GRANTS: Final = "grants"
"""The index of all grants, by when they were given."""

SCANNED: Final = 500
"""The most records that one page reads. If few of them match, the page is shorter."""

T = TypeVar("T", Approval, Grant, Run)
One = TypeVar("One")

_FORM: Final = re.compile(r"(\d{1,16}) ([A-Za-z0-9._:-]{1,128})")


class Place(NamedTuple):
    """A position in an index: a score, and a member among those with this score."""

    score: int
    member: str

    @property
    def cursor(self) -> str:
        """The place as text for URLs."""
        text = f"{self.score} {self.member}".encode()
        return base64.urlsafe_b64encode(text).decode().rstrip("=")

    @classmethod
    def of(cls, cursor: str) -> Self:
        """Return the place of a cursor.

        Raises:
            ValueError: `cursor` does not return such a text.
        """
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        form = _FORM.fullmatch(base64.b64decode(padded, altchars=b"-_", validate=True).decode())
        if form is None:
            raise ValueError("it names no place")
        return cls(int(form[1]), form[2])


class Page(NamedTuple, Generic[One]):
    """A page of a list.

    Attributes:
        found: The records on the page.
        then: The place after which the next page begins; None at the end.
        looked: How many records were read for it.
    """

    found: Sequence[One]
    then: Place | None
    looked: int


class List(Protocol[One]):
    """Returns the records after a place, each with its own place; None for a missing record."""

    def __call__(
        self, *, before: Place | None, limit: int
    ) -> Awaitable[list[tuple[Place, One | None]]]:
        """Return at most `limit` records."""
        ...


async def part(
    listed: List[One],
    keep: Callable[[One], bool],
    *,
    before: Place | None,
    limit: int,
    most: int = SCANNED,
) -> Page[One]:
    """Return a page of the records that match.

    Args:
        listed: The list.
        keep: Returns whether a record matches.
        before: The place after which the page begins; None for the beginning.
        limit: The most records on the page.
        most: The most records to read.
    """
    place, found, looked, ahead = before, list[One](), 0, max(2 * limit, 50)
    while looked < most:
        # If few match, the batches grow, so that there are few round trips.
        batch, ahead = min(most - looked, ahead), min(2 * ahead, SCANNED)
        rows = await listed(before=place, limit=batch)
        for place, one in rows:
            looked += 1
            if one is not None and keep(one):
                found.append(one)
                if len(found) == limit:
                    return Page(found, place, looked)
        if len(rows) < batch:
            return Page(found, None, looked)
    return Page(found, place, looked)


def ordered(index: str, sort: Sort) -> tuple[str, bool]:
    """Return the index to read for approvals in an order, and whether its lowest score comes first.

    Sorted by due time, this is the index of all pending approvals; callers filter them. Its scores
    are the next timers: a reminder or the end of a claim comes before the deadline. See
    `by_deadline`.

    Args:
        index: The index whose scores are times of opening.
        sort: The order.
    """
    return ("waiting", True) if sort is Sort.DUE else (index, sort is Sort.OLDEST)


async def approvals(
    ledger: Ledger,
    *,
    index: str = APPROVALS,
    before: Place | None = None,
    limit: int,
    rising: bool = False,
    by: str = "",
    may_be: Callable[[str], bool] = bool,
    among: Sequence[str] | None = None,
) -> list[tuple[Place, Approval | None]]:
    """Return approvals of an index with their places, the newest first.

    Args:
        ledger: The ledger.
        index: One whose score is a time: `APPROVALS`, ``inbox:PERSON``, ``queue:NAME``,
            ``uses:GRANT``.
        before: The place after which to begin; None for the beginning.
        limit: The most places to return.
        rising: Whether the oldest comes first.
        by: Another index to order them by; see `Store.behind`.
        may_be: Returns whether to parse a record, given its text.
        among: Only these ids; see `SearchIndex.candidates`.

    Returns:
        The places, each with its approval; None if the record is gone, cannot be read, or was
        excluded by `may_be`.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    if among is None:
        found = await ledger.store.behind(index, before=before, limit=limit, rising=rising, by=by)
    else:
        found = await _of_these(ledger, among, index, by)
        found = _behind(found, before=before, rising=rising)[:limit]
    return await _listed(ledger, "approval", found, legible_approval, may_be)


def deadline_order(approval: Approval) -> tuple[int, str]:
    """Return the key that sorts pending approvals by their deadlines.

    Overdue ones, which stay open without a deadline, come first, and those that are not routed yet
    last.
    """
    if approval.deadline is not None:
        return to_ms(approval.deadline), approval.id
    return 0 if approval.terms is not None else FAR, approval.id


async def by_deadline(
    ledger: Ledger,
    index: str,
    *,
    may_be: Callable[[str], bool] = bool,
    among: Sequence[str] | None = None,
) -> List[Approval]:
    """Return a list of the pending approvals of an index in `deadline_order`.

    It reads all of them, so it is for indexes of at most `SCANNED` members.

    Args:
        ledger: The ledger.
        index: The index: ``waiting``, ``inbox:PERSON`` or ``queue:NAME``.
        may_be: Returns whether to parse a record, given its text.
        among: Only these ids; see `SearchIndex.candidates`.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    ids = await ledger.store.members(index)
    if among is not None:
        known = set(among)
        ids = [one for one in ids if one in known]
    found = sorted(await ledger.readable(ids, may_be=may_be), key=deadline_order)
    rows = [(Place(*deadline_order(one)), one) for one in found]

    async def listed(*, before: Place | None, limit: int) -> list[tuple[Place, Approval | None]]:
        rest = [one for one in rows if before is None or one[0] > before]
        return [*rest[:limit]]

    return listed


async def requests(
    ledger: Ledger,
    person: Person,
    *,
    before: Place | None = None,
    limit: int,
    rising: bool = False,
    may_be: Callable[[str], bool] = bool,
    among: Sequence[str] | None = None,
) -> list[tuple[Place, Approval | None]]:
    """Return the approvals that a person requested under any identity; see `approvals`."""
    found: list[tuple[int, str]] = []
    for key in {requests_key(one) for one in (person.id, person.email, *person.aliases)}:
        if among is None:
            found += await ledger.store.behind(key, before=before, limit=limit, rising=rising)
        else:
            found += await _of_these(ledger, among, key)
    found = _behind(found, before=before, rising=rising)
    return await _listed(ledger, "approval", found[:limit], legible_approval, may_be)


async def _of_these(
    ledger: Ledger, ids: Sequence[str], index: str, by: str = ""
) -> list[tuple[int, str]]:
    """Return the scores and ids of those in an index, with the scores of index `by` if given."""
    scores = await ledger.store.scores(index, ids)
    found = [(int(score), one) for one, score in zip(ids, scores, strict=True) if score is not None]
    return await _of_these(ledger, [one for _, one in found], by) if by else found


def _behind(
    found: Sequence[tuple[int, str]], *, before: Place | None, rising: bool
) -> list[tuple[int, str]]:
    rest = [one for one in found if before is None or (one > before if rising else one < before)]
    return sorted(rest, reverse=not rising)


async def runs(
    ledger: Ledger, *, before: Place | None = None, limit: int
) -> list[tuple[Place, Run | None]]:
    """Return runs, with None for requests of programs; see `approvals`."""
    found = await ledger.store.behind(RUNS, before=before, limit=limit)
    rows = await _listed(ledger, "run", found, legible_run)
    return [(place, None if one is None or one.outside else one) for place, one in rows]


async def grants(
    ledger: Ledger, *, before: Place | None = None, limit: int
) -> list[tuple[Place, Grant | None]]:
    """Return grants; see `approvals`."""
    found = await ledger.store.behind(GRANTS, before=before, limit=limit)
    return await _listed(ledger, "grant", found, legible_grant)


async def _listed(
    ledger: Ledger,
    kind: str,
    found: Sequence[tuple[int, str]],
    legible: Callable[[str, tuple[int, str]], T],
    may_be: Callable[[str], bool] = bool,
) -> list[tuple[Place, T | None]]:
    places = [Place(*one) for one in found]
    ids = [one.member for one in places]
    records = await ledger.store.read([f"{kind}:{one}" for one in ids])
    wanted = [one if one is not None and may_be(one[1]) else None for one in records]
    return list(zip(places, all_legible(legible, ids, wanted), strict=True))
