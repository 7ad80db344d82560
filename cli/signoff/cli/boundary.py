"""The border between commands and the terminal: what errors look like, and what they exit with."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

import typer
from typer.core import TyperGroup

from signoff.cli.terminal import make_console
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
    "opentelemetry": ("otel", "OpenTelemetry"),
}
"""Which extra brings a package, and the name of the distribution that has it."""


class Commands(TyperGroup):
    """A group of commands whose errors are lines on standard error, never tracebacks."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 -- as typer has it
        """Run the command and turn what it raises into a message and an exit code."""
        try:
            return super().invoke(ctx)
        except SignoffError as error:
            complain(str(error))
            code = USAGE if isinstance(error, ConfigError) else REFUSED
            raise typer.Exit(code) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(INTERRUPTED) from error
        except BrokenPipeError as error:
            # The reader of our output has closed it: all is well, and nothing more can be said.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from error
        except Exception as error:
            if _is_typers(error) or os.environ.get(DEBUG):
                raise
            remedy = missing(error) if isinstance(error, ModuleNotFoundError) else None
            fault = (
                f"{type(error).__name__}: {error}. This is a fault in Signoff; {DEBUG}=1 shows "
                "where it happened."
            )
            complain(remedy or fault)
            raise typer.Exit(REFUSED) from error


def missing(error: ModuleNotFoundError) -> str | None:
    """Return which extra of the package has a module that is not there, None for any other."""
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        return None
    extra, brings = _EXTRAS[package]
    return f"{brings} is not installed, and this needs it: pip install 'signoff[{extra}]'"


def complain(message: str) -> None:
    """Write a message to standard error."""
    from rich.text import Text  # noqa: PLC0415 -- only when there is something to say

    console = make_console(stderr=True, soft_wrap=True)
    for line in message.splitlines() or [""]:
        console.print(Text.assemble(("signoff: ", "bold red"), line))


def _is_typers(error: Exception) -> bool:
    """Say whether typer deals with it: wrong usage, help, and exits."""
    return type(error).__module__.startswith("typer.")
