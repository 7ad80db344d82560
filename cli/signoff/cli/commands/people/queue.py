"""`signoff queue`: pending approvals by queue and by person."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from signoff.cli.commands.context import Json, settings_of, with_decisions, write_json
from signoff.cli.commands.options import Limit
from signoff.cli.printing import Output, Table, Text
from signoff.cli.terminal import say, say_json
from signoff.core.base.counts import counted
from signoff.core.base.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from signoff.broker.decisions import Decisions
    from signoff.core.approvals.approval import Approval
    from signoff.core.approvals.lists.metrics import Figures, PendingMetrics
    from signoff.core.directory.people import Directory

app = typer.Typer(no_args_is_help=True, help="Pending approvals by queue and person.")

_EVERY = 2.0

Watch = Annotated[bool, typer.Option("--watch", help="Refresh every two seconds.")]


@app.command("list")
def list_(
    ctx: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, help="The most people to show.")] = 20,
    watch: Watch = False,
    as_json: Json = False,
) -> None:
    """List queues, and the people with most pending approvals; all of them with --json.

    The count and the oldest are exact. The rest covers the 1,000 approvals that are due next.
    """

    async def look(decisions: Decisions) -> Any:  # noqa: ANN401 -- tables and texts, or JSON
        from signoff.broker.backlog import ALL, names_of, summaries  # noqa: PLC0415
        from signoff.core.directory.queues import QUEUE  # noqa: PLC0415
        from signoff.core.routing.vacancies import vacancies  # noqa: PLC0415

        await decisions.roster.refresh()
        found, now = await summaries(decisions.ledger, names_of(decisions.directory))
        if as_json:
            return [one.model_dump(mode="json") for one in found]
        # The total and the queues come first, then the people with most pending approvals.
        apart = [one for one in found if one.name == ALL or one.name.startswith(QUEUE)]
        people = [one for one in found if one not in apart]
        people.sort(key=lambda one: (-one.waiting, one.oldest or now))
        table = _table([*apart, *people[:limit]], decisions.directory, now)
        empty = vacancies(settings.policies, settings.default, decisions.directory, now=now)
        rest = _rest(len(people) - limit, "person", "people")
        nobody = [Text(f"Nobody can be asked for {one}.") for one in empty]
        return [table, *rest, *nobody]

    settings = settings_of(ctx)
    _shown(ctx, look, watch=watch, as_json=as_json)


@app.command()
def show(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A queue, a person, or `all`.")],
    *,
    limit: Limit = 100,
    watch: Watch = False,
    as_json: Json = False,
) -> None:
    """Show the pending approvals of a queue or a person, the oldest first.

    Each with what happens next if nobody answers: who is asked then and when, or how it ends.
    """

    async def look(decisions: Decisions) -> Any:  # noqa: ANN401 -- tables and texts, or JSON
        from signoff.broker.backlog import index_of, waiting  # noqa: PLC0415
        from signoff.cli.commands.approvals import tables  # noqa: PLC0415

        ledger = decisions.ledger
        await decisions.roster.refresh()
        named = _named(decisions.directory, name)
        found = await waiting(ledger, named, limit=limit)
        (count,) = await ledger.store.sizes([index_of(named)])
        rest, now = _rest(count - limit, "request", "requests"), await ledger.now()
        if as_json:
            for one in [] if watch else rest:
                # On standard error, because standard output contains only the list.
                say(one.plain, err=True)
            return [{**tables.as_json(one), "next": _next(one, decisions, now)} for one in found]
        if not found:
            return [Text("No pending approvals.")]
        table = _details(found, decisions, now)
        return [table, *rest]

    _shown(ctx, look, watch=watch, as_json=as_json)


@app.command()
def figures(
    ctx: typer.Context,
    *,
    limit: Annotated[
        int, typer.Option(min=1, help="How many of the latest ended approvals to use.")
    ] = 1_000,
    as_json: Json = False,
) -> None:
    """Show decision times by queue, and outcomes."""

    async def work(decisions: Decisions) -> None:
        from signoff.core.approvals.lists.metrics import figures_of  # noqa: PLC0415

        found = figures_of(await decisions.ledger.decided(limit=limit))
        if as_json:
            write_json(found.model_dump(mode="json"))
        elif found.count:
            _print_figures(found, decisions.directory)
        else:
            say("Nothing has ended yet.")

    with_decisions(ctx, work)


def _print_figures(found: Figures, directory: Directory) -> None:
    from signoff.cli.commands.approvals import tables  # noqa: PLC0415 -- the domain
    from signoff.core.approvals.lifecycle import State  # noqa: PLC0415
    from signoff.core.base.durations import coarse  # noqa: PLC0415

    out = Output()
    since = tables.moment(found.since, directory)
    out.print(Text(f"{found.count:,} ended since {since}.", style="bold"))
    took = Table("queue", "decisions", "half took", "nine of ten took")
    for one in found.took:
        tables.add(took, one.name or "none", f"{one.count:,}", coarse(one.p50), coarse(one.p90))
    ends = [state for state in State if state is not State.PENDING]
    came = Table("week", "tool", *(state.value.replace("_", " ") for state in ends))
    for each in found.came:
        counts = (f"{each.outcomes[state]:,}" if state in each.outcomes else "" for state in ends)
        tables.add(came, each.week.isoformat(), each.tool, *counts)
    for table in (took, came):
        if table.rows:
            say()
            out.print(table)


def _named(directory: Directory, name: str) -> str:
    """Return the name of a queue or a person in the lists.

    Raises:
        ConfigError: There is neither a queue nor a person of this name.
    """
    from signoff.broker.backlog import name_of  # noqa: PLC0415 -- redis takes a while to import

    found = name_of(directory, name)
    if not found:
        queues = ", ".join(directory.queues) or "none"
        raise ConfigError(
            f"There is no queue and no person {name!r}. Queues: {queues}. `signoff people list` "
            "shows the people."
        )
    return found


def _table(found: list[PendingMetrics], directory: Directory, now: datetime) -> Table:
    from signoff.cli.commands.approvals import tables  # noqa: PLC0415
    from signoff.core.base.durations import coarse  # noqa: PLC0415
    from signoff.core.routing.quiet_hours import quiet_until, waits_for  # noqa: PLC0415

    quiet = {
        one.id: waits_for(one, until, now)
        for one in directory
        if (until := quiet_until(one, now)) is not None
    }
    made = Table("name", "waiting", "oldest", "due in", "overdue", "waits on", "claimed")
    for one in found:
        claimed = [f"{directory.shown(claim.by)} ({claim.id})" for claim in one.claimed]
        tables.add(
            made,
            one.name,
            str(one.waiting),
            "" if one.oldest is None else coarse(now - one.oldest),
            "" if one.next_due is None else coarse(one.next_due - now),
            str(one.overdue) if one.overdue else "",
            tables.first_names([quiet.get(person) or directory.shown(person) for person in one.on]),
            tables.first_names(claimed),
        )
    return made


def _rest(left: int, one: str, several: str) -> list[Text]:
    """Return a line with the number of rows that a table leaves out; no line if it is complete."""
    more = counted(left, f"more {one}", f"more {several}")
    return [Text(f"… and {more}. --limit shows more of them.")] if left > 0 else []


def _next(one: Approval, decisions: Decisions, now: datetime) -> dict[str, Any] | None:
    """Return what happens next to an approval if nobody answers, as JSON; None for nothing."""
    from signoff.channels.words.next_steps import next_change  # noqa: PLC0415 -- the simulation

    known = decisions.roster.rotations.known
    found = next_change(one, decisions.directory, now=now, rotations=known)
    if found is None:
        return None
    step, text = found
    people = list(dict.fromkeys(seat.person for seat in step.seats))
    return {"at": step.at.isoformat(), "what": step.what.value, "people": people, "text": text}


def _details(found: list[Approval], decisions: Decisions, now: datetime) -> Table:
    from signoff.channels.words.next_steps import next_change  # noqa: PLC0415 -- the simulation
    from signoff.cli.commands.approvals import tables  # noqa: PLC0415
    from signoff.core.base.durations import coarse  # noqa: PLC0415
    from signoff.core.routing.quiet_hours import card_waits_for  # noqa: PLC0415

    directory, rotations = decisions.directory, decisions.roster.rotations.known
    made = Table("id", "asks for", "requester", "waits on", "since", "due in", "claimed by", "next")
    for one in found:
        change = next_change(one, directory, now=now, rotations=rotations)
        claim, question = one.claim_at(now), one.open_question
        waits = {asked.person: card_waits_for(one, asked, directory, now) for asked in one.asked}
        people = [waits.get(person) or directory.shown(person) for person in sorted(one.approvers)]
        if question is not None:
            people = [f"{directory.shown(one.origin.user)} (asked back)", *people]
        tables.add(
            made,
            one.id,
            tables.asked_for(one, directory),
            directory.shown(one.origin.user),
            tables.first_names(people) or tables.nobody(one),
            coarse(now - one.opened_at),
            tables.due_in(one, now),
            ""
            if claim is None
            else f"{directory.shown(claim.by)}, {coarse(claim.until - now)} left",
            f"{tables.moment(change[0].at, directory)}: {change[1]}" if change is not None else "",
        )
    return made


def _shown(
    ctx: typer.Context,
    look: Callable[[Decisions], Awaitable[Any]],
    *,
    watch: bool,
    as_json: bool,
) -> None:
    """Print the result of `look`: once, or repeatedly until Ctrl-C."""

    async def once(decisions: Decisions) -> None:

        found = await look(decisions)
        if as_json:
            write_json(found)
        else:
            for one in found:
                Output().print(one)

    async def again(decisions: Decisions) -> None:
        from rich.console import Group  # noqa: PLC0415 -- slow
        from rich.live import Live  # noqa: PLC0415

        if as_json:
            while True:
                say_json(json.dumps(await look(decisions), ensure_ascii=False, default=str))
                await asyncio.sleep(_EVERY)
        with Live(console=Output().rich(), auto_refresh=False, screen=False) as live:
            while True:
                live.update(Group(*await look(decisions)), refresh=True)
                await asyncio.sleep(_EVERY)

    with_decisions(ctx, again if watch else once)
