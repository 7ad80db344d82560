"""The page on which people set and end their absences."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from signoff.broker.hand_over import first_waiting, hand_over, waits_for
from signoff.channels.absence import absence_between, handed_words
from signoff.channels.inbox.auth.context import Pages, Route, Visit, go
from signoff.channels.inbox.settings import CHANNEL, ROOT
from signoff.core.approvals.moves import Actor
from signoff.core.approvals.parts import Assurance
from signoff.core.base.errors import AbsenceRefused, MoveRefused
from signoff.core.base.shown_text import one_line
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person

_NAMED: Final = 5
"""How many waiting requests are named; further ones are counted."""


class AwayPages(Pages):
    """Shows, sets and ends absences."""

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        return (
            ("GET", "/away", self.away_page),
            ("POST", "/away", self.leave),
            ("POST", "/away/back", self.come_back),
        )

    async def away_page(self, request: Request) -> Response:
        """Show the absences of the visitor."""
        return await self._shown(await self._auth.of(request))

    async def leave(self, request: Request) -> Response:
        """Set an absence, and its delegate."""
        return await self._absence(request, self._leave)

    async def come_back(self, request: Request) -> Response:
        """End the present absence."""
        return await self._absence(request, self._come_back)

    async def _absence(
        self,
        request: Request,
        change: Callable[[Person, Mapping[str, str], Assurance], Awaitable[None]],
    ) -> Response:
        """Set or end an absence.

        A delegate decides in the person's place. So people who have a second factor must give it: a
        session alone hands over no more than it may decide.
        """
        visit, form = await self._auth.sent(request)
        strict = await self._auth.has_factor(visit)
        visit, status, alert = await self._auth.check_proof(visit, form, strict=strict)
        try:
            if not alert:
                given = Assurance.SECOND_FACTOR if strict else Assurance.ACCOUNT
                await change(visit.person, form, given)
                return go(f"{ROOT}/away")
        except AbsenceRefused as error:
            status, alert = 422, str(error)
        return await self._shown(visit, status=status, alert=alert, form=form)

    async def _shown(
        self,
        visit: Visit,
        *,
        status: int = 200,
        alert: str = "",
        form: Mapping[str, str] | None = None,
    ) -> Response:
        person, now = visit.person, await self._decisions.ledger.now()
        directory = await self._decisions.people.directory()
        present = directory.get(person.id) or person
        waiting = await first_waiting(self._decisions.ledger, person.id)
        absence, has_factor = present.absence(now), await self._auth.has_factor(visit)
        later = sorted(
            (one for one in present.away if one.start > present.day(now)), key=lambda one: one.start
        )
        return visit.page(
            "away",
            status=status,
            here="/away",
            absence=_line(absence, directory) if absence is not None else None,
            later=[_line(one, directory) for one in later],
            today=present.day(now).isoformat(),
            ask_code=await self._auth.required_proof(visit, strict=has_factor),
            has_factor=has_factor,
            waiting=len(waiting.found),
            unread=waiting.unread,
            first=[
                {"id": one.id, "call": one_line(one.call.name)} for one in waiting.found[:_NAMED]
            ],
            delegate=absence.delegate if absence is not None else "",
            alert=alert,
            form=form or {},
        )

    async def _leave(self, person: Person, form: Mapping[str, str], given: Assurance) -> None:
        """Set the absence that a form describes.

        Raises:
            AbsenceRefused: The absence is impossible; nothing was done.
        """
        now = await self._decisions.ledger.now()
        try:
            start, end = _day(form, "from", default=person.day(now)), _day(form, "until")
            delegate = form.get("delegate", "").strip()
            absence = absence_between(start, end, delegate, self._decisions.directory)
        except MoveRefused as error:
            raise AbsenceRefused(str(error)) from error
        more = {"channel": CHANNEL}
        decisions = self._decisions
        await decisions.people.leave(person, absence, by=person.id, more=more, assurance=given)
        if form.get("hand_over"):
            await self._hand_over(person, absence, given)

    async def _hand_over(self, person: Person, absence: Absence, given: Assurance) -> None:
        """Hand over the requests that wait for a person to their delegate.

        Raises:
            AbsenceRefused: There is no delegate, or some requests stay. The absence is set.
        """
        decisions = self._decisions
        delegate = decisions.directory.find(absence.delegate)
        if delegate is None:
            raise AbsenceRefused(
                "Your absence is set. Nothing was handed over: name a delegate for that."
            )
        waiting = await waits_for(decisions.ledger, person.id)
        actor = Actor(person, CHANNEL, assurance=given)
        handed = await hand_over(decisions, waiting, actor, of=person, to=delegate)
        if handed.refused:
            raise AbsenceRefused(f"Your absence is set. {handed_words(handed, delegate)}")

    async def _come_back(self, person: Person, _: Mapping[str, str], __: Assurance) -> None:
        """Record that a person is back from today on.

        Raises:
            AbsenceRefused: The person is not away.
        """
        await self._decisions.people.come_back(person, by=person.id, more={"channel": CHANNEL})


def _day(form: Mapping[str, str], name: str, *, default: date | None = None) -> date:
    text = form.get(name, "").strip()
    if not text and default is not None:
        return default
    try:
        # `date.fromisoformat` accepts more forms.
        return datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007 -- a day has no zone
    except ValueError as error:
        raise AbsenceRefused(f"{text!r} is not a day: write it like 2026-12-24.") from error


def _line(absence: Absence, directory: Directory) -> dict[str, str]:
    delegate = directory.find(absence.delegate)
    return {
        "start": absence.start.isoformat(),
        "end": absence.end.isoformat(),
        "delegate": delegate.shown if delegate is not None else "",
    }
