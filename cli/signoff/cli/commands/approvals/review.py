"""`signoff approvals review`: show many low-risk calls in full, and approve them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from signoff.cli.commands.approvals.moves import CHANNEL
from signoff.cli.commands.context import person_of, with_decisions
from signoff.cli.printing import Output, Table, Text
from signoff.cli.terminal import say
from signoff.core.approvals.lists.search_terms import Status
from signoff.core.base.errors import ApprovalError

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions
    from signoff.core.approvals.approval import Approval
    from signoff.core.directory.people import Person

MOST = 50
"""The maximum number of calls that are approved together: people do not read more."""


def review(
    ctx: typer.Context,
    *,
    person: Annotated[
        str,
        typer.Option("--as", metavar="PERSON", help="Who answers: an id or address in [[people]]."),
    ],
    search: Annotated[str, typer.Option(metavar="WORDS", help="As in `approvals list`.")] = "",
    queue: Annotated[str, typer.Option(metavar="NAME", help="Only those of a queue.")] = "",
    tool: Annotated[str, typer.Option(metavar="TOOL", help="Only calls of a tool.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="The most to show.")] = MOST,
) -> None:
    """Show low-risk calls that wait for a person, and approve exactly these together.

    Policies allow this with `batch = true`. Each call is shown in full and decided separately. To
    approve them, type how many there are.
    """

    async def work(decisions: Decisions) -> bool:
        who = person_of(decisions.directory, person)
        able = await _waiting(decisions, who, search=search, queue=queue, tool=tool)
        seen = able[:limit]
        if not seen:
            say("None of your requests can be approved together with others.")
            return False
        _show(decisions, seen)
        if left := len(able) - len(seen):
            say(f"{left:,} more can be approved together after these.")
        these = f"these {len(seen)}" if len(seen) > 1 else "this"
        asked = f"To approve exactly {these}, type {len(seen)}"
        typed = typer.prompt(asked, default="", show_default=False)
        if typed.strip() != str(len(seen)):
            say("Nothing was decided.")
            return True
        return await _approved(decisions, seen, who)

    if with_decisions(ctx, work, rings=True):
        raise typer.Exit(1)


async def _waiting(
    decisions: Decisions, person: Person, *, search: str, queue: str, tool: str
) -> list[Approval]:
    """Return the approvals that a person may approve together now, the oldest first."""
    from signoff.core.approvals.lists.search import Search  # noqa: PLC0415 -- the domain

    wanted = Search(q=search, state=Status.PENDING, queue=queue.removeprefix("queue:"), tool=tool)
    await decisions.roster.refresh()
    now = await decisions.ledger.now()
    found: list[Approval] = []
    for one in await decisions.ledger.inbox(person.id):
        if not one.batchable or not wanted.fits(one, decisions.directory, now):
            continue
        try:
            one.may_decide(person, decisions.directory, now=now)
        except ApprovalError:
            continue
        found.append(one)
    return found


def _show(decisions: Decisions, seen: list[Approval]) -> None:
    from signoff.cli.commands.approvals.tables import moment  # noqa: PLC0415
    from signoff.core.cards.card import card, comments_on  # noqa: PLC0415

    out = Output()
    for number, one in enumerate(seen, start=1):
        shape = card(one, decisions.directory)
        head = f"{number} of {len(seen)}  {shape.title}"
        out.print(Text(head, style="bold"), Text(one.id, style="dim"))
        rows = Table("", "")
        for row in shape.rows:
            rows.add_row(Text(row.name, style="dim"), Text(row.value))
        for warning in shape.warnings:
            rows.add_row(Text("⚠"), Text(warning, style="bold yellow"))
        if shape.hint:
            rows.add_row(Text("hint", style="dim"), Text(shape.hint))
        for said in comments_on(one, decisions.directory):
            who = (
                f"{said.who}{' asks' if said.asks else ''}, {moment(said.at, decisions.directory)}"
            )
            rows.add_row(Text(who, style="dim"), Text(said.text))
        rows.add_row(Text("digest", style="dim"), Text(one.digest))
        out.print(rows)


async def _approved(decisions: Decisions, seen: list[Approval], person: Person) -> bool:
    """Approve the calls one after the other, and return whether one of them was refused."""
    from signoff.broker.decisions import OF_ONE  # noqa: PLC0415 -- redis takes a while to import
    from signoff.core.approvals.moves import Actor, Approve  # noqa: PLC0415

    refused = False
    for one in seen:
        try:
            outcome = await decisions.take(one.id, Approve(together=True), Actor(person, CHANNEL))
            done = outcome.approval_or_raise()
        except OF_ONE as error:
            refused = True
            say(f"{one.id}: not approved. {error}", err=True)
        else:
            say(f"{done.id}: {done.outcome(decisions.directory)}.")
    return refused
