"""`signoff approvals`: list pending approvals, and answer them from the command line."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from signoff.cli.commands.approvals import moves, review
from signoff.cli.commands.context import Json, person_of, with_decisions, write_json
from signoff.cli.commands.options import ApprovalId, As, Limit
from signoff.cli.printing import Output
from signoff.cli.terminal import say
from signoff.core.approvals.lists.search_terms import Due, Sort, Status
from signoff.core.base.errors import PayloadError, ReasonContradicts, SignoffError

if TYPE_CHECKING:
    from datetime import datetime

    from pydantic import JsonValue

    from signoff.broker.decisions import Decisions
    from signoff.broker.ledger.listing import Place
    from signoff.core.approvals.approval import Approval
    from signoff.core.approvals.lists.search import Search
    from signoff.core.directory.people import Person

app = typer.Typer(no_args_is_help=True, help="Approvals: list, decide, claim, reassign, ask.")

Reason = Annotated[str, typer.Option(help="The reason. The agent gets the reason of a rejection.")]


@app.command("list")
def list_(
    ctx: typer.Context,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Include ended ones.")] = False,
    mine: Annotated[
        str, typer.Option(metavar="PERSON", help="Only those that wait for this person.")
    ] = "",
    search: Annotated[
        str,
        typer.Option(
            metavar="WORDS",
            help="Only those with all these words in id, tool, app, requester, hint or arguments.",
        ),
    ] = "",
    state: Annotated[
        Status | None,
        typer.Option(
            help="Only those in this state; `free`, `claimed` and `question` are pending."
        ),
    ] = None,
    queue: Annotated[str, typer.Option(metavar="NAME", help="Only those of this queue.")] = "",
    tool: Annotated[str, typer.Option(metavar="TOOL", help="Only calls of this tool.")] = "",
    agent: Annotated[
        str, typer.Option("--app", metavar="APP", help="Only those of this app.")
    ] = "",
    person: Annotated[
        str,
        typer.Option(
            metavar="PERSON",
            help="Only those that this person requested, is asked about or has decided.",
        ),
    ] = "",
    due: Annotated[
        Due | None,
        typer.Option(help="Only those whose level is overdue or ends within this time."),
    ] = None,
    sort: Annotated[
        Sort | None,
        typer.Option(help="The order; `due` is only for pending ones, by their next timer."),
    ] = None,
    limit: Limit = 100,
    after: Annotated[
        str,
        typer.Option(metavar="PLACE", help="Continue after the place that the last page named."),
    ] = "",
    as_json: Json = False,
) -> None:
    """List pending approvals, the next due first; with --all or --state the newest first."""
    if everything and mine:
        raise typer.BadParameter("--all and --mine exclude each other")
    usual = Sort.NEWEST if everything or state is not None else Sort.OLDEST if mine else Sort.DUE
    order, start = sort or usual, _place(after)

    async def work(decisions: Decisions) -> None:
        from signoff.core.approvals.lists.search import Search  # noqa: PLC0415 -- the domain

        wanted = Search(
            q=search,
            state=state if everything or state is not None else Status.PENDING,
            queue=queue.removeprefix("queue:"),
            tool=tool,
            app=agent,
            person=person,
            due=due,
        )
        await _list(
            decisions, wanted, mine=mine, order=order, start=start, limit=limit, as_json=as_json
        )

    with_decisions(ctx, work)


async def _list(
    decisions: Decisions,
    wanted: Search,
    *,
    mine: str,
    order: Sort,
    start: Place | None,
    limit: int,
    as_json: bool,
) -> None:
    """Write one page of a list, and the cursor of the next page.

    With `mine`, it lists only approvals that wait for this person.
    """
    from signoff.broker.ledger import listing  # noqa: PLC0415 -- redis takes a while to import
    from signoff.broker.ledger.search_index import SearchIndex  # noqa: PLC0415
    from signoff.core.approvals.lists.search import Search  # noqa: PLC0415

    # The approvers that a request waits for depend on absences and rotations.
    await decisions.roster.refresh()
    ledger, directory = decisions.ledger, decisions.directory
    now = await ledger.now()
    of = person_of(directory, mine).id if mine else ""
    own = f"inbox:{of}" if of else listing.APPROVALS
    index, rising = listing.ordered(own, order)
    pending = own if of else "waiting"
    (count,) = await ledger.store.sizes([pending])
    may_be = wanted.filter_of_records(directory)
    among = await SearchIndex(ledger).candidates(wanted.words(directory))
    listed: listing.List[Approval] = partial(
        listing.approvals, ledger, index=index, rising=rising, may_be=may_be, among=among
    )
    if order is Sort.DUE and count <= listing.SCANNED:
        listed = await listing.by_deadline(ledger, pending, may_be=may_be, among=among)

    def keep(one: Approval) -> bool:
        return (not of or of in one.approvers) and wanted.fits(one, directory, now)

    part = partial(listing.part, listed, keep, most=sys.maxsize)
    found = await part(before=start, limit=limit)
    without_filters = wanted == Search(state=Status.PENDING)
    if as_json or found.found:
        _write_list(decisions, found.found, now, as_json=as_json)
    else:
        say("No pending approvals." if without_filters else "No approvals match.")
    then = found.then
    if then is None or not (await part(before=then, limit=1)).found:
        return
    plain = wanted == Search(state=Status.PENDING) and (order is Sort.DUE or bool(of))
    of_all = f" of {count:,}" if plain else ""
    # On standard error, because with --json standard output contains only the list.
    say(
        f"{len(found.found):,}{of_all} shown. For the next ones, run the same command with "
        f"--after {then.cursor}",
        err=True,
    )


@app.command()
def show(ctx: typer.Context, approval_id: ApprovalId, *, as_json: Json = False) -> None:
    """Show an approval: the card, the approvers, the next steps if nobody answers, the timeline."""

    async def work(decisions: Decisions) -> None:
        from signoff.cli.commands.approvals import tables  # noqa: PLC0415 -- the domain

        approval = await decisions.ledger.approval(approval_id)
        events = await decisions.ledger.history(approval_id)
        if as_json:
            write_json(tables.as_json(approval, events))
        else:
            await decisions.roster.refresh()
            now = await decisions.ledger.now()
            people = decisions.roster.directory
            rotations = decisions.roster.rotations.known
            tables.print_approval(Output(), approval, people, events, now, rotations=rotations)

    with_decisions(ctx, work)


@app.command()
def approve(
    ctx: typer.Context,
    approval_ids: Annotated[list[str], typer.Argument(metavar="ID", help="One or more ids.")],
    *,
    person: As,
    reason: Reason = "",
    value: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A value for the tool; can be repeated."),
    ] = None,
    as_it_is: Annotated[
        bool,
        typer.Option(
            "--as-it-is",
            help="Approve even if the reason reads like a no, a question, a condition or a limit.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Approve as an approver.

    Several approvals are decided separately; one refusal does not block the rest.
    """
    entries, ids = _entries(value or ()), list(dict.fromkeys(approval_ids))
    said = _Said(reason, as_it_is=as_it_is)
    if entries and len(ids) > 1:
        raise typer.BadParameter("--value is for one approval: give its id alone")

    async def work(decisions: Decisions) -> list[SignoffError]:
        who = person_of(decisions.directory, person)
        if len(ids) == 1:
            done = await _approved(decisions, ids[0], who, said, entries)
            _write_outcome(decisions, done, as_json=as_json)
            return []
        return await _approved_each(decisions, ids, who, said, as_json=as_json)

    if with_decisions(ctx, work, rings=True):
        raise typer.Exit(1)


