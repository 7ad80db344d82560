"""`signoff freeze` and `signoff thaw`: stop tools, and let them start again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from signoff.cli.commands.context import Json, operator, with_decisions, write_json
from signoff.cli.printing import Output, Table
from signoff.cli.terminal import say

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions
    from signoff.core.base.freezes import Freeze

Tool = Annotated[str, typer.Option(metavar="TOOL", help="Only this tool.")]
App = Annotated[str, typer.Option("--app", metavar="APP", help="Only this app.")]
All = Annotated[bool, typer.Option("--all", help="All tools of all apps.")]


def freeze(
    ctx: typer.Context,
    *,
    tool: Tool = "",
    app: App = "",
    everything: All = False,
    why: Annotated[str, typer.Option(help="Why. Everybody who is asked reads it.")] = "",
    as_json: Json = False,
) -> None:
    """Stop tools at once, also approved ones. Without options, list what is frozen.

    Calls wait for `signoff thaw`. --app and --tool together stop one tool of one app.
    """
    if not (tool or app or everything or why):
        _list(ctx, as_json=as_json)
        return
    _require_scope(tool, app, everything=everything)
    if not why.strip():
        raise typer.BadParameter("say why", param_hint="--why")

    async def work(decisions: Decisions) -> Freeze:
        from signoff.broker.freezes import Freezes  # noqa: PLC0415 -- redis takes a while to import

        freezes = Freezes(decisions.ledger)
        return await freezes.freeze(app=app, tool=tool, by=operator(), why=why)

    made = with_decisions(ctx, work, rings=True)
    if as_json:
        write_json(made.model_dump(mode="json"))
    else:
        say(f"Frozen: {made.stops}. Its calls wait until `signoff thaw`.")


def thaw(
    ctx: typer.Context,
    *,
    tool: Tool = "",
    app: App = "",
    everything: Annotated[bool, typer.Option("--all", help="What --all has frozen.")] = False,
    why: Annotated[str, typer.Option(help="Why, for the audit log.")] = "",
    as_json: Json = False,
) -> None:
    """Let frozen tools start again. Name them as they were frozen."""
    _require_scope(tool, app, everything=everything)

    async def work(decisions: Decisions) -> Freeze:
        from signoff.broker.freezes import Freezes  # noqa: PLC0415

        return await Freezes(decisions.ledger).thaw(app=app, tool=tool, by=operator(), why=why)

    was = with_decisions(ctx, work, rings=True)
    if as_json:
        write_json(was.model_dump(mode="json"))
    else:
        say(f"Thawed: {was.stops}. Waiting calls continue.")


def _require_scope(tool: str, app: str, *, everything: bool) -> None:
    if everything == bool(tool or app):
        raise typer.BadParameter("name what: --tool, --app, both, or --all alone")


def _list(ctx: typer.Context, *, as_json: bool) -> None:
    async def work(decisions: Decisions) -> None:
        from signoff.broker.freezes import Freezes  # noqa: PLC0415
        from signoff.cli.commands.approvals import tables  # noqa: PLC0415

        found = await Freezes(decisions.ledger).all()
        if as_json:
            write_json([one.model_dump(mode="json") for one in found])
        elif not found:
            say("Nothing is frozen.")
        else:
            made = Table("stops", "by", "since", "why")
            for one in found:
                since = tables.moment(one.at, decisions.directory)
                tables.add(made, one.stops, one.by, since, one.why)
            Output().print(made)

    with_decisions(ctx, work)
