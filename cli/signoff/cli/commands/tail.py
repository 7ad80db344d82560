"""`signoff tail`: prints events as they happen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from signoff.cli.commands.context import Json, with_decisions
from signoff.cli.terminal import say, say_json
from signoff.core.base.errors import SubjectNotFound

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions
    from signoff.broker.ledger.ledger import Ledger
    from signoff.core.approvals.events import Event
    from signoff.core.directory.people import Directory


def tail(
    ctx: typer.Context,
    *,
    subject: Annotated[
        str, typer.Option("--of", metavar="ID", help="Only events of this approval or run.")
    ] = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Start with the first event instead of the next.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, help="Stop after this many; 0 never stops.")] = 0,
    as_json: Json = False,
) -> None:
    """Print events as they happen, one per line, until Ctrl-C."""

    async def work(decisions: Decisions) -> None:
        from signoff.broker.ledger.follow import follow  # noqa: PLC0415

        if subject:
            await _must_exist(decisions.ledger, subject)
        left = limit
        start = "0" if everything else "$"
        async for event in follow(decisions.ledger.store, subject=subject, start=start):
            if as_json:
                say_json(event.model_dump_json())
            else:
                say(_line(event, decisions.directory))
            left -= 1
            if not left:
                return

    with_decisions(ctx, work)


async def _must_exist(ledger: Ledger, subject: str) -> None:
    """Refuse an id without a record, for which no event would ever come.

    Raises:
        SubjectNotFound: No approval and no run has this id.
    """
    for kind in ("approval", "run"):
        if await ledger.raw(f"{kind}:{subject}") is not None:
            return
    raise SubjectNotFound(subject)


def _line(event: Event, directory: Directory) -> str:
    from signoff.cli.commands.approvals.tables import moment  # noqa: PLC0415
    from signoff.core.cards.card import one_line  # noqa: PLC0415

    by = directory.shown(event.by)
    what = event.what.value.replace("_", " ")
    at = moment(event.at, directory)
    parts = [at, event.approval or event.run or "-", what]
    parts += [f"by {one_line(by)}"] if by else []
    parts += [f"({one_line(event.why)})"] if event.why else []
    return "  ".join(parts)
