"""Being away, on the inbox page: what is known, and what whoever is signed in says about it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime

from starlette.responses import Response

from signoff.broker.desk import Desk
from signoff.channels.inbox.pages import page
from signoff.channels.inbox.sessions import Session
from signoff.channels.inbox.settings import CHANNEL
from signoff.channels.leaving import person_called
from signoff.core.errors import AbsenceRefused, MoveRefused
from signoff.core.hours import Absence
from signoff.core.people import Directory, Person


class Away:
    """Shows and takes in absences.

    Args:
        desk: The ledger and the people.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def shown(
        self,
        person: Person,
        session: Session,
        *,
        ask_code: bool,
        status: int = 200,
        alert: str = "",
        form: Mapping[str, str] | None = None,
    ) -> Response:
        """Return the page."""
        now = await self._desk.ledger.now()
        directory = await self._desk.people.directory()
        present = directory.get(person.id) or person
        absence = present.absence(now)
        later = sorted(
            (one for one in present.away if one.start > present.day(now)), key=lambda one: one.start
        )
        return page(
            "away",
            status=status,
            who=person,
            session=session,
            absence=_line(absence, directory) if absence is not None else None,
            later=[_line(one, directory) for one in later],
            today=present.day(now).isoformat(),
            ask_code=ask_code,
            alert=alert,
            form=form or {},
        )

    async def leave(self, person: Person, form: Mapping[str, str]) -> None:
        """Note the absence of a form.

        Raises:
            AbsenceRefused: It cannot be; the message is for the person.
        """
        now = await self._desk.ledger.now()
        try:
            start, end = _day(form, "from", default=person.day(now)), _day(form, "until")
            if end < start:
                raise AbsenceRefused(f"It would end on {end}, before it begins on {start}.")
            delegate = person_called(self._desk.directory, form.get("delegate", "").strip())
        except MoveRefused as error:
            raise AbsenceRefused(str(error)) from error
        absence = Absence(start=start, end=end, delegate=delegate)
        await self._desk.people.leave(person, absence, by=person.id, more={"channel": CHANNEL})

    async def come_back(self, person: Person) -> None:
        """Note that somebody is here from today on.

        Raises:
            AbsenceRefused: They are not away.
        """
        await self._desk.people.come_back(person, by=person.id, more={"channel": CHANNEL})


def _day(form: Mapping[str, str], name: str, *, default: date | None = None) -> date:
    text = form.get(name, "").strip()
    if not text and default is not None:
        return default
    try:
        # What is no day of the form is none, also where Python reads more.
        return datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007 -- a day has no zone
    except ValueError as error:
        raise AbsenceRefused(f"{text!r} is no day: write it like 2026-12-24.") from error


def _line(absence: Absence, directory: Directory) -> dict[str, str]:
    delegate = directory.find(absence.delegate)
    return {
        "start": absence.start.isoformat(),
        "end": absence.end.isoformat(),
        "delegate": delegate.shown if delegate is not None else "",
    }
