"""Prints approvals, runs and events at the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from signoff.cli.printing import TIME, Output, Table, Text
from signoff.core.approvals.approval import Approval, Asked, Shown, State
from signoff.core.approvals.deliveries import is_stranded
from signoff.core.approvals.events import Event
from signoff.core.approvals.masking import masked
from signoff.core.approvals.parts import Decision, Kind
from signoff.core.approvals.run import WHOLE_APP, Run
from signoff.core.approvals.voting import Vote
from signoff.core.base.durations import coarse
from signoff.core.base.moments import in_its_zone, zone_name
from signoff.core.cards.card import (
    Card,
    awaited_by,
    card,
    changed_text,
    comments_on,
    one_line,
    shown,
    unbroken,
    values_text,
)
from signoff.core.directory.people import Directory
from signoff.core.directory.queues import QUEUE, Rotations
from signoff.core.routing.escalation import advance
from signoff.core.routing.quiet_hours import card_waits_for
from signoff.core.routing.selection import NO_ROTATIONS

_MOST_NAMES = 5
"""How many names a cell shows."""

_LONGEST = 60
"""The most characters of a text in a cell."""

_COLOURS = {
    "pending": "yellow",
    "approved": "green",
    "rejected": "red",
    "timed_out": "red",
    "completed": "green",
    "failed": "red",
    "in_doubt": "bold red",
    "paused": "yellow",
}


def time_column(directory: Directory) -> str:
    """Return the heading of a column of times, with the time zone of the settings."""
    return f"{TIME}{directory.time_zone})"


def add(to: Table, *cells: str | Text) -> None:
    """Add a row; text from agents and people is never read as markup."""
    to.add_row(*(cell if isinstance(cell, Text) else Text(one_line(cell)) for cell in cells))


def first_names(names: Sequence[str]) -> str:
    """Return the first of many names, and the number of the others."""
    left = len(names) - _MOST_NAMES
    # Showing one more name takes as little space as "and 1 more".
    if left <= 1:
        return ", ".join(names)
    return f"{', '.join(names[:_MOST_NAMES])} and {left:,} more"


def nobody(approval: Approval) -> str:
    """Return what stands in the place of the approvers where none can be asked."""
    return "nobody" if is_stranded(approval) else ""


def due_in(approval: Approval, now: datetime) -> str:
    """Return how long the level of a pending approval lasts, or that it is overdue."""
    if approval.deadline is not None:
        return coarse(approval.deadline - now)
    # It stays open after its deadline. Before it is routed, it has no deadline either.
    return "overdue" if approval.terms is not None else ""


def _awaited(approval: Approval, directory: Directory, now: datetime) -> str:
    """Return whose answers are awaited; of a claimed approval, who has claimed it."""
    if (claim := approval.claim_at(now)) is not None:
        return f"{directory.shown(claim.by)} (claimed)"
    return awaited_by(approval, directory) or nobody(approval)


def state_text(state: str) -> Text:
    """Return a state in its colour."""
    return Text(state.replace("_", " "), style=_COLOURS.get(state, ""))


def moment(at: datetime | None, directory: Directory) -> str:
    """Return a moment as text, in the time zone of the settings: the reader is not known."""
    if at is None:
        return ""
    here = in_its_zone(at, directory.zone_of(""))
    return f"{here:%Y-%m-%d %H:%M:%S} {zone_name(here)}"


def approvals_table(
    approvals: Iterable[Approval],
    directory: Directory,
    now: datetime,
    *,
    rotations: Rotations = NO_ROTATIONS,
) -> Table:
    """Return a table of approvals: the calls, the awaited approvers, and the times.

    The awaited approvers are those who may decide now, even if no timer has run yet.
    """
    made = Table("id", "state", "asks for", "requester", "waits on", "since", "due in")
    for one in approvals:
        pending = one.state is State.PENDING
        here = advance(one, directory, now=now, rotations=rotations)[0] if pending else one
        frozen = ", frozen" if one.frozen_by(directory.freezes) else ""
        add(
            made,
            one.id,
            state_text(one.state.value).append(frozen, "bold yellow"),
            asked_for(one, directory),
            directory.shown(one.origin.user),
            _awaited(here, directory, now) if here.state is State.PENDING else "",
            coarse(now - one.opened_at),
            due_in(one, now) if pending else "",
        )
    return made


def runs_table(runs: Iterable[Run], directory: Directory) -> Table:
    """Return a table of runs with their states."""
    made = Table("id", "state", "app", "user", "submitted", "waits for", "last word")
    for run in runs:
        add(
            made,
            run.id,
            state_text(run.state.value).append(", frozen" if run.held else "", "bold yellow"),
            run.app,
            run.user,
            moment(run.submitted_at, directory),
            ", ".join(run.waiting),
            _short(run.text or run.problem),
        )
    return made


def timeline(events: Sequence[Event], directory: Directory) -> Table:
    """Return a table of events, each with its time and the seconds since the first."""
    made = Table(time_column(directory), "after", "what", "by", "why")
    for event in events:
        passed = (event.at - events[0].at).total_seconds()
        to = event.more.get("to")
        what = event.what.value.replace("_", " ") + (f" to {to}" if to else "")
        what += f" ({notice})" if (notice := event.more.get("notice")) else ""
        zone = directory.zone_of("")
        here, began = in_its_zone(event.at, zone), in_its_zone(events[0].at, zone)
        day = "" if here.date() == began.date() else f"{here:%Y-%m-%d} "
        at = f"{day}{here:%H:%M:%S}.{here.microsecond // 1000:03}"
        add(made, at, f"+{passed:.3f} s", what, directory.shown(event.by), _why(event))
    return made


def _why(event: Event) -> str:
    """Return the reason of an event, and how the sender of a mail was authenticated."""
    proof = event.more.get("proof")
    if not isinstance(proof, dict):
        return event.why
    unproven = f"not proven, From: {proof.get('from') or 'nobody'}"
    by = f"proven by {proof['by']}" if proof.get("by") else unproven
    return f"{event.why} [{by}]".strip()


def _delivery(asked: Asked, waits_for: str) -> str:
    """Return the state of a card: delivered, rewritten, lost, found again, or why it waits."""
    on_its_way = f"waits for {waits_for}" if waits_for else "under way"
    parts = [asked.problem or (f"delivered as {asked.receipt}" if asked.receipt else on_its_way)]
    parts += ["in a list of several"] if asked.bundle else []
    parts += ["not shown in full"] if asked.shown is Shown.CUT else []
    parts += [asked.copy_state] if asked.copy_state else []
    parts += [f"second copy {one}" for one in asked.copies]
    parts += [f"out of office: {asked.away}"] if asked.away else []
    return "; ".join(parts)


def print_approval(
    out: Output,
    approval: Approval,
    directory: Directory,
    events: Sequence[Event],
    now: datetime,
    *,
    rotations: Rotations = NO_ROTATIONS,
) -> None:
    """Print the card, its state, the approvers, the next steps, and the timeline."""
    from signoff.channels.words.next_steps import next_steps  # noqa: PLC0415 -- loads the simulation

    _print_card(out, approval, directory)
    _print_approvers(out, approval, directory, now)
    ahead = next_steps(approval, directory, now=now, rotations=rotations)
    steps = [(moment(one.at, directory), one.what) for one in ahead]
    _print_rows(out, "if nobody answers", ("at", "what"), steps)
    out.print(Text("\ntimeline", style="bold"))
    out.print(timeline(events, directory))


def _print_card(out: Output, approval: Approval, directory: Directory) -> None:
    shape = card(approval, directory)
    out.print(Text(shape.title, style="bold"), Text("·"), state_text(approval.state.value))
    _print_facts(out, _facts(approval, directory, shape))
    for warning in shape.warnings:
        out.print(Text(f"⚠ {warning}", style="bold yellow"))
    _section(out, "arguments", ((row.name, row.value) for row in shape.rows))
    _section(out, "to fill in", ((row.name, row.value) for row in shape.fields))


def _print_approvers(out: Output, approval: Approval, directory: Directory, now: datetime) -> None:
    """Print who was asked, and what they have answered so far."""
    _print_rows(
        out,
        "asked",
        ("person", "channel", "address", "delivery"),
        [
            (
                directory.shown(one.person) if one.person else "all of them",
                one.channel,
                one.address,
                _delivery(one, card_waits_for(approval, one, directory, now)),
            )
            for one in approval.asked
        ],
    )
    _print_rows(
        out,
        "votes",
        ("person", "answer", "channel", "at", "reason"),
        [
            (
                _voter(vote, directory),
                vote.verdict.value,
                vote.decision.channel,
                moment(vote.decision.at, directory),
                vote.decision.reason,
            )
            for vote in approval.votes
        ],
    )
    _print_rows(
        out,
        "comments",
        ("person", "at", "text"),
        [
            (one.who, moment(one.at, directory), ("asks: " if one.asks else "") + one.text)
            for one in comments_on(approval, directory)
        ],
    )
    _print_rows(
        out,
        "first steps, to be confirmed on the inbox page",
        ("person", "channel", "at", "reason", "values"),
        [
            (
                directory.shown(step.by),
                step.channel,
                moment(step.at, directory),
                step.reason,
                _step_values(approval, step),
            )
            for step in approval.steps
            if approval.step_of(step.by)
        ],
    )


def _print_rows(
    out: Output, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Print a table below a title; nothing if it has no rows."""
    if not rows:
        return
    out.print(Text(f"\n{title}", style="bold"))
    made = Table(*columns)
    for row in rows:
        add(made, *row)
    out.print(made)


