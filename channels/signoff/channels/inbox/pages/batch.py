"""Approving several calls at once, if their policy marks them as harmless.

All of them are shown in full first. Each is then decided separately: if one has changed, or was
decided by somebody else meanwhile, the others are still approved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog
from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import Response

from signoff.broker.decisions import OF_ONE, Refused
from signoff.channels.inbox.auth.context import Pages, Route
from signoff.channels.inbox.forms import BadForm
from signoff.channels.inbox.pages.rows import When, may_answer
from signoff.channels.inbox.pages.views import may_see
from signoff.channels.inbox.settings import CHANNEL, page_of
from signoff.channels.words.messages import moment
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.moves import Actor
from signoff.core.base.errors import ApprovalNotFound, DecisionRefused, RecordUnreadable
from signoff.core.cards.card import Card, Remark, card, comments_on
from signoff.core.directory.people import Person
from signoff.core.policies.levels import Verdict

log = structlog.get_logger(__name__)

MOST: Final = 50
"""The most calls in a batch."""

_SEARCHED: Final = 1_000
"""The most pending requests of a person to search for a batch, the oldest first."""

_FIELD: Final = "digest."
_NOT_FOUND: Final = "There is no such request, or you may not see it."


@dataclass(frozen=True, slots=True)
class Item:
    """One call of a batch.

    Attributes:
        card: The request.
        comments: All comments, in full.
        path: The path of its page.
        due: When it is due.
    """

    card: Card
    comments: Sequence[Remark]
    path: str
    due: When | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one call of a batch.

    Attributes:
        path: The path of its page, "" if this person may not see it.
        title: Its title.
        text: The result.
        done: Whether the answer counts.
    """

    path: str
    title: str
    text: str
    done: bool = False


class BatchPages(Pages):
    """Shows several calls in full, and approves them."""

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        return (("GET", "/batch", self.look), ("POST", "/batch", self.approve))

    async def look(self, request: Request) -> Response:
        """Show the selected calls in full, or the first ones that can be approved together.

        Raises:
            BadForm: None of the person's requests can be approved together with others.
        """
        visit = await self._auth.of(request)
        now, person = await self._ledger.now(), visit.person
        directory = self._decisions.directory
        zone = directory.zone_of(person.id)
        items, left, more = list[Item](), list[Outcome](), 0
        wanted = request.query_params.getlist("id")
        if not wanted and request.query_params.get("all"):
            able = await self._able(person, now)
            if not able:
                raise BadForm("None of your requests can be approved together with others.")
            wanted, more = able[:MOST], len(able) - MOST
        for one in _selected(wanted):
            approval = await self._found(person, one)
            if approval is None:
                left.append(Outcome("", one, _NOT_FOUND))
            elif problem := self._problem(approval, person, now):
                left.append(Outcome(page_of(approval.id), self._title(approval), problem))
            else:
                shape, said = card(approval, directory), comments_on(approval, directory)
                due = When.of(approval.deadline, now, zone)
                items.append(Item(shape, said, page_of(approval.id), due))
        return visit.page(
            "batch",
            here="/",
            items=items,
            left=left,
            more=max(more, 0),
            moment=lambda at: moment(at, zone),
        )

    async def approve(self, request: Request) -> Response:
        """Approve each of the calls that were shown, and return the result."""
        visit, form = await self._auth.sent(request)
        shown = {
            name.removeprefix(_FIELD): digest
            for name, digest in form.items()
            if name.startswith(_FIELD)
        }
        ids = _selected(list(shown))
        # No second factor: calls that need one are never approved with others.
        proof = await self._auth.evidence(visit)
        outcomes = [await self._decided(visit.person, one, shown[one], proof) for one in ids]
        log.info("inbox.batch", person=visit.person.id, approvals=len(ids))
        return visit.page(
            "batch_done",
            here="/",
            outcomes=outcomes,
            done=sum(one.done for one in outcomes),
        )

    async def _able(self, person: Person, now: datetime) -> list[str]:
        """Return the ids of calls that a person may approve together, the oldest first."""
        ids = await self._ledger.store.members(f"inbox:{person.id}", limit=_SEARCHED)
        found = await self._ledger.readable(ids)
        return [one.id for one in found if not self._problem(one, person, now)]

    async def _decided(
        self, person: Person, approval_id: str, digest: str, proof: Mapping[str, JsonValue]
    ) -> Outcome:
        """Approve one call if it has not changed since it was shown, and return the result."""
        seen = await self._found(person, approval_id)
        if seen is None:
            return Outcome("", approval_id, _NOT_FOUND)
        path, title = page_of(seen.id), self._title(seen)
        if digest != seen.digest:
            problem = "The call has changed since it was shown. Open it again."
            actor = Actor(person, CHANNEL, {"batch": True})
            error = DecisionRefused(problem)
            await self._decisions.refuse(seen.id, error, actor, wanted=moves.Approve.name)
            return Outcome(path, title, problem)
        move = moves.Approve(together=True)
        try:
            outcome = await self._decisions.take(seen.id, move, Actor(person, CHANNEL, proof))
        except OF_ONE as error:
            return Outcome(path, title, str(error))
        if isinstance(outcome, Refused) and _has_approved(outcome.approval, person):
            # After a double click, a browser shows the response to the second form.
            return Outcome(path, title, "You have already approved it.", done=True)
        if isinstance(outcome, Refused):
            return Outcome(path, title, str(outcome.error))
        after = outcome.approval
        said = after.outcome(self._decisions.directory)
        text = (
            "Approved." if after.decision else f"Your approval is recorded; the request is {said}."
        )
        return Outcome(path, title, text, done=True)

    async def _found(self, person: Person, approval_id: str) -> Approval | None:
        """Return an approval, None if there is none or this person may not see it."""
        try:
            approval = await self._ledger.approval(approval_id)
        except (ApprovalNotFound, RecordUnreadable):
            return None
        return approval if may_see(approval, person, self._decisions.directory) else None

    def _problem(self, approval: Approval, person: Person, now: datetime) -> str:
        """Return why a call cannot be approved together with others, "" if it can."""
        try:
            approval.may_decide(person, self._decisions.directory, now=now)
        except DecisionRefused as error:
            return str(error)
        if not may_answer(approval, person, self._decisions.directory, now):
            return "You have already answered it."
        return "" if approval.batchable else "It must be answered separately. Open it."

    def _title(self, approval: Approval) -> str:
        return card(approval, self._decisions.directory).title


def _has_approved(approval: Approval, person: Person) -> bool:
    """Return whether an approval by this person counts."""
    if approval.state not in {State.PENDING, State.APPROVED}:
        return False
    given = [one.decision for one in approval.votes if one.verdict is Verdict.APPROVE]
    if approval.state is State.APPROVED and approval.decision is not None:
        given.append(approval.decision)
    return any(one.by == person.id for one in given)


def _selected(wanted: Sequence[str]) -> Sequence[str]:
    """Return the selected ids without duplicates.

    Raises:
        BadForm: There are none, or more than `MOST`.
    """
    ids = list(dict.fromkeys(wanted))
    if not ids:
        raise BadForm("You selected nothing. Go back, and select the requests to approve.")
    if len(ids) > MOST:
        raise BadForm(f"You selected {len(ids)} requests. Select at most {MOST}.")
    return ids
