"""Cases that users write for their policies: a call, a moment, and what shall come of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field, JsonValue, ValidationError

from signoff.channels.forecast import Rulebook
from signoff.cli.config.faults import (
    ConfigErrors,
    Fault,
    Loc,
    faults_of,
    key_text,
    parse_toml,
    place_text,
    read_text,
    suggest,
)
from signoff.cli.config.toml_lines import line_of
from signoff.core.base.model import Value
from signoff.core.base.moments import read_moment
from signoff.core.directory.hours import TimeZone
from signoff.core.simulation.forecast import End, Says

CASES_FILE = "signoff.test.toml"
"""Read from beside the settings unless other files are named."""


def _spelled(value: object) -> object:
    """Write TOML's own dates and times as text."""
    return value.isoformat() if isinstance(value, date | time) else value


def _levels(value: object) -> object:
    """Take a plain list of people for the one level that there is."""
    flat = isinstance(value, list) and value and all(isinstance(one, str) for one in value)
    return [value] if flat else value


def _absences(value: object) -> object:
    """Take a plain list of people for those in whose place nobody is, and a text for a delegate."""
    if isinstance(value, list):
        return {one: {} for one in value}
    if not isinstance(value, dict):
        return value
    return {key: {"delegate": one} if isinstance(one, str) else one for key, one in value.items()}


Moment = Annotated[str, BeforeValidator(_spelled)]


class Away(Value):
    """[cases.away]: when somebody is away, and who decides instead.

    Attributes:
        start: The first day; before the case begins where it is not set.
        end: The last day; after the case ends where it is not set.
        delegate: The id of the delegate, "" for nobody.
    """

    start: date | None = Field(default=None, alias="from")
    end: date | None = Field(default=None, alias="to")
    delegate: str = ""


class Expectation(Value):
    """[cases.expect]: what shall hold; what is left out is not looked at.

    Attributes:
        policy: The policy that rules; ``default`` for `[default]`.
        asked: Ids of those who are asked: one list, or one list for each level that is asked.
        never: Ids of people who are asked at no level.
        by: The channels by which they are asked, of all levels together.
        asked_at: When each level is asked.
        delivered_at: When the first card of each level goes out: later where it waits for working
            hours.
        reminded: How many reminders there are in all.
        end: How it ends if nobody else answers: ``reject``, ``stay`` or ``approve``.
        end_at: When the end is.
        refused: Ids of those whose answer does not count, in the order of the answers.
        informed: Ids of those who are told and do not decide.
        title: What the request is called; "" where its policy has no title.
        hidden: The arguments that nobody is shown.
    """

    policy: str | None = None
    asked: Annotated[tuple[tuple[str, ...], ...] | None, BeforeValidator(_levels)] = None
    never: tuple[str, ...] = ()
    by: tuple[str, ...] | None = None
    asked_at: tuple[Moment, ...] | None = None
    delivered_at: tuple[Moment, ...] | None = None
    reminded: int | None = None
    end: End | None = None
    end_at: Moment | None = None
    refused: tuple[str, ...] | None = None
    informed: tuple[str, ...] | None = None
    title: str | None = None
    hidden: tuple[str, ...] | None = None


class Reply(Value):
    """[[cases.answers]]: what somebody answers.

    Attributes:
        by: The id of the person.
        says: ``approve``, ``reject``, ``claim``, ``ask`` (the requester) or ``answer`` (as the
            requester).
        at: When.
    """

    by: str
    says: Says = Says.APPROVE
    at: Moment


class Case(Value):
    """[[cases]]: one call at one moment.

    Attributes:
        name: What holds, in words.
        tool: The tool.
        args: Its arguments.
        app: The agent's folder.
        agent: The agent.
        user: Who asks: an id or an address.
        at: When it begins to wait.
        zone: Where clocks show `at`; that of the file where it is not set.
        away: Who is away: ids, or a table of ids and delegates, for the whole time. ``{ mara = {
            from = 2026-11-19, delegate = "tom" } }`` is away from a day on.
        answers: What people answer, in order; nobody else does.
        expect: What shall hold.
    """

    name: str = Field(min_length=1)
    tool: str = Field(min_length=1)
    args: dict[str, JsonValue] = Field(default_factory=dict)
    app: str = ""
    agent: str = ""
    user: str = ""
    at: Moment
    zone: TimeZone | None = None
    away: Annotated[dict[str, Away], BeforeValidator(_absences)] = Field(default_factory=dict)
    answers: tuple[Reply, ...] = ()
    expect: Expectation


