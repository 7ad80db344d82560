"""Turns errors of commands into messages and exit codes."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import typer
from typer.core import TyperGroup

from signoff.cli.command_help import GROUPS, add_examples, group_of, without_flag_types
from signoff.cli.terminal import make_console, say_json
from signoff.core.base.errors import ConfigError, SignoffError

REFUSED = 1
"""The exit code of a command that could not do what it was called for."""
USAGE = 2
"""The exit code of a wrong command line, or of settings with errors."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, as in shells."""

DEBUG = "SIGNOFF_DEBUG"
"""The environment variable that shows tracebacks."""

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
"""The extra that installs a package, and the distribution of the package."""


_DISK_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""The errors of a disk that cannot store more."""
_NO_ACCESS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
"""The errors of files that this user may not use."""


class Commands(TyperGroup):
    """A group of commands that reports errors as lines on standard error, not as tracebacks.

    Its help groups the commands by task, and shows examples of each.
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
        return add_examples(command, [cmd_name])

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 -- as typer has it
        """Return the options, flags without a type."""
        return without_flag_types(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 -- as typer has it
        """Run the command; an exception becomes a message and an exit code."""
        words = _words(ctx)
        as_json = "--json" in words
        try:
            _require_values(words)
            return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            if _is_of_typer(error):
                _say_plainly(error)
                message = getattr(error, "format_message", None)
                if not as_json or message is None:
                    raise
                report(type(error).__name__, message(), as_json=True)
                raise typer.Exit(USAGE) from error
            raise typer.Exit(exit_code(error, as_json=as_json)) from error


def exit_code(error: BaseException, *, as_json: bool = False) -> int:
    """Report an exception of a command, and return the exit code."""
    if isinstance(error, SignoffError):
        report(type(error).__name__, str(error), as_json=as_json)
        return USAGE if isinstance(error, ConfigError) else REFUSED
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The reader of the output has closed it, as `head` does. That is no error.
        _discard_output()
        return 0
    if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
        _discard_output()
        what = error.filename or "The output, or a file,"
        _write_error(
            f"{what} cannot be written: {error.strerror}. Earlier changes of this command "
            "stay. Free some space, and check the result before you run it again."
        )
        return REFUSED
    if isinstance(error, OSError) and error.errno in _NO_ACCESS and error.filename is not None:
        where = os.path.abspath(os.fsdecode(error.filename))  # noqa: PTH100 -- also of bytes
        text = f"{where}: {error.strerror}. Check the rights of this user there and in its folder."
        report(type(error).__name__, text, as_json=as_json)
        return REFUSED
    if os.environ.get(DEBUG):
        raise error
    remedy = install_hint(error) if isinstance(error, ModuleNotFoundError) else None
    fault = (
        f"{type(error).__name__}: {error}. This is a fault in Signoff; {DEBUG}=1 shows where it "
        "happened."
    )
    report(type(error).__name__, remedy or fault, as_json=as_json)
    return REFUSED


def _discard_output() -> None:
    # Otherwise Python writes the rest of the output when it exits, and fails again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def install_hint(error: ModuleNotFoundError) -> str | None:
    """Return how to install a missing module; None if it belongs to no extra of Signoff."""
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        return None
    extra, distribution = _EXTRAS[package]
    return f"{distribution} is not installed, and this needs it: pip install 'signoff[{extra}]'"


def report(kind: str, message: str, *, as_json: bool) -> None:
    """Write an error: as text to standard error, or as JSON with its class to standard output."""
    if as_json:
        error = {"error": {"type": kind, "message": message}}
        say_json(json.dumps(error, ensure_ascii=False, indent=2))
    else:
        _write_error(message)


def _write_error(message: str) -> None:
    from rich.text import Text  # noqa: PLC0415 -- only when there is something to say

    console = make_console(stderr=True, soft_wrap=True)
    for line in message.splitlines() or [""]:
        console.print(Text.assemble(("signoff: ", "bold red"), line))


def _words(ctx: Any) -> list[str]:  # noqa: ANN401 -- as typer has it
    """Return the words of the command line after its common options, without those after ``--``."""
    words = [*getattr(ctx, "_protected_args", ()), *ctx.args]
    return words[: words.index("--")] if "--" in words else words


def _require_values(words: Sequence[str]) -> None:
    """Refuse an option with an empty value.

    It comes from a variable of a script that is not set. Most defaults are wider: without ``--as``
    a command acts as the operator, and without ``--app`` it is about all apps.

    Raises:
        typer.BadParameter: There is one.
    """
    for word, following in pairwise([*words, "-"]):
        option, equals, value = word.partition("=")
        if option.startswith("--") and not (value if equals else following).strip():
            raise typer.BadParameter(
                "it is empty: leave it out, or give a value", param_hint=option
            )


def _say_plainly(error: BaseException) -> None:
    """Replace pydantic's message about the value of an option, and say where --config stands."""
    if getattr(error, "option_name", "") == "--config":
        message = f"{getattr(error, 'message', '')}: it stands before the command"
        setattr(error, "message", message)  # noqa: B010 -- typer's classes have it
    if "pydantic" not in sys.modules:
        return
    from pydantic import ValidationError  # noqa: PLC0415 -- only if an option has an error

    from signoff.core.base.plain import plainly  # noqa: PLC0415

    cause = error.__cause__
    if isinstance(cause, ValidationError) and hasattr(error, "message"):
        found = dict.fromkeys(plainly(one) for one in cause.errors(include_url=False))
        setattr(error, "message", ", or ".join(found))  # noqa: B010 -- typer's classes have it


def _is_of_typer(error: BaseException) -> bool:
    """Return whether typer handles an exception: wrong usage, help and exits."""
    return type(error).__module__.startswith("typer.")