def _voter(vote: Vote, directory: Directory) -> str:
    stands_for = vote.stands_for if vote.stands_for != vote.by else ""
    name = directory.shown(vote.by)
    return f"{name} for {directory.shown(stands_for)}" if stands_for else name


def _step_values(approval: Approval, step: Decision) -> str:
    values = step.payload if step.proposal is None else step.proposal
    return "" if values is None else values_text(approval, values)


def print_run(out: Output, run: Run, directory: Directory, events: Sequence[Event]) -> None:
    """Print a run and its timeline."""
    title = Text(f"{run.app}: {one_line(run.message)}", style="bold")
    out.print(title, Text("·"), state_text(run.state.value))
    rows = {
        "id": run.id,
        "requester": directory.shown(run.user),
        "session": run.session,
        "submitted": moment(run.submitted_at, directory),
        "waits for": ", ".join(run.waiting),
        "frozen at": "the whole app" if run.held == WHOLE_APP else run.held,
        "last word": run.text,
        "problem": run.problem,
        "trace": run.trace,
    }
    _print_facts(out, {name: shown(value) for name, value in rows.items()})
    out.print(Text("\ntimeline", style="bold"))
    out.print(timeline(events, directory))


def as_json(record: Approval | Run, events: Sequence[Event] | None = None) -> dict[str, Any]:
    """Return a record, with its events if they are given, as JSON."""
    if isinstance(record, Approval):
        record = masked(record)
    data = record.model_dump(mode="json")
    if isinstance(record, Approval):
        votes = [vote.model_dump(mode="json") for vote in record.votes]
        data["votes"] = [{**vote.pop("decision"), **vote} for vote in votes]
    if events is not None:
        data["history"] = [event.model_dump(mode="json") for event in events]
    return data