class _Said(NamedTuple):
    """What a person says with an approval; see `moves.Approve`."""

    reason: str
    as_it_is: bool


async def _approved(
    decisions: Decisions, approval_id: str, who: Person, said: _Said, entries: Mapping[str, str]
) -> Approval:
    from signoff.core.approvals.moves import Actor, Approve  # noqa: PLC0415 -- the domain
    from signoff.core.payloads.payload import parse_values  # noqa: PLC0415

    actor = Actor(who, moves.CHANNEL)
    values: dict[str, JsonValue] | None = None
    try:
        if entries:
            template = (await decisions.ledger.approval(approval_id)).template
            try:
                values = parse_values(template, entries)
            except PayloadError as error:
                await decisions.refuse(approval_id, error, actor, wanted=Approve.name)
                raise
        move = Approve(values=values, reason=said.reason, as_it_is=said.as_it_is)
        return (await decisions.take(approval_id, move, actor)).approval_or_raise()
    except ReasonContradicts as error:
        error.args = (f"{error} To approve it as it is, add --as-it-is.",)
        raise
    except PayloadError as error:
        raise _with_example(error) from error


async def _approved_each(
    decisions: Decisions, ids: Sequence[str], who: Person, said: _Said, *, as_json: bool
) -> list[SignoffError]:
    """Approve one after the other, print each outcome, and return the refusals."""
    from signoff.broker.decisions import OF_ONE  # noqa: PLC0415 -- redis takes a while to import
    from signoff.cli.commands.approvals import tables  # noqa: PLC0415

    refused, written = list[SignoffError](), list[dict[str, Any]]()
    for approval_id in ids:
        try:
            done = await _approved(decisions, approval_id, who, said, {})
        except OF_ONE as error:
            refused.append(error)
            written.append({"id": approval_id, "error": str(error)})
            if not as_json:
                say(f"{approval_id}: not approved. {error}", err=True)
            continue
        written.append(tables.as_json(done))
        if not as_json:
            _write_outcome(decisions, done, as_json=False)
    if as_json:
        write_json(written)
    return refused


