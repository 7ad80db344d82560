"""Prints timelines and changes of terms at the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any, Final

from pydantic import JsonValue

from signoff.cli.commands.approvals.tables import add, first_names
from signoff.cli.policy_cases.diff import Changed
from signoff.cli.printing import Output, Table, Text
from signoff.core.approvals.events import What
from signoff.core.approvals.milestones import topics_of
from signoff.core.base.counts import counted
from signoff.core.base.durations import coarse, format_duration
from signoff.core.base.hiding import having_hidden
from signoff.core.base.numbers import json_text
from signoff.core.cards.card import one_line
from signoff.core.directory.people import Directory
from signoff.core.directory.working_time import has_worked
from signoff.core.policies.levels import Order
from signoff.core.policies.matching import MatchResult
from signoff.core.policies.policy import Effect
from signoff.core.simulation.forecast import ASKING, End, Step, Timeline

_SIGNS: Final = {
    MatchResult.MATCHES: ("✓", "green"),
    MatchResult.NO: ("·", "dim"),
    MatchResult.ERROR: ("✗", "red"),
}
_ENDS: Final = {
    End.REJECT: ("it is rejected, and the agent is told that nobody answered", "red"),
    End.STAY: ("it stays open until somebody answers", "yellow"),
    End.APPROVE: ("it is approved, under the ceiling of its policy", "green"),
}


def who_approves(timeline: Timeline, directory: Directory) -> dict[str, Any]:
    """Return the policy that applies, the approvers of each level, and the end."""
    asked = [[directory.shown(person) for person in level.people] for level in timeline.levels]
    needs = [level.need for level in timeline.levels]
    return {
        "policy": timeline.terms.policy,
        "asked": asked,
        "need": needs,
        "end": timeline.end.value,
    }


def print_approvers(
    key: str, rows: Sequence[tuple[JsonValue, Timeline]], directory: Directory
) -> None:
    """Print who has to approve a call, one row for each value of an argument."""
    shown = Table(key, "policy", "who has to approve", "end")
    for value, timeline in rows:
        found = who_approves(timeline, directory)
        levels = [
            f"{need} of {', '.join(people)}" if len(people) > need else " and ".join(people)
            for people, need in zip(found["asked"], found["need"], strict=True)
        ]
        nobody = "nobody: the policy allows it" if timeline.allowed else "nobody"
        add(
            shown, json_text(value), found["policy"], ", then ".join(levels) or nobody, found["end"]
        )
    Output().print(shown)


def print_timeline(
    timeline: Timeline,
    directory: Directory,
    zone: tzinfo,
    *,
    bundles: tuple[int, timedelta] | None,
    approving: bool,
) -> None:
    """Print the policy that applies, and what happens when.

    Args:
        timeline: The timeline.
        directory: The people.
        zone: The time zone for times.
        bundles: How many cards a person gets separately, and within which time; None if cards are
            never bundled.
        approving: Whether the timeline assumes that everybody approves.
    """
    out = Output()
    facts = timeline.facts
    args = facts["args"] if isinstance(facts["args"], dict) else {}
    call = f"{facts['tool']}({', '.join(f'{key}={json_text(one)}' for key, one in args.items())})"
    out.print(Text(one_line(call), style="bold"), Text(one_line(_from(timeline, directory))))
    _print_policies(out, timeline)
    if title := timeline.title(directory):
        out.print(Text("\ntitle: ", style="bold"), Text(title), sep="")
    if hidden := having_hidden(args, timeline.terms.hide):
        names = ", ".join(map(one_line, sorted(hidden)))
        out.print(Text("hidden: ", style="bold"), Text(names), sep="")
    if timeline.levels:
        notified = _requester_is_told(timeline, directory)
        out.print(Text("\nthe requester ", style="bold"), Text(one_line(notified)), sep="")
    answers = "everybody approves" if approving else "nobody answers"
    out.print(Text(f"\nif {answers} ({zone})", style="bold"))
    out.print(_steps_table(timeline, directory, zone))
    if any(step.asked for step in timeline.steps):
        out.print(Text("\ncards: ", style="bold"), Text(_bundled(timeline, bundles)), sep="")
    words, colour = _ENDS[timeline.end]
    words = _other_end(timeline, directory, approving=approving) or words
    out.print(Text("\nend: ", style="bold"), Text(words, style=colour), sep="")
    _print_rules(out, timeline, directory)


def _steps_table(timeline: Timeline, directory: Directory, zone: tzinfo) -> Table:
    """Return a table of what happens when."""
    steps = Table("when", "after", "what", "")
    for step in _together(timeline.steps):
        first, *rest = _lines(step, timeline, directory, zone)
        after = step.at - timeline.start
        what = step.what.value.replace("_", " ")
        add(steps, at_zone(step.at, zone), f"+{coarse(after)}" if after else "", what, first)
        for line in rest:
            add(steps, "", "", "", line)
    return steps


def _other_end(timeline: Timeline, directory: Directory, *, approving: bool) -> str:
    """Return how a timeline ends in words; "" if it ends because nobody answered."""
    if timeline.allowed is not None:
        above = ", ".join(directory.shown(one) for one in timeline.above) or "nobody"
        return f"it is allowed at once; above {timeline.allowed} {above} would be asked"
    if timeline.terms.effect is Effect.DENY:
        return "it is denied at once, and the agent reads the reason"
    if timeline.end is End.APPROVE and approving and timeline.levels:
        return "it is approved"
    if timeline.end is End.APPROVE and not timeline.levels:
        return "a grant approves it at once, and nobody is asked"
    return ""


def _print_rules(out: Output, timeline: Timeline, directory: Directory) -> None:
    """Print the other rules of the policy for the call."""
    if timeline.holds:
        say = "calls of the same turn that need no approval wait for this one"
        out.print(Text("holds: ", style="bold"), Text(say), sep="")
    if len(phases := timeline.terms.phases) > 1:
        say = f"{', then '.join(phases)}; each has to approve before the next is asked"
        out.print(Text("phases: ", style="bold"), Text(one_line(say)), sep="")
    if grants := timeline.terms.grants:
        who = ", ".join(directory.shown(one) for one in grants.who)
        longest = format_duration(grants.longest)
        may = f"{who} may approve up to {counted(grants.most, 'call')} like it for up to {longest}"
        out.print(Text("grants: ", style="bold"), Text(one_line(may)), sep="")


def _bundled(timeline: Timeline, bundles: tuple[int, timedelta] | None) -> str:
    """Return a text about when a card would be bundled, which depends on the other cards."""
    urgent = [timeline.terms.asking(one.level).urgent for one in timeline.levels]
    if all(urgent):
        return "urgent, so each is sent at once and on its own"
    if bundles is None or not bundles[0]:
        return "each is sent on its own"
    over, within = bundles
    at_most = f"somebody who gets more than {over} within {format_duration(within)}"
    others = "; those of urgent levels never wait" if any(urgent) else ""
    return f"{at_most} gets the others together, as one message{others}"


def at_zone(moment: datetime, zone: tzinfo) -> str:
    """Return a moment as text in a time zone, with the day of the week and the zone."""
    here = moment.astimezone(zone)
    seconds = ":%S" if here.second else ""
    return here.strftime(f"%a %Y-%m-%d %H:%M{seconds} %Z")


def _from(timeline: Timeline, directory: Directory) -> str:
    user, app, agent = (str(timeline.facts[key]) for key in ("user", "app", "agent"))
    place = f"{app}/{agent}" if agent else app
    who = directory.shown(user) if user else "an unknown requester"
    parts = [f"of {place}" if place else "", f"asked for by {who}"]
    return " ".join(part for part in parts if part)


def _requester_is_told(timeline: Timeline, directory: Directory) -> str:
    """Return a text about the notifications of the requester."""
    user = str(timeline.facts["user"])
    person = directory.find(user) if user else None
    if person is None:
        has = "[notifications] requester_domains has their domain"
        return f"is not in the directory: they are told only if {has}"
    topics = topics_of(timeline.terms, person)
    if not topics:
        return "is told nothing"
    by = " and ".join(person.notify_by or timeline.terms.notify_by)
    *others, last = (one.value for one in topics)
    about = " or ".join(filter(None, (", ".join(others), last)))
    return f"is told when it is {about}" + (f"; by {by}" if by else "")


def _print_policies(out: Output, timeline: Timeline) -> None:
    out.print(Text("\npolicies", style="bold"))
    rows = Table("", "", "", "")
    for one in timeline.considered:
        sign, colour = _SIGNS[one.verdict]
        when = one.when or "every call"
        add(rows, Text(sign, style=colour), Text(one.policy, style=colour), when, one.why)
    if not timeline.considered or timeline.considered[-1].policy != timeline.terms.policy:
        add(rows, Text("✓", style="green"), Text(timeline.terms.policy, style="green"), "", "")
    out.print(rows)


def _together(steps: Sequence[Step]) -> list[Step]:
    """Return the steps, with the cards of a level at its beginning."""
    found: list[Step] = []
    for step in steps:
        last = found[-1] if found else None
        here = (step.at, step.level, step.round)
        began = last is not None and last.what is What.ESCALATED
        if step.what is What.ASKED and last and began and here == (last.at, last.level, last.round):
            found[-1] = last.model_copy(update={"asked": step.asked})
        else:
            found.append(step)
    return found


def _lines(step: Step, timeline: Timeline, directory: Directory, zone: tzinfo) -> list[str]:
    """Return what happens at a step: one line for each card, and one for each remark."""
    lines = []
    if step.what in ASKING:
        lines.append(_level(step, timeline, zone))
        lines += [
            f"  {_asked(step, one.person, directory)} by {one.channel} ({one.address})"
            + (f", waits for {one.waits_for}" if one.waits_for else "")
            for one in step.asked
        ]
        within = timeline.terms.asking(step.level).within
        if not within.business and _nobody_works(step, directory):
            lines.append(f'none of them works before then: "{within} business" would wait for them')
    if step.informed:
        lines.append(f"informed: {', '.join(directory.shown(one) for one in step.informed)}")
    lines += [directory.shown(one) for one in step.reminded]
    lines += [part for part in step.why.split("; ") if part]
    return lines or [""]


def _nobody_works(step: Step, directory: Directory) -> bool:
    """Say whether a level begins and ends outside of the working hours of all its approvers."""
    people = [directory.get(seat.person) for seat in step.seats]
    until = step.until
    return bool(people) and all(
        one is not None
        and until is not None
        and one.hours
        and not has_worked(one, step.at, until, least=timedelta.resolution)
        for one in people
    )


def _level(step: Step, timeline: Timeline, zone: tzinfo) -> str:
    """Return a text about the level that begins: its end, and the approvals that it needs."""
    again = f" (round {step.round + 1})" if step.round else ""
    head = timeline.terms.called(step.level) + again
    rules = timeline.terms.asking(step.level)
    parts = [f"until {at_zone(step.until, zone)}" if step.until else "without an end"]
    if not step.seats:
        parts.insert(0, "nobody")
    if step.need > 1:
        parts.append(f"{step.need} have to approve")
    if rules.order is Order.SEQUENCE and len(step.seats) > 1:
        parts.append(f"one after the other, of {len(step.seats)}")
    if timeline.terms.second_step:
        parts.append("to be confirmed on the inbox page")
    return f"{head}: {', '.join(parts)}" if head else ", ".join(parts)


def _asked(step: Step, person: str, directory: Directory) -> str:
    if not person:
        return ", ".join(dict.fromkeys(directory.shown(seat.person) for seat in step.seats))
    found = []
    for seat in step.seats:
        if seat.person == person:
            instead = f"instead of {directory.shown(seat.instead_of)}" if seat.instead_of else ""
            via = seat.via if seat.via != seat.stands_for else ""
            found += [part for part in (instead, via) if part]
    return directory.shown(person) + (f" ({', '.join(dict.fromkeys(found))})" if found else "")


def print_diff(found: Sequence[Changed], looked_at: int, *, most: int) -> None:
    """Print the differences, grouped by approvals that would change in the same way.

    So many approvals were looked at. At most `most` groups are printed, the largest first.
    """
    out = Output()
    groups: dict[tuple[object, ...], list[Changed]] = {}
    for one in found:
        terms, notes = one.approval.terms, one.notes
        key = (one.approval.call.name, terms.policy if terms else "", str(one.differences), notes)
        groups.setdefault(key, []).append(one)
    ordered = sorted(groups.values(), key=len, reverse=True)
    for group in ordered[:most]:
        _print_alike(out, group)
    if (left := len(ordered) - most) > 0:
        out.print(Text(f"… and {counted(left, 'more group')}. --limit shows more of them."))
    same = looked_at - len(found)
    counts = f"{len(found)} would have other terms, {same} the same"
    out.print(Text(f"{looked_at} pending: {counts}."))


def _print_alike(out: Output, group: Sequence[Changed]) -> None:
    """Print approvals whose terms would change in the same way."""
    one = group[0]
    call, policy = one.approval.call.name, one.approval.terms
    ids = first_names([each.approval.id for each in group])
    out.print(Text(one_line(f"{ids}  {call}()  {policy.policy if policy else ''}"), style="bold"))
    rows = Table("", "", "")
    for difference in one.differences:
        frozen, new = _plainly(difference.frozen), _plainly(difference.new)
        cells = (Text(f"- {frozen}", style="red"), Text(f"+ {new}", style="green"))
        add(rows, f"  {difference.field}", *cells)
    out.print(rows)
    for note in one.notes:
        out.print(Text(f"  {one_line(note)}", style="dim"))


def diff_json(found: Sequence[Changed]) -> list[dict[str, Any]]:
    """Return the differences as JSON."""
    return [
        {
            "approval": one.approval.id,
            "tool": one.approval.call.name,
            "differences": [
                {"field": each.field, "frozen": each.frozen, "new": each.new}
                for each in one.differences
            ],
            "notes": list(one.notes),
        }
        for one in found
    ]


def _plainly(value: JsonValue) -> str:
    if value is None:
        return "not there"
    if isinstance(value, str):
        return value or "empty"
    return json_text(value)
