"""`signoff audit`: is the record whole, and what is in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from signoff.cli.commands.session import Json, with_decisions, write_json
from signoff.cli.terminal import hand_on, say

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions

_PLACE: Final = re.compile(r"\d{1,18}-\d{1,18}")

app = typer.Typer(no_args_is_help=True, help="The audit log.")


@app.command()
def verify(
    ctx: typer.Context,
    *,
    head: Annotated[
        str, typer.Option(help="A head that was stored earlier, which must be in the chain.")
    ] = "",
    file: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A complete export; needs no Redis."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify the chain from the first entry to the last, and print its head."""

    async def work(decisions: Decisions) -> tuple[int, str]:
        from signoff.broker.ledger import audit  # noqa: PLC0415

        return await audit.verify(decisions.ledger.store, expect_head=head)

    count, last = _verified(file, head) if file is not None else with_decisions(ctx, work)
    if as_json:
        write_json({"entries": count, "head": last})
    else:
        say(f"{count:,} entries, unbroken. Head: {last or 'none yet'}")


@app.command()
def export(
    ctx: typer.Context,
    *,
    subject: Annotated[
        str, typer.Option("--of", metavar="ID", help="Only events of this approval or run.")
    ] = "",
    after: Annotated[
        str, typer.Option(metavar="ID", help="Only entries after the one with this id.")
    ] = "",
) -> None:
    """Print every entry as a line of JSON, the oldest first."""
    if after and not _PLACE.fullmatch(after):
        raise typer.BadParameter("it is the `id` of a line: 1795273200000-0", param_hint="--after")

    async def work(decisions: Decisions) -> None:
        from signoff.broker.ledger import audit  # noqa: PLC0415

        run = await decisions.ledger.run_of(subject) if subject else ""
        async for line in audit.lines(
            decisions.ledger.store, subject=subject, run=run, after=after
        ):
            hand_on(line)

    with_decisions(ctx, work)


def _verified(file: Path, head: str) -> tuple[int, str]:
    from signoff.broker.ledger import audit  # noqa: PLC0415

    # Lines end with line feeds alone: what people wrote may have other ends of lines in it.
    with file.open(encoding="utf-8", newline="\n") as lines:
        return audit.verify_lines(lines, expect_head=head)
