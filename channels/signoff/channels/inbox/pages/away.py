"""Being away, on the inbox page: what is known, and what the person signed in says about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date, datetime

from starlette.requests import Request
from starlette.responses import Response

from signoff.broker.hand_over import hand_over, waits_for
from signoff.channels.absence import handover_words
from signoff.channels.collaboration import person_named
from signoff.channels.inbox.auth.context import Pages, Route, Visit, go
from signoff.channels.inbox.settings import CHANNEL, ROOT
from signoff.core.approvals.moves import Actor
from signoff.core.approvals.parts import Assurance
from signoff.core.base.errors import AbsenceRefused, MoveRefused
from signoff.core.base.shown_text import one_line
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person


class AwayPages(Pages):
    """Shows and takes in absences."""

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        return (
            ("GET", "/away", self.away_page),
            ("POST", "/away", self.leave),
            ("POST", "/away/back", self.come_back),
        )

    async def away_page(self, request: Request) -> Response:
        """Show when the person signed in is away."""
        return await self._shown(await self._auth.of(request))

    async def leave(self, request: Request) -> Response:
        """Note that somebody is away, and who decides instead."""
        return await self._absence(request, self._leave)

    async def come_back(self, request: Request) -> Response:
        """Note that somebody is back."""
        return await self._absence(request, self._come_back)

    async def _absence(
        self,
        request: Request,
        note: Callable[[Person, Mapping[str, str], Assurance], Awaitable[None]],
    ) -> Response:
        """Note an absence.

        The stand-in decides. So a person who has a second factor, and may be asked what takes one,
        gives it: a session alone hands on no more than it may decide.
        """
        visit, form = await self._auth.sent(request)
        strict = await self._auth.has_factor(visit)
        visit, status, alert = await self._auth.proven(visit, form, strict=strict)
        try:
            if not alert:
                given = Assurance.SECOND_FACTOR if strict else Assurance.ACCOUNT
                await note(visit.person, form, given)
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
        absence, has_factor = present.absence(now), await self._auth.has_factor(visit)
        later = sorted(
            (one for one in present.away if one.start > present.day(now)), key=lambda one: one.start
        )
        return visit.page(
            "away",
            status=status,
            absence=_line(absence, directory) if absence is not None else None,
            later=[_line(one, directory) for one in later],
            today=present.day(now).isoformat(),
            ask_code=await self._auth.needs_code(visit, strict=has_factor),
            has_factor=has_factor,
            waiting=[
                {"id": one.id, "call": one_line(one.call.name)}
                for one in await waits_for(self._decisions.ledger, person.id)
            ],
            delegate=absence.delegate if absence is not None else "",
            alert=alert,
            form=form or {},
        )

    async def _leave(self, person: Person, form: Mapping[str, str], given: Assurance) -> None:
        """Note the absence of a form.

        Raises:
            AbsenceRefused: It cannot be; the message is for the person.
        """
        now = await self._decisions.ledger.now()
        try:
            start, end = _day(form, "from", default=person.day(now)), _day(form, "until")
            if end < start:
                raise AbsenceRefused(f"It would end on {end}, before it begins on {start}.")
            name = form.get("delegate", "").strip()
            delegate = person_named(self._decisions.directory, name).id if name else ""
        except MoveRefused as error:
            raise AbsenceRefused(str(error)) from error
        absence = Absence(start=start, end=end, delegate=delegate)
        more = {"channel": CHANNEL}
        decisions = self._decisions
        await decisions.people.leave(person, absence, by=person.id, more=more, assurance=given)
        if form.get("hand_over"):
            await self._hand_over(person, absence, given)

    async def _hand_over(self, person: Person, absence: Absence, given: Assurance) -> None:
        """Give what waits for somebody to their delegate.

        Raises:
            AbsenceRefused: There is no delegate, or some of it stays; the message says what.
        """
        decisions = self._decisions
        delegate = decisions.directory.find(absence.delegate)
        if delegate is None:
            raise AbsenceRefused(
                "Your absence is noted. Nothing was handed over: name a delegate for that."
            )
        waiting = await waits_for(decisions.ledger, person.id)
        actor = Actor(person, CHANNEL, assurance=given)
        handed = await hand_over(decisions, waiting, actor, of=person, to=delegate)
        if handed.refused:
            raise AbsenceRefused(f"Your absence is noted. {handover_words(handed, delegate)}")

    async def _come_back(self, person: Person, _: Mapping[str, str], __: Assurance) -> None:
        """Note that somebody is here from today on.

        Raises:
            AbsenceRefused: They are not away.
        """
        await self._decisions.people.come_back(person, by=person.id, more={"channel": CHANNEL})


def _day(form: Mapping[str, str], name: str, *, default: date | None = None) -> date:
    text = form.get(name, "").strip()
    if not text and default is not None:
        return default
    try:
        # What is not a day of the form is none, also where Python reads more.
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
