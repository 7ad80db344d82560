"""Searches for approvals, with the same filters on the page, in the API and at the terminal."""

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
"""Words that a record may store in another form: numbers, and characters that JSON escapes."""


_MARK: Final = re.compile(r"#[a-z2-7]{4}")
"""The end of an id as the subjects of mails have it."""


@dataclass(frozen=True, slots=True)
class Search:
    """Filters; an unset one matches everything.

    Attributes:
        q: Words that must all occur in the id, the tool, the app, the requester, the hint or the
            arguments. ``#qgkq``, as in the subject of a mail, is the end of an id.
        state: The state.
        queue: The queue of the present level, or of the last one.
        tool: The tool.
        app: The app.
        person: The requester, an awaited approver, or a person who decided.
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
        """Say whether an approval matches."""
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
        """Return a function that says whether a stored approval may match.

        It looks for words in the text of the record, which takes a tenth of the time of parsing the
        record. Records that pass must still be parsed and checked by `fits`.
        """
        words = [one for one in self.words(directory) if not _OTHERWISE_STORED.fullmatch(one)]

        def may_fit(record: str) -> bool:
            text = record.casefold()
            # Hidden values are shown as a placeholder, which is not in the record.
            return '"hide":' in text or all(word in text for word in words)

        return may_fit if words else bool

    def words(self, directory: Directory) -> list[str]:
        """Return the folded words that `text_of` a matching approval must contain.

        Words in the names of people are left out: the text does not contain the requester's name,
        which may change.
        """
        people = "\n".join(
            one.shown.casefold() for group in (directory, directory.inactive) for one in group
        )
        words = (*self._q_words(), self.tool.casefold(), self.app.casefold())
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
            # An overdue approval that stays open has no deadline, nor has one that is not routed.
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
        return all(word in text for word in self._q_words())

    def _q_words(self) -> list[str]:
        words = self.q.casefold().split()
        return [one.removeprefix("#") if _MARK.fullmatch(one) else one for one in words]


def words_of(approval: Approval, directory: Directory) -> str:
    """Return the text to search: ids, tool, app, requester, hint and arguments, folded.

    Hidden values are masked, because a search could reveal them.
    """
    requester = directory.record(approval.origin.user)
    name = "" if requester is None else requester.shown.casefold()
    return f"{text_of(masked(approval))}\n{name}"


def text_of(approval: Approval) -> str:
    """Return the part of `words_of` that depends on the approval alone and never changes."""
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
