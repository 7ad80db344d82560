"""`signoff webhooks`: shows webhooks, and sends messages again that were given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from signoff.cli.commands.context import Json, settings_of, with_decisions, write_json
from signoff.cli.printing import Output, Table
from signoff.cli.terminal import say
from signoff.core.base.errors import ConfigError

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions

app = typer.Typer(no_args_is_help=True, help="Webhooks: servers that get events.")


@app.command("list")
def list_(ctx: typer.Context, *, as_json: Json = False) -> None:
    """List webhooks, with their pending messages and those that were given up."""
    settings = settings_of(ctx)

    async def work(decisions: Decisions) -> None:
        from signoff.broker import stages  # noqa: PLC0415
        from signoff.channels.webhooks.dead_letters import dead_letters  # noqa: PLC0415
        from signoff.cli.commands.approvals import tables  # noqa: PLC0415 -- the domain

        backlog = await decisions.ledger.backlog()
        rows = []
        for hook in settings.webhooks:
            dead = await dead_letters(decisions.ledger, hook.name)
            waiting = backlog.get(stages.webhook(hook.name), 0)
            last = dead[-1].problem if dead else ""
            rows.append((hook.name, hook.url, waiting, len(dead), last))
        if as_json:
            names = ("name", "url", "waiting", "dead", "problem")
            write_json([dict(zip(names, row, strict=True)) for row in rows])
            return
        made = Table("name", "url", "waiting", "dead", "problem")
        for row in rows:
            tables.add(made, *(str(cell) for cell in row))
        Output().print(made)

    with_decisions(ctx, work)


@app.command()
def replay(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of [[webhooks]].")],
    *,
    as_json: Json = False,
) -> None:
    """Send the messages again that were given up."""
    known = [hook.name for hook in settings_of(ctx).webhooks]
    if name not in known:
        there = ", ".join(known) or "none"
        raise ConfigError(f"There is no webhook {name!r} in [[webhooks]]; there is: {there}.")

    async def work(decisions: Decisions) -> int:
        from signoff.channels.webhooks import dead_letters  # noqa: PLC0415

        return await dead_letters.replay(decisions.ledger, name)

    count = with_decisions(ctx, work, rings=True)
    if as_json:
        write_json({"name": name, "replayed": count})
    else:
        say(f"{count:,} will be sent to {name} again.")
