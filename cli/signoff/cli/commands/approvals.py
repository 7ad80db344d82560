"""`signoff approvals`: what waits, and answering it from the command line."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from signoff.cli.commands import moves, review
from signoff.cli.commands.session import Json, person_of, with_desk, write_json
from signoff.cli.terminal import say
from signoff.core.approvals.search_terms import Due, Sort, Standing
from signoff.core.base.errors import ApprovalError, PayloadError, SignoffError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from signoff.broker.decisions import Desk
    from signoff.broker.ledger.listing import Place
    from signoff.core.approvals.approval import Approval
    from signoff.core.directory.people import Person

app = typer.Typer(no_args_is_help=True, help="What waits for a person, and the answers.")

ApprovalId = Annotated[str, typer.Argument(metavar="ID", help="The id: ap_ and 16 letters.")]
As = Annotated[
    str, typer.Option("--as", metavar="PERSON", help="Who answers: an id or address in [[people]].")
]
Reason = Annotated[str, typer.Option(help="Why; the agent reads the reason of a rejection.")]


@app.command("list")
def list_(
    ctx: typer.Context,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Those that have ended, too.")] = False,
    mine: Annotated[
        str, typer.Option(metavar="PERSON", help="Only what waits for one person.")
    ] = "",
    search: Annotated[
        str,
        typer.Option(
            metavar="WORDS",
            help="Only those that have all of these words, in the id, the tool, the app, the "
            "requester, the hint or the arguments.",
        ),
    ] = "",
    state: Annotated[
        Standing | None,
        typer.Option(help="Only those that stand so; `free`, `claimed` and `question` wait."),
    ] = None,
    queue: Annotated[str, typer.Option(metavar="NAME", help="Only those of a queue.")] = "",
    tool: Annotated[str, typer.Option(metavar="TOOL", help="Only calls of a tool.")] = "",
    agent: Annotated[str, typer.Option("--app", metavar="APP", help="Only those of an app.")] = "",
    person: Annotated[
        str,
        typer.Option(
            metavar="PERSON", help="Only what somebody asks for, is asked about, or has decided."
        ),
    ] = "",
    due: Annotated[
        Due | None, typer.Option(help="Only those whose level has ended, or does so soon.")
    ] = None,
    sort: Annotated[
        Sort | None, typer.Option(help="What comes first; `due` is only of those that wait.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The most to show.")] = 100,
    after: Annotated[
        str, typer.Option(metavar="PLACE", help="Go on behind a place that the last page named.")
    ] = "",
    as_json: Json = False,
) -> None:
    """List the approvals that wait, the next due first; with --all or --state the newest first."""
    if everything and mine:
        raise typer.BadParameter("--all and --mine exclude each other")
    usual = Sort.NEWEST if everything or state is not None else Sort.OLDEST if mine else Sort.DUE
    order, start = sort or usual, _place(after)

    async def work(desk: Desk) -> None:
        from signoff.broker.ledger import listing  # noqa: PLC0415 -- redis takes a while to import
        from signoff.core.approvals.search import Search  # noqa: PLC0415

        wanted = Search(
            q=search,
            state=state if everything or state is not None else Standing.PENDING,
            queue=queue.removeprefix("queue:"),
            tool=tool,
            app=agent,
            person=person,
            due=due,
        )
        # Who is away by now, and whose turn it is, says on whom it waits.
        await desk.look()
        ledger, directory = desk.ledger, desk.directory
        now = await ledger.now()
        of = person_of(directory, mine).id if mine else ""
        index, rising = listing.ordered(f"inbox:{of}" if of else listing.APPROVALS, order)

        async def listed(
            before: listing.Place | None, most: int
        ) -> list[tuple[listing.Place, Approval | None]]:
            return await listing.approvals(
                ledger, index=index, before=before, limit=most, rising=rising
            )

        def keep(one: Approval) -> bool:
            return (not of or of in one.approvers) and wanted.fits(one, directory, now)

        async def more(then: Place) -> bool:
            rest = await listing.part(listed, keep, before=then, limit=1, most=sys.maxsize)
            return bool(rest.found)

        found = await listing.part(listed, keep, before=start, limit=limit, most=sys.maxsize)
        _write_list(desk, found.found, now if found.found else None, as_json=as_json)
        then = found.then
        if then is not None and await more(then):
            ((count, _),) = await ledger.store.extents([index])
            plain = wanted == Search(state=wanted.state) and index in {"waiting", f"inbox:{of}"}
            of_all = f" of {count:,}" if plain else ""
            # A list for a machine stays a list.
            say(
                f"{len(found.found):,}{of_all} are shown. The next ones: the same with "
                f"--after {then.cursor}",
                err=True,
            )

    with_desk(ctx, work)


@app.command()
def show(ctx: typer.Context, approval_id: ApprovalId, *, as_json: Json = False) -> None:
    """Show one approval: the card, who is asked, and what happened when."""

    async def work(desk: Desk) -> None:
        from signoff.cli.commands import show as shows  # noqa: PLC0415 -- rich and the domain

        approval = await desk.ledger.approval(approval_id)
        events = await desk.ledger.history(approval_id)
        if as_json:
            write_json(shows.as_json(approval, events))
        else:
            shows.print_approval(shows.console(), approval, desk.directory, events)

    with_desk(ctx, work)


@app.command()
def approve(
    ctx: typer.Context,
    approval_ids: Annotated[
        list[str], typer.Argument(metavar="ID...", help="The id, or several of them.")
    ],
    *,
    person: As,
    reason: Reason = "",
    value: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A value for the tool; may be given several times."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Approve, as somebody who is asked.

    Of several each is decided by itself: one that is refused keeps none of the others.
    """
    entries, ids = _entries(value or ()), list(dict.fromkeys(approval_ids))
    if entries and len(ids) > 1:
        raise typer.BadParameter("--value is for one approval: give its id alone")

    async def work(desk: Desk) -> list[SignoffError]:
        who = person_of(desk.directory, person)
        if len(ids) == 1:
            done = await _approved(desk, ids[0], who, reason, entries)
            _write_outcome(desk, done, as_json=as_json)
            return []
        return await _approved_each(desk, ids, who, reason, as_json=as_json)

    if with_desk(ctx, work, rings=True):
        raise typer.Exit(1)


