"""What people do on the page of an approval: decide, and everything short of it.

The page only leaves out what would be refused. Whether it may be is judged by the desk, when the
form comes, of where the approval then stands.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

import structlog
from starlette.requests import Request
from starlette.responses import Response

from signoff.broker.collaboration import Along, Handling
from signoff.broker.decisions import Desk
from signoff.broker.grants import Grants
from signoff.broker.ledger.change import Change
from signoff.channels.collaboration import named
from signoff.channels.form_fields import PayloadErrors, fields
from signoff.channels.inbox.auth.context import Route, Visit, Visits, go
from signoff.channels.inbox.forms import BadForm
from signoff.channels.inbox.pages.approval import ApprovalPages, Tried
from signoff.channels.inbox.pages.fields import read_values
from signoff.channels.inbox.settings import CHANNEL, page_of
from signoff.core.approvals import collaboration
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.collaboration import Operator
from signoff.core.approvals.parts import Assurance
from signoff.core.base.durations import parse_duration
from signoff.core.base.errors import (
    ApprovalError,
    Conflict,
    GrantRefused,
    MoveRefused,
    PayloadError,
    ReasonNeeded,
)
from signoff.core.base.text import LONGEST_REASON, clean_text
from signoff.core.directory.people import Person, Role

log = structlog.get_logger(__name__)

_ONCE: Final = re.compile(r"[A-Za-z0-9_-]{16}")
_REMEMBERED: Final = timedelta(days=1)
_AGAIN: Final = "The call has changed, so nothing was done. Reload the page."
_NOT_SAID: Final = frozenset({"csrf", "code"})
REASON: Final = "#reason"
SPAN: Final = "#span"
"""What is no field of the payload, where it is said what is wrong with a form."""

_STRICT: Final = frozenset({"approve", "reassign"})
"""What takes a second factor where a yes does: a session alone hands on no more than it may decide.
A no counts without, as by mail."""


_OPERATED: Final = frozenset({"release", "reassign", "comment", "withdraw", "extend", "remind"})
"""What an operator does as one; the rest they do like everybody who is asked."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A form of the page.

    Attributes:
        visit: Who has sent it.
        approval: What it is about, as it was when the form came.
        form: Its fields.
        along: What goes into the same commit: that it was taken, and how.
    """

    visit: Visit
    approval: Approval
    form: Mapping[str, str]
    along: Along

    @property
    def person(self) -> Person:
        """Who."""
        return self.visit.person

    def text(self, name: str) -> str:
        """Return what was written into a field, as it is kept."""
        return clean_text(self.form.get(name, "")).strip()[:LONGEST_REASON].strip()


class MovePages:
    """Takes the forms of the page.

    Args:
        desk: Decides.
        visits: Who sends.
        pages: Show how it then stands.
    """

    def __init__(self, desk: Desk, visits: Visits, pages: ApprovalPages) -> None:
        self._desk = desk
        self._ledger = desk.ledger
        self._visits = visits
        self._pages = pages
        self._handling = Handling(desk)
        self._grants = Grants(desk)

    def routes(self) -> Sequence[Route]:
        """Return the routes: one for each move."""
        moves: dict[str, Callable[[Sent], Awaitable[object]]] = {
            "approve": self._approve,
            "reject": self._reject,
            "claim": self._claim,
            "release": self._release,
            "reassign": self._reassign,
            "comment": self._comment,
            "ask": self._ask,
            "answer": self._answer,
            "withdraw": self._withdraw,
            "extend": self._extend,
            "remind": self._remind,
        }
        return tuple(
            ("POST", f"/approvals/{{approval_id}}/{name}", partial(self._take, name, make))
            for name, make in moves.items()
        )

    async def _take(
        self, move: str, make: Callable[[Sent], Awaitable[object]], request: Request
    ) -> Response:
        """Make a move, once, if the session says that it is whoever may."""
        visit = await self._visits.of(request)
        form = await self._visits.form(visit)
        approval = await self._pages.of_path(visit)
        if form.get("digest") != approval.digest or not _ONCE.fullmatch(form.get("once", "")):
            await self._desk.note_refusal(
                approval.id, _AGAIN, by=visit.person.id, more={"channel": CHANNEL}
            )
            raise BadForm(_AGAIN)
        there = go(page_of(approval.id))
        guard = _guard(move, visit.person, approval, form)
        if await self._ledger.raw(guard) is not None:
            return there
        strict = move in _STRICT and approval.in_two_steps
        visit, status, alert = await self._visits.proven(visit, form, strict=strict)
        if alert:
            tried = Tried(move, form, alert)
            return await self._pages.shown(visit, approval, status=status, tried=tried)
        also = Change().put_raw(guard, "1", ttl=_REMEMBERED)
        more = {"channel": CHANNEL, **await self._visits.evidence(visit)}
        operates = isinstance(
            collaboration.acting(approval, visit.person, self._desk.directory), Operator
        )
        if operates and move in _OPERATED:
            more["role"] = Role.OPERATOR.value
        # What `strict` moves take was given just now, or within the minutes that it is good for.
        assurance = Assurance.SECOND_FACTOR if strict else Assurance.ACCOUNT
        sent = Sent(visit, approval, form, Along(also=also, more=more, assurance=assurance))
        try:
            await make(sent)
        except (PayloadErrors, ApprovalError, Conflict) as error:
            # Who presses twice was heard the first time.
            if await self._ledger.raw(guard) is not None:
                return there
            return await self._not_taken(sent, move, error)
        log.info("inbox.moved", approval=approval.id, person=visit.person.id, move=move)
        return there

    async def _not_taken(self, sent: Sent, move: str, error: Exception) -> Response:
        """Show the form again, with what is wrong with it, or how things stand.

        Raises:
            Conflict: Others were faster each time; nothing was done.
        """
        if isinstance(error, Conflict):
            raise error
        wrong = isinstance(error, PayloadErrors | PayloadError | GrantRefused)
        tried = Tried(move, sent.form, *_told(error))
        status = 422 if wrong else 409
        return await self._pages.shown(sent.visit, sent.approval, status=status, tried=tried)

    # -- the moves -----------------------------------------------------------------------------

    async def _approve(self, sent: Sent) -> None:
        """Say yes: at once, to what was said by mail, or to calls like it too."""
        about, along = sent.approval.id, sent.along
        if mark := sent.form.get("mark", ""):
            await self._desk.confirm(
                about,
                sent.person,
                channel=CHANNEL,
                mark=mark,
                also=along.also,
                more=along.more,
            )
            return
        reason = sent.text("reason")
        if text := sent.form.get("span", ""):
            await self._grants.give(
                about,
                sent.person,
                channel=CHANNEL,
                span=_duration(text, GrantRefused),
                reason=reason,
                also=along.also,
                more=along.more,
            )
            return
        await self._desk.approve(
            about,
            sent.person,
            channel=CHANNEL,
            reason=reason,
            values=read_values(fields(sent.approval), sent.form) or None,
            also=along.also,
            more=along.more,
        )

    async def _reject(self, sent: Sent) -> None:
        await self._desk.reject(
            sent.approval.id,
            sent.person,
            channel=CHANNEL,
            reason=sent.text("reason"),
            also=sent.along.also,
            more=sent.along.more,
        )

    async def _claim(self, sent: Sent) -> None:
        await self._handling.claim(sent.approval.id, sent.person, along=sent.along)

    async def _release(self, sent: Sent) -> None:
        who = collaboration.acting(sent.approval, sent.person, self._desk.directory)
        await self._handling.release(
            sent.approval.id, who, reason=sent.text("reason"), along=sent.along
        )

    async def _reassign(self, sent: Sent) -> None:
        directory = self._desk.directory
        whose = sent.form.get("of", "")
        of = named(directory, whose) if whose else sent.person
        own = of.id == sent.person.id
        await self._handling.reassign(
            sent.approval.id,
            sent.person if own else collaboration.acting(sent.approval, sent.person, directory),
            of=of,
            to=named(directory, sent.form.get("to", "").strip()),
            reason=sent.text("reason"),
            along=sent.along,
        )

    async def _comment(self, sent: Sent) -> None:
        who = collaboration.acting(sent.approval, sent.person, self._desk.directory)
        await self._handling.comment(
            sent.approval.id, who, text=sent.text("text"), along=sent.along
        )

    async def _ask(self, sent: Sent) -> None:
        await self._handling.ask_back(
            sent.approval.id, sent.person, text=sent.text("text"), along=sent.along
        )

    async def _answer(self, sent: Sent) -> None:
        await self._handling.answer_back(
            sent.approval.id, sent.person, text=sent.text("text"), along=sent.along
        )

    async def _withdraw(self, sent: Sent) -> None:
        """Take it back: as the requester, or as whoever runs Signoff."""
        approval, person, reason = sent.approval, sent.person, sent.text("reason")
        if not isinstance(collaboration.acting(approval, person, self._desk.directory), Operator):
            await self._handling.withdraw(approval.id, person, reason=reason, along=sent.along)
            return
        if not reason:
            raise ReasonNeeded(
                "A reason is needed to withdraw somebody else's request.",
                key="",
                read="",
                example="",
            )
        await self._desk.withdraw(
            approval.id, by=person.id, reason=reason, also=sent.along.also, more=sent.along.more
        )

    async def _extend(self, sent: Sent) -> None:
        await self._handling.extend(
            sent.approval.id,
            collaboration.acting(sent.approval, sent.person, self._desk.directory),
            by=_duration(sent.form.get("by", ""), MoveRefused),
            reason=sent.text("reason"),
            along=sent.along,
        )

    async def _remind(self, sent: Sent) -> None:
        who = collaboration.acting(sent.approval, sent.person, self._desk.directory)
        await self._handling.remind(sent.approval.id, who, along=sent.along)


def _told(error: Exception) -> tuple[str, dict[str, str]]:
    """Return what is said about a form that was not taken, and at which fields."""
    match error:
        case PayloadErrors(problems=problems):
            return "Please correct the marked fields.", {
                name: str(one) for name, one in problems.items()
            }
        case ReasonNeeded():
            return str(error), {REASON: str(error)}
        case PayloadError(key=key, example=example):
            hint = f" For instance: {example}" if example else ""
            return f"{error}{hint}", {key: str(error)}
        case GrantRefused():
            return str(error), {SPAN: str(error)}
    return str(error), {}


def _guard(move: str, person: Person, approval: Approval, form: Mapping[str, str]) -> str:
    """Return the key under which it is known that a form was taken.

    The same page sent again with other words is another form.
    """
    said = sorted((name, text) for name, text in form.items() if name not in _NOT_SAID)
    parts = (move, person.id, approval.id, *(part for pair in said for part in pair))
    return f"form:{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}"


def _duration(text: str, refused: Callable[[str], GrantRefused | MoveRefused]) -> timedelta:
    try:
        length = parse_duration(text.strip())
    except ValueError as error:
        raise refused(str(error)) from error
    if not isinstance(length, timedelta):
        raise refused(f"{text!r} is no length of time.")
    return length
