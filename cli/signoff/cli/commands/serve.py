"""The commands that run processes: `worker`, `channels`, `gateway`, and `up` for all of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from signoff.cli.boundary import REFUSED
from signoff.cli.commands.context import Json, config_of, settings_of, with_decisions, write_json
from signoff.cli.composition.kinds import KINDS
from signoff.cli.start import start
from signoff.cli.terminal import say

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions


def worker(
    ctx: typer.Context,
    *,
    app: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Run only this agent; can be repeated."),
    ] = None,
) -> None:
    """Run agents: start runs, and resume them after their decisions."""
    raise typer.Exit(start("worker", config_of(ctx), app or ()))


def channels(ctx: typer.Context) -> None:
    """Route and deliver requests, read replies, and run the timers."""
    raise typer.Exit(start("channels", config_of(ctx)))


def gateway(ctx: typer.Context) -> None:
    """Receive mail, clicks and API calls, and serve the inbox page and the health checks."""
    raise typer.Exit(start("gateway", config_of(ctx)))


def up(
    ctx: typer.Context,
    *,
    redis_port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="The port of that Redis; 0 takes any free port."),
    ] = 0,
) -> None:
    """Run worker, channels and gateway until Ctrl-C, for development.

    Without [redis] url it also starts a Redis, without [email.smtp] a mailbox that keeps all mail,
    and without [inbox] url it serves the page on this machine. If the default port is in use, it
    chooses another one. Other commands use all of this if they are called in the same folder.
    """
    settings = settings_of(ctx)
    from signoff.cli.composition.development import run_up  # noqa: PLC0415

    asyncio.run(run_up(settings.file, redis_port=redis_port))


def health(
    ctx: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="worker, channels or gateway.", autocompletion=lambda: [*KINDS]
        ),
    ],
    *,
    as_json: Json = False,
) -> None:
    """Check whether a process of this kind is alive on this machine."""
    from signoff.cli.composition.kinds import here  # noqa: PLC0415

    if kind not in KINDS:
        raise typer.BadParameter(f"{kind!r} is not a kind of process: {', '.join(KINDS)}")

    async def work(decisions: Decisions) -> list[str]:
        from signoff.broker.heartbeat import alive  # noqa: PLC0415

        found = (await alive(decisions.ledger)).get(kind, [])
        return sorted(name for name in found if here(name))

    names = with_decisions(ctx, work)
    if as_json:
        write_json({"kind": kind, "alive": names})
    else:
        say(f"{kind}: {', '.join(names) or 'none is alive on this machine'}")
    if not names:
        raise typer.Exit(REFUSED)
