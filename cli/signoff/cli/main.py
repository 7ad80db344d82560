"""The `signoff` command.

What is imported here is paid for by every `--help` and every completion at the shell, so the
commands import what they need when they are called.
"""

from __future__ import annotations

import asyncio
import os
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from signoff.broker.server.private import PRIVATE_UMASK
from signoff.cli.boundary import Commands
from signoff.cli.commands import (
    api,
    archive,
    audit,
    config,
    doctor,
    freeze,
    init,
    ledger,
    policy,
    receipt,
    redis,
    runs,
    serve,
    sessions,
    slack,
    tail,
    top,
    webhooks,
)
from signoff.cli.commands.approvals import approvals, card, grants
from signoff.cli.commands.mail import mail, mailbox
from signoff.cli.commands.people import inbox, people, queue, tokens
from signoff.cli.commands.session import Session
from signoff.cli.terminal import say

app = typer.Typer(
    name="signoff",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Pause an AI agent's tool call until the right person approves it.",
)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"signoff {version('signoff')}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    *,
    config_file: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="The settings file. The default is ./signoff.toml."
        ),
    ] = None,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Take what all commands have in common."""
    del show_version
    ctx.obj = Session(config_file)


@app.command()
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


app.command()(init.init)
app.command()(runs.run)
app.add_typer(runs.app, name="runs")
app.add_typer(approvals.app, name="approvals")
app.add_typer(queue.app, name="queue")
app.add_typer(grants.app, name="grants")
app.add_typer(people.app, name="people")
app.add_typer(inbox.app, name="inbox")
app.add_typer(tokens.app, name="tokens")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(api.app, name="api")
app.add_typer(audit.app, name="audit")
app.add_typer(archive.app, name="archive")
app.add_typer(ledger.app, name="ledger")
app.add_typer(sessions.app, name="sessions")
app.add_typer(config.app, name="config")
app.add_typer(redis.app, name="redis")
app.add_typer(policy.app, name="policy")
app.add_typer(receipt.app, name="receipt")
app.command()(freeze.freeze)
app.command()(freeze.thaw)
app.command()(doctor.doctor)
app.command()(serve.up)
app.command()(serve.worker)
app.command()(serve.channels)
app.command()(serve.gateway)
app.command()(serve.health)
app.add_typer(mail.app, name="mail")
app.add_typer(slack.app, name="slack")
app.command()(card.card)
app.command()(tail.tail)
app.command()(top.top)
app.add_typer(mailbox.app, name="mailbox")


def main() -> None:
    """Run the command that the arguments name, and exit."""
    # Sessions, artifacts and mails hold what only this user may read, wherever they are kept.
    os.umask(PRIVATE_UMASK)
    app()
