"""Agents are loaded by a process of its own: the framework takes longer than all other checks."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, Self


class Problem(NamedTuple):
    """What is wrong with an agent, and whether it fails rather than works with a catch."""

    text: str
    broken: bool


class LoadingFailed(Exception):
    """The agents cannot be loaded here; the message says why.

    Attributes:
        broken: Whether an agent has failed; otherwise the framework is not installed.
    """

    def __init__(self, message: str, *, broken: bool) -> None:
        super().__init__(message)
        self.broken = broken


class AgentLoading:
    """A process that imports the framework at once, and loads agents when it is told which.

    What agents print while they load goes to standard error.
    """

    def __init__(self) -> None:
        # Without the working directory in front: agents find what a worker finds.
        self._process = subprocess.Popen(  # noqa: S603 -- this very package
            [sys.executable, "-P", "-m", __name__],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def problems(self, folder: Path, code: dict[str, Any]) -> dict[str, list[Problem]]:
        """Load every agent of a folder; return what is wrong with each. It can be called once.

        Args:
            folder: The folder.
            code: The settings of [ces] that say what code may do, as JSON.

        Raises:
            LoadingFailed: The framework is not installed, or an agent has ended the process.
        """
        out, _ = self._process.communicate(json.dumps([str(folder), code]))
        if not out:
            status = self._process.returncode
            text = f"an agent has ended the process that loads it, with status {status}"
            raise LoadingFailed(text, broken=True)
        answer = json.loads(out)
        if isinstance(answer, str):
            raise LoadingFailed(answer, broken=False)
        return {name: [Problem(*one) for one in found] for name, found in answer.items()}


def main() -> None:
    """Answer one request on standard input."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answer:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        remedy = _import_adk()
        if request := sys.stdin.read():
            from signoff.cli.doctor.agents import load_problems, of_adk  # noqa: PLC0415 -- slow

            folder, code = json.loads(request)
            if remedy and of_adk(Path(folder)):
                json.dump(f"{remedy}; workers need it", answer)
            else:
                json.dump(load_problems(Path(folder), code), answer)


def _import_adk() -> str:
    """Import ADK, while the settings are read; return what to do where it is not installed."""
    try:
        importlib.import_module("signoff.worker.adk.inspection")
        importlib.import_module("signoff.worker.ces.rules")
    except ModuleNotFoundError as error:
        from signoff.cli.boundary import missing  # noqa: PLC0415 -- nothing else needs typer

        if (remedy := missing(error)) is None:
            raise
        return remedy
    return ""


if __name__ == "__main__":
    main()
