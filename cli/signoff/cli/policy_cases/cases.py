"""Test cases of users for their policies: a call, a time, and the expected result."""

from collections.abc import Iterator
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
"""The default file of cases, beside the settings file."""


def _time_text(value: object) -> object:
    """Return a date or time of TOML as text."""
    return value.isoformat() if isinstance(value, date | time) else value


def _levels(value: object) -> object:
    """Return levels; a plain list of people is a single level."""
    flat = isinstance(value, list) and value and all(isinstance(one, str) for one in value)
    return [value] if flat else value


def _absences(value: object) -> object:
    """Return absences as tables; a list has no delegates, and a text is a delegate."""
    if isinstance(value, list):
        return {one: {} for one in value}
    if not isinstance(value, dict):
        return value
    return {key: {"delegate": one} if isinstance(one, str) else one for key, one in value.items()}


Moment = Annotated[str, BeforeValidator(_time_text)]


class Away(Value):
    """[cases.away]: the absence of a person.

    Attributes:
        start: The first day; None for an absence that began before the case.
        end: The last day; None for an absence that ends after the case.
        delegate: The id of the delegate; "" for nobody.
    """

    start: date | None = Field(default=None, alias="from")
    end: date | None = Field(default=None, alias="to")
    delegate: str = ""


class Expectation(Value):
    """[cases.expect]: the expected result; a key that is not set is not checked.

    Attributes:
        policy: The policy that matches; ``default`` for `[default]`.
        asked: The ids of the approvers: one list, or a list for each level.
        never: Ids of people who are asked at no level.
        by: The channels by which they are asked, of all levels together.
        asked_at: When each level starts.
        delivered_at: When the first card of each level is sent: later if it waits for working
            hours.
        reminded: The number of reminders.
        end: How it ends if nobody else answers: ``reject``, ``stay`` or ``approve``.
        end_at: When it ends.
        refused: The ids of people whose answers are refused, in the order of the answers.
        informed: The ids of people who are informed and do not decide.
        title: The title of the request; "" if its policy has none.
        hidden: The names of the hidden arguments.
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
    """[[cases.answers]]: an answer.

    Attributes:
        by: The id of the person.
        says: ``approve``, ``reject``, ``claim``, ``ask`` (the requester) or ``answer`` (as the
            requester).
        at: The time of the answer.
    """

    by: str
    says: Says = Says.APPROVE
    at: Moment


class Case(Value):
    """[[cases]]: a call at one time.

    Attributes:
        name: The name of the case.
        tool: The tool.
        args: Its arguments.
        app: The agent's folder.
        agent: The agent.
        user: The requester: an id or an address.
        at: When the request is routed.
        zone: The time zone of the times; None for that of the file.
        away: Who is absent for the whole case: ids, or a table of ids and delegates. In ``{ mara =
            { from = 2026-11-19, delegate = "tom" } }`` Mara is absent from that day on.
        answers: The answers, in order.
        expect: The expected result.
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
        zone: The time zone of the times of the cases.
        today: The day from which "Friday" and "tomorrow" are counted.
        cases: The cases.
    """

    zone: TimeZone = "UTC"
    today: date | None = None
    cases: tuple[Case, ...] = Field(min_length=1)


def read_cases(file: Path, rules: Rulebook) -> tuple[Cases, list[int]]:
    """Read a file of cases.

    Returns:
        The cases, and the line at which each begins.

    Raises:
        ConfigErrors: It cannot be read, or cases name unknown people, policies or times.
    """
    text = read_text(file)
    content = parse_toml(text, file)
    cases = _parsed(content, text, file)
    faults = [
        fault._replace(
            key=key_text(loc),
            source=f"{file}:{line_of(text, loc) or 1}",
            place=place_text(loc, content),
        )
        for loc, fault in _unknown_names(cases, rules)
    ]
    if faults:
        raise ConfigErrors(faults)
    return cases, [line_of(text, ("cases", at)) or 1 for at, _ in enumerate(cases.cases)]


def start_of(case: Case, cases: Cases) -> datetime:
    """Return when the request of a case is routed (UTC)."""
    return read_moment(case.at, zone_of(case, cases), now=_today(case, cases))


def zone_of(case: Case, cases: Cases) -> ZoneInfo:
    """Return the time zone of the times of a case."""
    return ZoneInfo(case.zone or cases.zone)


def _parsed(content: dict[str, Any], text: str, file: Path) -> Cases:
    try:
        return Cases.model_validate(content)
    except ValidationError as error:
        raise ConfigErrors(
            fault._replace(
                source=f"{file}:{line_of(text, loc) or 1}",
                place=place_text(loc, content),
            )
            for loc, fault in faults_of(error, Cases)
        ) from error


def _unknown_names(cases: Cases, rules: Rulebook) -> Iterator[tuple[Loc, Fault]]:
    """Find names of unknown people and policies, and times that cannot be read."""
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
        for path, person in found:
            if rules.everybody.record(person) is None:
                message = f"{person!r} is not the id of anybody in [[people]]"
                yield (*loc, *path), Fault("", message, suggest(person, people))
        if expect.policy is not None and expect.policy not in policies:
            message = f"there is no policy {expect.policy!r}"
            yield (*loc, "expect", "policy"), Fault("", message, suggest(expect.policy, policies))
        if not expect.model_fields_set:
            message, remedy = "it expects nothing", "Add policy, asked, end or another key."
            yield (*loc, "expect"), Fault("", message, remedy)
        yield from _moments(case, cases, loc)


def _moments(case: Case, cases: Cases, loc: Loc) -> Iterator[tuple[Loc, Fault]]:
    expect = case.expect
    found: list[tuple[Loc, str]] = [(("at",), case.at)]
    found += [(("answers", number, "at"), one.at) for number, one in enumerate(case.answers)]
    found += [(("expect", "asked_at"), one) for one in expect.asked_at or ()]
    found += [(("expect", "delivered_at"), one) for one in expect.delivered_at or ()]
    found += [(("expect", "end_at"), expect.end_at)] if expect.end_at is not None else []
    for path, text in found:
        # Times in `expect` and `answers` are counted from the start of the case.
        now = _today(case, cases) if path == ("at",) else datetime(2000, 1, 1, tzinfo=UTC)
        try:
            read_moment(text, zone_of(case, cases), now=now)
        except ValueError as error:
            remedy = "" if now else "Or write today = 2026-11-18 at the top of the file."
            yield (*loc, *path), Fault("", str(error), remedy)


def _today(case: Case, cases: Cases) -> datetime | None:
    """Return the time from which days of the week are counted; None if `today` is not set."""
    today = cases.today
    return datetime.combine(today, time(), zone_of(case, cases)) if today is not None else None
