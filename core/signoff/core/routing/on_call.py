"""Who would be asked now, until when, and who next: for a schedule, a queue or a level."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from signoff.core.base.model import Value
from signoff.core.directory.hours import moment_of, zone
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import QUEUE, Pick, Rotations
from signoff.core.directory.schedules import Schedule
from signoff.core.policies.levels import MANAGERS, Earlier, Level, Seat
from signoff.core.policies.policy import Terms
from signoff.core.routing.resolve import ASKED, SCHEDULE, Found, find, is_managers, take
from signoff.core.routing.selection import NO_ROTATIONS, too_few_seats

AHEAD: Final = timedelta(days=366)
"""How far ahead a change is looked for."""

_DAY: Final = timedelta(days=1)


class OnCallPerson(Value):
    """A person who would be asked.

    Attributes:
        id: The id of the person.
        instead_of: The id of the person whom they stand in for; "" for nobody.
    """

    id: str
    instead_of: str = ""

    def shown(self, directory: Directory) -> str:
        """Return their name: ``Tom Weber``, or ``Tom Weber for Mara Lind``."""
        whom = f" for {directory.shown(self.instead_of)}" if self.instead_of else ""
        return directory.shown(self.id) + whom


class Shift(Value):
    """A time in which the same people would be asked.

    Attributes:
        start: When it begins (UTC); the first one begins at the moment in question.
        until: When it ends (UTC), None if no end was found as far ahead as was looked.
        people: Who would be asked, in the order in which they are.
        short: Why these people cannot approve: fewer are asked than must approve; "" if they can.
        notes: In words: who is left out and who stands in, at the start.
    """

    start: datetime
    until: datetime | None = None
    people: tuple[OnCallPerson, ...] = ()
    short: str = ""
    notes: tuple[str, ...] = ()


class OnCall(Value):
    """Who would be asked by a schedule, a queue or a level.

    Attributes:
        name: ``schedule:on-call``, ``queue:finance``, or ``expenses, level 2``.
        now: Who would be asked at the moment in question.
        next: Who would be asked after that, None if nothing changes within `AHEAD`.
        next_request: Who would be asked by the request after the next one, for queues that ask
            one member in turn.
        depends_on: The references that mean nobody without a call, such as ``requester.manager``;
            then nobody is named.
    """

    name: str
    now: Shift
    next: Shift | None = None
    next_request: tuple[OnCallPerson, ...] = ()
    depends_on: str = ""

    def names(self, person: str) -> bool:
        """Say whether a person is asked now or next, or somebody else in their place."""
        shifts = (self.now, *((self.next,) if self.next is not None else ()))
        return any(person in {one.id, one.instead_of} for each in shifts for one in each.people)


def shifts(
    level: Level,
    directory: Directory,
    *,
    now: datetime,
    rotations: Rotations = NO_ROTATIONS,
    asked: Collection[str] = (),
    ahead: timedelta = AHEAD,
) -> Iterator[Shift]:
    """Yield who would be asked at a level from a moment on.

    The people are those whom the router finds. Whom it asks about a certain call may be fewer: the
    requester and the owner of the agent are left out.

    Args:
        level: The level.
        directory: The people, with the known absences.
        now: The moment in question (UTC).
        rotations: When the members of queues were last asked.
        asked: The ids of the approvers of the previous level, for ``asked.manager``.
        ahead: How far ahead changes are looked for.
    """
    start, end = now, now + ahead
    here = _found(level, directory, now, rotations, asked)
    while True:
        until, there = _next_moment(level, directory, here.meant, start, end), here
        while until is not None:
            there = _found(level, directory, until, rotations, asked)
            if _people(there.seats) != _people(here.seats):
                break
            until = _next_moment(level, directory, there.meant, until, end)
        yield Shift(
            start=start,
            until=until,
            people=_people(here.seats),
            short="; ".join(too_few_seats(level, here.seats)) if here.seats else "",
            notes=here.notes,
        )
        if until is None:
            return
        start, here = until, there


def on_call(
    name: str,
    level: Level,
    directory: Directory,
    *,
    now: datetime,
    rotations: Rotations = NO_ROTATIONS,
    asked: Collection[str] = (),
) -> OnCall:
    """Return who would be asked at a level, now and next; see `shifts`."""
    found = shifts(level, directory, now=now, rotations=rotations, asked=asked)
    first, *later = islice(found, 2)
    turns = {
        queue.name: dict(rotations.get(queue.name, {}))
        for one in level.references
        if (queue := directory.queues.get(one.removeprefix(QUEUE))) is not None
        and one.startswith(QUEUE)
        and queue.pick is not Pick.EVERYONE
    }
    then: tuple[OnCallPerson, ...] = ()
    if turns:
        seats = _found(level, directory, now, turns, asked).seats
        # The queues count the members of this request as asked.
        list(take(turns, seats, int(now.timestamp() * 1_000_000)))
        then = _people(_found(level, directory, now, turns, asked).seats)
    return OnCall(name=name, now=first, next=next(iter(later), None), next_request=then)


def groups_on_call(
    directory: Directory,
    *,
    now: datetime,
    rotations: Rotations = NO_ROTATIONS,
    of: str = "",
) -> list[OnCall]:
    """Return who would be asked by each schedule and each queue, now and next.

    Args:
        directory: The people, with the known absences.
        now: The moment in question (UTC).
        rotations: When the members of queues were last asked.
        of: The id of a person: only groups to which they belong, or in which they are asked now or
            next; "" for all groups.
    """
    members = {SCHEDULE + one.name: one.people for one in directory.schedules.values()}
    members |= {QUEUE + one.name: one.members for one in directory.queues.values()}
    rows = (
        on_call(one, Level(ask=(one,)), directory, now=now, rotations=rotations) for one in members
    )
    return [one for one in rows if not of or of in members[one.name] or one.names(of)]


def levels_on_call(
    terms: Terms, directory: Directory, *, now: datetime, rotations: Rotations = NO_ROTATIONS
) -> Iterator[OnCall]:
    """Yield who would be asked at each level of a policy, now and next."""
    asked: tuple[str, ...] = ()
    for index, level in enumerate(terms.ladder):
        name = ", ".join(filter(None, (terms.policy, terms.called(index))))
        needs = [one for one in level.references if is_managers(one) or one == MANAGERS]
        if level.is_chain or any(not one.startswith(ASKED) or not asked for one in needs):
            asked = ()
            yield OnCall(name=name, now=Shift(start=now), depends_on=", ".join(needs or level.ask))
            continue
        row = on_call(name, level, directory, now=now, rotations=rotations, asked=asked)
        if index and level.earlier is Earlier.STAY and terms.same_phase(index - 1, index):
            # Approvers of earlier levels may complete the quorum.
            alone = [one and one.model_copy(update={"short": ""}) for one in (row.now, row.next)]
            row = row.model_copy(update={"now": alone[0], "next": alone[1]})
        yield row
        asked = _found(level, directory, now, rotations, asked).meant


def _found(
    level: Level,
    directory: Directory,
    now: datetime,
    rotations: Rotations,
    asked: Collection[str],
) -> Found:
    return find(level, directory, facts={}, barred=(), now=now, rotations=rotations, asked=asked)


def _people(seats: Sequence[Seat]) -> tuple[OnCallPerson, ...]:
    return tuple(OnCallPerson(id=one.person, instead_of=one.instead_of) for one in seats)


def _next_moment(
    level: Level, directory: Directory, meant: Iterable[str], after: datetime, end: datetime
) -> datetime | None:
    """Return the next moment at which a level may mean others, None if there is none until `end`.

    Between two such moments, the same people are on call, and nobody of them or of their delegates
    leaves or returns.

    Args:
        level: The level.
        directory: The people.
        meant: The ids of the people whom the level means after this moment.
        after: The moment.
        end: The last moment in question.
    """
    moments, takers = [*_handovers(level, directory, after, end)], list[str]()
    for schedule in _schedules(level, directory):
        takers += (one.person for one in schedule.overrides)
    for person in _with_delegates((*meant, *takers), directory):
        place = zone(person.time_zone)
        first, last = (one.astimezone(place).date() for one in (after, end))
        for absence in person.away:
            if first < absence.start <= last:
                moments.append(moment_of(absence.start, timedelta(), place))
            if first <= absence.end < last:
                moments.append(moment_of(absence.end + _DAY, timedelta(), place))
    return min((one for one in moments if after < one <= end), default=None)


def _handovers(
    level: Level, directory: Directory, after: datetime, end: datetime
) -> Iterator[datetime]:
    """Yield the next handover of each schedule of a level; none of a calendar with errors."""
    for schedule in _schedules(level, directory):
        # A handover after the year 9999 is none.
        with suppress(ValueError, OverflowError):
            if (at := schedule.next_handover(after, end)) is not None:
                yield at


def _schedules(level: Level, directory: Directory) -> list[Schedule]:
    names = (one.removeprefix(SCHEDULE) for one in level.references if one.startswith(SCHEDULE))
    return [one for name in names if (one := directory.schedules.get(name)) is not None]


def _with_delegates(ids: Iterable[str], directory: Directory) -> Iterator[Person]:
    """Yield people and their delegates, and the delegates of these, each once."""
    seen, left = set[str](), list(ids)
    while left:
        person = directory.find(left.pop())
        if person is not None and person.id not in seen:
            seen.add(person.id)
            left += [one.delegate for one in person.away]
            yield person