def _policy(approval: Approval) -> str:
    """Return the name and the version of the policy; see `signoff policy history`."""
    if (terms := approval.terms) is None:
        return "not routed yet"
    return one_line(f"{terms.policy} {terms.version}".rstrip())


def _claim(approval: Approval, directory: Directory) -> str:
    claim = approval.claimed if approval.state is State.PENDING else None
    return (
        ""
        if claim is None
        else f"{directory.shown(claim.by)}, until {moment(claim.until, directory)}"
    )


def _facts(approval: Approval, directory: Directory, shape: Card) -> dict[str, str]:
    origin, decision = approval.origin, approval.decision
    return {
        "id": approval.id,
        "app": one_line(f"{origin.app} ({origin.agent})" if origin.agent else origin.app),
        "requester": one_line(directory.shown(origin.user)),
        "hint": shape.hint,
        "requester said": shape.request,
        "agent said": shape.said,
        "policy": _policy(approval),
        "queue": one_line(", ".join(one.removeprefix(QUEUE) for one in approval.queues)),
        "level": shape.level,
        "approved so far": shape.progress,
        "informed": one_line(", ".join(directory.shown(one) for one in approval.informed)),
        "second step": "needed" if approval.in_two_steps else "",
        "opened": moment(approval.opened_at, directory),
        "deadline": moment(approval.deadline, directory),
        "claimed": one_line(_claim(approval, directory)),
        "digest": approval.digest,
        "run": one_line(origin.run),
        "outcome": "" if approval.state is State.PENDING else one_line(approval.outcome(directory)),
        "reason": shown(decision.reason) if decision else "",
        "grant": decision.grant if decision else "",
        "values": ""
        if decision is None or decision.payload is None
        else values_text(approval, decision.payload),
        "proposed": ""
        if decision is None or decision.proposal is None
        else changed_text(approval, decision.proposal),
        "handoff": "" if approval.handoff.value == "none" else approval.handoff.value,
    }


def _print_facts(out: Output, facts: Mapping[str, str]) -> None:
    """Print the facts that are not empty, one in each line."""
    made = Table("", "")
    for name, value in facts.items():
        if value:
            made.add_row(Text(name, style="dim"), Text(value))
    out.print(made)


def _section(out: Output, title: str, rows: Iterable[tuple[str, str]]) -> None:
    found = list(rows)
    if not found:
        return
    out.print(Text(f"\n{title}", style="bold"))
    made = Table("", "")
    for name, value in found:
        made.add_row(Text(name), Text(value))
    out.print(made)


def asked_for(approval: Approval, directory: Directory) -> str:
    """Return the title that the policy gives to an approval, or its question, or its call."""
    shape, seen = card(approval, directory), masked(approval)
    if shape.titled:
        return shape.title
    if approval.kind is Kind.INPUT:
        text = _short(str(seen.call.args.get("message") or "")) or "input"
    else:
        args = ", ".join(f"{row.name} {unbroken(row.value)}" for row in shape.rows)
        text = f"{shape.tool}({_short(args)})"
    return f"{shape.app}: {text}"


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
