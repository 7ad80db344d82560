"""Loads agents in a separate process, because importing the framework takes longest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, Self


class Problem(NamedTuple):
    """A problem with an agent; `broken` if the agent fails, else a limitation."""

    text: str
    broken: bool


class Loaded(NamedTuple):
    """What is known of an agent after loading it.

    Attributes:
        problems: Its problems.
        tools: The arguments of each of its tools, by name; None if it may have other tools.
    """

    problems: list[Problem]
    tools: dict[str, list[str]] | None = None


class LoadingFailed(Exception):
    """The agents cannot be loaded here; the message says why.

    Attributes:
        broken: True if an agent has failed; False if the framework is not installed.
    """

    def __init__(self, message: str, *, broken: bool) -> None:
        super().__init__(message)
        self.broken = broken


class AgentLoading:
    """A process that imports the framework immediately, and loads agents on request.

    Output of the agents while they load goes to standard error.
    """

    def __init__(self) -> None:
        # -P keeps the working directory out of sys.path, so agents import the same as in a worker.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "signoff.cli.doctor.agents"],
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

    def load(self, folder: Path, code: dict[str, Any]) -> dict[str, Loaded]:
        """Load all agents of a folder, with [ces] as JSON; return what is known of each. Call once.

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
        return {
            name: Loaded([Problem(*one) for one in problems], tools)
            for name, (problems, tools) in answer.items()
        }
