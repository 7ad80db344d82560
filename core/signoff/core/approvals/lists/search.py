"""What of the approvals is wanted: the same words on the page, in the API and at the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.lists.search_terms import Due, Status
from signoff.core.approvals.masking import masked
from signoff.core.directory.people import Directory
from signoff.core.directory.queues import QUEUE

_WITHIN: Final = {
    Due.OVERDUE: timedelta(),
    Due.HOUR: timedelta(hours=1),
    Due.DAY: timedelta(days=1),
    Due.WEEK: timedelta(weeks=1),
}

_OTHERWISE_STORED: Final = re.compile(r"""[0-9e.+\-,:\[\]{}]*|.*["\\\x00-\x1f].*""", re.DOTALL)
"""Words that can stand otherwise in a record than in `words_of`: numbers, and what JSON escapes."""


@dataclass(frozen=True, slots=True)
class Search:
    """What is wanted; what is not said leaves it open.

    Attributes:
        q: Words that all have to be in it: in the id, the tool, the app, the requester, the hint or
            the arguments.
        state: Where it stands.
        queue: A queue in which it waits, or did at the end.
        tool: The tool.
        app: The app.
        person: The requester, or somebody whose answer is waited for, or who has decided.
        due: When its level ends.
    """

    q: str = ""
    state: Status | None = None
    queue: str = ""
    tool: str = ""
    app: str = ""
    person: str = ""
    due: Due | None = None

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

    def filter_of_records(self, directory: Directory) -> Callable[[str], bool]:
        """Return what says of a stored approval whether it may be one of those that are wanted.

        It looks for words in the text of the record: to read hundreds of records and find none of
        them wanted takes a tenth of the time. What it lets through has to be read and asked of
        `fits`.
        """
        words = [one for one in self.words(directory) if not _OTHERWISE_STORED.fullmatch(one)]

        def may_fit(record: str) -> bool:
            text = record.casefold()
            # What is hidden is shown as something that is not in the record.
            return '"hide":' in text or all(word in text for word in words)

        return may_fit if words else bool

    def words(self, directory: Directory) -> list[str]:
        """Return the folded words that have to be in `text_of` an approval that is wanted.

        A requester's name is not in there: it may change.
        """
        people = "\n".join(
            one.shown.casefold() for group in (directory, directory.inactive) for one in group
        )
        words = (*self.q.casefold().split(), self.tool.casefold(), self.app.casefold())
        return [one for one in words if one and one not in people]

    def _stands(self, one: Approval, now: datetime) -> bool:
        pending = one.state is State.PENDING
        match self.state:
            case None:
                return True
            case Status.FREE:
                return pending and one.claim_at(now) is None
            case Status.CLAIMED:
                return pending and one.claim_at(now) is not None
            case Status.QUESTION:
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


def words_of(approval: Approval, directory: Directory) -> str:
    """Return what a search looks in: ids, tool, app, requester, hint and arguments, folded.

    What its policy hides cannot be found either: a search would tell what it is.
    """
    requester = directory.record(approval.origin.user)
    name = "" if requester is None else requester.shown.casefold()
    return f"{text_of(masked(approval))}\n{name}"


def text_of(approval: Approval) -> str:
    """Return what of `words_of` is in the approval itself; it never changes."""
    call, origin = approval.call, approval.origin
    parts = (
        approval.id,
        origin.run,
        call.name,
        origin.app,
        origin.agent,
        origin.user,
        approval.hint,
        json.dumps(call.args, ensure_ascii=False),
    )
    return "\n".join(parts).casefold()
