"""The directory as it is now: absences and groups that the ledger has, beside the settings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import structlog
from pydantic import JsonValue, TypeAdapter

from signoff.broker.directory.groups import KEY as GROUPS
from signoff.broker.directory.groups import read_groups
from signoff.broker.freezes import KEY as FREEZES
from signoff.broker.freezes import read_freezes
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.records import legible
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.parts import Assurance
from signoff.core.base.errors import AbsenceRefused
from signoff.core.base.model import stored_json
from signoff.core.directory.absences import Absences, Presence, circle, with_absences
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person

_KEY = "absences"
_RECORD: TypeAdapter[dict[str, Presence]] = TypeAdapter(dict[str, Presence])

log = structlog.get_logger(__name__)


class People:
    """The directory of the settings, with the absences that were set since and with groups.

    Args:
        ledger: Where both are kept.
        directory: The people as the settings have them.
    """

    def __init__(self, ledger: Ledger, directory: Directory) -> None:
        self._ledger = ledger
        self._written = directory
        self._versions: tuple[int, ...] = ()
        self._present = directory

    @property
    def generation(self) -> int:
        """How often the settings were read again; see `Directory.become`."""
        return self._written.generation

    async def directory(self) -> Directory:
        """Return the people as they are now; one look into the ledger.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
            RecordUnreadable: A newer version of Signoff has written one of them.
        """
        found = await self._ledger.store.read([_KEY, GROUPS, FREEZES])
        absent, grouped, frozen = found
        versions = (*(one[0] if one else 0 for one in found), self._written.generation)
        if versions != self._versions:
            present = with_absences(self._written, _read(absent))
            present = present.with_groups(read_groups(grouped))
            self._present = present.with_freezes(read_freezes(frozen))
            self._versions = versions
        return self._present

    async def leave(
        self,
        person: Person,
        absence: Absence,
        *,
        by: str,
        more: Mapping[str, JsonValue],
        also: Change | None = None,
        assurance: Assurance = Assurance.ACCOUNT,
    ) -> Absence:
        """Note that somebody is away, over what was known of these days.

        Args:
            person: Who.
            absence: The days, and who decides instead.
            by: Who says so, for the audit.
            more: How, for the audit.
            also: What must happen in the same commit.
            assurance: How well it is known who says so. An account alone chooses no delegate for
                what takes a second factor; see `Absence`.

        Raises:
            AbsenceRefused: It is over, the delegate is not known, or is stood in for by the person.
        """
        reported = absence.model_copy(update={"second_factor": assurance.gives_away})

        async def attempt() -> Absence:
            record = await self._ledger.raw(_KEY)
            version, absences = record[0] if record else 0, _read(record)
            now = await self._ledger.now()
            directory = with_absences(self._written, absences)
            _require_possible(directory, person, absence, today=person.day(now))
            presence = absences.get(person.id, Presence()).leave(reported)
            details: dict[str, JsonValue] = {
                "person": person.id,
                **reported.model_dump(mode="json"),
            }
            event = Event(what=What.LEFT, at=now, by=by, more={**details, **more})
            await self._write(version, {**absences, person.id: presence}, event, also)
            return reported

        return await self._ledger.decide_again(attempt)

    async def come_back(
        self,
        person: Person,
        *,
        by: str,
        more: Mapping[str, JsonValue],
        also: Change | None = None,
    ) -> None:
        """Note that somebody is here from today on; what is still to come stays.

        Raises:
            AbsenceRefused: They are not away.
        """

        async def attempt() -> None:
            record = await self._ledger.raw(_KEY)
            version, absences = record[0] if record else 0, _read(record)
            now = await self._ledger.now()
            present = with_absences(self._written, absences).get(person.id)
            if present is None or present.absence(now) is None:
                raise AbsenceRefused(f"{person.shown} is not away. Nothing was changed.")
            presence = absences.get(person.id, Presence()).returned(person.day(now))
            event = Event(what=What.BACK, at=now, by=by, more={"person": person.id, **more})
            await self._write(version, {**absences, person.id: presence}, event, also)

        await self._ledger.decide_again(attempt)

    async def _write(
        self, version: int, absences: Absences, event: Event, also: Change | None
    ) -> None:
        kept = {
            one: presence
            for one, old in absences.items()
            if (presence := self._without_past(one, old, event)) is not None
        }
        data = stored_json(kept)
        change = Change() if also is None else also.copy()
        await self._ledger.commit(change.put_raw(_KEY, data, was=version).note([event]))

    def _without_past(self, person_id: str, presence: Presence, event: Event) -> Presence | None:
        """Return what is still worth keeping of a person, None for nothing."""
        person = self._written.get(person_id)
        if person is None:
            return None
        today = person.day(event.at)
        left = presence.without_past(today)
        # Coming back is remembered as long as the settings say otherwise.
        ended = left.back is None or not any(
            one.start <= left.back and one.end >= today for one in person.away
        )
        if ended:
            left = left.model_copy(update={"back": None})
        return left if left != Presence() else None


def _require_possible(
    directory: Directory, person: Person, absence: Absence, *, today: date
) -> None:
    if absence.end < today:
        raise AbsenceRefused(f"It would have ended on {absence.end}, and today is {today}.")
    if not absence.delegate:
        return
    if directory.find(absence.delegate) is None:
        raise AbsenceRefused(
            f"{absence.delegate!r} is not the id or an address of anybody in the directory; "
            "`signoff people list` shows them."
        )
    if way := circle(directory, person.id, absence):
        raise AbsenceRefused(
            f"On some of these days nobody would decide: {' → '.join(way)} stand in for each "
            "other. Name somebody else."
        )


def _read(record: tuple[int, str] | None) -> dict[str, Presence]:
    return legible(_RECORD, _KEY, record, {})
