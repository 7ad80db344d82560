"""The filters of a list, which are in the address: it can be bookmarked, sent and reloaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Final, TypeVar
from urllib.parse import urlencode

from signoff.broker.ledger.listing import Place
from signoff.channels.inbox.forms import BadForm
from signoff.core.approvals.lists.search import Search
from signoff.core.approvals.lists.search_terms import Due, Sort, Status

_LONGEST: Final = 200

E = TypeVar("E", bound=StrEnum)


SORTS: Final = {
    Sort.OLDEST: "Oldest first",
    Sort.DUE: "Next due first",
    Sort.NEWEST: "Newest first",
}
WAITING: Final = {
    Status.FREE: "Not claimed",
    Status.CLAIMED: "Claimed",
    Status.QUESTION: "Waiting for the requester",
}
ENDED: Final = {
    Status.APPROVED: "Approved",
    Status.REJECTED: "Rejected",
    Status.TIMED_OUT: "Timed out",
    Status.WITHDRAWN: "Withdrawn",
    Status.SUPERSEDED: "Superseded",
}
ANY: Final = {Status.PENDING: "Pending", **WAITING, **ENDED}
DUES: Final = {
    Due.OVERDUE: "Overdue",
    Due.HOUR: "Within an hour",
    Due.DAY: "Within a day",
    Due.WEEK: "Within a week",
}


@dataclass(frozen=True, slots=True)
class ListFilters(Search):
    """The filters, order and page of a list.

    Attributes:
        sort: The order.
        after: The cursor of the page before.
    """

    sort: Sort = Sort.OLDEST
    after: Place | None = None

    @classmethod
    def of(cls, query: Mapping[str, str], *, sort: Sort) -> ListFilters:
        """Return the filters in the parameters of an address; `sort` is the order if it has none.

        Raises:
            BadForm: A parameter has an unknown value.
        """
        texts = ("q", "queue", "tool", "app", "person")
        found = {name: query.get(name, "").strip()[:_LONGEST] for name in texts}
        cursor = query.get("after", "")
        try:
            after = Place.of(cursor[:_LONGEST]) if cursor else None
        except ValueError as error:
            raise BadForm("There is no such page of the list. Go to the first one.") from error
        return cls(
            **found,
            state=_choice(query, "state", Status),
            due=_choice(query, "due", Due),
            sort=_choice(query, "sort", Sort) or sort,
            after=after,
        )

    @property
    def narrows(self) -> bool:
        """Whether a filter is set."""
        return replace(self, sort=Sort.OLDEST, after=None) != ListFilters()

    def query(self, after: Place | None = None) -> str:
        """Return the parameters of the address of the page after a place, or of the first page."""
        named = {one.name: getattr(self, one.name) for one in fields(self)}
        named |= {"after": after.cursor if after is not None else ""}
        return urlencode({name: str(value) for name, value in named.items() if value})


def _choice(query: Mapping[str, str], name: str, kind: type[E]) -> E | None:
    value = query.get(name, "")
    if not value:
        return None
    try:
        return kind(value)
    except ValueError as error:
        known = ", ".join(kind)
        raise BadForm(
            f"{name}={value[:40]!r} in this address is unknown. It can be one of: {known}."
        ) from error
