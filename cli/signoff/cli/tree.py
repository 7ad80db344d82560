"""The tree of commands, as much of it as is needed.

What is imported here and by the commands is paid for by every help and every completion at the
shell, so they import what they need when they are called. To import all commands and to build their
options takes longer than most of them run, so a call gets its own command alone; help, completion
and what is no command get all of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from signoff.broker.server.private import PRIVATE_UMASK
from signoff.cli.boundary import Commands
from signoff.cli.commands.session import Session
from signoff.cli.lean import import_lean
from signoff.cli.terminal import say

_CONFIG: Final = "--config"
_IN: Final = "signoff.cli.commands."

COMMANDS: Final = {
    "demo": "demo:demo",
    "init": "init:init",
    "run": "runs:run",
    "runs": "runs:app",
    "approvals": "approvals.approvals:app",
    "queue": "people.queue:app",
    "grants": "approvals.grants:app",
    "people": "people.people:app",
    "inbox": "people.inbox:app",
    "tokens": "people.tokens:app",
    "aap": "aap:app",
    "mcp": "mcp:app",
    "webhooks": "webhooks:app",
    "api": "api:app",
    "audit": "audit:app",
    "archive": "archive:app",
    "ledger": "ledger:app",
    "sessions": "sessions:app",
    "config": "config:app",
    "redis": "redis:app",
    "policy": "policy:app",
    "receipt": "receipt:app",
    "freeze": "freeze:freeze",
    "thaw": "freeze:thaw",
    "doctor": "doctor:doctor",
    "up": "serve:up",
    "worker": "serve:worker",
    "channels": "serve:channels",
    "gateway": "serve:gateway",
    "health": "serve:health",
    "mail": "mail.mail:app",
    "slack": "slack:app",
    "card": "approvals.card:card",
    "tail": "tail:tail",
    "top": "top:top",
    "mailbox": "mail.mailbox:app",
}
"""Where each command or group of commands is, in the order of the help."""


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 -- as all that is slow

        say(f"signoff {version('signoff')}")
        raise typer.Exit


def root(
    ctx: typer.Context,
    *,
    config_file: Annotated[
        Path | None,
        typer.Option(
            _CONFIG, metavar="FILE", help="The settings file. The default is ./signoff.toml."
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
    if ctx.invoked_subcommand != "worker":
        import_lean("structlog")
    ctx.obj = Session(config_file)


def commands_of(arguments: Sequence[str]) -> Iterable[str]:
    """Return the commands that a call needs: its own one, or all where it names none."""
    words = arguments[2:] if arguments[:1] == [_CONFIG] else arguments
    return words[:1] if words and words[0] in COMMANDS else COMMANDS


def assemble(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the `signoff` command with some of its commands."""
    app = typer.Typer(
        name="signoff",
        cls=Commands,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Pause an AI agent's tool call until the right person approves it.",
    )
    app.callback()(root)
    for name in names:
        module, _, attribute = COMMANDS[name].partition(":")
        found: Any = getattr(import_module(_IN + module), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def run() -> None:
    """Run the command that the arguments name, and exit."""
    # Sessions, artifacts and mails hold what only this user may read, wherever they are kept.
    os.umask(PRIVATE_UMASK)
    assemble(commands_of(sys.argv[1:]))()
