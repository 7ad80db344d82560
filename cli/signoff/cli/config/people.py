"""Checks people: their managers and delegates, queues, schedules, and references to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from signoff.cli.config.faults import (
    NO_SLACK,
    Fault,
    Found,
    Loc,
    defect,
    suggest,
    unknown_person,
    warning,
)
from signoff.cli.config.settings import Settings
from signoff.core.directory.absences import circle
from signoff.core.directory.identity import mailbox
from signoff.core.directory.people import Directory, identity_key
from signoff.core.directory.queues import QUEUE, Queue
from signoff.core.directory.schedules import Schedule, read_calendar
from signoff.core.routing.resolve import SCHEDULE, SLACK_GROUP, is_managers

_ABOVE = ("requester.manager", "requester.managers", "asked.manager")
_AT = datetime(2026, 1, 1, tzinfo=UTC)  # any moment: only whether the calendar can be read matters


def check(settings: Settings) -> Iterator[Found]:
    """Yield the faults of people, queues and schedules."""
    directory = settings.everybody
    yield from _managers(settings, directory)
    yield from _quiet_hours(settings)
    yield from _absences(settings, directory)
    known = [person.id for person in settings.people]
    for index, queue in enumerate(settings.queues):
        yield from _group(("queues", index), queue, settings.queues[:index])
        yield from _members(("queues", index, "members"), queue.members, known)
    for index, schedule in enumerate(settings.schedules):
        yield from _group(("schedules", index), schedule, settings.schedules[:index])
        yield from _members(("schedules", index, "people"), schedule.people, known, twice=True)
        for number, override in enumerate(schedule.overrides):
            if directory.record(override.person) is None:
                remedy = suggest(override.person, known)
                loc: Loc = ("schedules", index, "overrides", number, "person")
                yield loc, defect(f"{override.person!r} is nobody's id or address", remedy)
        yield from _calendar(("schedules", index), schedule)


def identities(settings: Settings) -> Iterator[Found]:
    """Find ids and addresses that belong to several people."""
    ids: dict[str, int] = {}
    owners: dict[str, tuple[int, str]] = {}
    for index, person in enumerate(settings.people):
        first = ids.setdefault(person.id, index)
        if first != index:
            message = f"{person.id!r} is already the id of another person"
            yield ("people", index, "id"), defect(message, "Give each person an id of their own.")
        for key, address in [("email", person.email), *(("aliases", a) for a in person.aliases)]:
            owner, owner_id = owners.setdefault(identity_key(address), (index, person.id))
            if owner != index:
                message = f"{address} is already an address of {owner_id!r}"
                remedy = "An address identifies who answers, so it can belong to one person only."
                yield ("people", index, key), defect(message, remedy)
    yield from _mailboxes(settings)
    normal = {identity_key(one): one for one in reversed(ids)}
    for address, (index, person_id) in owners.items():
        named = normal.get(address, person_id)
        if named != person_id:
            message = f"{address} is also the id of {named!r}"
            yield ("people", index, "email"), defect(message, "Rename that id.")


def _mailboxes(settings: Settings) -> Iterator[Found]:
    """Find addresses of two people that deliver to one mailbox."""
    owners: dict[str, tuple[str, str]] = {}
    for index, person in enumerate(settings.people):
        for key, address in [("email", person.email), *(("aliases", a) for a in person.aliases)]:
            mine = (person.id, identity_key(address))
            owner, other = owners.setdefault(mailbox(address), mine)
            # The same address twice is an error, which is reported above.
            if owner != person.id and other != mine[1]:
                message = f"{address} and {other} of {owner!r} lead to one mailbox"
                remedy = "They count as one person: give each a mailbox, or make it one entry."
                yield ("people", index, key), warning(message, remedy)


def reference(settings: Settings, asked: str) -> Fault | None:
    """Return the fault of a reference to approvers in a policy; None if it is valid."""
    kind, _, name = asked.rpartition(":")
    if is_managers(asked):
        if any(person.manager for person in settings.people):
            return None
        return defect("nobody in [[people]] has a manager", 'Add manager = "…" to [[people]].')
    if asked.startswith(SLACK_GROUP):
        remedy = f"{NO_SLACK}, or ask a queue, whose members are in the settings."
        return None if settings.slack.enabled else defect("Slack is not set up", remedy)
    if asked.startswith((QUEUE, SCHEDULE)):
        groups = settings.queues if asked.startswith(QUEUE) else settings.schedules
        names = [one.name for one in groups]
        remedy = suggest(name, names) or f"Add a [[{kind}s]] table with this name."
        return None if name in names else defect(f"{name!r} is not the name of a {kind}", remedy)
    people = [person.id for person in settings.people]
    whose, dot, _ = asked.partition(".")
    if dot and asked not in people and f"{whose}.manager" in _ABOVE:
        return defect(f"{asked!r} names nobody", f"Did you mean '{whose}.manager'?")
    queues = [f"{QUEUE}{one.name}" for one in settings.queues]
    schedules = [f"{SCHEDULE}{one.name}" for one in settings.schedules]
    return unknown_person(asked, people, others=[*queues, *schedules, *_ABOVE])


def _quiet_hours(settings: Settings) -> Iterator[Found]:
    for index, person in enumerate(settings.people):
        if person.quiet_hours and not person.hours:
            remedy = 'Add hours = ["Mon-Fri 09:00-17:00"] and time_zone, or remove quiet_hours.'
            yield (
                ("people", index, "quiet_hours"),
                defect(f"{person.id!r} has quiet_hours and no hours: nothing would wait", remedy),
            )


def _managers(settings: Settings, directory: Directory) -> Iterator[Found]:
    known = [person.id for person in settings.people]
    checked: set[str] = set()  # people whose line of managers was already checked
    for index, person in enumerate(settings.people):
        loc: Loc = ("people", index, "manager")
        if is_managers(person.id) or ":" in person.id:
            message = f"{person.id!r} has another meaning in the `ask` of policies"
            yield ("people", index, "id"), defect(message, "Choose another id.")
        if not person.manager:
            continue
        if directory.record(person.manager) is None:
            remedy = suggest(person.manager, known)
            yield loc, defect(f"{person.manager!r} is nobody's id or address", remedy)
            continue
        line = [person.id] if person.id not in checked else []
        while line and (above := directory.record(_manager(directory, line[-1]))):
            if above.id in line:
                cycle = line[line.index(above.id) :]
                message = f"they are managers of each other: {' → '.join([*cycle, above.id])}"
                loc = ("people", known.index(above.id), "manager")
                yield loc, defect(message, "Remove one `manager`: somebody must have none.")
            if above.id in line or above.id in checked:
                break
            line.append(above.id)
        checked.update(line)


def _manager(directory: Directory, person_id: str) -> str:
    person = directory.record(person_id)
    return person.manager if person is not None else ""


def _absences(settings: Settings, directory: Directory) -> Iterator[Found]:
    known = [person.id for person in settings.people]
    reported: set[str] = set()
    for index, person in enumerate(settings.people):
        for number, absence in enumerate(person.away):
            loc: Loc = ("people", index, "away", number, "delegate")
            if absence.delegate and directory.record(absence.delegate) is None:
                remedy = suggest(absence.delegate, known)
                yield loc, defect(f"{absence.delegate!r} is nobody's id or address", remedy)
            elif person.id not in reported and (cycle := circle(directory, person.id, absence)):
                reported.update(cycle)
                message = f"they are each other's delegates on the same day: {' → '.join(cycle)}"
                yield loc, defect(message, "Nobody would decide then: name somebody else.")


def _group(
    loc: Loc, group: Queue | Schedule, before: Iterable[Queue | Schedule]
) -> Iterator[Found]:
    if group.name in {one.name for one in before}:
        message = f"{group.name!r} is already the name of another one"
        yield (*loc, "name"), defect(message, "Give each a name of its own.")


def _members(
    loc: Loc, members: tuple[str, ...], known: list[str], *, twice: bool = False
) -> Iterator[Found]:
    for member in members:
        if fault := unknown_person(member, known):
            yield loc, fault
    if len(set(members)) < len(members) and not twice:
        yield loc, defect("somebody is named twice", "Once is enough.")


def _calendar(loc: Loc, schedule: Schedule) -> Iterator[Found]:
    if not schedule.calendar:
        return
    try:
        read_calendar(schedule.calendar)
        schedule.on_call(_AT)
    except ValueError as error:
        remedy = "Export it again, as iCalendar (RFC 5545)."
        yield (*loc, "ics" if schedule.ics else "calendar"), defect(str(error), remedy)
