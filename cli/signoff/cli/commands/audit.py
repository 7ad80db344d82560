"""`signoff audit`: verifies and exports the audit log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from signoff.cli.commands.archive import files_of, report, verified
from signoff.cli.commands.context import Json, with_decisions
from signoff.cli.terminal import export_json

if TYPE_CHECKING:
    from signoff.broker.archive.reading import Verified
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
    """Verify the chain from the first entry to the last, and print its head.

    What was archived is verified in the archive, whose files are checked too.
    """
    report(_verified(file, head) if file is not None else verified(ctx, head), as_json=as_json)


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
    """Print every entry as a line of JSON, the oldest first, those in the archive included."""
    if after and not _PLACE.fullmatch(after):
        raise typer.BadParameter("it is the `id` of a line: 1795273200000-0", param_hint="--after")

    async def work(decisions: Decisions) -> None:
        from signoff.broker.archive import reading  # noqa: PLC0415

        async for line in reading.lines(
            decisions.ledger, files_of(ctx), subject=subject, after=after
        ):
            export_json(line)

    with_decisions(ctx, work)


def _verified(file: Path, head: str) -> Verified:
    from signoff.broker.archive.reading import Verified  # noqa: PLC0415
    from signoff.broker.ledger import audit  # noqa: PLC0415

    # Only line feeds end a line: texts of people may contain the other line ends of Unicode.
    with file.open(encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        count, last, erased = audit.verify_lines(lines, expect_head=head)
    return Verified(count, 0, 0, last, erased)
