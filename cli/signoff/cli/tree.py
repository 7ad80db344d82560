"""Builds the tree of commands, as far as a call needs it.

Every help and every completion at the shell imports this module and the commands. So the commands
import what they need only when they are called. Importing all commands and building their options
takes longer than most commands run. So a call builds only its own command; help, completion and
unknown commands build all of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.main import get_command_name

from signoff.broker.server.private import PRIVATE_UMASK
from signoff.cli.boundary import Commands
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
"""The module and name of each command or group, in the order of the help."""


_OPEN: Final = frozenset({"mcp", "policy"})
"""Commands that keep the umask of their caller: `mcp gate` starts the caller's server, and the
reports of `policy test` are for other programs."""


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 -- slow

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
    """Handle the options that all commands have in common."""
    del show_version
    if ctx.invoked_subcommand != "worker":
        import_lean("structlog")
    ctx.obj = config_file


def commands_of(arguments: Sequence[str]) -> tuple[Iterable[str], str]:
    """Return the top-level commands that a call needs, and the command of the group.

    A call that names no command needs all of them, and the second value is "".
    """
    words = arguments[2:] if arguments[:1] == [_CONFIG] else arguments
    if not words or words[0] not in COMMANDS:
        return COMMANDS, ""
    return words[:1], words[1] if len(words) > 1 else ""


def assemble(names: Iterable[str] = COMMANDS, inner: str = "") -> typer.Typer:
    """Return the `signoff` command with some of its commands and groups.

    `inner` is the only command of a group to build, if the group has it; "" builds all.
    """
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
            app.add_typer(_alone(found, inner), name=name)
        else:
            app.command(name)(found)
    return app


def _alone(group: typer.Typer, name: str) -> typer.Typer:
    """Return a group with only this command, or the whole group if it has no such command."""
    own = [
        one
        for one in group.registered_commands
        if name and name == (one.name or get_command_name(getattr(one.callback, "__name__", "")))
    ]
    if not own:
        return group
    alone = copy(group)
    alone.registered_commands, alone.registered_groups = own, []
    return alone


def run() -> None:
    """Run the command that the arguments name, and exit."""
    names, inner = commands_of(sys.argv[1:])
    if not _OPEN.issuperset(names):
        # Only this user may read sessions, artifacts and mails, wherever they are kept.
        os.umask(PRIVATE_UMASK)
    assemble(names, inner)()
