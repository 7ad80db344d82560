"""Runs the cases of users, and compares the simulation with what they expect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from signoff.channels.forecast import Rulebook, call_facts, timeline_of
from signoff.cli.policy_cases.cases import Case, Cases, Expectation, read_cases, start_of, zone_of
from signoff.core.base.errors import ApprovalError
from signoff.core.base.hiding import having_hidden
from signoff.core.base.moments import read_moment
from signoff.core.directory.absences import Presence, with_absences
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory
from signoff.core.simulation.forecast import LevelForecast, SimulatedAnswer, Timeline


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of a case.

    Attributes:
        line: The line at which the case begins.
        case: The case.
        failures: The differences from what is expected; empty if the case passed.
    """

    line: int
    case: Case
    failures: tuple[str, ...]


def results_of(file: Path, rules: Rulebook) -> list[CaseResult]:
    """Run the cases of a file against settings.

    Raises:
        ConfigErrors: See `read_cases`.
    """
    cases, lines = read_cases(file, rules)
    return [_run(line, case, cases, rules) for line, case in zip(lines, cases.cases, strict=True)]


def _run(line: int, case: Case, cases: Cases, rules: Rulebook) -> CaseResult:
    start = start_of(case, cases)
    facts = call_facts(case.tool, case.args, app=case.app, agent=case.agent, user=case.user)
    zone = zone_of(case, cases)
    try:
        timeline = timeline_of(
            rules,
            facts,
            start=start,
            directory=people_of(case, rules, start),
            answers=answers_of(case, cases),
        )
    except ApprovalError as error:
        return CaseResult(line, case, (str(error),))
    failures = (
        *_failures(case.expect, timeline, zone),
        *_differences_shown(case.expect, timeline, rules.everybody),
    )
    return CaseResult(line, case, failures)


def people_of(case: Case, rules: Rulebook, start: datetime) -> Directory:
    """Return the directory of a case that is routed at `start`, with its absences."""
    day = start.date()
    long_ago, never = day - timedelta(days=2), day + timedelta(days=20 * 366)
    absences = {
        person: Presence(
            away=(
                Absence(start=one.start or long_ago, end=one.end or never, delegate=one.delegate),
            )
        )
        for person, one in case.away.items()
    }
    return with_absences(rules.everybody, absences)


def answers_of(case: Case, cases: Cases) -> list[SimulatedAnswer]:
    """Return the answers of a case, in order."""
    zone = zone_of(case, cases)
    moments = _read_moments([one.at for one in case.answers], start_of(case, cases), zone)
    return [
        SimulatedAnswer(by=one.by, at=at.astimezone(UTC), says=one.says)
        for one, at in zip(case.answers, moments, strict=True)
    ]


def _failures(expect: Expectation, timeline: Timeline, zone: ZoneInfo) -> Iterator[str]:
    """Yield the differences from what is expected."""
    levels = [level for level in timeline.levels if not level.round]
    if expect.policy is not None and expect.policy != timeline.terms.policy:
        yield f"policy: expected {expect.policy!r}, is {timeline.terms.policy!r}{_why(timeline)}"
    if expect.asked is not None:
        yield from _asked(expect.asked, levels)
    for person in expect.never:
        for level in timeline.levels:
            if person in level.people:
                yield f"never: {person} is asked at {_number(level)}"
    if expect.by is not None:
        channels = {one.channel for level in levels for one in level.asked}
        if channels != set(expect.by):
            yield f"by: expected {_listed(expect.by)}, is {_listed(sorted(channels))}"
    if expect.reminded is not None and expect.reminded != timeline.reminders:
        yield f"reminded: expected {expect.reminded} times, is {timeline.reminders}"
    if expect.refused is not None and expect.refused != timeline.refused:
        yield f"refused: expected {_listed(expect.refused)}, is {_listed(timeline.refused)}"
    if expect.informed is not None and set(expect.informed) != set(timeline.informed):
        yield f"informed: expected {_listed(expect.informed)}, is {_listed(timeline.informed)}"
    if expect.end is not None and expect.end is not timeline.end:
        yield f"end: expected {expect.end.value}, is {timeline.end.value}"
    yield from _moments(expect, timeline, levels, zone)


def _differences_shown(
    expect: Expectation, timeline: Timeline, directory: Directory
) -> Iterator[str]:
    """Yield the differences in what people are shown."""
    title = timeline.title(directory)
    if expect.title is not None and expect.title != title:
        yield f"title: expected {expect.title!r}, is {title!r}"
    args = timeline.facts.get("args")
    hidden = having_hidden(args if isinstance(args, dict) else {}, timeline.terms.hide)
    if expect.hidden is not None and set(expect.hidden) != hidden:
        yield f"hidden: expected {_listed(expect.hidden)}, is {_listed(sorted(hidden))}"


def _moments(
    expect: Expectation, timeline: Timeline, levels: Sequence[LevelForecast], zone: ZoneInfo
) -> Iterator[str]:
    delivered = [
        min((one.held or level.at for one in level.asked), default=level.at) for level in levels
    ]
    for key, texts, are in (
        ("asked_at", expect.asked_at, [level.at for level in levels]),
        ("delivered_at", expect.delivered_at, delivered),
    ):
        wanted = are if texts is None else _read_moments(texts, timeline.start, zone)
        if wanted != are:
            shown = _listed([_shown(one, zone) for one in are])
            yield f"{key}: expected {_listed([_shown(one, zone) for one in wanted])}, is {shown}"
    if expect.end_at is not None:
        (end,) = _read_moments([expect.end_at], timeline.start, zone)
        if end != timeline.end_at:
            ends = _shown(timeline.end_at, zone) if timeline.end_at else "never"
            yield f"end_at: expected {_shown(end, zone)}, is {ends}"


def _asked(wanted: Sequence[Sequence[str]], levels: Sequence[LevelForecast]) -> Iterator[str]:
    if len(wanted) != len(levels):
        yield f"asked: expected {_count(wanted)}, there are {_count(levels)}"
    for people, level in zip(wanted, levels, strict=False):
        if set(people) != set(level.people):
            is_asked = _listed(level.people)
            yield f"asked: expected {_listed(people)} at {_number(level)}, is {is_asked}"


def _why(timeline: Timeline) -> str:
    reasons = [one for step in timeline.steps[:1] for one in (step.why,) if one]
    return f" ({reasons[0]})" if reasons else ""


def _read_moments(texts: Sequence[str], start: datetime, zone: ZoneInfo) -> list[datetime]:
    """Return times, each counted from the one before."""
    found: list[datetime] = []
    for text in texts:
        found.append(read_moment(text, zone, now=found[-1] if found else start))
    return found


def _number(level: LevelForecast) -> str:
    return f"level {level.level + 1}" + (f" ({level.name})" if level.name else "")


def _count(levels: Sequence[object]) -> str:
    return f"{len(levels)} level{'s' * (len(levels) != 1)}"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words) or "nobody"


def _shown(moment: datetime, zone: ZoneInfo) -> str:
    return f"{moment.astimezone(zone):%a %Y-%m-%d %H:%M}"
