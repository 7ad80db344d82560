"""What of a list is wanted, as it stands in the address: it can be kept, sent, loaded again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeVar
from urllib.parse import urlencode

from signoff.broker.listing import Place
from signoff.channels.inbox.forms import BadForm
from signoff.channels.inbox.lines import words_of
from signoff.core.approval import Approval, State
from signoff.core.moves import QUEUE
from signoff.core.people import Directory

_LONGEST: Final = 200

E = TypeVar("E", bound=StrEnum)


class Sort(StrEnum):
    """What comes first."""

    OLDEST = "oldest"
    DUE = "due"
    NEWEST = "newest"


class Standing(StrEnum):
    """Where an approval stands."""

    PENDING = "pending"
    FREE = "free"
    CLAIMED = "claimed"
    QUESTION = "question"
    APPROVED = "approved"
    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    WITHDRAWN = "withdrawn"
    SUPERSEDED = "superseded"


class Due(StrEnum):
    """When the present level of an approval ends."""

    OVERDUE = "overdue"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"


SORTS: Final = {
    Sort.OLDEST: "Oldest first",
    Sort.DUE: "Next due first",
    Sort.NEWEST: "Newest first",
}
WAITING: Final = {
    Standing.FREE: "Claimed by nobody",
    Standing.CLAIMED: "Claimed",
    Standing.QUESTION: "Waits for the requester's word",
}
ENDED: Final = {
    Standing.APPROVED: "Approved",
    Standing.REJECTED: "Rejected",
    Standing.TIMED_OUT: "Timed out",
    Standing.WITHDRAWN: "Withdrawn",
    Standing.SUPERSEDED: "Superseded",
}
ANY: Final = {Standing.PENDING: "Waits", **WAITING, **ENDED}
DUES: Final = {
    Due.OVERDUE: "Overdue",
    Due.HOUR: "Within an hour",
    Due.DAY: "Within a day",
    Due.WEEK: "Within a week",
}
_WITHIN: Final = {
    Due.OVERDUE: timedelta(),
    Due.HOUR: timedelta(hours=1),
    Due.DAY: timedelta(days=1),
    Due.WEEK: timedelta(weeks=1),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of a list is wanted; what is not said leaves it open.

    Attributes:
        q: Words that all have to be in it: in the id, the tool, the app, the requester, the hint or
            the arguments.
        state: Where it stands.
        queue: A queue in which it waits, or did at the end.
        tool: The tool.
        app: The app.
        person: The requester, or somebody whose answer is waited for, or who has decided.
        due: When its level ends.
        sort: What comes first.
        after: The cursor of the page before.
    """

    q: str = ""
    state: Standing | None = None
    queue: str = ""
    tool: str = ""
    app: str = ""
    person: str = ""
    due: Due | None = None
    sort: Sort = Sort.OLDEST
    after: Place | None = None

    @classmethod
    def of(cls, query: Mapping[str, str], *, sort: Sort) -> Wanted:
        """Return what an address says.

        Args:
            query: The parameters of the address.
            sort: What comes first where the address does not say.

        Raises:
            BadForm: A parameter has a value that there is not.
        """
        texts = ("q", "queue", "tool", "app", "person")
        found = {name: query.get(name, "").strip()[:_LONGEST] for name in texts}
        cursor = query.get("after", "")
        try:
            after = Place.of(cursor[:_LONGEST]) if cursor else None
        except ValueError as error:
            raise BadForm("This address names no page of the list. Go to its first one.") from error
        return cls(
            **found,
            state=_choice(query, "state", Standing),
            due=_choice(query, "due", Due),
            sort=_choice(query, "sort", Sort) or sort,
            after=after,
        )

    @property
    def narrows(self) -> bool:
        """Whether it leaves anything out."""
        return replace(self, sort=Sort.OLDEST, after=None) != Wanted()

    def query(self, after: Place | None = None) -> str:
        """Return the parameters of the address of the page behind a place; "" has none."""
        named = {one.name: getattr(self, one.name) for one in fields(self)}
        named |= {"after": after.cursor if after is not None else ""}
        return urlencode({name: str(value) for name, value in named.items() if value})

    def fits(self, one: Approval, directory: Directory, now: datetime) -> bool:
        """Say whether an approval is one of those that are wanted."""
        return (
            self._stands(one, now)
            and self.queue in {"", *(name.removeprefix(QUEUE) for name in one.queues)}
            and self.tool.casefold() in {"", one.call.name.casefold()}
            and self.app.casefold() in {"", one.origin.app.casefold()}
            and self._due_then(one, now)
            and self._concerns(one, directory)
            and self._says(one, directory)
        )

    def _stands(self, one: Approval, now: datetime) -> bool:
        pending = one.state is State.PENDING
        match self.state:
            case None:
                return True
            case Standing.FREE:
                return pending and one.claim_at(now) is None
            case Standing.CLAIMED:
                return pending and one.claim_at(now) is not None
            case Standing.QUESTION:
                return pending and one.open_question is not None
            case _:
                return one.state.value == self.state.value

    def _due_then(self, one: Approval, now: datetime) -> bool:
        if self.due is None:
            return True
        if one.state is not State.PENDING:
            return False
        if one.deadline is None:
            # What stays open has none any more behind its end; what is not routed has none yet.
            return self.due is Due.OVERDUE and one.terms is not None
        return one.deadline <= now + _WITHIN[self.due]

    def _concerns(self, one: Approval, directory: Directory) -> bool:
        if not self.person:
            return True
        people = (one.origin.user, *one.ballot.awaited, *one.decided_by)
        return any(directory.same(self.person, other) for other in people)

    def _says(self, one: Approval, directory: Directory) -> bool:
        if not self.q:
            return True
        text = words_of(one, directory)
        return all(word in text for word in self.q.casefold().split())


def _choice(query: Mapping[str, str], name: str, kind: type[E]) -> E | None:
    value = query.get(name, "")
    if not value:
        return None
    try:
        return kind(value)
    except ValueError as error:
        known = ", ".join(kind)
        raise BadForm(
            f"This address asks for {name}={value[:40]!r}, which there is not. There is: {known}."
        ) from error
