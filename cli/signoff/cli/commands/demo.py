"""`signoff demo`: shows one approval from start to end."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer


def demo(
    *,
    agent: Annotated[
        str, typer.Option("--app", help="finance, finance_strict or time_off.")
    ] = "finance",
    message: Annotated[str, typer.Option(help="What the requester says.")] = "",
    reply: Annotated[
        str | None, typer.Option(help="The manager's reply; without it you are prompted.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the demo's folder.")] = False,
    stay: Annotated[
        bool,
        typer.Option("--open", help="Keep it running, with a request on the page, until Ctrl-C."),
    ] = False,
) -> None:
    """Run the demo: an agent pauses, a mail is answered, the agent resumes."""
    from signoff.cli.demo.demo import demo as play  # noqa: PLC0415 -- rich, redis, Celery

    raise typer.Exit(
        asyncio.run(play(app=agent, message=message, reply=reply, keep=keep, stay=stay))
    )
