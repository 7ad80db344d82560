"""`signoff people on-call`: who would be asked now, until when, and who next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from signoff.cli.commands.context import Json, settings_of, with_decisions, write_json
from signoff.cli.commands.moments import At, moment_of, zone_of
from signoff.cli.printing import Output, Table
from signoff.cli.terminal import say
from signoff.core.base.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from signoff.broker.decisions import Decisions
    from signoff.cli.config.settings import Settings
    from signoff.core.directory.people import Directory
    from signoff.core.directory.queues import Rotations
    from signoff.core.routing.on_call import OnCall, OnCallPerson, Shift


def on_call(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="A schedule, a queue, a policy, or `default`. Without a name, all schedules and "
            "queues.",
        ),
    ] = None,
    *,
    at: At = "now",
    zone: Annotated[
        str,
        typer.Option(
            metavar="ZONE",
            help="The time zone of the times. The default is that of the schedule or the settings.",
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Show who would be asked by schedules and queues now, until when, and who next.

    Absences, delegates and the turns of queues count, as for a request that comes at that moment. A
    policy has a line for each level. The requester of a call and the owner of its agent are never
    asked: `signoff policy explain` shows whom a certain call asks.
    """
    settings = settings_of(ctx)
    moment = moment_of(at, zone_of(zone)) if at != "now" else None
    place = zone_of(zone) if zone else None

    async def work(decisions: Decisions) -> tuple[list[OnCall], Directory, datetime]:
        now = moment or await decisions.ledger.now()
        await decisions.roster.refresh()
        directory, rotations = decisions.directory, decisions.roster.rotations.known
        return _rows(settings, names or (), directory, now, rotations), directory, now

    rows, directory, now = with_decisions(ctx, work)
    if as_json:
        write_json([one.model_dump(mode="json") for one in rows])
    elif rows:
        Output().print(_table(rows, directory, now, place))
    else:
        say("There are no schedules and no queues. Name a policy to see whom its levels ask.")


def _rows(
    settings: Settings,
    names: Sequence[str],
    directory: Directory,
    now: datetime,
    rotations: Rotations,
) -> list[OnCall]:
    """Return who would be asked by some schedules, queues and policies, or by all groups.

    Raises:
        ConfigError: Nothing has this name.
    """
    from signoff.core.routing.on_call import groups_on_call, levels_on_call  # noqa: PLC0415

    groups = groups_on_call(directory, now=now, rotations=rotations)
    if not names:
        return groups
    terms = {one.name: one.terms({}) for one in settings.policies}
    terms["default"] = settings.default.terms({})
    found: list[OnCall] = []
    for name in names:
        here = [one for one in groups if name in {one.name, one.name.partition(":")[2]}]
        if name in terms:
            here += levels_on_call(terms[name], directory, now=now, rotations=rotations)
        if not here:
            known = ", ".join([*(one.name for one in groups), *terms])
            raise ConfigError(
                f"There is no schedule, queue or policy {name!r}. There are: {known}."
            )
        found += here
    return found


def _table(
    rows: Sequence[OnCall], directory: Directory, now: datetime, place: ZoneInfo | None
) -> Table:
    from signoff.cli.commands.approvals import tables  # noqa: PLC0415 -- the domain
    from signoff.core.base.moments import moment_text  # noqa: PLC0415
    from signoff.core.directory.hours import zone  # noqa: PLC0415
    from signoff.core.routing.resolve import SCHEDULE  # noqa: PLC0415

    made = Table("name", "now", "until", "next", "until")
    for one in rows:
        schedule = directory.schedules.get(one.name.removeprefix(SCHEDULE))
        there = place or (zone(schedule.time_zone) if schedule else directory.zone_of(""))
        if one.depends_on:
            tables.add(made, one.name, f"depends on the call: {one.depends_on}", "", "", "")
            continue
        ends = [
            moment_text(each.until, there) if each and each.until else ""
            for each in (one.now, one.next)
        ]
        following = _shift(one.next, directory, None) if one.next else ""
        if one.next_request:
            then = f"{_names(one.next_request, directory, None)} (next request)"
            following = "; ".join(filter(None, (then, following)))
        tables.add(made, one.name, _shift(one.now, directory, now), ends[0], following, ends[1])
    return made


def _shift(shift: Shift, directory: Directory, now: datetime | None) -> str:
    """Return who is asked in a shift, or why nobody is.

    Args:
        shift: The shift.
        directory: The people.
        now: The moment whose quiet hours count, None for none.
    """
    if not shift.people:
        return f"nobody: {'; '.join(shift.notes)}" if shift.notes else "nobody"
    short = f" ({shift.short})" if shift.short else ""
    return _names(shift.people, directory, now) + short


def _names(people: Sequence[OnCallPerson], directory: Directory, now: datetime | None) -> str:
    from signoff.cli.commands.approvals import tables  # noqa: PLC0415
    from signoff.core.routing.quiet_hours import quiet_until, waits_for  # noqa: PLC0415

    found = []
    for one in people:
        person = directory.get(one.id)
        until = quiet_until(person, now) if person is not None and now is not None else None
        name = one.shown(directory)
        if person is not None and now is not None and until is not None:
            name += f", waits for {waits_for(person, until, now)}"
        found.append(name)
    return tables.first_names(found)
