"""`signoff audit`: is the record whole, and what is in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from signoff.cli.commands.session import Json, with_desk, write_json

if TYPE_CHECKING:
    from signoff.broker.desk import Desk

app = typer.Typer(no_args_is_help=True, help="The record of everything that happened.")


@app.command()
def verify(
    ctx: typer.Context,
    *,
    head: Annotated[
        str, typer.Option(help="A head that was noted earlier, which must be in the chain.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Walk the chain from the first entry to the last; note the head that this prints."""

    async def work(desk: Desk) -> tuple[int, str]:
        from signoff.broker import audit  # noqa: PLC0415

        return await audit.verify(desk.ledger.store, expect_head=head)

    count, last = with_desk(ctx, work)
    if as_json:
        write_json({"entries": count, "head": last})
    else:
        typer.echo(f"{count:,} entries, unbroken. Head: {last or 'none yet'}")


@app.command()
def export(ctx: typer.Context) -> None:
    """Write every entry as a line of JSON, the oldest first."""

    async def work(desk: Desk) -> None:
        from signoff.broker import audit  # noqa: PLC0415

        async for entry_id, text, link in audit.entries(desk.ledger.store):
            line = {"id": entry_id, "entry": json.loads(text), "link": link}
            typer.echo(json.dumps(line, ensure_ascii=False))

    with_desk(ctx, work)