async def _approved(
    desk: Desk, approval_id: str, who: Person, reason: str, entries: Mapping[str, str]
) -> Approval:
    from signoff.core.payloads.payload import parse_values  # noqa: PLC0415

    values: dict[str, JsonValue] | None = None
    try:
        if entries:
            template = (await desk.ledger.approval(approval_id)).template
            values = parse_values(template, entries)
        return await desk.approve(approval_id, who, channel="cli", reason=reason, values=values)
    except PayloadError as error:
        raise _with_example(error) from error


async def _approved_each(
    desk: Desk, ids: Sequence[str], who: Person, reason: str, *, as_json: bool
) -> list[SignoffError]:
    """Approve one after the other, say what became of each, and return what was refused."""
    from signoff.cli.commands import show as shows  # noqa: PLC0415

    refused, written = list[SignoffError](), list[dict[str, Any]]()
    for approval_id in ids:
        try:
            done = await _approved(desk, approval_id, who, reason, {})
        except ApprovalError as error:
            refused.append(error)
            written.append({"id": approval_id, "error": str(error)})
            if not as_json:
                say(f"{approval_id}: not approved. {error}", err=True)
            continue
        written.append(shows.as_json(done))
        if not as_json:
            _write_outcome(desk, done, as_json=False)
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
    """Reject, as somebody who is asked."""

    async def work(desk: Desk) -> None:
        who = person_of(desk.directory, person)
        done = await desk.reject(approval_id, who, channel="cli", reason=reason)
        _write_outcome(desk, done, as_json=as_json)

    with_desk(ctx, work, rings=True)


@app.command()
def withdraw(
    ctx: typer.Context,
    approval_id: ApprovalId,
    *,
    reason: Annotated[str, typer.Option(help="Why the question is taken back.")],
    person: Annotated[
        str,
        typer.Option("--as", metavar="PERSON", help="The requester; without it you take it back."),
    ] = "",
    by: Annotated[str, typer.Option(help="Who takes it back, for the audit.")] = "",
    as_json: Json = False,
) -> None:
    """Take a question back; the agent is told that the call was not approved."""
    if person and by:
        raise typer.BadParameter("--as and --by exclude each other")

    async def work(desk: Desk) -> None:
        who = person_of(desk.directory, person) if person else None
        name = who.id if who is not None else by or moves.operator()
        done = await desk.withdraw(approval_id, by=name, reason=reason, requester=who)
        _write_outcome(desk, done, as_json=as_json)

    with_desk(ctx, work, rings=True)


moves.register(app)
app.command()(review.review)


def _place(cursor: str) -> Place | None:
    from signoff.broker.ledger.listing import Place as Known  # noqa: PLC0415

    if not cursor:
        return None
    try:
        return Known.of(cursor)
    except ValueError as error:
        text = f"{cursor!r} is no place; take what stands below the last page"
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
    """Add how the value is given here; the example is in the words of a mail."""
    key, colon, text = error.example.partition(": ")
    hint = f" Here: --value {shlex.quote(f'{key}={text}')}" if colon else ""
    return PayloadError(f"{error}{hint}", key=error.key, read=error.read, example=error.example)


def _write_list(desk: Desk, found: Sequence[Approval], now: object, *, as_json: bool) -> None:
    from datetime import datetime  # noqa: PLC0415

    from signoff.cli.commands import show as shows  # noqa: PLC0415

    if as_json:
        write_json([shows.as_json(one) for one in found])
    elif isinstance(now, datetime):
        turns = desk.turns.known
        shows.console().print(shows.approvals_table(found, desk.directory, now, turns=turns))
    else:
        say("Nothing waits.")


def _write_outcome(desk: Desk, done: Approval, *, as_json: bool) -> None:
    from signoff.cli.commands import show as shows  # noqa: PLC0415
    from signoff.core.cards.card import progress  # noqa: PLC0415

    if as_json:
        write_json(shows.as_json(done))
    else:
        # An answer that has not ended it was recorded all the same.
        so_far = progress(done, desk.directory)
        said = f"recorded; {so_far}" if so_far else done.outcome(desk.directory)
        say(f"{done.id}: {said}.")
