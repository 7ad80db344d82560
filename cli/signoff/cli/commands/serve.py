"""The commands that are processes: `worker`, `channels`, `gateway`, and `up` for all of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from signoff.cli.boundary import REFUSED
from signoff.cli.commands.session import Json, settings_of, with_decisions, write_json
from signoff.cli.composition.kinds import KINDS
from signoff.cli.terminal import say

if TYPE_CHECKING:
    from signoff.cli.config.settings import Settings


def worker(
    ctx: typer.Context,
    *,
    app: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Run only this agent; can be repeated."),
    ] = None,
) -> None:
    """Run agents: start runs, and resume them after their decisions."""
    settings = _own_settings(ctx, "worker")
    from signoff.cli.processes import run_worker  # noqa: PLC0415 -- Celery, and then ADK

    raise typer.Exit(run_worker(settings, app or ()))


def channels(ctx: typer.Context) -> None:
    """Route and deliver requests, read replies, and run the timers."""
    settings = _own_settings(ctx, "channels")
    from signoff.cli.processes import run_channels  # noqa: PLC0415

    raise typer.Exit(run_channels(settings))


def gateway(ctx: typer.Context) -> None:
    """Receive mail, clicks and API calls, and serve the inbox page and the health checks."""
    settings = _own_settings(ctx, "gateway")
    from signoff.cli.gateway import run_gateway  # noqa: PLC0415

    raise typer.Exit(run_gateway(settings))


def _own_settings(ctx: typer.Context, kind: str) -> Settings:
    """Return the settings of a kind of process, in a process that has nothing else."""
    from signoff.cli.composition.credentials import drop_foreign_secrets  # noqa: PLC0415

    drop_foreign_secrets(kind)
    return settings_of(ctx, kind)


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
    and without [inbox] url it serves the page on this machine. Where a port that is not set is
    taken, it chooses another. The other commands find all of it when they are called in the same
    folder.
    """
    settings = settings_of(ctx)
    from signoff.cli.composition.development import run_up  # noqa: PLC0415

    asyncio.run(run_up(settings.file, redis_port=redis_port))


def health(
    ctx: typer.Context,
    kind: Annotated[
        str, typer.Argument(help="worker, channels or gateway.", autocompletion=lambda: [*KINDS])
    ],
    *,
    as_json: Json = False,
) -> None:
    """Check whether a process of this kind is alive on this machine."""
    from signoff.cli.composition.kinds import here  # noqa: PLC0415

    if kind not in KINDS:
        raise typer.BadParameter(f"{kind!r} is not a kind of process: {', '.join(KINDS)}")

    async def work(decisions: object) -> list[str]:
        from signoff.broker.decisions import Decisions  # noqa: PLC0415
        from signoff.broker.heartbeat import alive  # noqa: PLC0415

        found = (
            (await alive(decisions.ledger)).get(kind, [])
            if isinstance(decisions, Decisions)
            else []
        )
        return sorted(name for name in found if here(name))

    names = with_decisions(ctx, work)
    if as_json:
        write_json({"kind": kind, "alive": names})
    else:
        say(f"{kind}: {', '.join(names) or 'none is alive on this machine'}")
    if not names:
        raise typer.Exit(REFUSED)
