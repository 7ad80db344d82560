"""Lists the folders of agents without importing ADK's sessions and runners, which takes long."""

from __future__ import annotations

import traceback
from collections.abc import Collection
from pathlib import Path

from signoff.core.base.errors import AppNotFound, ConfigError


def app_names(folder: Path) -> list[str]:
    """Return the names of the agent folders, as `adk web` would list them.

    Raises:
        ConfigError: There is no such folder.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"{folder} is not a folder. It holds one folder for each agent, as for `adk web`; "
            "`signoff init` writes an example into an empty folder.",
            key="agents.folder",
        )
    return sorted(
        one.name
        for one in folder.iterdir()
        if one.is_dir()
        and not one.name.startswith((".", "_"))
        and any((one / name).is_file() for name in ("agent.py", "__init__.py", "root_agent.yaml"))
    )


def agents_in(folder: Path, remote: Collection[str] = ()) -> list[str]:
    """Return the names of the agents in the folder, and then those of the remote agents.

    Args:
        folder: The folder of the agents' folders. With remote agents it may be missing.
        remote: The names of the agents behind an API server.

    Raises:
        ConfigError: There is no such folder, and no remote agent.
        AppNotFound: There is no agent at all.
    """
    local = app_names(folder) if folder.is_dir() or not remote else []
    if not (found := [*local, *(name for name in remote if name not in local)]):
        raise AppNotFound(
            f"There is no agent in {folder}: nothing to work on. It has a folder for each agent; "
            "`signoff init` writes an example into an empty folder."
        )
    return found


def require_agent(name: str, folder: Path) -> None:
    """Require that a folder has an agent.

    Raises:
        AppNotFound: It has not.
    """
    if name not in (found := app_names(folder)):
        names = ", ".join(found) or "none"
        raise AppNotFound(f"There is no agent {name!r} in {folder}. There are: {names}.")


def load_problem(name: str, error: BaseException, folder: Path) -> str:
    """Return why an agent does not load, with the file and the line in its folder.

    Args:
        name: The agent.
        error: The error of ADK's loader, which wraps the error of the agent.
        folder: The folder of the agents' folders.
    """
    first, cause = error, error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    place = _place(cause, folder)
    # Without a place in the agent's code, it is an error of the loader itself.
    shown = cause if place else first
    message = str(shown).removeprefix(f"Fail to load {name!r} module. ").partition("\n")[0]
    if isinstance(shown, SyntaxError):
        message = shown.msg.removeprefix(f"Fail to load {name!r} module. ")
    text = f"{place}{type(shown).__name__}: {message.rstrip(':')}"
    if isinstance(shown, ModuleNotFoundError):
        text += f". Install it into the environment of the workers: pip install {shown.name}"
    return text


def _place(error: BaseException, folder: Path) -> str:
    """Return ``file:line: `` of the last line of a traceback that is in a folder; "" if none is."""
    steps = [(one.filename, one.lineno) for one in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        steps.append((error.filename or "", error.lineno))
    inside = [(file, line) for file, line in steps if Path(file).is_relative_to(folder)]
    return f"{inside[-1][0]}:{inside[-1][1]}: " if inside else ""
