"""The current directory: the people of the settings, with absences and groups in the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

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
from signoff.core.base.freezes import Freeze
from signoff.core.base.model import stored_json
from signoff.core.directory.absences import Absences, Presence, circle, with_absences
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person

_KEY = "absences"
_NEVER = -1
"""A generation that no directory has."""

_RECORD: TypeAdapter[dict[str, Presence]] = TypeAdapter(dict[str, Presence])


class People:
    """The directory of the settings, with the absences, groups and freezes in the ledger."""

    def __init__(self, ledger: Ledger, directory: Directory) -> None:
        self._ledger = ledger
        self._written = directory
        self._records: list[tuple[int, str] | None] = []
        self._generation = directory.generation
        self._absences: Absences = {}
        self._groups: Mapping[str, tuple[str, ...]] = {}
        self._freezes: tuple[Freeze, ...] = ()
        self._present = directory

    @property
    def generation(self) -> int:
        """How often the settings were reloaded; see `Directory.become`."""
        return self._written.generation

    @property
    def present(self) -> Directory:
        """The people of the current settings, with the last state read from the ledger."""
        if self._records and self._generation != self._written.generation:
            present = with_absences(self._written, self._absences)
            self._present = present.with_groups(self._groups).with_freezes(self._freezes)
            self._generation = self._written.generation
        return self._present

    async def directory(self) -> Directory:
        """Return the current people, after reading the ledger once.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
            RecordUnreadable: A newer version of Signoff has written one of them.
        """
        found = await self._ledger.store.read([_KEY, GROUPS, FREEZES])
        # Not by their versions alone: a failover or a restored copy of Redis can lose the last
        # changes, and the next one then has the version of a lost one.
        if found != self._records:
            absent, grouped, frozen = found
            read = _read(absent), read_groups(grouped), read_freezes(frozen)
            self._absences, self._groups, self._freezes = read
            self._records, self._generation = found, _NEVER
        return self.present

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
        """Record an absence, which replaces earlier information about these days.

        Args:
            person: The person.
            absence: The days, and the delegate.
            by: Who reports the absence, for the audit.
            more: Details for the audit.
            also: A change to commit together with the absence.
            assurance: How well the identity of the reporter is proven. An account alone cannot
                choose a delegate for decisions that need a second factor; see `Absence`.

        Raises:
            AbsenceRefused: It is over, the delegate is unknown, or the delegates form a circle.
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
        """Record that a person is back from today on. Future absences stay.

        Raises:
            AbsenceRefused: The person is not away.
        """

        async def attempt() -> None:
            record = await self._ledger.raw(_KEY)
            version, absences = record[0] if record else 0, _read(record)
            now = await self._ledger.now()
            present = with_absences(self._written, absences).get(person.id)
            if present is None or present.absence(now) is None:
                text = f"{person.shown} is not away. Nothing was changed."
                if present is not None and (later := present.next_absence(now)) is not None:
                    text += f" The absence from {later.start} can be ended once it has begun."
                raise AbsenceRefused(text)
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
        """Return a person's presence without past days, None if nothing is left."""
        person = self._written.get(person_id)
        if person is None:
            return None
        today = person.day(event.at)
        left = presence.without_past(today)
        # The return is kept as long as the settings report an absence for these days.
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
        raise AbsenceRefused(f"The absence ends on {absence.end}, but today is {today}.")
    if not absence.delegate:
        return
    if directory.find(absence.delegate) is None:
        raise AbsenceRefused(
            f"{absence.delegate!r} is not the id or an address of anybody in the directory; "
            "`signoff people list` shows them."
        )
    if way := circle(directory, person.id, absence):
        raise AbsenceRefused(
            f"On some of these days nobody could decide: {' → '.join(way)} stand in for each "
            "other. Choose another delegate."
        )


def _read(record: tuple[int, str] | None) -> dict[str, Presence]:
    return legible(_RECORD, _KEY, record, {})
