"""The page of one approval, and the answers that are given on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import structlog
from starlette.requests import Request
from starlette.responses import Response

from signoff.broker.change import Change
from signoff.broker.desk import Desk
from signoff.channels.inbox.forms import BadForm
from signoff.channels.inbox.pages import page
from signoff.channels.inbox.settings import CHANNEL, page_of
from signoff.channels.inbox.views import Stage, is_for, view
from signoff.channels.inbox.visits import NotFound, Route, Visit, Visits, go
from signoff.core.approval import Approval
from signoff.core.command import LONGEST_REASON
from signoff.core.errors import (
    ApprovalNotFound,
    DecisionRefused,
    PayloadError,
    RecordUnreadable,
)
from signoff.core.events import What
from signoff.core.payload import parse_values
from signoff.core.text import clean_text

log = structlog.get_logger(__name__)


class ApprovalPages:
    """Shows approvals, and takes answers in.

    Args:
        desk: Decides.
        visits: Who looks and answers.
    """

    def __init__(self, desk: Desk, visits: Visits) -> None:
        self._desk = desk
        self._ledger = desk.ledger
        self._visits = visits

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        one = "/approvals/{approval_id}"
        return (
            ("GET", one, self.approval_page),
            ("POST", f"{one}/approve", self.approve),
            ("POST", f"{one}/reject", self.reject),
        )

    async def approval_page(self, request: Request) -> Response:
        """Show one approval."""
        visit = await self._visits.of(request)
        return await self._shown(visit, await self._approval(visit))

    async def approve(self, request: Request) -> Response:
        """Say yes: at once, or to what was said by mail."""
        return await self._decide(request, self._yes, strict=True)

    async def reject(self, request: Request) -> Response:
        """Say no."""
        return await self._decide(request, self._no)

    async def _yes(self, visit: Visit, approval: Approval, form: Mapping[str, str]) -> None:
        if mark := form.get("mark", ""):
            await self._desk.confirm(
                approval.id,
                visit.person,
                channel=CHANNEL,
                mark=mark,
                more=await self._visits.evidence(visit),
            )
            return
        start = "value."
        typed = {
            name.removeprefix(start): text
            for name, text in form.items()
            if name.startswith(start) and text.strip()
        }
        values = parse_values(approval.template, typed) if typed else None
        await self._desk.approve(
            approval.id,
            visit.person,
            channel=CHANNEL,
            reason=_reason(form),
            values=values,
            more=await self._visits.evidence(visit),
        )

    async def _no(self, visit: Visit, approval: Approval, form: Mapping[str, str]) -> None:
        await self._desk.reject(
            approval.id,
            visit.person,
            channel=CHANNEL,
            reason=_reason(form),
            more=await self._visits.evidence(visit),
        )

    async def _decide(
        self,
        request: Request,
        answer: Callable[[Visit, Approval, Mapping[str, str]], Awaitable[None]],
        *,
        strict: bool = False,
    ) -> Response:
        """Decide, if the session says that it is the person who was asked.

        A yes that takes two steps takes a fresh second factor. A no counts without, as by mail.
        """
        visit = await self._visits.of(request)
        form = await self._visits.form(visit)
        approval = await self._approval(visit)
        if form.get("digest") != approval.digest:
            raise BadForm("This form shows another call, so nothing was done. Load it again.")
        visit, status, alert = await self._visits.proven(
            visit, form, strict=strict and approval.in_two_steps
        )
        if alert:
            return await self._shown(visit, approval, status=status, alert=alert, form=form)
        try:
            await answer(visit, approval, form)
        except PayloadError as error:
            alert = f"{error} For instance: {error.example}"
            return await self._shown(visit, approval, status=422, alert=alert, form=form)
        except DecisionRefused as error:
            return await self._refused(visit, approval.id, error)
        log.info("inbox.answered", approval=approval.id, person=visit.person.id)
        return go(page_of(approval.id))

    async def _refused(self, visit: Visit, approval_id: str, error: DecisionRefused) -> Response:
        """Note that an answer does not count, and show how things stand."""
        approval = await self._ledger.approval(approval_id)
        event = approval.note(
            What.REFUSED_ANSWER,
            now=await self._ledger.now(),
            by=visit.person.id,
            why=str(error),
            more={"channel": CHANNEL},
        )
        await self._ledger.commit(Change().note([event]))
        return await self._shown(visit, approval, status=409, alert=str(error))

    async def _shown(
        self,
        visit: Visit,
        approval: Approval,
        *,
        status: int = 200,
        alert: str = "",
        form: Mapping[str, str] | None = None,
    ) -> Response:
        now = await self._ledger.now()
        shape = view(approval, visit.person, self._desk.directory, now)
        needed = await self._visits.needs_code(visit, strict=approval.in_two_steps)
        return page(
            "approval",
            status=status,
            who=visit.person,
            session=visit.session,
            view=shape,
            Stage=Stage,
            ask_code=needed,
            alert=alert,
            form=form or {},
        )

    async def _approval(self, visit: Visit) -> Approval:
        """Return the approval of the path, if it is one about which this person is asked."""
        try:
            approval = await self._ledger.approval(str(visit.request.path_params["approval_id"]))
        except (ApprovalNotFound, RecordUnreadable) as error:
            raise NotFound from error
        if not is_for(approval, visit.person, self._desk.directory):
            raise NotFound
        return approval


def _reason(form: Mapping[str, str]) -> str:
    return clean_text(form.get("reason", "")).strip()[:LONGEST_REASON].strip()
