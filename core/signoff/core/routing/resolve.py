"""Finds the approvers of a level: resolves references, absences, and people who never decide."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from signoff.core.base.model import Value
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import QUEUE, Pick, Rotations
from signoff.core.policies.conditions import covers
from signoff.core.policies.levels import Level, Seat

ASKED: Final = "asked."
_ABOVE: Final = re.compile(r"(requester|asked)(\.manager)+|requester\.managers")
SCHEDULE: Final = "schedule:"
SLACK_GROUP: Final = "slack-group:"

_NOBODY: Final[Rotations] = {}


def is_managers(reference: str) -> bool:
    """Say whether a reference means managers: ``requester.manager.manager``, ``asked.manager``."""
    return _ABOVE.fullmatch(reference) is not None


class Found(Value):
    """The approvers of a level.

    Attributes:
        seats: A seat for each approver, in the order of the level's `ask`; nobody has two seats
            for the same person.
        notes: In words: who was left out, which delegates replace whom, and why.
        meant: The ids of the people whom the references mean, even if nobody acts for them.
    """

    seats: tuple[Seat, ...]
    meant: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def find(
    level: Level,
    directory: Directory,
    *,
    facts: Mapping[str, JsonValue],
    barred: Collection[str],
    now: datetime,
    rotations: Rotations = _NOBODY,
    asked: Collection[str] = (),
) -> Found:
    """Find the approvers of a level that starts now.

    For an absent person, the delegate of that absence is asked, or the delegate's delegate. Without
    a delegate, nobody is asked instead. A barred person is never asked, not even as a delegate, and
    never names a delegate. Instead of a barred manager, the next one is asked.

    Args:
        level: The level, with references to the approvers.
        directory: The people, with the current absences.
        facts: The facts of the call; ``user`` is the requester.
        barred: Identities (ids, addresses, aliases) of people who never decide.
        now: The present, in UTC.
        rotations: When the members of queues were last asked.
        asked: The ids of the approvers of the previous level, for ``asked.manager``.
    """
    search = _Search(directory, facts, barred, now, rotations, tuple(asked), level.until)
    for reference in level.ask:
        search.look(reference)
    for number, group in enumerate(level.all_of):
        search.group = (number,)
        for reference in group.ask:
            search.look(reference)
    return Found(
        seats=tuple(search.seats.values()),
        notes=tuple(dict.fromkeys(search.notes)),
        meant=tuple(dict.fromkeys(search.meant)),
    )


def informed(
    references: Iterable[str],
    directory: Directory,
    *,
    facts: Mapping[str, JsonValue],
    now: datetime,
) -> tuple[str, ...]:
    """Return the ids of the people to inform, who do not decide.

    Delegates do not replace them, and a queue means all its members.

    Args:
        references: References as in `ask`; ``asked.manager`` means nobody here.
        directory: The people.
        facts: The facts of the call; ``user`` is the requester.
        now: The present (UTC).
    """
    search = _Search(directory, facts, (), now, _NOBODY, (), "")
    people = (one for reference in references for one in search.meant_by(reference))
    return tuple(dict.fromkeys(directory.one_id(one.id) for one in people))


def take(
    rotations: MutableMapping[str, dict[str, float]], seats: Iterable[Seat], at: int
) -> Iterator[tuple[str, str, int]]:
    """Record which members of queues are asked, and yield each queue, member and new place.

    A delegate counts as the absent member.

    Args:
        rotations: The rotations by queue and member; other queues do not rotate.
        seats: The seats of a level that starts.
        at: The present, in microseconds.
    """
    for seat in seats:
        name = seat.via.removeprefix(QUEUE)
        known = rotations.get(name)
        if known is None or not seat.via.startswith(QUEUE):
            continue
        # Members who are asked at the same moment get different places.
        place = max([at, *(int(one) + 1 for one in known.values())])
        known[seat.stands_for] = place
        yield name, seat.stands_for, place


@dataclass
class _Search:
    directory: Directory
    facts: Mapping[str, JsonValue]
    barred: Collection[str]
    now: datetime
    rotations: Rotations
    asked: tuple[str, ...]
    until: str
    group: tuple[int, ...] = ()
    meant: list[str] = field(default_factory=list)
    seats: dict[tuple[str, str], Seat] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)

    @property
    def requester(self) -> str:
        """The ADK user id of the requester."""
        return str(self.facts.get("user", ""))

    def look(self, reference: str) -> None:
        """Add seats for the people whom a reference means."""
        if is_managers(reference):
            below = self.asked if reference.startswith(ASKED) else (self.requester,)
            if not below:
                self.notes.append(f"nobody was asked before: there is no {reference}")
            for one in below:
                self._take(self._manager(one, reference.count(".")), reference)
        elif reference.startswith(QUEUE):
            self._queue(reference)
        elif reference.startswith(SCHEDULE):
            self._take(self._on_call(reference.removeprefix(SCHEDULE)), reference)
        elif reference.startswith(SLACK_GROUP):
            members = self.directory.groups.get(reference.removeprefix(SLACK_GROUP))
            if members is None:
                self.notes.append(f"nobody is known of {reference}")
            self._take(self._people(members or (), reference), reference)
        else:
            self._take(self._people([reference], ""), reference)

    def meant_by(self, reference: str) -> Iterator[Person]:
        """Yield the people whom a reference means, even if they are absent or may not decide."""
        name = reference.partition(":")[2]
        queue = self.directory.queues.get(name)
        if reference.startswith(QUEUE):
            yield from self._people(queue.members if queue is not None else (), reference)
        elif reference.startswith(SCHEDULE):
            for person in self._on_call(name):
                yield self._taker(person, reference) or person
        elif reference.startswith(SLACK_GROUP):
            yield from self._people(self.directory.groups.get(name, ()), reference)
        elif is_managers(reference):
            yield from self._manager(self.requester, reference.count("."))
        else:
            yield from self._people([reference], "")

    def _take(self, people: Iterable[Person], via: str) -> bool:
        """Give seats to the people who can be asked, and return whether anybody got one."""
        found = [seat for one in people if (seat := self._seat(one, via)) is not None]
        for seat in map(self._under_one_id, found):
            known = self.seats.setdefault((seat.person, seat.instead_of), seat)
            if known is seat and not self.group:
                continue
            groups = tuple(dict.fromkeys((*known.groups, *self.group)))
            through = tuple(dict.fromkeys((*known.through, *seat.through)))
            both = {
                "groups": groups,
                "covers": known.covers and seat.covers,
                "through": through,
            }
            self.seats[seat.person, seat.instead_of] = known.model_copy(update=both)
        return bool(found)

    def _under_one_id(self, seat: Seat) -> Seat:
        """Return a seat under the first id of a person who has several ids in the directory."""
        person, instead_of = self._id_of(seat.person), self._id_of(seat.instead_of)
        if person == instead_of:
            instead_of = ""
        if (person, instead_of) == (seat.person, seat.instead_of):
            return seat
        return seat.model_copy(update={"person": person, "instead_of": instead_of})

    def _id_of(self, person: str) -> str:
        first = self.ids.setdefault(self.directory.one_id(person), person)
        if first != person:
            self.notes.append(f"{person} is {first} under another id, and is asked once")
        return first

    def _seat(self, person: Person, via: str) -> Seat | None:
        """Return the seat of a person or of their delegate, None if nobody can be asked."""
        self.meant.append(person.id)
        if self._is_barred(person):
            self.notes.append(f"{person.shown} {self._why_barred(person)} and is left out")
            return None
        acting, way, gone = person, [person.id], f"{person.shown} is away"
        absence = person.absence(self.now)
        if (taker := self._taker(person, via)) is not None:
            # It counts as an absence of the person for this shift alone, with a delegate.
            gone = f"{person.shown} has given away this shift"
            today = person.day(self.now)
            absence = Absence(start=today, end=today, delegate=taker.id)
        while absence is not None:
            following = self.directory.find(absence.delegate)
            if following is None:
                missing = self.directory.why_missing(absence.delegate)
                known = f"; {missing}" * bool(absence.delegate)
                self.notes.append(f"{acting.shown} is away until {absence.end}{known}")
                return None
            if following.id in way:
                circle = " → ".join([*way, following.id])
                also = ", and so is everybody in" if taker is None else "; nobody is left in"
                self.notes.append(f"{gone}{also} {circle}")
                return None
            acting, absence = following, following.absence(self.now)
            way.append(acting.id)
            if self._is_barred(acting):
                # Not their delegate either: requesters would choose who decides their requests.
                self.notes.append(f"{gone}; {acting.shown}, who stands in, may not decide this")
                return None
        reach = covers(self.until, self.facts, self.directory.limits(*way)) if self.until else True
        if acting is person:
            return Seat(person=person.id, via=via, covers=reach)
        self.notes.append(f"{gone}; {acting.shown} stands in")
        between = tuple(way[1:-1])
        return Seat(person=acting.id, instead_of=person.id, via=via, covers=reach, through=between)

    def _taker(self, person: Person, via: str) -> Person | None:
        """Return who takes the shift of a person on call; None if they have it themselves."""
        if not via.startswith(SCHEDULE):
            return None
        schedule = self.directory.schedules.get(via.removeprefix(SCHEDULE))
        taken_by = schedule.taken_by(self.now) if schedule else ""
        taker = self.directory.find(taken_by) if taken_by else None
        if taken_by and taker is None:
            self.notes.append(self.directory.why_missing(taken_by, via))
        return taker if taker is not None and taker.id != person.id else None

    def _is_barred(self, person: Person) -> bool:
        return any(self.directory.may_be(person, one) for one in self.barred)

    def _why_barred(self, person: Person) -> str:
        if self.directory.same(person.id, self.requester):
            return "asked for this"
        if self.directory.may_be(person, self.requester):
            return "may have asked for this under another name"
        return "may not decide this"

    def _people(self, ids: Iterable[str], of: str) -> Iterator[Person]:
        for one in ids:
            person = self.directory.get(one)
            if person is None:
                self.notes.append(self.directory.why_missing(one, of))
            else:
                yield person

    def _manager(self, below: str, nth: int) -> Iterator[Person]:
        """Yield the nth manager above a person, counting only active ones who are not barred."""
        person, seen = self.directory.record(below), set[str]()
        if person is None:
            self.notes.append(f"{self.directory.why_missing(below)}: no manager")
        while person is not None:
            seen.add(person.id)
            manager = self.directory.record(person.manager)
            if manager is None:
                self.notes.append(f"{person.shown} has no manager in the directory")
            elif manager.id in seen:
                self.notes.append(f"{manager.shown} is a manager of their own manager")
                return
            elif not manager.active:
                self.notes.append(f"{manager.shown} is not active; the next manager is asked")
            elif not self._is_barred(manager):
                nth -= 1
                if not nth:
                    yield manager
                    return
            else:
                self.notes.append(f"{manager.shown} may not decide this; the next manager is asked")
            person = manager

    def _queue(self, reference: str) -> None:
        queue = self.directory.queues.get(reference.removeprefix(QUEUE))
        if queue is None:
            self.notes.append(f"there is no queue {reference.removeprefix(QUEUE)!r}")
            return
        rotations = self.rotations.get(queue.name, {})
        for person in self._people(queue.in_order(rotations), reference):
            if self._take([person], reference) and queue.pick is not Pick.EVERYONE:
                return

    def _on_call(self, name: str) -> Iterator[Person]:
        schedule = self.directory.schedules.get(name)
        if schedule is None:
            self.notes.append(f"there is no schedule {name!r}")
            return
        try:
            on_call = schedule.on_call(self.now)
        except ValueError as error:
            self.notes.append(f"schedule {name}: {error}")
            return
        if not on_call:
            self.notes.append(f"nobody is on call in the schedule {name}")
        for one in on_call:
            person = self.directory.find(one)
            if person is None:
                self.notes.append(self.directory.why_missing(one, f"schedule:{name}"))
            else:
                yield person
