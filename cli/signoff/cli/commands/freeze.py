"""`signoff freeze` and `signoff thaw`: stop tools, and let them start again."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Final

import typer

from signoff.cli.commands.context import Json, operator, settings_of, with_decisions, write_json
from signoff.cli.printing import Output, Table
from signoff.cli.terminal import say

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions
    from signoff.cli.config.settings import Settings
    from signoff.core.base.freezes import Freeze

_ALIKE: Final = 0.8
_LOOKED_AT: Final = 200
"""The recent approvals whose tools and apps are known."""

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

    settings = settings_of(ctx)

    async def work(decisions: Decisions) -> None:
        from signoff.broker.freezes import Freezes  # noqa: PLC0415 -- redis takes a while to import

        freezes = Freezes(decisions.ledger)
        made = await freezes.freeze(app=app, tool=tool, by=operator(), why=why)
        if as_json:
            write_json(made.model_dump(mode="json"))
        else:
            say(f"Frozen: {made.stops}. Its calls wait until `signoff thaw`.")
        for hint in await _misspelt(decisions, settings, made):
            say(hint, err=True)

    with_decisions(ctx, work, rings=True)


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


async def _misspelt(decisions: Decisions, settings: Settings, made: Freeze) -> list[str]:
    """Return a hint for each name that nothing here has, but a similar one."""
    from signoff.broker.ledger import listing  # noqa: PLC0415
    from signoff.cli.config.faults import suggest  # noqa: PLC0415
    from signoff.core.policies.comparisons import alternatives  # noqa: PLC0415
    from signoff.worker.agent_folders import app_names  # noqa: PLC0415

    found = await listing.approvals(decisions.ledger, limit=_LOOKED_AT)
    recent = [one for _, one in found if one is not None]
    ways = [way for policy in settings.policies for way in alternatives(policy.when)]
    folder = settings.agents_folder
    apps = {*(app_names(folder) if folder.is_dir() else ()), *settings.agents.remote}
    hints = []
    for what, name, known in (
        (
            "tool",
            made.tool,
            {tool for way in ways for tool in way.texts("tool")}
            | {one.call.name for one in recent},
        ),
        ("app", made.app, apps | {one.origin.app for one in recent}),
    ):
        if name and name not in known and get_close_matches(name, known, n=1, cutoff=_ALIKE):
            hints.append(
                f"Is the name right? No {what} {name!r} is known here. {suggest(name, known)}"
            )
    return hints


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