class Cases(Value):
    """A file of cases.

    Attributes:
        zone: Where clocks show the times of the cases; UTC where it is not set.
        today: The day from which "Friday" and "tomorrow" are counted.
        cases: The cases.
    """

    zone: TimeZone = "UTC"
    today: date | None = None
    cases: tuple[Case, ...] = Field(min_length=1)


def read_cases(file: Path, rules: Rulebook) -> tuple[Cases, list[int]]:
    """Read a file of cases.

    Returns:
        The cases, and the line in which each begins.

    Raises:
        ConfigErrors: It cannot be read, or cases are about people, policies or moments that there
            are not.
    """
    text = read_text(file)
    content = parse_toml(text, file)
    cases = _parsed(content, text, file)
    faults = [
        replace(
            fault,
            key=key_text(loc),
            source=f"{file}:{line_of(text, loc) or 1}",
            place=place_text(loc, content),
        )
        for loc, fault in _meanings(cases, rules)
    ]
    if faults:
        raise ConfigErrors(faults)
    return cases, [line_of(text, ("cases", at)) or 1 for at, _ in enumerate(cases.cases)]


def start_of(case: Case, cases: Cases) -> datetime:
    """Return when a case begins to wait (UTC)."""
    return read_moment(case.at, zone_of(case, cases), now=_today(case, cases))


def zone_of(case: Case, cases: Cases) -> ZoneInfo:
    """Return where clocks show the times of a case."""
    return ZoneInfo(case.zone or cases.zone)


def _parsed(content: dict[str, Any], text: str, file: Path) -> Cases:
    try:
        return Cases.model_validate(content)
    except ValidationError as error:
        raise ConfigErrors(
            replace(
                fault,
                source=f"{file}:{line_of(text, loc) or 1}",
                place=place_text(loc, content),
            )
            for loc, fault in faults_of(error, Cases)
        ) from error


def _meanings(cases: Cases, rules: Rulebook) -> Iterator[tuple[Loc, Fault]]:
    """Find what is said of people, policies and moments that there are not."""
    people = [one.id for one in rules.everybody]
    policies = [*(one.name for one in rules.policies), rules.default.terms({}).policy]
    names: dict[str, int] = {}
    for index, case in enumerate(cases.cases):
        loc: Loc = ("cases", index)
        if names.setdefault(case.name, index) != index:
            yield (*loc, "name"), Fault("", f"{case.name!r} is the name of an earlier case")
        expect = case.expect
        asked = [one for level in expect.asked or () for one in level]
        named = {"asked": asked, "never": expect.never, "refused": expect.refused or ()}
        named["informed"] = expect.informed or ()
        found: list[tuple[Loc, str]] = [
            (("expect", key), one) for key, ids in named.items() for one in ids
        ]
        delegates = [one.delegate for one in case.away.values() if one.delegate]
        found += [(("away",), one) for one in (*case.away, *delegates)]
        found += [(("answers", at, "by"), one.by) for at, one in enumerate(case.answers)]
        for way, person in found:
            if rules.everybody.record(person) is None:
                message = f"{person!r} is not the id of anybody in [[people]]"
                yield (*loc, *way), Fault("", message, suggest(person, people))
        if expect.policy is not None and expect.policy not in policies:
            message = f"there is no policy {expect.policy!r}"
            yield (*loc, "expect", "policy"), Fault("", message, suggest(expect.policy, policies))
        if not expect.model_fields_set:
            message, remedy = "it expects nothing", "Say what shall hold: policy, asked, end, …"
            yield (*loc, "expect"), Fault("", message, remedy)
        yield from _moments(case, cases, loc)


def _moments(case: Case, cases: Cases, loc: Loc) -> Iterator[tuple[Loc, Fault]]:
    expect = case.expect
    found: list[tuple[Loc, str]] = [(("at",), case.at)]
    found += [(("answers", number, "at"), one.at) for number, one in enumerate(case.answers)]
    found += [(("expect", "asked_at"), one) for one in expect.asked_at or ()]
    found += [(("expect", "delivered_at"), one) for one in expect.delivered_at or ()]
    found += [(("expect", "end_at"), expect.end_at)] if expect.end_at is not None else []
    for way, text in found:
        # What is expected is counted from when the case begins to wait.
        now = _today(case, cases) if way == ("at",) else datetime(2000, 1, 1, tzinfo=UTC)
        try:
            read_moment(text, zone_of(case, cases), now=now)
        except ValueError as error:
            remedy = "" if now else "Or write today = 2026-11-18 at the top, to count from."
            yield (*loc, *way), Fault("", str(error), remedy)


def _today(case: Case, cases: Cases) -> datetime | None:
    """Return the moment from which days of the week are counted, None where there is none."""
    today = cases.today
    return datetime.combine(today, time(), zone_of(case, cases)) if today is not None else None
