"""The border between commands and the terminal: what errors look like, and what they exit with."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Final

import typer
from typer.core import TyperGroup

from signoff.cli.command_help import GROUPS, complete, group_of
from signoff.cli.terminal import make_console, say_json
from signoff.core.base.errors import ConfigError, SignoffError

REFUSED = 1
"""The exit code of what was understood and could not be done."""
USAGE = 2
"""The exit code of a wrong command line or of faulty settings."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""

DEBUG = "SIGNOFF_DEBUG"

_EXTRAS: Final = {
    "google": ("adk", "google-adk"),
    "sqlalchemy": ("adk", "google-adk"),
    "pydantic_monty": ("ces", "pydantic-monty"),
    "asyncpg": ("postgres", "asyncpg"),
    "langchain": ("langgraph", "langchain"),
    "langgraph": ("langgraph", "langgraph"),
    "agents": ("openai-agents", "openai-agents"),
    "pydantic_ai": ("pydantic-ai", "pydantic-ai-slim"),
    "http_ece": ("push", "http-ece"),
    "opentelemetry": ("otel", "OpenTelemetry"),
}
"""Which extra brings a package, and the name of the distribution that has it."""


class Commands(TyperGroup):
    """A group of commands whose errors are lines on standard error, never tracebacks.

    Its help is grouped by what people do, and each command has examples.
    """

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 -- as typer has it
        """Return the names, in the order of the help."""
        names = super().list_commands(ctx)
        order = [name for group in GROUPS.values() for name in group]
        return sorted(names, key=lambda one: order.index(one) if one in order else len(order))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 -- as typer has it
        """Return a command with its examples."""
        command = super().get_command(ctx, cmd_name)
        if command is None:
            return None
        setattr(command, "rich_help_panel", group_of(cmd_name))  # noqa: B010 -- not in its type
        return complete(command, [cmd_name])

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 -- as typer has it
        """Return the options, flags without a type."""
        params: list[Any] = super().get_params(ctx)
        for one in params:
            if getattr(one, "is_flag", False):
                one.display_type_rich = lambda **_: None
        return params

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 -- as typer has it
        """Run the command and turn what it raises into a message and an exit code."""
        as_json = _wants_json(ctx)
        try:
            return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            if _is_typers(error):
                told = getattr(error, "format_message", None)
                if not as_json or told is None:
                    raise
                report(type(error).__name__, told(), as_json=True)
                raise typer.Exit(USAGE) from error
            raise typer.Exit(exit_code(error, as_json=as_json)) from error


def exit_code(error: BaseException, *, as_json: bool = False) -> int:
    """Report what a command has raised, and return what it exits with.

    Args:
        error: What it has raised.
        as_json: Whether JSON was asked for.
    """
    if isinstance(error, SignoffError):
        report(type(error).__name__, str(error), as_json=as_json)
        return USAGE if isinstance(error, ConfigError) else REFUSED
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The reader of our output has closed it: all is well, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if os.environ.get(DEBUG):
        raise error
    remedy = missing(error) if isinstance(error, ModuleNotFoundError) else None
    fault = (
        f"{type(error).__name__}: {error}. This is a fault in Signoff; {DEBUG}=1 shows where it "
        "happened."
    )
    report(type(error).__name__, remedy or fault, as_json=as_json)
    return REFUSED


def missing(error: ModuleNotFoundError) -> str | None:
    """Return which extra of the package has a module that is not there, None for any other."""
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        return None
    extra, brings = _EXTRAS[package]
    return f"{brings} is not installed, and this needs it: pip install 'signoff[{extra}]'"


def report(kind: str, message: str, *, as_json: bool) -> None:
    """Write an error: for people to standard error, as JSON to where the answer would have been.

    Args:
        kind: The name of its class.
        message: What it says.
        as_json: Whether JSON was asked for.
    """
    if as_json:
        error = {"error": {"type": kind, "message": message}}
        say_json(json.dumps(error, ensure_ascii=False, indent=2))
    else:
        complain(message)


def complain(message: str) -> None:
    """Write a message to standard error."""
    from rich.text import Text  # noqa: PLC0415 -- only when there is something to say

    console = make_console(stderr=True, soft_wrap=True)
    for line in message.splitlines() or [""]:
        console.print(Text.assemble(("signoff: ", "bold red"), line))


def _wants_json(ctx: Any) -> bool:  # noqa: ANN401 -- as typer has it
    """Say whether the command line asks for JSON."""
    words = [*getattr(ctx, "_protected_args", ()), *ctx.args]
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def _is_typers(error: BaseException) -> bool:
    """Say whether typer deals with it: wrong usage, help, and exits."""
    return type(error).__module__.startswith("typer.")
