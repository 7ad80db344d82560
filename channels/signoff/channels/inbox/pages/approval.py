"""The page of one approval."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from signoff.broker.similar import count_similar, latest_similar
from signoff.channels.form_fields import fields
from signoff.channels.inbox.auth.context import NotFound, Pages, Route, Visit
from signoff.channels.inbox.pages.fields import controls
from signoff.channels.inbox.pages.history import history_of
from signoff.channels.inbox.pages.rows import OUTCOMES, QUIET
from signoff.channels.inbox.pages.views import Mode, View, may_see, view
from signoff.channels.inbox.templating import Live
from signoff.channels.words.messages import moment
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.lists.similar import Similar
from signoff.core.base.durations import format_duration
from signoff.core.base.errors import ApprovalNotFound, RecordUnreadable, RunNotFound
from signoff.core.directory.queues import QUEUE
from signoff.core.grants.bounds import EarlierApprovals, seen
from signoff.core.grants.grant import givers
from signoff.core.policies.levels import Verdict
from signoff.core.routing.escalation import advance

_MISSING: Final = (ApprovalNotFound, RunNotFound, RecordUnreadable)

_SPANS: Final = tuple(timedelta(hours=one) for one in (1, 4, 24, 48, 168))


@dataclass(frozen=True, slots=True)
class RefusedForm:
    """A form that was refused, which is shown again with the same values.

    Attributes:
        move: The move of the form.
        form: The values that were sent.
        alert: Why it was refused.
        problems: The errors of fields, by their names.
        confirms: The reason that the person may confirm, because it reads like a no, a condition or
            a limit; "" if there is nothing to confirm.
    """

    move: str = ""
    form: Mapping[str, str] = field(default_factory=dict)
    alert: str = ""
    problems: Mapping[str, str] = field(default_factory=dict)
    confirms: str = ""


class ApprovalPages(Pages):
    """Shows approvals."""

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        return (("GET", "/approvals/{approval_id}", self.approval_page),)

    async def approval_page(self, request: Request) -> Response:
        """Show one approval."""
        visit = await self._auth.of(request)
        return await self.shown(visit, await self.of_path(visit))

    async def of_path(self, visit: Visit) -> Approval:
        """Return the approval of the path, if this person may see it.

        Raises:
            NotFound: There is none, or this person may not see it.
        """
        try:
            name = str(visit.request.path_params["approval_id"])
            approval, _, _ = await self._ledger.current(name)
        except _MISSING as error:
            raise NotFound from error
        if not may_see(approval, visit.person, self._decisions.directory):
            raise NotFound
        return approval

    async def shown(
        self,
        visit: Visit,
        approval: Approval,
        *,
        status: int = 200,
        tried: RefusedForm | None = None,
    ) -> Response:
        """Show an approval in its present state, with the form that was refused."""
        try:
            approval, run, now = await self._ledger.current(approval.id)
        except _MISSING as error:
            raise NotFound from error
        person, directory, rotations = (
            visit.person,
            self._decisions.directory,
            self._decisions.roster.rotations.known,
        )
        # The state by which an answer would be judged now, even if no timer has run yet.
        moved = advance(approval, directory, now=now, rotations=rotations)[0]
        here = moved if moved.state is State.PENDING else approval
        shape = view(here, person, directory, now)
        tried, zone = tried or RefusedForm(), directory.zone_of(person.id)
        events = await self._ledger.history(approval.id)
        similar, offered = await self._offered(visit, here)
        return visit.page(
            "approval",
            status=status,
            once=secrets.token_urlsafe(12),
            view=shape,
            Mode=Mode,
            history=history_of(here, run, events, person, directory, now=now, rotations=rotations),
            queues=[one.removeprefix(QUEUE) for one in here.queues]
            if here.is_inside(person, directory)
            else [],
            now=now,
            state=_state(here, shape, now, zone),
            outcome=OUTCOMES.get(here.state, QUIET),
            similar=similar,
            earlier=urlencode({"tool": here.call.name, "app": here.origin.app}),
            grant=_grant(here, offered, tried.form if tried.move in _FORM else {}),
            most_field=most_field,
            moment=lambda at: moment(at, zone),
            controls=controls(
                fields(here) if shape.may.decide else (),
                tried.form if tried.move in _FORM else {},
                tried.problems,
            ),
            must_say={one.value: here.needs_reason(one) for one in Verdict},
            spans=[format_duration(one) for one in _SPANS if one < shape.may.extend]
            + [format_duration(shape.may.extend)],
            open_question=here.open_question,
            ask_code=await self._auth.required_proof(visit, strict=here.in_two_steps),
            tried=tried,
            alert=tried.alert,
            # To reload the whole page would lose the values of a refused form.
            live=Live("state" if tried.move else "whole", now, about=here.id),
        )

    async def _offered(
        self, visit: Visit, approval: Approval
    ) -> tuple[Similar, EarlierApprovals | None]:
        """Return the earlier similar decisions of the visitor, and the bounds of a grant."""
        person = visit.person.id
        (similar,) = await count_similar(self._ledger, [(person, approval)])
        rules = approval.terms.grants if approval.terms is not None else None
        if rules is None or person not in givers(approval):
            return similar, None
        return similar, seen(approval, rules, await latest_similar(self._ledger, person, approval))


@dataclass(frozen=True, slots=True)
class GrantForm:
    """The initial values of the form of a grant.

    Attributes:
        found: A sentence about the approved requests that the grant would have covered, "" if there
            are none.
        uses: How many calls it covers.
        most: Names of arguments with the largest values that it covers; see `most_field`.
    """

    found: str
    uses: str
    most: Sequence[tuple[str, str]]


def most_field(at: int) -> str:
    """Return the name of the field that bounds an argument of a grant."""
    return f"most-{at}"


def _grant(
    approval: Approval, offered: EarlierApprovals | None, form: Mapping[str, str]
) -> GrantForm | None:
    """Return the form of a grant as it was sent, or with the bounds of earlier approvals."""
    rules = approval.terms.grants if approval.terms is not None else None
    if offered is None or rules is None:
        return None
    many = "requests" if offered.covered > 1 else "request"
    found = f"It would have covered {offered.covered} {many} that you approved."
    uses = str(min(offered.covered, rules.most) if offered.covered else rules.most)
    return GrantForm(
        found=found if offered.covered else "",
        uses=form.get("uses", uses),
        most=[
            (name, form.get(most_field(at), most))
            for at, (name, most) in enumerate(offered.most.items())
        ],
    )


_FORM: Final = frozenset({"approve", "reject"})


def _state(approval: Approval, shape: View, now: datetime, zone: tzinfo) -> str:
    """Return a sentence about the present state, for people who watch it change."""
    if shape.over is not None:
        at = f" Ended {moment(shape.ended, zone)}." if shape.ended else ""
        return f"{shape.over.headline}.{at}"
    claimed = f"{shape.card.claimed} has claimed it" if approval.claim_at(now) else ""
    count = len(shape.card.comments)
    comments = f"{count} comment{'s' if count > 1 else ''}" if count else ""
    level = f"level {shape.card.level}" if shape.card.level else ""
    parts = filter(None, (level, shape.card.progress, claimed, comments))
    return f"Pending: {', '.join(parts) or 'nobody has answered'}."