@app.command()
def reject(
    ctx: typer.Context,
    approval_id: ApprovalId,
    *,
    person: As,
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Reject as an approver."""

    async def work(decisions: Decisions) -> None:
        from signoff.core.approvals.moves import Reject  # noqa: PLC0415 -- the domain

        actor = moves.actor_of(decisions.directory, person)
        outcome = await decisions.take(approval_id, Reject(reason=reason), actor)
        _write_outcome(decisions, outcome.approval_or_raise(), as_json=as_json)

    with_decisions(ctx, work, rings=True)


@app.command()
def withdraw(
    ctx: typer.Context,
    approval_id: ApprovalId,
    *,
    reason: Annotated[str, typer.Option(help="The reason.")],
    person: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="PERSON",
            help="The requester or an operator. Without it you act as the operator.",
        ),
    ] = "",
    by: Annotated[str, typer.Option(help="Who withdraws it, for the audit log.")] = "",
    as_json: Json = False,
) -> None:
    """Withdraw a request. The agent is told that the call was not approved."""
    if person and by:
        raise typer.BadParameter("--as and --by exclude each other")

    async def work(decisions: Decisions) -> None:
        from signoff.core.approvals.moves import Withdraw  # noqa: PLC0415 -- the domain

        seen, move = await decisions.ledger.approval(approval_id), Withdraw(reason=reason)
        actor = moves.mover_of(move, seen, decisions.directory, person, by=by)
        outcome = await decisions.take(approval_id, move, actor)
        _write_outcome(decisions, outcome.approval_or_raise(), as_json=as_json)

    with_decisions(ctx, work, rings=True)


moves.register(app)
app.command()(review.review)


def _place(cursor: str) -> Place | None:
    from signoff.broker.ledger.listing import Place as Known  # noqa: PLC0415

    if not cursor:
        return None
    try:
        return Known.of(cursor)
    except ValueError as error:
        text = f"{cursor!r} is not a valid place; copy it from the end of the last page"
        raise typer.BadParameter(text, param_hint="--after") from error


def _entries(values: Sequence[str]) -> dict[str, str]:
    entries: dict[str, str] = {}
    for one in values:
        key, equals, text = one.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"--value takes KEY=VALUE, not {one!r}")
        if key.strip() in entries:
            raise typer.BadParameter(f"--value {key.strip()} is given twice")
        entries[key.strip()] = text
    return entries


def _with_example(error: PayloadError) -> PayloadError:
    """Add how to give the value on the command line; the error's own example is for mails."""
    key, colon, text = error.example.partition(": ")
    hint = f" Here: --value {shlex.quote(f'{key}={text}')}" if colon else ""
    return PayloadError(f"{error}{hint}", key=error.key, read=error.read, example=error.example)


def _write_list(
    decisions: Decisions, found: Sequence[Approval], now: datetime, *, as_json: bool
) -> None:
    from signoff.cli.commands.approvals import tables  # noqa: PLC0415

    if as_json:
        write_json([tables.as_json(one) for one in found])
    else:
        rotations = decisions.roster.rotations.known
        Output().print(tables.approvals_table(found, decisions.directory, now, rotations=rotations))


def _write_outcome(decisions: Decisions, done: Approval, *, as_json: bool) -> None:
    from signoff.channels.words import phrases  # noqa: PLC0415
    from signoff.cli.commands.approvals import tables  # noqa: PLC0415
    from signoff.core.cards.card import progress  # noqa: PLC0415

    if as_json:
        write_json(tables.as_json(done))
    else:
        # The answer was recorded, even if it did not end the request.
        so_far = progress(done, decisions.directory)
        outcome = f"recorded; {so_far}" if so_far else done.outcome(decisions.directory)
        proposes = done.decision is not None and done.decision.proposal is not None
        more = f" {phrases.follows(done, '', decisions.directory)}" if proposes else ""
        say(f"{done.id}: {outcome}.{more}")
